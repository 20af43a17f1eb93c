//===- tests/ptx/SharedMemory.cpp - Shared memory under watch -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "SharedMemory.h"
#include "Machine.h"
#include <algorithm>
#include <fmt/format.h>

namespace attn::ptx {

namespace {

constexpr size_t StaticLimit = 48 * 1024;

/// Bytes of shared memory that a block may have, from the tables of the
/// programming guide; unknown targets get the least of them.
size_t totalLimit(const std::string &target) {
  static constexpr std::pair<std::string_view, size_t> Limits[] = {
      {"sm_80", 163}, {"sm_86", 99},  {"sm_87", 163},
      {"sm_89", 99},  {"sm_90", 227}, {"sm_100", 227}};
  size_t limit = 99;
  for (auto [name, kilobytes] : Limits)
    if (target == name || target == std::string(name) + "a")
      limit = kilobytes;
  return limit * 1024;
}

} // namespace

SharedMemory::SharedMemory(const Program &program, const Kernel &kernel,
                           const Launch &launch, size_t warpCount)
    : warps(warpCount), checks(launch.checks) {
  auto refuse = [&](const std::string &message) {
    throw Error(0, fmt::format("{}: kernel {}: {}", program.name,
                               kernel.info.name, message));
  };
  uint64_t end = kernel.dynamicStart + launch.dynamicShared;
  bool hasDynamic = false;
  start = kernel.dynamicStart;
  for (const Placed &placed : kernel.shared) {
    start = std::min(start, placed.address);
    if (placed.dynamic && hasDynamic)
      continue; // at the same place as the first
    hasDynamic |= placed.dynamic;
    uint64_t bytes = placed.dynamic ? launch.dynamicShared : placed.bytes;
    objects.push_back({placed.address, bytes, &placed});
  }
  if (launch.dynamicShared != 0 && !hasDynamic)
    refuse(fmt::format("{} bytes of dynamic shared memory for a kernel that "
                       "declares none",
                       launch.dynamicShared));
  totalBytes = kernel.info.staticShared + launch.dynamicShared;
  if (kernel.info.staticShared > StaticLimit)
    refuse(fmt::format("{} bytes of static shared memory, at most {}",
                       kernel.info.staticShared, StaticLimit));
  if (totalBytes > totalLimit(program.target))
    refuse(fmt::format("{} bytes of shared memory, {} has at most {}",
                       totalBytes, program.target, totalLimit(program.target)));
  // The storage begins and ends at multiples of any granule.
  start = start / 16 * 16;
  storage.resize((end - start + 31) / 16 * 16);
  shift = unsigned(__builtin_ctz(kernel.sharedGranule));
  if (checks) {
    cells.resize(storage.size() >> shift);
    readers.resize(cells.size() * warps);
  }
  reset();
}

void SharedMemory::reset() {
  // NaNs in every format, for whatever the checks should miss.
  std::fill(storage.begin(), storage.end(), std::byte(0xff));
  std::fill(cells.begin(), cells.end(), Cell());
  std::fill(readers.begin(), readers.end(), 0);
}

std::string SharedMemory::place(uint64_t address) const {
  const Object *nearest = nullptr;
  for (const Object &object : objects)
    if (object.start <= address && (!nearest || nearest->start < object.start))
      nearest = &object;
  if (!nearest)
    return fmt::format("shared address {:#x}", address);
  return fmt::format("{}+{}", nearest->placed->name, address - nearest->start);
}

void SharedMemory::failBounds(Warp &warp, const Instruction &instruction,
                              unsigned lane, uint64_t address,
                              unsigned bytes) const {
  warp.fail(instruction, lane,
            fmt::format("{} bytes at {} are out of bounds of shared memory",
                        bytes, place(address)));
}

std::byte *SharedMemory::locate(Warp &warp, const Instruction &instruction,
                                unsigned lane, uint64_t address,
                                unsigned bytes) {
  auto inside = [&](const Object &object) {
    return address - object.start < object.bytes &&
           bytes <= object.bytes - (address - object.start);
  };
  if (lastObject >= objects.size() || !inside(objects[lastObject])) {
    auto found = std::find_if(objects.begin(), objects.end(), inside);
    if (found == objects.end())
      failBounds(warp, instruction, lane, address, bytes);
    lastObject = size_t(found - objects.begin());
  }
  if ((address & (bytes - 1)) != 0)
    warp.fail(instruction, lane,
              fmt::format("{} bytes at {} are misaligned: '{}' is declared "
                          "with .align {}",
                          bytes, place(address),
                          objects[lastObject].placed->name,
                          objects[lastObject].placed->align));
  return storage.data() + (address - start);
}

void SharedMemory::failRace(Warp &warp, const Instruction &instruction,
                            unsigned lane, uint64_t granule, const char *what,
                            uint32_t otherWarp, unsigned otherLane,
                            int otherLine) const {
  std::string other =
      otherLane == ManyLanes
          ? fmt::format("warp {}", otherWarp)
          : fmt::format("warp {} lane {}", otherWarp, otherLane);
  if (otherLine != 0)
    other += fmt::format(" at line {}", otherLine);
  warp.fail(instruction, lane,
            fmt::format("race: {} of {} is not ordered after the access by {}",
                        what, place(start + (granule << shift)), other));
}

void SharedMemory::checkWriter(Warp &warp, const Instruction &instruction,
                               unsigned lane, unsigned self, uint64_t granule,
                               const Cell &cell, const char *what) const {
  if (cell.state == State::Pending)
    warp.fail(instruction, lane,
              fmt::format("{} of {} while the asynchronous copy that warp {} "
                          "lane {} began at line {} is under way",
                          what, place(start + (granule << shift)), cell.warp,
                          cell.lane, cell.line));
  if (cell.state != State::Written)
    return;
  bool ordered = cell.warp != warp.index
                     ? cell.clock <= warp.known[cell.warp]
                     : cell.lane == self || cell.clock < warp.clock();
  if (!ordered)
    failRace(warp, instruction, lane, granule, what, cell.warp, cell.lane,
             cell.line);
}

const std::byte *SharedMemory::read(Warp &warp, const Instruction &instruction,
                                    unsigned lane, uint64_t address,
                                    unsigned bytes, unsigned reader) {
  std::byte *found = locate(warp, instruction, lane, address, bytes);
  if (!checks)
    return found;
  uint64_t first = (address - start) >> shift;
  uint64_t end = (address - start + bytes) >> shift;
  for (uint64_t granule = first; granule < end; granule++) {
    const Cell &cell = cells[granule];
    if (cell.state == State::Empty)
      warp.fail(instruction, lane,
                fmt::format("read of {}, which nobody has written",
                            place(start + (granule << shift))));
    checkWriter(warp, instruction, lane, reader, granule, cell, "read");
    uint32_t &last = readers[granule * warps + warp.index];
    bool another = last >> LaneBits == warp.clock() &&
                   (last & ((1U << LaneBits) - 1)) != reader;
    last = warp.clock() << LaneBits | (another ? ManyLanes : reader);
  }
  return found;
}

void SharedMemory::overwrite(Warp &warp, const Instruction &instruction,
                             unsigned lane, uint64_t address, unsigned bytes,
                             State state) {
  uint64_t first = (address - start) >> shift;
  uint64_t end = (address - start + bytes) >> shift;
  for (uint64_t granule = first; granule < end; granule++) {
    Cell &cell = cells[granule];
    checkWriter(warp, instruction, lane, lane, granule, cell, "write");
    for (uint32_t other = 0; other < warps; other++) {
      uint32_t last = readers[granule * warps + other];
      uint32_t clock = last >> LaneBits;
      unsigned reader = last & ((1U << LaneBits) - 1);
      bool ordered = other != warp.index
                         ? clock <= warp.known[other]
                         : reader == lane || clock < warp.clock();
      if (last != 0 && !ordered)
        failRace(warp, instruction, lane, granule, "write", other, reader, 0);
    }
    cell = {warp.clock(), instruction.line, uint16_t(warp.index), uint8_t(lane),
            state};
  }
}

std::byte *SharedMemory::write(Warp &warp, const Instruction &instruction,
                               unsigned lane, uint64_t address,
                               unsigned bytes) {
  std::byte *found = locate(warp, instruction, lane, address, bytes);
  if (checks)
    overwrite(warp, instruction, lane, address, bytes, State::Written);
  return found;
}

std::byte *SharedMemory::beginAsync(Warp &warp, const Instruction &instruction,
                                    unsigned lane, uint64_t address,
                                    unsigned bytes) {
  std::byte *found = locate(warp, instruction, lane, address, bytes);
  if (checks)
    overwrite(warp, instruction, lane, address, bytes, State::Pending);
  return found;
}

std::byte *SharedMemory::endAsync(Warp &warp, unsigned lane, uint64_t address,
                                  unsigned bytes, int line) {
  uint64_t first = (address - start) >> shift;
  uint64_t end = (address - start + bytes) >> shift;
  for (uint64_t granule = first; checks && granule < end; granule++)
    cells[granule] = {warp.clock(), line, uint16_t(warp.index), uint8_t(lane),
                      State::Written};
  return storage.data() + (address - start);
}

} // namespace attn::ptx

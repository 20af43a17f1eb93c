//===- tests/ptx/GlobalMemory.cpp - The memory that a launch may touch ----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "GlobalMemory.h"
#include "Machine.h"
#include <algorithm>
#include <fmt/format.h>

namespace attn::ptx {

namespace {

/// Room for an array at an address that is a multiple of its alignment but not
/// of twice as much.
constexpr size_t roomFor(const Variable &variable) {
  return variable.bytes + 3 * variable.align;
}
uint64_t placeIn(const std::vector<std::byte> &room, size_t align) {
  uint64_t address = reinterpret_cast<uint64_t>(room.data());
  return (address + 2 * align - 1) / (2 * align) * (2 * align) + align;
}

} // namespace

GlobalMemory::GlobalMemory(const Program &from, const Kernel &kernel,
                           const Launch &launch)
    : program(from), checks(launch.checks),
      shift(unsigned(__builtin_ctz(kernel.globalGranule))) {
  for (const Region &region : launch.memory) {
    auto address = reinterpret_cast<uint64_t>(region.data);
    bool power = (region.align & (region.align - 1)) == 0;
    if (region.align != 0 && (!power || address % region.align != 0))
      throw Error(0,
                  fmt::format("{}: kernel {}: the region '{}' at {:#x} is "
                              "not aligned to {}, or that is no power of two",
                              program.name, kernel.info.name, region.name,
                              address, region.align));
    areas.push_back({address,
                     region.bytes,
                     region.writable,
                     region.name,
                     region.align,
                     {}});
  }
  for (const Variable &variable : program.variables) {
    std::vector<std::byte> &room =
        variables.emplace_back(roomFor(variable), std::byte(0));
    uint64_t address = placeIn(room, variable.align);
    std::copy(variable.initial.begin(), variable.initial.end(),
              reinterpret_cast<std::byte *>(address));
    areas.push_back({address,
                     variable.bytes,
                     variable.space == Space::Global,
                     variable.name,
                     variable.align,
                     {}});
  }
  std::sort(areas.begin(), areas.end(),
            [](const Area &a, const Area &b) { return a.start < b.start; });
  for (size_t i = 1; i < areas.size(); i++)
    if (areas[i - 1].start + areas[i - 1].bytes > areas[i].start &&
        (areas[i - 1].writable || areas[i].writable))
      throw Error(0, fmt::format("{}: kernel {}: the regions '{}' and '{}' "
                                 "overlap and one may be written",
                                 program.name, kernel.info.name,
                                 areas[i - 1].name, areas[i].name));
  if (!checks)
    return;
  for (Area &area : areas)
    if (area.writable && area.bytes != 0)
      area.cells.resize(((area.start + area.bytes - 1) >> shift) -
                        (area.start >> shift) + 1);
}

uint64_t GlobalMemory::addressOf(uint32_t variable) const {
  return placeIn(variables[variable], program.variables[variable].align);
}

GlobalMemory::Area &GlobalMemory::locate(Warp &warp,
                                         const Instruction &instruction,
                                         unsigned lane, uint64_t address,
                                         unsigned bytes, unsigned align,
                                         const char *what) {
  auto inside = [&](const Area &area) {
    return address - area.start < area.bytes &&
           bytes <= area.bytes - (address - area.start);
  };
  if (lastArea >= areas.size() || !inside(areas[lastArea])) {
    auto after = std::upper_bound(
        areas.begin(), areas.end(), address,
        [](uint64_t value, const Area &area) { return value < area.start; });
    if (after == areas.begin() || !inside(*std::prev(after))) {
      std::string near = "no region begins before it";
      if (after != areas.begin())
        near = fmt::format("'{}' has {} bytes and begins {} bytes before",
                           std::prev(after)->name, std::prev(after)->bytes,
                           address - std::prev(after)->start);
      warp.fail(instruction, lane,
                fmt::format("{} of {} bytes at {:#x} is out of bounds: {}",
                            what, bytes, address, near));
    }
    lastArea = size_t(std::prev(after) - areas.begin());
  }
  Area &area = areas[lastArea];
  if ((address & (align - 1)) != 0 || (area.align != 0 && area.align < align))
    warp.fail(
        instruction, lane,
        fmt::format("{} of {} bytes at {}+{} is misaligned: address {:#x}{}",
                    what, bytes, area.name, address - area.start, address,
                    area.align != 0
                        ? fmt::format(", declared alignment {}", area.align)
                        : ""));
  return area;
}

bool GlobalMemory::ordered(const Warp &warp, unsigned lane, uint32_t otherBlock,
                           uint32_t otherWarp, uint32_t otherLane,
                           uint32_t otherClock) const {
  if (otherBlock == 0)
    return true;
  if (otherBlock != block)
    return false;
  return otherWarp != warp.index
             ? otherClock <= warp.known[otherWarp]
             : otherLane == lane || otherClock < warp.clock();
}

void GlobalMemory::failRace(Warp &warp, const Instruction &instruction,
                            unsigned lane, const Area &area, uint64_t granule,
                            const char *what, const char *other) const {
  uint64_t offset = (granule + (area.start >> shift)) << shift;
  warp.fail(
      instruction, lane,
      fmt::format("race: {} of {}+{} is not ordered after a {} by another "
                  "thread",
                  what, area.name, std::max(offset, area.start) - area.start,
                  other));
}

const std::byte *GlobalMemory::read(Warp &warp, const Instruction &instruction,
                                    unsigned lane, uint64_t address,
                                    unsigned bytes) {
  return readAligned(warp, instruction, lane, address, bytes, bytes);
}

const std::byte *GlobalMemory::readAligned(Warp &warp,
                                           const Instruction &instruction,
                                           unsigned lane, uint64_t address,
                                           unsigned bytes, unsigned align) {
  Area &area = locate(warp, instruction, lane, address, bytes, align, "read");
  if (!area.cells.empty()) {
    uint64_t base = area.start >> shift;
    for (uint64_t g = (address >> shift) - base;
         g < ((address + bytes - 1) >> shift) - base + 1; g++) {
      Cell &cell = area.cells[g];
      if (!ordered(warp, lane, cell.writeBlock, cell.writeWarp, cell.writeLane,
                   cell.writeClock))
        failRace(warp, instruction, lane, area, g, "read", "write");
      cell.manyBlocks |= cell.readBlock != 0 && cell.readBlock != block;
      cell.readBlock = block;
      cell.readClock = warp.clock();
      cell.readWarp = uint16_t(warp.index);
      cell.readLane = uint8_t(lane);
    }
  }
  return reinterpret_cast<const std::byte *>(address);
}

std::byte *GlobalMemory::write(Warp &warp, const Instruction &instruction,
                               unsigned lane, uint64_t address,
                               unsigned bytes) {
  Area &area = locate(warp, instruction, lane, address, bytes, bytes, "write");
  if (!area.writable)
    warp.fail(instruction, lane,
              fmt::format("write of {} bytes to {}+{}, which is read-only",
                          bytes, area.name, address - area.start));
  if (!area.cells.empty()) {
    uint64_t base = area.start >> shift;
    for (uint64_t g = (address >> shift) - base;
         g < ((address + bytes - 1) >> shift) - base + 1; g++) {
      Cell &cell = area.cells[g];
      if (!ordered(warp, lane, cell.writeBlock, cell.writeWarp, cell.writeLane,
                   cell.writeClock))
        failRace(warp, instruction, lane, area, g, "write", "write");
      if (cell.manyBlocks || !ordered(warp, lane, cell.readBlock, cell.readWarp,
                                      cell.readLane, cell.readClock))
        failRace(warp, instruction, lane, area, g, "write", "read");
      cell.writeBlock = block;
      cell.writeClock = warp.clock();
      cell.writeWarp = uint16_t(warp.index);
      cell.writeLane = uint8_t(lane);
    }
  }
  return reinterpret_cast<std::byte *>(address);
}

} // namespace attn::ptx

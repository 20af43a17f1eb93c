//===- tests/ptx/Memory.cpp - ld and st -----------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Conflicts.h"
#include "Decoder.h"
#include "Machine.h"
#include <algorithm>
#include <fmt/format.h>

namespace attn::ptx {

namespace {

// op[0]: the address; op[1...]: the elements' registers. small: the space,
// whether the address has 64 bits, elements, bytes of an element and of a
// register, whether elements extend their sign.
struct Access {
  explicit Access(const Instruction &i)
      : space(Space(i.small[0])), wide(i.small[1] != 0), elements(i.small[2]),
        bytes(i.small[3]), registerBytes(i.small[4]),
        isSigned(i.small[5] != 0) {}
  unsigned total() const { return elements * bytes; }
  Space space;
  bool wide;
  unsigned elements, bytes, registerBytes;
  bool isSigned;
};

/// Which space an address is in, and where there.
struct Location {
  Space space;
  uint64_t address;
};
Location resolve(Space space, uint64_t address) {
  if (space != Space::Generic)
    return {space, address};
  for (auto [window, inside] : {std::pair{SharedWindow, Space::Shared},
                                std::pair{LocalWindow, Space::Local},
                                std::pair{ParamWindow, Space::Param}})
    if (address - window < WindowBytes)
      return {inside, address - window};
  return {Space::Global, address};
}

const std::byte *readParameter(Warp &warp, const Instruction &i, unsigned lane,
                               uint64_t address, unsigned bytes) {
  for (const ParameterInfo &parameter : warp.machine->kernel.info.parameters) {
    uint64_t offset = address - parameter.offset;
    if (offset >= parameter.bytes || bytes > parameter.bytes - offset)
      continue;
    if (address % bytes != 0)
      warp.fail(i, lane,
                fmt::format("{} bytes at {}+{} are misaligned", bytes,
                            parameter.name, offset));
    return warp.machine->params.data() + address;
  }
  warp.fail(i, lane,
            fmt::format("{} bytes at {} are out of bounds of the parameters",
                        bytes, address));
}

/// Where a lane's local memory has the address; checks its bounds.
size_t locateLocal(Warp &warp, const Instruction &i, unsigned lane,
                   uint64_t address, unsigned bytes) {
  for (const Placed &placed : warp.machine->kernel.local) {
    uint64_t offset = address - placed.address;
    if (offset >= placed.bytes || bytes > placed.bytes - offset)
      continue;
    if (address % bytes != 0)
      warp.fail(i, lane,
                fmt::format("{} bytes at {}+{} are misaligned: declared with "
                            ".align {}",
                            bytes, placed.name, offset, placed.align));
    return (warp.index * Lanes + lane) * warp.machine->localBytes + address;
  }
  warp.fail(i, lane,
            fmt::format("{} bytes at {:#x} are out of bounds of local memory",
                        bytes, address));
}

const std::byte *readLocal(Warp &warp, const Instruction &i, unsigned lane,
                           uint64_t address, unsigned bytes) {
  Machine &machine = *warp.machine;
  size_t at = locateLocal(warp, i, lane, address, bytes);
  auto written = machine.localWritten.begin() + ptrdiff_t(at);
  if (machine.launch.checks && std::count(written, written + bytes, 0) != 0)
    warp.fail(i, lane, "read of local memory that was never written");
  return machine.local.data() + at;
}

std::byte *writeLocal(Warp &warp, const Instruction &i, unsigned lane,
                      uint64_t address, unsigned bytes) {
  size_t at = locateLocal(warp, i, lane, address, bytes);
  std::fill_n(warp.machine->localWritten.begin() + ptrdiff_t(at), bytes, 1);
  return warp.machine->local.data() + at;
}

void putElement(std::byte *into, unsigned registerBytes, const std::byte *from,
                unsigned bytes, bool isSigned) {
  if (registerBytes == bytes) {
    std::memcpy(into, from, bytes);
    return;
  }
  uint64_t value = 0;
  std::memcpy(&value, from, bytes);
  if (isSigned && (value >> (8 * bytes - 1)) != 0)
    value |= ~uint64_t(0) << (8 * bytes);
  std::memcpy(into, &value, registerBytes);
}

void load(Warp &warp, const Instruction &i, Mask mask) {
  const Access access(i);
  Machine &machine = *warp.machine;
  Traffic traffic(machine.counts);
  bool global = false, shared = false;
  // A register of the address may be among the results.
  alignas(16) std::byte values[Lanes][32];
  forLanes(mask, [&](unsigned lane) {
    auto [space, address] =
        resolve(access.space, warp.base(i.op[0], access.wide, lane) + i.imm[0]);
    const std::byte *from = nullptr;
    switch (space) {
    case Space::Shared:
      from = machine.shared.read(warp, i, lane, address, access.total(), lane);
      traffic.shared(lane, address);
      shared = true;
      break;
    case Space::Param:
      from = readParameter(warp, i, lane, address, access.total());
      break;
    case Space::Local:
      from = readLocal(warp, i, lane, address, access.total());
      break;
    default:
      from = machine.global.read(warp, i, lane, address, access.total());
      traffic.global(address, access.total());
      global = true;
    }
    std::memcpy(values[lane], from, access.total());
  });
  for (unsigned element = 0; element < access.elements; element++) {
    std::byte *into = warp.lanes<std::byte>(i.op[1 + element]);
    forLanes(mask, [&](unsigned lane) {
      putElement(into + lane * access.registerBytes, access.registerBytes,
                 values[lane] + element * access.bytes, access.bytes,
                 access.isSigned);
    });
  }
  if (global)
    traffic.addRead();
  if (shared) {
    machine.counts.sharedAccesses++;
    machine.counts.sharedConflicts += traffic.conflicts(access.total());
  }
}

void store(Warp &warp, const Instruction &i, Mask mask) {
  const Access access(i);
  Machine &machine = *warp.machine;
  Traffic traffic(machine.counts);
  bool global = false, shared = false;
  forLanes(mask, [&](unsigned lane) {
    auto [space, address] =
        resolve(access.space, warp.base(i.op[0], access.wide, lane) + i.imm[0]);
    std::byte *into = nullptr;
    switch (space) {
    case Space::Shared:
      into = machine.shared.write(warp, i, lane, address, access.total());
      traffic.shared(lane, address);
      shared = true;
      break;
    case Space::Local:
      into = writeLocal(warp, i, lane, address, access.total());
      break;
    case Space::Param:
      warp.fail(i, lane, "write to a parameter");
    default:
      into = machine.global.write(warp, i, lane, address, access.total());
      traffic.global(address, access.total());
      global = true;
    }
    for (unsigned element = 0; element < access.elements; element++)
      std::memcpy(into + element * access.bytes,
                  warp.lanes<std::byte>(i.op[1 + element]) +
                      lane * access.registerBytes,
                  access.bytes);
  });
  if (global)
    traffic.addWritten();
  if (shared) {
    machine.counts.sharedAccesses++;
    machine.counts.sharedConflicts += traffic.conflicts(access.total());
  }
}

/// Modifiers that change no result here: hints about caching; volatile, since
/// every access happens where it is written; relaxed, which only asks for less
/// than the checks of races insist on anyway.
void takeHarmless(Decoder &decoder, bool loads) {
  if (decoder.take("relaxed"))
    decoder.takeOneOf({"cta", "cluster", "gpu", "sys"});
  else if (!decoder.take("volatile"))
    decoder.take("weak");
  for (const char *hint :
       {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
        "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B"})
    decoder.take(hint);
  if (loads)
    decoder.takeOneOf({"ca", "cg", "cs", "lu", "cv", ""});
  else
    decoder.takeOneOf({"wb", "cg", "cs", "wt", ""});
}

void decodeAccess(Decoder &decoder) {
  bool loads = decoder.root() == "ld";
  Space space = decoder.takeSpace();
  takeHarmless(decoder, loads);
  if (space == Space::Global && loads)
    decoder.take("nc");
  unsigned elements = decoder.take("v2") ? 2 : decoder.take("v4") ? 4 : 1;
  Type type = decoder.takeType();
  decoder.expectOperands(2);
  if (!loads && (space == Space::Param || space == Space::Const))
    decoder.unknown();
  if (type == Type::Pred || type == Type::Tf32 || type == Type::F16 ||
      type == Type::Bf16 || type == Type::F16x2 || type == Type::Bf16x2)
    decoder.unknown();
  Instruction &out = decoder.out;
  size_t data = loads ? 0 : 1;
  Decoder::Address address = decoder.address(1 - data, space);
  out.op[0] = address.base;
  out.imm[0] = address.offset;
  unsigned registerBits = 0;
  auto element = [&](const OperandText &operand, size_t n) {
    unsigned bits = 0;
    out.op[1 + n] = loads ? decoder.destination(operand, type, &bits)
                          : decoder.source(operand, type, &bits);
    if (operand.kind == OperandText::Kind::Sink && elements > 1)
      return; // a scratch register is as wide as any
    if (registerBits != 0 && bits != registerBits)
      decoder.fail("the registers of a vector differ in width");
    registerBits = bits;
  };
  if (elements == 1)
    element(decoder.operand(data), 0);
  else
    for (size_t n = 0; n < elements; n++)
      element(decoder.elements(data, elements)[n], n);
  unsigned bytes = bitsOf(type) / 8;
  out.small = {uint8_t(space),
               address.wide,
               uint8_t(elements),
               uint8_t(bytes),
               uint8_t(registerBits / 8),
               isSigned(type)};
  decoder.names.access(space, elements * bytes);
  decoder.done(loads ? load : store);
}

} // namespace

void addMemory(Opcodes &opcodes) {
  opcodes["ld"] = opcodes["st"] = decodeAccess;
}

} // namespace attn::ptx

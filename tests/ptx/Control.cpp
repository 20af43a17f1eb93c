//===- tests/ptx/Control.cpp - Branches and barriers ----------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Decoder.h"
#include "Machine.h"
#include <fmt/format.h>

namespace attn::ptx {

namespace {

void branch(Warp &warp, const Instruction &i, Mask mask) {
  warp.jump(i, mask, i.target);
}

void branchIndexed(Warp &warp, const Instruction &i, Mask mask) {
  const uint32_t *index = warp.lanes<uint32_t>(i.op[0]);
  // One jump for each target that lanes choose.
  while (mask != 0) {
    unsigned lane = firstLane(mask);
    if (index[lane] >= i.targets.size())
      warp.fail(i, lane,
                fmt::format("index {} into {} targets", index[lane],
                            i.targets.size()));
    Mask together = 0;
    forLanes(mask, [&](unsigned other) {
      if (index[other] == index[lane])
        together |= Mask(1) << other;
    });
    mask &= ~together;
    warp.jump(i, together, i.targets[index[lane]]);
  }
}

void leave(Warp &warp, const Instruction &i, Mask mask) { warp.exit(i, mask); }

void trap(Warp &warp, const Instruction &i, Mask mask) {
  warp.fail(i, firstLane(mask), "the kernel gives up");
}

void nothing(Warp &, const Instruction &, Mask) {}

/// A value that all lanes must agree on.
uint32_t uniform(Warp &warp, const Instruction &i, Mask mask, Slot slot) {
  const uint32_t *values = warp.lanes<uint32_t>(slot);
  uint32_t value = values[firstLane(mask)];
  forLanes(mask, [&](unsigned lane) {
    if (values[lane] != value)
      warp.fail(i, lane,
                fmt::format("lanes differ about a barrier: {} and {}", value,
                            values[lane]));
  });
  return value;
}

// op: the barrier, how many threads. small: whether the warp waits.
void barrier(Warp &warp, const Instruction &i, Mask mask) {
  uint32_t id = uniform(warp, i, mask, i.op[0]);
  uint32_t threads = 0;
  if (i.op[1] != NoSlot) {
    threads = uniform(warp, i, mask, i.op[1]);
    if (threads == 0)
      warp.fail(i, firstLane(mask), "a barrier for no threads");
  }
  warp.machine->arrive(warp, i, id, threads, i.small[0] != 0);
}

// Orders the accesses of the named lanes. Only where it names all lanes of the
// warp do the checks of races count it: a part of a warp has no clock.
void warpBarrier(Warp &warp, const Instruction &i, Mask mask) {
  if (mask == warp.present)
    warp.advanceClock(i);
}

void decodeBranch(Decoder &decoder) {
  decoder.take("uni");
  decoder.expectOperands(1);
  decoder.done(branch); // where to is known once all labels are
}

void decodeBranchIndexed(Decoder &decoder) {
  decoder.takeOneOf({"idx"});
  decoder.take("uni");
  decoder.expectOperands(2);
  decoder.out.op[0] = decoder.source(0, Type::U32);
  decoder.done(branchIndexed);
}

void decodeLeave(Decoder &decoder) {
  if (decoder.root() == "ret")
    decoder.take("uni");
  decoder.expectOperands(0);
  decoder.done(leave);
}

void decodeTrap(Decoder &decoder) {
  decoder.expectOperands(0);
  decoder.done(trap);
}

void decodeFence(Decoder &decoder) {
  // Between barriers nothing that a fence orders is ever seen: an access that
  // would need one alone is reported as a race.
  if (decoder.root() == "membar")
    decoder.takeOneOf({"cta", "gl", "sys"});
  else {
    decoder.takeOneOf({"sc", "acq_rel", ""});
    decoder.takeOneOf({"cta", "cluster", "gpu", "sys"});
  }
  decoder.expectOperands(0);
  decoder.done(nothing);
}

void decodeBarrier(Decoder &decoder) {
  Instruction &out = decoder.out;
  if (decoder.root() == "bar" && decoder.take("warp")) {
    decoder.takeOneOf({"sync"});
    decoder.expectOperands(1);
    decoder.membermask(0);
    return decoder.done(warpBarrier);
  }
  decoder.take("cta");
  bool waits = decoder.takeOneOf({"sync", "arrive"}) == "sync";
  if (decoder.root() == "barrier")
    decoder.take("aligned");
  decoder.expectOperands(waits ? 1 : 2, 2);
  out.op[0] = decoder.source(0, Type::U32);
  out.op[1] = decoder.operands() == 2 ? decoder.source(1, Type::U32) : NoSlot;
  out.small[0] = waits;
  out.gather = Gather::Present;
  decoder.done(barrier);
}

} // namespace

void addControl(Opcodes &opcodes) {
  opcodes["bra"] = decodeBranch;
  opcodes["brx"] = decodeBranchIndexed;
  opcodes["ret"] = opcodes["exit"] = decodeLeave;
  opcodes["trap"] = decodeTrap;
  opcodes["membar"] = opcodes["fence"] = decodeFence;
  opcodes["bar"] = opcodes["barrier"] = decodeBarrier;
}

} // namespace attn::ptx

//===- tests/ptx/Async.cpp - Copies that are under way --------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Async.h"
#include "Conflicts.h"
#include "Decoder.h"
#include "Machine.h"
#include <algorithm>
#include <fmt/format.h>

namespace attn::ptx {

AsyncCopies::Copy &AsyncCopies::begin(const Instruction &instruction, Mask mask,
                                      unsigned bytes) {
  if (count == copies.size())
    copies.emplace_back();
  Copy &copy = copies[count++];
  copy.lanes = mask;
  copy.bytes = bytes;
  copy.instruction = &instruction;
  copy.group = committed;
  return copy;
}

void AsyncCopies::commit(Mask mask) {
  forLanes(mask, [&](unsigned lane) { committed[lane]++; });
}

void AsyncCopies::finish(Warp &warp, Copy &copy, Mask mask) {
  forLanes(mask, [&](unsigned lane) {
    std::byte *into = warp.machine->shared.endAsync(
        warp, lane, copy.into[lane], copy.bytes, copy.instruction->line);
    const std::byte *from = copy.from[lane];
    unsigned read = copy.sourceBytes[lane];
    if (read != 0 && std::memcmp(from, copy.seen[lane].data(), read) != 0)
      warp.fail(*copy.instruction, lane,
                "the source of an asynchronous copy was overwritten while the "
                "copy was under way");
    std::memcpy(into, copy.seen[lane].data(), read);
    std::memset(into + read, 0, copy.bytes - read);
  });
  copy.lanes &= ~mask;
}

void AsyncCopies::wait(Warp &warp, Mask mask, uint32_t left) {
  for (size_t i = 0; i < count; i++) {
    Copy &copy = copies[i];
    Mask ended = 0;
    forLanes(copy.lanes & mask, [&](unsigned lane) {
      if (uint64_t(copy.group[lane]) + left < committed[lane])
        ended |= Mask(1) << lane;
    });
    if (ended != 0)
      finish(warp, copy, ended);
  }
  // What is over makes room; the others keep their order.
  size_t kept = 0;
  for (size_t i = 0; i < count; i++)
    if (copies[i].lanes != 0)
      std::swap(copies[kept++], copies[i]);
  count = kept;
}

void AsyncCopies::waitAll(Warp &warp, Mask mask) {
  commit(mask);
  wait(warp, mask, 0);
}

void AsyncCopies::checkExit(Warp &warp, const Instruction &instruction,
                            Mask mask) const {
  for (size_t i = 0; i < count; i++)
    if (Mask pending = copies[i].lanes & mask)
      warp.fail(instruction, firstLane(pending),
                fmt::format("exit while the asynchronous copy of line {} is "
                            "under way, {}",
                            copies[i].instruction->line,
                            copies[i].group[firstLane(pending)] ==
                                    committed[firstLane(pending)]
                                ? "in a group never committed"
                                : "never waited for"));
}

void AsyncCopies::reset() {
  count = 0;
  committed.fill(0);
}

namespace {

// op: shared address, global address, bytes to read; small: width of the three
// addresses and bytes of the copy.
void copyAsync(Warp &warp, const Instruction &i, Mask mask) {
  Machine &machine = *warp.machine;
  unsigned bytes = i.small[2];
  AsyncCopies::Copy &copy = warp.copies.begin(i, mask, bytes);
  Traffic traffic(machine.counts);
  forLanes(mask, [&](unsigned lane) {
    uint64_t into = warp.base(i.op[0], i.small[0] != 0, lane) + i.imm[0];
    uint64_t from = warp.base(i.op[1], true, lane) + i.imm[1];
    uint32_t read =
        i.op[2] == NoSlot ? bytes : warp.lanes<uint32_t>(i.op[2])[lane];
    if (read > bytes)
      warp.fail(i, lane,
                fmt::format("an asynchronous copy of {} bytes reads {}", bytes,
                            read));
    if (from % bytes != 0)
      warp.fail(i, lane,
                fmt::format("the source of a copy of {} bytes is misaligned: "
                            "address {:#x}",
                            bytes, from));
    copy.into[lane] = into;
    copy.sourceBytes[lane] = uint8_t(read);
    copy.from[lane] = nullptr;
    if (read != 0) {
      copy.from[lane] =
          machine.global.readAligned(warp, i, lane, from, read, bytes);
      std::memcpy(copy.seen[lane].data(), copy.from[lane], read);
      traffic.global(from, read);
    }
    machine.shared.beginAsync(warp, i, lane, into, bytes);
    traffic.shared(lane, into);
  });
  traffic.addRead();
  machine.counts.asyncConflicts += traffic.conflicts(bytes);
  if (!machine.launch.checks)
    warp.copies.waitAll(warp, mask);
}

void commitGroup(Warp &warp, const Instruction &, Mask mask) {
  warp.copies.commit(mask);
}
void waitGroup(Warp &warp, const Instruction &i, Mask mask) {
  warp.copies.wait(warp, mask, uint32_t(i.imm[0]));
}
void waitAll(Warp &warp, const Instruction &, Mask mask) {
  warp.copies.waitAll(warp, mask);
}

/// Hints about caching, which change no result.
void takeCacheHints(Decoder &decoder) {
  for (const char *hint : {"L2::64B", "L2::128B", "L2::256B"})
    decoder.take(hint);
}

void decodeCopy(Decoder &decoder) {
  if (!decoder.take("async"))
    decoder.unknown();
  if (decoder.take("commit_group")) {
    decoder.expectOperands(0);
    return decoder.done(commitGroup);
  }
  if (decoder.take("wait_all")) {
    decoder.expectOperands(0);
    return decoder.done(waitAll);
  }
  if (decoder.take("wait_group")) {
    decoder.expectOperands(1);
    decoder.out.imm[0] = decoder.immediate(0);
    if (decoder.out.imm[0] < 0)
      decoder.fail("a count of groups is not negative");
    return decoder.done(waitGroup);
  }
  bool bypass = decoder.takeOneOf({"ca", "cg"}) == "cg";
  decoder.takeOneOf({"shared", "shared::cta"});
  decoder.takeOneOf({"global"});
  takeCacheHints(decoder);
  decoder.expectOperands(3, 4);
  Decoder::Address into = decoder.address(0, Space::Shared);
  Decoder::Address from = decoder.address(1, Space::Global);
  int64_t bytes = decoder.immediate(2);
  if (bytes != 16 && (bypass || (bytes != 4 && bytes != 8)))
    decoder.fail(fmt::format("no asynchronous copy has {} bytes: .ca has 4, 8 "
                             "or 16, .cg has 16",
                             bytes));
  Instruction &out = decoder.out;
  out.op[0] = into.base;
  out.op[1] = from.base;
  out.op[2] = decoder.operands() == 4 ? decoder.source(3, Type::U32) : NoSlot;
  out.imm = {into.offset, from.offset};
  out.small[0] = into.wide;
  out.small[2] = uint8_t(bytes);
  decoder.names.access(Space::Shared, unsigned(bytes));
  decoder.done(copyAsync);
}

} // namespace

void addAsync(Opcodes &opcodes) { opcodes["cp"] = decodeCopy; }

} // namespace attn::ptx

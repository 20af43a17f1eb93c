//===- tests/ptx/Warpwide.cpp - What lanes do together --------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Decoder.h"
#include "Machine.h"
#include <algorithm>
#include <fmt/format.h>

namespace attn::ptx {

namespace {

enum class Shuffle : uint8_t { Up, Down, Butterfly, Index };

// op: the result, whether the source lane was in range, the value, the
// distance or lane, the clamp.
template <Shuffle How>
void shuffle(Warp &warp, const Instruction &i, Mask mask) {
  const uint32_t *value = warp.lanes<uint32_t>(i.op[2]);
  const uint32_t *by = warp.lanes<uint32_t>(i.op[3]);
  const uint32_t *clamp = warp.lanes<uint32_t>(i.op[4]);
  const Mask *members = warp.lanes<Mask>(i.membermask);
  uint32_t result[Lanes] = {};
  Mask inRange = 0;
  forLanes(mask, [&](unsigned lane) {
    int b = int(by[lane] & 31), c = int(clamp[lane] & 31);
    int segment = int(clamp[lane] >> 8 & 31), self = int(lane);
    int last = (self & segment) | (c & ~segment);
    int from = How == Shuffle::Up          ? self - b
               : How == Shuffle::Down      ? self + b
               : How == Shuffle::Butterfly ? self ^ b
                                           : (self & segment) | (b & ~segment);
    bool valid = How == Shuffle::Up ? from >= last : from <= last;
    if (!valid)
      from = self;
    if ((mask & members[lane]) >> from & 1)
      result[lane] = value[from];
    else
      warp.fail(
          i, lane,
          fmt::format("the value of lane {} is wanted, which takes no part",
                      from));
    inRange |= Mask(valid) << lane;
  });
  forLanes(mask, [&](unsigned lane) {
    warp.lanes<uint32_t>(i.op[0])[lane] = result[lane];
  });
  if (i.op[1] != NoSlot) {
    Mask &into = warp.predicate(i.op[1]);
    into = (into & ~mask) | inRange;
  }
}

enum class Vote : uint8_t { All, Any, Uniform, Ballot };

// op: the result, the predicate. small: whether the predicate is negated.
template <Vote How> void vote(Warp &warp, const Instruction &i, Mask mask) {
  Mask value = warp.predicate(i.op[1]);
  value = i.small[0] != 0 ? ~value : value;
  Mask result = 0;
  forLanes(mask, [&](unsigned lane) {
    Mask asked = warp.lanes<Mask>(i.membermask)[lane] & mask;
    Mask yes = value & asked;
    if (How == Vote::Ballot)
      warp.lanes<uint32_t>(i.op[0])[lane] = yes;
    bool holds = How == Vote::All   ? yes == asked
                 : How == Vote::Any ? yes != 0
                                    : yes == 0 || yes == asked;
    result |= Mask(holds) << lane;
  });
  if (How == Vote::Ballot)
    return;
  Mask &into = warp.predicate(i.op[0]);
  into = (into & ~mask) | result;
}

void activeMask(Warp &warp, const Instruction &i, Mask mask) {
  forLanes(mask,
           [&](unsigned lane) { warp.lanes<uint32_t>(i.op[0])[lane] = mask; });
}

struct Sum {
  static uint32_t of(uint32_t a, uint32_t b) { return a + b; }
};
struct And {
  static uint32_t of(uint32_t a, uint32_t b) { return a & b; }
};
struct Or {
  static uint32_t of(uint32_t a, uint32_t b) { return a | b; }
};
struct Xor {
  static uint32_t of(uint32_t a, uint32_t b) { return a ^ b; }
};
template <class T> struct Minimum {
  static uint32_t of(uint32_t a, uint32_t b) {
    return uint32_t(std::min(T(a), T(b)));
  }
};
template <class T> struct Maximum {
  static uint32_t of(uint32_t a, uint32_t b) {
    return uint32_t(std::max(T(a), T(b)));
  }
};

// op: the result, the value.
template <class Op> void reduce(Warp &warp, const Instruction &i, Mask mask) {
  const uint32_t *value = warp.lanes<uint32_t>(i.op[1]);
  uint32_t result[Lanes] = {};
  forLanes(mask, [&](unsigned lane) {
    Mask members = warp.lanes<Mask>(i.membermask)[lane] & mask;
    uint32_t sum = value[lane];
    forLanes(members & ~(Mask(1) << lane),
             [&](unsigned other) { sum = Op::of(sum, value[other]); });
    result[lane] = sum;
  });
  forLanes(mask, [&](unsigned lane) {
    warp.lanes<uint32_t>(i.op[0])[lane] = result[lane];
  });
}

void decodeShuffle(Decoder &decoder) {
  decoder.takeOneOf({"sync"});
  decoder.takeOneOf({"b32"});
  std::string_view how = decoder.takeOneOf({"up", "down", "bfly", "idx"});
  decoder.expectOperands(5);
  Instruction &out = decoder.out;
  const OperandText &result = decoder.operand(0);
  bool pair = result.kind == OperandText::Kind::Pair;
  out.op[0] = decoder.destination(pair ? result.parts[0] : result, Type::B32);
  out.op[1] = pair ? decoder.destination(result.parts[1], Type::Pred) : NoSlot;
  for (size_t n = 1; n <= 3; n++)
    out.op[n + 1] = decoder.source(n, Type::B32);
  decoder.membermask(4);
  decoder.done(how == "up"     ? shuffle<Shuffle::Up>
               : how == "down" ? shuffle<Shuffle::Down>
               : how == "bfly" ? shuffle<Shuffle::Butterfly>
                               : shuffle<Shuffle::Index>);
}

void decodeVote(Decoder &decoder) {
  decoder.takeOneOf({"sync"});
  std::string_view how = decoder.takeOneOf({"all", "any", "uni", "ballot"});
  bool ballot = how == "ballot";
  decoder.takeOneOf({ballot ? "b32" : "pred"});
  decoder.expectOperands(3);
  bool negated = false;
  decoder.out.op[0] = decoder.destination(0, ballot ? Type::B32 : Type::Pred);
  decoder.out.op[1] = decoder.condition(1, negated);
  decoder.out.small[0] = negated;
  decoder.membermask(2);
  decoder.done(how == "all"   ? vote<Vote::All>
               : how == "any" ? vote<Vote::Any>
               : how == "uni" ? vote<Vote::Uniform>
                              : vote<Vote::Ballot>);
}

void decodeActiveMask(Decoder &decoder) {
  decoder.takeOneOf({"b32"});
  decoder.expectOperands(1);
  decoder.out.op[0] = decoder.destination(0, Type::B32);
  decoder.done(activeMask);
}

void decodeReduce(Decoder &decoder) {
  decoder.takeOneOf({"sync"});
  std::string_view how =
      decoder.takeOneOf({"add", "min", "max", "and", "or", "xor"});
  Type type = decoder.takeType();
  bool logic = how == "and" || how == "or" || how == "xor";
  if (logic ? type != Type::B32 : type != Type::U32 && type != Type::S32)
    decoder.unknown();
  decoder.expectOperands(3);
  decoder.out.op[0] = decoder.destination(0, type);
  decoder.out.op[1] = decoder.source(1, type);
  decoder.membermask(2);
  bool isSigned = type == Type::S32;
  decoder.done(
      how == "add"   ? reduce<Sum>
      : how == "and" ? reduce<And>
      : how == "or"  ? reduce<Or>
      : how == "xor" ? reduce<Xor>
      : how == "min"
          ? (isSigned ? reduce<Minimum<int32_t>> : reduce<Minimum<uint32_t>>)
          : (isSigned ? reduce<Maximum<int32_t>> : reduce<Maximum<uint32_t>>));
}

} // namespace

void addWarpwide(Opcodes &opcodes) {
  opcodes["shfl"] = decodeShuffle;
  opcodes["vote"] = decodeVote;
  opcodes["activemask"] = decodeActiveMask;
  opcodes["redux"] = decodeReduce;
}

} // namespace attn::ptx

//===- tests/ptx/Bits.cpp - Logic, shifts and bit fields ------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Decoder.h"
#include "Machine.h"
#include <algorithm>
#include <type_traits>

namespace attn::ptx {

namespace {

struct And {
  template <class T> static T of(T a, T b) { return a & b; }
};
struct Or {
  template <class T> static T of(T a, T b) { return a | b; }
};
struct Xor {
  template <class T> static T of(T a, T b) { return a ^ b; }
};
struct Not {
  template <class T> static T of(T a) { return T(~a); }
};
/// Shifts by more than the width are shifts by the width.
struct ShiftLeft {
  template <class T> static T of(T a, uint32_t by) {
    return by >= 8 * sizeof(T) ? T(0) : T(std::make_unsigned_t<T>(a) << by);
  }
};
struct ShiftRight {
  template <class T> static T of(T a, uint32_t by) {
    return T(a >> std::min<uint32_t>(by, 8 * sizeof(T) - 1));
  }
};
/// Unsigned numbers vanish; signed ones keep their sign, as ShiftRight gives.
struct ShiftRightZero {
  template <class T> static T of(T a, uint32_t by) {
    return by >= 8 * sizeof(T) ? T(0) : T(a >> by);
  }
};

struct ExtractField {
  template <class T> static T of(T a, uint32_t at, uint32_t length) {
    constexpr unsigned Bits = 8 * sizeof(T);
    at &= 0xff;
    length &= 0xff;
    if (length == 0)
      return 0;
    unsigned signAt = std::min(at + length - 1, Bits - 1);
    bool negative = std::is_signed_v<T> && (a >> signAt & 1) != 0;
    std::make_unsigned_t<T> field = 0, bits = std::make_unsigned_t<T>(a);
    field = at < Bits ? bits >> at : 0;
    unsigned known = at < Bits ? std::min(length, Bits - at) : 0;
    std::make_unsigned_t<T> low =
        known >= Bits ? std::make_unsigned_t<T>(~std::make_unsigned_t<T>(0))
                      : (std::make_unsigned_t<T>(1) << known) - 1;
    return T((field & low) | (negative ? ~low : 0));
  }
};
struct InsertField {
  template <class T> static T of(T a, T b, uint32_t at, uint32_t length) {
    constexpr unsigned Bits = 8 * sizeof(T);
    at &= 0xff;
    length &= 0xff;
    if (at >= Bits || length == 0)
      return b;
    T low = length >= Bits ? T(~T(0)) : T((T(1) << length) - 1);
    T field = T(low << at);
    return (b & ~field) | (T(a << at) & field);
  }
};
struct CountOnes {
  template <class T> static uint32_t of(T a) {
    return uint32_t(__builtin_popcountll(uint64_t(a)));
  }
};
struct LeadingZeros {
  template <class T> static uint32_t of(T a) {
    return a == 0
               ? 8 * sizeof(T)
               : uint32_t(__builtin_clzll(uint64_t(a))) - (64 - 8 * sizeof(T));
  }
};
struct Reverse {
  template <class T> static T of(T a) {
    T reversed = 0;
    for (unsigned bit = 0; bit < 8 * sizeof(T); bit++)
      reversed = T(reversed << 1 | (a >> bit & 1));
    return reversed;
  }
};

uint32_t permuteBytes(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t bytes = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; i++) {
    uint32_t choice = selector >> (4 * i);
    uint32_t byte = uint32_t(bytes >> (8 * (choice & 7))) & 0xff;
    if ((choice & 8) != 0)
      byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}

uint32_t funnelLeft(uint32_t low, uint32_t high, uint32_t by) {
  return uint32_t((uint64_t(high) << 32 | low) << by >> 32);
}
uint32_t funnelLeftWrap(uint32_t low, uint32_t high, uint32_t by) {
  return funnelLeft(low, high, by & 31);
}
uint32_t funnelLeftClamp(uint32_t low, uint32_t high, uint32_t by) {
  return funnelLeft(low, high, std::min(by, 32U));
}
uint32_t funnelRightWrap(uint32_t low, uint32_t high, uint32_t by) {
  return uint32_t((uint64_t(high) << 32 | low) >> (by & 31));
}
uint32_t funnelRightClamp(uint32_t low, uint32_t high, uint32_t by) {
  return uint32_t((uint64_t(high) << 32 | low) >> std::min(by, 32U));
}

void logicOfThree(Warp &warp, const Instruction &i, Mask mask) {
  const uint32_t *a = warp.lanes<uint32_t>(i.op[1]);
  const uint32_t *b = warp.lanes<uint32_t>(i.op[2]);
  const uint32_t *c = warp.lanes<uint32_t>(i.op[3]);
  uint32_t result[Lanes] = {};
  for (unsigned lane = 0; lane < Lanes; lane++)
    for (unsigned row = 0; row < 8; row++)
      if ((i.imm[0] >> row & 1) != 0)
        result[lane] |= ((row & 4) != 0 ? a[lane] : ~a[lane]) &
                        ((row & 2) != 0 ? b[lane] : ~b[lane]) &
                        ((row & 1) != 0 ? c[lane] : ~c[lane]);
  Lanewise<permuteBytes>::keep(warp.lanes<uint32_t>(i.op[0]), result, mask);
}

/// Logic on predicates, 32 lanes at once.
template <class Op>
void predicateLogic(Warp &warp, const Instruction &i, Mask mask) {
  Mask result;
  if constexpr (std::is_same_v<Op, Not>)
    result = ~warp.predicate(i.op[1]);
  else
    result =
        Op::template of<Mask>(warp.predicate(i.op[1]), warp.predicate(i.op[2]));
  Mask &into = warp.predicate(i.op[0]);
  into = (into & ~mask) | (result & mask);
}

template <class Op, class T> Handler lanewise() {
  return Lanewise<&Op::template of<T>>::run;
}

template <class Op, class T16, class T32, class T64>
Handler byWidth(Decoder &decoder, Type type) {
  switch (bitsOf(type)) {
  case 16:
    return lanewise<Op, T16>();
  case 32:
    return lanewise<Op, T32>();
  case 64:
    return lanewise<Op, T64>();
  default:
    decoder.unknown();
  }
}
template <class Op> Handler forBits(Decoder &decoder, Type type) {
  return byWidth<Op, uint16_t, uint32_t, uint64_t>(decoder, type);
}
/// For opcodes that have no 16-bit form.
template <class Op, bool Signed = false>
Handler forLong(Decoder &decoder, Type type) {
  using T32 = std::conditional_t<Signed, int32_t, uint32_t>;
  using T64 = std::conditional_t<Signed, int64_t, uint64_t>;
  switch (bitsOf(type)) {
  case 32:
    return lanewise<Op, T32>();
  case 64:
    return lanewise<Op, T64>();
  default:
    decoder.unknown();
  }
}

Type takeBits(Decoder &decoder) {
  Type type = decoder.takeType();
  if (type > Type::B64 && type != Type::Pred)
    decoder.unknown();
  return type;
}

template <class Op> void decodeLogic(Decoder &decoder) {
  constexpr bool Unary = std::is_same_v<Op, Not>;
  Type type = takeBits(decoder);
  decoder.expectOperands(Unary ? 2 : 3);
  Instruction &out = decoder.out;
  out.op[0] = decoder.destination(0, type);
  out.op[1] = decoder.source(1, type);
  if (!Unary)
    out.op[2] = decoder.source(2, type);
  decoder.done(type == Type::Pred ? predicateLogic<Op>
                                  : forBits<Op>(decoder, type));
}

void decodeShift(Decoder &decoder) {
  Type type = decoder.takeType();
  decoder.expectOperands(3);
  Instruction &out = decoder.out;
  out.op[0] = decoder.destination(0, type);
  out.op[1] = decoder.source(1, type);
  out.op[2] = decoder.source(2, Type::U32);
  if (isFloat(type) || type == Type::Pred)
    decoder.unknown();
  if (decoder.root() == "shl")
    decoder.done(type <= Type::B64 ? forBits<ShiftLeft>(decoder, type)
                                   : nullptr);
  else if (isSigned(type))
    decoder.done(byWidth<ShiftRight, int16_t, int32_t, int64_t>(decoder, type));
  else
    decoder.done(forBits<ShiftRightZero>(decoder, type));
  if (!out.run)
    decoder.unknown();
}

void decodeField(Decoder &decoder) {
  Type type = decoder.takeType();
  bool inserts = decoder.root() == "bfi";
  if (inserts ? type > Type::B64 : type <= Type::B64 || isFloat(type))
    decoder.unknown();
  decoder.expectOperands(inserts ? 5 : 4);
  Instruction &out = decoder.out;
  out.op[0] = decoder.destination(0, type);
  size_t next = 1;
  out.op[1] = decoder.source(next++, type);
  if (inserts)
    out.op[2] = decoder.source(next++, type);
  out.op[next] = decoder.source(next, Type::U32);
  out.op[next + 1] = decoder.source(next + 1, Type::U32);
  if (inserts)
    decoder.done(forLong<InsertField>(decoder, type));
  else
    decoder.done(isSigned(type) ? forLong<ExtractField, true>(decoder, type)
                                : forLong<ExtractField>(decoder, type));
}

void decodeCount(Decoder &decoder) {
  Type type = takeBits(decoder);
  decoder.expectOperands(2);
  bool reverses = decoder.root() == "brev";
  decoder.out.op[0] = decoder.destination(0, reverses ? type : Type::U32);
  decoder.out.op[1] = decoder.source(1, type);
  if (reverses)
    decoder.done(forLong<Reverse>(decoder, type));
  else if (decoder.root() == "popc")
    decoder.done(forLong<CountOnes>(decoder, type));
  else
    decoder.done(forLong<LeadingZeros>(decoder, type));
}

void threeWords(Decoder &decoder) {
  decoder.takeOneOf({"b32"});
  for (size_t n = 0; n < 4; n++)
    decoder.out.op[n] = n == 0 ? decoder.destination(n, Type::B32)
                               : decoder.source(n, Type::B32);
}

void decodePermute(Decoder &decoder) {
  decoder.expectOperands(4);
  threeWords(decoder);
  decoder.done(Lanewise<permuteBytes>::run);
}

void decodeLogicOfThree(Decoder &decoder) {
  decoder.expectOperands(5);
  threeWords(decoder);
  decoder.out.imm[0] = decoder.immediate(4);
  if (decoder.out.imm[0] < 0 || decoder.out.imm[0] > 255)
    decoder.fail("the table of lop3 has 8 bits");
  decoder.done(logicOfThree);
}

void decodeFunnel(Decoder &decoder) {
  decoder.expectOperands(4);
  bool left = decoder.takeOneOf({"l", "r"}) == "l";
  bool wraps = decoder.takeOneOf({"wrap", "clamp"}) == "wrap";
  threeWords(decoder);
  if (left)
    decoder.done(wraps ? Lanewise<funnelLeftWrap>::run
                       : Lanewise<funnelLeftClamp>::run);
  else
    decoder.done(wraps ? Lanewise<funnelRightWrap>::run
                       : Lanewise<funnelRightClamp>::run);
}

} // namespace

void addBits(Opcodes &opcodes) {
  opcodes["and"] = decodeLogic<And>;
  opcodes["or"] = decodeLogic<Or>;
  opcodes["xor"] = decodeLogic<Xor>;
  opcodes["not"] = decodeLogic<Not>;
  opcodes["shl"] = opcodes["shr"] = decodeShift;
  opcodes["bfe"] = opcodes["bfi"] = decodeField;
  opcodes["popc"] = opcodes["clz"] = opcodes["brev"] = decodeCount;
  opcodes["prmt"] = decodePermute;
  opcodes["lop3"] = decodeLogicOfThree;
  opcodes["shf"] = decodeFunnel;
}

} // namespace attn::ptx

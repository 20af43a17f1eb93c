//===- tests/ptx/Compare.cpp - setp, selp and slct ------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Decoder.h"
#include "Machine.h"
#include <type_traits>

namespace attn::ptx {

namespace {

// In Instruction::small: how the comparison is combined with a predicate, and
// whether that one is negated.
enum class Combine : uint8_t { None, And, Or, Xor };

Mask combine(Combine how, Mask value, Mask with) {
  return how == Combine::And   ? value & with
         : how == Combine::Or  ? value | with
         : how == Combine::Xor ? value ^ with
                               : value;
}

template <class T, bool Ftz> T number(T value) { return value; }
template <> float number<float, true>(float value) { return flush(value); }
template <class T, bool> float number(F16 value) { return toFloat(value); }
template <class T, bool> float number(Bf16 value) { return toFloat(value); }

/// Bytes that are 0 or 1 become the bits of a mask.
Mask packBits(const uint8_t *bytes) {
  Mask mask = 0;
  for (unsigned part = 0; part < 4; part++) {
    uint64_t eight;
    std::memcpy(&eight, bytes + 8 * part, 8);
    mask |= Mask((eight * 0x0102040810204080) >> 56) << (8 * part);
  }
  return mask;
}

// Unordered: what a comparison with a NaN gives.
template <class Relation, class T, bool Ftz, bool Unordered>
void compare(Warp &warp, const Instruction &i, Mask mask) {
  const T *a = warp.lanes<T>(i.op[2]), *b = warp.lanes<T>(i.op[3]);
  uint8_t bytes[Lanes];
  for (unsigned lane = 0; lane < Lanes; lane++) {
    auto x = number<T, Ftz>(a[lane]);
    auto y = number<T, Ftz>(b[lane]);
    bool holds = Relation::of(x, y);
    if (Unordered)
      holds |= x != x || y != y;
    bytes[lane] = holds;
  }
  Mask value = packBits(bytes), with = 0;
  if (i.op[4] != NoSlot)
    with = i.small[1] != 0 ? ~warp.predicate(i.op[4]) : warp.predicate(i.op[4]);
  Combine how = Combine(i.small[0]);
  Mask &into = warp.predicate(i.op[0]);
  into = (into & ~mask) | (combine(how, value, with) & mask);
  if (i.op[1] == NoSlot)
    return;
  Mask &second = warp.predicate(i.op[1]);
  second = (second & ~mask) | (combine(how, ~value, with) & mask);
}

struct Equal {
  template <class T> static bool of(T a, T b) { return a == b; }
};
/// Of numbers: neither is NaN and they differ.
struct Different {
  template <class T> static bool of(T a, T b) { return a < b || b < a; }
};
struct Less {
  template <class T> static bool of(T a, T b) { return a < b; }
};
struct LessEqual {
  template <class T> static bool of(T a, T b) { return a <= b; }
};
struct Greater {
  template <class T> static bool of(T a, T b) { return a > b; }
};
struct GreaterEqual {
  template <class T> static bool of(T a, T b) { return a >= b; }
};
struct BothNumbers {
  template <class T> static bool of(T a, T b) { return a == a && b == b; }
};
struct AnyNan {
  template <class T> static bool of(T a, T b) { return a != a || b != b; }
};

template <class Relation> Handler forInteger(Decoder &decoder, Type type) {
  switch (type) {
  case Type::B16:
  case Type::U16:
    return compare<Relation, uint16_t, false, false>;
  case Type::S16:
    return compare<Relation, int16_t, false, false>;
  case Type::B32:
  case Type::U32:
    return compare<Relation, uint32_t, false, false>;
  case Type::S32:
    return compare<Relation, int32_t, false, false>;
  case Type::B64:
  case Type::U64:
    return compare<Relation, uint64_t, false, false>;
  case Type::S64:
    return compare<Relation, int64_t, false, false>;
  default:
    decoder.unknown();
  }
}

template <class Relation, bool Unordered>
Handler forFloat(Decoder &decoder, Type type, bool ftz) {
  switch (type) {
  case Type::F32:
    return ftz ? compare<Relation, float, true, Unordered>
               : compare<Relation, float, false, Unordered>;
  case Type::F64:
    if (ftz)
      decoder.unknown();
    return compare<Relation, double, false, Unordered>;
  case Type::F16:
    if (ftz)
      decoder.unknown();
    return compare<Relation, F16, false, Unordered>;
  case Type::Bf16:
    if (ftz)
      decoder.unknown();
    return compare<Relation, Bf16, false, Unordered>;
  default:
    decoder.unknown();
  }
}

template <class Relation>
Handler relation(Decoder &decoder, Type type, bool ftz, bool unordered) {
  if (!isFloat(type))
    return forInteger<Relation>(decoder, type);
  return unordered ? forFloat<Relation, true>(decoder, type, ftz)
                   : forFloat<Relation, false>(decoder, type, ftz);
}

Handler choose(Decoder &decoder, Type type, bool ftz) {
  bool number = isFloat(type);
  bool bits = type <= Type::B64;
  bool isUnsigned = !number && !isSigned(type) && !bits;
  auto is = [&](std::string_view name) { return decoder.take(name); };
  if (is("eq"))
    return relation<Equal>(decoder, type, ftz, false);
  if (is("ne"))
    return relation<Different>(decoder, type, ftz, false);
  if (!bits && is("lt"))
    return relation<Less>(decoder, type, ftz, false);
  if (!bits && is("le"))
    return relation<LessEqual>(decoder, type, ftz, false);
  if (!bits && is("gt"))
    return relation<Greater>(decoder, type, ftz, false);
  if (!bits && is("ge"))
    return relation<GreaterEqual>(decoder, type, ftz, false);
  if (isUnsigned && is("lo"))
    return relation<Less>(decoder, type, ftz, false);
  if (isUnsigned && is("ls"))
    return relation<LessEqual>(decoder, type, ftz, false);
  if (isUnsigned && is("hi"))
    return relation<Greater>(decoder, type, ftz, false);
  if (isUnsigned && is("hs"))
    return relation<GreaterEqual>(decoder, type, ftz, false);
  if (!number)
    decoder.unknown();
  if (is("equ"))
    return relation<Equal>(decoder, type, ftz, true);
  if (is("neu"))
    return relation<Different>(decoder, type, ftz, true);
  if (is("ltu"))
    return relation<Less>(decoder, type, ftz, true);
  if (is("leu"))
    return relation<LessEqual>(decoder, type, ftz, true);
  if (is("gtu"))
    return relation<Greater>(decoder, type, ftz, true);
  if (is("geu"))
    return relation<GreaterEqual>(decoder, type, ftz, true);
  if (is("num"))
    return relation<BothNumbers>(decoder, type, ftz, false);
  if (is("nan"))
    return relation<AnyNan>(decoder, type, ftz, false);
  decoder.unknown();
}

void decodeCompare(Decoder &decoder) {
  Type type = decoder.takeType();
  bool ftz = decoder.take("ftz");
  Combine how = decoder.take("and")   ? Combine::And
                : decoder.take("or")  ? Combine::Or
                : decoder.take("xor") ? Combine::Xor
                                      : Combine::None;
  decoder.expectOperands(how == Combine::None ? 3 : 4);
  Instruction &out = decoder.out;
  const OperandText &result = decoder.operand(0);
  bool pair = result.kind == OperandText::Kind::Pair;
  out.op[0] = decoder.destination(pair ? result.parts[0] : result, Type::Pred);
  out.op[1] = pair ? decoder.destination(result.parts[1], Type::Pred) : NoSlot;
  out.op[2] = decoder.source(1, type);
  out.op[3] = decoder.source(2, type);
  bool negated = false;
  out.op[4] = how == Combine::None ? NoSlot : decoder.condition(3, negated);
  out.small = {uint8_t(how), negated};
  decoder.done(choose(decoder, type, ftz));
}

template <class T> void select(Warp &warp, const Instruction &i, Mask mask) {
  const T *a = warp.lanes<T>(i.op[1]), *b = warp.lanes<T>(i.op[2]);
  Mask chosen = warp.predicate(i.op[3]);
  T result[Lanes];
  for (unsigned lane = 0; lane < Lanes; lane++)
    result[lane] = (chosen >> lane & 1) != 0 ? a[lane] : b[lane];
  T *into = warp.lanes<T>(i.op[0]);
  forLanes(mask, [&](unsigned lane) { into[lane] = result[lane]; });
}

void decodeSelect(Decoder &decoder) {
  Type type = decoder.takeType();
  decoder.expectOperands(4);
  Instruction &out = decoder.out;
  out.op[0] = decoder.destination(0, type);
  out.op[1] = decoder.source(1, type);
  out.op[2] = decoder.source(2, type);
  out.op[3] = decoder.source(3, Type::Pred);
  if (type == Type::Pred || bitsOf(type) == 8)
    decoder.unknown();
  decoder.done(bitsOf(type) == 16   ? select<uint16_t>
               : bitsOf(type) == 32 ? select<uint32_t>
                                    : select<uint64_t>);
}

template <class T, class C> T selectBySign(T a, T b, C c) {
  return c >= 0 ? a : b;
}

template <class C> Handler bySign(unsigned bits) {
  return bits == 16   ? Lanewise<selectBySign<uint16_t, C>>::run
         : bits == 32 ? Lanewise<selectBySign<uint32_t, C>>::run
                      : Lanewise<selectBySign<uint64_t, C>>::run;
}

void decodeSelectBySign(Decoder &decoder) {
  Type type = decoder.takeType(), sign = decoder.takeType();
  decoder.expectOperands(4);
  Instruction &out = decoder.out;
  out.op[0] = decoder.destination(0, type);
  out.op[1] = decoder.source(1, type);
  out.op[2] = decoder.source(2, type);
  out.op[3] = decoder.source(3, sign);
  if (type == Type::Pred || bitsOf(type) == 8 ||
      (sign != Type::S32 && sign != Type::F32))
    decoder.unknown();
  decoder.done(sign == Type::S32 ? bySign<int32_t>(bitsOf(type))
                                 : bySign<float>(bitsOf(type)));
}

} // namespace

void addCompare(Opcodes &opcodes) {
  opcodes["setp"] = decodeCompare;
  opcodes["selp"] = decodeSelect;
  opcodes["slct"] = decodeSelectBySign;
}

} // namespace attn::ptx

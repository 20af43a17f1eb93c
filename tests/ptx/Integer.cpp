//===- tests/ptx/Integer.cpp - Integer arithmetic -------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Decoder.h"
#include "Machine.h"
#include <type_traits>

namespace attn::ptx {

namespace {

template <class T> struct Twice;
template <> struct Twice<uint16_t> {
  using Type = uint32_t;
};
template <> struct Twice<int16_t> {
  using Type = int32_t;
};
template <> struct Twice<uint32_t> {
  using Type = uint64_t;
};
template <> struct Twice<int32_t> {
  using Type = int64_t;
};
template <> struct Twice<uint64_t> {
  using Type = unsigned __int128;
};
template <> struct Twice<int64_t> {
  using Type = __int128;
};
template <class T> using Wide = typename Twice<T>::Type;

/// Wraps around: in the arithmetic of unsigned numbers, and never narrower
/// than int, whose overflow has no meaning.
template <class T>
using Wrapping =
    std::conditional_t<sizeof(T) <= 4, uint32_t, std::make_unsigned_t<T>>;

struct Add {
  template <class T> static T of(T a, T b) {
    return T(Wrapping<T>(a) + Wrapping<T>(b));
  }
};
struct Subtract {
  template <class T> static T of(T a, T b) {
    return T(Wrapping<T>(a) - Wrapping<T>(b));
  }
};
struct MultiplyLow {
  template <class T> static T of(T a, T b) {
    return T(Wrapping<T>(a) * Wrapping<T>(b));
  }
};
struct MultiplyHigh {
  template <class T> static T of(T a, T b) {
    return T((Wide<T>(a) * Wide<T>(b)) >> (8 * sizeof(T)));
  }
};
struct MultiplyWide {
  template <class T> static Wide<T> of(T a, T b) {
    return Wide<T>(a) * Wide<T>(b);
  }
};
struct MadLow {
  template <class T> static T of(T a, T b, T c) {
    return Add::of<T>(MultiplyLow::of<T>(a, b), c);
  }
};
struct MadHigh {
  template <class T> static T of(T a, T b, T c) {
    return Add::of<T>(MultiplyHigh::of<T>(a, b), c);
  }
};
struct MadWide {
  template <class T> static Wide<T> of(T a, T b, Wide<T> c) {
    return Add::of<Wide<T>>(Wide<T>(a) * Wide<T>(b), c);
  }
};
struct Minimum {
  template <class T> static T of(T a, T b) { return b < a ? b : a; }
};
struct Maximum {
  template <class T> static T of(T a, T b) { return a < b ? b : a; }
};
struct NotNegative {
  template <class T> static T of(T a) { return a < 0 ? T(0) : a; }
};
struct MinimumOrZero {
  template <class T> static T of(T a, T b) {
    return NotNegative::of<T>(Minimum::of<T>(a, b));
  }
};
struct MaximumOrZero {
  template <class T> static T of(T a, T b) {
    return NotNegative::of<T>(Maximum::of<T>(a, b));
  }
};
struct Negate {
  template <class T> static T of(T a) { return T(0 - Wrapping<T>(a)); }
};
struct Absolute {
  template <class T> static T of(T a) { return a < 0 ? Negate::of<T>(a) : a; }
};
struct Quotient {
  template <class T> static T of(T a, T b) {
    // The one quotient that does not fit wraps around.
    if (std::is_signed_v<T> && b == T(-1))
      return Negate::of<T>(a);
    return T(a / b);
  }
};
struct Remainder {
  template <class T> static T of(T a, T b) {
    return std::is_signed_v<T> && b == T(-1) ? T(0) : T(a % b);
  }
};

/// A division, whose result for a divisor of zero is not defined.
template <class Op, class T>
void divide(Warp &warp, const Instruction &i, Mask mask) {
  const T *a = warp.lanes<T>(i.op[1]), *b = warp.lanes<T>(i.op[2]);
  forLanes(mask, [&](unsigned lane) {
    if (b[lane] == 0)
      warp.fail(i, lane, "division by zero");
    warp.lanes<T>(i.op[0])[lane] = Op::template of<T>(a[lane], b[lane]);
  });
}

template <class Op, class T> Handler lanewise() {
  return Lanewise<&Op::template of<T>>::run;
}

template <class Op> Handler forIntegers(Decoder &decoder, Type type) {
  switch (type) {
  case Type::U16:
    return lanewise<Op, uint16_t>();
  case Type::S16:
    return lanewise<Op, int16_t>();
  case Type::U32:
    return lanewise<Op, uint32_t>();
  case Type::S32:
    return lanewise<Op, int32_t>();
  case Type::U64:
    return lanewise<Op, uint64_t>();
  case Type::S64:
    return lanewise<Op, int64_t>();
  default:
    decoder.unknown();
  }
}

template <class Op> Handler forSigned(Decoder &decoder, Type type) {
  switch (type) {
  case Type::S16:
    return lanewise<Op, int16_t>();
  case Type::S32:
    return lanewise<Op, int32_t>();
  case Type::S64:
    return lanewise<Op, int64_t>();
  default:
    decoder.unknown();
  }
}

template <class Op> Handler forNarrow(Decoder &decoder, Type type) {
  switch (type) {
  case Type::U16:
    return lanewise<Op, uint16_t>();
  case Type::S16:
    return lanewise<Op, int16_t>();
  case Type::U32:
    return lanewise<Op, uint32_t>();
  case Type::S32:
    return lanewise<Op, int32_t>();
  default:
    decoder.unknown();
  }
}

template <class Op> Handler forDivision(Decoder &decoder, Type type) {
  switch (type) {
  case Type::U16:
    return divide<Op, uint16_t>;
  case Type::S16:
    return divide<Op, int16_t>;
  case Type::U32:
    return divide<Op, uint32_t>;
  case Type::S32:
    return divide<Op, int32_t>;
  case Type::U64:
    return divide<Op, uint64_t>;
  case Type::S64:
    return divide<Op, int64_t>;
  default:
    decoder.unknown();
  }
}

Type doubled(Decoder &decoder, Type type) {
  switch (type) {
  case Type::U16:
    return Type::U32;
  case Type::S16:
    return Type::S32;
  case Type::U32:
    return Type::U64;
  case Type::S32:
    return Type::S64;
  default:
    decoder.unknown();
  }
}

void decodeProduct(Decoder &decoder, Type type, bool adds) {
  std::string_view part = decoder.takeOneOf({"lo", "hi", "wide"});
  Instruction &out = decoder.out;
  Type result = part == "wide" ? doubled(decoder, type) : type;
  out.op[0] = decoder.destination(0, result);
  out.op[1] = decoder.source(1, type);
  out.op[2] = decoder.source(2, type);
  if (adds)
    out.op[3] = decoder.source(3, result);
  if (part == "lo")
    decoder.done(adds ? forIntegers<MadLow>(decoder, type)
                      : forIntegers<MultiplyLow>(decoder, type));
  else if (part == "hi")
    decoder.done(adds ? forIntegers<MadHigh>(decoder, type)
                      : forIntegers<MultiplyHigh>(decoder, type));
  else
    decoder.done(adds ? forNarrow<MadWide>(decoder, type)
                      : forNarrow<MultiplyWide>(decoder, type));
}

} // namespace

void decodeInteger(Decoder &decoder, Type type) {
  const std::string &root = decoder.root();
  bool unary = root == "neg" || root == "abs";
  decoder.expectOperands(unary ? 2 : root == "mad" ? 4 : 3);
  if (root == "mul" || root == "mad")
    return decodeProduct(decoder, type, root == "mad");
  const bool orZero = (root == "min" || root == "max") && type == Type::S32 &&
                      decoder.take("relu");
  Instruction &out = decoder.out;
  out.op[0] = decoder.destination(0, type);
  out.op[1] = decoder.source(1, type);
  if (!unary)
    out.op[2] = decoder.source(2, type);
  if (orZero)
    decoder.done(root == "min" ? forSigned<MinimumOrZero>(decoder, type)
                               : forSigned<MaximumOrZero>(decoder, type));
  else if (root == "add")
    decoder.done(forIntegers<Add>(decoder, type));
  else if (root == "sub")
    decoder.done(forIntegers<Subtract>(decoder, type));
  else if (root == "min")
    decoder.done(forIntegers<Minimum>(decoder, type));
  else if (root == "max")
    decoder.done(forIntegers<Maximum>(decoder, type));
  else if (root == "neg")
    decoder.done(forSigned<Negate>(decoder, type));
  else if (root == "abs")
    decoder.done(forSigned<Absolute>(decoder, type));
  else if (root == "div")
    decoder.done(forDivision<Quotient>(decoder, type));
  else if (root == "rem")
    decoder.done(forDivision<Remainder>(decoder, type));
  else
    decoder.unknown();
}

} // namespace attn::ptx

//===- tests/ptx/Half.cpp - Arithmetic in f16 and bf16 --------------------===//
//
// Part of attnc. Apache-2.0.
//
// Results are the exact ones, rounded once.
//
//===----------------------------------------------------------------------===//
#include "Decoder.h"
#include "Machine.h"
#include <algorithm>
#include <type_traits>

namespace attn::ptx {

namespace {

F16 nearest(double value, F16) { return toF16(value, Rounding::Nearest); }
Bf16 nearest(double value, Bf16) { return toBf16(value, Rounding::Nearest); }

/// With `.ftz`, subnormal operands and results count as zero.
template <bool Ftz> F16 in(F16 value) {
  bool subnormal = Ftz && (value.bits & 0x7c00) == 0;
  return {uint16_t(subnormal ? value.bits & 0x8000 : value.bits)};
}
template <bool Ftz> Bf16 in(Bf16 value) {
  bool subnormal = Ftz && (value.bits & 0x7f80) == 0;
  return {uint16_t(subnormal ? value.bits & 0x8000 : value.bits)};
}

struct Add {
  static constexpr unsigned Operands = 2;
  static double of(double a, double b, double) { return addToOdd(a, b); }
};
struct Subtract {
  static constexpr unsigned Operands = 2;
  static double of(double a, double b, double) { return addToOdd(a, -b); }
};
struct Multiply {
  static constexpr unsigned Operands = 2;
  static double of(double a, double b, double) { return a * b; }
};
struct Fused {
  static constexpr unsigned Operands = 3;
  static double of(double a, double b, double c) { return addToOdd(a * b, c); }
};
struct Exponential {
  static constexpr unsigned Operands = 1;
  static double of(double a, double, double) { return std::exp2(a); }
};
struct HyperbolicTangent {
  static constexpr unsigned Operands = 1;
  static double of(double a, double, double) { return std::tanh(a); }
};

template <class Op, class H, bool Ftz> struct Arithmetic {
  static H of(H a, H b, H c) {
    return in<Ftz>(nearest(
        Op::of(toFloat(in<Ftz>(a)), toFloat(in<Ftz>(b)), toFloat(in<Ftz>(c))),
        a));
  }
};

enum class Clamp : uint8_t { None, Unit, Relu };
template <class Inner, Clamp How> struct Clamped {
  template <class H> static H of(H a, H b, H c) {
    H result = Inner::of(a, b, c);
    float value = toFloat(result);
    if (How == Clamp::Unit)
      return value > 0 ? nearest(std::min(value, 1.0F), a) : H{0};
    return value < 0 ? H{0} : result;
  }
};

template <class H, bool Ftz, bool NaN, bool Max> struct Extreme {
  static constexpr unsigned Operands = 2;
  static H of(H a, H b, H) {
    a = in<Ftz>(a);
    b = in<Ftz>(b);
    float x = toFloat(a), y = toFloat(b);
    if (x != x || y != y)
      return NaN || (x != x && y != y) ? H{0x7fff} : x != x ? b : a;
    bool less = x < y || (x == y && (a.bits & 0x8000) > (b.bits & 0x8000));
    return less != Max ? a : b;
  }
};
template <class H, bool Ftz> struct Absolute {
  static H of(H a, H, H) { return in<Ftz>(H{uint16_t(a.bits & 0x7fff)}); }
};
template <class H, bool Ftz> struct Negate {
  static H of(H a, H, H) { return in<Ftz>(H{uint16_t(a.bits ^ 0x8000)}); }
};

// Of one number a lane, or of two.
template <class Op, class H> H one(H a) { return Op::of(a, H{0}, H{0}); }
template <class Op, class H> H one(H a, H b) { return Op::of(a, b, H{0}); }
template <class Op, class H> H one(H a, H b, H c) { return Op::of(a, b, c); }
template <class Op, class P, class... More> P two(P a, More... more) {
  return {one<Op>(a.low, more.low...), one<Op>(a.high, more.high...)};
}

template <class Op, class H, class P>
Handler handler(unsigned operands, bool pairs) {
  if (operands == 1)
    return pairs ? Lanewise<static_cast<P (*)(P)>(two<Op, P>)>::run
                 : Lanewise<static_cast<H (*)(H)>(one<Op, H>)>::run;
  if (operands == 2)
    return pairs ? Lanewise<static_cast<P (*)(P, P)>(two<Op, P, P>)>::run
                 : Lanewise<static_cast<H (*)(H, H)>(one<Op, H>)>::run;
  return pairs ? Lanewise<static_cast<P (*)(P, P, P)>(two<Op, P, P, P>)>::run
               : Lanewise<static_cast<H (*)(H, H, H)>(one<Op, H>)>::run;
}

struct Modes {
  bool ftz, pairs;
  Clamp clamp;
};

template <class Op, class H, class P>
Handler arithmetic(const Modes &modes, bool ftz) {
  using Plain = Arithmetic<Op, H, false>;
  using Flushed = Arithmetic<Op, H, true>;
  if (modes.clamp == Clamp::Unit)
    return ftz ? handler<Clamped<Flushed, Clamp::Unit>, H, P>(Op::Operands,
                                                              modes.pairs)
               : handler<Clamped<Plain, Clamp::Unit>, H, P>(Op::Operands,
                                                            modes.pairs);
  if (modes.clamp == Clamp::Relu)
    return ftz ? handler<Clamped<Flushed, Clamp::Relu>, H, P>(Op::Operands,
                                                              modes.pairs)
               : handler<Clamped<Plain, Clamp::Relu>, H, P>(Op::Operands,
                                                            modes.pairs);
  return ftz ? handler<Flushed, H, P>(Op::Operands, modes.pairs)
             : handler<Plain, H, P>(Op::Operands, modes.pairs);
}

template <class H, class P, bool Ftz>
Handler extreme(bool nan, bool max, bool pairs) {
  if (nan)
    return max ? handler<Extreme<H, Ftz, true, true>, H, P>(2, pairs)
               : handler<Extreme<H, Ftz, true, false>, H, P>(2, pairs);
  return max ? handler<Extreme<H, Ftz, false, true>, H, P>(2, pairs)
             : handler<Extreme<H, Ftz, false, false>, H, P>(2, pairs);
}

template <class H, class P>
Handler choose(Decoder &decoder, const Modes &modes, bool rounds) {
  const std::string &root = decoder.root();
  bool ftz = modes.ftz;
  if (root == "add" || root == "sub" || root == "mul" || root == "fma") {
    if ((root == "fma" && !rounds) ||
        (modes.clamp == Clamp::Relu && root != "fma"))
      decoder.unknown();
    return root == "add"   ? arithmetic<Add, H, P>(modes, ftz)
           : root == "sub" ? arithmetic<Subtract, H, P>(modes, ftz)
           : root == "mul" ? arithmetic<Multiply, H, P>(modes, ftz)
                           : arithmetic<Fused, H, P>(modes, ftz);
  }
  if (rounds || modes.clamp != Clamp::None)
    decoder.unknown();
  if (root == "min" || root == "max") {
    bool nan = decoder.take("NaN"), max = root == "max";
    return ftz ? extreme<H, P, true>(nan, max, modes.pairs)
               : extreme<H, P, false>(nan, max, modes.pairs);
  }
  if (root == "abs")
    return ftz ? handler<Absolute<H, true>, H, P>(1, modes.pairs)
               : handler<Absolute<H, false>, H, P>(1, modes.pairs);
  if (root == "neg")
    return ftz ? handler<Negate<H, true>, H, P>(1, modes.pairs)
               : handler<Negate<H, false>, H, P>(1, modes.pairs);
  if ((root != "ex2" && root != "tanh") || !decoder.take("approx"))
    decoder.unknown();
  return root == "ex2" ? arithmetic<Exponential, H, P>(modes, ftz)
                       : arithmetic<HyperbolicTangent, H, P>(modes, ftz);
}

} // namespace

void decodeHalf(Decoder &decoder, Type type) {
  const std::string &root = decoder.root();
  bool f16 = type == Type::F16 || type == Type::F16x2;
  Modes modes{};
  modes.pairs = bitsOf(type) == 32;
  bool rounds = false;
  if (decoder.takeRounding(rounds) != Rounding::Nearest)
    decoder.unknown();
  modes.ftz = decoder.take("ftz");
  bool sat = decoder.take("sat");
  modes.clamp = sat                    ? Clamp::Unit
                : decoder.take("relu") ? Clamp::Relu
                                       : Clamp::None;
  // Of the operations on bf16 only ex2 has .ftz, and has nothing but that.
  if (!f16 && (sat || modes.ftz != (root == "ex2")))
    decoder.unknown();
  if (f16 && modes.ftz && (root == "ex2" || root == "tanh"))
    decoder.unknown();
  unsigned sources =
      root == "fma"                                                       ? 3
      : root == "abs" || root == "neg" || root == "ex2" || root == "tanh" ? 1
                                                                          : 2;
  decoder.expectOperands(sources + 1);
  decoder.out.op[0] = decoder.destination(0, type);
  for (size_t n = 1; n <= sources; n++)
    decoder.out.op[n] = decoder.source(n, type);
  decoder.done(f16 ? choose<F16, F16x2>(decoder, modes, rounds)
                   : choose<Bf16, Bf16x2>(decoder, modes, rounds));
}

} // namespace attn::ptx

//===- tests/ptx/Float.cpp - Arithmetic in f32 and f64 --------------------===//
//
// Part of attnc. Apache-2.0.
//
// Results with a rounding are correctly rounded. Of the approximations the
// manual bounds the error only; here they are what the C library gives, whose
// error is less, or the exact operation. Where the manual gives results for
// special values, they are those.
//
//===----------------------------------------------------------------------===//
#include "Decoder.h"
#include "Machine.h"
#include <algorithm>
#include <type_traits>

namespace attn::ptx {

namespace {

double canonical(double value) { return value; }
using ptx::canonical;

/// With `.ftz`, subnormal operands and results count as zero.
template <bool Ftz, class T> T in(T value) {
  if constexpr (Ftz)
    return flush(value);
  else
    return value;
}

/// The sum, rounded to odd, so that a second rounding does no harm. A sum that
/// is zero without its parts being so is negative where results are rounded
/// down.
double oddSum(double a, double b, Rounding rounding) {
  bool positive = a == 0 && b == 0 && !std::signbit(a) && !std::signbit(b);
  double sum = addToOdd(a, b);
  return sum == 0 && rounding == Rounding::Down && !positive ? -0.0 : sum;
}

// Operations of f32 and f64, and those of f32 before their rounding.
struct Add {
  static constexpr unsigned Operands = 2;
  template <class T> static T of(T a, T b, T) { return a + b; }
  static double exact(double a, double b, double, Rounding rounding) {
    return oddSum(a, b, rounding);
  }
};
struct Subtract {
  static constexpr unsigned Operands = 2;
  template <class T> static T of(T a, T b, T) { return a - b; }
  static double exact(double a, double b, double, Rounding rounding) {
    return oddSum(a, -b, rounding);
  }
};
struct Multiply {
  static constexpr unsigned Operands = 2;
  template <class T> static T of(T a, T b, T) { return a * b; }
  static double exact(double a, double b, double, Rounding) { return a * b; }
};
struct Fused {
  static constexpr unsigned Operands = 3;
  template <class T> static T of(T a, T b, T c) { return std::fma(a, b, c); }
  static double exact(double a, double b, double c, Rounding rounding) {
    return oddSum(a * b, c, rounding);
  }
};

template <class Op, class T, bool Ftz> T nearest(T a, T b, T c) {
  return in<Ftz>(canonical(Op::of(in<Ftz>(a), in<Ftz>(b), in<Ftz>(c))));
}
template <class Op, class T, bool Ftz> T nearestOfTwo(T a, T b) {
  return nearest<Op, T, Ftz>(a, b, T(0));
}

float saturate(float value) { return value > 0 ? std::min(value, 1.0F) : 0.0F; }

// small: rounding, ftz, sat.
template <class Op> void rounded(Warp &warp, const Instruction &i, Mask mask) {
  float result[Lanes] = {};
  Rounding mode = Rounding(i.small[0]);
  bool ftz = i.small[1] != 0;
  auto value = [&](unsigned operand, unsigned lane) {
    if (operand > Op::Operands)
      return 0.0F;
    float read = warp.lanes<float>(i.op[operand])[lane];
    return ftz ? flush(read) : read;
  };
  for (unsigned lane = 0; lane < Lanes; lane++) {
    double exact =
        Op::exact(value(1, lane), value(2, lane), value(3, lane), mode);
    float sum = canonical(toF32(exact, mode));
    sum = ftz ? flush(sum) : sum;
    result[lane] = i.small[2] != 0 ? saturate(sum) : sum;
  }
  Lanewise<saturate>::keep(warp.lanes<float>(i.op[0]), result, mask);
}

template <class Op, class T, bool Ftz> Handler nearestHandler() {
  if constexpr (Op::Operands == 3)
    return Lanewise<nearest<Op, T, Ftz>>::run;
  else
    return Lanewise<nearestOfTwo<Op, T, Ftz>>::run;
}

struct Modes {
  bool rounds;
  Rounding rounding;
  bool ftz, sat;
};

template <class Op>
Handler rounding(Decoder &decoder, Type type, const Modes &modes) {
  bool plain = modes.rounding == Rounding::Nearest && !modes.sat;
  if (type == Type::F64) {
    if (!plain || modes.ftz)
      decoder.unknown();
    return nearestHandler<Op, double, false>();
  }
  decoder.out.small = {uint8_t(modes.rounding), modes.ftz, modes.sat};
  if (!plain)
    return rounded<Op>;
  return modes.ftz ? nearestHandler<Op, float, true>()
                   : nearestHandler<Op, float, false>();
}

template <class T, bool Ftz> T quotient(T a, T b) {
  return in<Ftz>(canonical(in<Ftz>(a) / in<Ftz>(b)));
}
/// div.approx gives zero, or NaN for an infinite dividend, where the divisor
/// exceeds 2^126 in magnitude.
template <bool Ftz> float roughQuotient(float a, float b) {
  float divisor = std::fabs(b);
  if (divisor > 0x1p126F && std::isfinite(b))
    return std::isinf(a) ? canonicalNan() : canonical(a * 0.0F * b);
  return quotient<float, Ftz>(a, b);
}

template <class T> bool before(T a, T b) {
  // The negative zero is less than the positive one.
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}
template <class T, bool Ftz, bool NaN, bool Max> T extreme(T a, T b) {
  a = in<Ftz>(a);
  b = in<Ftz>(b);
  T nan = canonical(std::numeric_limits<T>::quiet_NaN());
  if (a != a || b != b)
    return NaN || (a != a && b != b) ? nan : a != a ? b : a;
  return before(a, b) != Max ? a : b;
}

template <class T, bool Ftz> T absolute(T a) { return in<Ftz>(std::fabs(a)); }
template <class T, bool Ftz> T negate(T a) { return in<Ftz>(-a); }
template <class T> T copySign(T sign, T magnitude) {
  return std::copysign(magnitude, sign);
}

struct Root {
  template <class T> static T of(T a) { return std::sqrt(a); }
};
struct ReciprocalRoot {
  template <class T> static T of(T a) { return T(1 / std::sqrt(double(a))); }
};
struct Reciprocal {
  template <class T> static T of(T a) { return T(1) / a; }
};
struct Exponential {
  static float of(float a) { return std::exp2(a); }
};
struct Logarithm {
  static float of(float a) { return std::log2(a); }
};
struct Sine {
  static float of(float a) { return std::sin(a); }
};
struct Cosine {
  static float of(float a) { return std::cos(a); }
};
struct HyperbolicTangent {
  static float of(float a) { return std::tanh(a); }
};
template <class Op, class T, bool Ftz> T function(T a) {
  return in<Ftz>(canonical(Op::of(in<Ftz>(a))));
}

template <class Op> Handler functionHandler(bool ftz) {
  return ftz ? Lanewise<function<Op, float, true>>::run
             : Lanewise<function<Op, float, false>>::run;
}

template <bool Ftz> Handler extremeHandler(bool nan, bool max) {
  if (nan)
    return max ? Lanewise<extreme<float, Ftz, true, true>>::run
               : Lanewise<extreme<float, Ftz, true, false>>::run;
  return max ? Lanewise<extreme<float, Ftz, false, true>>::run
             : Lanewise<extreme<float, Ftz, false, false>>::run;
}

Modes takeModes(Decoder &decoder) {
  Modes modes{};
  modes.rounding = decoder.takeRounding(modes.rounds);
  modes.ftz = decoder.take("ftz");
  modes.sat = decoder.take("sat");
  return modes;
}

Handler chooseExtreme(Decoder &decoder, Type type, const Modes &modes) {
  bool max = decoder.root() == "max";
  if (modes.rounds || modes.sat)
    decoder.unknown();
  if (type == Type::F64) {
    if (modes.ftz)
      decoder.unknown();
    return max ? Lanewise<extreme<double, false, false, true>>::run
               : Lanewise<extreme<double, false, false, false>>::run;
  }
  bool nan = decoder.take("NaN");
  return modes.ftz ? extremeHandler<true>(nan, max)
                   : extremeHandler<false>(nan, max);
}

Handler chooseQuotient(Decoder &decoder, Type type, const Modes &modes) {
  if (modes.sat || (modes.rounds && modes.rounding != Rounding::Nearest))
    decoder.unknown();
  if (type == Type::F64) {
    if (!modes.rounds || modes.ftz)
      decoder.unknown();
    return Lanewise<quotient<double, false>>::run;
  }
  if (!modes.rounds && decoder.takeOneOf({"full", "approx"}) == "approx")
    return modes.ftz ? Lanewise<roughQuotient<true>>::run
                     : Lanewise<roughQuotient<false>>::run;
  return modes.ftz ? Lanewise<quotient<float, true>>::run
                   : Lanewise<quotient<float, false>>::run;
}

Handler chooseSign(Decoder &decoder, Type type, const Modes &modes) {
  bool negates = decoder.root() == "neg";
  if (modes.rounds || modes.sat || (modes.ftz && type == Type::F64))
    decoder.unknown();
  if (type == Type::F64)
    return negates ? Lanewise<negate<double, false>>::run
                   : Lanewise<absolute<double, false>>::run;
  if (modes.ftz)
    return negates ? Lanewise<negate<float, true>>::run
                   : Lanewise<absolute<float, true>>::run;
  return negates ? Lanewise<negate<float, false>>::run
                 : Lanewise<absolute<float, false>>::run;
}

Handler chooseFunction(Decoder &decoder, const Modes &modes) {
  if (modes.rounds || modes.sat || !decoder.take("approx"))
    decoder.unknown();
  const std::string &root = decoder.root();
  if (root == "tanh" && modes.ftz)
    decoder.unknown();
  return root == "ex2"   ? functionHandler<Exponential>(modes.ftz)
         : root == "lg2" ? functionHandler<Logarithm>(modes.ftz)
         : root == "sin" ? functionHandler<Sine>(modes.ftz)
         : root == "cos" ? functionHandler<Cosine>(modes.ftz)
                         : functionHandler<HyperbolicTangent>(modes.ftz);
}

/// Square roots and reciprocals, which have correctly rounded forms too.
Handler chooseRoot(Decoder &decoder, Type type, const Modes &modes) {
  const std::string &root = decoder.root();
  bool approximate = decoder.take("approx");
  if (approximate == modes.rounds || modes.sat ||
      (modes.rounds && modes.rounding != Rounding::Nearest) ||
      (root == "rsqrt" && !approximate))
    decoder.unknown();
  if (type == Type::F64) {
    if (modes.ftz || (approximate && root != "rsqrt"))
      decoder.unknown();
    return root == "sqrt" ? Lanewise<function<Root, double, false>>::run
           : root == "rcp"
               ? Lanewise<function<Reciprocal, double, false>>::run
               : Lanewise<function<ReciprocalRoot, double, false>>::run;
  }
  return root == "sqrt"  ? functionHandler<Root>(modes.ftz)
         : root == "rcp" ? functionHandler<Reciprocal>(modes.ftz)
                         : functionHandler<ReciprocalRoot>(modes.ftz);
}

void operands(Decoder &decoder, Type type, size_t sources) {
  decoder.expectOperands(sources + 1);
  decoder.out.op[0] = decoder.destination(0, type);
  for (size_t n = 1; n <= sources; n++)
    decoder.out.op[n] = decoder.source(n, type);
}

void decodeRoot(Decoder &decoder) {
  Type type = decoder.takeType();
  if (type != Type::F32 && type != Type::F64)
    decoder.unknown();
  operands(decoder, type, 1);
  decoder.done(chooseRoot(decoder, type, takeModes(decoder)));
}

void decodeFunction(Decoder &decoder) {
  decoder.takeOneOf({"f32"});
  operands(decoder, Type::F32, 1);
  decoder.done(chooseFunction(decoder, takeModes(decoder)));
}

void decodeCopySign(Decoder &decoder) {
  Type type = decoder.takeType();
  if (type != Type::F32 && type != Type::F64)
    decoder.unknown();
  operands(decoder, type, 2);
  decoder.done(type == Type::F32 ? Lanewise<copySign<float>>::run
                                 : Lanewise<copySign<double>>::run);
}

template <class T> bool hasProperty(int which, T a) {
  switch (which) {
  case 0:
    return std::isfinite(a);
  case 1:
    return std::isinf(a);
  case 2:
    return !std::isnan(a);
  case 3:
    return std::isnan(a);
  case 4:
    return std::isnormal(a);
  default:
    return std::fpclassify(a) == FP_SUBNORMAL;
  }
}

// small: which property.
template <class T>
void testProperty(Warp &warp, const Instruction &i, Mask mask) {
  Mask result = 0;
  forLanes(mask, [&](unsigned lane) {
    if (hasProperty(i.small[0], warp.lanes<T>(i.op[1])[lane]))
      result |= Mask(1) << lane;
  });
  Mask &into = warp.predicate(i.op[0]);
  into = (into & ~mask) | result;
}

void decodeTest(Decoder &decoder) {
  static constexpr std::string_view Properties[] = {
      "finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  Type type = decoder.takeType();
  if (type != Type::F32 && type != Type::F64)
    decoder.unknown();
  decoder.expectOperands(2);
  decoder.out.op[0] = decoder.destination(0, Type::Pred);
  decoder.out.op[1] = decoder.source(1, type);
  for (size_t which = 0; which < std::size(Properties); which++)
    if (decoder.take(Properties[which])) {
      decoder.out.small[0] = uint8_t(which);
      return decoder.done(type == Type::F32 ? testProperty<float>
                                            : testProperty<double>);
    }
  decoder.unknown();
}

} // namespace

void decodeFloat(Decoder &decoder, Type type) {
  const std::string &root = decoder.root();
  Modes modes = takeModes(decoder);
  bool unary =
      root == "neg" || root == "abs" || root == "ex2" || root == "tanh";
  bool fused = root == "fma" || root == "mad";
  operands(decoder, type, unary ? 1 : fused ? 3 : 2);
  if (fused && !modes.rounds)
    decoder.unknown();
  if (root == "add")
    decoder.done(rounding<Add>(decoder, type, modes));
  else if (root == "sub")
    decoder.done(rounding<Subtract>(decoder, type, modes));
  else if (root == "mul")
    decoder.done(rounding<Multiply>(decoder, type, modes));
  else if (fused)
    decoder.done(rounding<Fused>(decoder, type, modes));
  else if (root == "div")
    decoder.done(chooseQuotient(decoder, type, modes));
  else if (root == "min" || root == "max")
    decoder.done(chooseExtreme(decoder, type, modes));
  else if (root == "neg" || root == "abs")
    decoder.done(chooseSign(decoder, type, modes));
  else if (type == Type::F32 && unary)
    decoder.done(chooseFunction(decoder, modes));
  else
    decoder.unknown();
}

void addFunctions(Opcodes &opcodes) {
  opcodes["sqrt"] = opcodes["rsqrt"] = opcodes["rcp"] = decodeRoot;
  opcodes["lg2"] = opcodes["sin"] = opcodes["cos"] = decodeFunction;
  opcodes["copysign"] = decodeCopySign;
  opcodes["testp"] = decodeTest;
}

} // namespace attn::ptx

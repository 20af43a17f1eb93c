//===- tests/ptx/Convert.cpp - cvt ----------------------------------------===//
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

/// How numbers are rounded to integers, or not at all.
enum class Integral : uint8_t { No, Nearest, Zero, Down, Up };

struct Conversion {
  Rounding rounding;
  Integral integral;
  bool ftz, sat, relu;
};
// In Instruction::small: rounding, integral, flags, bytes of a source's and of
// a destination's register.
constexpr uint8_t Ftz = 1, Sat = 2, Relu = 4;

Conversion conversionOf(const Instruction &i) {
  return {Rounding(i.small[0]), Integral(i.small[1]), (i.small[2] & Ftz) != 0,
          (i.small[2] & Sat) != 0, (i.small[2] & Relu) != 0};
}

double toDouble(double value) { return value; }
double toDouble(float value) { return value; }
double toDouble(F16 value) { return toFloat(value); }
double toDouble(Bf16 value) { return toFloat(value); }
/// Rounded to odd where 53 bits do not suffice.
template <class T> double integerToDouble(T value) {
  if constexpr (sizeof(T) < 8) {
    return double(value);
  } else {
    T high = value >> 32;
    return addToOdd(double(high) * 0x1p32, double(uint32_t(value)));
  }
}

double roundIntegral(double value, Integral integral) {
  switch (integral) {
  case Integral::No:
    return value;
  case Integral::Nearest:
    return std::nearbyint(value);
  case Integral::Zero:
    return std::trunc(value);
  case Integral::Down:
    return std::floor(value);
  case Integral::Up:
    return std::ceil(value);
  }
  return value;
}

template <class T> T fromDouble(double value, const Conversion &how) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else if constexpr (std::is_same_v<T, float>) {
    float result = canonical(toF32(value, how.rounding));
    return how.ftz ? flush(result) : result;
  } else if constexpr (std::is_same_v<T, F16>)
    return toF16(value, how.rounding);
  else if constexpr (std::is_same_v<T, Bf16>)
    return toBf16(value, how.rounding);
}

/// Clamped to what the integer type holds.
template <class T, bool FromDouble> T integerFrom(double value) {
  using Limits = std::numeric_limits<T>;
  if (value != value)
    return FromDouble || sizeof(T) == 8
               ? T(std::make_unsigned_t<T>(1) << (8 * sizeof(T) - 1))
               : T(0);
  // One more than the largest value, which a double holds exactly.
  double end = std::ldexp(1.0, Limits::digits);
  if (value >= end)
    return Limits::max();
  if (value < double(Limits::min()))
    return Limits::min();
  return T(value);
}

/// With `.sat`, NaN and negative numbers are zero.
double saturate(double value, const Conversion &how) {
  if (!how.sat)
    return value;
  return value > 0 ? std::min(value, 1.0) : 0.0;
}

template <class D, class S> D saturateInteger(S value) {
  using Limits = std::numeric_limits<D>;
  if constexpr (std::is_signed_v<S>) {
    if (value < 0 &&
        (!std::is_signed_v<D> || int64_t(value) < int64_t(Limits::min())))
      return Limits::min();
  }
  if (value > 0 && uint64_t(value) > uint64_t(Limits::max()))
    return Limits::max();
  return D(value);
}

template <class D, class S> D convertOne(S value, const Conversion &how) {
  constexpr bool FromInteger = std::is_integral_v<S>;
  constexpr bool ToInteger = std::is_integral_v<D>;
  if constexpr (FromInteger && ToInteger) {
    return how.sat ? saturateInteger<D>(value) : D(value);
  } else if constexpr (FromInteger) {
    if constexpr (std::is_same_v<D, double>)
      return D(value); // the decoder has seen to the rounding
    else
      return fromDouble<D>(saturate(integerToDouble(value), how), how);
  } else {
    double exact = toDouble(value);
    if constexpr (std::is_same_v<S, float>)
      if (how.ftz)
        exact = flush(value);
    exact = roundIntegral(exact, how.integral);
    if constexpr (ToInteger) {
      return integerFrom<D, std::is_same_v<S, double>>(exact);
    } else {
      exact = saturate(exact, how);
      if (how.relu && exact < 0)
        exact = 0.0;
      return fromDouble<D>(exact, how);
    }
  }
}

/// Writes a result to a register that may be wider: signed integers extend
/// their sign, all else zero.
template <class D> void put(std::byte *into, unsigned bytes, D value) {
  uint64_t wide = 0;
  if constexpr (std::is_integral_v<D>)
    wide = uint64_t(int64_t(value));
  else
    std::memcpy(&wide, &value, sizeof value);
  if constexpr (std::is_unsigned_v<D>)
    wide = value;
  std::memcpy(into, &wide, bytes);
}

template <class D, class S>
void convert(Warp &warp, const Instruction &i, Mask mask) {
  const Conversion how = conversionOf(i);
  const std::byte *from = warp.lanes<std::byte>(i.op[1]);
  std::byte *into = warp.lanes<std::byte>(i.op[0]);
  forLanes(mask, [&](unsigned lane) {
    S value;
    std::memcpy(&value, from + lane * i.small[3], sizeof value);
    put<D>(into + lane * i.small[4], i.small[4], convertOne<D>(value, how));
  });
}

// Conversions that kernels are full of, for registers of the type's width.
template <class D, class S> D plain(S value) { return D(value); }
float widenF16(F16 value) { return toFloat(value); }
float widenBf16(Bf16 value) { return toFloat(value); }
F16x2 packF16(float high, float low) {
  return {nearestF16(low), nearestF16(high)};
}
Bf16x2 packBf16(float high, float low) {
  return {nearestBf16(low), nearestBf16(high)};
}
uint32_t toTf32(float value) {
  uint32_t bits = bitCast<uint32_t>(value);
  if ((bits & 0x7f800000) == 0x7f800000)
    return value != value ? 0x7fffffff : bits;
  return (bits + 0x1000) & ~uint32_t(0x1fff); // ties go away from zero
}

template <class H, class P>
void pack(Warp &warp, const Instruction &i, Mask mask) {
  const Conversion how = conversionOf(i);
  P result[Lanes];
  for (unsigned lane = 0; lane < Lanes; lane++) {
    float high = warp.lanes<float>(i.op[1])[lane];
    float low = warp.lanes<float>(i.op[2])[lane];
    result[lane] = {convertOne<H>(low, how), convertOne<H>(high, how)};
  }
  P *into = warp.lanes<P>(i.op[0]);
  forLanes(mask, [&](unsigned lane) { into[lane] = result[lane]; });
}

template <class D> Handler fromType(Decoder &decoder, Type source) {
  switch (source) {
  case Type::U8:
    return convert<D, uint8_t>;
  case Type::U16:
    return convert<D, uint16_t>;
  case Type::U32:
    return convert<D, uint32_t>;
  case Type::U64:
    return convert<D, uint64_t>;
  case Type::S8:
    return convert<D, int8_t>;
  case Type::S16:
    return convert<D, int16_t>;
  case Type::S32:
    return convert<D, int32_t>;
  case Type::S64:
    return convert<D, int64_t>;
  case Type::F16:
    return convert<D, F16>;
  case Type::Bf16:
    return convert<D, Bf16>;
  case Type::F32:
    return convert<D, float>;
  case Type::F64:
    return convert<D, double>;
  default:
    decoder.unknown();
  }
}

Handler general(Decoder &decoder, Type result, Type source) {
  switch (result) {
  case Type::U8:
    return fromType<uint8_t>(decoder, source);
  case Type::U16:
    return fromType<uint16_t>(decoder, source);
  case Type::U32:
    return fromType<uint32_t>(decoder, source);
  case Type::U64:
    return fromType<uint64_t>(decoder, source);
  case Type::S8:
    return fromType<int8_t>(decoder, source);
  case Type::S16:
    return fromType<int16_t>(decoder, source);
  case Type::S32:
    return fromType<int32_t>(decoder, source);
  case Type::S64:
    return fromType<int64_t>(decoder, source);
  case Type::F16:
    return fromType<F16>(decoder, source);
  case Type::Bf16:
    return fromType<Bf16>(decoder, source);
  case Type::F32:
    return fromType<float>(decoder, source);
  case Type::F64:
    return fromType<double>(decoder, source);
  default:
    decoder.unknown();
  }
}

/// A handler without the generality, or null.
Handler quick(Type result, Type source, bool sameWidths) {
  if (!sameWidths)
    return nullptr;
  if (result == Type::U64 && source == Type::U32)
    return Lanewise<plain<uint64_t, uint32_t>>::run;
  if (result == Type::S64 && source == Type::S32)
    return Lanewise<plain<int64_t, int32_t>>::run;
  if ((result == Type::U32 && source == Type::U64) ||
      (result == Type::S32 && source == Type::S64))
    return Lanewise<plain<uint32_t, uint64_t>>::run;
  if (result == Type::F32 && source == Type::F16)
    return Lanewise<widenF16>::run;
  if (result == Type::F32 && source == Type::Bf16)
    return Lanewise<widenBf16>::run;
  if (result == Type::F16 && source == Type::F32)
    return Lanewise<nearestF16>::run;
  if (result == Type::Bf16 && source == Type::F32)
    return Lanewise<nearestBf16>::run;
  return nullptr;
}

Integral takeIntegral(Decoder &decoder) {
  static constexpr std::pair<std::string_view, Integral> Known[] = {
      {"rni", Integral::Nearest},
      {"rzi", Integral::Zero},
      {"rmi", Integral::Down},
      {"rpi", Integral::Up}};
  for (auto [name, integral] : Known)
    if (decoder.take(name))
      return integral;
  return Integral::No;
}

void decodePacked(Decoder &decoder, Type result, bool plainRounding) {
  decoder.expectOperands(3);
  decoder.out.op[0] = decoder.destination(0, result);
  decoder.out.op[1] = decoder.source(1, Type::F32);
  decoder.out.op[2] = decoder.source(2, Type::F32);
  bool f16 = result == Type::F16x2;
  if (plainRounding)
    return decoder.done(f16 ? Lanewise<packF16>::run : Lanewise<packBf16>::run);
  decoder.done(f16 ? pack<F16, F16x2> : pack<Bf16, Bf16x2>);
}

/// Whether precision may be lost, so that a rounding must be said.
bool losesBits(Type result, Type source) {
  if (!isFloat(result))
    return false;
  if (!isFloat(source))
    return true;
  if (bitsOf(result) == 16 && bitsOf(source) == 16)
    return result != source;
  return bitsOf(result) < bitsOf(source);
}

void decodeConvert(Decoder &decoder) {
  bool rounds = false;
  Rounding rounding = decoder.takeRounding(rounds);
  Integral integral = takeIntegral(decoder);
  bool away = decoder.take("rna");
  bool ftz = decoder.take("ftz"), sat = decoder.take("sat");
  bool relu = decoder.take("relu");
  Type result = decoder.takeType(), source = decoder.takeType();
  Instruction &out = decoder.out;
  out.small = {uint8_t(rounding), uint8_t(integral),
               uint8_t((ftz ? Ftz : 0) | (sat ? Sat : 0) | (relu ? Relu : 0))};
  if (result == Type::Tf32) {
    if (!away || rounds || integral != Integral::No || ftz || sat || relu ||
        source != Type::F32)
      decoder.unknown();
    decoder.expectOperands(2);
    out.op[0] = decoder.destination(0, Type::B32);
    out.op[1] = decoder.source(1, Type::F32);
    return decoder.done(Lanewise<toTf32>::run);
  }
  bool packs = result == Type::F16x2 || result == Type::Bf16x2;
  bool toInteger = !isFloat(result), fromInteger = !isFloat(source);
  if (away || (packs && (source != Type::F32 || !rounds)) ||
      (rounds && rounding > Rounding::Zero && packs))
    decoder.unknown();
  if (packs)
    return decodePacked(decoder, result,
                        rounding == Rounding::Nearest && !relu && !sat && !ftz);
  // The manual's table: integers from numbers need an integral rounding,
  // narrower formats a rounding, all else none.
  bool narrows = losesBits(result, source);
  if ((toInteger && !fromInteger) != (integral != Integral::No) &&
      !(result == source && integral != Integral::No))
    decoder.unknown();
  bool nearest = rounding == Rounding::Nearest;
  if (rounds != narrows || (result == Type::F64 && (!nearest || sat)) ||
      (relu && (bitsOf(result) != 16 || toInteger)) ||
      (ftz && source != Type::F32 && result != Type::F32))
    decoder.unknown();
  decoder.expectOperands(2);
  unsigned resultBits = 0, sourceBits = 0;
  out.op[0] = decoder.destination(0, result, &resultBits);
  out.op[1] = decoder.source(1, source, &sourceBits);
  out.small[3] = uint8_t(sourceBits / 8);
  out.small[4] = uint8_t(resultBits / 8);
  bool usual = nearest && integral == Integral::No && out.small[2] == 0 &&
               resultBits == bitsOf(result) && sourceBits == bitsOf(source);
  Handler handler = quick(result, source, usual);
  decoder.done(handler ? handler : general(decoder, result, source));
}

} // namespace

void addConvert(Opcodes &opcodes) { opcodes["cvt"] = decodeConvert; }

} // namespace attn::ptx

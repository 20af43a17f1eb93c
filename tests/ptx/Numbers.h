//===- tests/ptx/Numbers.h - The number formats of a device ---------------===//
//
// Part of attnc. Apache-2.0.
//
// Conversions are exact where the target format is wider and correctly rounded
// where it is not. They hold no branch that depends on data where a loop over
// lanes is to become vector code.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PTX_NUMBERS_H
#define ATTNC_TESTS_PTX_NUMBERS_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace attn::ptx {

struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};
/// Two numbers in a 32-bit register, the first in the lower half.
struct F16x2 {
  F16 low, high;
};
struct Bf16x2 {
  Bf16 low, high;
};

enum class Rounding : uint8_t { Nearest, Zero, Down, Up };

template <class To, class From> To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// The one NaN that arithmetic in f32 gives.
inline float canonicalNan() { return bitCast<float>(uint32_t(0x7fffffff)); }
inline float canonical(float value) {
  return value != value ? canonicalNan() : value;
}
/// Subnormal numbers become zeros of their sign.
inline float flush(float value) {
  uint32_t bits = bitCast<uint32_t>(value);
  bool subnormal = (bits & 0x7f800000) == 0;
  return bitCast<float>(subnormal ? bits & 0x80000000 : bits);
}

inline float toFloat(F16 value) {
  // The exponent's bias is changed by a multiplication, which also takes
  // subnormal numbers right; infinities and NaNs then get their exponent back.
  uint32_t magnitude = uint32_t(value.bits & 0x7fff) << 13;
  float scaled =
      bitCast<float>(magnitude) * bitCast<float>(uint32_t(0x77800000));
  uint32_t bits = bitCast<uint32_t>(scaled);
  bits = magnitude >= (uint32_t(0x7c00) << 13) ? magnitude | 0x7f800000 : bits;
  return bitCast<float>(bits | uint32_t(value.bits & 0x8000) << 16);
}
inline float toFloat(Bf16 value) {
  return bitCast<float>(uint32_t(value.bits) << 16);
}
inline float toFloat(float value) { return value; }

/// Rounds a finite magnitude to a multiple of the unit `2^exponent`.
inline double roundToUnit(double value, int exponent, Rounding rounding) {
  double scaled = std::ldexp(value, -exponent);
  switch (rounding) {
  case Rounding::Nearest: {
    double below = std::floor(scaled), rest = scaled - below;
    bool up = rest > 0.5 || (rest == 0.5 && std::fmod(below, 2.0) != 0);
    scaled = below + (up ? 1 : 0);
    break;
  }
  case Rounding::Zero:
    scaled = std::trunc(scaled);
    break;
  case Rounding::Down:
    scaled = std::floor(scaled);
    break;
  case Rounding::Up:
    scaled = std::ceil(scaled);
    break;
  }
  return std::copysign(std::ldexp(scaled, exponent), value);
}

/// Rounds to a binary format of `digits` significant bits whose least normal
/// number is `2^minExponent` and whose greatest is `largest`. NaN stays NaN.
inline double roundToFormat(double value, int digits, int minExponent,
                            double largest, Rounding rounding) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent = std::max(std::ilogb(value), minExponent) - (digits - 1);
  double rounded = roundToUnit(value, exponent, rounding);
  if (std::fabs(rounded) <= largest)
    return rounded;
  bool away = rounding == Rounding::Nearest ||
              (rounding == Rounding::Up && value > 0) ||
              (rounding == Rounding::Down && value < 0);
  return std::copysign(away ? std::numeric_limits<double>::infinity() : largest,
                       value);
}

/// The bits of a number that the format holds exactly; NaN gives 0x7fff.
inline F16 exactF16(double value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  double magnitude = std::fabs(value);
  if (value != value)
    return {0x7fff};
  if (std::isinf(value))
    return {uint16_t(sign | 0x7c00)};
  if (magnitude < 0x1p-14)
    return {uint16_t(sign | unsigned(magnitude * 0x1p24))};
  int exponent = std::ilogb(magnitude);
  unsigned fraction = unsigned(std::ldexp(magnitude, 10 - exponent)) - 1024;
  return {uint16_t(sign | (exponent + 15) << 10 | fraction)};
}
inline Bf16 exactBf16(double value) {
  if (value != value)
    return {0x7fff};
  return {uint16_t(bitCast<uint32_t>(float(value)) >> 16)};
}

inline F16 toF16(double value, Rounding rounding) {
  return exactF16(roundToFormat(value, 11, -14, 65504, rounding));
}
inline Bf16 toBf16(double value, Rounding rounding) {
  return exactBf16(roundToFormat(value, 8, -126, 0x1.fep127, rounding));
}
inline float toF32(double value, Rounding rounding) {
  if (rounding == Rounding::Nearest)
    return float(value);
  return float(roundToFormat(value, 24, -126, 0x1.fffffep127, rounding));
}

/// As toF16(value, Nearest), for loops over lanes.
inline F16 nearestF16(float value) {
  uint32_t bits = bitCast<uint32_t>(value);
  uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  // Below the least normal number the sum with a constant rounds to its unit.
  float subnormal = bitCast<float>(magnitude) + 0.5f;
  uint32_t low = bitCast<uint32_t>(subnormal) - 0x3f000000;
  uint32_t normal =
      (magnitude + 0xfff + (magnitude >> 13 & 1) - (uint32_t(112) << 23)) >> 13;
  normal = magnitude >= 0x47800000 ? 0x7c00 : normal;
  uint32_t result = magnitude < 0x38800000 ? low : normal;
  result = magnitude > 0x7f800000 ? 0x7fff : result | sign;
  return {uint16_t(result)};
}
/// As toBf16(value, Nearest), for loops over lanes.
inline Bf16 nearestBf16(float value) {
  uint32_t bits = bitCast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return {uint16_t((bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded)};
}

/// A sum whose last bit is odd where it is not exact: rounding it once more,
/// to a much narrower format, gives what rounding the exact sum would give.
inline double addToOdd(double a, double b) {
  double sum = a + b;
  if (!std::isfinite(sum))
    return sum;
  double part = sum - a;
  double error = (a - (sum - part)) + (b - part);
  if (error == 0 || (bitCast<uint64_t>(sum) & 1))
    return sum;
  return std::nextafter(sum, error > 0
                                 ? std::numeric_limits<double>::infinity()
                                 : -std::numeric_limits<double>::infinity());
}

} // namespace attn::ptx

#endif

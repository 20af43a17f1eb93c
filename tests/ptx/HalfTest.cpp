//===- tests/ptx/HalfTest.cpp - f16, bf16 and conversions -----------------===//
//
// Part of attnc. Apache-2.0.
//
// The formats' numbers are taken from their definition, one by one; rounding is
// a search for the neighbours among them.
//
//===----------------------------------------------------------------------===//
#include "Numbers.h"
#include "TestSupport.h"
#include <algorithm>
#include <cfenv>
#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>

using namespace attn::ptx;
using namespace attn::ptx::test;

namespace {

constexpr size_t Cases = 256;
using Exact = long double;

/// A format of 16 bits with so many for the exponent.
struct Format {
  const char *name;
  int exponentBits;
  int digits() const { return 15 - exponentBits; } ///< stored ones
  int bias() const { return (1 << (exponentBits - 1)) - 1; }
  uint16_t infinity() const {
    return uint16_t(((1 << exponentBits) - 1) << digits());
  }

  Exact value(uint16_t bits) const {
    int exponent = bits >> digits() & ((1 << exponentBits) - 1);
    Exact fraction = bits & ((1 << digits()) - 1);
    Exact sign = (bits & 0x8000) != 0 ? -1 : 1;
    if ((bits & 0x7fff) > infinity())
      return NAN;
    if ((bits & 0x7fff) == infinity())
      return sign * INFINITY;
    if (exponent == 0)
      return sign * std::ldexp(fraction, 1 - bias() - digits());
    return sign *
           std::ldexp(fraction + (1 << digits()), exponent - bias() - digits());
  }

  /// Magnitudes ascend with their bits: a binary search finds the neighbours.
  uint16_t round(Exact exact, int mode = FE_TONEAREST) const {
    if (std::isnan(exact))
      return 0x7fff;
    uint16_t sign = std::signbit(exact) ? 0x8000 : 0;
    Exact magnitude = std::fabs(exact);
    uint16_t below = 0;
    for (int bit = 14; bit >= 0; bit--)
      if (uint16_t next = uint16_t(below | 1 << bit);
          next <= infinity() && value(next) <= magnitude)
        below = next;
    if (below == infinity() || value(below) == magnitude)
      return sign | below;
    uint16_t above = below + 1;
    bool up;
    if (mode == FE_TONEAREST) {
      // Beyond the largest number, as if the format went on.
      Exact step = value(below) - value(below - (below != 0));
      Exact top = above == infinity() ? value(below) + step : value(above);
      Exact down = magnitude - value(below), rise = top - magnitude;
      up = rise < down || (rise == down && (below & 1) != 0);
    } else {
      up = (mode == FE_UPWARD && sign == 0) ||
           (mode == FE_DOWNWARD && sign != 0);
    }
    return sign | (up ? above : below);
  }
};
const Format Formats[] = {{"f16", 5}, {"bf16", 8}};

float single(uint64_t bits) { return bitCast<float>(uint32_t(bits)); }

std::vector<uint64_t> halves(const Format &format, std::mt19937_64 &random) {
  std::vector<uint64_t> made = awkwardFloats(16, Cases, random);
  if (format.exponentBits == 8)
    for (uint64_t &bits : made) {
      // Exponents near one another, so that long double holds every sum.
      uint64_t exponent = 127 - 8 + random() % 16;
      if (random() % 8 != 0)
        bits = (bits & 0x807f) | exponent << 7;
    }
  return made;
}

using Reference = std::function<Exact(const std::vector<Exact> &)>;

/// Compares an instruction on single numbers and on pairs of them.
void compare(
    const Format &format, const std::string &opcode, size_t operands,
    const std::function<uint16_t(const std::vector<uint16_t> &)> &reference) {
  const char *list[] = {"$a", "$a, $b", "$a, $b, $c"};
  std::mt19937_64 random(std::hash<std::string>()(opcode + format.name));
  std::vector<std::vector<uint64_t>> low, high, pairs(operands);
  for (size_t n = 0; n < operands; n++) {
    low.push_back(halves(format, random));
    high.push_back(halves(format, random));
    for (size_t i = 0; i < Cases; i++)
      pairs[n].push_back(high[n][i] << 16 | low[n][i]);
  }
  auto expected = [&](const std::vector<std::vector<uint64_t>> &of, size_t i) {
    std::vector<uint16_t> row;
    for (auto &column : of)
      row.push_back(uint16_t(column[i]));
    return uint64_t(reference(row));
  };
  std::string one =
      fmt::format("{}.{} $d, {}", opcode, format.name, list[operands - 1]);
  std::string two =
      fmt::format("{}.{}x2 $d, {}", opcode, format.name, list[operands - 1]);
  auto found = evaluate(one, 16, std::vector<Bits>(operands, 16), low);
  auto both = evaluate(two, 32, std::vector<Bits>(operands, 32), pairs);
  for (size_t i = 0; i < Cases; i++) {
    EXPECT_EQ(found[i], expected(low, i))
        << one << ", case " << i << ": " << low[0][i] << " " << low.back()[i];
    EXPECT_EQ(both[i], expected(high, i) << 16 | expected(low, i)) << two;
  }
}

void compareRounded(const Format &format, const std::string &opcode,
                    size_t operands, const Reference &exact) {
  compare(format, opcode, operands, [&](const std::vector<uint16_t> &row) {
    std::vector<Exact> values;
    for (uint16_t bits : row)
      values.push_back(format.value(bits));
    return format.round(exact(values));
  });
}

TEST(Half, Arithmetic) {
  for (const Format &format : Formats) {
    compareRounded(format, "add.rn", 2, [](auto &v) { return v[0] + v[1]; });
    compareRounded(format, "sub.rn", 2, [](auto &v) { return v[0] - v[1]; });
    compareRounded(format, "mul.rn", 2, [](auto &v) { return v[0] * v[1]; });
    compareRounded(format, "fma.rn", 3,
                   [](auto &v) { return v[0] * v[1] + v[2]; });
    compareRounded(format, "fma.rn.relu", 3, [](auto &v) {
      Exact sum = v[0] * v[1] + v[2];
      return sum < 0 ? Exact(0) : sum;
    });
  }
  const Format &f16 = Formats[0];
  compareRounded(f16, "add", 2, [](auto &v) { return v[0] + v[1]; });
  compareRounded(f16, "mul.rn.sat", 2, [](auto &v) {
    Exact product = v[0] * v[1];
    return product > 0 ? std::min(product, Exact(1)) : Exact(0);
  });
  auto flush = [](Exact x) {
    return std::fabs(x) < 0x1p-14L ? std::copysign(Exact(0), x) : x;
  };
  compareRounded(f16, "add.rn.ftz", 2,
                 [&](auto &v) { return flush(flush(v[0]) + flush(v[1])); });
  compareRounded(f16, "fma.rn.ftz", 3, [&](auto &v) {
    Exact sum = flush(v[0]) * flush(v[1]) + flush(v[2]);
    // What is flushed is the rounded result.
    return flush(f16.value(f16.round(sum)));
  });
}

TEST(Half, SignsAndExtremes) {
  for (const Format &format : Formats) {
    auto isNan = [&](uint16_t bits) {
      return (bits & 0x7fff) > format.infinity();
    };
    compare(format, "neg", 1, [](auto &v) { return uint16_t(v[0] ^ 0x8000); });
    compare(format, "abs", 1, [](auto &v) { return uint16_t(v[0] & 0x7fff); });
    for (bool nan : {false, true})
      for (bool max : {false, true})
        compare(format,
                fmt::format("{}{}", max ? "max" : "min", nan ? ".NaN" : ""), 2,
                [&](auto &v) -> uint16_t {
                  if (isNan(v[0]) || isNan(v[1]))
                    return nan || (isNan(v[0]) && isNan(v[1])) ? 0x7fff
                           : isNan(v[0])                       ? v[1]
                                                               : v[0];
                  Exact a = format.value(v[0]), b = format.value(v[1]);
                  if (a == b)
                    return ((v[0] & 0x8000) != 0) == max ? v[1] : v[0];
                  return (a < b) == max ? v[1] : v[0];
                });
  }
}

TEST(Half, Functions) {
  for (const Format &format : Formats) {
    bool f16 = format.exponentBits == 5;
    auto close = [&](const std::string &text, Exact bound, auto exact) {
      std::vector<uint64_t> values;
      for (float x = -4; x < 4; x += 0.125F)
        values.push_back(format.round(x));
      auto found = evaluate(text, 16, {16}, {values});
      for (size_t i = 0; i < values.size(); i++) {
        Exact expected = exact(format.value(uint16_t(values[i])));
        EXPECT_LE(std::fabs(format.value(uint16_t(found[i])) - expected),
                  bound * std::fabs(expected))
            << text;
      }
    };
    // The manual's bounds: 2^-9.9 for f16, 2^-7 for bf16; for tanh 2^-10.987
    // absolute, and 2^-8.
    close(fmt::format("ex2.approx{}.{} $d, $a", f16 ? "" : ".ftz", format.name),
          f16 ? std::exp2(-9.9L) : 0x1p-7L,
          [](Exact x) { return std::exp2(x); });
    close(fmt::format("tanh.approx.{} $d, $a", format.name),
          f16 ? 0x1p-10L : 0x1p-8L, [](Exact x) { return std::tanh(x); });
  }
  uint64_t pair = uint64_t(0x3c00) << 16 | 0x4000; // 1 and 2
  EXPECT_EQ(evaluate("ex2.approx.f16x2 $d, $a", 32, {32}, {{pair}})[0],
            uint64_t(0x4000) << 16 | 0x4400);
}

// --- cvt
// ----------------------------------------------------------------------

const std::pair<const char *, int> Modes[] = {{"rn", FE_TONEAREST},
                                              {"rz", FE_TOWARDZERO},
                                              {"rm", FE_DOWNWARD},
                                              {"rp", FE_UPWARD}};

std::vector<uint64_t> singles(const std::string &seed) {
  std::mt19937_64 random(std::hash<std::string>()(seed));
  std::vector<uint64_t> made = awkwardFloats(32, Cases, random);
  // Half of them in the range of f16, with ties and near ties.
  for (size_t i = 0; i < Cases; i += 2) {
    float value =
        static_cast<float>(Formats[0].value(uint16_t(random() & 0x7bff)));
    uint32_t bits = bitCast<uint32_t>(value) + uint32_t(random() % 3 * 0x1000);
    made[i] = bits + (random() % 3) - 1;
  }
  return made;
}

TEST(Convert, ToHalf) {
  for (const Format &format : Formats)
    for (auto [name, mode] : Modes) {
      if (mode == FE_DOWNWARD || mode == FE_UPWARD)
        continue; // the manual has no such conversion
      std::string text = fmt::format("cvt.{}.{}.f32 $d, $a", name, format.name);
      auto values = singles(text);
      auto found = evaluate(text, 16, {32}, {values});
      std::string packed =
          fmt::format("cvt.{}.{}x2.f32 $d, $a, $b", name, format.name);
      auto low = singles(packed);
      auto both = evaluate(packed, 32, {32, 32}, {values, low});
      for (size_t i = 0; i < Cases; i++) {
        uint64_t high = format.round(single(values[i]), mode);
        EXPECT_EQ(found[i], high) << text << " " << single(values[i]);
        EXPECT_EQ(both[i], high << 16 | format.round(single(low[i]), mode))
            << packed;
      }
      std::string relu =
          fmt::format("cvt.{}.relu.{}x2.f32 $d, $a, $b", name, format.name);
      EXPECT_EQ(evaluate(relu, 32, {32, 32}, {{0xbf800000}, {0x3f800000}})[0],
                format.round(1));
    }
}

TEST(Convert, FromHalf) {
  for (const Format &format : Formats) {
    std::vector<uint64_t> all;
    for (uint64_t bits = 0; bits < 0x10000; bits += 7)
      all.push_back(bits);
    auto found = evaluate(fmt::format("cvt.f32.{} $d, $a", format.name), 32,
                          {16}, {all});
    for (size_t i = 0; i < all.size(); i++) {
      Exact value = format.value(uint16_t(all[i]));
      if (std::isnan(value))
        EXPECT_TRUE(std::isnan(single(found[i])));
      else
        EXPECT_EQ(found[i], bitCast<uint32_t>(static_cast<float>(value)))
            << all[i];
    }
  }
  EXPECT_EQ(evaluate("cvt.f64.f16 $d, $a", 64, {16}, {{0x3800}})[0],
            bitCast<uint64_t>(0.5));
}

TEST(Convert, BetweenFloats) {
  std::mt19937_64 random(5);
  auto doubles = awkwardFloats(64, Cases, random);
  for (size_t i = 0; i < Cases; i += 2) // near what f32 holds
    doubles[i] = bitCast<uint64_t>(double(single(random()))) + random() % 3;
  for (auto [name, mode] : Modes) {
    auto found = evaluate(fmt::format("cvt.{}.f32.f64 $d, $a", name), 32, {64},
                          {doubles});
    for (size_t i = 0; i < Cases; i++) {
      volatile double from = bitCast<double>(doubles[i]);
      std::fesetround(mode);
      volatile float expected = static_cast<float>(from);
      std::fesetround(FE_TONEAREST);
      float was = expected;
      EXPECT_EQ(found[i], std::isnan(was) ? 0x7fffffff : bitCast<uint32_t>(was))
          << name << " " << from;
    }
  }
  auto values = singles("widen");
  auto wide = evaluate("cvt.f64.f32 $d, $a", 64, {32}, {values});
  for (size_t i = 0; i < Cases; i++)
    if (!std::isnan(single(values[i])))
      EXPECT_EQ(wide[i], bitCast<uint64_t>(double(single(values[i]))));
  struct Row {
    const char *text;
    float from, to;
  };
  const Row rows[] = {
      {"cvt.rni.f32.f32", 2.5F, 2},      {"cvt.rni.f32.f32", -3.5F, -4},
      {"cvt.rzi.f32.f32", -2.7F, -2},    {"cvt.rmi.f32.f32", -2.1F, -3},
      {"cvt.rpi.f32.f32", 2.1F, 3},      {"cvt.sat.f32.f32", 1.5F, 1},
      {"cvt.sat.f32.f32", -1.5F, 0},     {"cvt.sat.f32.f32", NAN, 0},
      {"cvt.ftz.f32.f32", 0x1p-140F, 0}, {"cvt.f32.f32", 0x1p-140F, 0x1p-140F}};
  for (const Row &row : rows)
    EXPECT_EQ(single(evaluate(std::string(row.text) + " $d, $a", 32, {32},
                              {{bitCast<uint32_t>(row.from)}})[0]),
              row.to)
        << row.text;
}

TEST(Convert, ToTf32) {
  auto values = singles("tf32");
  auto found = evaluate("cvt.rna.tf32.f32 $d, $a", 32, {32}, {values});
  for (size_t i = 0; i < Cases; i++) {
    float from = single(values[i]);
    if (!std::isfinite(from)) {
      EXPECT_EQ(found[i], std::isnan(from) ? 0x7fffffff : values[i]);
      continue;
    }
    // 11 significant bits, ties away from zero.
    int exponent = std::max(from == 0 ? 0 : std::ilogb(from), -126) - 10;
    double expected =
        std::ldexp(std::round(std::ldexp(double(from), -exponent)), exponent);
    EXPECT_EQ(double(single(found[i])), std::fabs(expected) > 0x1.fffffep127
                                            ? std::copysign(INFINITY, expected)
                                            : expected);
  }
}

struct IntegerType {
  const char *name;
  Bits bits, reg; ///< of the type, and of a register for it
  bool isSigned;
};
const IntegerType Integers[] = {{"u8", 8, 16, false},   {"s8", 8, 16, true},
                                {"u16", 16, 16, false}, {"s16", 16, 16, true},
                                {"u32", 32, 32, false}, {"s32", 32, 32, true},
                                {"u64", 64, 64, false}, {"s64", 64, 64, true}};
__int128 valueOf(const IntegerType &type, uint64_t raw) {
  __int128 range = static_cast<__int128>(1) << type.bits,
           value = raw & uint64_t(range - 1);
  return type.isSigned && value >= range / 2 ? value - range : value;
}
uint64_t inRegister(__int128 value, Bits bits) {
  return bits == 64 ? uint64_t(value)
                    : uint64_t(value) & ((uint64_t(1) << bits) - 1);
}

TEST(Convert, BetweenIntegers) {
  for (const IntegerType &from : Integers)
    for (const IntegerType &to : Integers)
      for (bool sat : {false, true}) {
        __int128 most =
            (static_cast<__int128>(1) << (to.bits - (to.isSigned ? 1 : 0))) - 1;
        __int128 least = to.isSigned ? -most - 1 : 0;
        // ptxas takes .sat only where values may not fit.
        bool fits = to.bits > from.bits
                        ? to.isSigned || !from.isSigned
                        : to.bits == from.bits && to.isSigned == from.isSigned;
        if (sat && fits)
          continue;
        std::string text = fmt::format("cvt{}.{}.{} $d, $a", sat ? ".sat" : "",
                                       to.name, from.name);
        std::mt19937_64 random(std::hash<std::string>()(text));
        auto values = awkward(from.reg, Cases, random);
        auto found = evaluate(text, to.reg, {from.reg}, {values});
        for (size_t i = 0; i < Cases; i++) {
          __int128 value = valueOf(from, values[i]);
          value = sat ? std::min(std::max(value, least), most)
                      : valueOf(to, uint64_t(value));
          EXPECT_EQ(found[i], inRegister(value, to.reg))
              << text << " " << values[i];
        }
      }
  // Registers may be wider than types.
  EXPECT_EQ(evaluate("cvt.u32.u8 $d, $a", 32, {32}, {{0x12345678}})[0], 0x78U);
  EXPECT_EQ(evaluate("cvt.s64.s8 $d, $a", 64, {64}, {{0xff80}})[0],
            uint64_t(-128));
  EXPECT_EQ(evaluate("cvt.u16.u64 $d, $a", 32, {64}, {{0x123456789}})[0],
            0x6789U);
  EXPECT_EQ(evaluate("cvt.s8.s32 $d, $a", 32, {32}, {{0xff80}})[0],
            0xffffff80U);
}

TEST(Convert, FloatToInteger) {
  for (const IntegerType &to : Integers)
    for (const char *rounding : {"rni", "rzi", "rmi", "rpi"}) {
      if (to.bits == 8)
        continue;
      std::string text = fmt::format("cvt.{}.{}.f32 $d, $a", rounding, to.name);
      std::mt19937_64 random(std::hash<std::string>()(text));
      auto values = awkwardFloats(32, Cases, random);
      for (size_t i = 0; i < Cases; i += 2)
        values[i] = bitCast<uint32_t>(
            static_cast<float>(int64_t(random()) >> random() % 60) / 4);
      auto found = evaluate(text, to.reg, {32}, {values});
      for (size_t i = 0; i < Cases; i++) {
        double from = single(values[i]);
        double integral = rounding[1] == 'n'   ? std::nearbyint(from)
                          : rounding[1] == 'z' ? std::trunc(from)
                          : rounding[1] == 'm' ? std::floor(from)
                                               : std::ceil(from);
        __int128 most =
            (static_cast<__int128>(1) << (to.bits - (to.isSigned ? 1 : 0))) - 1;
        __int128 least = to.isSigned ? -most - 1 : 0, expected;
        if (std::isnan(from))
          expected = to.bits == 64 ? static_cast<__int128>(1) << 63 : 0;
        else if (std::fabs(integral) > 0x1p100)
          expected = integral > 0 ? most : least;
        else
          expected =
              std::min(std::max(static_cast<__int128>(integral), least), most);
        EXPECT_EQ(found[i], inRegister(expected, to.reg))
            << text << " " << from;
      }
    }
  EXPECT_EQ(evaluate("cvt.rzi.s32.f64 $d, $a", 32, {64},
                     {{bitCast<uint64_t>(-7.9)}})[0],
            uint32_t(-7));
  EXPECT_EQ(evaluate("cvt.rzi.s32.f16 $d, $a", 32, {16}, {{0xc500}})[0],
            uint32_t(-5));
  EXPECT_EQ(evaluate("cvt.rzi.ftz.u32.f32 $d, $a", 32, {32}, {{1}})[0], 0U);
}

TEST(Convert, IntegerToFloat) {
  for (const IntegerType &from : Integers)
    for (auto [name, mode] : Modes) {
      std::string text = fmt::format("cvt.{}.f32.{} $d, $a", name, from.name);
      std::mt19937_64 random(std::hash<std::string>()(text));
      auto values = awkward(from.reg, Cases, random);
      auto found = evaluate(text, 32, {from.reg}, {values});
      auto halvesFound =
          evaluate(fmt::format("cvt.{}.f16.{} $d, $a", name, from.name), 16,
                   {from.reg}, {values});
      auto wide = evaluate(fmt::format("cvt.rn.f64.{} $d, $a", from.name), 64,
                           {from.reg}, {values});
      for (size_t i = 0; i < Cases; i++) {
        volatile int64_t value = int64_t(valueOf(from, values[i]));
        bool big = !from.isSigned && from.bits == 64;
        volatile uint64_t unsignedValue = values[i];
        std::fesetround(mode);
        volatile float expected =
            big ? static_cast<float>(unsignedValue) : static_cast<float>(value);
        std::fesetround(FE_TONEAREST);
        float was = expected;
        EXPECT_EQ(found[i], bitCast<uint32_t>(was)) << text << " " << values[i];
        Exact exact =
            big ? static_cast<Exact>(unsignedValue) : static_cast<Exact>(value);
        EXPECT_EQ(halvesFound[i], Formats[0].round(exact, mode)) << text;
        EXPECT_EQ(bitCast<double>(wide[i]), static_cast<double>(exact));
      }
    }
}

} // namespace

//===- tests/ptx/FloatTest.cpp - Arithmetic in f32 and f64 ----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Numbers.h"
#include "TestSupport.h"
#include <cfenv>
#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>

using namespace attn::ptx;
using namespace attn::ptx::test;

namespace {

constexpr size_t Cases = 256;

float single(uint64_t bits) { return bitCast<float>(uint32_t(bits)); }
double twice(uint64_t bits) { return bitCast<double>(bits); }
float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value)
                                                : value;
}

/// The host's own arithmetic, in the rounding mode of the moment. `noinline`
/// keeps it at run time.
[[gnu::noinline]] float hostSum(volatile float a, volatile float b) {
  return a + b;
}
[[gnu::noinline]] float hostProduct(volatile float a, volatile float b) {
  return a * b;
}
[[gnu::noinline]] float hostFused(volatile float a, volatile float b,
                                  volatile float c) {
  return std::fma(float(a), float(b), float(c));
}

using Singles = std::vector<float>;
using Reference = std::function<float(const Singles &)>;

std::vector<std::vector<uint64_t>> floats(Bits bits, size_t operands,
                                          const std::string &seed) {
  std::mt19937_64 random(std::hash<std::string>()(seed));
  std::vector<std::vector<uint64_t>> values;
  for (size_t n = 0; n < operands; n++)
    values.push_back(awkwardFloats(bits, Cases, random));
  return values;
}

void expectSame(float found, float expected, const Singles &row) {
  uint32_t bits = bitCast<uint32_t>(found);
  if (std::isnan(expected))
    EXPECT_EQ(bits, 0x7fffffffU) << row[0]; // the canonical NaN
  else
    EXPECT_EQ(bits, bitCast<uint32_t>(expected))
        << found << " is not " << expected << " for " << row[0] << ", "
        << (row.size() > 1 ? row[1] : 0) << ", "
        << (row.size() > 2 ? row[2] : 0);
}

void compare(const std::string &instruction, size_t operands, bool ftz,
             const Reference &reference) {
  SCOPED_TRACE(instruction);
  auto values = floats(32, operands, instruction);
  auto found =
      evaluate(instruction, 32, std::vector<Bits>(operands, 32), values);
  for (size_t i = 0; i < Cases; i++) {
    Singles row;
    for (auto &column : values)
      row.push_back(ftz ? flushed(single(column[i])) : single(column[i]));
    float expected = reference(row);
    expectSame(single(found[i]), ftz ? flushed(expected) : expected, row);
  }
}

struct Mode {
  const char *name;
  int host;
};
const Mode Modes[] = {{".rn", FE_TONEAREST},
                      {".rz", FE_TOWARDZERO},
                      {".rm", FE_DOWNWARD},
                      {".rp", FE_UPWARD}};

Reference inMode(int mode, const Reference &inner) {
  return [=](const Singles &v) {
    std::fesetround(mode);
    float result = inner(v);
    std::fesetround(FE_TONEAREST);
    return result;
  };
}

TEST(Float, RoundedArithmetic) {
  for (const Mode &mode : Modes)
    for (bool ftz : {false, true})
      for (bool sat : {false, true}) {
        std::string suffix = fmt::format("{}{}{}.f32", mode.name,
                                         ftz ? ".ftz" : "", sat ? ".sat" : "");
        auto finish = [&](const Reference &inner) -> Reference {
          Reference rounded = inMode(mode.host, inner);
          return [=](const Singles &v) {
            float result = rounded(v);
            if (!sat)
              return result;
            return std::isnan(result) || result <= 0 ? 0.0F
                                                     : std::min(result, 1.0F);
          };
        };
        compare("add" + suffix + " $d, $a, $b", 2, ftz,
                finish([](auto &v) { return hostSum(v[0], v[1]); }));
        compare("sub" + suffix + " $d, $a, $b", 2, ftz,
                finish([](auto &v) { return hostSum(v[0], -v[1]); }));
        compare("mul" + suffix + " $d, $a, $b", 2, ftz,
                finish([](auto &v) { return hostProduct(v[0], v[1]); }));
        compare("fma" + suffix + " $d, $a, $b, $c", 3, ftz,
                finish([](auto &v) { return hostFused(v[0], v[1], v[2]); }));
      }
  compare("add.f32 $d, $a, $b", 2, false,
          [](auto &v) { return hostSum(v[0], v[1]); });
  compare("mul.ftz.f32 $d, $a, $b", 2, true,
          [](auto &v) { return hostProduct(v[0], v[1]); });
  compare("mad.rn.f32 $d, $a, $b, $c", 3, false,
          [](auto &v) { return hostFused(v[0], v[1], v[2]); });
}

TEST(Float, ExactFunctions) {
  for (bool ftz : {false, true}) {
    std::string suffix = ftz ? ".ftz.f32" : ".f32";
    compare("div.rn" + suffix + " $d, $a, $b", 2, ftz,
            [](auto &v) { return v[0] / v[1]; });
    compare("rcp.rn" + suffix + " $d, $a", 1, ftz,
            [](auto &v) { return 1 / v[0]; });
    compare("sqrt.rn" + suffix + " $d, $a", 1, ftz,
            [](auto &v) { return std::sqrt(v[0]); });
  }
  // These touch no more than the sign, NaNs included.
  auto bitwise = [](const char *instruction, auto reference) {
    auto values = floats(32, 2, instruction);
    auto found = evaluate(instruction, 32, {32, 32}, values);
    for (size_t i = 0; i < Cases; i++)
      EXPECT_EQ(found[i], reference(values[0][i], values[1][i])) << instruction;
  };
  bitwise("neg.f32 $d, $a",
          [](uint64_t a, uint64_t) { return a ^ 0x80000000; });
  bitwise("abs.f32 $d, $a",
          [](uint64_t a, uint64_t) { return a & 0x7fffffff; });
  bitwise("copysign.f32 $d, $a, $b", [](uint64_t a, uint64_t b) {
    return (a & 0x80000000) | (b & 0x7fffffff);
  });
  EXPECT_EQ(evaluate("neg.ftz.f32 $d, $a", 32, {32}, {{1}})[0], 0x80000000U);
  EXPECT_EQ(evaluate("abs.ftz.f32 $d, $a", 32, {32}, {{0x80000001}})[0], 0U);
}

TEST(Float, Extremes) {
  for (bool ftz : {false, true})
    for (bool nan : {false, true})
      for (bool max : {false, true}) {
        std::string text =
            fmt::format("{}{}{}.f32 $d, $a, $b", max ? "max" : "min",
                        ftz ? ".ftz" : "", nan ? ".NaN" : "");
        compare(text, 2, ftz, [=](auto &v) {
          if (std::isnan(v[0]) || std::isnan(v[1]))
            return nan ? NAN : std::isnan(v[0]) ? v[1] : v[0];
          if (v[0] == v[1]) // zeros of either sign
            return std::signbit(v[0]) == max ? v[1] : v[0];
          return (v[0] < v[1]) == max ? v[1] : v[0];
        });
      }
}

/// Relative error up to `relative`, or absolute up to `absolute`.
void approximate(const std::string &instruction, double relative,
                 double absolute, double least, double most,
                 const std::function<double(double)> &exact) {
  SCOPED_TRACE(instruction);
  std::mt19937_64 random(7);
  std::uniform_real_distribution<float> uniform(static_cast<float>(least),
                                                static_cast<float>(most));
  std::vector<uint64_t> values;
  for (size_t i = 0; i < Cases; i++)
    values.push_back(bitCast<uint32_t>(uniform(random)));
  auto found = evaluate(instruction, 32, {32}, {values});
  for (size_t i = 0; i < Cases; i++) {
    double expected = exact(single(values[i]));
    EXPECT_LE(std::fabs(single(found[i]) - expected),
              std::max(relative * std::fabs(expected), absolute))
        << single(values[i]);
  }
}

void special(const std::string &instruction, float argument, float expected) {
  uint64_t found =
      evaluate(instruction, 32, {32}, {{bitCast<uint32_t>(argument)}})[0];
  SCOPED_TRACE(instruction);
  expectSame(single(found), expected, {argument});
}

TEST(Float, Approximations) {
  constexpr float Inf = std::numeric_limits<float>::infinity();
  auto exp2 = [](double x) { return std::exp2(x); };
  // The bounds are the manual's.
  for (const char *ftz : {"", ".ftz"}) {
    auto of = [&](const char *name) {
      return fmt::format("{}.approx{}.f32 $d, $a", name, ftz);
    };
    approximate(of("ex2"), 0x1p-22, 0, -100, 100, exp2);
    approximate(of("lg2"), 0x1p-21, 0x1p-22, 0.01, 1000,
                [](double x) { return std::log2(x); });
    approximate(of("rcp"), 0x1p-23, 0, 0.001, 1000,
                [](double x) { return 1 / x; });
    approximate(of("rsqrt"), 0x1p-22, 0, 0.001, 1000,
                [](double x) { return 1 / std::sqrt(x); });
    approximate(of("sqrt"), 0x1p-23, 0, 0.001, 1000,
                [](double x) { return std::sqrt(x); });
    approximate(of("sin"), 0, 0x1p-20, -3.14, 3.14,
                [](double x) { return std::sin(x); });
    approximate(of("cos"), 0, 0x1p-20, -3.14, 3.14,
                [](double x) { return std::cos(x); });
    special(of("ex2"), -Inf, 0);
    special(of("ex2"), Inf, Inf);
    special(of("ex2"), 0, 1);
    special(of("ex2"), NAN, NAN);
    special(of("lg2"), 0, -Inf);
    special(of("lg2"), -1, NAN);
    special(of("rcp"), -0.0F, -Inf);
    special(of("rcp"), Inf, 0);
    special(of("rsqrt"), 0, Inf);
    special(of("rsqrt"), -1, NAN);
    special(of("sqrt"), -0.0F, -0.0F);
    special(of("sin"), Inf, NAN);
  }
  approximate("tanh.approx.f32 $d, $a", 0x1p-11, 0, -5, 5,
              [](double x) { return std::tanh(x); });
  special("ex2.approx.f32 $d, $a", -140, 0x1p-140F);
  special("ex2.approx.ftz.f32 $d, $a", -140, 0);
  special("rcp.approx.ftz.f32 $d, $a", 0x1p-140F, Inf);
}

TEST(Float, Quotients) {
  for (const char *name : {"div.approx.f32", "div.approx.ftz.f32",
                           "div.full.f32", "div.full.ftz.f32"}) {
    std::mt19937_64 random(3);
    std::uniform_real_distribution<float> uniform(0.01F, 100);
    std::vector<uint64_t> a, b;
    for (size_t i = 0; i < Cases; i++) {
      a.push_back(bitCast<uint32_t>(uniform(random)));
      b.push_back(bitCast<uint32_t>(uniform(random)));
    }
    auto found =
        evaluate(fmt::format("{} $d, $a, $b", name), 32, {32, 32}, {a, b});
    for (size_t i = 0; i < Cases; i++) {
      double exact = double(single(a[i])) / single(b[i]);
      EXPECT_LE(std::fabs(single(found[i]) - exact), exact * 0x1p-22) << name;
    }
  }
  auto one = [](const char *text, float a, float b) {
    return single(
        evaluate(text, 32, {32, 32},
                 {{bitCast<uint32_t>(a)}, {bitCast<uint32_t>(b)}})[0]);
  };
  // Divisors above 2^126 are beyond div.approx.
  EXPECT_EQ(one("div.approx.f32 $d, $a, $b", 0x1p127F, 0x1.8p126F), 0.0F);
  EXPECT_TRUE(
      std::isnan(one("div.approx.f32 $d, $a, $b", INFINITY, 0x1.8p126F)));
  EXPECT_EQ(one("div.approx.f32 $d, $a, $b", 0x1p127F, 0x1p126F), 2.0F);
}

TEST(Float, Double) {
  auto compareDouble = [](const std::string &instruction, size_t operands,
                          auto reference) {
    SCOPED_TRACE(instruction);
    auto values = floats(64, operands, instruction);
    auto found =
        evaluate(instruction, 64, std::vector<Bits>(operands, 64), values);
    for (size_t i = 0; i < Cases; i++) {
      double v[3] = {};
      for (size_t n = 0; n < operands; n++)
        v[n] = twice(values[n][i]);
      double expected = reference(v[0], v[1], v[2]);
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(twice(found[i])));
      else
        EXPECT_EQ(found[i], bitCast<uint64_t>(expected))
            << v[0] << ", " << v[1];
    }
  };
  using D = double;
  compareDouble("add.f64 $d, $a, $b", 2, [](D a, D b, D) { return a + b; });
  compareDouble("add.rn.f64 $d, $a, $b", 2, [](D a, D b, D) { return a + b; });
  compareDouble("sub.rn.f64 $d, $a, $b", 2, [](D a, D b, D) { return a - b; });
  compareDouble("mul.rn.f64 $d, $a, $b", 2, [](D a, D b, D) { return a * b; });
  compareDouble("fma.rn.f64 $d, $a, $b, $c", 3,
                [](D a, D b, D c) { return std::fma(a, b, c); });
  compareDouble("div.rn.f64 $d, $a, $b", 2, [](D a, D b, D) { return a / b; });
  compareDouble("rcp.rn.f64 $d, $a", 1, [](D a, D, D) { return 1 / a; });
  compareDouble("sqrt.rn.f64 $d, $a", 1,
                [](D a, D, D) { return std::sqrt(a); });
  compareDouble("neg.f64 $d, $a", 1, [](D a, D, D) { return -a; });
  compareDouble("abs.f64 $d, $a", 1, [](D a, D, D) { return std::fabs(a); });
  compareDouble("copysign.f64 $d, $a, $b", 2,
                [](D a, D b, D) { return std::copysign(b, a); });
  auto least = [](D a, D b, D) {
    return std::isnan(a)   ? b
           : std::isnan(b) ? a
           : a == b        ? (std::signbit(a) ? a : b)
                           : std::min(a, b);
  };
  auto most = [](D a, D b, D) {
    return std::isnan(a)   ? b
           : std::isnan(b) ? a
           : a == b        ? (std::signbit(a) ? b : a)
                           : std::max(a, b);
  };
  compareDouble("min.f64 $d, $a, $b", 2, least);
  compareDouble("max.f64 $d, $a, $b", 2, most);
  uint64_t root = evaluate("rsqrt.approx.f64 $d, $a", 64, {64},
                           {{bitCast<uint64_t>(4.0)}})[0];
  EXPECT_EQ(twice(root), 0.5);
}

TEST(Float, Comparisons) {
  struct Relation {
    const char *name;
    bool (*holds)(double, double);
    bool unordered;
  };
  const Relation relations[] = {
      {"eq", [](double a, double b) { return a == b; }, false},
      {"ne", [](double a, double b) { return a != b; }, false},
      {"lt", [](double a, double b) { return a < b; }, false},
      {"le", [](double a, double b) { return a <= b; }, false},
      {"gt", [](double a, double b) { return a > b; }, false},
      {"ge", [](double a, double b) { return a >= b; }, false},
      {"equ", [](double a, double b) { return a == b; }, true},
      {"neu", [](double a, double b) { return a != b; }, true},
      {"ltu", [](double a, double b) { return a < b; }, true},
      {"leu", [](double a, double b) { return a <= b; }, true},
      {"gtu", [](double a, double b) { return a > b; }, true},
      {"geu", [](double a, double b) { return a >= b; }, true},
      {"num", [](double, double) { return true; }, false},
      {"nan", [](double, double) { return false; }, true}};
  for (const char *type : {"f16", "bf16", "f32", "ftz.f32", "f64"}) {
    std::string name = type;
    bool bf16 = name == "bf16", ftz = name == "ftz.f32";
    Bits bits = ftz ? 32 : Bits(std::stoul(name.substr(bf16 ? 2 : 1)));
    auto number = [&](uint64_t raw) -> double {
      if (bits == 64)
        return twice(raw);
      if (bits == 32)
        return ftz ? flushed(single(raw)) : single(raw);
      return bf16 ? toFloat(Bf16{uint16_t(raw)}) : toFloat(F16{uint16_t(raw)});
    };
    for (const Relation &relation : relations) {
      std::string text =
          fmt::format("setp.{}.{} $d, $a, $b", relation.name, type);
      SCOPED_TRACE(text);
      auto values = floats(bits, 2, text);
      for (size_t i = 0; i < Cases; i += 3)
        values[1][i] = values[0][i];
      auto found = evaluate(text, 1, {bits, bits}, values);
      for (size_t i = 0; i < Cases; i++) {
        double a = number(values[0][i]), b = number(values[1][i]);
        bool expected = std::isnan(a) || std::isnan(b) ? relation.unordered
                                                       : relation.holds(a, b);
        EXPECT_EQ(found[i], uint64_t(expected)) << a << ", " << b;
      }
    }
  }
}

TEST(Float, Properties) {
  const std::vector<uint64_t> values = {0,          1,          0x3f800000,
                                        0xff800000, 0x7fc00000, 0x80000001};
  using Row = std::vector<uint64_t>;
  auto test = [&](const char *name) {
    return evaluate(fmt::format("testp.{}.f32 $d, $a", name), 1, {32},
                    {values});
  };
  EXPECT_EQ(test("finite"), (Row{1, 1, 1, 0, 0, 1}));
  EXPECT_EQ(test("infinite"), (Row{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(test("number"), (Row{1, 1, 1, 1, 0, 1}));
  EXPECT_EQ(test("notanumber"), (Row{0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(test("normal"), (Row{0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(test("subnormal"), (Row{0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(evaluate("testp.subnormal.f64 $d, $a", 1, {64},
                     {{1, bitCast<uint64_t>(1.0)}}),
            (Row{1, 0}));
}

} // namespace

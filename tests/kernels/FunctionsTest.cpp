//===- tests/kernels/FunctionsTest.cpp - Functions inside a kernel --------===//
//
// Part of attnc. Apache-2.0.
//
// With one key of 1, width 1 and scale 1, the LSE of a row is the score of its
// query, to the bit: the weight is exp(0) and its logarithm 0. So each row
// evaluates the score's function at one argument.
//
//===----------------------------------------------------------------------===//
#include "tests/kernels/KernelTest.h"
#include "tests/support/Fill.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace attn::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLeastNormal = std::numeric_limits<float>::min();
constexpr float kLargest = std::numeric_limits<float>::max();

using Arguments = std::vector<float>;

/// Numbers of every binary exponent from `low` to `high`, both signs.
Arguments everyExponent(int low = -126, int high = 127) {
  Arguments all;
  uint64_t n = 0;
  for (int exponent = low; exponent <= high; ++exponent) {
    std::vector<float> mantissas = {1, 1.5F, std::nextafter(1.0F, 2.0F),
                                    std::nextafter(2.0F, 1.0F), 1.41421354F};
    for (int i = 0; i < 6; ++i)
      mantissas.push_back(1.5F + fillValue(77, n++) / 2);
    for (float mantissa : mantissas)
      for (float sign : {1.0F, -1.0F})
        all.push_back(std::ldexp(sign * mantissa, exponent));
  }
  return all;
}

template <typename Test> void removeIf(Arguments &from, Test &&test) {
  from.erase(std::remove_if(from.begin(), from.end(), test), from.end());
}

/// Evenly spaced over an interval, ends included, and somewhat off the grid.
void addInterval(Arguments &to, double low, double high, int count) {
  for (int n = 0; n <= count; ++n) {
    auto x = static_cast<float>(low + (high - low) * n / count);
    to.push_back(x);
    float off = x + fillValue(5, static_cast<uint64_t>(n)) *
                        static_cast<float>((high - low) / count / 2);
    to.push_back(
        std::clamp(off, static_cast<float>(low), static_cast<float>(high)));
  }
}

/// A number and its neighbours.
void addAround(Arguments &to, float x) {
  for (float direction : {-kInfinity, kInfinity}) {
    float y = x;
    for (int n = 0; n < 3; ++n, y = std::nextafter(y, direction))
      to.push_back(y);
  }
}

/// The distance of f32 numbers at `x`; that of the least normal ones below.
double ulpAt(double x) {
  double magnitude = std::max(std::fabs(x), double{kLeastNormal});
  return std::ldexp(1.0, std::ilogb(magnitude) - 23);
}

class Functions : public KernelTest {
protected:
  static constexpr double kExact = 0;

  /// The value of `score` at each argument: many queries of one sequence, or
  /// one query of many sequences.
  std::vector<float> values(const std::string &score,
                            const Arguments &arguments, bool decode = false) {
    auto count = static_cast<int64_t>(arguments.size());
    Spec spec = variant(1, 1, 1, "scale = 1.0 score = " + score);
    Case c = caseOf(spec, decode ? count : 1, decode ? 1 : count, 1);
    c.values.q = [&](const Index &at) {
      return arguments[static_cast<size_t>(at[0] + at[2])];
    };
    c.values.k = c.values.v = one;
    std::unique_ptr<Trial> trial = run(c);
    std::vector<float> all;
    for (int64_t n = 0; n < count; ++n) {
      Index at = {decode ? n : 0, 0, decode ? 0 : n, 0};
      float lse = trial->buffers.lse.get(at), o = trial->buffers.o.get(at);
      // One key: its value, or NaN if the score is.
      EXPECT_TRUE(o == 1 || (std::isnan(o) && !std::isfinite(lse)))
          << score << " at " << arguments[static_cast<size_t>(n)] << ": O is "
          << o << ", LSE " << lse;
      all.push_back(lse);
    }
    return all;
  }

  /// Every value is within `ulps` of `exact`, where that is a finite f32.
  /// Results smaller than normal numbers may be zero.
  template <typename Exact>
  void expectNear(const std::string &score, const Arguments &given, double ulps,
                  Exact &&exact) {
    Arguments arguments;
    for (float x : given)
      if (double y = exact(static_cast<double>(x));
          !std::isnan(y) && std::fabs(y) <= double{kLargest})
        arguments.push_back(x);
    ASSERT_GE(arguments.size(), 100U) << score;
    double worst = 0;
    float worstAt = 0;
    // 300 sequences go the way of decoding too.
    for (bool decode : {false, true}) {
      Arguments some;
      size_t step = decode ? arguments.size() / 300 + 1 : 1;
      for (size_t n = 0; n < arguments.size(); n += step)
        some.push_back(arguments[n]);
      std::vector<float> got = values(score, some, decode);
      for (size_t n = 0; n < some.size(); ++n) {
        double want = exact(static_cast<double>(some[n]));
        bool flushed = got[n] == 0 && std::fabs(want) < double{kLeastNormal};
        double error = flushed ? 0
                               : std::fabs(static_cast<double>(got[n]) - want) /
                                     ulpAt(want);
        if (!(error <= worst)) {
          worst = error;
          worstAt = some[n];
        }
        // Not `<=` alone: a NaN is wrong.
        ASSERT_TRUE(error <= ulps)
            << fmt::format("{} at s = {:.9g} ({:#x}) is {:.9g}, not {:.9g}: "
                           "{:.2f} ulp, {} allowed",
                           score, some[n], encode(some[n], Type::F32), got[n],
                           want, error, ulps);
      }
    }
    std::printf("%-12s %-28s %6zu arguments, at most %.2f ulp, at %.9g\n",
                GetParam().c_str(), score.c_str(), arguments.size(), worst,
                static_cast<double>(worstAt));
  }

  /// `score` rises, or stays, from each argument to the next larger one.
  void expectMonotonic(const std::string &score, Arguments arguments) {
    std::sort(arguments.begin(), arguments.end());
    std::vector<float> got = values(score, arguments);
    for (size_t n = 1; n < got.size(); ++n)
      ASSERT_LE(got[n - 1], got[n])
          << fmt::format("{} falls from s = {:.9g} to {:.9g}", score,
                         arguments[n - 1], arguments[n]);
  }
};

Arguments forPowers(double low, double high) {
  Arguments all = everyExponent();
  addInterval(all, low, high, 6000);
  addInterval(all, -1, 1, 3000);
  for (int n = -149; n <= 128; ++n) {
    addAround(all, static_cast<float>(n));
    addAround(all, static_cast<float>(n) + 0.5F);
  }
  for (float x : {0.0F, -0.0F, 1e-40F, -1e-40F, -kLargest, -1000.0F, -150.0F})
    all.push_back(x);
  return all;
}

TEST_P(Functions, Exp2) {
  expectNear("exp2(s)", forPowers(-127, 128), 2,
             [](double x) { return std::exp2(x); });
}

TEST_P(Functions, Exp) {
  Arguments all = forPowers(-88, 88.8);
  for (int n = -127; n <= 128; ++n)
    addAround(all, static_cast<float>((n + 0.5) * 0.6931471805599453));
  expectNear("exp(s)", all, 4, [](double x) { return std::exp(x); });
}

TEST_P(Functions, ExpIsMonotonic) {
  Arguments all;
  addInterval(all, -110, 88, 20000);
  for (int n = -126; n <= 126; ++n) {
    addAround(all, static_cast<float>((n + 0.5) * 0.6931471805599453));
    addAround(all, static_cast<float>(n) / 2);
  }
  // Neighbours, one after another.
  for (float from : {-87.5F, -1.0F, -0.35F, 0.3465F, 1.0F, 20.0F}) {
    float x = from;
    for (int n = 0; n < 1000; ++n, x = std::nextafter(x, kInfinity))
      all.push_back(x);
  }
  expectMonotonic("exp(s)", all);
}

TEST_P(Functions, Logarithms) {
  Arguments all = everyExponent();
  addInterval(all, 0.25, 4, 6000);
  addInterval(all, 0.99, 1.01, 2000);
  addAround(all, 1);
  addAround(all, 0.70710678F);
  addAround(all, 1.41421356F);
  for (float x : {kLeastNormal, kLargest, 10.0F, 1e10F, 1e-10F})
    all.push_back(x);
  for (int exponent = -149; exponent < -126; ++exponent)
    for (float mantissa : {1.0F, 1.25F, 1.75F})
      addAround(all, std::ldexp(mantissa, exponent));
  removeIf(all, [](float x) { return x <= 0; });
  expectNear("log(s)", all, 4, [](double x) { return std::log(x); });
  expectNear("log2(s)", all, 4, [](double x) { return std::log2(x); });
}

TEST_P(Functions, Hyperbolic) {
  Arguments all = everyExponent();
  addInterval(all, -10, 10, 6000);
  addInterval(all, -1, 1, 6000);
  for (float x : {0.0F, -0.0F, 1e-40F, -1e-40F, kLargest, -kLargest, 88.0F,
                  -88.0F, 9.01F, 0.625F, -0.625F, 0.0004F})
    addAround(all, x);
  removeIf(all, [](float x) { return std::isinf(x); });
  expectNear("tanh(s)", all, 4, [](double x) { return std::tanh(x); });
  expectNear("softcap(s, 1)", all, 5, [](double x) { return std::tanh(x); });
  // The quotient is rounded too, and so is the product. A quotient below
  // normal numbers has lost digits already.
  removeIf(all,
           [](float x) { return x != 0 && std::fabs(x) < 64 * kLeastNormal; });
  expectNear("softcap(s, 50.0)", all, 6,
             [](double x) { return 50 * std::tanh(x / 50); });
}

TEST_P(Functions, Sigmoid) {
  Arguments all = everyExponent();
  addInterval(all, -88, 20, 6000);
  addInterval(all, -2, 2, 3000);
  for (float x : {0.0F, -0.0F, 1e-40F, -1e-40F, kLargest, -kLargest, 88.0F,
                  -88.0F, -87.3F, -103.0F})
    all.push_back(x);
  expectNear("sigmoid(s)", all, 4,
             [](double x) { return 1 / (1 + std::exp(-x)); });
}

TEST_P(Functions, ExactOnes) {
  Arguments all = everyExponent();
  addInterval(all, -70, 70, 3000);
  for (int n = -40; n <= 40; ++n) {
    addAround(all, static_cast<float>(n));
    addAround(all, static_cast<float>(n) + 0.5F);
  }
  for (int power : {22, 23, 24, 30, 31, 32, 62, 63, 64})
    for (float sign : {1.0F, -1.0F})
      addAround(all, std::ldexp(sign, power));
  for (float x : {0.0F, -0.0F, kLargest, -kLargest})
    all.push_back(x);
  removeIf(all, [](float x) { return std::isinf(x); });
  const auto f32 = [](auto function) {
    return [function](double x) {
      return static_cast<double>(function(static_cast<float>(x)));
    };
  };
  expectNear("floor(s)", all, kExact, [](double x) { return std::floor(x); });
  expectNear("abs(s)", all, kExact, [](double x) { return std::fabs(x); });
  expectNear("-s", all, kExact, [](double x) { return -x; });
  expectNear("min(s, 1.5)", all, kExact,
             [](double x) { return std::fmin(x, 1.5); });
  expectNear("max(-3, s)", all, kExact,
             [](double x) { return std::fmax(x, -3); });
  expectNear("sqrt(s)", all, 1, [](double x) { return std::sqrt(x); });
  // Rounded once for each operation: nothing is fused into something else's
  // rounding, and no quotient is a product with an inexact reciprocal.
  expectNear("s / 3.0", all, kExact, f32([](float x) { return x / 3; }));
  expectNear("7 / (1 + abs(s))", all, kExact,
             f32([](float x) { return 7 / (1 + std::fabs(x)); }));
  expectNear("s - 0.1", all, kExact, f32([](float x) { return x - 0.1F; }));
  expectNear("s > 0.25 ? s : 0.5 * s", all, kExact,
             f32([](float x) { return x > 0.25F ? x : 0.5F * x; }));
}

TEST_P(Functions, PositionsArePromotedExactly) {
  // Up to 2^24 an f32 holds every integer.
  for (const char *score :
       {"0 * s + q * 4096 + 1", "0 * s + (q * 65537 + 11) % 16777213",
        "0 * s - q / 3", "0 * s + min(q * 100000, 16777215)"}) {
    Case c =
        caseOf(variant(1, 1, 1, fmt::format("score = {}", score)), 1, 150, 1);
    c.spec.align = Align::TopLeft;
    std::string error;
    oracle::Expression expression(c.spec, {}, c.spec.score,
                                  oracle::Precision::F64, error);
    ASSERT_EQ(error, "");
    std::unique_ptr<Trial> trial = run(c);
    for (int64_t i = 0; i < c.qLen; ++i) {
      oracle::Point at;
      at.q = i;
      ASSERT_EQ(trial->buffers.lse.get({0, 0, i, 0}),
                expression.at(at, error).asReal())
          << score << " at q = " << i;
    }
  }
}

TEST_P(Functions, NanStaysNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char *score :
       {"s", "exp(s)", "exp2(s)", "log(s)", "log2(s)", "sqrt(s)", "tanh(s)",
        "sigmoid(s)", "floor(s)", "abs(s)", "softcap(s, 30.0)", "-s", "s + 1",
        "0 * s"}) {
    // Beside ordinary rows, at every place of a vector.
    Arguments all(67, 0.5F);
    for (size_t n = 0; n < all.size(); n += 3)
      all[n] = nan;
    std::vector<float> got = values(score, all);
    for (size_t n = 0; n < all.size(); ++n)
      ASSERT_EQ(std::isnan(got[n]), n % 3 == 0) << score << " row " << n;
  }
  // Outside the domain.
  for (const char *score : {"log(s)", "log2(s)", "sqrt(s)"})
    for (float got : values(score, {-1.0F, -1e-30F, -kLargest}))
      EXPECT_TRUE(std::isnan(got)) << score << ": " << got;
}

ATTN_FOR_EACH_TARGET(Functions);

} // namespace
} // namespace attn::test

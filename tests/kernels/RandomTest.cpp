//===- tests/kernels/RandomTest.cpp - Random variants and calls -----------===//
//
// Part of attnc. Apache-2.0.
//
// RapidCheck draws the numbers that a case is made from, and shrinks them when
// a property fails; what it prints is the shrunk variant and call.
//
//===----------------------------------------------------------------------===//
#include "tests/kernels/KernelTest.h"
#include <chrono>
#include <cstdlib>
#include <ostream>
#include <rapidcheck.h>

namespace attn::test {

/// The numbers behind a case, for each level of the language.
template <int level> struct Numbers {
  std::vector<uint32_t> values;
};

template <int level> static Case caseFrom(const Numbers<level> &numbers) {
  Choices choices(numbers.values);
  return randomVariantCase(choices,
                           level == 1   ? Features::level1()
                           : level == 2 ? Features::level2()
                                        : Features::level3(),
                           "random");
}

template <int level>
static std::ostream &operator<<(std::ostream &out,
                                const Numbers<level> &numbers) {
  return out << describe(caseFrom(numbers));
}

} // namespace attn::test

namespace rc {
template <int level> struct Arbitrary<attn::test::Numbers<level>> {
  static Gen<attn::test::Numbers<level>> arbitrary() {
    // More than any case draws; full range at every size.
    constexpr size_t kNumbers = level == 1 ? 256 : level == 2 ? 768 : 2048;
    return gen::map(
        gen::resize(kNominalSize, gen::container<std::vector<uint32_t>>(
                                      kNumbers, gen::arbitrary<uint32_t>())),
        [](std::vector<uint32_t> values) {
          return attn::test::Numbers<level>{std::move(values)};
        });
  }
};
} // namespace rc

namespace attn::test {
namespace {

using Clock = std::chrono::steady_clock;

std::string setting(const char *name, const char *otherwise) {
  const char *given = std::getenv(name);
  return given && *given != 0 ? given : otherwise;
}

class RandomTest : public KernelTest {
protected:
  template <int level> void check() {
    std::string cases = setting("ATTN_TEST_CASES", "150");
    std::string seed = setting("ATTN_TEST_SEED", "20240917");
    std::printf("%s cases, ATTN_TEST_SEED=%s\n", cases.c_str(), seed.c_str());
    // Read by RapidCheck at its first check in the process.
    setenv("RC_PARAMS",
           fmt::format("seed={} max_success={}", seed, cases).c_str(), 1);
    double worst = 0;
    Clock::time_point failedAt{};
    bool passed = rc::check(GetParam(), [&](const Numbers<level> &numbers) {
      // Each step of shrinking may compile a kernel: a minute of it is enough.
      if (failedAt != Clock::time_point{} &&
          Clock::now() - failedAt > std::chrono::seconds(60))
        return;
      Case c = caseFrom(numbers);
      std::string error;
      Code code = compileHere(c.spec, GetParam(), error);
      if (error.empty())
        error = Properties(*executor, code).all(c, numbers.values[0], &worst);
      if (!error.empty()) {
        if (failedAt == Clock::time_point{})
          failedAt = Clock::now();
        RC_FAIL(error);
      }
    });
    EXPECT_TRUE(passed);
    std::printf("largest error: %.3f of the tolerance\n", worst);
  }
};

class Random : public RandomTest {};
TEST_P(Random, VariantsAndCalls) { check<1>(); }
ATTN_FOR_EACH_TARGET(Random);

class Random2 : public RandomTest {};
TEST_P(Random2, VariantsAndCalls) { check<2>(); }
ATTN_FOR_EACH_TARGET(Random2);

class Random3 : public RandomTest {};
TEST_P(Random3, VariantsAndCalls) { check<3>(); }
ATTN_FOR_EACH_TARGET(Random3);

} // namespace
} // namespace attn::test

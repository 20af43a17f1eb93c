//===- tests/cuda/SplitsTest.cpp - Keys split over items, and merged ------===//
//
// Part of attnc. Apache-2.0.
//
// Plans with small tiles and splits, so that short calls have many of them.
//
//===----------------------------------------------------------------------===//
#include "tests/kernels/KernelTest.h"
#include <cmath>
#include <limits>

namespace attn::test {
namespace {

constexpr const char *kTarget = "cuda-sm80";
constexpr const char *kSmall = "rows=16,keys=16,split=32";

class Splits : public testing::Test {
protected:
  static Code compiled(const Spec &spec, const char *plan = kSmall) {
    CompileResult result = compile(spec, "obj", {kTarget, plan, false});
    for (const Diagnostic &diagnostic : result.diagnostics)
      ADD_FAILURE() << render(diagnostic, "test.attn", print(spec));
    return emulatedCode(result.data, kernelSymbol(spec.name, kTarget));
  }
  Properties kernelOf(const Spec &spec) { return {*executor, compiled(spec)}; }

  /// Right, and the same bits whatever must not matter.
  void expectAll(const Case &c, uint64_t seed) {
    Code code = compiled(c.spec);
    ASSERT_GT(splits(*code.descriptor(), CallBuffers(c).call()), 1);
    EXPECT_EQ(Properties(*executor, code).all(c, seed), "") << describe(c);
  }

  std::unique_ptr<Executor> executor = makePtxExecutor();
};

TEST_F(Splits, LengthsAroundMultiples) {
  for (const char *type : {"f32", "f16", "bf16"}) {
    Spec spec = variant(6, 2, 24, fmt::format("type = {} mask = causal", type));
    Code code = compiled(spec);
    for (int64_t kvLen : {31, 32, 33, 47, 48, 49, 63, 64, 65, 95, 97, 161})
      for (int64_t qLen : {1, 5, 6}) {
        Case c = caseOf(spec, 1, qLen, kvLen);
        EXPECT_EQ(Properties(*executor, code).matchesOracle(c), "")
            << describe(c);
      }
  }
}

TEST_F(Splits, AsThePlannerCutsThem) {
  Spec spec = variant(4, 2, 64, "type = f16 mask = causal");
  Code code = compiled(spec, "");
  EXPECT_EQ(code.descriptor()->split_keys, 512);
  for (int64_t kvLen : {512, 513, 1300}) {
    Case c = caseOf(spec, 1, 1, kvLen);
    EXPECT_EQ(splits(*code.descriptor(), CallBuffers(c).call()),
              kvLen > 512 ? (kvLen + 511) / 512 : 0);
    EXPECT_EQ(Properties(*executor, code).matchesOracle(c), "") << describe(c);
  }
}

/// Sequences that are split, that are too short for it and that have too many
/// rows, side by side.
TEST_F(Splits, OneBatchOfAllKinds) {
  for (const char *rest : {"mask = causal", "type = f16 mask = sliding(40)",
                           "type = bf16 align = top_left"}) {
    Case c = caseOf(variant(4, 2, 16, rest), 6, 20, 130);
    c.qLens = {1, 8, 9, 0, 20, 3};
    c.kvLens = {130, 97, 130, 64, 33, 32};
    expectAll(c, 11);
  }
}

TEST_F(Splits, MostOfThemEmpty) {
  // Far from the window there is no item's work; with no key at all there is
  // nothing but what a row has before any.
  for (const char *mask : {"causal && sliding(5)", "window(3, 3)",
                           "k < 3 || k >= 100", "k < 0", "q - k >= 90"}) {
    Case c =
        caseOf(variant(2, 2, 16, fmt::format("mask = {}", mask)), 2, 3, 150);
    c.kvLens = {150, 121};
    expectAll(c, 12);
  }
}

TEST_F(Splits, DilatedHeads) {
  Case c = caseOf(
      variant(4, 4, 16, "let d = [1, 1, 2, 3] mask = window(60, 0, d[h])"), 2,
      7, 190);
  c.kvLens = {190, 131};
  expectAll(c, 13);
}

TEST_F(Splits, ListsOfTokens) {
  for (const char *rest : {"mask = causal && sliding(8) || global(t)",
                           "mask = window(8, 8, 2) || global(t)"}) {
    Case c = caseOf(variant("t: tokens", 2, 1, 16, rest), 2, 2, 140);
    // In the window's split, in others, and a query itself.
    c.params = {
        argument({2, 6}, {0, 40, 77, 135, 139, -1, 1, 3, 5, 7, 31, 32})};
    expectAll(c, 14);
  }
}

TEST_F(Splits, ScoresAndParameters) {
  Case capped = caseOf(
      variant(6, 2, 16, "score = softcap(s, 2.0) mask = causal"), 1, 2, 100);
  capped.values.qScale = 8;
  expectAll(capped, 15);
  Case biased =
      caseOf(variant("slope: f32[heads], doc: i32[batch, tokens]", 4, 2, 16,
                     "score = s + slope[h] * (k - q) "
                     "mask = doc[b, q] == doc[b, k]"),
             2, 1, 120);
  biased.params = {
      argumentOf({4}, [](int64_t n) { return 0.01 * double(n); }),
      argumentOf({2, 120}, [](int64_t n) { return n % 120 / 50; })};
  expectAll(biased, 16);
}

TEST_F(Splits, SinksCountOnce) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Spec spec = variant("sinks: f32[heads]", 4, 2, 16,
                      "mask = causal && sliding(90) sink = sinks[h]");
  for (std::vector<double> sinks :
       {std::vector<double>{0.5, -2, 3, 20}, {-kInfinity, 1, -80, 80}}) {
    Case c = caseOf(spec, 2, 2, 130);
    c.kvLens = {130, 70};
    c.params = {argument({4}, sinks)};
    expectAll(c, 17);
  }
  // A sink that is all there is.
  Case all = caseOf(spec, 1, 1, 100);
  all.params = {argumentOf({4}, [&](int64_t) { return kInfinity; })};
  Trial trial(all, compiled(spec), Order::AllAtOnce);
  EXPECT_EQ(trial.intact(executor->run({trial.job})[0]), "");
  trial.buffers.o.forEach(
      [&](const Index &at) { EXPECT_EQ(trial.buffers.o.get(at), 0); });
  trial.buffers.lse.forEach([&](const Index &at) {
    EXPECT_EQ(trial.buffers.lse.get(at), kInfinity);
  });
}

/// Of three values that cancel out only in the order of their positions, each
/// in a split of its own.
TEST_F(Splits, AreMergedInOrder) {
  Case c = meanCase(variant(1, 1, 8, ""), 1, 1, 96);
  c.values.v = [](const Index &at) {
    return at[2] == 3 ? 0x1p30F : at[2] == 40 ? -0x1p30F : at[2] == 70 ? 1 : 0;
  };
  Trial trial(c, compiled(c.spec), Order::Reversed);
  EXPECT_EQ(trial.intact(executor->run({trial.job})[0]), "");
  trial.buffers.o.forEach([&](const Index &at) {
    EXPECT_FLOAT_EQ(static_cast<float>(trial.buffers.o.get(at)), 1 / 96.0F);
  });
}

TEST_F(Splits, RandomVariants) {
  Features features = Features::level3().small();
  features.maxLength = 150;
  features.maxDim = 40;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    Choices choices(seed);
    Spec spec = parseOne(randomVariant(choices, features, "random"));
    Code code = compiled(spec);
    for (int call = 0; call < 3; ++call) {
      Case c = randomCase(choices, features, spec, code.descriptor());
      EXPECT_EQ(Properties(*executor, code).matchesOracle(c), "")
          << "seed " << seed << "\n"
          << describe(c);
    }
  }
}

} // namespace
} // namespace attn::test

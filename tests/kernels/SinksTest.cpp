//===- tests/kernels/SinksTest.cpp - Logits without a value ---------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/kernels/KernelTest.h"
#include <cmath>
#include <limits>

namespace attn::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class Sinks : public KernelTest {
protected:
  static constexpr int64_t kHeads = 4;

  /// What a sink makes of a row of its head, given the row without one.
  void expectSunk(const Case &with, const Case &without,
                  const std::vector<double> &sinks) {
    std::unique_ptr<Trial> sunk = run(with), plain = run(without);
    sunk->buffers.o.forEach([&](const Index &at) {
      double sink = sinks[static_cast<size_t>(at[1])];
      double lse = plain->buffers.lse.get({at[0], at[1], at[2], 0});
      double want = plain->buffers.o.get(at) / (1 + std::exp(sink - lse));
      ASSERT_NEAR(sunk->buffers.o.get(at), want, 2e-6) << describe(with);
      // ln(exp(lse) + exp(sink))
      double most = std::max(lse, sink), least = std::min(lse, sink);
      ASSERT_NEAR(sunk->buffers.lse.get({at[0], at[1], at[2], 0}),
                  most + std::log1p(std::exp(least - most)), 2e-6)
          << describe(with);
    });
  }
};

const char *const kLocal = "mask = causal && sliding(128) ";

TEST_P(Sinks, RelationToTheRowWithoutOne) {
  const std::vector<double> sinks = {0.5, -2, 3, 20};
  for (const char *type : {"f32", "f16", "bf16"}) {
    Spec spec = variant(fmt::format("sinks: {}[heads]", type), kHeads, 2, 64,
                        fmt::format("{} sink = sinks[h]", kLocal));
    for (int64_t qLen : {300, 7, 1}) {
      if (qLen == 300 && type != std::string("f32"))
        continue;
      Case with = caseOf(spec, 2, qLen, 300);
      with.params = {argument({kHeads}, sinks)};
      Case without = caseOf(variant(kHeads, 2, 64, kLocal), 2, qLen, 300);
      expectSunk(with, without, sinks);
      EXPECT_EQ(kernelOf(spec).all(with, 3), "") << describe(with);
    }
  }
}

TEST_P(Sinks, ThatWeighNothingOrEverything) {
  Spec spec = variant("sinks: f32[heads]", kHeads, 2, 64,
                      fmt::format("{} sink = sinks[h]", kLocal));
  for (int64_t qLen : {300, 7, 1}) {
    Case none = caseOf(spec, 2, qLen, 300);
    none.params = {argumentOf({kHeads}, [](int64_t) { return -kInfinity; })};
    Case without = caseOf(variant(kHeads, 2, 64, kLocal), 2, qLen, 300);
    EXPECT_EQ(run(none)->buffers.outputBits(),
              run(without)->buffers.outputBits());
    Case all = none;
    all.params = {scalar(100)};
    all.params[0].value.shape = {1};
    std::unique_ptr<Trial> trial = run(all);
    trial->buffers.o.forEach([&](const Index &at) {
      ASSERT_LT(std::fabs(trial->buffers.o.get(at)), 1e-35);
    });
  }
}

TEST_P(Sinks, OfThreeLogits) {
  const float keys[] = {0.3F, -0.2F, 1.1F};
  for (const char *score : {"s", "softcap(s, 1000000.0)", "s * 1.0"}) {
    Case c = caseOf(
        variant("sink: f32", 1, 1, 1,
                fmt::format("scale = 1.0 sink = sink score = {}", score)),
        1, 1, 3);
    c.values.q = one;
    c.values.k = [&](const Index &at) { return keys[at[2]]; };
    c.values.v = [](const Index &at) { return static_cast<float>(at[2] + 1); };
    for (auto [sink, o, lse] :
         {std::tuple<double, double, double>{0.5, 1.7591232, 1.9200760},
          {-kInfinity, 2.3198116, 1.6434055}}) {
      c.params = {scalar(sink)};
      std::unique_ptr<Trial> trial = run(c);
      EXPECT_NEAR(trial->buffers.o.get({0, 0, 0, 0}), o, 3e-7);
      EXPECT_NEAR(trial->buffers.lse.get({0, 0, 0, 0}), lse, 3e-7);
    }
  }
}

TEST_P(Sinks, OfRowsWithoutKeys) {
  for (const char *rest :
       {"mask = causal", "mask = k < 0", "mask = causal && q % 3 != 1"}) {
    Spec spec = variant("sinks: f32[heads]", kHeads, 2, 8,
                        fmt::format("{} sink = sinks[h]", rest));
    for (auto [qLen, kvLen] :
         {std::pair<int64_t, int64_t>{6, 4}, {70, 33}, {3, 0}, {130, 130}}) {
      Case c = caseOf(spec, 2, qLen, kvLen);
      c.params = {argument({kHeads}, {0.5, -kInfinity, -1e30, 20})};
      EXPECT_EQ(kernelOf(spec).matchesOracle(c), "") << describe(c);
      std::unique_ptr<Trial> trial = run(c);
      if (std::string(rest) == "mask = k < 0")
        trial->buffers.lse.forEach([&](const Index &at) {
          ASSERT_EQ(trial->buffers.lse.get(at),
                    static_cast<float>(
                        c.params[0].value.values[static_cast<size_t>(at[1])]));
        });
    }
  }
}

TEST_P(Sinks, AreNeitherScaledNorCapped) {
  const std::vector<double> sinks = {0.5, -2, 3, 8};
  const std::string rest =
      "scale = 3.0 score = softcap(s, 2.0) mask = window(40)";
  Case with = caseOf(
      variant("sinks: f32[heads]", kHeads, 1, 16, rest + " sink = sinks[h]"), 1,
      70, 90);
  with.params = {argument({kHeads}, sinks)};
  expectSunk(with, caseOf(variant(kHeads, 1, 16, rest), 1, 70, 90), sinks);
}

TEST_P(Sinks, OfAnyExpression) {
  for (auto [declared, sink] :
       {std::pair<const char *, const char *>{"x: f32", "0.5"},
        {"x: f32", "x"},
        {"x: f32", "x * h - 1.0"},
        {"x: f32[kv_heads]", "x[g]"},
        {"x: f16[heads, 3]", "max(x[h, 0], x[h, 2])"},
        {"x: i32[heads]", "x[h] - 4"},
        {"x: bool[heads]", "x[h] ? 2.0 : -1.0"},
        {"x: f32", "log(1.0 + h) + x"}})
    for (auto [qLen, kvLen] :
         {std::pair<int64_t, int64_t>{40, 70}, {1, 33}, {2, 100}}) {
      Spec spec = variant(declared, kHeads, 2, 8,
                          fmt::format("mask = causal sink = {}", sink));
      Case c = caseOf(spec, 2, qLen, kvLen);
      std::vector<int64_t> shape = c.extentsOf(0);
      if (spec.params[0].dims.empty())
        shape.clear();
      c.params = {argumentOf(shape, [](int64_t n) { return (n * 5 + 1) % 7; })};
      EXPECT_EQ(kernelOf(spec).all(c, 11), "") << describe(c);
    }
}

TEST_P(Sinks, SpoilNoOtherHead) {
  Spec spec = variant("sinks: f32[heads]", kHeads, 1, 8,
                      "mask = causal sink = sinks[h]");
  for (double value : {kNan, kInfinity, 3e38, -3e38})
    for (auto [qLen, kvLen] :
         {std::pair<int64_t, int64_t>{40, 70}, {1, 33}, {20, 10}}) {
      Case c = caseOf(spec, 1, qLen, kvLen);
      c.params = {argument({kHeads}, {0.5, value, -1, 2})};
      EXPECT_EQ(kernelOf(spec).matchesOracle(c), "") << describe(c);
    }
}

ATTN_FOR_EACH_TARGET(Sinks);

} // namespace
} // namespace attn::test

//===- tests/kernels/ScoresTest.cpp - Scores, and masks of heads ----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/kernels/KernelTest.h"
#include <cmath>

namespace attn::test {
namespace {

class Scores : public KernelTest {
protected:
  /// Column 0 of every row of one head.
  static std::vector<float> column(const Trial &trial, int64_t h = 0) {
    std::vector<float> all;
    for (int64_t i = 0; i < trial.c.qLen; ++i)
      all.push_back(trial.buffers.o.get({0, h, i, 0}));
    return all;
  }

  static void expectNear(const std::vector<float> &got,
                         const std::vector<double> &want, double within) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t n = 0; n < got.size(); ++n)
      EXPECT_NEAR(got[n], want[n], within * std::max(1.0, want[n]))
          << "row " << n;
  }

  /// One kernel matches the oracle on calls of these lengths.
  void expectRightFor(const Spec &spec, int64_t batch,
                      const std::vector<std::pair<int64_t, int64_t>> &lengths) {
    Properties kernel = kernelOf(spec);
    for (auto [qLen, kvLen] : lengths) {
      Case c = caseOf(spec, batch, qLen, kvLen);
      EXPECT_EQ(kernel.matchesOracle(c), "") << describe(c);
    }
  }

  /// Q = 0 and V_j = 2^j: the mean names the set of keys.
  static Case powersCase(const Spec &spec, int64_t length) {
    Case c = meanCase(spec, 1, length, length);
    c.values.v = [](const Index &at) {
      return std::ldexp(1.0F, static_cast<int>(at[2]));
    };
    return c;
  }
};

//===----------------------------------------------------------------------===//
// Soft caps
//===----------------------------------------------------------------------===//

TEST_P(Scores, SoftcapComesBeforeTheMask) {
  Case c = caseOf(variant(1, 1, 1,
                          "scale = 1.0 score = softcap(s, 1.0) "
                          "mask = causal"),
                  1, 2, 2);
  c.values.q = one;
  c.values.k = [](const Index &at) { return at[2] == 0 ? 0.0F : 0.5F; };
  c.values.v = [](const Index &at) { return at[2] == 0 ? 0.0F : 1000.0F; };
  std::unique_ptr<Trial> trial = run(c);
  EXPECT_EQ(trial->buffers.o.get({0, 0, 0, 0}), 0);
  EXPECT_NEAR(trial->buffers.o.get({0, 0, 1, 0}), 613.5163, 2e-4);
  EXPECT_NEAR(trial->buffers.lse.get({0, 0, 1, 0}), 0.9506656, 2e-7);
}

TEST_P(Scores, SoftcapOfLargeLogits) {
  // Logits around +-100, where a cap of 50 matters.
  for (auto [qLen, kvLen] :
       {std::pair<int64_t, int64_t>{70, 70}, {1, 130}, {5, 33}}) {
    const std::string rest = "scale = 4.0 mask = causal ";
    Case capped = caseOf(variant(4, 2, 64, rest + "score = softcap(s, 50.0)"),
                         1, qLen, kvLen);
    expectRight(capped);
    Case plain = caseOf(variant(4, 2, 64, rest), 1, qLen, kvLen);
    EXPECT_NE(run(capped)->buffers.outputBits(),
              run(plain)->buffers.outputBits());
    // No cap, in every way to write that.
    for (const char *off : {"score = s", "score = (s)",
                            "let on = false "
                            "score = on ? "
                            "softcap(s, 50.0) : s"})
      EXPECT_EQ(run(caseOf(variant(4, 2, 64, rest + off), 1, qLen, kvLen))
                    ->buffers.outputBits(),
                run(plain)->buffers.outputBits())
          << off;
  }
}

TEST_P(Scores, SoftcapBoundsTheScore) {
  for (float logit : {1e4F, -1e4F, 3e38F, -3e38F, 0.0F}) {
    Case c = caseOf(variant(1, 1, 1, "scale = 1.0 score = softcap(s, 30.0)"), 1,
                    3, 1);
    c.values.q = one;
    c.values.k = [=](const Index &) { return logit; };
    std::unique_ptr<Trial> trial = run(c);
    float want = logit == 0 ? 0 : std::copysign(30.0F, logit);
    EXPECT_EQ(trial->buffers.lse.get({0, 0, 1, 0}), want);
  }
}

//===----------------------------------------------------------------------===//
// ALiBi
//===----------------------------------------------------------------------===//

TEST_P(Scores, AlibiSlopes) {
  const double root = std::sqrt(0.5);
  const std::vector<std::vector<double>> published = {
      {1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256, 1.0 / 2, 1.0 / 8},
      {1.0 / 16, 1.0 / 256, 1.0 / 4},
      {1.0 / 2, 1.0 / 4, 1.0 / 8, 1.0 / 16, 1.0 / 32, 1.0 / 64, 1.0 / 128,
       1.0 / 256, root, root / 2, root / 4, root / 8},
      {1.0 / 256},
      {1.0 / 2, 1.0 / 4, 1.0 / 8, 1.0 / 16, 1.0 / 32, 1.0 / 64, 1.0 / 128,
       1.0 / 256},
  };
  for (const std::vector<double> &slopes : published) {
    auto heads = static_cast<int64_t>(slopes.size());
    for (int64_t kvHeads : {int64_t{1}, heads}) {
      Case c =
          caseOf(variant(heads, kvHeads, 4, "score = alibi_slope(h)"), 2, 3, 1);
      std::unique_ptr<Trial> trial = run(c);
      for (int64_t h = 0; h < heads; ++h)
        EXPECT_EQ(trial->buffers.lse.get({1, h, 2, 0}),
                  static_cast<float>(slopes[static_cast<size_t>(h)]))
            << "head " << h << " of " << heads;
    }
  }
}

TEST_P(Scores, AlibiOfSixHeads) {
  const std::vector<double> row1 = {0.4378235, 0.4843801, 0.4960938,
                                    0.4990234, 0.3775407, 0.4687906};
  for (int64_t kvHeads : {1, 2, 3, 4, 6})
    for (const char *score :
         {"s - alibi_slope(h) * abs(q - k)", "s + alibi_slope(h) * (k - q)"}) {
      Case c = caseOf(variant(6, kvHeads, 1,
                              fmt::format("mask = causal score = {}", score)),
                      1, 2, 2);
      c.values.zeroQuery = true;
      c.values.v = [](const Index &at) { return at[2] == 0 ? 1.0F : 0.0F; };
      std::unique_ptr<Trial> trial = run(c);
      for (int64_t h = 0; h < 6; ++h) {
        EXPECT_EQ(trial->buffers.o.get({0, h, 0, 0}), 1);
        EXPECT_NEAR(trial->buffers.o.get({0, h, 1, 0}),
                    row1[static_cast<size_t>(h)], 2e-7)
            << "head " << h;
      }
    }
}

TEST_P(Scores, AlibiOfGroupedHeads) {
  // Packed rows of several heads in a tile, each with its own slope.
  for (auto [heads, kvHeads] : {std::pair<int64_t, int64_t>{12, 4},
                                {12, 1},
                                {6, 2},
                                {7, 3},
                                {5, 5},
                                {16, 2}})
    for (const char *align : {"", "align = top_left"})
      expectRightFor(
          variant(heads, kvHeads, 16,
                  fmt::format("mask = causal {} "
                              "score = s - alibi_slope(h) * abs(q - k)",
                              align)),
          2, {{1, 90}, {2, 90}, {7, 90}, {70, 90}});
}

TEST_P(Scores, DistancesThatNeverMeet) {
  // Symmetric ALiBi without a mask, of more queries than keys and the reverse.
  expectRightFor(variant(3, 1, 8, "score = s - alibi_slope(h) * abs(q - k)"), 2,
                 {{100, 30}, {30, 100}, {1, 1}, {64, 64}});
}

//===----------------------------------------------------------------------===//
// Masks of heads
//===----------------------------------------------------------------------===//

TEST_P(Scores, DilationWiderThanTheSequence) {
  struct {
    const char *mask;
    int64_t length;
    std::vector<double> want;
  } const table[] = {
      {"window(1, 1, 3)", 7, {4.5, 9, 18, 73.0 / 3, 9, 18, 36}},
      {"window(2, 2, 4)", 5, {8.5, 2, 4, 8, 8.5}},
      {"causal && window(2, 2, 3)",
       8,
       {1, 2, 4, 4.5, 9, 18, 73.0 / 3, 146.0 / 3}},
      {"window(3, 3, 5)", 1, {1}},
  };
  for (const auto &line : table) {
    Case c = powersCase(variant(1, 1, 4, fmt::format("mask = {}", line.mask)),
                        line.length);
    for (Poison poison : {Poison::Nan, Poison::Infinity, Poison::Huge}) {
      c.poison = poison;
      expectNear(column(*run(c)), line.want, 1e-6);
    }
    // The same as one head of several, by lists.
    Case mixed = powersCase(
        variant(4, 2, 4,
                "let w = [1, 2, 2, 3] let d = [3, 4, 3, 5] "
                "mask = window(w[h], w[h], d[h]) && (h != 2 || causal)"),
        line.length);
    std::unique_ptr<Trial> trial = run(mixed);
    expectNear(column(*trial, &line - table), line.want, 1e-6);
  }
}

TEST_P(Scores, DilationsMixedInOneCall) {
  for (auto [heads, kvHeads] :
       {std::pair<int64_t, int64_t>{4, 4}, {4, 1}, {4, 2}, {4, 3}})
    for (const char *mask :
         {"window(3, 3, d[h])", "window(40, 20, d[h])",
          "causal && window(9, 9, d[h])", "window(w[h], 2, d[h])",
          "window(30, 30, d[g])", "window(20, w[(h + 1) % 4])",
          "causal && sliding(w[h] + 3)", "window(5, 5, d[h]) || k < w[h]"})
      expectRightFor(variant(heads, kvHeads, 4,
                             fmt::format("let d = [1, 1, 2, 4] "
                                         "let w = [0, 17, 3, 64] mask = {}",
                                         mask)),
                     2, {{70, 70}, {131, 131}, {1, 97}, {6, 97}, {33, 9}});
}

TEST_P(Scores, EveryHeadOfAListIsTheHeadAlone) {
  const std::vector<int64_t> dilations = {1, 1, 2, 4};
  for (int64_t length : {20, 70, 133}) {
    Case mixed = powersCase(variant(4, 4, 4,
                                    "let d = [1, 1, 2, 4] "
                                    "mask = window(3, 3, d[h])"),
                            length);
    mixed.values.v = keyPosition;
    std::unique_ptr<Trial> all = run(mixed);
    for (int64_t h = 0; h < 4; ++h) {
      Case alone = mixed;
      alone.spec = variant(1, 1, 4,
                           fmt::format("mask = window(3, 3, {})",
                                       dilations[static_cast<size_t>(h)]));
      std::vector<float> want = column(*run(alone));
      expectNear(column(*all, h), {want.begin(), want.end()}, 2e-6);
    }
  }
}

TEST_P(Scores, NeighborhoodsShiftInwards) {
  // Always n keys: the mean of positions is the middle.
  for (int64_t n : {1, 2, 3, 8, 13, 33, 64}) {
    constexpr int64_t length = 70;
    Case c =
        meanCase(variant(2, 1, 4, fmt::format("mask = neighborhood({})", n)), 1,
                 length, length);
    std::vector<double> want;
    for (int64_t q = 0; q < length; ++q) {
      int64_t first = std::clamp<int64_t>(q - n / 2, 0, length - n);
      want.push_back(static_cast<double>(2 * first + n - 1) / 2);
    }
    std::unique_ptr<Trial> trial = run(c);
    for (int64_t h : {0, 1})
      expectNear(column(*trial, h), want, 2e-6);
  }
}

TEST_P(Scores, NeighborhoodsOfResidueClasses) {
  for (const char *mask :
       {"neighborhood(1)", "neighborhood(200)", "neighborhood(4, 3)",
        "neighborhood(7, 2)", "neighborhood(5, 40)", "neighborhood(33, 4)",
        "neighborhood(5, 9) && causal", "!neighborhood(6, 2)",
        "neighborhood(3, 2) || k < 3", "neighborhood(5) && !neighborhood(3)"})
    for (const char *align : {"", "align = top_left"})
      expectRightFor(
          variant(2, 1, 4, fmt::format("mask = {} {}", mask, align)), 1,
          {{70, 70}, {1, 50}, {9, 131}, {50, 20}, {3, 1}, {131, 131}, {2, 0}});
}

//===----------------------------------------------------------------------===//
// Everything at once
//===----------------------------------------------------------------------===//

TEST_P(Scores, EveryVariableIsTheOneItIs) {
  for (const char *term :
       {"b", "h", "g", "q", "k", "q_len", "kv_len", "k - q", "k % 7",
        "(q - k) / 3", "min(k, kv_len - 1 - k)", "h * 10 + g", "h / 2",
        "list[h]", "list[g]", "list[(h + 1) % 3]", "k <= q ? 3 : h",
        "(k + h) % 3 == 0 ? 1 : 0"}) {
    Spec spec = variant(5, 2, 8,
                        fmt::format("let list = [0.5, -2, 7, 1, 20] "
                                    "score = s + 0.0625 * ({})",
                                    term));
    Properties kernel = kernelOf(spec);
    for (auto [qLen, kvLen] :
         {std::pair<int64_t, int64_t>{40, 70}, {1, 70}, {3, 33}, {70, 40}}) {
      Case c = caseOf(spec, 3, qLen, kvLen);
      c.qLens = {qLen, qLen / 2, qLen};
      c.kvLens = {kvLen, kvLen - 1, kvLen / 3};
      EXPECT_EQ(kernel.matchesOracle(c), "") << describe(c);
    }
  }
}

TEST_P(Scores, PropertiesHold) {
  uint64_t seed = 1;
  for (const char *rest :
       {"score = softcap(s, 50.0) mask = causal && sliding(30)",
        "score = s - alibi_slope(h) * abs(q - k) mask = causal",
        "let d = [1,2,3,1,4,1] score = s*sigmoid(s) mask = window(6, 6, d[h])",
        "mask = neighborhood(9, 2) score = s + exp(-abs(s)) * h",
        "mask = h % 2 == 0 ? causal : window(4) score = tanh(s) * 3 + k % 2"})
    for (auto [qLen, kvLen] :
         {std::pair<int64_t, int64_t>{66, 66}, {1, 100}, {7, 45}})
      for (int64_t kvHeads : {1, 3}) {
        Case c = caseOf(variant(6, kvHeads, 20, rest), 2, qLen, kvLen);
        c.kvLens = {kvLen - 7, kvLen};
        EXPECT_EQ(kernelOf(c.spec).all(c, seed++), "") << describe(c);
      }
}

ATTN_FOR_EACH_TARGET(Scores);

} // namespace
} // namespace attn::test

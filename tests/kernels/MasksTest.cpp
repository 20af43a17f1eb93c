//===- tests/kernels/MasksTest.cpp - Which keys a row sees ----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/kernels/KernelTest.h"
#include <algorithm>

namespace attn::test {
namespace {

class Masks : public KernelTest {
protected:
  /// Row i of every head is the mean that `mean` gives.
  template <typename Mean> void expectMeans(const Case &c, Mean &&mean) {
    std::unique_ptr<Trial> trial = run(c);
    trial->buffers.o.forEach([&](const Index &at) {
      ASSERT_NEAR(trial->buffers.o.get(at), mean(at[2]), 1e-4)
          << "row " << at[2] << " head " << at[1] << "\n"
          << describe(c);
    });
  }
};

TEST_P(Masks, CausalAlignment) {
  for (auto [qLen, kvLen] : {std::pair<int64_t, int64_t>{1, 5},
                             {3, 5},
                             {7, 100},
                             {64, 65},
                             {50, 150}}) {
    int64_t offset = kvLen - qLen;
    expectMeans(meanCase(variant(2, 1, 8, "mask = causal"), 1, qLen, kvLen),
                [=](int64_t i) { return static_cast<double>(i + offset) / 2; });
    expectMeans(meanCase(variant(2, 1, 8, "mask = causal align = top_left"), 1,
                         qLen, kvLen),
                [last = kvLen - 1](int64_t i) {
                  return static_cast<double>(std::min(i, last)) / 2;
                });
  }
}

TEST_P(Masks, SlidingWindowCountsItself) {
  for (int64_t w : {1, 2, 3, 8, 9, 16, 17, 63, 64, 65, 129, 130, 200}) {
    Spec spec =
        variant(1, 1, 8, fmt::format("mask = causal && sliding({})", w));
    const auto mean = [w](int64_t q) {
      return static_cast<double>(std::max<int64_t>(0, q - w + 1) + q) / 2;
    };
    for (int64_t length : {8, 130})
      expectMeans(meanCase(spec, 1, length, length), mean);
    for (int64_t length : {1, 2, 8, 64, 130}) // decode
      expectMeans(meanCase(spec, 1, 1, length),
                  [&](int64_t i) { return mean(i + length - 1); });
  }
}

TEST_P(Masks, WideWindowsAreCausal) {
  Case c = caseOf(variant(2, 1, 16, "mask = causal && sliding(70)"), 1, 70, 70);
  std::unique_ptr<Trial> window = run(c);
  c.spec = variant(2, 1, 16, "mask = causal");
  std::unique_ptr<Trial> causal = run(c);
  causal->buffers.o.forEach([&](const Index &at) {
    ASSERT_NEAR(window->buffers.o.get(at), causal->buffers.o.get(at), 4e-5);
  });
}

TEST_P(Masks, WindowsClipAtBothEnds) {
  for (auto [l, r] : {std::pair<int64_t, int64_t>{0, 0},
                      {1, 1},
                      {0, 5},
                      {5, 0},
                      {16, 16},
                      {31, 3},
                      {100, 100}})
    for (int64_t length : {1, 7, 65, 140})
      expectMeans(
          meanCase(variant(2, 2, 8, fmt::format("mask = window({}, {})", l, r)),
                   1, length, length),
          [=, left = l, right = r](int64_t q) {
            return static_cast<double>(std::max<int64_t>(0, q - left) +
                                       std::min(length - 1, q + right)) /
                   2;
          });
}

TEST_P(Masks, DilatedWindows) {
  // Wider than the sequence, with other sizes, and with a causal limit.
  for (const char *mask :
       {"window(1, 1, 3)", "window(2, 2, 4)", "causal && window(2, 0, 3)",
        "window(3, 3, 5)", "window(20, 20, 2)", "window(16, 5, 7)",
        "window(64, 64, 2)", "window(0, 0, 9)"})
    for (int64_t length : {1, 5, 7, 8, 33, 100, 131})
      expectRight(caseOf(variant(1, 1, 4, fmt::format("mask = {}", mask)), 1,
                         length, length));
  // Chunks: positions, not rows, choose the residue class.
  for (int64_t qLen : {1, 2, 5, 40})
    expectRight(caseOf(variant(2, 1, 4, "mask = causal && window(9, 9, 3)"), 1,
                       qLen, 97));
}

TEST_P(Masks, DilationOneIsThePlainWindow) {
  Case c = caseOf(variant(2, 1, 8, "mask = window(9, 4, 1)"), 1, 50, 70);
  std::unique_ptr<Trial> dilated = run(c);
  c.spec = variant(2, 1, 8, "mask = window(9, 4)");
  EXPECT_EQ(dilated->buffers.outputBits(), run(c)->buffers.outputBits());
}

TEST_P(Masks, LogicOfLinearForms) {
  for (const char *mask :
       {"k <= q || k < 5", "k <= q && k != 3", "!(k > q) && !(k < q - 20)",
        "2 * k - q < 7", "k + q < 90", "q == 3 || k == 60", "k - 2 * q >= 1",
        "k == q", "k != q", "!causal", "false", "true",
        "(causal && sliding(16)) || k < 4",
        "(window(3) || k == 0 || q == 0) && k <= q + 2", "q >= 100 || k == 0",
        "causal && (k < 10 || k > 50)",
        "k >= q - 3 && k <= q + 3 && k % 2 == 0", "3 * k > q && 3 * q > k"})
    for (auto [qLen, kvLen] :
         {std::pair<int64_t, int64_t>{70, 70}, {33, 129}, {129, 33}, {1, 100}})
      expectRight(caseOf(variant(2, 1, 8, fmt::format("mask = {}", mask)), 1,
                         qLen, kvLen));
}

TEST_P(Masks, GroupedHeadsKeepTheirRows) {
  for (auto [heads, kvHeads] :
       {std::pair<int64_t, int64_t>{14, 2}, {7, 1}, {6, 3}, {5, 2}, {12, 4}})
    for (int64_t qLen : {150, 3, 7, 1}) {
      expectMeans(
          meanCase(variant(heads, kvHeads, 16, "mask = causal"), 1, qLen, 150),
          [qLen = qLen](int64_t i) {
            return static_cast<double>(150 - qLen + i) / 2;
          });
    }
}

TEST_P(Masks, GroupedHeadsRepeat) {
  for (auto [heads, kvHeads] : {std::pair<int64_t, int64_t>{4, 2},
                                {6, 3},
                                {8, 1},
                                {5, 5},
                                {12, 4},
                                {7, 2},
                                {9, 4}})
    for (int64_t qLen : {1, 9}) {
      Case c = caseOf(variant(heads, kvHeads, 4, ""), 2, qLen, 1);
      c.values.v = [](const Index &at) {
        return static_cast<float>(10 * (at[1] + 1));
      };
      std::unique_ptr<Trial> trial = run(c);
      trial->buffers.o.forEach([&, n = heads, m = kvHeads](const Index &at) {
        ASSERT_EQ(trial->buffers.o.get(at),
                  static_cast<float>(10 * (at[1] * m / n + 1)));
      });
    }
}

TEST_P(Masks, KvMap) {
  for (const char *map :
       {"kv_heads = 3 kv_map = [2, 0, 1, 1, 0]", "kv_heads = 1",
        "kv_heads = 4 kv_map = [3, 3, 3, 3, 3]",
        "kv_heads = 5 kv_map = [4, 3, 2, 1, 0]",
        "kv_heads = 2 kv_map = [0, 1, 0, 1, 0]"})
    for (int64_t qLen : {1, 20})
      expectRight(caseOf(parseOne(fmt::format("attention test {{ heads = 5 {} "
                                              "head_dim = 12 mask = causal }}",
                                              map)),
                         2, qLen, 37));
}

TEST_P(Masks, PerSequenceLengths) {
  for (const char *mask : {"true", "causal", "window(5)",
                           "causal && sliding(3)", "k < 4 || k == q"})
    for (const char *align : {"bottom_right", "top_left"}) {
      Case c = caseOf(
          variant(4, 2, 8, fmt::format("mask = {} align = {}", mask, align)), 6,
          40, 70);
      c.qLens = {40, 0, 1, 40, 17, 33};
      c.kvLens = {70, 70, 70, 0, 33, 1};
      expectRight(c);
    }
}

ATTN_FOR_EACH_TARGET(Masks);

} // namespace
} // namespace attn::test

//===- tests/kernels/GlobalsTest.cpp - Lists of global tokens -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/kernels/KernelTest.h"
#include <algorithm>
#include <cmath>
#include <numeric>

namespace attn::test {
namespace {

using List = std::vector<double>;

/// Lists for the entries of a batch, padded to one length.
Argument lists(std::vector<List> rows) {
  size_t most = 0;
  for (const List &row : rows)
    most = std::max(most, row.size());
  List all;
  for (List &row : rows) {
    row.resize(most, -1);
    all.insert(all.end(), row.begin(), row.end());
  }
  return argument(
      {static_cast<int64_t>(rows.size()), static_cast<int64_t>(most)}, all);
}

List upTo(int64_t end) {
  List all(static_cast<size_t>(end));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

class Globals : public KernelTest {
protected:
  /// The lists that every test of masks goes through, of a sequence with so
  /// many positions.
  static std::vector<List> someLists(int64_t positions) {
    auto last = static_cast<double>(positions - 1);
    List far, repeated, backwards, half, padded;
    for (int64_t p = 0; p < positions; p += 61)
      far.push_back(static_cast<double>(p));
    for (double p : {0.0, last, 0.0, last / 2, last, 0.0})
      repeated.push_back(std::floor(p));
    for (int64_t p = positions - 1; p >= 0; p -= 7)
      backwards.push_back(static_cast<double>(p));
    for (int64_t p = positions / 4; p < positions * 3 / 4; ++p)
      half.push_back(static_cast<double>(p));
    for (double p : {-1.0, 0.0, -7.0, last, -2147483648.0})
      padded.push_back(p);
    return {{},   far,    repeated, backwards,
            half, padded, {last},   upTo(positions)};
  }

  void expectRightForLists(const std::string &declared, int64_t heads,
                           int64_t kvHeads, const std::string &rest) {
    Spec spec = variant(declared, heads, kvHeads, 8, rest);
    Properties kernel = kernelOf(spec);
    for (auto [qLen, kvLen] : {std::pair<int64_t, int64_t>{105, 105},
                               {1, 230},
                               {20, 150},
                               {70, 40}}) {
      Case c = caseOf(spec, 1, qLen, kvLen);
      std::vector<List> all = someLists(c.positions());
      for (size_t n = 0; n < all.size(); ++n) {
        c.params.clear();
        for (size_t p = 0; p < spec.params.size(); ++p)
          c.params.push_back(lists({all[(n + p * 3) % all.size()]}));
        EXPECT_EQ(kernel.matchesOracle(c), "") << describe(c);
        if (n == 1 && qLen == 20)
          EXPECT_EQ(kernel.all(c, n), "") << describe(c);
      }
    }
  }

  /// The bits of each entry of the batch.
  static std::vector<std::vector<uint32_t>> entries(const Trial &trial) {
    std::vector<std::vector<uint32_t>> all;
    for (int64_t b = 0; b < trial.c.batch; ++b) {
      all.emplace_back();
      for (int64_t h = 0; h < trial.c.spec.heads; ++h)
        for (int64_t i = 0; i < trial.c.qLen; ++i) {
          std::vector<uint32_t> row = trial.buffers.rowBits(b, h, i);
          all.back().insert(all.back().end(), row.begin(), row.end());
        }
    }
    return all;
  }
};

const char *const kTokens = "t: tokens";

TEST_P(Globals, SequencesWithDifferentNumbersOfThem) {
  // V_j = 2^j: the mean names the set, and whether a key counts once.
  Spec spec = variant(kTokens, 1, 1, 4, "mask = window(1) || global(t)");
  const std::vector<List> given = {{0}, {0, 1, 5}, {}};
  const std::vector<std::vector<double>> want = {
      {31.875, 7.0 / 3, 3.75, 7.25, 14.25, 28.25, 56.25, 193.0 / 3},
      {31.875, 31.875, 9.4, 10.5, 11.8, 31.875, 45.4, 45.4},
      {1.5, 7.0 / 3, 14.0 / 3, 28.0 / 3, 56.0 / 3, 112.0 / 3, 224.0 / 3, 96}};
  Case c = meanCase(spec, 1, 8, 8);
  c.values.v = [](const Index &at) {
    return std::ldexp(1.0F, static_cast<int>(at[2]));
  };
  std::vector<std::vector<uint32_t>> alone;
  for (const List &list : given) {
    c.params = {lists({list})};
    alone.push_back(entries(*run(c))[0]);
  }
  for (const std::vector<size_t> &order : {std::vector<size_t>{0},
                                           {1},
                                           {2},
                                           {0, 1},
                                           {1, 0},
                                           {0, 2},
                                           {2, 1},
                                           {2, 0, 1, 1}}) {
    c.batch = static_cast<int64_t>(order.size());
    std::vector<List> of;
    for (size_t n : order)
      of.push_back(given[n]);
    c.params = {lists(of)};
    std::unique_ptr<Trial> trial = run(c);
    std::vector<std::vector<uint32_t>> bits = entries(*trial);
    for (size_t b = 0; b < order.size(); ++b) {
      EXPECT_EQ(bits[b], alone[order[b]]) << "entry " << b;
      for (int64_t i = 0; i < 8; ++i)
        EXPECT_NEAR(trial->buffers.o.get({static_cast<int64_t>(b), 0, i, 0}),
                    want[order[b]][static_cast<size_t>(i)], 2e-5)
            << "row " << i << " of list " << order[b];
    }
  }
}

TEST_P(Globals, LongerSequencesOfABatch) {
  Spec spec = variant(kTokens, 2, 1, 64, "mask = window(16) || global(t)");
  Properties kernel = kernelOf(spec);
  for (bool swapped : {false, true}) {
    Case c = caseOf(spec, 2, 130, 130);
    List some = {0, 1, 64, 129};
    c.params = {swapped ? lists({{}, some}) : lists({some, {}})};
    EXPECT_EQ(kernel.all(c, 5), "") << describe(c);
  }
  // Each as long as it likes, in the same call.
  Case c = caseOf(spec, 4, 200, 300);
  c.qLens = {200, 1, 0, 64};
  c.kvLens = {300, 150, 40, 64};
  c.params = {lists({{299, 0, 100}, {149}, {}, upTo(64)})};
  EXPECT_EQ(kernel.all(c, 6), "") << describe(c);
}

TEST_P(Globals, BesideAWindow) {
  for (const char *rest :
       {"mask = window(16) || global(t)", "mask = global(t)",
        "mask = global(t) && causal",
        "mask = causal && (sliding(20) || global(t))", "mask = !global(t)",
        "mask = window(30) && !global(t)",
        "mask = k <= q + 3 && (window(5) || global(t)) || k == 7",
        "mask = window(16) || global(t) align = top_left",
        "mask = causal && global(t) align = top_left",
        "mask = neighborhood(9) || global(t)"})
    expectRightForLists(kTokens, 1, 1, rest);
}

TEST_P(Globals, BesideDilatedWindows) {
  for (const char *rest :
       {"mask = window(5, 5, 3) || global(t)",
        "let d = [1, 1, 2, 4] mask = window(9, 9, d[h]) || global(t)",
        "let d = [1, 3, 2, 4] "
        "mask = window(9, 9, d[h]) && causal || global(t) align = top_left",
        "let d = [2, 2, 2, 4] "
        "mask = window(6, 6, d[h]) || global(t) && causal"})
    expectRightForLists(kTokens, 4, 2, rest);
}

TEST_P(Globals, OfSeveralLists) {
  for (const char *rest :
       {"mask = window(8) || global(t) || global(u)",
        "mask = window(8) || global(t) && global(u)",
        "mask = window(8, 8, 2) || global(t) || global(u)",
        "mask = global(t) && !global(u) || k == q",
        "mask = h == 0 ? window(8) || global(t) : causal && global(u)"})
    expectRightForLists("t: tokens, u: tokens", 2, 2, rest);
}

TEST_P(Globals, AtPositionsPastTheLastKey) {
  // More queries than keys at the same positions: listed ones past the last
  // key are of queries only, which see every key.
  Case c = meanCase(variant(kTokens, 1, 1, 8,
                            "mask = window(2) || global(t) align = top_left"),
                    1, 200, 50);
  c.params = {lists({{60, 199, 3}})};
  std::unique_ptr<Trial> trial = run(c);
  for (int64_t i : {60, 199, 3})
    EXPECT_NEAR(trial->buffers.o.get({0, 0, i, 0}), 24.5, 1e-5) << i;
  for (int64_t i : {61, 100, 198})
    EXPECT_NEAR(trial->buffers.o.get({0, 0, i, 0}), 3, 1e-5) << i;
}

TEST_P(Globals, MoreThanATileOfThem) {
  // Every second position of 420, in pieces of a call and all at once.
  for (const char *rest : {"mask = window(3) || global(t)",
                           "mask = window(3, 3, 4) || global(t)"}) {
    Spec spec = variant(kTokens, 2, 1, 8, rest);
    Properties kernel = kernelOf(spec);
    for (auto [qLen, kvLen] :
         {std::pair<int64_t, int64_t>{420, 420}, {1, 420}, {150, 420}}) {
      Case c = caseOf(spec, 1, qLen, kvLen);
      List every;
      for (int64_t p = kvLen - 1; p >= 0; p -= 2)
        every.push_back(static_cast<double>(p));
      c.params = {lists({every})};
      EXPECT_EQ(kernel.matchesOracle(c), "") << describe(c);
      EXPECT_EQ(kernel.sameInAnyOrder(c), "") << describe(c);
    }
  }
}

TEST_P(Globals, OrderAndRepetitionDoNotMatter) {
  for (const char *rest : {"mask = window(16) || global(t)",
                           "let d = [1, 2] mask = window(4, 4, d[h]) || "
                           "global(t)"}) {
    Spec spec = variant(kTokens, 2, 1, 16, rest);
    Case c = caseOf(spec, 1, 150, 150);
    std::vector<std::vector<uint32_t>> bits;
    for (const List &list : {List{3, 70, 149},
                             {149, 3, 70},
                             {70, 70, 3, -1, 149, 3, 3, 70},
                             {-5, -1, 3, 70, 149}}) {
      c.params = {lists({list})};
      bits.push_back(run(c)->buffers.outputBits());
      c.params[0].otherType = true; // as 64-bit integers
      bits.push_back(run(c)->buffers.outputBits());
    }
    for (const std::vector<uint32_t> &one : bits)
      EXPECT_EQ(one, bits[0]);
  }
}

TEST_P(Globals, WithScoresAndSinks) {
  Spec spec = variant(
      "t: tokens, bias: f32[heads, queries, keys], doc: i32[batch, tokens], "
      "sinks: f32[heads]",
      4, 2, 16,
      "mask = (window(16) && doc[b, q] == doc[b, k]) || global(t) "
      "score = softcap(s, 5.0) + bias[h, q, k] sink = sinks[h]");
  Properties kernel = kernelOf(spec);
  for (auto [qLen, kvLen] :
       {std::pair<int64_t, int64_t>{150, 150}, {1, 150}, {40, 110}}) {
    Case c = caseOf(spec, 2, qLen, kvLen);
    c.params = {lists({{0, 100}, {}}),
                argumentOf({4, qLen, kvLen},
                           [](int64_t n) { return double(n * 31 % 17) / 16; }),
                argumentOf({2, kvLen}, [](int64_t n) { return n / 60; }),
                argument({4}, {0.5, -2, 3, 20})};
    EXPECT_EQ(kernel.all(c, 9), "") << describe(c);
  }
}

ATTN_FOR_EACH_TARGET(Globals);

} // namespace
} // namespace attn::test

//===- tests/oracle/PublishedTest.cpp - The evaluator against known numbers ==//
//
// Part of attnc. Apache-2.0.
//
// Numbers worked out independently for faults that attention implementations
// have had in public: which keys a row sees, in which order operations apply,
// and what the softmax gives at its extremes.
//
//===----------------------------------------------------------------------===//
#include "tests/oracle/TestCall.h"
#include <cmath>
#include <limits>

namespace attn::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Published, RowsWithNothingToAttendTo) {
  TestCall call("attention a { heads = 2 head_dim = 8 mask = causal }");
  call.qLen = 6;
  call.kvLen = 4;
  call.v = position;
  Output output = call.run();
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(output.at(0, 1, i, 3), 0);
    EXPECT_EQ(output.lse[output.row(0, 1, i)], -kInfinity);
  }
  expectNear(call.column(), {0, 0, 0, 0.5, 1, 1.5});
}

TEST(Published, PaddedSequenceWithWindow) {
  TestCall call("attention a { heads = 1 head_dim = 1 align = top_left "
                "mask = causal && sliding(2) }");
  call.qLen = 10;
  call.kvLen = 10;
  call.kvLens = {3};
  call.v = [](int64_t, int64_t, int64_t t, int64_t) { return 5.0 + t; };
  expectNear(call.column(), {5, 5.5, 6.5, 7, 0, 0, 0, 0, 0, 0});
}

TEST(Published, NoKeys) {
  TestCall call("attention a { heads = 1 head_dim = 4 }");
  call.qLen = 3;
  call.kvLen = 0;
  Output output = call.run();
  expectNear(call.column(), {0, 0, 0});
  EXPECT_EQ(output.lse, std::vector<double>(3, -kInfinity));
}

TEST(Published, VeryNegativeLogits) {
  TestCall call(
      "attention a { heads = 1 head_dim = 1 scale = 1.0 mask = causal }");
  call.qLen = call.kvLen = 3;
  call.q = one;
  call.v = tokens({1, 2, 4});
  for (double lower : {0.0, 9e5}) {
    call.k = tokens({-1e5 - lower, -100001 - lower, -100002 - lower});
    expectNear(call.column(), {1, 1.2689414, 1.5148202});
    Output output = call.run();
    EXPECT_NEAR(output.lse[2], -99999.5924 - lower, 5e-5);
  }
}

TEST(Published, WeightsThatVanish) {
  TestCall call("attention a { heads = 1 head_dim = 1 scale = 1.0 }");
  call.kvLen = 3;
  call.q = one;
  call.k = tokens({0, -1000, -3e38});
  call.v = tokens({0, 3e38, 3e38});
  EXPECT_EQ(call.column()[0], 0);
}

TEST(Published, SoftcapBeforeMask) {
  TestCall call("attention a { heads = 1 head_dim = 1 scale = 1.0 "
                "score = softcap(s, 1.0) mask = causal }");
  call.qLen = call.kvLen = 2;
  call.q = one;
  call.k = tokens({0, 0.5});
  call.v = tokens({0, 1000});
  expectNear(call.column(), {0, 613.5163}, 1e-4);
  EXPECT_NEAR(call.run().lse[1], 0.9506656, 1e-7);
}

TEST(Published, Sinks) {
  TestCall call("attention a(sinks: f32[heads]) { heads = 1 head_dim = 1 "
                "scale = 1.0 sink = sinks[h] }");
  call.kvLen = 3;
  call.q = one;
  call.k = tokens({0.3, -0.2, 1.1});
  call.v = tokens({1, 2, 3});
  call.params = {{{0.5}, {1}}};
  expectNear(call.column(), {1.7591232});
  EXPECT_NEAR(call.run().lse[0], 1.9200760, 1e-6);
  // A sink of minus infinity is none.
  call.params = {{{-kInfinity}, {1}}};
  expectNear(call.column(), {2.3198116});
  EXPECT_NEAR(call.run().lse[0], 1.6434055, 1e-6);
  call.params = {{{100}, {1}}};
  EXPECT_LT(std::fabs(call.column()[0]), 1e-35);
  // No key at all: the sink alone.
  call.params = {{{0.5}, {1}}};
  call.kvLen = 0;
  EXPECT_EQ(call.column()[0], 0);
  EXPECT_EQ(call.run().lse[0], 0.5);
}

/// Worked out from the run without sinks.
TEST(Published, SinksPerHeadOnEveryShape) {
  const std::string body =
      "heads = 4 kv_heads = 2 head_dim = 8 mask = causal && sliding(12)";
  TestCall without("attention a { " + body + " }");
  TestCall with("attention a(sinks: f32[heads]) { " + body +
                " sink = sinks[h] }");
  const double sinks[] = {0.5, -2, 3, 20};
  with.params = {{{0.5, -2, 3, 20}, {4}}};
  for (TestCall *call : {&without, &with}) {
    call->batch = 2;
    call->kvLen = 30;
    call->q = call->k =
        call->v = [](int64_t b, int64_t h, int64_t t, int64_t c) {
          return std::sin(static_cast<double>(b * 7 + h * 31 + t * 13 + c * 5));
        };
  }
  for (int64_t qLen : {30, 7, 1}) {
    without.qLen = with.qLen = qLen;
    Output plain = without.run(), sunk = with.run();
    ASSERT_EQ(with.error, "");
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t h = 0; h < 4; ++h)
        for (int64_t i = 0; i < qLen; ++i) {
          double l0 = plain.lse[plain.row(b, h, i)];
          EXPECT_NEAR(sunk.at(b, h, i, 3),
                      plain.at(b, h, i, 3) / (1 + std::exp(sinks[h] - l0)),
                      1e-12);
          EXPECT_NEAR(sunk.lse[sunk.row(b, h, i)],
                      std::log(std::exp(l0) + std::exp(sinks[h])), 1e-12);
        }
  }
}

TEST(Published, Alignment) {
  TestCall bottom("attention a { heads = 1 head_dim = 2 mask = causal }");
  bottom.kvLen = 5;
  bottom.v = position;
  expectNear(bottom.column(), {2});
  bottom.qLen = 3;
  expectNear(bottom.column(), {1, 1.5, 2});
  TestCall top(
      "attention a { heads = 1 head_dim = 2 mask = causal align = top_left }");
  top.kvLen = 5;
  top.v = position;
  expectNear(top.column(), {0});
  top.qLen = 3;
  expectNear(top.column(), {0, 0.5, 1});
}

TEST(Published, SlidingWindowCountsItself) {
  const auto run = [](int64_t w, int64_t qLen, int64_t kvLen) {
    TestCall call("attention a { heads = 1 head_dim = 1 mask = causal && "
                  "sliding(" +
                  std::to_string(w) + ") }");
    call.qLen = qLen;
    call.kvLen = kvLen;
    call.v = position;
    return call.column();
  };
  expectNear(run(3, 8, 8), {0, 0.5, 1, 2, 3, 4, 5, 6});
  expectNear(run(1, 8, 8), {0, 1, 2, 3, 4, 5, 6, 7});
  expectNear(run(8, 8, 8), run(9, 8, 8));
  for (int64_t n = 1; n <= 8; ++n)
    expectNear(run(3, 1, n), {run(3, 8, 8)[static_cast<size_t>(n - 1)]});
  std::vector<double> wide = run(64, 130, 130);
  for (int64_t i = 0; i < 130; ++i)
    EXPECT_NEAR(wide[static_cast<size_t>(i)],
                static_cast<double>(std::max<int64_t>(0, i - 63) + i) / 2,
                1e-9);
}

TEST(Published, DilatedWindowBeyondTheSequence) {
  const auto run = [](const std::string &mask, int64_t length) {
    TestCall call("attention a { heads = 1 head_dim = 1 mask = " + mask + " }");
    call.qLen = call.kvLen = length;
    call.v = powerOfTwo;
    return call.column();
  };
  expectNear(run("window(1, 1, 3)", 7), {4.5, 9, 18, 24.333333, 9, 18, 36});
  expectNear(run("window(2, 2, 4)", 5), {8.5, 2, 4, 8, 8.5});
  expectNear(run("causal && window(2, 0, 3)", 8),
             {1, 2, 4, 4.5, 9, 18, 24.333333, 48.666667});
  expectNear(run("window(3, 3, 5)", 1), {1});
  expectNear(run("window(2, 2, 1)", 8), run("window(2)", 8), 0);
}

TEST(Published, GlobalTokensPerSequence) {
  TestCall call("attention a(globals: tokens) { heads = 1 head_dim = 1 "
                "mask = window(1) || global(globals) }");
  call.batch = 2;
  call.qLen = call.kvLen = 8;
  call.v = powerOfTwo;
  call.params = {{{0, -1, -1, 0, 1, 5}, {2, 3}}};
  expectNear(call.column(0),
             {31.875, 2.333333, 3.75, 7.25, 14.25, 28.25, 56.25, 64.333333});
  expectNear(call.column(1),
             {31.875, 31.875, 9.4, 10.5, 11.8, 31.875, 45.4, 45.4});
}

TEST(Published, GlobalTokensAloneSwappedAndNone) {
  TestCall call("attention a(globals: tokens) { heads = 1 head_dim = 1 "
                "mask = window(1) || global(globals) }");
  call.qLen = call.kvLen = 8;
  call.v = powerOfTwo;
  call.batch = 2;
  call.params = {{{0, -1, -1, 0, 1, 5}, {2, 3}}};
  const std::vector<double> first = call.column(0), second = call.column(1);
  // Unsorted and repeated, with padding anywhere.
  call.params = {{{5, -7, 1, 0, 5, -1, 0, 0, 0, -1}, {2, 5}}};
  expectNear(call.column(0), second, 0);
  expectNear(call.column(1), first, 0);
  call.params = {{{-1, -1, -1, -1, 0, -1}, {2, 3}}};
  expectNear(call.column(1), first, 0);
  TestCall window("attention a { heads = 1 head_dim = 1 mask = window(1) }");
  window.qLen = window.kvLen = 8;
  window.v = powerOfTwo;
  expectNear(call.column(0), window.column(), 0);
  call.params = {{{}, {2, 0}}};
  expectNear(call.column(1), window.column(), 0);
  call.batch = 1;
  call.params = {{{0}, {1, 1}}};
  expectNear(call.column(0), first, 0);
  call.params = {{{0, 1, 5}, {1, 3}}};
  expectNear(call.column(0), second, 0);
}

TEST(Published, GlobalTokensAreASet) {
  TestCall call("attention a(globals: tokens) { heads = 1 head_dim = 1 "
                "mask = window(16) || global(globals) }");
  call.batch = 2;
  call.qLen = call.kvLen = 130;
  call.params = {{{129, 0, 1, 64, -1, -1, -1, -1}, {2, 4}}};
  for (int64_t b = 0; b < 2; ++b) {
    const std::vector<std::string> rows = call.allowedRows(b);
    for (int64_t q = 0; q < 130; ++q)
      for (int64_t k = 0; k < 130; ++k) {
        const auto isGlobal = [&](int64_t at) {
          return b == 0 && (at == 0 || at == 1 || at == 64 || at == 129);
        };
        bool allowed = std::abs(q - k) <= 16 || isGlobal(q) || isGlobal(k);
        ASSERT_EQ(rows[static_cast<size_t>(q)][static_cast<size_t>(k)],
                  allowed ? '1' : '0')
            << b << " " << q << " " << k;
      }
  }
}

TEST(Published, GroupedHeadsRepeat) {
  const std::pair<int64_t, int64_t> counts[] = {{4, 2}, {6, 3},  {8, 1},
                                                {5, 5}, {12, 4}, {7, 2}};
  for (auto [heads, kvHeads] : counts) {
    TestCall call("attention a { heads = " + std::to_string(heads) +
                  " kv_heads = " + std::to_string(kvHeads) + " head_dim = 4 }");
    call.v = [](int64_t, int64_t g, int64_t, int64_t) {
      return 10.0 * (g + 1);
    };
    for (int64_t h = 0; h < heads; ++h)
      EXPECT_EQ(call.column(0, h)[0],
                10.0 * static_cast<double>(h * kvHeads / heads + 1));
  }
}

TEST(Published, GroupedHeadsAndCausalLimit) {
  TestCall call(
      "attention a { heads = 14 kv_heads = 2 head_dim = 2 mask = causal }");
  call.v = position;
  call.kvLen = 150;
  for (int64_t qLen : {150, 3, 7}) {
    call.qLen = qLen;
    std::vector<double> rows = call.column(0, 13);
    for (int64_t i = 0; i < qLen; ++i)
      EXPECT_NEAR(rows[static_cast<size_t>(i)],
                  static_cast<double>(150 - qLen + i) / 2, 1e-9);
  }
}

TEST(Published, UnequalHeadSizesAndDefaultScale) {
  TestCall call("attention a { heads = 1 head_dim = { qk = 4, value = 2 } }");
  call.kvLen = 2;
  call.q = one;
  call.k = tokens({0, 1}); // logits 0 and 4/sqrt(4) = 2
  call.v = tokens({0, 1});
  expectNear(call.column(), {1 / (1 + std::exp(-2.0))}, 1e-12);
  EXPECT_NEAR(call.run().lse[0], 2 + std::log1p(std::exp(-2.0)), 1e-12);
}

TEST(Published, OneKeyGivesItsValue) {
  const std::pair<int64_t, int64_t> widths[] = {
      {24, 16}, {16, 24}, {192, 128}, {7, 5}};
  for (auto [qk, value] : widths) {
    TestCall call(
        "attention a { heads = 1 head_dim = { qk = " + std::to_string(qk) +
        ", value = " + std::to_string(value) + " } mask = causal }");
    call.q = call.k = one;
    call.v = [](int64_t, int64_t, int64_t, int64_t c) { return 0.1 * c; };
    Output output = call.run();
    ASSERT_EQ(output.valueDim, value);
    for (int64_t c = 0; c < value; ++c)
      EXPECT_EQ(output.at(0, 0, 0, c),
                static_cast<double>(static_cast<float>(0.1 * c)));
    EXPECT_NEAR(output.lse[0], std::sqrt(static_cast<double>(qk)), 1e-12);
  }
}

TEST(Published, AlibiSlopes) {
  const auto slopes = [](int64_t heads) {
    TestCall call("attention a { heads = " + std::to_string(heads) +
                  " head_dim = 1 score = s + alibi_slope(h) }");
    std::vector<double> all;
    Output output = call.run();
    for (int64_t h = 0; h < heads; ++h)
      all.push_back(output.lse[output.row(0, h, 0)]);
    return all;
  };
  expectNear(slopes(6), {1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256, 0.5, 1.0 / 8},
             1e-12);
  expectNear(slopes(3), {1.0 / 16, 1.0 / 256, 1.0 / 4}, 1e-12);
  std::vector<double> twelve;
  for (int n = 1; n <= 8; ++n)
    twelve.push_back(std::exp2(-n));
  for (double e : {-0.5, -1.5, -2.5, -3.5})
    twelve.push_back(std::exp2(e));
  expectNear(slopes(12), twelve, 1e-12);

  TestCall call("attention a { heads = 6 head_dim = 1 mask = causal "
                "score = s - alibi_slope(h) * abs(q - k) }");
  call.qLen = call.kvLen = 2;
  call.v = tokens({1, 0});
  const double row1[] = {0.4378235, 0.4843801, 0.4960938,
                         0.4990234, 0.3775407, 0.4687906};
  for (int64_t h = 0; h < 6; ++h)
    EXPECT_NEAR(call.column(0, h)[1], row1[h], 1e-7);
}

TEST(Published, MaximumOfNegativeLogits) {
  TestCall call("attention a { heads = 1 head_dim = 1 scale = 1.0 }");
  call.q = one;
  call.k = [](int64_t, int64_t, int64_t t, int64_t) { return -200.0 - t; };
  call.v = position;
  const std::pair<int64_t, double> expected[] = {
      {1, 0},          {3, 0.4247896},  {5, 0.5480584}, {8, 0.5792921},
      {13, 0.5819473}, {16, 0.5819749}, {17, 0.5819760}};
  for (auto [keys, value] : expected) {
    call.kvLen = keys;
    EXPECT_NEAR(call.column()[0], value, 1e-7);
  }
  call.kvLen = 13;
  EXPECT_NEAR(call.run().lse[0], -199.5413271, 1e-7);
}

TEST(Published, EmptySegments) {
  // Segments of a packed batch as entries: (q, kv) lengths 0/4, 3/0, 2/3, 0/2.
  TestCall call("attention a { heads = 4 kv_heads = 1 head_dim = 2 "
                "mask = causal }");
  call.batch = 4;
  call.qLen = 3;
  call.kvLen = 4;
  call.qLens = {0, 3, 2, 0};
  call.kvLens = {4, 0, 3, 2};
  call.v = position;
  Output output = call.run();
  EXPECT_EQ(output.inside[output.row(0, 0, 0)], 0);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(output.at(1, 3, i, 0), 0);
    EXPECT_EQ(output.lse[output.row(1, 3, i)], -kInfinity);
  }
  EXPECT_NEAR(output.at(2, 1, 0, 0), 0.5, 1e-12); // keys 0 and 1
  EXPECT_NEAR(output.at(2, 1, 1, 0), 1, 1e-12);   // keys 0, 1 and 2
  EXPECT_EQ(output.inside[output.row(2, 1, 2)], 0);
}

TEST(Published, WholeVocabularyOfSizesThatMayBeZero) {
  TestCall call("attention a { heads = 4 kv_heads = 2 head_dim = 8 }");
  for (int64_t batch : {0, 2})
    for (int64_t qLen : {0, 3})
      for (int64_t kvLen : {0, 5}) {
        call.batch = batch;
        call.qLen = qLen;
        call.kvLen = kvLen;
        Output output = call.run();
        EXPECT_EQ(call.error, "");
        EXPECT_EQ(output.lse.size(), static_cast<size_t>(batch * 4 * qLen));
      }
}

} // namespace
} // namespace attn::oracle

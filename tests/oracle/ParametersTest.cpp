//===- tests/oracle/ParametersTest.cpp - Parameters, sinks, empty rows ----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/oracle/TestCall.h"
#include <cmath>
#include <limits>
#include <set>

namespace attn::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Rows = std::vector<std::string>;
using Numbers = std::vector<double>;

/// The scores of one row with scores of 0, of which each is told by the LSE of
/// a mask that allows one key.
Numbers scores(TestCall &call, int64_t b, int64_t h, int64_t i) {
  Numbers all;
  Spec whole = call.spec;
  for (int64_t j = 0; j < call.kvLen; ++j) {
    Spec only = parse("attention a(at: i32) { heads = 1 head_dim = 1 mask = "
                      "k == at }")
                    .specs[0];
    call.spec.mask = only.mask;
    call.spec.params.push_back(only.params[0]);
    call.params.push_back({{static_cast<double>(j)}, {}});
    Output output = call.run();
    EXPECT_EQ(call.error, "");
    all.push_back(output.lse[output.row(b, h, i)]);
    call.spec = whole;
    call.params.pop_back();
  }
  return all;
}

TEST(Parameters, AnIndexTakesTheNearestElement) {
  TestCall call("attention a(x: f32[keys], y: f32[4]) { heads = 1 head_dim = 1 "
                "score = s + x[k - 1] + y[k * 3 - 3] }");
  call.kvLen = 3;
  call.params = {{{1, 2, 4}, {3}}, {{10, 20, 30, 40}, {4}}};
  EXPECT_EQ(scores(call, 0, 0, 0), (Numbers{11, 11, 42}));
}

TEST(Parameters, AnIndexTakesTheNearestElementInEveryDimension) {
  TestCall call("attention a(x: f32[batch, heads, queries, keys]) { heads = 2 "
                "head_dim = 1 score = s + x[b + 7, q - 9, q + 2, k - 1] }");
  call.batch = 2;
  call.qLen = 2;
  call.kvLen = 3;
  Numbers x;
  for (int n = 0; n < 24; ++n)
    x.push_back(n);
  call.params = {{x, {2, 2, 2, 3}}};
  // Entry 1, head 0, query 1 whatever the row.
  EXPECT_EQ(scores(call, 0, 1, 0), (Numbers{15, 15, 16}));
  EXPECT_EQ(scores(call, 1, 0, 1), (Numbers{15, 15, 16}));
}

TEST(Parameters, AnIndexOfAListTakesTheNearestElement) {
  TestCall call("attention a { heads = 1 head_dim = 1 let steps = [5, 6, 7] "
                "let on = [false, true] "
                "score = s + steps[k - 1] mask = on[k] }");
  call.kvLen = 5;
  EXPECT_EQ(call.allowedRows(), (Rows{"01111"}));
  EXPECT_EQ(scores(call, 0, 0, 0), (Numbers{5, 5, 6, 7, 7}));
}

TEST(Parameters, PaddingIsOutOfReach) {
  // Of the second sequence two of four positions are its own.
  TestCall call("attention a(x: f32[batch, tokens]) { heads = 1 head_dim = 1 "
                "score = x[b, k + 1] }");
  call.batch = 2;
  call.kvLen = 4;
  call.kvLens = {4, 2};
  const double log2 = std::log(2.0);
  call.params = {{{0, log2, 0, 0, 0, log2, 1e30, 1e30}, {2, 4}}};
  call.v = position;
  // Scores log2, 0, 0, 0, and log2, log2.
  expectNear(call.column(0), {6.0 / 5});
  expectNear(call.column(1), {0.5});
}

TEST(Parameters, QueriesCountFromTheFirstOfTheSequence) {
  TestCall call("attention a(x: f32[queries]) { heads = 1 head_dim = 1 "
                "score = s + x[q] }");
  call.batch = 2;
  call.qLen = 3;
  call.kvLen = 5;
  call.qLens = {3, 2};
  call.kvLens = {5, 1};
  call.params = {{{1, 2, 3}, {3}}};
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(scores(call, 0, 0, i)[0], static_cast<double>(i + 1));
  // Positions -1 and 0.
  for (int64_t i = 0; i < 2; ++i)
    EXPECT_EQ(scores(call, 1, 0, i)[0], static_cast<double>(i + 1));
  call.spec.align = Align::TopLeft;
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(scores(call, 0, 0, i)[0], static_cast<double>(i + 1));
}

TEST(Parameters, TokensArePositions) {
  TestCall call("attention a(x: i32[batch, tokens]) { heads = 1 head_dim = 1 "
                "mask = x[b, q] == x[b, k] }");
  call.qLen = 2;
  call.kvLen = 4;
  call.params = {{{1, 1, 2, 1}, {1, 4}}};
  EXPECT_EQ(call.allowedRows(), (Rows{"0010", "1101"}));
  call.spec.align = Align::TopLeft;
  EXPECT_EQ(call.allowedRows(), (Rows{"1101", "1101"}));
  // More queries than keys: as many positions as queries.
  call.qLen = 3;
  call.kvLen = 1;
  call.params = {{{7, 8, 7}, {1, 3}}};
  EXPECT_EQ(call.allowedRows(), (Rows{"1", "0", "1"}));
}

TEST(Parameters, AnExtentOfOneStandsForAny) {
  TestCall call("attention a(x: f32[batch, heads, queries, keys], t: tokens) { "
                "heads = 2 head_dim = 1 score = s + x[b, h, q, k] "
                "mask = global(t) }");
  call.batch = 2;
  call.qLen = call.kvLen = 3;
  call.params = {{{1, 2}, {1, 2, 1, 1}}, {{2, -1}, {1, 2}}};
  for (int64_t b = 0; b < 2; ++b) {
    EXPECT_EQ(call.allowedRows(b, 1), (Rows{"001", "001", "111"}));
    EXPECT_EQ(scores(call, b, 1, 2), (Numbers{2, 2, 2}));
    EXPECT_EQ(scores(call, b, 0, 2), (Numbers{1, 1, 1}));
  }
}

TEST(Parameters, AnyNonzeroBoolIsTrue) {
  TestCall call("attention a(x: bool[keys], on: bool) { heads = 1 head_dim = 1 "
                "mask = x[k] == on }");
  call.kvLen = 4;
  call.params = {{{0, 1, 2, 255}, {4}}, {{7}, {}}};
  EXPECT_EQ(call.allowedRows(), (Rows{"0111"}));
}

TEST(Parameters, AnEmptyArrayReadsAsOne) {
  TestCall call("attention a(x: f32[keys]) { heads = 1 head_dim = 1 "
                "sink = x[h] }");
  call.kvLen = 0;
  call.params = {{{}, {0}}};
  Output output = call.run();
  EXPECT_EQ(call.error, "");
  EXPECT_EQ(output.lse[0], 1);
}

TEST(Parameters, ScaleUsesIntegers) {
  TestCall call("attention a(n: i32, m: i32[2]) { heads = 1 head_dim = 1 "
                "scale = 1.0 / n + m[1] }");
  call.q = call.k = one;
  call.params = {{{4}, {}}, {{9, 2}, {2}}};
  EXPECT_EQ(call.run().lse[0], 2.25);
  EXPECT_EQ(call.error, "");
}

TEST(Parameters, LiveInRelationsOfEveryKind) {
  TestCall call("attention a(w: i32[heads], from: i32[batch], n: i32, "
                "pad: bool[batch, keys]) { heads = 2 head_dim = 1 "
                "mask = (q - k < w[h] && k <= q || k < from[b] % n) && "
                "pad[b, k] }");
  call.qLen = call.kvLen = 4;
  call.params = {{{1, 2}, {2}}, {{5}, {1}}, {{3}, {}}, {{0, 1, 1, 1}, {1, 4}}};
  EXPECT_EQ(call.allowedRows(0, 0), (Rows{"0100", "0100", "0110", "0101"}));
  EXPECT_EQ(call.allowedRows(0, 1), (Rows{"0100", "0100", "0110", "0111"}));
  call.params[2].values = {0};
  call.allowedRows(0, 0);
  EXPECT_EQ(call.error, "remainder by zero");
}

TEST(Parameters, ReadsAreTold) {
  TestCall call("attention a(x: f32[keys], y: i32[batch, tokens], z: "
                "f32[heads], n: i32) { heads = 2 head_dim = 1 "
                "mask = k < n && y[b, q] == y[b, k] "
                "score = s > 0 ? s + x[k] : s sink = z[h] }");
  call.qLen = 2;
  call.kvLen = 3;
  call.params = {
      {{0, 0, 0}, {3}}, {{5, 5, 6}, {1, 3}}, {{1, 2}, {2}}, {{2}, {}}};
  using Elements = std::set<std::pair<size_t, size_t>>;
  std::vector<Elements> rows;
  EXPECT_EQ(parametersRead(call.spec, call.shape(), call.params,
                           [&](int64_t, int64_t, int64_t, const auto &reads) {
                             rows.emplace_back();
                             for (const ParamElement &at : reads)
                               rows.back().emplace(at.param, at.element);
                           }),
            "");
  const std::pair<size_t, size_t> y0{1, 0}, y1{1, 1}, y2{1, 2};
  // Row 0 of each head is at position 1 and sees keys 0 and 1; row 1 sees none.
  EXPECT_EQ(rows, (std::vector<Elements>{{{0, 0}, {0, 1}, y0, y1, y2, {2, 0}},
                                         {y0, y1, y2, {2, 0}},
                                         {{0, 0}, {0, 1}, y0, y1, y2, {2, 1}},
                                         {y0, y1, y2, {2, 1}}}));
}

TEST(Rows, WhoseScoresAreAllMinusInfinityAreEmpty) {
  for (const char *sink : {"", "sink = 0.5"}) {
    TestCall call("attention a(bias: f32[queries, keys]) { heads = 1 "
                  "head_dim = 1 score = s + bias[q, k] mask = k > 0 " +
                  std::string(sink) + " }");
    call.qLen = 2;
    call.kvLen = 3;
    call.v = one;
    call.params = {{{7, -kInfinity, -kInfinity, 0, -kInfinity, 0}, {2, 3}}};
    Output output = call.run();
    EXPECT_EQ(call.error, "");
    bool hasSink = *sink != 0;
    EXPECT_EQ(output.at(0, 0, 0, 0), 0);
    EXPECT_EQ(output.lse[0], hasSink ? 0.5 : -kInfinity);
    EXPECT_EQ(output.weightless, (std::vector<uint8_t>{1, 0}));
    EXPECT_EQ(output.keys, (std::vector<int64_t>{2, 2}));
    // The other row sees one key of weight.
    EXPECT_NEAR(output.at(0, 0, 1, 0), hasSink ? 1 / (1 + std::exp(0.5)) : 1,
                1e-12);
  }
}

TEST(Rows, StayNotANumber) {
  TestCall call("attention a(bias: f32[keys]) { heads = 1 head_dim = 1 "
                "score = s + bias[k] mask = causal }");
  call.qLen = call.kvLen = 3;
  call.v = one;
  call.params = {{{0, -kInfinity, std::nan("")}, {3}}};
  Output output = call.run();
  EXPECT_EQ(output.at(0, 0, 1, 0), 1);
  EXPECT_TRUE(std::isnan(output.at(0, 0, 2, 0)));
  EXPECT_TRUE(std::isnan(output.lse[2]));
  call.params[0].values = {-kInfinity, std::nan(""), -kInfinity};
  output = call.run();
  EXPECT_EQ(output.lse[0], -kInfinity);
  EXPECT_TRUE(std::isnan(output.lse[1]));
  EXPECT_TRUE(std::isnan(output.at(0, 0, 2, 0)));
}

TEST(Sinks, AreNeitherScaledNorScored) {
  TestCall call("attention a(sinks: f16[heads]) { heads = 2 head_dim = 1 "
                "scale = 0.5 score = softcap(s, 3.0) sink = sinks[h] * 2 }");
  call.kvLen = 2;
  call.q = call.k = one;
  call.v = one;
  call.params = {{{4, -kInfinity}, {2}}};
  Output output = call.run();
  ASSERT_EQ(call.error, "");
  double s = 3 * std::tanh(0.5 / 3);
  double keys = 2 * std::exp(s), z = keys + std::exp(8.0);
  EXPECT_NEAR(output.at(0, 0, 0, 0), keys / z, 1e-12);
  EXPECT_NEAR(output.lse[0], std::log(z), 1e-12);
  // Minus infinity is no sink.
  EXPECT_EQ(output.at(0, 1, 0, 0), 1);
  EXPECT_NEAR(output.lse[1], s + std::log(2.0), 1e-12);
}

} // namespace
} // namespace attn::oracle

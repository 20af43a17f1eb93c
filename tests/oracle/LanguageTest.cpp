//===- tests/oracle/LanguageTest.cpp - Each part of the language ----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/oracle/TestCall.h"
#include <cmath>
#include <cstring>

namespace attn::oracle {
namespace {

using Rows = std::vector<std::string>;

Rows allowed(const std::string &mask, int64_t qLen, int64_t kvLen,
             const std::string &more = "") {
  TestCall call("attention a { heads = 1 head_dim = 1 mask = " + mask + " " +
                more + " }");
  call.qLen = qLen;
  call.kvLen = kvLen;
  Rows rows = call.allowedRows();
  EXPECT_EQ(call.error, "");
  return rows;
}

/// The value of a float expression of s, at s = 0.7 and head 0 of one.
double value(const std::string &score) {
  TestCall call("attention a { heads = 1 head_dim = 1 scale = 1.0 score = " +
                score + " }");
  call.q = [](int64_t, int64_t, int64_t, int64_t) { return 0.7; };
  call.k = one;
  double result = call.run().lse[0]; // one key: its score
  EXPECT_EQ(call.error, "");
  return result;
}

TEST(Masks, Causal) {
  EXPECT_EQ(allowed("causal", 3, 3), (Rows{"100", "110", "111"}));
  EXPECT_EQ(allowed("causal", 2, 4), (Rows{"1110", "1111"}));
  EXPECT_EQ(allowed("causal", 2, 4, "align = top_left"),
            (Rows{"1000", "1100"}));
  EXPECT_EQ(allowed("causal", 4, 2), (Rows{"00", "00", "10", "11"}));
}

TEST(Masks, Window) {
  EXPECT_EQ(allowed("window(1)", 4, 4), (Rows{"1100", "1110", "0111", "0011"}));
  EXPECT_EQ(allowed("window(2, 0)", 4, 4),
            (Rows{"1000", "1100", "1110", "0111"}));
  EXPECT_EQ(allowed("window(0, 1)", 3, 3), (Rows{"110", "011", "001"}));
  EXPECT_EQ(allowed("window(1, 1, 2)", 5, 5),
            (Rows{"10100", "01010", "10101", "01010", "00101"}));
  // A query before the first key.
  EXPECT_EQ(allowed("window(1, 3, 3)", 3, 1), (Rows{"0", "0", "1"}));
}

TEST(Masks, Sliding) {
  EXPECT_EQ(allowed("sliding(2)", 4, 4),
            (Rows{"1111", "1111", "0111", "0011"}));
  EXPECT_EQ(allowed("causal && sliding(1)", 3, 3), (Rows{"100", "010", "001"}));
}

TEST(Masks, Neighborhood) {
  EXPECT_EQ(allowed("neighborhood(3)", 5, 5),
            (Rows{"11100", "11100", "01110", "00111", "00111"}));
  // Even: one more to the left than to the right.
  EXPECT_EQ(allowed("neighborhood(2)", 4, 4),
            (Rows{"1100", "1100", "0110", "0011"}));
  // Dilated: within each residue class.
  EXPECT_EQ(allowed("neighborhood(2, 2)", 6, 6),
            (Rows{"101000", "010100", "101000", "010100", "001010", "000101"}));
  // Longer than the class: the whole class.
  EXPECT_EQ(allowed("neighborhood(9, 2)", 3, 3), (Rows{"101", "010", "101"}));
}

TEST(Masks, Prefix) {
  EXPECT_EQ(allowed("causal || prefix(2)", 3, 3), (Rows{"110", "110", "111"}));
}

TEST(Masks, LinearFormsAndLogic) {
  EXPECT_EQ(allowed("2 * k - q < 2", 3, 4), (Rows{"1100", "1100", "1110"}));
  EXPECT_EQ(allowed("!(k == q) && k != 0", 3, 3), (Rows{"011", "001", "010"}));
  EXPECT_EQ(allowed("(k - q) % 2 == 0 && k >= 1", 2, 4),
            (Rows{"0010", "0101"}));
  EXPECT_EQ(allowed("k < q_len && q < kv_len - 1", 2, 3), (Rows{"110", "000"}));
  EXPECT_EQ(allowed("q > 0 ? k > 0 : k == 0", 2, 2), (Rows{"10", "01"}));
  EXPECT_EQ(allowed("min(k, 2) == max(q, 1) && abs(k - q) <= 1", 3, 3),
            (Rows{"010", "010", "001"}));
  EXPECT_EQ(allowed("false", 1, 2), (Rows{"00"}));
}

TEST(Masks, IntegerDivisionTruncates) {
  EXPECT_EQ(allowed("(k - 3) / 2 == 0", 1, 6), (Rows{"001110"}));
  EXPECT_EQ(allowed("(k - 3) % 2 == -1", 1, 4), (Rows{"1010"}));
}

TEST(Masks, FloatComparisonsAreInF32) {
  // In f32, k + 0.1 - 0.1 is not k for every k; the evaluator follows.
  Rows rows = allowed("(k + 0.1) - 0.1 == k * 1.0", 1, 40);
  std::string expected;
  for (int k = 0; k < 40; ++k) {
    volatile float sum = static_cast<float>(k) + 0.1F;
    volatile float back = sum - 0.1F;
    expected += back == static_cast<float>(k) ? '1' : '0';
  }
  EXPECT_EQ(rows[0], expected);
  EXPECT_NE(expected.find('0'), std::string::npos);
}

TEST(Masks, PerSequenceLengthsMoveTheDiagonal) {
  TestCall call("attention a { heads = 1 head_dim = 1 mask = causal }");
  call.batch = 2;
  call.qLen = 3;
  call.kvLen = 4;
  call.qLens = {2, 3};
  call.kvLens = {3, 4};
  EXPECT_EQ(call.allowedRows(0), (Rows{"1100", "1110", "0000"}));
  EXPECT_EQ(call.allowedRows(1), (Rows{"1100", "1110", "1111"}));
}

TEST(Masks, ListsAndParameters) {
  TestCall call("attention a(prefix: i32[batch], doc: i32[batch, tokens], "
                "on: bool) { heads = 2 head_dim = 1 let reach = [0, 1 + 1] "
                "mask = on && (window(reach[h], 0) || k < prefix[b]) && "
                "doc[b, q] == doc[b, k] }");
  call.qLen = call.kvLen = 4;
  call.params = {{{1}, {1}}, {{0, 0, 0, 5}, {1, 4}}, {{1}, {}}};
  EXPECT_EQ(call.allowedRows(0, 0), (Rows{"1000", "1100", "1010", "0001"}));
  EXPECT_EQ(call.allowedRows(0, 1), (Rows{"1000", "1100", "1110", "0001"}));
  int64_t pairs = 0;
  EXPECT_EQ(allowedPairs(call.spec, call.shape(), call.params, 0, 1, pairs),
            "");
  EXPECT_EQ(pairs, 7);
  call.params[2].values[0] = 0;
  EXPECT_EQ(call.allowedRows(0, 1), (Rows{"0000", "0000", "0000", "0000"}));
}

TEST(Scores, Functions) {
  const double s = static_cast<double>(0.7F);
  EXPECT_NEAR(value("s"), s, 1e-12);
  EXPECT_NEAR(value("abs(-s) + abs(-2)"), s + 2, 1e-12);
  EXPECT_NEAR(value("min(s, 0.5) + max(s, 0.5)"), s + 0.5, 1e-12);
  EXPECT_NEAR(value("floor(s * 10.5)"), 7, 1e-12);
  EXPECT_NEAR(value("exp(s)"), std::exp(s), 1e-12);
  EXPECT_NEAR(value("exp2(s)"), std::exp2(s), 1e-12);
  EXPECT_NEAR(value("log(s)"), std::log(s), 1e-12);
  EXPECT_NEAR(value("log2(s)"), std::log2(s), 1e-12);
  EXPECT_NEAR(value("sqrt(s)"), std::sqrt(s), 1e-12);
  EXPECT_NEAR(value("tanh(s)"), std::tanh(s), 1e-12);
  EXPECT_NEAR(value("sigmoid(s)"), 1 / (1 + std::exp(-s)), 1e-12);
  EXPECT_NEAR(value("softcap(s, 0.5)"), 0.5 * std::tanh(s / 0.5), 1e-12);
  EXPECT_NEAR(value("s > 0.5 ? s / 2 : s * 2"), s / 2, 1e-12);
  EXPECT_NEAR(value("s + 7 / 2 + 7 % 4"), s + 3 + 3, 1e-12);
}

TEST(Scores, SeePositionsAndHeads) {
  TestCall call("attention a(bias: f32[heads, queries]) { heads = 4 "
                "kv_heads = 2 head_dim = 1 "
                "score = s + bias[h, q] + g * 100 + k * 10 + b + kv_len }");
  call.batch = 2;
  call.qLen = 2;
  call.kvLen = 2;
  call.params = {{{0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}}};
  Output output = call.run();
  ASSERT_EQ(call.error, "");
  // Logits differ by 10 between the two keys.
  EXPECT_NEAR(output.lse[output.row(1, 3, 1)],
              7 + 100 + 10 + 1 + 2 + std::log1p(std::exp(-10.0)), 1e-12);
}

TEST(Scores, ScaleIsAnExpression) {
  TestCall call("attention a { heads = 1 head_dim = 3 let base = 8 "
                "scale = 2.0 / base }");
  call.q = one;
  call.k = one;
  EXPECT_NEAR(call.run().lse[0], 0.75, 1e-12);
}

TEST(Scores, KvMap) {
  TestCall call("attention a { heads = 3 kv_heads = 2 kv_map = [1, 0, 1] "
                "head_dim = 1 }");
  call.v = [](int64_t, int64_t g, int64_t, int64_t) { return 5.0 + g; };
  EXPECT_EQ(call.column(0, 0)[0], 6);
  EXPECT_EQ(call.column(0, 1)[0], 5);
  EXPECT_EQ(call.column(0, 2)[0], 6);
}

TEST(Storage, StridesOfAnySign) {
  TestCall call("attention a { heads = 1 head_dim = 1 }");
  const float keys[] = {0, 0, 0};
  const float values[] = {3, 9, 2, 9, 1};
  attn_call raw{};
  raw.q = keys;
  raw.k = keys;
  raw.v = values + 4;
  raw.batch = raw.q_len = 1;
  raw.kv_len = 2;
  raw.v_stride[2] = -2; // elements 4 and 2
  Output output;
  ASSERT_EQ(evaluate(call.spec, raw, {}, output), "");
  EXPECT_EQ(output.o[0], 1.5);
}

TEST(Storage, HalfPrecision) {
  const uint16_t half[] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0xfc00, 0x3555};
  const double wanted[] = {1,         -2,        65504, std::ldexp(1, -24),
                           -INFINITY, 0x1.554p-2};
  for (int64_t n = 0; n < 6; ++n)
    EXPECT_EQ(readElement(half, n, Type::F16), wanted[n]);
  const uint16_t brain[] = {0x3f80, 0xc040, 0x7f80};
  EXPECT_EQ(readElement(brain, 0, Type::BF16), 1);
  EXPECT_EQ(readElement(brain, 1, Type::BF16), -3);
  EXPECT_EQ(readElement(brain, 2, Type::BF16), INFINITY);
  EXPECT_TRUE(std::isnan(readElement(half, 0, Type::I8)));
}

TEST(Refusals, NameWhatIsWrong) {
  TestCall zero(
      "attention a { heads = 1 head_dim = 1 mask = k % (q - q) == 0 }");
  zero.run();
  EXPECT_EQ(zero.error, "remainder by zero");
  TestCall few("attention a(x: i32[keys]) { heads = 1 head_dim = 1 "
               "mask = x[k] == 0 }");
  few.kvLen = 3;
  few.params = {{{0, 0}, {3}}};
  few.run();
  EXPECT_EQ(few.error, "too few values for 'x'");
  TestCall missing(
      "attention a(x: i32) { heads = 1 head_dim = 1 mask = k < x }");
  missing.run();
  EXPECT_EQ(missing.error, "no value for the parameter 'x'");
  TestCall lengths("attention a { heads = 1 head_dim = 1 }");
  lengths.kvLens = {2};
  lengths.run();
  EXPECT_EQ(lengths.error, "kv_lens[0] is outside 0..kv_len");
  TestCall latent("attention a { heads = 1 "
                  "head_dim = { nope = 4, rope = 2, value = 4 } latent = 8 }");
  latent.run();
  EXPECT_NE(latent.error, "");
}

} // namespace
} // namespace attn::oracle

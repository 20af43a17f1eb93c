//===- tests/dsl/VariantTest.cpp - The builder gives what texts give ------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "dsl/Variant.h"
#include "Support.h"

#include <cmath>
#include <limits>

using namespace attn;
using namespace attn::dsl;

/// The builder's Spec, which must be that of the text.
static void same(const Variant &built, const std::string &text) {
  ParseResult result = built.build();
  ASSERT_EQ(errorsOf(result), "");
  ASSERT_EQ(result.specs.size(), 1u);
  EXPECT_EQ(result.specs[0], parseOne(text)) << print(result.specs[0]);
}

TEST(Variant, LanguageExamples) {
  same(Variant("llama3_8b")
           .heads(32)
           .kvHeads(8)
           .headDim(128)
           .type(Type::BF16)
           .mask(causal()),
       "attention llama3_8b { heads = 32 kv_heads = 8 head_dim = 128 "
       "type = bf16 mask = causal }");
  same(Variant("gemma2_local")
           .heads(8)
           .kvHeads(4)
           .headDim(256)
           .type(Type::F16)
           .score(softcap(s, 50.0))
           .mask(causal() && sliding(4096)),
       "attention gemma2_local { heads = 8 kv_heads = 4 head_dim = 256 "
       "type = f16 score = softcap(s, 50.0) mask = causal && sliding(4096) }");
  same(
      Variant("longformer")
          .param("globals", Type::Tokens)
          .heads(4)
          .headDim(64)
          .let("dilation", list({1, 1, 2, 4}))
          .mask(window(256, 256, ref("dilation")[h]) || global(ref("globals"))),
      "attention longformer(globals: tokens) { heads = 4 head_dim = 64 "
      "let dilation = [1, 1, 2, 4] "
      "mask = window(256, 256, dilation[h]) || global(globals) }");
  same(Variant("custom")
           .param("slope", Type::F32, {heads()})
           .param("prefix", Type::I32, {batch()})
           .param("doc", Type::I32, {batch(), tokens()})
           .heads(16)
           .headDim(80)
           .score(s + ref("slope")[h] * (k - q))
           .mask((k <= q || k < ref("prefix")[b]) &&
                 ref("doc").at({b, q}) == ref("doc").at({b, k})),
       "attention custom(slope: f32[heads], prefix: i32[batch], "
       "doc: i32[batch, tokens]) { heads = 16 head_dim = 80 "
       "score = s + slope[h] * (k - q) "
       "mask = (k <= q || k < prefix[b]) && doc[b, q] == doc[b, k] }");
  same(Variant("gpt_oss_local")
           .param("sinks", Type::F32, {heads()})
           .heads(64)
           .kvHeads(8)
           .headDim(64)
           .mask(causal() && sliding(128))
           .sink(ref("sinks")[h]),
       "attention gpt_oss_local(sinks: f32[heads]) { heads = 64 kv_heads = 8 "
       "head_dim = 64 mask = causal && sliding(128) sink = sinks[h] }");
  Rope rope;
  rope.layout = Rope::Interleaved;
  same(Variant("deepseek_v3")
           .heads(128)
           .headDim(128, 64, 128)
           .latent(512)
           .rope(rope)
           .mask(causal()),
       "attention deepseek_v3 { heads = 128 latent = 512 "
       "head_dim = { nope = 128, rope = 64, value = 128 } "
       "rope = { theta = 10000, layout = interleaved } mask = causal }");
}

TEST(Variant, EverythingElse) {
  Rope rope;
  rope.theta = 5e5;
  rope.dim = 16;
  rope.scaling = Rope::Yarn;
  rope.scalingArgs = {4, 4096};
  same(
      Variant("all")
          .param("n", Type::I32)
          .param("w", Type::BF16, {kvHeads(), 3})
          .param("m", Type::Bool, {batch(), queries(), keys()})
          .let("two", 2)
          .heads(2 * ref("two"))
          .kvHeads(3)
          .kvMap(list({0, 2, 1, 0}))
          .headDim(24, 30)
          .type(Type::F16, Type::I8, Type::F32)
          .scale(1 / log(ref("n")))
          .score(select(!(k < q), -s, s * ref("w").at({g, 2}) + 1 - 2 / 1.5))
          .mask(ref("m").at({b, q, k}) && (k % 3 != 0 || q >= kvLen - 1) &&
                qLen > 2 && true)
          .sink(
              min(max(abs(floor(exp(exp2(log2(sqrt(tanh(sigmoid(1.0)))))))), 2),
                  alibiSlope(h)))
          .align(Align::TopLeft)
          .rope(rope),
      "attention all(n: i32, w: bf16[kv_heads, 3], "
      "m: bool[batch, queries, keys]) { let two = 2 heads = 2 * two "
      "kv_heads = 3 kv_map = [0, 2, 1, 0] head_dim = { qk = 24, value = 30 } "
      "type = { q = f16, kv = i8, out = f32 } scale = 1 / log(n) "
      // 2 / 1.5 is C++'s there: the number, not the division.
      "score = !(k < q) ? -s : s * w[g, 2] + 1 - 1.3333333333333333 "
      "mask = m[b, q, k] && (k % 3 != 0 || q >= kv_len - 1) && q_len > 2 && "
      "true sink = min(max(abs(floor(exp(exp2(log2(sqrt(tanh(sigmoid(1.0)))))))"
      "), 2), alibi_slope(h)) align = top_left "
      "rope = { theta = 5e5, dim = 16, scaling = yarn(4, 4096, 32, 1) } }");
  same(Variant("masks").heads(1).headDim(1).mask(
           window(1) || window(1, 2) || neighborhood(3) || neighborhood(3, 2) ||
           prefix(2) || (k == q) == (k > q)),
       "attention masks { heads = 1 head_dim = 1 mask = window(1) || "
       "window(1, 2) || neighborhood(3) || neighborhood(3, 2) || prefix(2) || "
       "(k == q) == (k > q) }");
}

TEST(Variant, Numbers) {
  auto scale = [](const Ex &value) {
    return print(Variant("x")
                     .heads(1)
                     .headDim(1)
                     .scale(value)
                     .build()
                     .specs.at(0)
                     .scale);
  };
  EXPECT_EQ(scale(-5), "-5");
  EXPECT_EQ(scale(-0.5), "-0.5");
  EXPECT_EQ(scale(-0.0), "-0.0");
  EXPECT_EQ(scale(2.0f), "2.0");
  EXPECT_EQ(scale(7u), "7");
  EXPECT_EQ(scale(INT32_MIN), "-2147483647 - 1");
  EXPECT_EQ(scale(int64_t(3)), "3");
}

TEST(Variant, SettingAgainReplaces) {
  Variant base("x");
  base.heads(8).headDim(1).mask(causal());
  Variant copy = base;
  copy.heads(4).headDim(2, 3);
  EXPECT_EQ(base.build().specs.at(0).heads, 8);
  EXPECT_EQ(copy.build().specs.at(0).heads, 4);
  EXPECT_EQ(copy.build().specs.at(0).valueDim, 3);
  EXPECT_NE(copy.build().specs.at(0).mask, nullptr);
  copy = base;
  EXPECT_EQ(copy.build().specs.at(0), base.build().specs.at(0));
}

TEST(Variant, Defines) {
  Variant built("x");
  built.param("n", Type::I32).heads(1).headDim(1).mask(sliding(ref("n")));
  ParseResult result = built.build({{{"n", "7"}}});
  ASSERT_EQ(errorsOf(result), "");
  EXPECT_TRUE(result.specs[0].params.empty());
  EXPECT_EQ(errorsOf(built.build({{{"m", "7"}}})),
            "-D m=7: no 'let' or scalar parameter is named 'm' | there is n\n");
}

TEST(Variant, ErrorsNameThePart) {
  EXPECT_EQ(errorsOf(Variant("x").heads(0).headDim(8).build()),
            "field 'heads' of 'x': 'heads' is 0 | it must be at least 1\n");
  EXPECT_EQ(errorsOf(Variant("x").build()),
            "variant 'x': 'x' has no 'heads' | 'heads' is required\n"
            "variant 'x': 'x' has no 'head_dim' | 'head_dim' is required\n");
  EXPECT_EQ(
      errorsOf(Variant("x").heads(4).headDim(8).mask(k < ref("w")).build()),
      "field 'mask' of 'x': unknown name 'w'\n");
  EXPECT_EQ(errorsOf(Variant("x").heads(4).headDim(8).let("a", k).build()),
            "let 'a' of 'x': 'k' is not allowed in 'a' | 'a' must be "
            "constant\n");
  EXPECT_EQ(errorsOf(Variant("x y").heads(4).headDim(8).build()),
            "variant 'x y': 'x y' is not a name | names are letters, digits "
            "and '_', a letter first\n");
  EXPECT_EQ(errorsOf(Variant("x")
                         .heads(4)
                         .headDim(8)
                         .param("", Type::F32)
                         .param("p", Type::I8)
                         .build()),
            "parameter '' of 'x': '' is not a name | names are letters, digits "
            "and '_', a letter first\n"
            "parameter 'p' of 'x': 'i8' is not a type of parameters | allowed: "
            "i32, f32, f16, bf16, bool or tokens\n");
  EXPECT_EQ(errorsOf(Variant("x").heads(4).headDim(8).type(Type::I8).build()),
            "field 'type' of 'x': 'type' cannot be 'i8' | allowed: f32, f16 or "
            "bf16\n");
}

TEST(Variant, NumbersThatNoTextHas) {
  const double inf = std::numeric_limits<double>::infinity();
  for (double value : {inf, -inf, std::nan(""), 1e39}) {
    ParseResult result = Variant("x").heads(1).headDim(1).scale(value).build();
    EXPECT_NE(errorsOf(result).find("does not fit in f32"), std::string::npos)
        << value;
  }
  for (int64_t value :
       {int64_t(1) << 31, INT64_MAX, INT64_MIN, -(int64_t(1) << 31) - 1}) {
    ParseResult result = Variant("x").heads(1).headDim(1).scale(value).build();
    EXPECT_NE(errorsOf(result).find("does not fit in i32"), std::string::npos)
        << value;
  }
  EXPECT_FALSE(Variant("x").heads(UINT64_MAX).headDim(1).build().ok());
}

TEST(Variant, HandMadeTreesAreChecked) {
  auto errors = [](const Ex &mask) {
    return errorsOf(Variant("x").heads(1).headDim(1).mask(mask).build());
  };
  // An index of what has no name.
  EXPECT_EQ(errors((k + 1)[0] == 1),
            "field 'mask' of 'x': only a name can be indexed\n");
  EXPECT_EQ(errors(ref("w").at({}) == 1),
            "field 'mask' of 'x': 'w' has no index | an index is written as in "
            "list[h]\n");
  EXPECT_EQ(errors(call("", {})), "field 'mask' of 'x': unknown function ''\n");
  EXPECT_EQ(errors(ref("") == 1), "field 'mask' of 'x': unknown name ''\n");
}

TEST(Variant, TooLarge) {
  const std::string tooLarge =
      "'mask' of 'x' is too large | expressions have at most 200 levels and "
      "1048576 parts\n";
  Ex deep = k;
  for (int i = 0; i < 1000000; ++i)
    deep = deep + 1;
  EXPECT_EQ(deep.expr(), nullptr);
  Variant built("x");
  built.heads(1).headDim(1);
  EXPECT_EQ(errorsOf(built.mask(deep < 3).build()), tooLarge);
  // Sharing makes an exponentially large tree of a few nodes.
  Ex wide = k;
  for (int i = 0; i < 100; ++i)
    wide = wide + wide;
  EXPECT_EQ(errorsOf(built.mask(wide < 3).build()), tooLarge);
  EXPECT_EQ(errorsOf(built.mask(causal()).let("w", wide).build()),
            "let 'w' of 'x' is too large | expressions have at most 200 levels "
            "and 1048576 parts\n");
  // The deepest that is allowed.
  Ex most = k;
  for (unsigned i = 2; i < kMaxExprDepth; ++i)
    most = most + 1;
  ParseResult result = Variant("x").heads(1).headDim(1).mask(most < 3).build();
  ASSERT_EQ(errorsOf(result), "");
  EXPECT_EQ(parseOne(print(result.specs[0])), result.specs[0]);
}

//===- tests/dsl/ParseTest.cpp - What texts mean --------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Support.h"

#include <cmath>
#include <fstream>
#include <sstream>

using namespace attn;

static std::string readCorpus(const std::string &name) {
  std::ifstream file(std::string(ATTN_CORPUS) + "/" + name);
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Parse, LanguageExamples) {
  ParseResult result = parse(readCorpus("examples.attn"));
  ASSERT_EQ(errorsOf(result), "");
  ASSERT_EQ(result.specs.size(), 6u);

  const Spec &llama = result.specs[0];
  EXPECT_EQ(llama.name, "llama3_8b");
  EXPECT_EQ(llama.heads, 32);
  EXPECT_EQ(llama.kvHeads, 8);
  EXPECT_TRUE(llama.kvMap.empty());
  EXPECT_EQ(llama.qkDim, 128);
  EXPECT_EQ(llama.valueDim, 128);
  EXPECT_EQ(llama.qType, Type::BF16);
  EXPECT_EQ(llama.kvType, Type::BF16);
  EXPECT_EQ(llama.outType, Type::BF16);
  EXPECT_EQ(llama.align, Align::BottomRight);
  EXPECT_EQ(llama.scale, nullptr);
  EXPECT_EQ(llama.score, nullptr);
  EXPECT_EQ(llama.sink, nullptr);
  EXPECT_FALSE(llama.rope);
  ASSERT_NE(llama.mask, nullptr);
  EXPECT_EQ(llama.mask->kind, ExprKind::Call);
  EXPECT_EQ(llama.mask->name, "causal");
  EXPECT_TRUE(llama.mask->args.empty());
  EXPECT_EQ(llama.mask->type, Type::Bool);

  const Spec &gemma = result.specs[1];
  EXPECT_EQ(gemma.score->type, Type::F32);
  EXPECT_EQ(print(gemma.score), "softcap(s, 50.0)");
  EXPECT_EQ(gemma.mask->op, Op::And);

  const Spec &longformer = result.specs[2];
  ASSERT_EQ(longformer.params.size(), 1u);
  EXPECT_EQ(longformer.params[0].type, Type::Tokens);
  EXPECT_TRUE(longformer.params[0].dims.empty());
  ASSERT_EQ(longformer.lets.size(), 1u);
  EXPECT_TRUE(longformer.lets[0].value->isList);
  EXPECT_EQ(longformer.lets[0].value->args.size(), 4u);
  EXPECT_EQ(longformer.kvHeads, 4);

  const Spec &custom = result.specs[3];
  ASSERT_EQ(custom.params.size(), 3u);
  EXPECT_EQ(custom.params[0].dims[0].kind, Dim::Heads);
  EXPECT_EQ(custom.params[1].dims[0].kind, Dim::Batch);
  EXPECT_EQ(custom.params[2].dims[1].kind, Dim::Tokens);
  EXPECT_EQ(custom.score->type, Type::F32);
  EXPECT_EQ(custom.findParam("doc"), &custom.params[2]);
  EXPECT_EQ(custom.findParam("dog"), nullptr);

  EXPECT_EQ(print(result.specs[4].sink), "sinks[h]");

  const Spec &deepseek = result.specs[5];
  EXPECT_EQ(deepseek.qkDim, 192);
  EXPECT_EQ(deepseek.nopeDim, 128);
  EXPECT_EQ(deepseek.ropeDim, 64);
  EXPECT_EQ(deepseek.valueDim, 128);
  EXPECT_EQ(deepseek.latent, 512);
  ASSERT_TRUE(deepseek.rope);
  EXPECT_EQ(deepseek.rope->theta, 10000);
  EXPECT_EQ(deepseek.rope->dim, 0);
  EXPECT_EQ(deepseek.rope->layout, Rope::Interleaved);
  EXPECT_EQ(deepseek.rope->scaling, Rope::None);
}

TEST(Parse, EveryFieldAtOnce) {
  Spec spec = parseOne(R"(
attention all(n: i32, w: bf16[kv_heads, 3], m: bool[batch, queries, keys]) {
  let c = 2 * 15
  kv_map = [0, 2, 1, 0]  heads = 4  kv_heads = 3
  head_dim = { qk = 24, value = c }
  type = { q = f16, kv = f8e4m3, out = f32 }
  scale = 1 / log(n)
  score = s * w[g, 2]
  mask = m[b, q, k]
  align = top_left
  sink = w[g, 0]
  rope = { theta = 5e5, dim = 16, layout = half, scaling = llama3(8, 1, 4, 8192) }
})");
  EXPECT_EQ(spec.kvMap, (std::vector<int64_t>{0, 2, 1, 0}));
  EXPECT_EQ(spec.kvHeadOf(1), 2);
  EXPECT_EQ(spec.qkDim, 24);
  EXPECT_EQ(spec.valueDim, 30);
  EXPECT_EQ(spec.qType, Type::F16);
  EXPECT_EQ(spec.kvType, Type::F8E4M3);
  EXPECT_EQ(spec.outType, Type::F32);
  EXPECT_EQ(spec.align, Align::TopLeft);
  EXPECT_EQ(spec.rope->theta, 5e5);
  EXPECT_EQ(spec.rope->dim, 16);
  EXPECT_EQ(spec.rope->scaling, Rope::Llama3);
  EXPECT_EQ(spec.rope->scalingArgs, (std::vector<double>{8, 1, 4, 8192}));
  EXPECT_EQ(spec.params[1].dims[1].constant, 3);
  // bf16 elements are f32 in expressions.
  EXPECT_EQ(spec.sink->type, Type::F32);
}

TEST(Parse, DefaultsThatFollowOthers) {
  EXPECT_EQ(parseOne(variant("type = { kv = i8 }")).qType, Type::F32);
  Spec spec = parseOne(variant("type = { q = bf16 }"));
  EXPECT_EQ(spec.kvType, Type::BF16);
  EXPECT_EQ(spec.outType, Type::BF16);
  Spec yarn = parseOne(variant("rope = { scaling = yarn(1, 4096) }"));
  EXPECT_EQ(yarn.rope->scalingArgs, (std::vector<double>{1, 4096, 32, 1, 1}));
  Spec none = parseOne(variant("rope = { scaling = none }"));
  EXPECT_EQ(none.rope->scaling, Rope::None);
  EXPECT_EQ(none.rope->theta, 10000);
}

TEST(Parse, KvHeadsNeedNotDivide) {
  Spec spec = parseOne("attention x { heads = 7 kv_heads = 3 head_dim = 1 }");
  std::vector<int64_t> map;
  for (int64_t h = 0; h < 7; ++h)
    map.push_back(spec.kvHeadOf(h));
  EXPECT_EQ(map, (std::vector<int64_t>{0, 0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(spec.mask, nullptr);
}

TEST(Parse, WhiteSpaceAndComments) {
  const char *text = "\xEF\xBB\xBF// caf\xC3\xA9 \xFF\r\nattention/**/x{heads=4"
                     "\thead_dim/* a\n * b */=8\r\nmask=k<=q}//end";
  Spec spec = parseOne(text);
  EXPECT_EQ(spec.heads, 4);
  EXPECT_EQ(spec.qkDim, 8);
  EXPECT_EQ(print(spec.mask), "k <= q");
  EXPECT_EQ(spec.where.line, 2u);
  EXPECT_EQ(spec.where.column, 14u);
  EXPECT_EQ(spec.placeOf("mask").line, 4u);
  EXPECT_EQ(spec.placeOf("mask").column, 6u);
  EXPECT_EQ(spec.placeOf("mask").length, 4u);
  // A field that is not there: the variant's name.
  EXPECT_EQ(spec.placeOf("sink").column, 14u);
}

TEST(Parse, PlacesOfParts) {
  Spec spec = parseOne("attention x { heads = 1\n"
                       "  head_dim = { qk = 2, value = 3 }\n}");
  EXPECT_EQ(spec.placeOf("head_dim.value").column, 32u);
  EXPECT_EQ(spec.placeOf("head_dim.value").length, 1u);
}

TEST(Parse, TrailingCommas) {
  Spec spec = parseOne("attention x(a: i32[batch,],) { heads = 2 "
                       "let l = [1, 2,] kv_map = [0, 1,] "
                       "head_dim = { qk = 1, value = 2, } }");
  EXPECT_EQ(spec.params.size(), 1u);
  EXPECT_EQ(spec.kvMap.size(), 2u);
}

TEST(Parse, NamesThatLookLikeOthers) {
  // Functions' names are free for parameters and lets, and so are those of
  // fields, extents and the word 'attention'.
  Spec spec = parseOne("attention attention(prefix: i32[batch], heads: i32) {"
                       " let window = 3 let attention = 2 let type = 1"
                       " heads = window head_dim = attention"
                       " mask = prefix(heads) && k < prefix[b] && "
                       "window(window, type) }");
  EXPECT_EQ(spec.name, "attention");
  EXPECT_EQ(spec.heads, 3);
  EXPECT_EQ(print(spec.mask),
            "prefix(heads) && k < prefix[b] && window(window, type)");
}

TEST(Parse, Precedence) {
  // Printing leaves out what precedence makes superfluous, and nothing else.
  const std::pair<const char *, const char *> cases[] = {
      {"(k < 1) || ((k < 2) && (k < 3))", "k < 1 || k < 2 && k < 3"},
      {"(k < 1 || k < 2) && k < 3", "(k < 1 || k < 2) && k < 3"},
      {"((k == 1) != (q < 2))", "k == 1 != q < 2"},
      {"(k == 1) == ((q == 2) == true)", "k == 1 == (q == 2 == true)"},
      {"k - (q - 1) == (k - q) - 1", "k - (q - 1) == k - q - 1"},
      {"k - q * 2 < (k - q) * 2", "k - q * 2 < (k - q) * 2"},
      {"(k * 2) / 3 % 4 == k * (2 / 3)", "k * 2 / 3 % 4 == k * (2 / 3)"},
      {"-(k + 1) < -k + 1", "-(k + 1) < -k + 1"},
      {"- - k < -(-k)", "--k < --k"},
      {"!(k < q) && !!true", "!(k < q) && !!true"},
      {"!(causal) || (!causal)", "!causal || !causal"},
      {"(k < q) ? true : ((q < k) ? false : causal)",
       "k < q ? true : q < k ? false : causal"},
      {"((k < q) ? true : false) ? causal : true",
       "(k < q ? true : false) ? causal : true"},
      {"k < q ? (k < 3 ? true : false) : true",
       "k < q ? k < 3 ? true : false : true"},
      {"1 + (k < q ? 1 : 2) < 3", "1 + (k < q ? 1 : 2) < 3"},
      {"k >= 1 && k > 2 && (k <= 3 && k != 4)",
       "k >= 1 && k > 2 && (k <= 3 && k != 4)"},
      {"min(k, (q)) < abs((-1))", "min(k, q) < abs(-1)"},
  };
  for (const auto &[text, canonical] : cases) {
    EXPECT_EQ(maskOf(text), canonical) << text;
    EXPECT_EQ(maskOf(canonical), canonical);
  }
}

TEST(Parse, LeftToRight) {
  Spec spec = parseOne(variant("score = s - 1 - 2"));
  const Expr &outer = *spec.score;
  EXPECT_EQ(outer.op, Op::Sub);
  EXPECT_EQ(outer.args[0]->op, Op::Sub);
  EXPECT_EQ(outer.args[1]->intValue, 2);
}

TEST(Parse, TypesOfExpressions) {
  Spec spec = parseOne(variant("mask = (k + 1.5 < q) == (k % 2 == 0)\n"
                               "score = k < q ? 1 : s"));
  const Expr &sum = *spec.mask->args[0]->args[0];
  EXPECT_EQ(sum.type, Type::F32);
  EXPECT_EQ(sum.args[0]->type, Type::I32); // promotion has no node
  EXPECT_EQ(spec.mask->args[1]->args[0]->type, Type::I32);
  EXPECT_EQ(spec.score->type, Type::F32);
  // An integer score is allowed; it is promoted.
  EXPECT_EQ(parseOne(variant("score = k - q")).score->type, Type::I32);
  EXPECT_EQ(parseOne(variant("score = floor(k / 2)")).score->type, Type::F32);
  EXPECT_EQ(parseOne(variant("score = max(k, 2)")).score->type, Type::I32);
  EXPECT_EQ(parseOne(variant("score = max(k, 2.0)")).score->type, Type::F32);
  // Lists: one float makes all of them floats.
  Spec list = parseOne(variant("let l = [1, 2.5, 3, 4] score = s * l[h]"));
  EXPECT_EQ(list.lets[0].value->type, Type::F32);
  EXPECT_EQ(list.score->args[1]->type, Type::F32);
  EXPECT_TRUE(list.score->args[1]->args[0]->isList);
}

TEST(Parse, RangeOfIntegers) {
  Spec spec = parseOne(variant("let low = -2147483647 - 1 let high = 2147483647"
                               " mask = k > low && k < high"));
  EXPECT_EQ(evaluateConstant(spec, spec.lets[0].value), -2147483648.0);
  EXPECT_EQ(evaluateConstant(spec, spec.lets[1].value), 2147483647.0);
}

TEST(Parse, FormsOfNumbers) {
  Spec spec = parseOne(variant("let l = [1., .5, 1e2, 1E-2, 2.5e+1, 0.0, 7]"));
  std::vector<double> values;
  for (const ExprRef &element : spec.lets[0].value->args)
    values.push_back(*evaluateConstant(spec, element));
  EXPECT_EQ(values, (std::vector<double>{1, 0.5, 100, 0.01, 25, 0, 7}));
}

TEST(Parse, FieldsMayComeBeforeTheirLets) {
  EXPECT_EQ(
      parseOne("attention x { heads = n head_dim = 8 let n = 3 * 2 }").heads,
      6);
}

TEST(Parse, EmptyAndOthers) {
  for (const char *text : {"", " \n", "// nothing", "/* */"})
    EXPECT_NE(errorsOf(text).find("the text has no 'attention'"),
              std::string::npos)
        << text;
  EXPECT_EQ(parse("attention x { heads = 1 head_dim = 1 }"
                  "attention y { heads = 1 head_dim = 1 }")
                .specs.size(),
            2u);
}

TEST(Parse, EvaluateConstant) {
  Spec spec = parseOne(
      variant("let n = 7 let f = 0.5 let l = [1, 2, 4] let m = n * l[2] "
              "score = s * f mask = k < n / 2 || q < m % n + l[h / 2]"));
  auto value = [&](const char *expr) {
    Spec one = parseOne(variant("let n = 7 let f = 0.5 let l = [1, 2, 4] "
                                "let x = " +
                                std::string(expr)));
    return evaluateConstant(one, one.findLet("x")->value);
  };
  EXPECT_EQ(value("n / 2"), 3);
  EXPECT_EQ(value("-n / 2"), -3);
  EXPECT_EQ(value("-n % 4"), -3);
  EXPECT_EQ(value("n / 2.0"), 3.5);
  EXPECT_EQ(value("n * f - l[1]"), 1.5);
  EXPECT_EQ(value("n < 8 && !(f > 1)"), 1);
  EXPECT_EQ(value("n == 7 ? 2 : 3.5"), 2);
  EXPECT_EQ(value("abs(-n) + min(1, 2) + max(1.5, 1)"), 9.5);
  EXPECT_EQ(value("floor(-f) + sqrt(n + 9) + exp(0) + exp2(3)"), 12);
  EXPECT_EQ(value("log(1) + log2(8) + tanh(0) + sigmoid(0)"), 3.5);
  EXPECT_EQ(value("softcap(0, 30)"), 0);
  EXPECT_EQ(value("true || 1 / (n - 7) == 1"), 1);
  EXPECT_EQ(value("1 / 0.0"), HUGE_VAL);
  EXPECT_EQ(value("-1 / 0.0"), -HUGE_VAL);

  EXPECT_EQ(evaluateConstant(spec, spec.mask), std::nullopt);
  EXPECT_EQ(evaluateConstant(spec, spec.score), std::nullopt);
  EXPECT_EQ(evaluateConstant(spec, spec.findLet("l")->value), std::nullopt);
  EXPECT_EQ(evaluateConstant(spec, nullptr), std::nullopt);
  EXPECT_EQ(evaluateConstant(spec, spec.findLet("m")->value), 28);
  // n / 2, within the mask.
  EXPECT_EQ(evaluateConstant(spec, spec.mask->args[0]->args[1]), 3);

  // What the checker refuses in a text, a hand-made tree may hold.
  auto literal = [](int64_t value) {
    auto expr = std::make_shared<Expr>();
    expr->intValue = value;
    return expr;
  };
  auto divide = std::make_shared<Expr>();
  divide->kind = ExprKind::Binary;
  divide->op = Op::Div;
  divide->args = {literal(1), literal(0)};
  EXPECT_EQ(evaluateConstant(spec, divide), std::nullopt);
  divide->op = Op::Add;
  divide->args = {literal(INT32_MAX), literal(1)};
  EXPECT_EQ(evaluateConstant(spec, divide), std::nullopt);
}

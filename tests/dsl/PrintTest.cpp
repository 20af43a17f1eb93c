//===- tests/dsl/PrintTest.cpp - Canonical texts and diagnostics ----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Support.h"

#include <cmath>

using namespace attn;

TEST(Print, Canonical) {
  const std::string text =
      R"(attention all(n: i32, w: bf16[kv_heads, 3], t: tokens) {
  let c = [1.0, 0.1, -2.5]
  heads = 4
  kv_heads = 3
  kv_map = [0, 2, 1, 0]
  head_dim = { qk = 24, value = 30 }
  type = { q = f16, kv = i8, out = f32 }
  rope = { theta = 500000.0, dim = 16, layout = half, scaling = linear(4.0) }
  scale = 1 / log(n)
  score = s * w[g, 2]
  mask = global(t) || causal && window(3)
  sink = w[g, 0] * c[1]
  align = top_left
}
)";
  EXPECT_EQ(print(parseOne(text)), text);
}

TEST(Print, Latent) {
  const std::string text = R"(attention mla {
  heads = 128
  kv_heads = 128
  head_dim = { nope = 128, rope = 64, value = 128 }
  latent = 512
  type = f32
  rope = { theta = 10000.0, layout = interleaved }
}
)";
  EXPECT_EQ(print(parseOne(text)), text);
}

TEST(Print, FloatsStayFloats) {
  for (const char *text : {"1.0", "0.1", "1e+20", "1e-07", "3.4028234e+38",
                           "123456.0", "0.0", "1e-320", "16777217.0"}) {
    Spec spec = parseOne(variant(std::string("score = s * ") + text));
    EXPECT_EQ(print(spec.score), std::string("s * ") + text);
    EXPECT_EQ(parseOne(print(spec)), spec);
  }
}

TEST(Print, NamesOfTypes) {
  const std::pair<Type, const char *> types[] = {
      {Type::Bool, "bool"},     {Type::I32, "i32"},      {Type::F32, "f32"},
      {Type::F16, "f16"},       {Type::BF16, "bf16"},    {Type::I8, "i8"},
      {Type::F8E4M3, "f8e4m3"}, {Type::Tokens, "tokens"}};
  for (const auto &[type, text] : types)
    EXPECT_STREQ(name(type), text);
}

TEST(Equality, SeesEveryPart) {
  const std::string params = "a: i32, w: f32[heads]";
  const std::string body = "let c = 2\nmask = k < c\nscore = s + w[h]\n"
                           "rope = { theta = 10.0 }\n";
  const Spec base = parseOne(variant(body, params));
  EXPECT_EQ(base, base);
  EXPECT_EQ(base, parseOne("\n\n" + variant(body, params)));
  auto differs = [&](const std::string &text) {
    EXPECT_NE(base, parseOne(text)) << text;
  };
  differs(variant(body, "w: f32[heads], a: i32"));
  differs(variant(body, "a: f32, w: f32[heads]"));
  differs(variant(body, "a: i32, w: f32[4]"));
  differs(variant(body + "let d = 2", params));
  differs(variant(body + "scale = 1", params));
  differs(variant(body + "sink = 1", params));
  differs(variant(body + "align = top_left", params));
  differs(variant(body + "kv_heads = 2", params));
  differs(variant(body + "kv_map = [0, 1, 2, 3]", params));
  differs(variant(body + "type = f16", params));
  differs(variant(body + "type = { kv = f16 }", params));
  differs(variant(body + "type = { out = f16 }", params));
  auto replaced = [&](const char *from, const char *to) {
    std::string text = variant(body, params);
    text.replace(text.find(from), std::string(from).size(), to);
    differs(text);
  };
  replaced("attention x", "attention y");
  replaced("heads = 4", "heads = 5");
  replaced("head_dim = 8", "head_dim = 10");
  replaced("head_dim = 8", "head_dim = { qk = 8, value = 9 }");
  replaced("k < c", "k <= c");
  replaced("k < c", "k < 2");
  replaced("let c = 2", "let c = 2.0");
  replaced("s + w[h]", "s + w[3]");
  replaced("theta = 10.0", "theta = 11.0");
  replaced("theta = 10.0", "dim = 8, theta = 10.0");
  replaced("theta = 10.0", "theta = 10.0, layout = interleaved");
  replaced("theta = 10.0", "theta = 10.0, scaling = linear(2)");
  replaced("rope = { theta = 10.0 }", "");
}

TEST(Equality, NaNLiteralsEqualEachOther) {
  auto nan = [] {
    auto expr = std::make_shared<Expr>();
    expr->kind = ExprKind::Float;
    expr->type = Type::F32;
    expr->floatValue = std::nan("");
    return expr;
  };
  EXPECT_TRUE(equal(nan(), nan()));
  EXPECT_TRUE(equal(nullptr, nullptr));
  EXPECT_FALSE(equal(nan(), nullptr));
}

static std::string rendered(const std::string &text) {
  std::string out;
  for (const Diagnostic &d : parse(text).diagnostics)
    out += render(d, "f.attn", text);
  return out;
}

TEST(Render, Golden) {
  EXPECT_EQ(rendered("attention x {\n"
                     "  haeds = 32\n"
                     "\thead_dim = 0 // caf\xC3\xA9\n"
                     "  mask = cuasal &&\r\n"
                     "         sliding(0)\n"
                     "}\n"),
            R"(f.attn:1:11: error: 'x' has no 'heads'
    1 | attention x {
      |           ^
  hint: 'heads' is required
f.attn:2:3: error: unknown field 'haeds'
    2 |   haeds = 32
      |   ^~~~~
  hint: did you mean 'heads'?
f.attn:3:13: error: 'head_dim' is 0
    3 |     head_dim = 0 // café
      |                ^
  hint: it must be at least 1
f.attn:4:10: error: unknown name 'cuasal'
    4 |   mask = cuasal &&
      |          ^~~~~~
  hint: did you mean 'causal'?
f.attn:5:18: error: 'n' of sliding(n) is 0
    5 |          sliding(0)
      |                  ^
  hint: it must be at least 1
)");
}

TEST(Render, CaretAfterOtherBytes) {
  // Two bytes of one letter take one column; a stray byte shows as '?'.
  EXPECT_EQ(rendered("attention x { /* \xC3\xA9\xFF\x01 */ heads 3 }"),
            R"(f.attn:1:11: error: 'x' has no 'head_dim'
    1 | attention x { /* é?? */ heads 3 }
      |           ^
  hint: 'head_dim' is required
f.attn:1:32: error: expected '=' after 'heads', found '3'
    1 | attention x { /* é?? */ heads 3 }
      |                               ^
)");
}

TEST(Render, EndOfText) {
  EXPECT_EQ(rendered("attention x {\n  heads ="),
            R"(f.attn:1:13: error: the '{' of 'x' has no '}'
    1 | attention x {
      |             ^
f.attn:2:10: error: expected a value, found the end of the text
    2 |   heads =
      |          ^
)");
}

TEST(Render, LongLinesAreCut) {
  const std::string filler(5000, ' ');
  std::string text =
      "attention x {" + filler + "heads = 0" + filler + "head_dim = 1 }";
  std::string out = rendered(text);
  ASSERT_NE(out.find("    1 | ..."), std::string::npos) << out;
  // Each line stays short, and the caret is below the zero.
  std::vector<std::string> lines;
  for (size_t at = 0; at < out.size();) {
    size_t end = out.find('\n', at);
    lines.push_back(out.substr(at, end - at));
    at = end + 1;
  }
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[1].find("heads = 0") + 8, lines[2].find('^'));
  EXPECT_EQ(lines[1].substr(lines[1].size() - 3), "...");
  for (const std::string &line : lines)
    EXPECT_LT(line.size(), 130u);
  // A range of thousands of bytes does not draw thousands of '~'.
  std::string wide =
      "attention x { heads = 1 head_dim = 1 mask = " + std::string(5000, 'z') +
      " }";
  EXPECT_LT(rendered(wide).size(), 500u);
}

TEST(Render, WithoutAPlace) {
  Diagnostic diagnostic{{}, "'heads' is 0", "it must be at least 1"};
  EXPECT_EQ(render(diagnostic, "built", ""),
            "built: error: 'heads' is 0\n  hint: it must be at least 1\n");
  Diagnostic beyond{{9, 9, 9}, "m", ""};
  EXPECT_EQ(render(beyond, "f", "one line"),
            "f:9:9: error: m\n    9 | \n      | ^\n");
}

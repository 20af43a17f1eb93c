//===- tests/dsl/LimitsTest.cpp - Deep, long and hostile texts ------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Support.h"

#include <thread>

using namespace attn;

static std::string repeat(const std::string &part, size_t count) {
  std::string out;
  out.reserve(part.size() * count);
  for (size_t i = 0; i < count; ++i)
    out += part;
  return out;
}

constexpr size_t kMegabyte = size_t(1) << 20;

TEST(Limits, DepthIsExact) {
  auto chain = [](unsigned depth) { // of `score`, counted in nodes
    return variant("score = s" + repeat(" + 1", depth - 1));
  };
  Spec spec = parseOne(chain(kMaxExprDepth));
  EXPECT_EQ(parseOne(print(spec)), spec);
  EXPECT_NE(errorsOf(chain(kMaxExprDepth + 1)).find("too deep"),
            std::string::npos);
}

TEST(Limits, EveryShapeOfTheDeepestTreePrintsAndParses) {
  const unsigned n = kMaxExprDepth - 1; // levels above the innermost
  const std::string shapes[] = {
      repeat("k - (", n - 2) + "k" + repeat(")", n - 2) + " < 1",
      repeat("-(k - ", (n - 1) / 2) + "k" + repeat(")", (n - 1) / 2) + " < 1",
      repeat("!", n) + "true",
      repeat("-", n - 1) + "k < 1",
      repeat("abs(", n - 1) + "k" + repeat(")", n - 1) + " < 1",
      repeat("w[", n - 1) + "0" + repeat("]", n - 1) + " < 1",
      repeat("true ? ", n) + "true" + repeat(" : true", n),
      repeat("true ? true : ", n) + "true",
      repeat("(", n) + "true" + repeat(" ? true : true)", n),
      repeat("(true || true && ", n / 2) + "true" + repeat(")", n / 2),
  };
  for (const std::string &mask : shapes) {
    Spec spec = parseOne(variant("mask = " + mask, "w: i32[batch]"));
    EXPECT_EQ(parseOne(print(spec)), spec);
  }
}

TEST(Limits, DeepTextsAreErrors) {
  // Each nests a hundred thousand times; on a small stack, as a thread's.
  const size_t n = 100000;
  const std::string values[] = {
      repeat("(", n),
      repeat("(", n) + "1" + repeat(")", n),
      repeat("-", n) + "1",
      repeat("!", n) + "true",
      repeat("[", n),
      repeat("f(", n),
      repeat("k[", n),
      "1" + repeat(" + 1", n),
      repeat("1 - (", n),
      repeat("true ? ", n) + "1",
      repeat("true ? 1 : ", n),
      "true" + repeat(" ? true", n),
      repeat("a || b && c == d < e + f * (", n),
      repeat("-k - -(", n),
      repeat("min(k, -", n),
  };
  for (const std::string &value : values) {
    size_t errors = 0;
    std::thread reader([&] {
      for (const char *field : {"mask = ", "let l = ", "rope = { dim = "})
        errors += parse(variant(field + value)).diagnostics.size();
      errors +=
          parse(variant("let l = 1"), {{{"l", value}}}).diagnostics.size();
    });
    reader.join();
    EXPECT_GE(errors, 4u);
    EXPECT_LE(errors, 4 * 101u);
  }
}

TEST(Limits, AMegabyteOfEachShape) {
  // What takes more than linear time for one of these does not end.
  const std::string item = "let a = 1\n";
  struct {
    std::string text;
    bool good;
  } const cases[] = {
      {variant("let l = [" + repeat("1, ", kMegabyte / 3) + "]"), true},
      {variant("// " + std::string(kMegabyte, 'x')), true},
      {variant("/*" + repeat("/* ", kMegabyte / 3) + "*/"), true},
      {variant(std::string(kMegabyte, '\n')), true},
      {variant(repeat(item, kMegabyte / item.size())), false},
      {variant("mask = " + std::string(kMegabyte, 'x') + " < 1"), false},
      {variant("scale = 0." + std::string(kMegabyte, '1')), true},
      {variant("scale = " + std::string(kMegabyte, '1')), false},
      {std::string(kMegabyte, '\x80'), false},
      {std::string(kMegabyte, '\0'), false},
      {repeat("\x80 ", kMegabyte / 2), false},
      {repeat("attention ", kMegabyte / 10), false},
      {repeat("attention x {", kMegabyte / 13), false},
      {repeat("attention x(", kMegabyte / 12), false},
      {variant(repeat("heads = 4 ", kMegabyte / 10)), false},
      {variant(repeat("zzz = 4 ", kMegabyte / 8)), false},
      {variant("rope = {" + repeat("dim = 4, ", kMegabyte / 9) + "}"), false},
      {variant("mask = causal" + repeat(" && (k < 1", kMegabyte / 10)), false},
      {variant(repeat("mask = (", kMegabyte / 8)), false},
      {repeat("}", kMegabyte), false},
      {repeat("/* ", kMegabyte / 3), false},
  };
  for (const auto &one : cases) {
    ParseResult result = parse(one.text);
    EXPECT_EQ(result.ok(), one.good) << one.text.substr(0, 60);
    EXPECT_LE(result.diagnostics.size(), 101u);
    for (const Spec &spec : result.specs)
      EXPECT_EQ(parse(print(spec)).specs.at(0), spec);
    for (const Diagnostic &d : result.diagnostics)
      EXPECT_LT(render(d, "f", one.text).size(), 1500u);
  }
}

TEST(Limits, ManyNames) {
  // Each let uses the one before it: deep only if followed by recursion, and
  // exponential only if expanded.
  std::string lets = "let a0 = 1\n";
  const size_t count = 30000;
  for (size_t i = 1; i < count; ++i)
    lets += "let a" + std::to_string(i) + " = (a" + std::to_string(i - 1) +
            " + a" + std::to_string(i - 1) + ") % 1000003\n";
  Spec spec = parseOne(variant(lets));
  ASSERT_EQ(spec.lets.size(), count);
  int64_t expected = 1;
  for (size_t i = 1; i < count; ++i)
    expected = 2 * expected % 1000003;
  EXPECT_EQ(evaluateConstant(spec, spec.lets.back().value), expected);

  std::string params, variants;
  for (size_t i = 0; i < count; ++i) {
    params += "p" + std::to_string(i) + ": i32[batch, 3], ";
    variants += "attention v" + std::to_string(i) +
                "(n: i32) { heads = 8 head_dim = 64 mask = sliding(n) }\n";
  }
  EXPECT_EQ(parseOne(variant("", params)).params.size(), count);
  ParseResult many = parse(variants, {{{"n", "4"}}});
  ASSERT_TRUE(many.ok());
  EXPECT_EQ(many.specs.size(), count);
  // Misspelt names are compared with a bounded number of others.
  std::string wrong = lets;
  for (size_t i = 0; i < 1000; ++i)
    wrong += "let b" + std::to_string(i) + " = bbbb" + std::to_string(i) + "\n";
  ParseResult errors = parse(variant(wrong));
  EXPECT_EQ(errors.diagnostics.size(), 101u);
  EXPECT_EQ(errors.diagnostics.back().message,
            "too many errors; reading stopped after 100");
}

TEST(Limits, TryingEveryHeadIsBounded) {
  // Two thousand million heads, and many variants that ask about each.
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += "attention v" + std::to_string(i) +
            " { heads = 2147483647 head_dim = 1 "
            "mask = window(1, 1, h % 7 + 1) && k < alibi_slope(h) }\n";
  EXPECT_EQ(parse(text).specs.size(), 1000u);
}

TEST(Limits, LargeTexts) {
  std::string text = variant("");
  text += std::string((size_t(16) << 20) - text.size(), ' ');
  EXPECT_TRUE(parse(text).ok());
  text += ' ';
  EXPECT_EQ(errorsOf(text), "1:1+0: the text has 16777217 bytes | at most "
                            "16777216 are read\n");
}

TEST(Limits, ThreadsShareNothing) {
  const std::string text = variant("mask = causal && slidin(3) && zz < 1");
  const std::string expected = errorsOf(text);
  std::vector<std::thread> threads;
  std::vector<std::string> found(8);
  for (size_t i = 0; i < found.size(); ++i)
    threads.emplace_back([&, i] {
      for (int j = 0; j < 50; ++j)
        found[i] = errorsOf(text);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &errors : found)
    EXPECT_EQ(errors, expected);
}

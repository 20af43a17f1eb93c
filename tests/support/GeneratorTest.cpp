//===- tests/support/GeneratorTest.cpp - Random cases reach everything ----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/oracle/Expression.h"
#include "tests/support/Generate.h"
#include "tests/support/Parameters.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <map>

namespace attn::test {
namespace {

TEST(Generators, EqualSeedsGiveEqualCases) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Choices a(seed), b(seed);
    EXPECT_EQ(describe(randomVariantCase(a, Features::level1(), "x")),
              describe(randomVariantCase(b, Features::level1(), "x")));
  }
}

TEST(Generators, ZerosGiveTheSimplestCase) {
  Choices zeros(std::vector<uint32_t>{});
  Case c = randomVariantCase(zeros, Features::level1(), "simple");
  EXPECT_EQ(c.spec.heads, 1);
  EXPECT_EQ(c.spec.qkDim, 1);
  EXPECT_EQ(c.batch, 1);
  EXPECT_EQ(c.qLen, 1);
  EXPECT_EQ(c.kvLen, 1);
  EXPECT_EQ(c.spec.mask, nullptr);
  EXPECT_FALSE(c.lse);
}

TEST(Generators, TextsPrintAndParseBack) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Choices choices(seed);
    Spec spec = randomVariantCase(choices, Features::level1(), "x").spec;
    EXPECT_TRUE(parseOne(print(spec)) == spec) << print(spec);
  }
}

bool mentions(const ExprRef &expr, const std::string &name) {
  if (!expr)
    return false;
  if (expr->name == name)
    return true;
  for (const ExprRef &arg : expr->args)
    if (mentions(arg, name))
      return true;
  return false;
}

bool anyLayout(const Case &c, const std::function<bool(const Layout &)> &is) {
  return is(c.q) || is(c.k) || is(c.v) || is(c.o);
}

TEST(Generators, ReachEverything) {
  constexpr int kCases = 600;
  std::map<std::string, int> seen;
  for (int n = 0; n < kCases; ++n) {
    Choices choices(static_cast<uint64_t>(n) + 77);
    Case c = randomVariantCase(choices, Features::level1(), "x");
    const Spec &s = c.spec;
    const auto count = [&](const char *name, bool is) {
      seen[name] += is ? 1 : 0;
    };
    count("equal heads", s.heads == s.kvHeads);
    count("grouped heads", s.kvHeads < s.heads && s.heads % s.kvHeads == 0);
    count("heads that do not divide", s.heads % s.kvHeads != 0);
    count("kv_map", !s.kvMap.empty());
    count("qk wider than value", s.qkDim > s.valueDim);
    count("value wider than qk", s.qkDim < s.valueDim);
    count("width over 128", s.qkDim > 128);
    count("width 1", s.qkDim == 1);
    count("scale", s.scale != nullptr);
    count("top_left", s.align == Align::TopLeft);
    count("no mask", !s.mask);
    count("causal", mentions(s.mask, "causal"));
    count("window", mentions(s.mask, "window"));
    count("sliding", mentions(s.mask, "sliding"));
    count("comparisons", mentions(s.mask, "k") || mentions(s.mask, "q"));
    count("empty batch", c.batch == 0);
    count("no queries", c.qLen == 0);
    count("no keys", c.kvLen == 0);
    count("decode", c.qLen == 1 && c.kvLen > 16);
    count("more queries than keys", c.qLen > c.kvLen);
    count("square", c.qLen == c.kvLen && c.qLen > 16);
    count("long", c.qLen > 100 && c.kvLen > 100);
    count("q_lens", !c.qLens.empty());
    count("kv_lens", !c.kvLens.empty());
    count("no LSE", !c.lse);
    count("contiguous",
          c.q.gap == std::array<int64_t, 4>{} && !c.q.reversed[3]);
    count("gaps", anyLayout(c, [](auto &l) { return l.gap[2] != 0; }));
    count("negative stride",
          anyLayout(c, [](auto &l) { return l.reversed[2]; }));
    count("zero stride", anyLayout(c, [](auto &l) { return l.broadcast[1]; }));
    count("columns not adjacent",
          anyLayout(c, [](auto &l) { return l.order[3] != 3; }));
    count("heads inside tokens",
          anyLayout(c, [](auto &l) { return l.order[1] == 2; }));
    count("odd base", anyLayout(c, [](auto &l) { return l.before % 16 != 0; }));
    count("ends at a page",
          anyLayout(c, [](auto &l) { return l.placement == Placement::End; }));
    count("output strided", c.o.gap[3] != 0 || c.o.step != 1);
    EXPECT_FALSE(c.o.broadcast[0] || c.o.broadcast[1] || c.o.broadcast[2] ||
                 c.o.broadcast[3]);

    oracle::Output output;
    CallBuffers buffers(c);
    ASSERT_EQ(oracle::evaluate(s, buffers.call(), {}, output), "");
    bool empty = false, full = false, partial = false;
    for (size_t row = 0; row < output.keys.size(); ++row) {
      if (output.inside[row] == 0)
        continue;
      empty |= output.keys[row] == 0;
      full |= output.keys[row] == c.kvLen;
      partial |= output.keys[row] > 0 && output.keys[row] < c.kvLen;
    }
    count("rows without keys", empty);
    count("rows with all keys", full);
    count("rows with some keys", partial);
  }
  for (const auto &[name, times] : seen) {
    std::printf("%4d of %d: %s\n", times, kCases, name.c_str());
    EXPECT_GE(times, kCases / 100) << name;
  }
}

/// A score in f32 stays within what rule 7 tolerates of the one in double, and
/// a small error of `s` stays small.
void expectTameScores(const Features &features) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Choices choices(seed);
    Case c = randomVariantCase(choices, features, "x");
    const Spec &spec = c.spec;
    if (!spec.score || c.batch == 0 || c.kvLen == 0)
      continue;
    const oracle::Params params = c.oracleParams();
    std::string error;
    oracle::Expression f32(spec, params, spec.score, oracle::Precision::F32,
                           error);
    oracle::Expression f64(spec, params, spec.score, oracle::Precision::F64,
                           error);
    ASSERT_EQ(error, "") << print(spec);
    for (int n = 0; n < 200; ++n) {
      oracle::Point at;
      at.h = choices.between(0, spec.heads - 1);
      at.g = spec.kvHeadOf(at.h);
      at.b = choices.between(0, c.batch - 1);
      at.qLen = at.kvLen = 200;
      at.q = choices.between(-200, 199);
      at.k = choices.between(0, 199);
      at.s = static_cast<double>(choices.between(-64000, 64000)) / 1000;
      double exact = f64.at(at, error).asReal();
      double rounded = f32.at(at, error).asReal();
      // Twice as much as `s` at most.
      at.s *= 1 + 1e-9;
      double moved = f64.at(at, error).asReal();
      ASSERT_EQ(error, "");
      if (std::fabs(exact) > 1e20) {
        // All that is left of it is what was added.
        ASSERT_EQ(rounded, exact) << print(spec);
        ASSERT_EQ(moved, exact) << print(spec);
        continue;
      }
      ASSERT_LE(std::fabs(exact), 300) << print(spec);
      ASSERT_NEAR(rounded, exact, 1.6e-5) << print(spec);
      ASSERT_NEAR(moved, exact, 64e-9 * 2.1) << print(spec);
    }
  }
}

TEST(Generators, ScoresAreTame) { expectTameScores(Features::level2()); }

TEST(Generators, ScoresWithParametersAreTame) {
  expectTameScores(Features::level3());
}

TEST(Generators, Level2ReachesEverything) {
  constexpr int kCases = 600;
  std::map<std::string, int> seen;
  for (int n = 0; n < kCases; ++n) {
    Choices choices(static_cast<uint64_t>(n) + 99);
    Case c = randomVariantCase(choices, Features::level2(), "x");
    const Spec &s = c.spec;
    EXPECT_TRUE(parseOne(print(s)) == s) << print(s);
    for (const char *name :
         {"abs",         "min",   "max",    "floor", "exp",     "exp2",
          "log",         "log2",  "sqrt",   "tanh",  "sigmoid", "softcap",
          "alibi_slope", "s",     "b",      "h",     "g",       "q",
          "k",           "q_len", "kv_len", "l0"})
      seen[std::string("score: ") + name] += mentions(s.score, name) ? 1 : 0;
    for (const char *name :
         {"causal", "window", "sliding", "neighborhood", "h", "g", "l0", "l1"})
      seen[std::string("mask: ") + name] += mentions(s.mask, name) ? 1 : 0;
    oracle::Output output;
    CallBuffers buffers(c);
    ASSERT_EQ(oracle::evaluate(s, buffers.call(), {}, output), "");
  }
  for (const auto &[name, times] : seen) {
    std::printf("%4d of %d: %s\n", times, kCases, name.c_str());
    EXPECT_GE(times, kCases / 150) << name;
  }
}

/// What a parameter is declared as and what values it has.
void countParameter(
    const Case &c, size_t n,
    const std::function<void(const std::string &, bool)> &count) {
  const Param &param = c.spec.params[n];
  const Argument &argument = c.params[n];
  const std::vector<double> &values = argument.value.values;
  const std::vector<int64_t> &shape = argument.value.shape;
  const auto any = [&](const std::function<bool(double)> &is) {
    return std::any_of(values.begin(), values.end(), is);
  };
  count(std::string("type: ") + name(param.type), true);
  count("scalar", param.dims.empty());
  const char *dims[] = {"batch", "heads",  "kv_heads", "queries",
                        "keys",  "tokens", "constant"};
  for (const Dim &dim : param.dims)
    count(std::string("dimension: ") + dims[dim.kind], true);
  count("[batch, heads, queries, keys]", param.dims.size() == 4 &&
                                             param.dims[0].kind == Dim::Batch &&
                                             param.dims[1].kind == Dim::Heads &&
                                             param.dims[3].kind == Dim::Keys);
  const std::vector<int64_t> extents = c.extentsOf(n);
  bool single = false, stretched = false, empty = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    single |= shape[d] == 1 && extents[d] > 1;
    stretched |=
        shape[d] == 1 && extents[d] > 1 && argument.layout.stretched[d];
    empty |= extents[d] == 0;
    count("reversed", !argument.layout.reversed.empty() &&
                          argument.layout.reversed[d] && shape[d] > 1);
  }
  count("extent of 1", single);
  count("stride of 0", stretched);
  count("no elements", empty);
  count("gaps", argument.layout.step > 1);
  count("another element type", argument.otherType);
  if (param.type == Type::Bool)
    count("bool: nonzero bytes", any([](double v) { return v > 1; }));
  if (param.type == Type::I32) {
    count("i32: negative", any([](double v) { return v < 0; }));
    count("i32: beyond all keys",
          any([&](double v) { return v > static_cast<double>(c.kvLen); }));
    count("i32: the largest", any([](double v) { return v == 1 << 30; }));
  }
  if (param.type == Type::F32 || param.type == Type::F16) {
    count("minus infinity", any([](double v) { return std::isinf(v); }));
    count("huge", any([](double v) { return v == 1e30; }));
  }
  if (param.type != Type::Tokens)
    return;
  std::vector<double> list;
  for (int64_t e = 0; !values.empty() && e < shape[1]; ++e)
    if (values[static_cast<size_t>(e)] >= 0)
      list.push_back(values[static_cast<size_t>(e)]);
  count("tokens: padding", any([](double v) { return v < 0; }));
  count("tokens: an empty list", list.empty());
  count("tokens: no room for any", shape[1] == 0);
  count("tokens: unsorted", !std::is_sorted(list.begin(), list.end()));
  std::sort(list.begin(), list.end());
  count("tokens: repeated",
        std::adjacent_find(list.begin(), list.end()) != list.end());
  count("tokens: one list for all", shape[0] == 1 && c.batch > 1);
}

TEST(Generators, Level3ReachesEverything) {
  constexpr int kCases = 800;
  std::map<std::string, int> seen;
  for (int n = 0; n < kCases; ++n) {
    Choices choices(static_cast<uint64_t>(n) + 13);
    Features features = Features::level3();
    features.maxLength = 60;
    Case c = randomVariantCase(choices, features, "x");
    const Spec &s = c.spec;
    EXPECT_TRUE(parseOne(print(s)) == s) << print(s);
    std::map<std::string, bool> here;
    const auto count = [&](const std::string &what, bool is) {
      here[what] |= is;
    };
    for (size_t p = 0; p < s.params.size(); ++p) {
      const std::string &param = s.params[p].name;
      countParameter(c, p, count);
      for (const auto &[field, expr] :
           {std::pair<const char *, ExprRef>{"mask", s.mask},
            {"score", s.score},
            {"sink", s.sink},
            {"scale", s.scale}})
        count(std::string("a parameter in ") + field, mentions(expr, param));
      ParamUse use = parameterUses(s, nullptr)[p];
      count("use: positive", use.positive);
      count("use: document", use.document);
      count("use: added", use.added);
    }
    count("two lists", std::count_if(s.params.begin(), s.params.end(),
                                     [](const Param &param) {
                                       return param.type == Type::Tokens;
                                     }) > 1);
    count("global in a score", mentions(s.score, "global"));
    count("global in a mask", mentions(s.mask, "global"));
    count("sink", s.sink != nullptr);
    for (auto [which, type] : {std::pair<const char *, Type>{"q", s.qType},
                               {"kv", s.kvType},
                               {"out", s.outType}})
      for (Type wanted : {Type::F32, Type::F16, Type::BF16})
        count(std::string(which) + " of " + name(wanted), type == wanted);
    count("a mixture of types", s.qType != s.kvType || s.kvType != s.outType);
    oracle::Output output;
    CallBuffers buffers(c);
    ASSERT_EQ(oracle::evaluate(s, buffers.call(), c.oracleParams(), output), "")
        << describe(c);
    bool weightless = false, partial = false;
    for (size_t row = 0; row < output.keys.size(); ++row) {
      weightless |= output.weightless[row] != 0 && output.keys[row] != 0;
      partial |= output.keys[row] > 0 && output.keys[row] < c.kvLen;
      EXPECT_FALSE(std::isnan(output.lse[row])) << describe(c);
    }
    count("rows of minus infinity", weightless);
    count("rows with some keys", partial);
    for (const auto &[what, is] : here)
      seen[what] += is ? 1 : 0;
  }
  for (const auto &[name, times] : seen) {
    std::printf("%4d of %d: %s\n", times, kCases, name.c_str());
    EXPECT_GE(times, kCases / 130) << name;
  }
}

TEST(Generators, RespectTheLimits) {
  Features small = Features::smallCalls();
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Choices choices(seed);
    Case c = randomVariantCase(choices, small, "x");
    EXPECT_LE(c.spec.heads, small.maxHeads);
    EXPECT_LE(c.spec.qkDim, small.maxDim);
    EXPECT_LE(c.batch, small.maxBatch);
    EXPECT_LE(c.batch * c.spec.heads * c.qLen * c.kvLen *
                  (c.spec.qkDim + c.spec.valueDim),
              small.maxWork);
  }
}

} // namespace
} // namespace attn::test

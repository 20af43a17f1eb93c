//===- tests/dsl/DefineTest.cpp - Constants fixed on the command line -----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Support.h"

using namespace attn;

static const char *kText =
    "attention x(n: i32, f: f16, m: bool, slope: f32[heads], t: tokens) {\n"
    "  heads = 2 * w head_dim = 8\n"
    "  let w = 4 let c = 50.0 let l = [1, 2] let half = w / 2\n"
    "  score = softcap(s, c) * f\n"
    "  mask = sliding(n) && m && k < l[0] + half\n"
    "}";

TEST(Define, LetsKeepTheirPlace) {
  Spec spec = parseOne(kText, {{"w", "6"}});
  EXPECT_EQ(spec.heads, 12);
  ASSERT_EQ(spec.lets.size(), 4u);
  EXPECT_EQ(spec.lets[0].name, "w");
  EXPECT_EQ(evaluateConstant(spec, spec.findLet("half")->value), 3);
  EXPECT_EQ(spec.params.size(), 5u);
}

TEST(Define, ScalarParametersBecomeLets) {
  Spec spec = parseOne(kText, {{"m", "true"}, {"n", "2 * 8"}, {"f", "-1"}});
  // In the order of the parameters, before the lets of the text.
  ASSERT_EQ(spec.lets.size(), 7u);
  EXPECT_EQ(spec.lets[0].name, "n");
  EXPECT_EQ(spec.lets[1].name, "f");
  EXPECT_EQ(spec.lets[2].name, "m");
  EXPECT_EQ(spec.lets[3].name, "w");
  ASSERT_EQ(spec.params.size(), 2u);
  EXPECT_EQ(spec.params[0].name, "slope");
  EXPECT_EQ(print(spec.lets[0].value), "2 * 8");
  EXPECT_EQ(print(spec.lets[1].value), "-1.0");
  EXPECT_EQ(spec.lets[1].value->type, Type::F32);
  EXPECT_EQ(evaluateConstant(spec, spec.lets[2].value), 1);
  EXPECT_EQ(parseOne(print(spec)), spec);
}

TEST(Define, IntegersBecomeFloatsWhereTheLetIsOne) {
  Spec spec = parseOne(kText, {{"c", "30"}});
  EXPECT_EQ(print(spec.findLet("c")->value), "30.0");
  Spec list = parseOne(variant("let l = [1.5, 2] score = s * l[0]"),
                       {{"l", "[3, -4, 5.5]"}});
  EXPECT_EQ(print(list.findLet("l")->value), "[3, -4, 5.5]");
  Spec ints = parseOne(variant("let l = [1.5, 2] score = s * l[0]"),
                       {{"l", "[3, -4, 2 * 3]"}});
  EXPECT_EQ(print(ints.findLet("l")->value), "[3.0, -4.0, 6.0]");
  EXPECT_EQ(ints.findLet("l")->value->type, Type::F32);
  for (const Spec &one : {spec, list, ints})
    EXPECT_EQ(parseOne(print(one)), one);
}

TEST(Define, Lists) {
  Spec spec = parseOne(kText, {{"l", "[7, 8, 9]"}});
  EXPECT_EQ(spec.findLet("l")->value->args.size(), 3u);
}

TEST(Define, SameAsEditingTheText) {
  std::string edited = kText;
  edited.replace(edited.find("w = 4"), 5, "w = 5");
  EXPECT_EQ(parseOne(kText, {{"w", "5"}}), parseOne(edited));
}

TEST(Define, EveryVariantThatHasTheName) {
  std::string text = "attention a { heads = w head_dim = 1 let w = 1 }"
                     "attention b(w: i32) { heads = 1 head_dim = w }"
                     "attention c { heads = 1 head_dim = 1 }";
  EXPECT_FALSE(parse(text).ok()); // head_dim = w of a parameter
  ParseResult result = parse(text, {{{"w", "3"}}});
  ASSERT_EQ(errorsOf(result), "");
  EXPECT_EQ(result.specs[0].heads, 3);
  EXPECT_EQ(result.specs[1].qkDim, 3);
}

TEST(Define, Errors) {
  const std::pair<Defines, const char *> cases[] = {
      {{{"wnidow", "3"}},
       "-D wnidow=3: no 'let' or scalar parameter is named "
       "'wnidow' | there is w, c, l, half, n, f or m"},
      {{{"hafl", "3"}},
       "-D hafl=3: no 'let' or scalar parameter is named "
       "'hafl' | did you mean 'half'?"},
      {{{"slope", "3"}},
       "-D slope=3: 'slope' of 'x' is not a scalar | a 'let' "
       "or a scalar parameter can be fixed"},
      {{{"t", "3"}},
       "-D t=3: 't' of 'x' is not a scalar | a 'let' or a scalar "
       "parameter can be fixed"},
      {{{"w", "4x"}},
       "-D w=4x: '4x' is not a number | numbers are decimal, as "
       "12, 0.5 or 1e-3"},
      {{{"w", ""}}, "-D w=: expected a value, found the end of the text"},
      {{{"w", "3 4"}}, "-D w=3 4: expected an operator or the end, found '4'"},
      {{{"w", "k"}},
       "-D w=k: 'k' is not allowed in 'w' | 'w' must be constant"},
      {{{"w", "0.5"}}, "-D w=0.5: 'w' is i32, this is f32"},
      {{{"w", "[1]"}}, "-D w=[1]: 'w' is i32, this is a list of i32"},
      {{{"l", "1"}}, "-D l=1: 'l' is a list of i32, this is i32"},
      {{{"m", "1"}}, "-D m=1: 'm' is bool, this is i32"},
      {{{"n", "1.5"}}, "-D n=1.5: 'n' is i32, this is f32"},
      {{{"n", "w"}}, "-D n=w: unknown name 'w'"},
      {{{"w", "1"}, {"w", "2"}}, "-D w=2: 'w' is given twice"},
      {{{"3w", "1"}},
       "-D 3w=1: '3w' is not a name | it is written as in -D "
       "window=4096"},
      {{{"n", "0"}}, "5:18+1: 'n' of sliding(n) is 0 | it must be at least 1"},
      {{{"w", "0"}}, "2:11+5: 'heads' is 0 | it must be at least 1"},
      {{{"w", "1/0"}},
       "-D w=1/0: this divides by zero | the divisor of "
       "integers must not be 0"},
  };
  for (const auto &[defines, errors] : cases)
    EXPECT_EQ(errorsOf(kText, defines), errors + std::string("\n"));
}

TEST(Define, DeadBranchesAreNotJudged) {
  std::string text = variant("let d = 2 score = s * (d == 0 ? 0 : 8 / d)\n"
                             "mask = d == 0 || window(2, 2, d)");
  EXPECT_EQ(parseOne(text, {{"d", "0"}}).lets.size(), 1u);
  std::string bare = variant("let d = 2 score = s * (8 / d)");
  EXPECT_FALSE(parse(bare, {{{"d", "0"}}}).ok());
}

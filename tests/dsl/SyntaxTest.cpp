//===- tests/dsl/SyntaxTest.cpp - Errors of form, and how reading goes on -===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Support.h"

#include <cstring>

using namespace attn;

static void
check(std::initializer_list<std::pair<const char *, const char *>> cases) {
  for (const auto &[text, errors] : cases)
    EXPECT_EQ(errorsOf(std::string(text)), errors + std::string("\n")) << text;
}

static void
checkMasks(std::initializer_list<std::pair<const char *, const char *>> cases) {
  for (const auto &[mask, errors] : cases)
    EXPECT_EQ(errorsOf(variant(std::string("mask = ") + mask)),
              errors + std::string("\n"))
        << mask;
}

TEST(Syntax, Bytes) {
  checkMasks({
      {"k < 3 & q < 3",
       "2:14+1: unexpected character '&' | did you mean '&&'?"},
      {"k < 3 | q < 3",
       "2:14+1: unexpected character '|' | did you mean '||'?"},
      {"causal ;",
       "2:15+1: unexpected character ';' | fields are separated by white "
       "space"},
      {"causal # c",
       "2:15+1: unexpected character '#' | comments start with '//'"},
      {"\"causal\\n\"", "2:8+1: unexpected character '\"'\n"
                        "2:15+1: unexpected character '\\'\n"
                        "2:17+1: unexpected character '\"'"},
      {"k < \xC3\xA9\xC3\xA9 + \x01",
       "2:12+4: byte 0xC3 is not part of the language | texts are ASCII; "
       "comments may hold anything\n"
       "2:19+1: byte 0x01 is not part of the language | texts are ASCII; "
       "comments may hold anything"},
      {"causal /* no end", "1:13+1: the '{' of 'x' has no '}'\n"
                           "2:15+2: this comment has no end | '*/' ends it"},
  });
  std::string zero = "attention x { heads = 1 ";
  zero += '\0';
  zero += "head_dim = 1 }";
  EXPECT_EQ(errorsOf(zero), "1:25+1: byte 0x00 is not part of the language | "
                            "texts are ASCII; comments may hold anything\n");
}

TEST(Syntax, Numbers) {
  const std::string hint = " | numbers are decimal, as 12, 0.5 or 1e-3\n";
  for (const char *number :
       {"0x10", "1.5f", "1..2", "1e", "1e+", "12ab", "1.2.3", "0b1", "1_000"})
    EXPECT_EQ(errorsOf(variant("scale = " + std::string(number))),
              "2:9+" + std::to_string(strlen(number)) + ": '" + number +
                  "' is not a number" + hint);
  checkMasks({
      {"k < 010", "2:12+3: number '010' starts with a zero | numbers are "
                  "decimal"},
      {"k < 2147483648",
       "2:12+10: integer '2147483648' does not fit in i32 | the largest is "
       "2147483647; a float is written with a '.'"},
      {"k < 99999999999999999999999",
       "2:12+23: integer '99999999999999999999999' does not fit in i32 | the "
       "largest is 2147483647; a float is written with a '.'"},
      {"k < 1e39", "2:12+4: number '1e39' does not fit in f32 | the largest is "
                   "3.4028234e38"},
      {"k < 1e999", "2:12+5: number '1e999' does not fit in f32 | the largest "
                    "is 3.4028234e38"},
      // These are names.
      {"k < inf", "2:12+3: unknown name 'inf'"},
      {"k < nan", "2:12+3: unknown name 'nan'"},
  });
}

TEST(Syntax, Expressions) {
  checkMasks({
      {"", "3:1+1: expected a value, found '}'"},
      {"k <", "3:1+1: expected a value, found '}'"},
      {"(k < 3", "3:1+1: expected ')', found '}'"},
      {"k < 3)", "2:13+1: expected a field or '}', found ')'"},
      {"causal ? true", "3:1+1: expected ':' of '?:', found '}'"},
      {"window(1 2)", "2:17+1: expected ',' or ')', found '2'"},
      {"window(,1)", "2:15+1: expected a value, found ','"},
      {"a[] < 1", "2:8+3: 'a' has no index | an index is written as in "
                  "list[h]"},
      {"a[1][2] < 1", "2:12+1: only a name can be indexed | several indices "
                      "are written as in doc[b, q]"},
      {"(k)[1] < 1", "2:11+1: only a name can be indexed | several indices "
                     "are written as in doc[b, q]"},
      {"sliding(1)(2)", "2:18+1: only a name can be called"},
      {"k = q", "2:8+1: 'mask' must be bool, this is i32 | a mask says which "
                "keys are allowed, as in k <= q\n"
                "2:10+1: expected a field or '}', found '=' | to compare, "
                "write '=='"},
      {"causal and sliding(2)", "2:19+7: expected '=' after 'and', found "
                                "'sliding' | did you mean '&&'?"},
      {"causal or sliding(2)", "2:18+7: expected '=' after 'or', found "
                               "'sliding' | did you mean '||'?"},
      {"causal, kv_heads = 2", "2:14+1: expected a field or '}', found ',' | "
                               "fields are separated by white space"},
  });
}

TEST(Syntax, Structure) {
  check({
      {"attention", "1:10+0: expected the variant's name, found the end of the "
                    "text"},
      {"attention {", "1:11+1: expected the variant's name, found '{'"},
      {"attention x", "1:12+0: expected '{', found the end of the text"},
      {"attention x [", "1:13+1: expected '{', found '['"},
      {"attention x {", "1:13+1: the '{' of 'x' has no '}'"},
      {"attention x(", "1:13+0: expected a parameter's name, found the end of "
                       "the text"},
      {"attention x(a: i32 b: i32) { heads = 1 head_dim = 1 mask = b < k }",
       "1:20+1: expected ',' or ')', found 'b'"},
      {"attention x(a: 3) { heads = 1 head_dim = 1 }",
       "1:16+1: expected a type, found '3' | allowed: i32, f32, f16, bf16, "
       "bool or tokens"},
      {"attention x { heads = kv_heads = 2 head_dim = 1 }",
       "1:23+8: expected a value, found 'kv_heads'"},
      {"attention x { heads 2 head_dim = 1 }",
       "1:21+1: expected '=' after 'heads', found '2'"},
      {"attention x { heads = 2 3 head_dim = 1 }",
       "1:25+1: expected a field or '}', found '3'"},
      {"attention x { heads = 2 head_dim = { qk = 1 value = 2 } }",
       "1:45+5: expected ',' or '}', found 'value'"},
      {"attention x { heads = 2 head_dim = { qk 1, value = 2 } }",
       "1:41+1: expected '=' after 'qk', found '1'"},
      {"attention x { heads = 2 head_dim = { 1 } }",
       "1:38+1: expected a name or '}', found '1'"},
      {"attention x { heads = 2 head_dim = 1 let = 3 }",
       "1:42+1: expected the name of the constant, found '='"},
      {"attention x { heads = 2 head_dim = 1 } }",
       "1:40+1: expected 'attention', found '}'"},
      {"heads = 3\nattention x { heads = 1 head_dim = 1 }",
       "1:1+5: expected 'attention', found 'heads'"},
  });
}

TEST(Syntax, ReadingGoesOnAfterErrors) {
  // One error for each mistake, and none that follows from another.
  EXPECT_EQ(errorsOf("attention a {\n"
                     "  heads = \n"
                     "  head_dim = (3\n"
                     "  mask = window(1, \n"
                     "  type = f61\n"
                     "  let l = [1, 2\n"
                     "  align = top\n"
                     "attention b { heads = 0 head_dim = { qk = 1, value = }\n"
                     "  mask = causl }\n"
                     "attention { }\n"
                     "attention c(x: i32, y z) { heads = 1 head_dim = 1\n"
                     "  mask = k < z + w }\n"
                     "what is this\n"
                     "attention d { heads = 1 head_dim = 1 mask = 1 }\n"),
            "1:13+1: the '{' of 'a' has no '}'\n"
            "3:3+8: expected a value, found 'head_dim'\n"
            "4:3+4: expected ')', found 'mask'\n"
            "5:3+4: expected a value, found 'type'\n"
            "5:10+3: 'type' cannot be 'f61' | did you mean 'f16'?\n"
            "7:3+5: expected ',' or ']', found 'align'\n"
            "7:11+3: 'align' cannot be 'top' | allowed: bottom_right or "
            "top_left\n"
            "8:23+1: 'heads' is 0 | it must be at least 1\n"
            "8:54+1: expected a value, found '}'\n"
            "9:10+5: unknown name 'causl' | did you mean 'causal'?\n"
            "10:11+1: expected the variant's name, found '{'\n"
            "11:23+1: expected ':' and a type, found 'z' | a parameter is "
            "written as in slope: f32[heads]\n"
            "13:1+4: expected 'attention', found 'what'\n"
            "14:45+1: 'mask' must be bool, this is i32 | a mask says which "
            "keys are allowed, as in k <= q\n");
}

TEST(Syntax, NoSpecsWithErrors) {
  ParseResult result = parse("attention a { heads = 1 head_dim = 1 }"
                             "attention b { heads = 1 head_dim = 0 }");
  EXPECT_FALSE(result.ok());
  EXPECT_TRUE(result.specs.empty());
}

TEST(Syntax, LongNamesAreShortened) {
  std::string errors =
      errorsOf(variant("mask = " + std::string(100000, 'z') + " < 1"));
  EXPECT_LT(errors.size(), 200u);
  EXPECT_NE(errors.find("zzz...'"), std::string::npos);
}

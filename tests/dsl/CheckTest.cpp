//===- tests/dsl/CheckTest.cpp - What is refused, where, and why ----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Support.h"

using namespace attn;

namespace {
struct Case {
  const char *text; ///< of the body, after one line with heads and head_dim
  const char *errors;
};
} // namespace

static void checkBodies(std::initializer_list<Case> cases,
                        const std::string &params = "",
                        const std::string &more = "") {
  for (const Case &one : cases)
    EXPECT_EQ(errorsOf(variant(one.text, params, more)),
              one.errors + std::string(*one.errors ? "\n" : ""))
        << one.text;
}

/// Whole texts.
static void checkTexts(std::initializer_list<Case> cases) {
  for (const Case &one : cases)
    EXPECT_EQ(errorsOf(one.text), one.errors + std::string("\n")) << one.text;
}

TEST(Check, Sizes) {
  checkTexts({
      {"attention x { heads = 0 head_dim = 1 }",
       "1:23+1: 'heads' is 0 | it must be at least 1"},
      {"attention x { heads = -2 head_dim = 1 }",
       "1:23+2: 'heads' is -2 | it must be at least 1"},
      {"attention x { heads = 2.0 head_dim = 1 }",
       "1:23+3: 'heads' is 2, not an integer | it must be an integer of at "
       "least 1"},
      {"attention x { heads = h head_dim = 1 }",
       "1:23+1: 'h' is not allowed in 'heads' | 'heads' must be constant"},
      {"attention x(n: i32) { heads = n head_dim = 1 }",
       "1:31+1: 'n' is a parameter, but 'heads' must be constant | constants "
       "are literals, 'let's and arithmetic"},
      {"attention x { heads = { a = 1 } head_dim = 1 }",
       "1:23+9: 'heads' is one value, without braces"},
      {"attention x { heads = 8 head_dim = 0 }",
       "1:36+1: 'head_dim' is 0 | it must be at least 1"},
      {"attention x { heads = 8 kv_heads = 0 head_dim = 1 }",
       "1:36+1: 'kv_heads' is 0 | it must be at least 1"},
      {"attention x { heads = 65536 * 65536 head_dim = 1 }",
       "1:23+13: this integer does not fit in i32 | the range is -2147483648 "
       "to 2147483647"},
      {"attention x { heads = 3000000000 head_dim = 1 }",
       "1:23+10: integer '3000000000' does not fit in i32 | the largest is "
       "2147483647; a float is written with a '.'"},
      {"attention x { let n = 4 - 4 heads = n head_dim = 1 }",
       "1:37+1: 'heads' is 0 | it must be at least 1"},
      {"attention x { heads = true head_dim = 1 }",
       "1:23+4: 'heads' is true, not an integer | it must be an integer of at "
       "least 1"},
      {"attention x { heads = [1] head_dim = 1 }",
       "1:23+3: a list stands here | a list is the value of a 'let' or of "
       "'kv_map'"},
  });
  checkTexts({
      {"attention x { heads = 1 head_dim = { qk = 1 } }",
       "1:36+10: 'head_dim' has no 'value'"},
      {"attention x { heads = 1 head_dim = { qk = 1, value = 0 } }",
       "1:54+1: 'head_dim.value' is 0 | it must be at least 1"},
      {"attention x { heads = 1 head_dim = { qk = 1, qk = 2, value = 1 } }",
       "1:46+2: 'qk' is given twice"},
      {"attention x { heads = 1 head_dim = { nope = 2, rope = 2, value = 1 } }",
       "1:36+33: 'nope' and 'rope' need 'latent' | without it, 'head_dim' is a "
       "number or { qk = ..., value = ... }"},
      {"attention x { heads = 1 latent = 4 head_dim = 3 }",
       "1:47+1: 'head_dim' is one number | with 'latent' it is { nope = ..., "
       "rope = ..., value = ... }"},
      {"attention x { heads = 1 latent = 4 head_dim = { qk = 3, value = 3 } }",
       "1:49+2: 'qk' and 'latent' exclude each other | with 'latent' it is { "
       "nope = ..., rope = ..., value = ... }"},
      {"attention x { heads = 1 latent = 4 "
       "head_dim = { nope = 2, rope = 3, value = 1 } }",
       "1:66+1: 'head_dim.rope' is 3 | a rotary width is even"},
      {"attention x { heads = 1 latent = 0 "
       "head_dim = { nope = 2, rope = 2, value = 1 } }",
       "1:34+1: 'latent' is 0 | it must be at least 1"},
      {"attention x { heads = 1 latent = 1 "
       "head_dim = { nope = 2147483647, rope = 2, value = 1 } }",
       "1:47+42: 'nope' and 'rope' add up to 2147483649 | the sum is at most "
       "2147483647"},
  });
}

TEST(Check, KvMap) {
  checkBodies({
      {"kv_map = [0, 1, 2]",
       "2:10+9: 'kv_map' has 3 elements, 'heads' is 4 | it has one element for "
       "each query head"},
      {"kv_map = [0, 1, 2, 2] kv_heads = 2",
       "2:17+1: 'kv_map' names kv head 2 | 'kv_heads' is 2, so they count from "
       "0 to 1"},
      {"kv_map = [0, -1, 2, 3]",
       "2:14+2: 'kv_map' names kv head -1 | 'kv_heads' is 4, so they count "
       "from 0 to 3"},
      {"kv_map = 3", "2:10+1: 'kv_map' must be a list | the kv head of each "
                     "query head, as in [0, 0, 1, 1]"},
      {"kv_map = [0, 1, 2, 3.0]",
       "2:10+14: 'kv_map' is a list of f32 | its elements are integers"},
      {"let m = [0, 0, 1, 4] kv_map = m",
       "2:31+1: 'kv_map' names kv head 4 | 'kv_heads' is 4, so they count from "
       "0 to 3"},
      {"let m = [0, 0, 1, 1] kv_map = m", ""},
      {"kv_map = []", "2:10+2: the list is empty | a list has an element"},
  });
}

TEST(Check, FieldsAndWords) {
  checkBodies({
      {"haeds = 4", "2:1+5: unknown field 'haeds' | did you mean 'heads'?"},
      {"zzzzzz = 4",
       "2:1+6: unknown field 'zzzzzz' | allowed: heads, kv_heads, "
       "kv_map, head_dim, type, scale, score, mask, align, sink, "
       "rope or latent"},
      {"heads = 5", "2:1+5: 'heads' is given twice | first on line 1"},
      {"type = bf61", "2:8+4: 'type' cannot be 'bf61' | did you mean 'bf16'?"},
      {"type = i8", "2:8+2: 'type' cannot be 'i8' | allowed: f32, f16 or bf16"},
      {"type = { q = f16, kv = f8e4m2 }",
       "2:24+6: 'type.kv' cannot be 'f8e4m2' | did you mean 'f8e4m3'?"},
      {"type = { out = i8 }",
       "2:16+2: 'type.out' cannot be 'i8' | allowed: f32, f16 or bf16"},
      {"type = { k = f16 }",
       "2:10+1: 'type' has no part 'k' | allowed: q, kv or out"},
      {"type = 3", "2:8+1: 'type' must be a word | allowed: f32, f16 or bf16"},
      {"align = top_lfet",
       "2:9+8: 'align' cannot be 'top_lfet' | did you mean 'top_left'?"},
      {"align = { a = 1 }", "2:9+9: 'align' is one value, without braces"},
      {"mask = { a = 1 }", "2:8+9: 'mask' is one value, without braces"},
      {"score = { a = 1 }", "2:9+9: 'score' is one value, without braces"},
      {"kv_map = { a = 1 }", "2:10+9: 'kv_map' is one value, without braces"},
  });
  checkTexts({
      {"attention x { }", "1:11+1: 'x' has no 'heads' | 'heads' is required\n"
                          "1:11+1: 'x' has no 'head_dim' | 'head_dim' is "
                          "required"},
      {"attention x { heads = 1 head_dim = 1 }\n"
       "attention x { heads = 1 head_dim = 1 }",
       "2:11+1: 'x' is declared twice | each variant of a text has its own "
       "name"},
      {"atention x { }",
       "1:1+8: expected 'attention', found 'atention' | did you mean "
       "'attention'?"},
  });
}

TEST(Check, Rope) {
  checkBodies({
      {"rope = 3", "2:8+1: 'rope' has parts | as in { theta = 10000, layout = "
                   "half }"},
      {"rope = { theta = 0 }", "2:18+1: 'rope.theta' is 0 | it must be "
                               "positive"},
      {"rope = { theta = 1 / 0.0 }",
       "2:18+7: 'rope.theta' is inf | it must be a finite number"},
      {"rope = { dim = 3 }", "2:16+1: 'rope.dim' is 3 | a rotary width is "
                             "even"},
      {"rope = { dim = 0 }", "2:16+1: 'rope.dim' is 0 | it must be at least 1"},
      {"rope = { dim = 10 }", "2:16+2: 'rope.dim' is 10 | the head is 8 wide"},
      {"rope = { dims = 8 }",
       "2:10+4: 'rope' has no part 'dims' | did you mean 'dim'?"},
      {"rope = { layout = halb }",
       "2:19+4: 'rope.layout' cannot be 'halb' | did you mean 'half'?"},
      {"rope = { scaling = yran(1, 2) }",
       "2:20+10: 'rope.scaling' cannot be 'yran' | did you mean 'yarn'?"},
      {"rope = { scaling = linear }",
       "2:20+6: 'linear' takes 1 number | linear(factor)"},
      {"rope = { scaling = linear(1, 2) }",
       "2:20+12: 'linear' takes 1 number | linear(factor)"},
      {"rope = { scaling = linear(-1) }",
       "2:27+2: 'factor' of linear is -1 | it must be positive"},
      {"rope = { scaling = yarn(4) }",
       "2:20+7: 'yarn' takes 2 to 5 numbers | yarn(factor, length, fast = 32, "
       "slow = 1, attention = 0.1 * ln(factor) + 1)"},
      {"rope = { scaling = yarn(1e-9, 4096) }",
       "2:20+16: 'attention' of yarn is -1.072326583694641 | it must be "
       "positive"},
      {"rope = { scaling = llama3(8, 4, 1) }",
       "2:20+15: 'low' of llama3 is 4, 'high' is 1 | 'low' must be below "
       "'high'"},
      {"rope = { scaling = llama3(true) }",
       "2:27+4: 'factor' of llama3 is true | it must be a finite number"},
  });
  checkTexts({
      {"attention x { heads = 1 head_dim = 7 rope = { theta = 10 } }",
       "1:45+14: 'rope' over a head of width 7 | a rotary width is even; 'dim' "
       "rotates a part of the head"},
      {"attention x { heads = 1 latent = 8 rope = { dim = 6 } "
       "head_dim = { nope = 8, rope = 4, value = 8 } }",
       "1:51+1: 'rope.dim' is 6 | the rotary part is 4 wide"},
  });
  // Part of an odd head can be rotated.
  parseOne("attention x { heads = 1 head_dim = 7 rope = { dim = 6 } }");
}

TEST(Check, Params) {
  checkTexts({
      {"attention x(a: f33) { heads = 1 head_dim = 1 }",
       "1:16+3: 'f33' is not a type of parameters | did you mean 'f32'?"},
      {"attention x(a: i8) { heads = 1 head_dim = 1 }",
       "1:16+2: 'i8' is not a type of parameters | allowed: i32, f32, f16, "
       "bf16, "
       "bool or tokens"},
      {"attention x(a: i32[0]) { heads = 1 head_dim = 1 }",
       "1:20+1: dimension 0 of 'a' is 0 | it must be at least 1"},
      {"attention x(a: i32[batch, -1]) { heads = 1 head_dim = 1 }",
       "1:27+2: dimension 1 of 'a' is -1 | it must be at least 1"},
      {"attention x(a: i32[bacth]) { heads = 1 head_dim = 1 }",
       "1:20+5: unknown dimension 'bacth' | did you mean 'batch'?"},
      {"attention x(a: i32[1.5]) { heads = 1 head_dim = 1 }",
       "1:20+3: dimension 0 of 'a' is 1.5, not an integer | it must be an "
       "integer of at least 1"},
      {"attention x(n: i32, a: i32[n]) { heads = 1 head_dim = 1 }",
       "1:28+1: 'n' is a parameter, but dimension 0 of 'a' must be constant | "
       "constants are literals, 'let's and arithmetic"},
      {"attention x(a: tokens[3]) { heads = 1 head_dim = 1 }",
       "1:16+6: 'a' of type tokens has dimensions | 'tokens' alone is a list "
       "of positions for each sequence"},
      {"attention x(a: i32[]) { heads = 1 head_dim = 1 mask = k < a[h] }",
       "1:19+2: parameter 'a' has empty brackets | a scalar parameter has no "
       "brackets"},
      {"attention x(a: i32, a: i32) { heads = 1 head_dim = 1 }",
       "1:21+1: 'a' is declared twice"},
      {"attention x(q: i32) { heads = 1 head_dim = 1 }",
       "1:13+1: 'q' is a word of the language | choose another name"},
      {"attention x(causal: i32) { heads = 1 head_dim = 1 }",
       "1:13+6: 'causal' is a word of the language | choose another name"},
      {"attention x(a) { heads = 1 head_dim = 1 }",
       "1:14+1: expected ':' and a type, found ')' | a parameter is written as "
       "in slope: f32[heads]"},
  });
  Spec spec = parseOne("attention x(a: i32[n, 2 * n]) { let n = 3 "
                       "heads = 1 head_dim = 1 mask = a[2, 5] < k }");
  EXPECT_EQ(spec.params[0].dims[1].constant, 6);
}

TEST(Check, Lets) {
  checkBodies({
      {"let a = c let c = 1", "2:9+1: unknown name 'c'"},
      {"let aa = bb let bb = aa", "2:10+2: unknown name 'bb'"},
      {"let a = a", "2:9+1: 'a' is not known yet here | a 'let' may use those "
                    "before it"},
      {"let a = 1 let a = 2", "2:15+1: 'a' is declared twice"},
      {"let h = 1", "2:5+1: 'h' is a word of the language | choose another "
                    "name"},
      {"let a = k", "2:9+1: 'k' is not allowed in 'a' | 'a' must be constant"},
      {"let a = causal",
       "2:9+6: 'causal' is not allowed in 'a' | 'a' must be constant"},
      {"let a = alibi_slope(1)",
       "2:9+14: 'alibi_slope' is not allowed in 'a' | 'a' must be constant"},
      {"let a = []", "2:9+2: the list is empty | a list has an element"},
      {"let a = [1, true]", "2:13+4: this element is bool, those before it i32 "
                            "| the elements of a list have one type"},
      {"let a = [[1]]", "2:10+3: a list stands here | a list is the value of a "
                        "'let' or of 'kv_map'"},
      {"let a = [1] let c = a", "2:21+1: 'a' is a list | index it, as in a[h]"},
      {"let a = [1] let c = a[1]",
       "2:23+1: index 1 of 'a' is out of range | it has 1 elements, counted "
       "from 0"},
      {"let a = { b = 1 }",
       "2:9+1: expected a value, found '{' | a list is written as in [1, 2, "
       "4]"},
      {"let 3 = 1", "2:5+1: expected the name of the constant, found '3'"},
      // One error for one mistake: uses of a bad let say nothing.
      {"let a = 1 / 0 mask = k < a scale = a",
       "2:9+5: this divides by zero | the divisor of integers must not be 0"},
  });
}

TEST(Check, Names) {
  checkBodies(
      {
          {"mask = cuasal",
           "2:8+6: unknown name 'cuasal' | did you mean 'causal'?"},
          {"mask = k < slpoe[h]",
           "2:12+5: unknown name 'slpoe' | did you mean 'slope'?"},
          {"mask = k < kv_lne",
           "2:12+6: unknown name 'kv_lne' | did you mean 'kv_len'?"},
          {"mask = k < zzzzzzzz", "2:12+8: unknown name 'zzzzzzzz'"},
          {"mask = slidign(3)",
           "2:8+10: unknown function 'slidign' | did you mean 'sliding'?"},
          {"score = tahn(s)",
           "2:9+7: unknown function 'tahn' | did you mean 'tanh'?"},
          {"mask = sliding",
           "2:8+7: 'sliding' is a function | write sliding(n)"},
          {"mask = k < heads", "2:12+5: 'heads' is a field, not a value | a "
                               "'let' gives a constant a name that both can "
                               "use"},
          {"mask = causal()", "2:8+8: 'causal' takes no arguments | it is "
                              "written without parentheses"},
          {"mask = slope(3)", "2:8+8: 'slope' is not a function"},
          {"mask = q(3)", "2:8+4: 'q' is not a function"},
          {"mask = s > 0", "2:8+1: 's' is not allowed in 'mask' | 'mask' may "
                           "use b, h, g, q, k, q_len or kv_len"},
          {"scale = s", "2:9+1: 's' is not allowed in 'scale' | 'scale' must "
                        "be constant"},
          {"scale = slope[0]", "2:9+5: 'slope' is of type f32 | 'scale' may "
                               "use constants and i32 parameters"},
          {"scale = 1.0 / n", ""},
          {"sink = q", "2:8+1: 'q' is not allowed in 'sink' | 'sink' may use h "
                       "or g"},
          {"sink = causal ? 1 : 2", "2:8+6: 'causal' is not allowed in 'sink' "
                                    "| 'sink' may use h or g"},
          {"sink = prefix(3) ? 1 : 2",
           "2:8+9: 'prefix' is not allowed in 'sink' | 'sink' may use h or g"},
          {"sink = slope[h] + g + alibi_slope(h)", ""},
      },
      "slope: f32[heads], n: i32");
}

TEST(Check, Types) {
  checkBodies(
      {
          {"mask = k", "2:8+1: 'mask' must be bool, this is i32 | a mask says "
                       "which keys are allowed, as in k <= q"},
          {"score = causal", "2:9+6: 'score' must be f32, this is bool"},
          {"sink = true", "2:8+4: 'sink' must be f32, this is bool"},
          {"scale = false", "2:9+5: 'scale' must be f32, this is bool"},
          {"mask = k && causal", "2:8+1: an operand of '&&' must be bool, this "
                                 "is i32 | compare it, as in x != 0"},
          {"mask = !k", "2:9+1: the operand of '!' must be bool, this is i32 | "
                        "compare it, as in x != 0"},
          {"mask = -causal < 1",
           "2:9+6: the operand of '-' must be i32 or f32, this is bool"},
          {"mask = causal + 1 < k",
           "2:8+6: an operand of '+' must be i32 or f32, this is bool | a "
           "condition becomes a number by c ? 1 : 0"},
          {"mask = 0 < k < 3", "2:8+5: an operand of '<' must be i32 or f32, "
                               "this is bool | a < b < c is written a < b && b "
                               "< c"},
          {"mask = causal == 1",
           "2:8+6: an operand of '==' must be i32 or f32, this is bool | a < b "
           "< c is written a < b && b < c"},
          {"mask = k % 2.0 == 0", "2:12+3: an operand of '%' must be i32, this "
                                  "is f32"},
          {"mask = k ? causal : true", "2:8+1: the condition of '?:' must be "
                                       "bool, this is i32 | compare it, as in "
                                       "x != 0"},
          {"mask = causal ? 1 : true",
           "2:21+4: the two values of '?:' are i32 and bool | both are bool, "
           "or both are numbers"},
          {"mask = window(1.0)", "2:15+3: 'window' takes i32, this is f32 | "
                                 "window(l, r = l, d = 1)"},
          {"score = tanh(causal)",
           "2:14+6: 'tanh' takes numbers, this is bool | tanh(x)"},
          {"score = min(s)",
           "2:9+6: 'min' takes 2 arguments, but 1 is given | min(x, y)"},
          {"mask = window()", "2:8+8: 'window' takes 1 to 3 arguments, but 0 "
                              "are given | window(l, r = l, d = 1)"},
          {"mask = l == 1", "2:8+1: 'l' has 1 dimension | index it, as in "
                            "l[h]"},
          {"mask = d[b] == 1",
           "2:8+4: 'd' has 2 dimensions, but 1 index is given"},
          {"mask = l[1, 2] == 1",
           "2:8+7: 'l' has 1 dimension, but 2 indices are given"},
          {"mask = n[0] == 1", "2:8+1: 'n' is a scalar and has no index"},
          {"mask = q[0] == 1", "2:8+1: 'q' is a number and has no index"},
          {"mask = l[1.0] == 1", "2:10+3: an index must be i32, this is f32"},
          {"mask = t", "2:8+1: 't' is of type tokens | write global(t)"},
          {"mask = global(n)", "2:15+1: 'global' takes a parameter of type "
                               "tokens, 'n' is none | it is declared as in "
                               "attention x(t: tokens)"},
          {"mask = global(3)",
           "2:15+1: 'global' takes a parameter of type tokens | it is declared "
           "as in attention x(t: tokens)"},
          {"mask = global(tt)", "2:15+2: unknown name 'tt'"},
          {"mask = neighborhood(k)", "2:21+1: the neighborhood of a query "
                                     "cannot depend on the key"},
          {"mask = neighborhood(q + 1, n)", ""},
          {"mask = m && true == m", ""},
      },
      "l: f32[heads], d: i32[batch, keys], n: i32, t: tokens, m: bool");
}

TEST(Check, Values) {
  checkBodies({
      {"mask = window(-1)", "2:15+2: 'l' of window(l, r = l, d = 1) is -1 "
                            "| it must be at least 0"},
      {"mask = window(0, 1 - 3)",
       "2:18+5: 'r' of window(l, r = l, d = 1) is -2 | it must be at least "
       "0"},
      {"mask = window(0, 0, 0)", "2:21+1: 'd' of window(l, r = l, d = 1) "
                                 "is 0 | it must be at least 1"},
      {"mask = window(0, 0, 1)", ""},
      {"let w = 0 mask = sliding(w)",
       "2:26+1: 'n' of sliding(n) is 0 | it must be at least 1"},
      {"mask = neighborhood(0)", "2:21+1: 'n' of neighborhood(n, d = 1) is "
                                 "0 | it must be at least 1"},
      {"mask = neighborhood(1, -1)",
       "2:24+2: 'd' of neighborhood(n, d = 1) is -1 | it must be at least "
       "1"},
      {"mask = prefix(-1)",
       "2:15+2: 'n' of prefix(n) is -1 | it must be at least 0"},
      {"mask = prefix(0)", ""},
      {"score = softcap(s, 0)", "2:20+1: 'c' of softcap(x, c) is 0 | it "
                                "must be positive and finite"},
      {"score = softcap(s, -2.5)",
       "2:20+4: 'c' of softcap(x, c) is -2.5 | it must be positive and "
       "finite"},
      {"score = softcap(s, 0.0 / 0)",
       "2:20+7: 'c' of softcap(x, c) is nan | it must be positive and "
       "finite"},
      {"score = softcap(s, 1 / 0.0)",
       "2:20+7: 'c' of softcap(x, c) is inf | it must be positive and "
       "finite"},
      {"scale = 0.0 / 0", "2:9+7: 'scale' is nan | it must be finite in f32"},
      {"scale = 1.0 / 0", "2:9+7: 'scale' is inf | it must be finite in f32"},
      {"scale = 1e30 * 1e30",
       "2:9+11: 'scale' is 1.0000000000000001e+60 | it must be finite in f32"},
      {"scale = 0", ""},
      {"score = alibi_slope(4)", "2:21+1: 'h' of alibi_slope(h) is 4 | "
                                 "heads count from 0 to 3"},
      {"score = alibi_slope(h - 1)",
       "2:21+5: 'h' of alibi_slope(h) is -1 for h = 0 | heads count from 0 "
       "to 3"},
      {"mask = k < 2147483647 + 1",
       "2:12+14: this integer does not fit in i32 | the range is "
       "-2147483648 to 2147483647"},
      {"mask = k < abs(-2147483647 - 1)",
       "2:12+20: this integer does not fit in i32 | the range is "
       "-2147483648 to 2147483647"},
      {"mask = k < (-2147483647 - 1) / -1",
       "2:12+22: this integer does not fit in i32 | the range is "
       "-2147483648 to 2147483647"},
      {"mask = k % 0 == 0", "2:8+5: this divides by zero | the divisor of "
                            "integers must not be 0"},
      {"score = s / 0", ""}, // f32: infinite, as in IEEE 754
  });
}

TEST(Check, IndexRanges) {
  checkBodies(
      {
          {"mask = k < l[-1]", "2:14+2: index -1 of 'l' is out of range | it "
                               "has 3 elements, counted from 0"},
          {"mask = k < l[3]", "2:14+1: index 3 of 'l' is out of range | it has "
                              "3 elements, counted from 0"},
          {"mask = k < l[2]", ""},
          {"mask = k < l[h]", "2:14+1: index 3 of 'l' is out of range for h = "
                              "3 | it has 3 elements, counted from 0"},
          {"mask = k < l[h % 3]", ""},
          {"mask = k < l[g - 1]", "2:14+5: index -1 of 'l' is out of range for "
                                  "h = 0 | it has 3 elements, counted from 0"},
          {"mask = k < l[k]", ""}, // of the call
          {"mask = k < c[2, h]", "2:14+1: index 2 of 'c' is out of range | it "
                                 "has 2 elements, counted from 0"},
          {"mask = k < c[1, h + 1]",
           "2:17+5: index 4 of 'c' is out of range for h = 3 | it has 4 "
           "elements, counted from 0"},
          {"mask = k < c[1, 3]", ""},
          {"mask = k < v[1]", ""},
          {"mask = k < v[h]", "2:14+1: index 2 of 'v' is out of range for h = "
                              "2 | it has 2 elements, counted from 0"},
          {"mask = k < e[-1]", "2:14+2: index -1 of 'e' is out of range | "
                               "indices count from 0"},
          // A condition may keep a head from the value, so it is not judged.
          {"mask = h < 3 ? k < l[h] : true", ""},
          {"mask = h < 3 && k < l[h]", ""},
          {"mask = l[h] > 0 && k < 3",
           "2:10+1: index 3 of 'l' is out of range for h = 3 | it has 3 "
           "elements, counted from 0"},
          {"mask = window(1, 1, l[h % 3] - 1)",
           "2:21+12: 'd' of window(l, r = l, d = 1) is 0 for h = 0 | it must "
           "be at least 1"},
          {"mask = h > 0 ? window(1, 1, l[h % 3] - 1) : causal", ""},
      },
      "c: i32[2, heads], v: i32[kv_heads], e: i32[batch]",
      "kv_heads = 2 let l = [1, 2, 3]");
}

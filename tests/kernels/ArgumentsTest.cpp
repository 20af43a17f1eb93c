//===- tests/kernels/ArgumentsTest.cpp - What a kernel accepts ------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "runtime/attn.h"
#include "tests/kernels/KernelTest.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace attn::test {
namespace {

constexpr int32_t kBounded = ATTN_PARAM_BOUNDED, kNonzero = ATTN_PARAM_NONZERO,
                  kPositive = ATTN_PARAM_POSITIVE;

class Arguments : public KernelTest {};

/// The same for every target.
TEST(Flags, WhatKernelsRelyOn) {
  struct {
    const char *declared, *rest;
    std::vector<int32_t> flags;
  } const table[] = {
      // Compared as they are: any value.
      {"n: i32[batch]", "mask = prefix(n[b])", {0}},
      {"d: i32[batch, tokens]", "mask = d[b, q] == d[b, k]", {0}},
      {"x: f32[keys]", "score = s + x[k]", {0}},
      {"m: bool[keys]", "mask = m[k]", {0}},
      {"x: f32[heads]", "sink = x[h]", {0}},
      {"i: i32[heads], x: f32[7]", "score = s + x[i[h]]", {0, 0}},
      {"n: i32", "score = s * n", {0}},
      // Added to positions: within 32 bits.
      {"n: i32", "mask = sliding(n)", {kBounded}},
      {"n: i32, m: i32", "mask = k <= q + n && k > m", {kBounded, 0}},
      {"n: i32", "mask = window(n)", {kBounded}},
      // Divided by.
      {"n: i32", "mask = k / n == q / n", {kBounded | kNonzero}},
      {"n: i32[batch]", "mask = k % n[b] == 0", {kBounded | kNonzero}},
      // What a built-in needs.
      {"n: i32, d: i32",
       "mask = window(n, n, d)",
       {kBounded, kBounded | kPositive}},
      {"d: i32[heads]", "mask = window(3, 4, d[h])", {kBounded | kPositive}},
      {"n: i32", "mask = neighborhood(n)", {kBounded | kPositive}},
      {"n: i32", "mask = neighborhood(n, 3)", {kBounded | kPositive}},
      {"c: f32", "score = softcap(s, c)", {kPositive}},
      {"c: bf16[heads]", "score = softcap(s, c[h])", {kPositive}},
      // Used in several ways: all that any of them needs.
      {"n: i32",
       "mask = k <= n || neighborhood(n) || k / n == 0",
       {kBounded | kPositive | kNonzero}},
      {"c: f32, d: f32", "score = softcap(s, c) + d", {kPositive, 0}},
  };
  for (const auto &line : table) {
    std::string error;
    Code code = compileHere(variant(line.declared, 2, 1, 8, line.rest),
                            "x86-64", error);
    ASSERT_NE(code.descriptor(), nullptr) << error;
    const attn_kernel &kernel = *code.descriptor();
    ASSERT_EQ(kernel.n_params, static_cast<int32_t>(line.flags.size()));
    for (size_t n = 0; n < line.flags.size(); ++n)
      EXPECT_EQ(kernel.params[n].flags, line.flags[n])
          << kernel.params[n].name << " in " << line.rest;
  }
}

//===----------------------------------------------------------------------===//
// Calls that are refused
//===----------------------------------------------------------------------===//

constexpr int64_t kBatch = 2, kHeads = 4, kLength = 40, kDim = 8;

/// An argument that a test can spoil.
struct Given {
  const char *name;
  DLDataType type;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  template <typename T>
  Given(const char *name, DLDataType type, std::vector<int64_t> shape,
        const std::vector<T> &values)
      : name(name), type(type), shape(std::move(shape)) {
    set(values);
  }
  template <typename T> void set(const std::vector<T> &values) {
    bytes.resize(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
};

constexpr DLDataType kInt = {kDLInt, 32, 1}, kFloat = {kDLFloat, 32, 1};

const char *const kDeclared = "w: i32, d: i32, c: f32, slope: f32[heads], "
                              "doc: i32[batch, tokens], t: tokens, n: i32";
const char *const kRest =
    "score = softcap(s - slope[h] * abs(k - q), c) "
    "mask = ((window(w, w, d) && doc[b, q] == doc[b, k]) || global(t)) "
    "&& k / n <= q / n + 3";

std::vector<Given> validArguments() {
  std::vector<int32_t> doc(kBatch * kLength);
  for (size_t n = 0; n < doc.size(); ++n)
    doc[n] = static_cast<int32_t>(n / 15);
  return {{"w", kInt, {}, std::vector<int32_t>{5}},
          {"d", kInt, {}, std::vector<int32_t>{2}},
          {"c", kFloat, {}, std::vector<float>{30}},
          {"slope", kFloat, {kHeads}, std::vector<float>{1, 0.5, 0.25, 0}},
          {"doc", kInt, {kBatch, kLength}, doc},
          {"t", kInt, {kBatch, 3}, std::vector<int32_t>{0, 39, -1, -1, 7, 7}},
          {"n", kInt, {}, std::vector<int32_t>{-4}}};
}

/// Runs a kernel on arguments; true if it succeeds. The output tells whether
/// anything was written.
bool call(const attn_kernel *kernel, std::vector<Given> &given,
          std::vector<float> &o, attn_error &error) {
  std::vector<float> in(static_cast<size_t>(kBatch * kHeads * kLength * kDim),
                        0.5F);
  int64_t shape[] = {kBatch, kHeads, kLength, kDim};
  int64_t kvShape[] = {kBatch, 2, kLength, kDim};
  const auto tensor = [](void *data, int64_t *extents, int32_t rank,
                         DLDataType type) {
    DLTensor result{};
    result.data = data;
    result.device = {kDLCPU, 0};
    result.ndim = rank;
    result.dtype = type;
    result.shape = extents;
    return result;
  };
  DLTensor q = tensor(in.data(), shape, 4, kFloat);
  DLTensor kv = tensor(in.data(), kvShape, 4, kFloat);
  DLTensor out = tensor(o.data(), shape, 4, kFloat);
  std::vector<DLTensor> values;
  std::vector<attn_argument> arguments;
  for (Given &g : given)
    values.push_back(tensor(g.bytes.data(), g.shape.data(),
                            static_cast<int32_t>(g.shape.size()), g.type));
  for (size_t n = 0; n < given.size(); ++n)
    arguments.push_back({given[n].name, &values[n]});
  attn_tensors tensors{};
  tensors.struct_size = sizeof tensors;
  tensors.q = &q;
  tensors.k = tensors.v = &kv;
  tensors.o = &out;
  tensors.params = arguments.data();
  tensors.n_params = arguments.size();
  return attn_run(kernel, &tensors, nullptr, &error) == ATTN_OK;
}

TEST_P(Arguments, BadOnesAreRefusedBeforeAnythingRuns) {
  using Spoil = std::function<void(std::vector<Given> &)>;
  const auto at = [](size_t n, auto change) -> Spoil {
    return [=](std::vector<Given> &given) { change(given[n]); };
  };
  const auto put = [&](size_t n, auto value) {
    return at(n, [=](Given &g) { g.set(std::vector<decltype(value)>{value}); });
  };
  struct {
    Spoil spoil;
    std::vector<const char *> words;
  } const table[] = {
      {[](auto &given) { given.pop_back(); }, {"'n' is missing", "w, d, c"}},
      {[](auto &given) { given[3].name = "slop"; }, {"'slop'", "w, d, c"}},
      {[](auto &given) { given.push_back(given[0]); }, {"'w'", "twice"}},
      {at(0, [](Given &g) { g.type = kFloat; }), {"'w'", "f32", "i32"}},
      {at(3, [](Given &g) { g.type = kInt; }), {"'slope'", "i32", "f32"}},
      {at(5, [](Given &g) { g.type = kFloat; }), {"'t'", "f32", "i32"}},
      {at(3, [](Given &g) { g.shape = {3}; }), {"'slope'", "3", "4", "heads"}},
      {at(4, [](Given &g) { g.shape = {kBatch, 39}; }), {"'doc'", "39", "40"}},
      {at(4, [](Given &g) { g.shape = {40}; }), {"'doc'", "1", "2"}},
      {at(5, [](Given &g) { g.shape = {3, 2}; }), {"'t'", "3", "2"}},
      // Values.
      {at(5,
          [](Given &g) { g.set(std::vector<int32_t>{0, 40, -1, -1, 7, 7}); }),
       {"'t'", "is 40", "below 40"}},
      {put(1, int32_t{0}), {"'d'", "0"}},
      {put(1, int32_t{-2}), {"'d'", "-2"}},
      {put(1, int32_t{(1 << 30) + 1}), {"'d'", "1073741825"}},
      {put(0, int32_t{(1 << 30) + 1}), {"'w'", "1073741825", "1073741824"}},
      {put(0, INT32_MIN), {"'w'", "-2147483648"}},
      {put(6, int32_t{0}), {"'n'", "0"}},
      {put(2, NAN), {"'c'", "nan"}},
      {put(2, 0.0F), {"'c'", "0"}},
      {put(2, -3.0F), {"'c'", "-3"}},
      {put(2, INFINITY), {"'c'", "inf"}},
  };
  const attn_kernel *kernel =
      compiled(variant(kDeclared, kHeads, 2, kDim, kRest)).kernel;
  ASSERT_NE(kernel, nullptr);
  const float before = 123;
  std::vector<float> o(static_cast<size_t>(kBatch * kHeads * kLength * kDim),
                       before);
  attn_error error{};
  for (const auto &line : table) {
    std::vector<Given> given = validArguments();
    line.spoil(given);
    EXPECT_FALSE(call(kernel, given, o, error)) << line.words[0];
    EXPECT_EQ(error.code, ATTN_INVALID_ARGUMENT);
    for (const char *word : line.words)
      EXPECT_NE(std::string(error.text).find(word), std::string::npos)
          << "'" << word << "' is not in: " << error.text;
    EXPECT_EQ(std::count(o.begin(), o.end(), before),
              static_cast<int64_t>(o.size()));
  }
  // The same kernel afterwards, rightly called.
  std::vector<Given> given = validArguments();
  EXPECT_TRUE(call(kernel, given, o, error)) << error.text;
  for (float x : o)
    ASSERT_NEAR(x, 0.5, 1e-6);
}

ATTN_FOR_EACH_TARGET(Arguments);

} // namespace
} // namespace attn::test

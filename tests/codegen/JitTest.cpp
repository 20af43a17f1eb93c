//===- tests/codegen/JitTest.cpp - Kernels compiled in memory -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Compiler.h"
#include "compiler/Target.h"
#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <thread>
#include <vector>

using namespace attn;

namespace {

Spec parseOne(const std::string &text) {
  ParseResult parsed = parse(text);
  EXPECT_TRUE(parsed.ok() && parsed.specs.size() == 1) << text;
  return parsed.specs.empty() ? Spec() : parsed.specs.front();
}

Spec variant(const std::string &fields) {
  return parseOne("attention same_name { " + fields + " }");
}

std::string messages(const std::vector<Diagnostic> &diagnostics) {
  std::string all;
  for (const Diagnostic &diagnostic : diagnostics)
    all += diagnostic.message + "\n";
  return all;
}

const attn_kernel *compileOne(const Spec &spec, const std::string &target,
                              const std::string &plan = "") {
  std::vector<Diagnostic> diagnostics;
  const attn_kernel *kernel = jit(spec, {target, plan}, diagnostics);
  EXPECT_EQ(messages(diagnostics), "");
  return kernel;
}

/// One head, n keys, q = 0: O is the mean of the allowed V rows.
float meanOfAllowed(const attn_kernel *kernel, int64_t n, int64_t row) {
  const int64_t qk = kernel->qk_dim, vd = kernel->value_dim,
                heads = kernel->heads;
  std::vector<float> q(size_t(heads * n * qk)), k(q.size()),
      v(size_t(heads * n * vd)), o(v.size());
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = float(int64_t(i) / vd % n);
  attn_call call = {};
  call.q = q.data();
  call.k = k.data();
  call.v = v.data();
  call.o = o.data();
  call.batch = 1;
  call.q_len = call.kv_len = n;
  auto strides = [&](int64_t *stride, int64_t width) {
    stride[0] = heads * n * width;
    stride[1] = n * width;
    stride[2] = width;
    stride[3] = 1;
  };
  strides(call.q_stride, qk);
  strides(call.k_stride, qk);
  strides(call.v_stride, vd);
  strides(call.o_stride, vd);
  std::unique_ptr<void, void (*)(void *)> scratch(
      std::aligned_alloc(64, size_t(kernel->scratch_bytes + 127) / 64 * 64),
      std::free);
  const int64_t items =
      kernel->item_groups *
      ((n * kernel->item_heads + kernel->item_rows - 1) / kernel->item_rows);
  kernel->run(&call, 0, items, scratch.get());
  return o[size_t(row * vd)];
}

TEST(Jit, OneKernelHoweverManyThreadsAsk) {
  Spec spec = variant("heads = 1 head_dim = 9 mask = causal");
  std::vector<const attn_kernel *> kernels(16);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kernels.size(); ++t)
    threads.emplace_back([&, t] {
      kernels[t] = compileOne(spec, "host");
      // At once, while others may still be waiting.
      EXPECT_NEAR(meanOfAllowed(kernels[t], 7, 6), 3.0f, 1e-5f);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(
      std::set<const attn_kernel *>(kernels.begin(), kernels.end()).size(), 1u);
  EXPECT_NE(kernels[0], nullptr);
}

TEST(Jit, DifferentKernelsOfOneName) {
  // What differs in one respect is another kernel, however it is named.
  const std::vector<std::string> fields = {
      "heads = 1 head_dim = 8",
      "heads = 1 head_dim = 8 mask = causal",
      "heads = 1 head_dim = 8 mask = causal && sliding(2)",
      "heads = 1 head_dim = 8 mask = causal && sliding(3)",
      "heads = 1 head_dim = 8 mask = window(1, 2)",
      "heads = 1 head_dim = 8 mask = window(2, 1)",
      "heads = 1 head_dim = 8 scale = 0.5",
      "heads = 1 head_dim = 9",
      "heads = 1 head_dim = {qk = 8, value = 9}",
      "heads = 2 head_dim = 8",
      "heads = 2 kv_heads = 1 head_dim = 8",
      "heads = 1 head_dim = 8 align = top_left",
  };
  // Row 3 of 6.
  const std::vector<float> expected = {2.5f, 1.5f, 2.5f, 2,    3.5f, 2.5f,
                                       2.5f, 2.5f, 2.5f, 2.5f, 2.5f, 2.5f};
  std::vector<const attn_kernel *> kernels;
  for (const std::string &field : fields)
    kernels.push_back(compileOne(variant(field), "host"));
  EXPECT_EQ(
      std::set<const attn_kernel *>(kernels.begin(), kernels.end()).size(),
      fields.size());
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < fields.size(); ++i) {
      EXPECT_EQ(compileOne(variant(fields[i]), "host"), kernels[i]);
      EXPECT_NEAR(meanOfAllowed(kernels[i], 6, 3), expected[i], 1e-5f)
          << fields[i];
    }
}

TEST(Jit, TargetsAndPlansAreKernelsOfTheirOwn) {
  Spec spec = variant("heads = 1 head_dim = 8 mask = causal");
  std::set<const attn_kernel *> kernels;
  size_t count = 0;
  for (const TargetState &state : targetStates()) {
    std::vector<Diagnostic> diagnostics;
    if (findTarget(state.name)->isDevice()) {
      const attn_kernel *kernel = compileOne(spec, state.name);
      ASSERT_NE(kernel, nullptr);
      EXPECT_EQ(kernel->run, nullptr);
      ASSERT_NE(kernel->device, nullptr);
      EXPECT_NE(std::string(kernel->device->text).find(kernel->device->entry),
                std::string::npos);
      continue;
    }
    if (!state.runsHere) {
      EXPECT_EQ(jit(spec, {state.name, ""}, diagnostics), nullptr);
      EXPECT_NE(messages(diagnostics).find(state.missing), std::string::npos);
      continue;
    }
    const attn_kernel *kernel = compileOne(spec, state.name);
    ASSERT_NE(kernel, nullptr);
    EXPECT_EQ(kernel->target, state.name);
    EXPECT_EQ(kernel->features, state.features);
    EXPECT_NEAR(meanOfAllowed(kernel, 6, 3), 1.5f, 1e-5f);
    kernels.insert(kernel);
    ++count;
    kernels.insert(compileOne(spec, state.name, "unroll=1"));
    ++count;
  }
  EXPECT_EQ(kernels.size(), count);
  EXPECT_GT(count, 0u);
}

TEST(Jit, HostIsTheBestThatRunsHere) {
  Spec spec = variant("heads = 1 head_dim = 8");
  for (const TargetState &state : targetStates())
    if (state.runsHere) {
      EXPECT_EQ(compileOne(spec, "host"), compileOne(spec, state.name));
      break;
    }
}

TEST(Jit, FailuresAreFoundEachTimeAndLeaveOthersAlone) {
  Spec good = variant("heads = 1 head_dim = 8 mask = causal");
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 3; ++i) {
        std::vector<Diagnostic> diagnostics;
        EXPECT_EQ(jit(good, {"host", "no_such_key=1"}, diagnostics), nullptr);
        EXPECT_FALSE(diagnostics.empty());
        EXPECT_NE(compileOne(good, "host"), nullptr);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  std::vector<Diagnostic> diagnostics;
  EXPECT_EQ(jit(good, {"no-such-target", ""}, diagnostics), nullptr);
  EXPECT_NE(messages(diagnostics).find("no-such-target"), std::string::npos);
}

TEST(Compiler, SymbolsAreNamesInC) {
  EXPECT_EQ(kernelSymbol("llama3_8b", "a-b-c"), "attn_llama3_8b__a_b_c");
}

TEST(Compiler, HeaderSurvivesAnyText) {
  Spec spec = variant("heads = 6 kv_heads = 4 kv_map = [0, 1, 2, 3, 3, 0] "
                      "head_dim = 8");
  std::string header = emitHeader({spec}, {"t-1", "t-2"});
  EXPECT_NE(header.find("extern const attn_kernel attn_same_name__t_1;"),
            std::string::npos);
  EXPECT_NE(header.find("extern const attn_kernel attn_same_name__t_2;"),
            std::string::npos);
  EXPECT_NE(header.find("extern const attn_bundle_table "
                        "attn_same_name__kernels;"),
            std::string::npos);
  EXPECT_NE(header.find("static inline int attn_same_name__pick("),
            std::string::npos);
  EXPECT_EQ(emitHeader({spec}, {"t-1"}).find("attn_same_name__kernels"),
            std::string::npos);
  // Each comment that begins ends, and none ends early.
  size_t open = 0, close = 0;
  for (size_t at = 0; (at = header.find("/*", at)) != std::string::npos; ++at)
    ++open;
  for (size_t at = 0; (at = header.find("*/", at)) != std::string::npos; ++at)
    ++close;
  EXPECT_EQ(open, close);
}

TEST(Compiler, UnknownStagesAndTargetsAreRefused) {
  Spec spec = variant("heads = 1 head_dim = 8");
  EXPECT_NE(messages(compile(spec, "fish", {}).diagnostics).find("fish"),
            std::string::npos);
  EXPECT_NE(
      messages(compile(spec, "asm", {"fish", ""}).diagnostics).find("fish"),
      std::string::npos);
  EXPECT_FALSE(compileBundle({}, {"host"}, "", "/tmp/none.so").empty());
  EXPECT_FALSE(compileBundle({spec}, {}, "", "/tmp/none.so").empty());
  EXPECT_FALSE(
      compileBundle({spec, spec}, {"host"}, "", "/tmp/none.so").empty());
}

} // namespace

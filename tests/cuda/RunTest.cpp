//===- tests/cuda/RunTest.cpp - Compiled kernels on a device --------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Compiler.h"
#include "tests/cuda/DeviceTest.h"
#include "tests/kernels/KernelTest.h"

namespace attn::test {
namespace {

const char *const kTarget = "cuda-sm80";

/// The kernel of a variant, compiled once; fails the test where it is refused.
const attn_kernel *kernelFor(const Spec &spec, const std::string &target) {
  std::vector<Diagnostic> diagnostics;
  const attn_kernel *kernel = jit(spec, {target, ""}, diagnostics);
  for (const Diagnostic &diagnostic : diagnostics)
    ADD_FAILURE() << render(diagnostic, "test.attn", print(spec));
  return kernel;
}

class OnDevice : public DeviceTest {
protected:
  void expectRight(const Case &c, const std::string &target = kTarget) {
    DeviceCall call(c, kernelFor(c.spec, target));
    ASSERT_EQ(call.run(), ATTN_OK)
        << call.error.text << driver.kernelError() << describe(c);
    EXPECT_EQ(call.judge(), "") << describe(c);
  }
};

TEST_F(OnDevice, PrefillAndDecode) {
  Spec spec = variant(4, 2, 16, "mask = causal type = f16");
  expectRight(caseOf(spec, 2, 40, 40));
  expectRight(caseOf(spec, 1, 1, 100));
  expectRight(caseOf(spec, 3, 2, 33));
  expectRight(caseOf(spec, 1, 5, 70), "cuda-sm90");
}

TEST_F(OnDevice, EveryType) {
  for (const char *type : {"f32", "f16", "bf16"})
    expectRight(caseOf(
        variant(2, 2, 24, fmt::format("mask = window(9) type = {}", type)), 1,
        30, 30));
}

TEST_F(OnDevice, LengthsOfEachSequence) {
  Case c = caseOf(variant(4, 1, 8, "mask = causal"), 3, 20, 30);
  c.qLens = {20, 0, 7};
  c.kvLens = {30, 11, 0};
  expectRight(c);
}

/// States of splits lie behind what is copied; the merge is another launch.
TEST_F(OnDevice, KeysThatAreSplit) {
  Case c = caseOf(variant(4, 2, 16, "mask = causal"), 3, 2, 1100);
  c.qLens = {1, 2, 2};
  c.kvLens = {1100, 512, 700};
  expectRight(c);
}

TEST_F(OnDevice, ManySequencesHaveTheirLengthsInMemoryOfTheCall) {
  Case c = caseOf(variant(1, 1, 8, ""), 40, 2, 5);
  for (int64_t b = 0; b < 40; ++b)
    c.kvLens.push_back(b % 6);
  expectRight(c);
}

TEST_F(OnDevice, StridesOfAnyKind) {
  Spec spec = variant(2, 1, 16, "mask = causal");
  Case c = caseOf(spec, 2, 20, 24);
  c.q.order = {0, 2, 1, 3};
  c.k.step = 3;
  c.k.reversed = {false, false, true, false};
  c.v.broadcast = {true, false, false, false};
  c.o.gap = {0, 5, 7, 0};
  c.o.reversed = {true, false, false, true};
  c.lseLayout.order = {0, 2, 1, 3};
  expectRight(c);
}

TEST_F(OnDevice, ParametersAreCopiedAsTheyAre) {
  Spec spec = variant("table: f32[heads, 9], ids: i32[batch, tokens], "
                      "slope: f32, on: bool[heads]",
                      2, 2, 16,
                      "score = s * slope + table[h, q - k] "
                      "mask = causal && on[h] && ids[b, q] == ids[b, k]");
  Case c = caseOf(spec, 2, 40, 40);
  c.kvLens = {40, 25};
  c.qLens = {40, 25};
  c.params = {argumentOf({2, 9}, [](int64_t n) { return 0.1 * double(n % 5); }),
              argumentOf({2, 40}, [](int64_t n) { return n % 40 / 16; }),
              scalar(0.5), argument({2}, {1, 1})};
  expectRight(c);
  // Strided, backwards, one element for all, with poison in between.
  c.params[0].layout.step = 3;
  c.params[0].layout.order = {1, 0};
  c.params[1].layout.reversed = {true, true};
  c.params[1].layout.gap = {2, 1};
  c.params[3] = argument({1}, {1});
  c.params[3].layout.stretched = {true};
  expectRight(c);
}

TEST_F(OnDevice, GlobalTokensAndSinks) {
  Spec spec = variant("far: tokens, sinks: f32[heads]", 2, 1, 16,
                      "mask = window(4) || global(far) sink = sinks[h]");
  Case c = caseOf(spec, 2, 50, 50);
  c.params = {argument({2, 3}, {0, 17, -1, 49, 3, 3}),
              argument({2}, {0.5, -1})};
  expectRight(c);
  // A list for all sequences, and one without entries.
  c.params[0] = argument({1, 2}, {5, 9});
  expectRight(c);
  c.params[0] = argument({2, 0}, {});
  expectRight(c);
}

TEST_F(OnDevice, ParametersWithoutElements) {
  Spec spec = variant("bias: f32[keys], ids: i32[keys]", 1, 1, 8,
                      "score = s + bias[k] mask = ids[k] != 0");
  Case c = caseOf(spec, 1, 4, 0);
  c.params = {argument({0}, {}), argument({0}, {})};
  expectRight(c);
}

TEST_F(OnDevice, RandomVariantsAndCalls) {
  Features features = Features::level3().small();
  int ran = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Choices choices(seed);
    Spec spec = parseOne(randomVariant(choices, features, "random"));
    std::vector<Diagnostic> refused;
    const attn_kernel *kernel = jit(spec, {kTarget, ""}, refused);
    if (!kernel)
      continue;
    ++ran;
    Case c = randomCase(choices, features, spec, kernel);
    DeviceCall call(c, kernel);
    ASSERT_EQ(call.run(), ATTN_OK)
        << "seed " << seed << ": " << call.error.text << driver.kernelError();
    EXPECT_EQ(call.judge(), "") << "seed " << seed << ": " << describe(c);
  }
  EXPECT_GE(ran, 20);
}

TEST_F(OnDevice, ABundleForCpusAndDevices) {
  Spec spec = variant(2, 1, 16, "mask = causal");
  const attn_kernel *all[] = {kernelFor(spec, "cuda-sm80"),
                              kernelFor(spec, "cuda-sm90"),
                              kernelFor(spec, "host")};
  attn_bundle *bundle;
  attn_error error;
  ASSERT_EQ(attn_bundle_open_static(all, 3, &bundle, &error), ATTN_OK);
  Case c = caseOf(spec, 1, 9, 12);
  const attn_kernel *picked;
  ASSERT_EQ(attn_kernel_pick(bundle, nullptr, nullptr, &picked, &error),
            ATTN_OK)
      << error.text;
  EXPECT_EQ(picked, all[2]);
  Code code;
  code.kernel = picked;
  EXPECT_EQ(Properties(*makeNativeExecutor(), code).matchesOracle(c), "");
  for (int device : {0, 1}) {
    ASSERT_EQ(attn_kernel_pick_at(bundle, nullptr, nullptr, deviceAt(device),
                                  &picked, &error),
              ATTN_OK)
        << error.text;
    EXPECT_EQ(picked, all[1 - device]);
    DeviceCall call(c, picked, device);
    ASSERT_EQ(call.run(), ATTN_OK) << call.error.text;
    EXPECT_EQ(call.judge(), "");
  }
  attn_bundle_close(bundle);
}

} // namespace
} // namespace attn::test

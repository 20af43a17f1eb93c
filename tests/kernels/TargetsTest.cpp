//===- tests/kernels/TargetsTest.cpp - No target goes untested ------------===//
//
// Part of attnc. Apache-2.0.
//
// What the CPU does not run, an emulator does; the emulated way is taken in any
// case, so that it works where it is needed.
//
//===----------------------------------------------------------------------===//
#include "compiler/Target.h"
#include "tests/kernels/KernelTest.h"
#include "tests/support/Check.h"
#include "tests/support/Emulated.h"
#include <algorithm>
#include <cmath>

namespace attn::test {
namespace {

TEST(Targets, EachRunsHereOrIsEmulated) {
  for (const TargetState &state : targetStates()) {
    const Emulator emulator = emulatorFor(state.name);
    if (state.runsHere)
      std::printf("%s: native\n", state.name.c_str());
    else if (emulator.missing.empty())
      std::printf("%s: %s\n", state.name.c_str(), emulator.name.c_str());
    else
      ADD_FAILURE() << state.name << " is not tested: " << emulator.missing;
  }
}

TEST(Targets, WhatIsNoTargetHasNoEmulator) {
  const Emulator emulator = emulatorFor("no-such");
  EXPECT_EQ(emulator.command, "");
  EXPECT_EQ(emulator.missing, "there is no emulator for no-such");
}

TEST(Targets, ForeignOnesAreRefused) {
  for (const TargetState &state : targetStates()) {
    if (state.runsHere)
      continue;
    std::string error;
    if (findTarget(state.name)->isDevice()) {
      // What a device runs has nothing to call here.
      const attn_kernel *kernel =
          compileHere(variant(1, 1, 8, ""), state.name, error).kernel;
      ASSERT_NE(kernel, nullptr) << error;
      EXPECT_EQ(kernel->run, nullptr);
      EXPECT_NE(kernel->device, nullptr);
      continue;
    }
    EXPECT_EQ(compileHere(variant(1, 1, 8, ""), state.name, error).kernel,
              nullptr);
    EXPECT_NE(error.find(state.missing), std::string::npos) << error;
  }
}

/// Random variants, and main loops, of a target through its emulator.
void checkEmulated(const std::string &target, int variants) {
  std::vector<std::unique_ptr<Trial>> trials;
  std::vector<Job> jobs;
  const auto add = [&](const Case &c, const Code &code) {
    trials.push_back(std::make_unique<Trial>(
        c, code, static_cast<Order>(trials.size() % 4)));
    jobs.push_back(trials.back()->job);
  };
  // Random variants and calls; several calls of each.
  for (int n = 0; n < variants; ++n) {
    const Features features =
        n % 2 ? Features::level3().small() : Features::smallCalls();
    Choices choices(static_cast<uint64_t>(n) + 500);
    Spec spec =
        parseOne(randomVariant(choices, features, fmt::format("random{}", n)));
    Code code = objectFor(spec, target);
    for (int call = 0; call < 3; ++call)
      add(randomCase(choices, features, spec, code.descriptor()), code);
  }
  // The main loops: whole registers, several tiles, an edge in each dimension.
  Spec wide = parseOne("attention wide { heads = 2 kv_heads = 1 head_dim = 67 "
                       "mask = causal && sliding(40) }");
  Code code = objectFor(wide, target);
  add(caseOf(wide, 1, 70, 101), code);
  add(caseOf(wide, 2, 1, 150), code);
  std::vector<std::string> outcomes =
      makeEmulatedExecutor(emulatorFor(target))->run(jobs);
  for (size_t n = 0; n < jobs.size(); ++n)
    EXPECT_EQ(trials[n]->judge(outcomes[n]), "") << describe(trials[n]->c);
}

// A machine is emulated more slowly than a single program.
TEST(Emulated, Avx512Kernels) { checkEmulated("x86-avx512", 10); }
TEST(Emulated, Avx2Kernels) { checkEmulated("x86-avx2", 10); }
TEST(Emulated, NeonKernels) { checkEmulated("arm-neon", 40); }

/// The same variants and calls on any target, each call in several layouts.
std::vector<std::unique_ptr<Trial>> commonTrials(const TargetState &target) {
  const char *const texts[] = {
      "attention plain { heads = 2 head_dim = 46 }",
      "attention grouped { heads = 3 kv_heads = 1 head_dim = 66 mask = causal "
      "}",
      "attention slope { heads = 12 head_dim = 9 "
      "score = s + alibi_slope(h) * (k - q)  mask = window(9, 3) }",
      "attention capped { heads = 2 head_dim = { qk = 31, value = 17 } "
      "score = softcap(s, 3.0)  mask = causal && sliding(20) }",
  };
  std::vector<std::unique_ptr<Trial>> trials;
  for (const char *text : texts) {
    const Spec spec = parseOne(text);
    std::string error;
    const Code code = target.runsHere ? compileHere(spec, target.name, error)
                                      : objectFor(spec, target.name);
    EXPECT_EQ(error, "");
    for (int64_t base : {0, 1, 2, 5, 9}) { // elements past a multiple of 64
      Case c = caseOf(spec, 2, 33, 70);
      for (Layout *layout : {&c.q, &c.k, &c.v, &c.o}) {
        layout->placement = Placement::Start;
        layout->before = base;
        layout->gap[3] = base % 2;
      }
      trials.push_back(std::make_unique<Trial>(c, code, Order::AllAtOnce));
    }
  }
  return trials;
}

/// All of a call's outputs.
std::vector<float> resultsOf(const Trial &trial) {
  std::vector<float> all;
  const auto take = [&](const Tensor &tensor) {
    tensor.forEach([&](const Index &at) { all.push_back(tensor.get(at)); });
  };
  take(trial.buffers.o);
  take(trial.buffers.lse);
  return all;
}

TEST(Agreement, TheSameCallsOnEveryTarget) {
  std::vector<std::vector<float>> first;
  for (const TargetState &target : targetStates()) {
    SCOPED_TRACE(target.name);
    const auto trials = commonTrials(target);
    std::vector<Job> jobs;
    for (const auto &trial : trials)
      jobs.push_back(trial->job);
    const auto executor = target.runsHere ? makeNativeExecutor()
                          : findTarget(target.name)->isDevice()
                              ? makePtxExecutor()
                              : makeEmulatedExecutor(emulatorFor(target.name));
    const std::vector<std::string> outcomes = executor->run(jobs);
    for (size_t n = 0; n < trials.size(); ++n) {
      EXPECT_EQ(trials[n]->judge(outcomes[n]), "") << describe(trials[n]->c);
      // On one target the bits are those of the first layout.
      const size_t same = n / 5 * 5;
      EXPECT_EQ(trials[n]->buffers.outputBits(),
                trials[same]->buffers.outputBits())
          << describe(trials[n]->c);
      const std::vector<float> results = resultsOf(*trials[n]);
      if (first.size() <= n)
        first.push_back(results);
      ASSERT_EQ(results.size(), first[n].size());
      const double allowed = tolerance(trials[n]->c.spec.outType);
      for (size_t i = 0; i < results.size(); ++i)
        ASSERT_NEAR(results[i], first[n][i],
                    allowed * std::max(1.F, std::fabs(first[n][i])));
    }
  }
}

TEST(Check, ReportsWhatItRan) {
  Spec spec = variant(4, 2, 24, "mask = causal && sliding(30)");
  int64_t last = 0;
  CheckReport report = checkSpec(spec, "x86-64", 20, 3, [&](int64_t done) {
    EXPECT_EQ(done, last + 1);
    last = done;
  });
  EXPECT_TRUE(report.ok()) << report.error << report.firstFailure;
  EXPECT_EQ(report.cases, 20);
  EXPECT_EQ(last, 20);
  EXPECT_EQ(report.through, "native");
  EXPECT_GT(report.worst, 0);
  EXPECT_LE(report.worst, 1);
}

TEST(Check, GoesThroughAnEmulator) {
  Spec spec = variant(4, 2, 24, "mask = causal && sliding(30)");
  for (const TargetState &state : targetStates()) {
    if (state.runsHere)
      continue;
    std::string missing;
    const std::string emulator = emulatorOf(state.name, missing);
    EXPECT_NE(emulator, "") << missing;
    CheckReport report = checkSpec(spec, state.name, 4, 3, {});
    EXPECT_TRUE(report.ok()) << report.error << report.firstFailure;
    EXPECT_EQ(report.cases, 4);
    EXPECT_EQ(report.through, emulator);
  }
}

TEST(Check, RefusesWithAText) {
  EXPECT_NE(checkSpec(variant(1, 1, 8, ""), "no-such", 1, 1, {}).error, "");
  Spec latent = parseOne("attention a { heads = 1 latent = 8 "
                         "head_dim = { nope = 8, rope = 4, value = 8 } }");
  EXPECT_FALSE(checkSpec(latent, "host", 1, 1, {}).ok());
}

} // namespace
} // namespace attn::test

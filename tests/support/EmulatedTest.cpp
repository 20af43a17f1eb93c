//===- tests/support/EmulatedTest.cpp - The way through an emulator -------===//
//
// Part of attnc. Apache-2.0.
//
// A missing emulator fails these tests: what can't run here must run there.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Emulated.h"
#include "tests/support/Generate.h"
#include "tests/support/Process.h"
#include "tests/support/Properties.h"
#include <cstdlib>
#include <gtest/gtest.h>

namespace attn::test {
namespace {

/// The hand-written kernel as an object file for a CPU with AVX-512.
Code sample(const std::string &define = "") {
  TemporaryDirectory directory;
  std::string object = directory.path() / "sample.o";
  std::string output;
  std::vector<std::string> command = {ATTN_CLANG,
                                      "-O2",
                                      "-march=skylake-avx512",
                                      "-mprefer-vector-width=512",
                                      "-Wno-psabi",
                                      "-fvisibility=hidden",
                                      "-I",
                                      ATTN_RUNTIME_DIR,
                                      "-c",
                                      ATTN_SAMPLE_KERNEL,
                                      "-o",
                                      object};
  if (!define.empty())
    command.emplace_back("-D" + define);
  EXPECT_EQ(runProgram(command, output), 0) << output;
  return emulatedCode(readFile(object), "attn_sample__x86_avx512");
}

Spec sampleSpec() {
  return parseOne("attention sample { heads = 1 head_dim = 16 mask = causal }");
}

TEST(Emulated, RunsKernelsInEveryOrder) {
  Code code = sample();
  std::vector<std::unique_ptr<Trial>> trials;
  std::vector<Job> jobs;
  Choices choices(11);
  Features features = Features::smallCalls();
  const Order orders[] = {Order::AllAtOnce, Order::OneByOne, Order::Reversed,
                          Order::Uneven};
  for (Order order : orders) {
    Case c = randomCase(choices, features, sampleSpec());
    // The sample takes adjacent columns.
    for (Layout *layout : {&c.q, &c.k, &c.v, &c.o, &c.lseLayout}) {
      *layout = Layout();
      layout->gap[3] = 3;
    }
    trials.push_back(std::make_unique<Trial>(c, code, order));
    jobs.push_back(trials.back()->job);
  }
  auto executor = makeEmulatedExecutor(emulatorFor("x86-avx512"));
  std::vector<std::string> outcomes = executor->run(jobs);
  for (size_t n = 0; n < jobs.size(); ++n)
    EXPECT_EQ(trials[n]->judge(outcomes[n]), "") << describe(trials[n]->c);
}

TEST(Emulated, RunsKernelsWithParameters) {
  Spec spec = parseOne(
      "attention sample(n: i32[batch], bias: f32[keys], doc: i32[keys], t: "
      "tokens) { heads = 1 head_dim = 16 score = s + bias[k] "
      "mask = (causal && k < n[b] || global(t)) && doc[k] == 0 }");
  Code code = sample("ATTN_SAMPLE_PARAMS");
  ASSERT_NE(code.descriptor(), nullptr);
  EXPECT_EQ(code.descriptor()->n_params, 4);
  std::vector<std::unique_ptr<Trial>> trials;
  std::vector<Job> jobs;
  Choices choices(12);
  bool globals = false, standIn = false;
  for (int n = 0; n < 40; ++n) {
    Case c = randomCase(choices, Features::smallCalls(), spec);
    for (Layout *layout : {&c.q, &c.k, &c.v, &c.o, &c.lseLayout})
      *layout = Layout();
    trials.push_back(
        std::make_unique<Trial>(c, code, static_cast<Order>(n % 4)));
    ASSERT_EQ(trials.back()->buffers.error(), "");
    globals |= trials.back()->job.call.max_globals > 1;
    standIn |= c.kvLen == 0 || c.batch == 0;
    jobs.push_back(trials.back()->job);
  }
  EXPECT_TRUE(globals && standIn);
  auto executor = makeEmulatedExecutor(emulatorFor("x86-avx512"));
  std::vector<std::string> outcomes = executor->run(jobs);
  for (size_t n = 0; n < jobs.size(); ++n)
    EXPECT_EQ(trials[n]->judge(outcomes[n]), "") << describe(trials[n]->c);
}

TEST(Emulated, FaultsAreLocated) {
  Case c;
  c.spec = sampleSpec();
  c.qLen = c.kvLen = 3;
  Trial trial(c, sample("ATTN_SAMPLE_OVERRUN"), Order::AllAtOnce);
  auto executor = makeEmulatedExecutor(emulatorFor("x86-avx512"));
  EXPECT_EQ(executor->run({trial.job})[0],
            "Segmentation fault at byte 192 of K (192 bytes long)");
}

TEST(Emulated, DescriptionsAreRead) {
  EXPECT_THROW(emulatedCode("not an object", "symbol"), std::runtime_error);
  EXPECT_THROW(emulatedCode(sample().object, "symbol"), std::runtime_error);
  EXPECT_STREQ(sample().descriptor()->variant, "sample");
}

TEST(Emulated, ObjectsAreNotRunHere) {
  Case c;
  c.spec = sampleSpec();
  Trial trial(c, {nullptr, "not an object", "symbol"}, Order::AllAtOnce);
  auto executor = makeEmulatedExecutor(emulatorFor("x86-avx512"));
  std::string outcome = executor->run({trial.job})[0];
  EXPECT_NE(outcome.find("linking the harness fails"), std::string::npos)
      << outcome;
}

TEST(Emulated, AMissingEmulatorIsNamed) {
  const char *given = std::getenv("ATTN_AVX512_RUNNER");
  std::string kept = given ? given : "";
  setenv("ATTN_AVX512_RUNNER", "/nowhere/runner", 1);
  Emulator emulator = emulatorFor("x86-avx512");
  if (given)
    setenv("ATTN_AVX512_RUNNER", kept.c_str(), 1);
  else
    unsetenv("ATTN_AVX512_RUNNER");
  EXPECT_EQ(emulator.command, "");
  EXPECT_NE(emulator.missing.find("ATTN_AVX512_RUNNER is '/nowhere/runner'"),
            std::string::npos)
      << emulator.missing;
  Case c;
  c.spec = sampleSpec();
  Trial trial(c, {nullptr, "x", "y"}, Order::AllAtOnce);
  EXPECT_EQ(makeEmulatedExecutor(emulator)->run({trial.job})[0],
            emulator.missing);
  EXPECT_NE(emulatorFor("arm-neon").missing, "");
}

} // namespace
} // namespace attn::test

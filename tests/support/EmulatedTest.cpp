//===- tests/support/EmulatedTest.cpp - The way through an emulator -------===//
//
// Part of attnc. Apache-2.0.
//
// A missing emulator fails these tests: what can't run here must run there.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Emulated.h"
#include "targets/arm/Emulation.h"
#include "targets/x86/Emulation.h"
#include "tests/support/Generate.h"
#include "tests/support/Process.h"
#include "tests/support/Properties.h"
#include <cstdlib>
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace attn::test {
namespace {

/// The hand-written kernel as an object file.
Code sample(const Emulator &emulator, const std::string &define = "") {
  TemporaryDirectory directory;
  std::string object = directory.path() / "sample.o";
  std::string output;
  std::vector<std::string> command = emulator.compiler;
  EXPECT_NE(command.size(), 0) << emulator.missing;
  command.insert(command.end(),
                 {"-O2", "-Wno-psabi", "-fvisibility=hidden", "-I",
                  ATTN_RUNTIME_DIR, "-c", ATTN_SAMPLE_KERNEL, "-o", object});
  if (emulator.hasOwnFiles) // a whole machine, with 16 lanes
    command.insert(command.end(),
                   {"-march=skylake-avx512", "-mprefer-vector-width=512"});
  if (!define.empty())
    command.emplace_back("-D" + define);
  EXPECT_EQ(runProgram(command, output), 0) << output;
  return emulatedCode(readFile(object), "attn_sample__emulated");
}

Spec sampleSpec() {
  return parseOne("attention sample { heads = 1 head_dim = 16 mask = causal }");
}

struct Machine {
  const char *name;
  Emulation emulation;
};

class EmulatedOn : public testing::TestWithParam<Machine> {
protected:
  const Emulator emulator = findEmulator(GetParam().emulation);
};

INSTANTIATE_TEST_SUITE_P(
    Machines, EmulatedOn,
    testing::Values(Machine{"x86_avx512", avx512Emulation()},
                    Machine{"x86_avx2", x86Emulation("Haswell")},
                    Machine{"arm_neon", neonEmulation()}),
    [](const auto &info) { return info.param.name; });

TEST_P(EmulatedOn, RunsKernelsInEveryOrder) {
  Code code = sample(emulator);
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
  auto executor = makeEmulatedExecutor(emulator);
  std::vector<std::string> outcomes = executor->run(jobs);
  for (size_t n = 0; n < jobs.size(); ++n)
    EXPECT_EQ(trials[n]->judge(outcomes[n]), "") << describe(trials[n]->c);
}

TEST_P(EmulatedOn, RunsKernelsWithParameters) {
  Spec spec = parseOne(
      "attention sample(n: i32[batch], bias: f32[keys], doc: i32[keys], t: "
      "tokens) { heads = 1 head_dim = 16 score = s + bias[k] "
      "mask = (causal && k < n[b] || global(t)) && doc[k] == 0 }");
  Code code = sample(emulator, "ATTN_SAMPLE_PARAMS");
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
  auto executor = makeEmulatedExecutor(emulator);
  std::vector<std::string> outcomes = executor->run(jobs);
  for (size_t n = 0; n < jobs.size(); ++n)
    EXPECT_EQ(trials[n]->judge(outcomes[n]), "") << describe(trials[n]->c);
}

TEST_P(EmulatedOn, FaultsAreLocated) {
  Case c;
  c.spec = sampleSpec();
  c.qLen = c.kvLen = 3;
  Trial trial(c, sample(emulator, "ATTN_SAMPLE_OVERRUN"), Order::AllAtOnce);
  auto executor = makeEmulatedExecutor(emulator);
  // The vector may be read in parts, in any order.
  const std::string outcome = executor->run({trial.job})[0];
  bool isLocated = false;
  for (int at = 192; at < 256; at += 16)
    isLocated |= outcome == fmt::format("Segmentation fault at byte {} of K "
                                        "(192 bytes long)",
                                        at);
  EXPECT_TRUE(isLocated) << outcome;
}

TEST_P(EmulatedOn, DescriptionsAreRead) {
  EXPECT_THROW(emulatedCode("not an object", "symbol"), std::runtime_error);
  EXPECT_THROW(emulatedCode(sample(emulator).object, "symbol"),
               std::runtime_error);
  EXPECT_STREQ(sample(emulator).descriptor()->variant, "sample");
}

TEST_P(EmulatedOn, WhatDoesNotLinkIsSaid) {
  Case c;
  c.spec = sampleSpec();
  Trial trial(c, {nullptr, "not an object", "symbol"}, Order::AllAtOnce);
  auto executor = makeEmulatedExecutor(emulator);
  std::string outcome = executor->run({trial.job})[0];
  EXPECT_NE(outcome.find("linking the harness fails"), std::string::npos)
      << outcome;
}

/// An environment variable with another value, for a while.
class Environment {
public:
  Environment(const char *name, const char *value) : name(name) {
    const char *given = std::getenv(name);
    wasGiven = given != nullptr;
    kept = given ? given : "";
    setenv(name, value, 1);
  }
  ~Environment() {
    if (wasGiven)
      setenv(name, kept.c_str(), 1);
    else
      unsetenv(name);
  }
  Environment(const Environment &) = delete;
  Environment &operator=(const Environment &) = delete;

private:
  const char *name;
  bool wasGiven = false;
  std::string kept;
};

void expectMissing(const Emulator &emulator, const std::string &words) {
  EXPECT_EQ(emulator.command, "");
  EXPECT_EQ(emulator.name, "");
  EXPECT_NE(emulator.missing.find(words), std::string::npos)
      << emulator.missing;
  Case c;
  c.spec = sampleSpec();
  Trial trial(c, {nullptr, "x", "y"}, Order::AllAtOnce);
  EXPECT_EQ(makeEmulatedExecutor(emulator)->run({trial.job})[0],
            emulator.missing);
}

TEST(Emulated, AMissingEmulatorIsNamed) {
  {
    Environment runner("ATTN_AVX512_RUNNER", "/nowhere/runner");
    expectMissing(findEmulator(avx512Emulation()),
                  "ATTN_AVX512_RUNNER is '/nowhere/runner'");
  }
  {
    Environment path("PATH", "/nowhere:/etc");
    expectMissing(findEmulator(neonEmulation()),
                  "no qemu-aarch64 in PATH; Debian's package qemu-user");
  }
}

} // namespace
} // namespace attn::test

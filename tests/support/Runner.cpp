//===- tests/support/Runner.cpp - Judged calls on any target --------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Runner.h"
#include "compiler/Compiler.h"
#include "compiler/Target.h"
#include "tests/support/Emulated.h"
#include "tests/support/Properties.h"
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <utility>

namespace attn::test {

namespace {

class NativeRunner : public Runner {
public:
  bool prepare(const Spec &spec, Code &code,
               std::vector<Diagnostic> &diagnostics) override {
    code = {};
    code.kernel = jit(spec, {target, ""}, diagnostics);
    return code.kernel != nullptr;
  }
  Features limited(Features features) const override {
    features.maxWork = 60000000;
    return features;
  }
  void add(Case c, const Code &code, uint64_t seed, Done done) override {
    done(c, Properties(*executor, code).all(c, seed, &worst));
  }
  void flush() override {}

private:
  std::unique_ptr<Executor> executor = makeNativeExecutor();
};

class EmulatedRunner : public Runner {
public:
  explicit EmulatedRunner(std::unique_ptr<Executor> executor)
      : executor(std::move(executor)) {}

  bool prepare(const Spec &spec, Code &code,
               std::vector<Diagnostic> &diagnostics) override {
    CompileResult object = compile(spec, "obj", {target, "", false});
    diagnostics.insert(diagnostics.end(), object.diagnostics.begin(),
                       object.diagnostics.end());
    if (!object.ok())
      return false;
    code = emulatedCode(object.data, kernelSymbol(spec.name, target));
    return true;
  }
  Features limited(Features features) const override {
    return features.small();
  }
  void add(Case c, const Code &code, uint64_t /*seed*/, Done done) override {
    waiting.push_back({std::make_unique<Trial>(
                           c, code, static_cast<Order>(waiting.size() % 4)),
                       std::move(done)});
    // So many at a time that memory stays small and progress shows.
    constexpr size_t kTogether = 16;
    if (waiting.size() == kTogether)
      flush();
  }
  void flush() override {
    std::vector<Job> jobs;
    for (const Waiting &one : waiting)
      jobs.push_back(one.trial->job);
    std::vector<std::string> outcomes = executor->run(jobs);
    for (size_t n = 0; n < waiting.size(); ++n)
      waiting[n].done(waiting[n].trial->c,
                      waiting[n].trial->judge(outcomes[n], &worst));
    waiting.clear();
  }

private:
  struct Waiting {
    std::unique_ptr<Trial> trial;
    Done done;
  };
  std::unique_ptr<Executor> executor;
  std::vector<Waiting> waiting;
};

} // namespace

/// Devices are asked for by the environment, since an interpreter checks more.
static bool wantsDevice() {
  const char *wanted = std::getenv("ATTN_CHECK_ON_DEVICE");
  return wanted != nullptr && *wanted != '\0';
}

static bool isDevice(const std::string &target) {
  const Target *found = findTarget(target);
  return found && found->isDevice();
}

std::unique_ptr<Runner> Runner::forTarget(const std::string &target,
                                          std::string &error) {
  const std::vector<TargetState> states = targetStates();
  const TargetState *found = nullptr;
  for (const TargetState &state : states)
    if (!found && (target == "host" ? state.runsHere : state.name == target))
      found = &state;
  std::unique_ptr<Runner> runner;
  if (!found) {
    error = fmt::format("there is no target '{}'", target);
    return runner;
  }
  if (found->runsHere) {
    runner = std::make_unique<NativeRunner>();
    runner->through = "native";
  } else if (isDevice(found->name)) {
    bool real = wantsDevice();
    runner = std::make_unique<EmulatedRunner>(real ? makeDeviceExecutor()
                                                   : makePtxExecutor());
    runner->through = real ? "device" : kPtxInterpreter;
  } else {
    Emulator emulator = emulatorFor(found->name);
    if (emulator.command.empty()) {
      error = fmt::format("{} does not run here (missing: {}): {}", found->name,
                          found->missing, emulator.missing);
      return runner;
    }
    runner = std::make_unique<EmulatedRunner>(makeEmulatedExecutor(emulator));
    runner->through = emulator.name;
  }
  runner->target = found->name;
  return runner;
}

Emulator emulatorFor(const std::string &target) {
  const Target *found = findTarget(target);
  if (isDevice(target)) {
    Emulator emulator;
    emulator.name = kPtxInterpreter;
    return emulator;
  }
  if (const Emulation *emulation = found ? found->emulation() : nullptr)
    return findEmulator(*emulation);
  Emulator emulator;
  emulator.missing = "there is no emulator for " + target;
  return emulator;
}

} // namespace attn::test

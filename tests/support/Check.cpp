//===- tests/support/Check.cpp - A variant's kernel against the oracle ----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Check.h"
#include "compiler/Compiler.h"
#include "tests/support/Emulated.h"
#include "tests/support/Generate.h"
#include "tests/support/Properties.h"
#include <exception>
#include <fmt/format.h>

namespace attn {

namespace {

using namespace attn::test;

/// Remembers the smallest failing case.
class Failures {
public:
  Failures(CheckReport &report, uint64_t seed) : report(report), seed(seed) {}

  void add(const Case &c, int64_t number, const std::string &what) {
    ++report.failures;
    int64_t size = c.batch * c.qLen * c.kvLen + c.qLen + c.kvLen;
    if (!report.firstFailure.empty() && size >= smallest)
      return;
    smallest = size;
    report.firstFailure = fmt::format("case {} of seed {}: {}\n{}", number,
                                      seed, what, describe(c));
  }

private:
  CheckReport &report;
  uint64_t seed;
  int64_t smallest = 0;
};

/// Small cases come first: they fail in the most readable way.
Features sizesOf(int64_t number, const Features &largest) {
  Features features = largest;
  if (number < 16) {
    features.maxLength = 4 + 4 * number;
    features.maxBatch = 1 + number / 8;
  }
  return features;
}

Case caseOf(const Spec &spec, const Code &code, uint64_t seed, int64_t number,
            const Features &largest) {
  Choices choices(seed * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(number));
  return randomCase(choices, sizesOf(number, largest), spec, code.descriptor());
}

void runHere(const Spec &spec, const CompileOptions &options, int64_t cases,
             uint64_t seed, const std::function<void(int64_t)> &progress,
             CheckReport &report) {
  report.through = "native";
  Code code;
  code.kernel = jit(spec, options, report.diagnostics);
  if (!code.kernel)
    return;
  auto executor = makeNativeExecutor();
  Properties properties(*executor, code);
  Failures failures(report, seed);
  Features features;
  features.maxWork = 60000000;
  for (int64_t n = 0; n < cases; ++n) {
    Case c = caseOf(spec, code, seed, n, features);
    std::string what =
        properties.all(c, seed + static_cast<uint64_t>(n), &report.worst);
    if (!what.empty())
      failures.add(c, n, what);
    ++report.cases;
    if (progress)
      progress(report.cases);
  }
}

void runEmulated(const Spec &spec, const CompileOptions &options,
                 const Emulator &emulator, int64_t cases, uint64_t seed,
                 const std::function<void(int64_t)> &progress,
                 CheckReport &report) {
  report.through = emulator.name;
  CompileResult object = compile(spec, "obj", options);
  report.diagnostics = object.diagnostics;
  if (!object.ok())
    return;
  Code code;
  try {
    code = emulatedCode(object.data, kernelSymbol(spec.name, options.target));
  } catch (const std::exception &error) {
    report.error = error.what();
    return;
  }
  auto executor = makeEmulatedExecutor(emulator);
  Failures failures(report, seed);
  // So many at a time that memory stays small and progress shows.
  constexpr int64_t kTogether = 16;
  for (int64_t first = 0; first < cases; first += kTogether) {
    std::vector<std::unique_ptr<Trial>> trials;
    std::vector<Job> jobs;
    for (int64_t n = first; n < std::min(cases, first + kTogether); ++n) {
      trials.push_back(std::make_unique<Trial>(
          caseOf(spec, code, seed, n, Features::smallCalls()), code,
          static_cast<Order>(n % 4)));
      jobs.push_back(trials.back()->job);
    }
    std::vector<std::string> outcomes = executor->run(jobs);
    for (size_t n = 0; n < trials.size(); ++n) {
      std::string what = trials[n]->judge(outcomes[n], &report.worst);
      if (!what.empty())
        failures.add(trials[n]->c, first + static_cast<int64_t>(n), what);
      ++report.cases;
    }
    if (progress)
      progress(report.cases);
  }
}

} // namespace

std::string emulatorOf(const std::string &target, std::string &missing) {
  Emulator emulator = emulatorFor(target);
  missing = emulator.missing;
  return emulator.name;
}

CheckReport checkSpec(const Spec &spec, const std::string &target,
                      int64_t cases, uint64_t seed,
                      const std::function<void(int64_t done)> &progress) {
  CheckReport report;
  if (spec.rope || spec.latent != 0) {
    report.error = "checking covers variants without 'rope' and 'latent'";
    return report;
  }
  const std::vector<TargetState> states = targetStates();
  const TargetState *found = nullptr;
  for (const TargetState &state : states)
    if (!found && (target == "host" ? state.runsHere : state.name == target))
      found = &state;
  if (!found) {
    report.error = fmt::format("there is no target '{}'", target);
    return report;
  }
  CompileOptions options;
  options.target = found->name;
  if (found->runsHere) {
    runHere(spec, options, cases, seed, progress, report);
    return report;
  }
  Emulator emulator = emulatorFor(found->name);
  if (emulator.command.empty())
    report.error = fmt::format("{} does not run here (missing: {}): {}",
                               found->name, found->missing, emulator.missing);
  else
    runEmulated(spec, options, emulator, cases, seed, progress, report);
  return report;
}

} // namespace attn

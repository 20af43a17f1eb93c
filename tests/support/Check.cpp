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
#include "tests/support/Runner.h"
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
  auto runner = Runner::forTarget(target, report.error);
  if (!runner)
    return report;
  report.through = runner->through;
  try {
    Code code;
    if (!runner->prepare(spec, code, report.diagnostics))
      return report;
    Failures failures(report, seed);
    const Features largest = runner->limited(Features());
    for (int64_t n = 0; n < cases; ++n)
      runner->add(caseOf(spec, code, seed, n, largest), code,
                  seed + static_cast<uint64_t>(n),
                  [&, n](const Case &c, const std::string &what) {
                    if (!what.empty())
                      failures.add(c, n, what);
                    ++report.cases;
                    if (progress)
                      progress(report.cases);
                  });
    runner->flush();
  } catch (const std::exception &error) {
    report.error = error.what();
  }
  report.worst = runner->worst;
  return report;
}

} // namespace attn

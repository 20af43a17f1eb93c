//===- tests/support/Runner.h - Judged calls on any target ----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_RUNNER_H
#define ATTNC_TESTS_SUPPORT_RUNNER_H

#include "tests/support/Executor.h"
#include "tests/support/Generate.h"
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace attn::test {

/// Compiles variants for one target, runs calls of them here or through the
/// target's emulator, and judges each against the oracle; here also in other
/// orders, batches and layouts. Not thread-safe.
class Runner {
public:
  virtual ~Runner() = default;

  /// For a target by name ("host": the best that runs here). Null where it
  /// neither runs here nor has an emulator; `error` says why.
  static std::unique_ptr<Runner> forTarget(const std::string &target,
                                           std::string &error);

  /// The kernel of a variant; without one where it is refused.
  virtual bool prepare(const Spec &spec, Code &code,
                       std::vector<Diagnostic> &diagnostics) = 0;
  /// The same features, with calls as large as suits what runs them.
  virtual Features limited(Features features) const = 0;
  /// Runs a call, now or with the next ones, and then calls `done` with an
  /// empty text or what is wrong. `seed` decides which keys are poisoned where
  /// calls are also run with some.
  using Done = std::function<void(const Case &c, const std::string &what)>;
  virtual void add(Case c, const Code &code, uint64_t seed, Done done) = 0;
  /// Runs what is left.
  virtual void flush() = 0;

  std::string target;  ///< its name
  std::string through; ///< "native", or the emulator's name
  double worst = 0;    ///< largest error, as a fraction of what is tolerated
};

} // namespace attn::test

#endif

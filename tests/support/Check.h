//===- tests/support/Check.h - A variant's kernel against the oracle ------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_CHECK_H
#define ATTNC_TESTS_SUPPORT_CHECK_H

#include "dsl/Spec.h"
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace attn {

/// What checking a variant found.
struct CheckReport {
  std::vector<Diagnostic> diagnostics; ///< why it was not compiled, if so
  std::string error;                   ///< why nothing could be run, if so
  std::string through; ///< "native", or the name of the emulator
  int64_t cases = 0;   ///< that were run
  int64_t failures = 0;
  /// The smallest failing case: what is wrong, the variant, sizes, lengths,
  /// layouts and the seed.
  std::string firstFailure;
  double worst = 0; ///< largest error, as a fraction of what is tolerated

  bool ok() const {
    return diagnostics.empty() && error.empty() && failures == 0;
  }
};

/// The name of the emulator that `checkSpec` takes for a target that does not
/// run here. Where there is none it is empty, and `missing` says what to do.
std::string emulatorOf(const std::string &target, std::string &missing);

/// Compiles a variant for a target ("host": the best that runs here) and runs
/// it on `cases` random calls: sizes, per-sequence lengths, strides, bases and
/// values, with poison wherever nothing may be read. Each is compared with an
/// evaluation in double precision; where the target runs here also in other
/// orders, batches and layouts. What can't run here runs through the target's
/// emulator, on small calls. `progress`, if set, is called with the number of
/// cases done. Equal seeds give equal cases. Sets signal handlers while it
/// runs: one check at a time in a process.
CheckReport checkSpec(const Spec &spec, const std::string &target,
                      int64_t cases, uint64_t seed,
                      const std::function<void(int64_t done)> &progress);

} // namespace attn

#endif

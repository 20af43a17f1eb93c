//===- tests/support/Conformance.h - What every target has to pass --------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_CONFORMANCE_H
#define ATTNC_TESTS_SUPPORT_CONFORMANCE_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace attn {

/// A part of the suite and what came of it.
struct ConformanceGroup {
  std::string name;
  int64_t variants = 0, cases = 0, failures = 0;
  std::string firstFailure; ///< the smallest failing case
};

struct ConformanceReport {
  std::string error;   ///< why nothing could be run, if so
  std::string target;  ///< its name
  std::string through; ///< "native", or the emulator's name
  std::vector<ConformanceGroup> groups;
  /// What of the language the target refuses: the variant's gist, the reason.
  std::vector<std::pair<std::string, std::string>> refused;
  double worst = 0; ///< largest error, as a fraction of what is tolerated

  bool ok() const;
};

/// The conformance suite, the same for every target: sizes around all tiles and
/// vectors with guard pages and poison around every tensor; variants in which
/// public implementations were wrong; random variants of three levels of the
/// language, each with `calls` random calls. `effort` is the number of random
/// variants a level. `progress`, if set, is called with a group's name and the
/// cases done. Equal seeds give equal cases. Sets signal handlers while it
/// runs.
ConformanceReport
checkTarget(const std::string &target, int64_t effort, uint64_t seed,
            const std::function<void(const std::string &group, int64_t done)>
                &progress);

} // namespace attn

#endif

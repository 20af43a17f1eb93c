//===- tools/attnc/Slices.h - Timing in short slices ----------------------===//
//
// Part of attnc. Apache-2.0.
//
// On a shared machine only short stretches run undisturbed. So a call is cut
// into ranges of work items of a few milliseconds each, the loops that show
// what the machine can do run in between, and best times are compared.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TOOLS_ATTNC_SLICES_H
#define ATTNC_COMPILER_TOOLS_ATTNC_SLICES_H

#include "compiler/Calibrate.h"
#include "runtime/attn_abi.h"
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

struct pthreadpool;

namespace attn {

/// Memory aligned to 64 bytes.
struct AlignedFree {
  void operator()(void *pointer) const;
};
using AlignedFloats = std::unique_ptr<float[], AlignedFree>;
/// `count` floats, each touched. Throws std::bad_alloc.
AlignedFloats allocateFloats(size_t count, float value);

/// A few threads that start and stop together.
class Team {
public:
  explicit Team(size_t threads);
  ~Team();
  Team(const Team &) = delete;
  Team &operator=(const Team &) = delete;

  size_t threads() const { return count; }
  /// Runs body(0) to body(threads - 1) at once; the seconds it took.
  double time(const std::function<void(size_t)> &body);

private:
  size_t count;
  pthreadpool *pool = nullptr;
};

/// What one run found. Rates are per second, of all threads together.
struct Measurement {
  double seconds = 0;       ///< sum over ranges of the best time
  double secondsMedian = 0; ///< sum over ranges of the median
  double peakFlops = 0;     ///< best slice of multiply-adds
  double peakBytes = 0;     ///< best slice of streaming reads
  size_t rounds = 0;        ///< times each range was run
  size_t slices = 0;        ///< ranges
};

/// Runs all `items` work items of a call again and again for about `budget`
/// seconds (at least three times), in slices. `streamBytes` is how much memory
/// the streaming reads go through.
Measurement measure(const attn_kernel &kernel, const attn_call &call,
                    int64_t items, const Calibration &loops, size_t streamBytes,
                    double budget, Team &team);

} // namespace attn

#endif

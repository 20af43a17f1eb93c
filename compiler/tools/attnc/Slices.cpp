//===- tools/attnc/Slices.cpp - Timing in short slices --------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/tools/attnc/Slices.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <pthreadpool.h>

namespace attn {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kKernelSlice = 2.5e-3;
constexpr double kPeakSlice = 1.5e-3;
constexpr size_t kLeastRounds = 3;
/// More rounds than this find no better times.
constexpr size_t kMostRounds = 400;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A range of work items, run `repeat` times a slice where it is very short.
struct Range {
  int64_t first = 0, last = 0;
  int64_t repeat = 1;
  std::vector<double> times; ///< of one pass
};

/// Runs ranges of the kernel's items, handed out one by one to the threads.
class KernelSlices {
public:
  KernelSlices(const attn_kernel &kernel, const attn_call &call, Team &team)
      : kernel(kernel), call(call), team(team) {
    const size_t floats =
        (size_t(std::max<int64_t>(kernel.scratch_bytes, 1)) + 63) / 64 * 16;
    for (size_t t = 0; t < team.threads(); ++t)
      scratch.push_back(allocateFloats(floats, 0));
  }

  /// Seconds of one pass over the range.
  double time(const Range &range) {
    double total;
    if (team.threads() == 1) {
      total = team.time([&](size_t) {
        for (int64_t r = 0; r < range.repeat; ++r)
          kernel.run(&call, range.first, range.last, scratch[0].get());
      });
    } else {
      const int64_t items = range.last - range.first;
      std::atomic<int64_t> next{0};
      total = team.time([&](size_t thread) {
        for (int64_t i; (i = next.fetch_add(1)) < items * range.repeat;) {
          const int64_t item = range.first + i % items;
          kernel.run(&call, item, item + 1, scratch[thread].get());
        }
      });
    }
    return total / double(range.repeat);
  }

  /// Cuts 0..items-1 into ranges of about a slice; items differ in cost, so
  /// each range's length follows from the one before.
  std::vector<Range> cut(int64_t items) {
    std::vector<Range> ranges;
    int64_t count = int64_t(team.threads());
    for (int64_t first = 0; first < items;) {
      Range range;
      range.first = first;
      range.last = std::min(items, first + count);
      // The best of three: a range that was disturbed looks longer than it is.
      const double took = std::min({time(range), time(range), time(range)});
      // Grow a first range that is much too short before going on.
      if (took < kKernelSlice / 2 && range.last < items) {
        count = grown(range.last - first, took);
        if (first == 0)
          continue;
      } else {
        count = grown(range.last - first, took);
      }
      ranges.push_back(range);
      first = range.last;
    }
    // The whole call is shorter than a slice: it is run several times in one.
    if (ranges.size() == 1) {
      const double took = time(ranges[0]);
      ranges[0].repeat = std::clamp<int64_t>(
          int64_t(kKernelSlice / std::max(took, 1e-9)), 1, 100000);
    }
    return ranges;
  }

private:
  int64_t grown(int64_t count, double took) const {
    const double ideal =
        double(count) * kKernelSlice / std::max(took, kKernelSlice / 64);
    const auto team64 = int64_t(team.threads());
    // Whole rounds of the team, so that no thread idles at the end.
    return std::max<int64_t>((int64_t(ideal) + team64 / 2) / team64, 1) *
           team64;
  }

  const attn_kernel &kernel;
  const attn_call &call;
  Team &team;
  std::vector<AlignedFloats> scratch;
};

/// The loops that a kernel is compared with.
class PeakSlices {
public:
  PeakSlices(const Calibration &loops, size_t streamBytes, Team &team)
      : loops(loops), team(team), sums(allocateFloats(16 * team.threads(), 0)) {
    blocks = std::max<int64_t>(
        int64_t(streamBytes / team.threads()) / loops.bytesPerBlock, 1);
    for (size_t t = 0; t < team.threads(); ++t)
      streams.push_back(
          allocateFloats(size_t(blocks * loops.bytesPerBlock) / 4, 1));
    iterations = fit(INT64_MAX / 8, [&](int64_t n) { multiplyAdd(0, n); });
    slice = fit(blocks, [&](int64_t n) { readBlocks(0, 0, n); });
  }

  double flops = 0, bytes = 0; ///< best rates so far

  void multiplyAdd() {
    const double took =
        team.time([&](size_t thread) { multiplyAdd(thread, iterations); });
    flops = std::max(flops, double(iterations) * loops.flopsPerIteration *
                                double(team.threads()) / took);
  }

  void read() {
    const int64_t start = position;
    const double took =
        team.time([&](size_t thread) { readBlocks(thread, start, slice); });
    bytes = std::max(bytes, double(slice * loops.bytesPerBlock) *
                                double(team.threads()) / took);
    // What is left at the end is shorter than a slice and is not read.
    position = start + 2 * slice <= blocks ? start + slice : 0;
  }

private:
  void multiplyAdd(size_t thread, int64_t count) {
    static const float seed[2] = {0.5f, 1.0f};
    loops.multiplyAdd(count, seed, &sums[16 * thread]);
  }
  void readBlocks(size_t thread, int64_t start, int64_t count) {
    loops.read(count, streams[thread].get() + start * loops.bytesPerBlock / 4,
               &sums[16 * thread]);
  }

  /// How often to do something so that it takes as long as a slice: from the
  /// best times of one thread alone, so that other work on the machine does
  /// not make slices too short to tell anything.
  template <typename Work> static int64_t fit(int64_t most, Work work) {
    int64_t count = std::min<int64_t>(1000, most);
    for (int attempt = 0; attempt < 24; ++attempt) {
      double best = kPeakSlice;
      for (int i = 0; i < 3; ++i) {
        const Clock::time_point start = Clock::now();
        work(count);
        best = std::min(best, since(start));
      }
      const double factor = kPeakSlice / std::max(best, 1e-9);
      if (factor < 1.2)
        break;
      count = std::min(int64_t(double(count) * std::min(factor, 4.0)), most);
    }
    return std::max<int64_t>(count, 1);
  }

  const Calibration &loops;
  Team &team;
  AlignedFloats sums;
  std::vector<AlignedFloats> streams;
  int64_t iterations = 0;
  int64_t blocks = 0, slice = 0, position = 0; ///< of the streams
};

double median(std::vector<double> values) {
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(middle),
                   values.end());
  return values[middle];
}

} // namespace

void AlignedFree::operator()(void *pointer) const { std::free(pointer); }

AlignedFloats allocateFloats(size_t count, float value) {
  if (count > SIZE_MAX / sizeof(float) - 64)
    throw std::bad_alloc();
  const size_t bytes = (count * sizeof(float) + 63) / 64 * 64;
  auto *pointer =
      static_cast<float *>(std::aligned_alloc(64, std::max<size_t>(bytes, 64)));
  if (!pointer)
    throw std::bad_alloc();
  std::fill_n(pointer, count, value);
  return AlignedFloats(pointer);
}

Team::Team(size_t threads) : count(threads) {
  if (threads > 1) {
    pool = pthreadpool_create(threads);
    if (!pool)
      throw std::bad_alloc();
  }
}

Team::~Team() {
  if (pool)
    pthreadpool_destroy(pool);
}

double Team::time(const std::function<void(size_t)> &body) {
  if (!pool) {
    const Clock::time_point start = Clock::now();
    body(0);
    return since(start);
  }
  const Clock::time_point start = Clock::now();
  pthreadpool_parallelize_1d(
      pool,
      [](void *context, size_t index) {
        (*static_cast<const std::function<void(size_t)> *>(context))(index);
      },
      const_cast<void *>(static_cast<const void *>(&body)), count, 0);
  return since(start);
}

Measurement measure(const attn_kernel &kernel, const attn_call &call,
                    int64_t items, const Calibration &loops, size_t streamBytes,
                    double budget, Team &team) {
  Measurement result;
  PeakSlices peak(loops, streamBytes, team);
  KernelSlices slices(kernel, call, team);
  std::vector<Range> ranges = slices.cut(items);
  result.slices = ranges.size();

  // Reads empty the caches for the kernel slice that follows, so they are few,
  // and come at another place in each round.
  const size_t readEvery = 4;
  const size_t peakEvery = std::max<size_t>(1, ranges.size() / 32);
  size_t turn = 0;
  const Clock::time_point start = Clock::now();
  for (size_t round = 0; round < kMostRounds; ++round) {
    if (round >= kLeastRounds && since(start) > budget)
      break;
    for (size_t i = 0; i < ranges.size(); ++i, ++turn) {
      ranges[i].times.push_back(slices.time(ranges[i]));
      if ((i + round) % peakEvery == 0)
        peak.multiplyAdd();
      if ((turn + round) % readEvery == 0)
        peak.read();
    }
    ++result.rounds;
  }
  for (const Range &range : ranges) {
    result.seconds += *std::min_element(range.times.begin(), range.times.end());
    result.secondsMedian += median(range.times);
  }
  result.peakFlops = peak.flops;
  result.peakBytes = peak.bytes;
  return result;
}

} // namespace attn

//===- tests/device/Cases.h - What is timed on a device -------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_DEVICE_CASES_H
#define ATTNC_TESTS_DEVICE_CASES_H

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace attn::device {

/// One call of a variant of timed.attn.
struct TimedCase {
  std::string variant;
  int64_t batch, heads, kvHeads, width, qLen, kvLen;
  bool causal;
  int64_t window = -1; ///< keys to each side; -1: all
  int64_t globals = 0; ///< the first positions are global

  std::string name() const {
    return variant + "_" + std::to_string(batch) + "x" + std::to_string(qLen) +
           "x" + std::to_string(kvLen);
  }
  /// (query, key) pairs that attend, of one head of one sequence.
  double pairs() const {
    double sum = 0;
    for (int64_t i = 0; i < qLen; ++i) {
      int64_t position = i + kvLen - qLen;
      int64_t last = causal ? position : kvLen - 1;
      if (window < 0 || position < globals) {
        sum += double(last + 1);
        continue;
      }
      int64_t first = std::max<int64_t>(position - window, 0);
      int64_t end = std::min(position + window, last) + 1;
      // The window, and the global keys before it.
      sum += double(end - first + std::min(globals, first));
    }
    return sum;
  }
  /// Two products of 2 x width operations for each pair.
  double flops() const {
    return 4.0 * double(width) * pairs() * double(heads) * double(batch);
  }
  /// Each tensor once, in f16.
  double bytes() const {
    return 2.0 * double(width) * double(batch) *
           (2.0 * double(heads * qLen) + 2.0 * double(kvHeads * kvLen));
  }
};

/// Prefill with 16384 tokens in all and 2048 columns in all heads, decode, and
/// Longformer.
inline std::vector<TimedCase> timedCases() {
  std::vector<TimedCase> all;
  for (int64_t width : {64, 128})
    for (bool causal : {false, true})
      for (int64_t n = 1024; n <= 16384; n *= 2) {
        int64_t heads = 2048 / width;
        std::string variant =
            (causal ? "causal_" : "dense_") + std::to_string(width);
        all.push_back({variant, 16384 / n, heads, heads, width, n, n, causal});
      }
  for (int64_t n : {2048, 8192, 32768})
    all.push_back({"decode_128", 16, 32, 8, 128, 1, n, true});
  for (int64_t n : {4096, 16384})
    all.push_back({"longformer_64", 4, 12, 12, 64, n, n, false, 256, 16});
  return all;
}

} // namespace attn::device

#endif

//===- tests/support/Choices.h - Random decisions that can be replayed ----===//
//
// Part of attnc. Apache-2.0.
//
// A generator draws every decision from one sequence of numbers. The sequence
// comes from a seed, or from a property-testing library, which then shrinks the
// case by shrinking the numbers: zero is always the simplest decision.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_CHOICES_H
#define ATTNC_TESTS_SUPPORT_CHOICES_H

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace attn::test {

class Choices {
public:
  /// An endless pseudo-random sequence; equal seeds give equal sequences.
  explicit Choices(uint64_t seed) : state(seed) {}
  /// These numbers, then zeros.
  explicit Choices(std::vector<uint32_t> numbers)
      : replay(true), numbers(std::move(numbers)) {}

  uint32_t next() {
    if (replay)
      return at < numbers.size() ? numbers[at++] : 0;
    // SplitMix64.
    state += 0x9e3779b97f4a7c15;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<uint32_t>((z ^ (z >> 31)) >> 32);
  }

  /// One of low..high; `low` is the simplest.
  int64_t between(int64_t low, int64_t high) {
    uint64_t span = static_cast<uint64_t>(high - low) + 1;
    return low + static_cast<int64_t>(next() % span);
  }
  /// True in `percent` of all cases; false is the simplest.
  bool chance(int percent) {
    return next() % 100 >= static_cast<uint32_t>(100 - percent);
  }
  /// An element; the first is the simplest.
  template <typename T> const T &oneOf(const std::vector<T> &from) {
    return from[next() % from.size()];
  }

private:
  bool replay = false;
  uint64_t state = 0;
  std::vector<uint32_t> numbers;
  size_t at = 0;
};

} // namespace attn::test

#endif

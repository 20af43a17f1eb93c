//===- tests/support/Fill.h - Reproducible tensor contents ----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_FILL_H
#define ATTNC_TESTS_SUPPORT_FILL_H

#include <cstdint>

namespace attn::test {

/// Element `index` (row-major, logical order) of the tensor of a seed: a value
/// in [-1, 1) with 24 significant bits, so exact in f32.
inline float fillValue(uint32_t seed, uint64_t index) {
  uint32_t u = static_cast<uint32_t>(index * 2654435761u + seed * 40503u + 1);
  u ^= u >> 16;
  u *= 2246822519u;
  u ^= u >> 13;
  u *= 3266489917u;
  u ^= u >> 16;
  return static_cast<float>(static_cast<double>(u >> 8) / 8388608.0 - 1);
}

} // namespace attn::test

#endif

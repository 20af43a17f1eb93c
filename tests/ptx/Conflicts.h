//===- tests/ptx/Conflicts.h - What an access costs -----------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PTX_CONFLICTS_H
#define ATTNC_TESTS_PTX_CONFLICTS_H

#include "Program.h"

namespace attn::ptx {

/// The addresses of one warp instruction, and what they add to the counts.
class Traffic {
public:
  explicit Traffic(Counts &into) : counts(into) {}

  void global(uint64_t address, unsigned bytes);
  void shared(unsigned lane, uint64_t address);
  /// Adds what global() was told as read, or as written.
  void addRead();
  void addWritten();
  /// Extra wavefronts of the accesses that shared() was told. Shared memory
  /// has 32 banks of 4 bytes; a wavefront serves as many lanes as 128 bytes
  /// hold accesses of this width, and one word of each bank.
  uint64_t conflicts(unsigned bytes) const;

private:
  uint64_t sectorBytes();

  Counts &counts;
  uint64_t bytes = 0;
  std::array<uint64_t, 2 * Lanes> sectors;
  unsigned sectorCount = 0;
  std::array<uint64_t, Lanes> addresses;
  Mask lanes = 0;
};

} // namespace attn::ptx

#endif

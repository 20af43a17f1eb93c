//===- tests/ptx/SharedMemory.h - Shared memory under watch ---------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PTX_SHAREDMEMORY_H
#define ATTNC_TESTS_PTX_SHAREDMEMORY_H

#include "Program.h"

namespace attn::ptx {

/// The shared memory of a block, and for every granule of it who wrote it last
/// and which warps have read it since when, in vector clocks. The granule is
/// the narrowest access that the kernel makes, so that none is ever split.
///
/// Two accesses to a granule, one of them a write, must be ordered: those of
/// two warps by barriers, those of two lanes of a warp by a barrier or a
/// bar.warp.sync.
class SharedMemory {
public:
  /// Throws Error where the kernel's needs exceed what the target has.
  SharedMemory(const Program &program, const Kernel &kernel,
               const Launch &launch, size_t warps);

  /// Forgets all: another block begins.
  void reset();

  /// As a reader, stands for the whole warp.
  static constexpr unsigned ManyLanes = 32;

  /// A reader packs its warp's clock and its lane.
  static constexpr unsigned LaneBits = 6;
  static constexpr uint32_t MaxClock = ~uint32_t(0) >> LaneBits;

  /// Addresses are those of the state space. Fails, in the warp's name, for
  /// what is out of bounds, misaligned, not yet written or not ordered.
  const std::byte *read(Warp &warp, const Instruction &instruction,
                        unsigned lane, uint64_t address, unsigned bytes,
                        unsigned reader);
  std::byte *write(Warp &warp, const Instruction &instruction, unsigned lane,
                   uint64_t address, unsigned bytes);
  /// An asynchronous write begins: until it ends nobody may touch the place.
  std::byte *beginAsync(Warp &warp, const Instruction &instruction,
                        unsigned lane, uint64_t address, unsigned bytes);
  /// It ends: the lane that waited for it counts as the writer.
  std::byte *endAsync(Warp &warp, unsigned lane, uint64_t address,
                      unsigned bytes, int line);

  /// Bytes of all objects together.
  size_t total() const { return totalBytes; }

private:
  enum class State : uint8_t { Empty, Written, Pending };
  struct Cell {
    uint32_t clock = 0;
    int32_t line = 0;
    uint16_t warp = 0;
    uint8_t lane = 0;
    State state = State::Empty;
  };
  std::byte *locate(Warp &warp, const Instruction &instruction, unsigned lane,
                    uint64_t address, unsigned bytes);
  [[noreturn]] void failBounds(Warp &warp, const Instruction &instruction,
                               unsigned lane, uint64_t address,
                               unsigned bytes) const;
  [[noreturn]] void failRace(Warp &warp, const Instruction &instruction,
                             unsigned lane, uint64_t granule, const char *what,
                             uint32_t otherWarp, unsigned otherLane,
                             int otherLine) const;
  /// `self` is the lane, or ManyLanes.
  void checkWriter(Warp &warp, const Instruction &instruction, unsigned lane,
                   unsigned self, uint64_t granule, const Cell &cell,
                   const char *what) const;
  void overwrite(Warp &warp, const Instruction &instruction, unsigned lane,
                 uint64_t address, unsigned bytes, State state);
  std::string place(uint64_t address) const;

  struct Object {
    uint64_t start, bytes;
    const Placed *placed;
  };
  std::vector<Object> objects;
  size_t lastObject = 0;
  std::vector<std::byte> storage;
  uint64_t start = 0; ///< the address of storage[0]
  unsigned shift = 0; ///< of a granule
  size_t warps;
  size_t totalBytes = 0;
  bool checks;
  std::vector<Cell> cells;
  std::vector<uint32_t> readers; ///< by granule, then warp
};

} // namespace attn::ptx

#endif

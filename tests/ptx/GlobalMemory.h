//===- tests/ptx/GlobalMemory.h - The memory that a launch may touch ------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PTX_GLOBALMEMORY_H
#define ATTNC_TESTS_PTX_GLOBALMEMORY_H

#include "Program.h"

namespace attn::ptx {

/// The regions of a launch and the module's own variables, at host addresses.
/// For every granule of what may be written it keeps who wrote and who read it,
/// since what two threads do to the same place, in one block without a barrier
/// between or in two blocks at all, has no defined outcome.
class GlobalMemory {
public:
  GlobalMemory(const Program &program, const Kernel &kernel,
               const Launch &launch);

  /// Blocks are told apart by their number in the order in which they run.
  void beginBlock(uint32_t number) { block = number; }

  /// Fails, in the warp's name, for what is out of bounds, misaligned,
  /// read-only or written by another thread without order.
  const std::byte *read(Warp &warp, const Instruction &instruction,
                        unsigned lane, uint64_t address, unsigned bytes);
  /// As read, for an access whose alignment is not its size.
  const std::byte *readAligned(Warp &warp, const Instruction &instruction,
                               unsigned lane, uint64_t address, unsigned bytes,
                               unsigned align);
  std::byte *write(Warp &warp, const Instruction &instruction, unsigned lane,
                   uint64_t address, unsigned bytes);

  /// The host address of a variable of Program::variables.
  uint64_t addressOf(uint32_t variable) const;

private:
  /// Block 0 stands for nobody. Of the readers the last one is kept, and
  /// whether there were several blocks.
  struct Cell {
    uint32_t writeBlock = 0, writeClock = 0;
    uint32_t readBlock = 0, readClock = 0;
    uint16_t writeWarp = 0, readWarp = 0;
    uint8_t writeLane = 0, readLane = 0;
    bool manyBlocks = false;
  };
  struct Area {
    uint64_t start, bytes;
    bool writable;
    std::string name;
    size_t align;            ///< declared; 0: not at all
    std::vector<Cell> cells; ///< by granule; of writable areas only
  };

  Area &locate(Warp &warp, const Instruction &instruction, unsigned lane,
               uint64_t address, unsigned bytes, unsigned align,
               const char *what);
  [[noreturn]] void failRace(Warp &warp, const Instruction &instruction,
                             unsigned lane, const Area &area, uint64_t granule,
                             const char *what, const char *other) const;
  /// Whether what another thread did comes before what this lane does.
  bool ordered(const Warp &warp, unsigned lane, uint32_t otherBlock,
               uint32_t otherWarp, uint32_t otherLane,
               uint32_t otherClock) const;

  const Program &program;
  std::vector<Area> areas; ///< in ascending order
  size_t lastArea = 0;
  std::vector<std::vector<std::byte>> variables; ///< by Program::variables
  bool checks;
  uint32_t block = 1;
  unsigned shift; ///< of a granule
};

} // namespace attn::ptx

#endif

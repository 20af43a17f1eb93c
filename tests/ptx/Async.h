//===- tests/ptx/Async.h - Copies that are under way ----------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PTX_ASYNC_H
#define ATTNC_TESTS_PTX_ASYNC_H

#include "Program.h"

namespace attn::ptx {

/// The asynchronous copies of a warp's lanes, from when a lane begins one until
/// it waits for its group. The bytes arrive when the lane waits: the latest
/// time that a device may choose.
class AsyncCopies {
public:
  struct Copy {
    Mask lanes = 0; ///< that have not waited yet
    unsigned bytes = 0;
    const Instruction *instruction = nullptr;
    std::array<uint64_t, Lanes> into{};          ///< shared addresses
    std::array<const std::byte *, Lanes> from{}; ///< null: nothing is read
    std::array<uint8_t, Lanes> sourceBytes{};    ///< the rest becomes zero
    std::array<uint32_t, Lanes> group{};
    std::array<std::array<std::byte, 16>, Lanes> seen{}; ///< when it began
  };

  /// A place for a copy that begins now, in each lane's open group.
  Copy &begin(const Instruction &instruction, Mask mask, unsigned bytes);
  /// Closes the open group of each lane.
  void commit(Mask mask);
  /// Ends the copies of all but the `left` latest closed groups.
  void wait(Warp &warp, Mask mask, uint32_t left);
  /// Closes the open group and ends all copies.
  void waitAll(Warp &warp, Mask mask);
  /// Fails, in the warp's name, if a lane of the mask has copies under way.
  void checkExit(Warp &warp, const Instruction &instruction, Mask mask) const;
  void reset();

private:
  void finish(Warp &warp, Copy &copy, Mask mask);

  std::vector<Copy> copies; ///< the first `count` of them, in order
  size_t count = 0;
  std::array<uint32_t, Lanes> committed{}; ///< groups that a lane has closed
};

} // namespace attn::ptx

#endif

//===- tests/ptx/Machine.h - Warps and blocks at work ---------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PTX_MACHINE_H
#define ATTNC_TESTS_PTX_MACHINE_H

#include "Async.h"
#include "GlobalMemory.h"
#include "Program.h"
#include "SharedMemory.h"
#include <cstring>

namespace attn::ptx {

class Machine;

/// Calls `body(lane)` for every lane of the mask, in ascending order.
template <class Body> void forLanes(Mask mask, Body body) {
  for (; mask != 0; mask &= mask - 1)
    body(unsigned(__builtin_ctz(mask)));
}
inline unsigned firstLane(Mask mask) { return unsigned(__builtin_ctz(mask)); }
inline unsigned countLanes(Mask mask) {
  return unsigned(__builtin_popcount(mask));
}

/// 32 lanes in lockstep.
///
/// Lanes that diverge form groups, each with a place in the code. The group
/// that is furthest behind runs, and groups that come to the same place merge:
/// without knowing the control flow's structure, lanes meet again as soon as
/// they can. Where an instruction needs more lanes than its group has, the
/// group waits until the others have come, so that the order in which groups
/// ran is never what makes a kernel fail; when all groups of a warp wait, lanes
/// are missing for good.
class Warp {
public:
  enum class State : uint8_t { Running, AtBarrier, Done };

  Warp(Machine &machine, uint32_t index, Mask present);
  Warp(Warp &&) = default;

  /// Prepares for another block.
  void reset();
  /// Runs until the warp waits at a barrier or is done.
  void run();

  template <class T> T *lanes(Slot slot) {
    return reinterpret_cast<T *>(file.get() + slot);
  }
  Mask &predicate(Slot slot) { return *lanes<Mask>(slot); }
  uint64_t base(Slot slot, bool wide, unsigned lane) {
    return wide ? lanes<uint64_t>(slot)[lane] : lanes<uint32_t>(slot)[lane];
  }

  void jump(const Instruction &instruction, Mask mask, uint32_t target);
  void exit(const Instruction &instruction, Mask mask);
  void waitAtBarrier(const Instruction &instruction);
  /// Marks registers as undefined on purpose: reading them is no fault.
  void define(uint32_t index, Mask mask) { defined[index] |= mask; }

  [[noreturn]] void fail(const Instruction &instruction, unsigned lane,
                         const std::string &message) const;

  Machine *machine;
  uint32_t index;
  Mask present; ///< lanes that the block gives the warp
  State state = State::Running;
  /// Vector clock: what this warp knows of the progress of each warp; its own
  /// entry is its clock, which moves on at every barrier.
  std::vector<uint32_t> known;
  uint32_t clock() const { return known[index]; }
  /// What follows is ordered after what the warp's lanes did so far.
  void advanceClock(const Instruction &instruction);
  AsyncCopies copies;
  const Instruction *barrier = nullptr; ///< where the warp waits

private:
  struct Group {
    uint32_t place;
    Mask lanes;
    bool waiting;
  };
  struct Free {
    void operator()(std::byte *bytes) const;
  };

  bool gather(const Instruction &instruction, Mask mask);
  void checkReads(const Instruction &instruction, Mask mask) const;
  [[noreturn]] void failUndefined(const Instruction &instruction,
                                  uint32_t which, Mask mask) const;
  [[noreturn]] void failDivergent() const;
  /// Chooses the group that runs next; false when all lanes have exited.
  bool schedule();

  std::unique_ptr<std::byte, Free> file;
  std::vector<Mask> defined; ///< by register: lanes that were written
  uint32_t place = 0;
  Mask active = 0;
  Mask exited = 0;
  std::vector<Group> groups; ///< the other ones
  bool reschedule = false;
  uint64_t executed = 0;
};

/// A barrier of a block and who has come to it.
struct Barrier {
  uint32_t expected = 0, arrived = 0; ///< in threads; expected 0: unused
  std::vector<uint32_t> known;        ///< join of what the arrived warps know
  std::vector<uint32_t> waiting;      ///< warps
};

/// A launch at work: runs its blocks one after another on the same storage.
class Machine {
public:
  /// The launch must be one that run() has found possible.
  Machine(const Program &program, const Kernel &kernel, const Launch &launch);

  Counts run();

  /// A warp comes to a barrier; `threads` 0 means the whole block.
  void arrive(Warp &warp, const Instruction &instruction, uint32_t id,
              uint32_t threads, bool waits);
  std::string where(const Warp &warp, unsigned lane) const;

  const Program &program;
  const Kernel &kernel;
  const Launch &launch;
  Dim position; ///< of the block
  Counts counts;
  std::vector<uint64_t> executions; ///< by instruction
  GlobalMemory global;
  SharedMemory shared;
  std::vector<std::byte> params;
  std::vector<Warp> warps;
  /// Local memory: all bytes of a thread together, and which were written.
  size_t localBytes = 0;
  std::vector<std::byte> local;
  std::vector<uint8_t> localWritten;

private:
  void validate() const;
  void runBlock();
  [[noreturn]] void failDeadlock() const;

  std::array<Barrier, 16> barriers;
};

/// Handlers for functions of lanes alone: `F` is a function from values to a
/// value, total and free of effects, and is computed for all lanes even where
/// few of them keep the result.
template <auto F> struct Lanewise;
template <class D, class... A, D (*F)(A...)> struct Lanewise<F> {
  static void run(Warp &warp, const Instruction &i, Mask mask) {
    apply(warp, i, mask, std::index_sequence_for<A...>());
  }

private:
  template <size_t... N>
  static void apply(Warp &warp, const Instruction &i, Mask mask,
                    std::index_sequence<N...>) {
    D result[Lanes];
    for (unsigned lane = 0; lane < Lanes; lane++)
      result[lane] = F(warp.lanes<A>(i.op[N + 1])[lane]...);
    keep(warp.lanes<D>(i.op[0]), result, mask);
  }

public:
  static void keep(D *into, const D *result, Mask mask) {
    if (mask == AllLanes)
      std::memcpy(into, result, Lanes * sizeof(D));
    else
      forLanes(mask, [&](unsigned lane) { into[lane] = result[lane]; });
  }
};

} // namespace attn::ptx

#endif

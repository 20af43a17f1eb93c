//===- tests/ptx/Program.h - A kernel ready to run ------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PTX_PROGRAM_H
#define ATTNC_TESTS_PTX_PROGRAM_H

#include "Interpreter.h"
#include "Syntax.h"
#include <array>

namespace attn::ptx {

struct Instruction;
class Warp;

/// The lanes of a warp, lane 0 in the lowest bit.
using Mask = uint32_t;
constexpr Mask AllLanes = ~Mask(0);
constexpr unsigned Lanes = 32;

/// Executes an instruction for the lanes of a mask that is never empty.
using Handler = void (*)(Warp &, const Instruction &, Mask);

/// Which lanes an instruction needs at the same place before it may begin.
enum class Gather : uint8_t {
  None,
  Whole,   ///< all 32 lanes of the warp
  Present, ///< all lanes that the block gives the warp
  Named,   ///< those of the mask in operand `membermask`
};

/// Registers, constants and special registers alike are offsets, in bytes,
/// into a warp's file: 32 lanes of the register's width, or a Mask for a
/// predicate.
using Slot = uint32_t;
constexpr Slot NoSlot = ~Slot(0);

struct Instruction {
  Handler run = nullptr;
  Slot predicate = NoSlot;
  bool negated = false;
  uint32_t predicateIndex = 0; ///< as in reads
  Gather gather = Gather::None;
  std::array<Slot, 16> op{}; ///< meaning and order are the handler's
  std::array<int64_t, 2> imm{};
  std::array<uint8_t, 6>
      small{}; ///< sizes and counts, as the handler reads them
  Slot membermask = NoSlot;
  uint32_t target = 0;           ///< of a branch
  std::vector<uint32_t> targets; ///< of brx.idx
  /// Indices of registers that must have been written, and that it writes.
  std::vector<uint32_t> reads, writes;
  int line = 0;
  uint32_t opcode = 0; ///< index into Program::opcodes
};

enum class Special : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  NwarpId,
  LaneMaskEq,
  LaneMaskLt,
  LaneMaskLe,
  LaneMaskGt,
  LaneMaskGe,
  DynamicSharedSize,
  TotalSharedSize,
};

/// Parts of a warp's file that are filled when a launch or a block begins.
struct Constant {
  Slot slot;
  unsigned bits;
  uint64_t value;
};
struct SpecialValue {
  Slot slot;
  Special which;
};
struct VariableAddress {
  Slot slot;
  uint32_t variable; ///< index into Program::variables
  int64_t offset;
};

/// A variable of shared or local memory: its address in that space.
struct Placed {
  std::string name;
  uint64_t address = 0;
  size_t bytes = 0;
  size_t align = 1;
  bool dynamic = false; ///< its size is the launch's
};

struct Kernel {
  KernelInfo info;
  std::vector<Instruction> code;
  size_t fileBytes = 0;   ///< of a warp's registers and constants
  uint32_t registers = 0; ///< that may be undefined
  std::vector<std::string> registerNames;
  std::vector<Constant> constants;
  std::vector<SpecialValue> specials;
  std::vector<VariableAddress> addresses;
  std::vector<Placed> shared, local;
  uint64_t dynamicStart = 0; ///< where dynamic shared memory begins
  /// Bytes of the narrowest access to shared and to global memory.
  unsigned sharedGranule = 16, globalGranule = 16;
};

/// Generic addresses of the spaces that are not host memory. They are no
/// addresses that a host gives out.
constexpr uint64_t SharedWindow = 0x5a00000000000000;
constexpr uint64_t LocalWindow = 0x5b00000000000000;
constexpr uint64_t ParamWindow = 0x5c00000000000000;
constexpr uint64_t WindowBytes = uint64_t(1) << 32;

struct Program {
  std::string name;
  std::string target;
  std::vector<KernelInfo> infos;
  std::vector<Kernel> kernels;     ///< as infos
  std::vector<Variable> variables; ///< of .global and .const
  std::vector<std::string> opcodes;
};

} // namespace attn::ptx

#endif

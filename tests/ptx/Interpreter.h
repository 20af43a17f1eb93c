//===- tests/ptx/Interpreter.h - Running PTX without a device -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PTX_INTERPRETER_H
#define ATTNC_TESTS_PTX_INTERPRETER_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace attn::ptx {

struct Program;

/// What is wrong with a text or with a launch of it. The message names the
/// module and the line, and for a launch the block and the thread.
struct Error : std::runtime_error {
  Error(int atLine, const std::string &message)
      : std::runtime_error(message), line(atLine) {}
  /// The line of the PTX, from 1; 0 where the launch itself is wrong.
  int line;
};

/// Extents of a grid or a block, or a position within one.
struct Dim {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t(x) * y * z; }
};

struct ParameterInfo {
  std::string name;
  size_t offset = 0; ///< in bytes from the start of the parameter block
  size_t bytes = 0;
  size_t align = 1;
};

struct KernelInfo {
  std::string name;
  std::vector<ParameterInfo> parameters;
  size_t parameterBytes = 0; ///< end of the last parameter
  size_t staticShared = 0;   ///< bytes of shared memory of fixed size
  size_t localBytes = 0;     ///< local memory of a thread, in bytes
  uint64_t maxThreads = 0;   ///< .maxntid as a count of threads; 0: not given
  Dim requiredThreads{0, 0, 0}; ///< .reqntid; x = 0: not given
};

/// A parsed module. Immutable and cheap to copy: threads may share one.
class Module {
public:
  /// Throws Error for whatever the interpreter does not know: no opcode,
  /// modifier, type or directive is skipped in silence.
  static Module parse(std::string_view text, std::string name = "ptx");

  const std::string &name() const;
  /// As in `.target`, such as "sm_80".
  const std::string &target() const;
  /// In the order of the text.
  const std::vector<KernelInfo> &kernels() const;
  /// Throws Error where there is none of that name.
  const KernelInfo &kernel(std::string_view kernelName) const;

  const Program &program() const { return *state; }

private:
  explicit Module(std::shared_ptr<const Program> program)
      : state(std::move(program)) {}
  std::shared_ptr<const Program> state;
};

/// Memory that kernels may touch, owned by the caller. Whoever wants overruns
/// found leaves room between regions: what lies in no region is out of bounds.
struct Region {
  void *data = nullptr;
  size_t bytes = 0;
  bool writable = false;
  std::string name; ///< for messages
  /// What the kernel may rely on, a power of two: a wider access is misaligned
  /// even where the address happens to suit it. 0: the address alone counts.
  size_t align = 0;
};

enum class Order : uint8_t { Forward, Reverse };

struct Launch {
  std::string kernel;
  Dim grid, block;
  size_t dynamicShared = 0;      ///< bytes for `.extern .shared` arrays
  std::vector<std::byte> params; ///< laid out as KernelInfo says
  std::vector<Region> memory;    ///< device addresses are host addresses
  bool checks = true; ///< without: only what would harm the interpreter itself
  Order order = Order::Forward;  ///< of blocks, and of warps within a block
  uint64_t instructionLimit = 0; ///< of a warp in one block; 0: unlimited
};

/// What a launch did, summed over its blocks. A warp instruction counts once,
/// however many of its lanes take part.
struct Counts {
  uint64_t warpInstructions = 0;
  std::map<std::string, uint64_t> byOpcode; ///< the opcode with its modifiers
  uint64_t mma = 0;
  uint64_t mmaFlops = 0;
  uint64_t barriers = 0; ///< barriers completed, of all blocks
  /// Bytes that lanes asked for, and bytes of the 32-byte sectors that they
  /// touch, each sector once for a warp instruction.
  uint64_t globalRead = 0, globalWritten = 0;
  uint64_t globalReadSectors = 0, globalWrittenSectors = 0;
  uint64_t sharedAccesses = 0;
  /// Wavefronts beyond those that the width of the access needs anyway.
  uint64_t matrixConflicts = 0; ///< of ldmatrix
  uint64_t sharedConflicts = 0; ///< of ld and st
  uint64_t asyncConflicts = 0;  ///< of the writes of cp.async
};

/// Runs a kernel, block after block, until it ends or breaks a rule. Throws
/// Error; what was written to memory until then stays written. Distinct
/// launches may run in distinct threads, each on memory of its own.
Counts run(const Module &module, const Launch &launch);

} // namespace attn::ptx

#endif

//===- compiler/Target.h - What the compiler asks of a machine ------------===//
//
// Part of attnc. Apache-2.0.
//
// The seam between the compiler and `targets/`. A target describes its machine
// in numbers, says what it does not lower, and turns a tile program into LLVM
// dialect and a TargetMachine that emits it. The compiler never names one.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TARGET_H
#define ATTNC_COMPILER_TARGET_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace llvm {
class TargetMachine;
}

namespace attn {

/// The numbers the planner works from.
struct TargetInfo {
  std::string name;     ///< as in `--target`
  std::string features; ///< what the CPU must have, "a,b,c" (attn_abi.h words)
  int preference = 0;   ///< the highest that runs is taken
  unsigned lanes = 4;   ///< f32 lanes of a vector register
  unsigned registers = 16;
  bool fusedMultiplyAdd = false;
  /// A multiply-add takes one element of a vector register for all lanes, so
  /// that one load serves as many broadcasts as there are lanes.
  bool multipliesByElement = false;
  /// Instructions convert vectors and scalars between f16 and f32.
  bool convertsF16 = false;
  /// Rows of a tile that a group of threads holds together in fragments; 0
  /// where tiles are loops over vectors.
  unsigned fragmentRows = 0;
  /// Memory that the threads of an item share, where tiles are in fragments.
  uint64_t sharedBytes = 0;
  /// What people call the text and the code that a device's driver takes, as in
  /// `--emit`; empty for a CPU.
  std::string assemblyName, binaryName;
  uint64_t l1Bytes = 32 << 10;
  uint64_t l2Bytes = 256 << 10;
};

/// The function that `lowerTiles` leaves of a tile program, the kernel's `run`
/// (runtime/attn_abi.h): void(ptr call, i64 first, i64 last, ptr scratch).
/// Whatever else the module defines is internal.
inline constexpr const char *kKernelFunction = "attn_kernel_run";
/// Its attribute that says how many bytes of scratch memory it needs.
inline constexpr const char *kScratchAttr = "attn.scratch_bytes";

/// A target that `isDevice` leaves void(ptr call, i64 first) instead: block i
/// of a launch does item first + i, with these many threads and bytes of memory
/// that they share.
inline constexpr const char *kThreadsAttr = "attn.threads";
inline constexpr const char *kSharedAttr = "attn.shared_bytes";

class AttentionOp;

class Target {
public:
  virtual ~Target() = default;
  virtual const TargetInfo &info() const = 0;

  /// True where this process can run the target's code. A target that needs an
  /// emulator here is not native.
  virtual bool runsHere() const = 0;
  /// What is missing for `runsHere`, in words of `TargetInfo::features`; empty
  /// if nothing.
  virtual std::string missingHere() const = 0;

  /// Dialects and translation interfaces that `lower` makes use of.
  virtual void registerDialects(mlir::DialectRegistry &registry) const = 0;
  /// Emits an error at the place of anything of the variant that this target
  /// does not lower: what it is, its value, what is allowed.
  virtual mlir::LogicalResult check(AttentionOp op) const = 0;
  /// Lowers every tile program of the module to loops and vectors.
  virtual mlir::LogicalResult lowerTiles(mlir::ModuleOp module) const = 0;
  /// Lowers loops and vectors to the LLVM dialect.
  virtual mlir::LogicalResult lowerToLLVM(mlir::ModuleOp module) const = 0;
  /// A code generator with explicit features. Thread-safe.
  virtual llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
  createTargetMachine() const = 0;

  /// Whether its code runs on a device beside the CPU that loads it. The code
  /// generator's assembly is then text for the device's driver.
  virtual bool isDevice() const { return false; }
  /// What that text is for just this device; an error where that can't be made
  /// here. Only of devices.
  virtual llvm::Expected<std::string>
  assemble(const std::string &assembly) const;
};

/// All registered targets, best first; they live as long as the process.
const std::vector<const Target *> &targets();
/// nullptr if there is none of that name. "host": the best that runs here.
const Target *findTarget(const std::string &name);

} // namespace attn

#endif

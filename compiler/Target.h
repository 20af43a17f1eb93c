//===- compiler/Target.h - What the compiler asks of a machine ------------===//
//
// Part of attnc. Apache-2.0.
//
// The seam between the compiler and `targets/`. A target describes its machine
// in numbers, says what it does not lower, and turns a tile program into LLVM
// dialect and a TargetMachine that emits it. The compiler never names one.
//
// The header is installed: targets may also come from a library that `attnc
// --load-target` opens (ATTN_TARGET_LIBRARY below; the tutorial is
// examples/new_target/README.md). It needs no header of LLVM or MLIR.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TARGET_H
#define ATTNC_COMPILER_TARGET_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// What the executable offers to libraries of targets.
#define ATTN_PUBLIC __attribute__((visibility("default")))

namespace llvm {
class TargetMachine;
struct LogicalResult;
template <class T> class Expected;
} // namespace llvm

namespace mlir {
class DialectRegistry;
class ModuleOp;
} // namespace mlir

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

/// How the code of a target runs on machines that can't run it themselves: what
/// links static executables for it, and what runs those. For tests, so speed
/// does not matter; the emulated CPU should have what the target may use and
/// little more.
struct Emulation {
  /// Found in PATH, under this name or with "-static" after it; started as
  /// PROGRAM OPTIONS... EXECUTABLE ARGUMENTS...
  std::string program;
  std::vector<std::string> options;
  std::string package; ///< of Debian, that brings the program
  /// The environment variable that names the program; PATH is then not asked.
  std::string variable;
  /// The program sees no file of this system, but is told which ones to put
  /// there and which to bring back:
  ///   PROGRAM --file HOST:GUEST --get GUEST:HOST EXECUTABLE ARGUMENTS...
  bool hasOwnFiles = false;
  std::string triple;       ///< clang's --target
  std::string linkPackages; ///< of Debian, that bring its C library, "a, b"
};

/// The function that `lowerTiles` leaves of a tile program, the kernel's `run`
/// (runtime/attn_abi.h): void(ptr call, i64 first, i64 last, ptr scratch).
/// Whatever else the module defines is internal.
inline constexpr const char *kKernelFunction = "attn_kernel_run";
/// Its attribute that says how many bytes of scratch memory it needs.
inline constexpr const char *kScratchAttr = "attn.scratch_bytes";

/// A target that `isDevice` leaves void(ptr call, i64 first) instead: block i
/// of a launch does item first + i, with these many threads and bytes of memory
/// that they share. Of the program that merges splits it leaves another such
/// function; of the one that stores their states, how many bytes one takes.
inline constexpr const char *kThreadsAttr = "attn.threads";
inline constexpr const char *kSharedAttr = "attn.shared_bytes";
inline constexpr const char *kMergeFunction = "attn_kernel_merge";
inline constexpr const char *kStateAttr = "attn.state_bytes";

class AttentionOp;

class ATTN_PUBLIC Target {
public:
  virtual ~Target() = default;
  virtual const TargetInfo &info() const = 0;

  /// True where this process can run the target's code. A target that needs an
  /// emulator here is not native.
  virtual bool runsHere() const = 0;
  /// What is missing for `runsHere`, in words of `TargetInfo::features`; empty
  /// if nothing.
  virtual std::string missingHere() const = 0;
  /// Null if nothing is known to run its code elsewhere.
  virtual const Emulation *emulation() const { return nullptr; }

  /// Dialects and translation interfaces that `lower` makes use of.
  virtual void registerDialects(mlir::DialectRegistry &registry) const = 0;
  /// Emits an error at the place of anything of the variant that this target
  /// does not lower: what it is, its value, what is allowed.
  virtual llvm::LogicalResult check(AttentionOp op) const = 0;
  /// Lowers every tile program of the module to loops and vectors.
  virtual llvm::LogicalResult lowerTiles(mlir::ModuleOp module) const = 0;
  /// Lowers loops and vectors to the LLVM dialect.
  virtual llvm::LogicalResult lowerToLLVM(mlir::ModuleOp module) const = 0;
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
/// Registers all of `more`, which live as long as the process, or none: the
/// result says why. Call it before other threads use the compiler.
std::string registerTargets(const std::vector<const Target *> &more);

} // namespace attn

// --- Libraries of targets ---------------------------------------------------

/// Changes whenever a library built against an earlier header would misbehave.
#define ATTN_TARGET_INTERFACE "1"

#if defined(_LIBCPP_VERSION)
#define ATTN_TARGET_CXX_LIBRARY "libc++"
#elif _GLIBCXX_USE_CXX11_ABI
#define ATTN_TARGET_CXX_LIBRARY "libstdc++"
#else
#define ATTN_TARGET_CXX_LIBRARY "libstdc++ (old strings)"
#endif

/// The whole version, for `llvm` as "22.1.8". Libraries of another are refused.
#define ATTN_TARGET_VERSION(llvm)                                              \
  ATTN_TARGET_INTERFACE ", LLVM " llvm ", " ATTN_TARGET_CXX_LIBRARY

/// Makes a library of targets: `add`, a void(std::vector<const attn::Target *>
/// &list), appends pointers to targets that live as long as the process. The
/// version is text under a plain name and is read before the library is
/// opened. ATTN_TARGET_LLVM is set by CMake's attnc_add_target.
#define ATTN_TARGET_LIBRARY(add)                                               \
  extern "C" {                                                                 \
  ATTN_PUBLIC extern const char attn_target_interface[];                       \
  const char attn_target_interface[] = ATTN_TARGET_VERSION(ATTN_TARGET_LLVM);  \
  ATTN_PUBLIC void attn_add_targets(std::vector<const attn::Target *> &list) { \
    add(list);                                                                 \
  }                                                                            \
  }

#endif

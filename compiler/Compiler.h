//===- compiler/Compiler.h - From a Spec to code --------------------------===//
//
// Part of attnc. Apache-2.0.
//
// The compiler's public C++ interface. Thread-safe; no exceptions; errors are
// diagnostics with places in the text. No LLVM type appears here.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_COMPILER_H
#define ATTNC_COMPILER_COMPILER_H

#include "dsl/Spec.h"
#include "runtime/attn_abi.h"
#include <string>
#include <vector>

namespace attn {

struct CompileOptions {
  std::string target = "host";
  std::string plan; ///< "KEY=VALUE,...": overrides of the planner's choices
  /// Whether an object has, beside a device's text, what its assembler makes of
  /// that: a driver does so too, when it loads the text.
  bool assembled = true;
};

/// What a compilation gives: bytes or text, or the reasons why not.
struct CompileResult {
  std::string data;
  std::vector<Diagnostic> diagnostics;
  bool ok() const { return diagnostics.empty(); }
};

/// One emit stage: "attn", "plan", "tile", "target", "llvm", "asm" (text) or
/// "obj" (an ELF object that exports its descriptor, see `kernelSymbol`).
CompileResult compile(const Spec &spec, const std::string &stage,
                      const CompileOptions &options);

/// The exported symbol of a kernel's `attn_kernel` descriptor:
/// attn_<variant>__<target, '-' as '_'>.
std::string kernelSymbol(const std::string &variant, const std::string &target);

/// The exported symbol of the `attn_bundle_table` of a variant's kernels in an
/// object for several targets: attn_<variant>__kernels. (No target is named
/// `kernels`.)
std::string tableSymbol(const std::string &variant);

/// A declared parameter as the descriptor of a kernel tells of it, with no
/// flags and no summary. `name` points into `param`; at most ATTN_MAX_DIMS
/// dimensions.
attn_param_info paramInfo(const Param &param);

/// The C header that goes with the object of these variants and targets (names
/// as `resolveTarget` gives them).
std::string emitHeader(const std::vector<Spec> &specs,
                       const std::vector<std::string> &targets);

/// One shared library with the kernels of all variants for all targets,
/// written whole to `path` or not at all.
std::vector<Diagnostic> compileBundle(const std::vector<Spec> &specs,
                                      const std::vector<std::string> &targets,
                                      const std::string &plan,
                                      const std::string &path);

/// One relocatable object with the kernels of all variants for all targets,
/// written whole to `path` or not at all. With several targets it exports a
/// table for each variant as well (see `tableSymbol`).
std::vector<Diagnostic> compileObject(const std::vector<Spec> &specs,
                                      const std::vector<std::string> &targets,
                                      const std::string &plan,
                                      const std::string &path);

/// Compiles in memory and returns a kernel that lives as long as the process.
/// Each distinct (spec, options) is compiled once however many threads ask.
/// nullptr with diagnostics on failure. A kernel of a device has its code for
/// the device's driver; nothing is asked of the driver here.
const attn_kernel *jit(const Spec &spec, const CompileOptions &options,
                       std::vector<Diagnostic> &diagnostics);

/// Names of the registered targets, best first, and whether they run here.
struct TargetState {
  std::string name;
  std::string features;
  bool runsHere = false;
  std::string missing;
};
std::vector<TargetState> targetStates();

/// Opens a library of targets (compiler/Target.h) and registers them, all or
/// none; the same file again is nothing new. The result names the file and says
/// what is wrong, or is empty. Only in an executable that exports the interface
/// to libraries, and before other threads use the compiler.
std::string loadTargets(const std::string &path);

/// The name of the target that `name` stands for ("host": the best that runs
/// here); empty, with a diagnostic, if there is none.
std::string resolveTarget(const std::string &name,
                          std::vector<Diagnostic> &diagnostics);

/// A text that differs whenever generated code may differ.
std::string compilerVersion();

} // namespace attn

#endif

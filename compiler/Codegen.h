//===- compiler/Codegen.h - From an LLVM module to code -------------------===//
//
// Part of attnc. Apache-2.0.
//
// Turns the module that the stages leave behind into a self-standing object:
// one exported descriptor, everything else local, nothing undefined. Internal
// to the compiler. Every function is thread-safe as long as no two threads
// share a module.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_CODEGEN_H
#define ATTNC_COMPILER_CODEGEN_H

#include "compiler/Pipeline.h"
#include "compiler/Target.h"
#include "dsl/Spec.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace attn {

enum class CodeKind : uint8_t {
  LLVM,        ///< text of the optimised LLVM IR
  Assembly,    ///< text
  Object,      ///< bytes of an ELF object
  Unassembled, ///< the same, with a device's text alone
  Binary,      ///< what a device's assembler makes of the assembly
};

/// The code of a kernel for a device.
struct DeviceCode {
  std::string entry;        ///< name of its function
  std::string text;         ///< for the device's driver
  std::string binary;       ///< for just this device; may be empty
  std::string mergeEntry{}; ///< the function that merges splits; empty: none
};

/// Names `module`'s `attn_kernel_run` after the variant, makes every other
/// definition local and adds the exported descriptor `kernelSymbol(...)`.
/// Appends a diagnostic and returns false if the module is not as promised.
/// With `device` the module may be empty.
bool addDescriptor(llvm::Module &module, const Spec &spec,
                   const TargetInfo &target, const KernelFacts &facts,
                   std::vector<Diagnostic> &diagnostics,
                   const DeviceCode *device = nullptr);

/// Optimises `module` and emits it for `target`. The module is spent. Empty,
/// with diagnostics, on failure: among others if an object would need a symbol
/// from elsewhere, since kernels stand alone.
std::string emitCode(llvm::Module &module, const Target &target, CodeKind kind,
                     std::vector<Diagnostic> &diagnostics);

/// `lowerToLLVMIR`, `addDescriptor` and `emitCode` in a context of their own.
/// The object of a device's kernel is data for the CPU that loads it:
/// `carrier`.
std::string compileKernel(const Spec &spec, const Target &target,
                          const Target &carrier, const std::string &plan,
                          CodeKind kind, std::vector<Diagnostic> &diagnostics);

/// A table of kernels: an object that exports the `attn_bundle_table` named
/// `table` and refers to the descriptors `symbols`, in their order.
std::string emitBundleTable(const std::string &table,
                            const std::vector<std::string> &symbols,
                            const Target &target,
                            std::vector<Diagnostic> &diagnostics);

/// Sends what LLVM reports about `context` to `diagnostics`, which must
/// outlive it. Without this LLVM prints errors and ends the process.
void collectDiagnostics(llvm::LLVMContext &context,
                        std::vector<Diagnostic> &diagnostics);

/// `findTarget`, with a diagnostic that lists the targets if there is none.
const Target *findTarget(const std::string &name,
                         std::vector<Diagnostic> &diagnostics);

/// The diagnostic for a fault of the compiler itself.
Diagnostic internalError(const std::string &what);

} // namespace attn

#endif

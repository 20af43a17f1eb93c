//===- compiler/Pipeline.h - The ordered list of stages -------------------===//
//
// Part of attnc. Apache-2.0.
//
// From a Spec through the IR stages to an LLVM module. Internal to the
// compiler.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_PIPELINE_H
#define ATTNC_COMPILER_PIPELINE_H

#include "compiler/Target.h"
#include "dsl/Spec.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include <memory>
#include <string>
#include <vector>

namespace attn {

/// What a kernel relies on in a parameter (runtime/attn_abi.h).
struct ParamFacts {
  int32_t flags = 0;       ///< of attn_param_flag
  int32_t summaryDim = -1; ///< which dimension it wants summed up in blocks
};

/// What the descriptor of a kernel says beyond the Spec.
struct KernelFacts {
  /// What does one item on a device.
  struct Block {
    int64_t threads = 0;
    int64_t sharedBytes = 0; ///< that they share
  };
  int64_t itemGroups = 0;
  int64_t itemHeads = 0;
  int64_t itemRows = 0;
  int64_t scratchBytes = 0;
  bool globals = false;           ///< global rows are work items of their own
  std::vector<ParamFacts> params; ///< one a declared parameter
  int64_t splitKeys = 0;          ///< 0: keys are never split
  int64_t stateBytes = 0;         ///< what an item of a split stores
  Block items, merge;             ///< on a device
};

/// Runs every stage. On failure returns null and appends diagnostics.
std::unique_ptr<llvm::Module>
lowerToLLVMIR(const Spec &spec, const Target &target, const std::string &plan,
              llvm::LLVMContext &context, KernelFacts &facts,
              std::vector<Diagnostic> &diagnostics);

/// The text of the MLIR after a stage: "attn", "plan", "tile" or "target".
std::string emitMLIR(const Spec &spec, const Target &target,
                     const std::string &plan, const std::string &stage,
                     std::vector<Diagnostic> &diagnostics);

} // namespace attn

#endif

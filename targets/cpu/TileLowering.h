//===- targets/cpu/TileLowering.h - Tile programs to loops ----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_CPU_TILELOWERING_H
#define ATTNC_TARGETS_CPU_TILELOWERING_H

#include "compiler/Target.h"
#include "mlir/IR/BuiltinOps.h"

namespace attn {

/// The widest row of queries, keys or values that is lowered.
inline constexpr int64_t kMaxWidth = 4096;

/// Replaces every `attn.kernel` by a function over work items (the signature of
/// attn_kernel_fn) in scf, arith, vector and LLVM memory ops.
mlir::LogicalResult lowerTilesToLoops(mlir::ModuleOp module,
                                      const TargetInfo &target);

} // namespace attn

#endif

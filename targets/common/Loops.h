//===- targets/common/Loops.h - From loops to the LLVM dialect ------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_COMMON_LOOPS_H
#define ATTNC_TARGETS_COMMON_LOOPS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"

namespace attn {

/// What lowered tile programs are made of, and how it becomes LLVM IR.
void registerLoopDialects(mlir::DialectRegistry &registry);

/// `scf`, `arith`, `vector` and `func` to the LLVM dialect.
mlir::LogicalResult lowerLoopsToLLVM(mlir::ModuleOp module);

} // namespace attn

#endif

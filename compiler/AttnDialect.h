//===- compiler/AttnDialect.h - The attn dialect --------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_ATTNDIALECT_H
#define ATTNC_COMPILER_ATTNDIALECT_H

#include "compiler/Plan.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

// Generated code has parameters it does not use.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "compiler/AttnOpsDialect.h.inc"
#include "compiler/AttnOpsEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/AttnOpsAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/AttnOpsTypes.h.inc"
#define GET_OP_CLASSES
#include "compiler/AttnOps.h.inc"
#pragma GCC diagnostic pop

namespace attn {
/// The arguments of a mask region, in order.
enum MaskArg : unsigned {
  MaskB,
  MaskH,
  MaskG,
  MaskQ,
  MaskK,
  MaskQLen,
  MaskKvLen
};
inline constexpr unsigned kMaskArgs = 7;
/// A score region has the score first, then the arguments of a mask region.
inline constexpr unsigned kScoreArgs = kMaskArgs + 1;

/// The plan as the planner's struct.
Plan toPlan(PlanAttr attr);
} // namespace attn

#endif

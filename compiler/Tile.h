//===- compiler/Tile.h - From the plan to a tile program ------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TILE_H
#define ATTNC_COMPILER_TILE_H

#include "compiler/AttnDialect.h"
#include "compiler/Plan.h"
#include "mlir/IR/BuiltinOps.h"

namespace attn {

/// The planner's view of a variant.
Problem problemOf(AttentionOp op);

/// Sets the plan of the variant; reports an illegal override at its place.
mlir::LogicalResult setPlan(AttentionOp op, const TargetInfo &target,
                            llvm::StringRef overrides,
                            std::vector<std::string> *reasons = nullptr);

/// What work items are numbered by: a group of heads that share a kv head and a
/// dilation where the plan packs heads, else each head alone; and of a dilated
/// one, each residue class of its queries.
struct ItemGroup {
  AttentionOp::Group heads;
  int64_t residue;

  /// Rows of the class: queries residue, residue + dilation, ... by heads.
  int64_t rows(int64_t qLen) const {
    return (qLen - residue + heads.dilation - 1) / heads.dilation * heads.heads;
  }
};
llvm::SmallVector<ItemGroup> itemGroups(AttentionOp op, const Plan &plan);

/// Replaces every planned `attn.attention` of the module by its tile program.
mlir::LogicalResult buildTilePrograms(mlir::ModuleOp module);

} // namespace attn

#endif

//===- compiler/Passes.h - The stages as passes ---------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_PASSES_H
#define ATTNC_COMPILER_PASSES_H

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/Pass.h"
#include <memory>
#include <string>

namespace attn {

class Target;

/// Sets `#attn.plan` on every variant.
std::unique_ptr<mlir::Pass> createPlanPass(const Target &target,
                                           std::string overrides);
/// Replaces variants by tile programs.
std::unique_ptr<mlir::Pass> createTilePass();
/// Replaces tile programs by loops and vectors.
std::unique_ptr<mlir::Pass> createLowerTilesPass(const Target &target);

/// What the stages of every registered target make use of.
void registerAllDialects(mlir::DialectRegistry &registry);
/// Registers the stages as --attn-plan, --attn-tile and --attn-lower-tiles.
void registerStages();

} // namespace attn

#endif

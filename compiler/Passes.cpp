//===- compiler/Passes.cpp - The stages as passes -------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Passes.h"
#include "compiler/Target.h"
#include "compiler/Tile.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace attn {
namespace {

/// A pass over the module with a target that the command line can name.
template <typename Derived>
class TargetPass : public PassWrapper<Derived, OperationPass<ModuleOp>> {
public:
  TargetPass() = default;
  explicit TargetPass(const Target &target) : given(&target) {}
  TargetPass(const TargetPass &other)
      : PassWrapper<Derived, OperationPass<ModuleOp>>(other),
        given(other.given) {}

  void getDependentDialects(DialectRegistry &registry) const override {
    registerAllDialects(registry);
  }

protected:
  const Target *target() {
    if (given)
      return given;
    const Target *found = findTarget(targetName);
    if (!found)
      this->getOperation().emitError()
          << "there is no target '" << targetName.getValue() << "'";
    return found;
  }

  const Target *given = nullptr;
  Pass::Option<std::string> targetName{*this, "target",
                                       llvm::cl::desc("name of the target"),
                                       llvm::cl::init("host")};
};

struct PlanPass : TargetPass<PlanPass> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanPass)
  PlanPass() = default;
  PlanPass(const Target &target, std::string plan) : TargetPass(target) {
    overrides = std::move(plan);
  }
  PlanPass(const PlanPass &other) : TargetPass(other) {
    overrides = other.overrides.getValue();
  }
  StringRef getArgument() const override { return "attn-plan"; }
  StringRef getDescription() const override { return "plan every variant"; }
  void runOnOperation() override {
    const Target *t = target();
    if (!t)
      return signalPassFailure();
    for (AttentionOp op : getOperation().getOps<AttentionOp>())
      if (failed(t->check(op)) || failed(setPlan(op, t->info(), overrides)))
        return signalPassFailure();
  }
  Pass::Option<std::string> overrides{
      *this, "plan", llvm::cl::desc("KEY=VALUE,... instead of the planner's")};
};

struct TilePass : PassWrapper<TilePass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TilePass)
  StringRef getArgument() const override { return "attn-tile"; }
  StringRef getDescription() const override {
    return "variants to tile programs";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<scf::SCFDialect, arith::ArithDialect>();
  }
  void runOnOperation() override {
    if (failed(buildTilePrograms(getOperation())))
      signalPassFailure();
  }
};

struct LowerTilesPass : TargetPass<LowerTilesPass> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerTilesPass)
  using TargetPass::TargetPass;
  StringRef getArgument() const override { return "attn-lower-tiles"; }
  StringRef getDescription() const override {
    return "tile programs to loops and vectors";
  }
  void runOnOperation() override {
    const Target *t = target();
    if (!t || failed(t->lowerTiles(getOperation())))
      signalPassFailure();
  }
};

} // namespace

std::unique_ptr<Pass> createPlanPass(const Target &target,
                                     std::string overrides) {
  return std::make_unique<PlanPass>(target, std::move(overrides));
}
std::unique_ptr<Pass> createTilePass() { return std::make_unique<TilePass>(); }
std::unique_ptr<Pass> createLowerTilesPass(const Target &target) {
  return std::make_unique<LowerTilesPass>(target);
}

void registerAllDialects(DialectRegistry &registry) {
  registry.insert<AttnDialect, scf::SCFDialect, arith::ArithDialect,
                  math::MathDialect>();
  for (const Target *target : targets())
    target->registerDialects(registry);
}

void registerStages() {
  PassRegistration<PlanPass>();
  PassRegistration<TilePass>();
  PassRegistration<LowerTilesPass>();
}

} // namespace attn

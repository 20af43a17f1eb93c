//===- compiler/Items.cpp - A variant's plan and its work items -----------===//
//
// Part of attnc. Apache-2.0.
//
// Between the variant in the IR and the planner, which knows numbers only.
//
//===----------------------------------------------------------------------===//
#include "compiler/Tile.h"

using namespace mlir;

namespace attn {

Problem problemOf(AttentionOp op) {
  Problem problem;
  problem.qkDim = op.getQkDim();
  problem.valueDim = op.getValueDim();
  for (const AttentionOp::Group &group : op.groups())
    problem.groupSizes.push_back(group.heads);
  auto reads = [](Region &region, unsigned argument) {
    return !region.empty() && !region.getArgument(argument).use_empty();
  };
  auto bytes = [](mlir::Type type) {
    return int64_t(type.getIntOrFloatBitWidth() / 8);
  };
  problem.qBytes = bytes(op.getQType());
  problem.kvBytes = bytes(op.getKvType());
  problem.outBytes = bytes(op.getOutType());
  problem.readsHead =
      reads(op.getMask(), MaskH) || reads(op.getScore(), MaskH + 1);
  return problem;
}

LogicalResult setPlan(AttentionOp op, const TargetInfo &target,
                      StringRef overrides, std::vector<std::string> *reasons) {
  Problem problem = problemOf(op);
  PlanWithReasons result = makePlan(problem, target);
  llvm::Error error = overridePlan(result, overrides);
  if (!error)
    error = checkPlan(result.plan, problem, target);
  if (error) {
    op.emitError() << llvm::toString(std::move(error));
    return failure();
  }
  const Plan &p = result.plan;
  op.setPlanAttr(PlanAttr::get(op.getContext(), p.rows, p.keys, p.heads,
                               p.scoreKeys, p.scoreVectors, p.valueRows,
                               p.valueVectors, p.unroll, p.split));
  if (reasons)
    *reasons = std::move(result.reasons);
  return success();
}

SmallVector<ItemGroup> itemGroups(AttentionOp op, const Plan &plan) {
  SmallVector<ItemGroup> items;
  for (AttentionOp::Group group : op.groups()) {
    const int64_t together = plan.heads > 1 ? group.heads : 1;
    for (int64_t head = 0; head < group.heads; head += together)
      for (int64_t residue = 0; residue < group.dilation; ++residue)
        items.push_back(
            {{group.firstHead + head, together, group.kvHead, group.dilation},
             residue});
  }
  return items;
}

} // namespace attn

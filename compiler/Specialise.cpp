//===- compiler/Specialise.cpp - A mask where more is known of its pairs --===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Specialise.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace attn {

/// The value of a condition that is known, if it is.
static std::optional<bool> valueOf(Operation &op, Block &block,
                                   const PairFacts &facts) {
  if (isa<CongruentOp>(op))
    return facts.congruent ? std::optional(true) : std::nullopt;
  if (auto member = dyn_cast<MemberOp>(op)) {
    if (member.getPosition() == block.getArgument(MaskQ))
      return facts.listedQuery;
    if (member.getPosition() == block.getArgument(MaskK))
      return facts.listedKey;
  }
  return std::nullopt;
}

std::unique_ptr<Region> specialised(Region &mask, PairFacts facts) {
  auto result = std::make_unique<Region>();
  if (mask.empty())
    return result;
  Block &from = mask.front();
  OpBuilder b(mask.getContext());
  Block *to = b.createBlock(result.get());
  IRMapping map;
  for (BlockArgument arg : from.getArguments())
    map.map(arg, to->addArgument(arg.getType(), arg.getLoc()));
  for (Operation &op : from) {
    if (auto known = valueOf(op, from, facts)) {
      map.map(op.getResult(0),
              arith::ConstantOp::create(b, op.getLoc(), b.getBoolAttr(*known)));
      continue;
    }
    Operation *copy = b.clone(op, map);
    SmallVector<Value> folded;
    if (copy->getNumResults() == 1 && succeeded(b.tryFold(copy, folded)) &&
        folded.size() == 1) {
      map.map(op.getResult(0), folded[0]);
      copy->erase();
    }
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*to)))
    if (!isa<YieldOp>(op) && op.use_empty())
      op.erase();
  if (matchPattern(to->getTerminator()->getOperand(0), m_One()))
    result->getBlocks().clear();
  return result;
}

SmallVector<int64_t> listsOf(Region &mask) {
  SmallVector<int64_t> lists;
  mask.walk([&](MemberOp op) { lists.push_back(op.getNumber()); });
  llvm::sort(lists);
  lists.erase(llvm::unique(lists), lists.end());
  return lists;
}

/// With one list, being listed is being in that one.
static PairFacts facts(AttentionOp op, std::optional<bool> query,
                       std::optional<bool> key, bool sameClass) {
  const size_t lists = listsOf(op.getMask()).size();
  auto known = [&](std::optional<bool> listed) {
    return lists == 0 || (listed.value_or(false) && lists > 1) ? std::nullopt
                                                               : listed;
  };
  return {known(query), known(key), sameClass && op.getDilation().has_value()};
}

MaskParts::MaskParts(AttentionOp op)
    : lists(listsOf(op.getMask())),
      dense(op.getMask(), facts(op, false, std::nullopt, true)),
      denseHull(op.getMask(), facts(op, false, false, true)),
      gathered(op.getMask(), facts(op, false, true, false)),
      listed(op.getMask(), facts(op, true, std::nullopt, false)) {}

} // namespace attn

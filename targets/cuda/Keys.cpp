//===- targets/cuda/Keys.cpp - Tiles of keys and values -------------------===//
//
// Part of attnc. Apache-2.0.
//
// Two barriers a step. One says that a tile of keys has arrived and that nobody
// reads the values of the step before: the copy of this step's values begins.
// The other says that they have arrived and that nobody reads the keys: the
// copy of the next step's keys begins. So one of the two is always on its way
// while the other is multiplied.
//
//===----------------------------------------------------------------------===//
#include "targets/cuda/FragmentLowering.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace attn {

static Operand operandOf(LoadKeysOp op) {
  return op.getSource().getDefiningOp<TensorOp>().getWhich();
}

/// Copies the tile as far as it exists, to be waited for.
void FragmentLowering::copyKeys(LoadKeysOp op) {
  const Operand which = operandOf(op);
  const CallFields::Tensor tensor = loadOperand(which);
  const SharedRows &area = which == Operand::K ? keyRows : valueRows;
  Value count = scalar(op.getCount());
  Value head = e.add(e.mul(scalar(op.getBatch()), tensor.stride[0]),
                     e.mul(scalar(op.getHead()), tensor.stride[1]));
  if (op.getListed()) {
    Value positions = tiles.lookup(op.getListed());
    auto place = [&](Value r) {
      // Rows beyond the last are not read; nor are their positions.
      Value token = wide(positionAt(positions, e.min(r, e.sub(count, e.c(1)))));
      return e.add(head, e.mul(token, tensor.stride[2]));
    };
    copyIn(area, plan.keys, {tensor, {}, {}, place, count});
  } else {
    Value step = op.getStep() ? scalar(op.getStep()) : e.c(1);
    Value base = e.add(head, e.mul(scalar(op.getToken()), tensor.stride[2]));
    copyIn(area, plan.keys,
           {tensor, base, e.mul(tensor.stride[2], step), {}, count});
  }
  commitCopies();
}

void FragmentLowering::loadKeys(LoadKeysOp op) {
  const bool isKeys = operandOf(op) == Operand::K;
  if (isKeys && !stream) {
    barrier(); // of those who read the tile before
    copyKeys(op);
  }
  if (!isKeys)
    valuesAwaited = op; // by `scores`, once the keys have arrived
  keyTiles[op.getTile()] = {isKeys ? keyRows : valueRows,
                            scalar(op.getCount())};
}

/// Where every step of the loop loads one tile of keys, at a place that only
/// the number of the step decides.
std::optional<FragmentLowering::KeyStream>
FragmentLowering::streamOf(scf::ForOp loop) {
  KeyStream result;
  result.number = loop.getInductionVar();
  bool isOne = true;
  loop.getBody()->walk([&](LoadKeysOp op) {
    if (operandOf(op) != Operand::K)
      return;
    if (!result.load)
      result.load = op;
    isOne &= !op.getListed() && op->getOperands() == result.load->getOperands();
  });
  if (!result.load || !isOne)
    return std::nullopt;
  SmallVector<Value> needed(result.load->getOperands());
  llvm::SetVector<Operation *> found;
  while (!needed.empty()) {
    Operation *op = needed.pop_back_val().getDefiningOp();
    if (!op || !loop->isProperAncestor(op) || isa<TensorOp>(op) ||
        !found.insert(op))
      continue;
    if (op->getBlock() != loop.getBody() ||
        op->getDialect()->getNamespace() != "arith")
      return std::nullopt;
    needed.append(op->operand_begin(), op->operand_end());
  }
  // In the order of the loop's body.
  for (Operation &op : *loop.getBody())
    if (found.contains(&op))
      result.address.push_back(&op);
  return result;
}

/// Begins to copy the tile of step `number`, if there is such a step.
void FragmentLowering::copyAhead(const KeyStream &stream, Value number) {
  e.branch(e.less(number, stream.last), [&] {
    const IRMapping before = scalars;
    scalars.map(stream.number, number);
    for (Operation *op : stream.address)
      (void)operation(*op); // arithmetic, which is never refused
    copyKeys(stream.load);
    scalars = before;
  });
}

void FragmentLowering::copyNext() {
  if (stream)
    copyAhead(*stream, e.add(scalar(stream->number), stream->step));
}

/// Of two sides of a branch, the one without the step goes on to the next tile.
void FragmentLowering::skipTile(Block *with, Block *without) {
  auto loads = [](Block *block) {
    bool found = false;
    if (block)
      block->walk([&](LoadKeysOp) { found = true; });
    return found;
  };
  if (!stream || !loads(with) || loads(without))
    return;
  waitForCopies(0);
  copyNext();
}

} // namespace attn

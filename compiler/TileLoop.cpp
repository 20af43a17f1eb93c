//===- compiler/TileLoop.cpp - The loop over the keys of an item ----------===//
//
// Part of attnc. Apache-2.0.
//
// The one place where the online softmax is written: a step, the tiles of keys
// that it is done for, and the state before and after.
//
//===----------------------------------------------------------------------===//
#include "compiler/TileBuilder.h"
#include "mlir/IR/IRMapping.h"
#include <limits>

using namespace mlir;

namespace attn {

SmallVector<Value> TileBuilder::step(ValueRange state, const KeyTile &keys,
                                     Region *mask, ValueRange loads) {
  // Rows are their class apart whatever their keys are; listed keys are not.
  Value stepBy = keys.listed ? Value() : dilation;
  auto load = [&](int64_t width, Value from) {
    return LoadKeysOp::create(b, tileOfKeys(width), from, batch, kvHead,
                              keys.key, keys.count, stepBy, keys.listed);
  };
  Value k = load(op.getQkDim(), kOperand);
  Value v = load(op.getValueDim(), vOperand);
  auto scores =
      ScoresOp::create(b, tile(plan.rows, plan.keys), q, k, batch, kvHead, head,
                       row, count, heads, shift, keys.key, keys.count, qLen,
                       kvLen, dilation, mask ? loads : ValueRange());
  IRMapping scoreMapping;
  op.getScore().cloneInto(&scores.getScore(), scoreMapping);
  if (mask) {
    IRMapping mapping;
    mask->cloneInto(&scores.getMask(), mapping);
  }
  auto softmax = SoftmaxOp::create(b, scores.getType(), state[0].getType(),
                                   state[1].getType(), state[0].getType(),
                                   scores, state[0], state[1]);
  Value acc = AccumulateOp::create(b, state[2].getType(), state[2],
                                   softmax.getDecay(), softmax.getWeights(), v);
  return {softmax.getNewMax(), softmax.getNewSum(), acc};
}

SmallVector<Value>
TileBuilder::conditional(Value condition, TypeRange types,
                         llvm::function_ref<SmallVector<Value>()> then,
                         llvm::function_ref<SmallVector<Value>()> otherwise) {
  if (auto known = getConstantIntValue(condition))
    return *known ? then() : otherwise();
  auto ifOp = scf::IfOp::create(b, types, condition,
                                /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  scf::YieldOp::create(b, then());
  b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(b, otherwise());
  return ifOp.getResults();
}

/// A tile of keys between positions keys.key and `last`: left out, done without
/// the mask, or done with it.
SmallVector<Value> TileBuilder::classified(ValueRange state,
                                           const KeyTile &keys, Value last,
                                           const PartMask &part,
                                           const LoadValues &itemLoads) {
  ScalarValues known = scalars;
  known.loads = itemLoads;
  known.loads =
      part.analysis.emitLoads(b, b.getLoc(), positions, keys.key, last, known);
  const TypeRange types = state.getTypes();
  Value may =
      part.analysis.emitMay(b, b.getLoc(), positions, keys.key, last, known);
  Value must =
      part.analysis.emitMust(b, b.getLoc(), positions, keys.key, last, known);
  return conditional(
      may, types,
      [&] {
        return conditional(
            must, types, [&] { return step(state, keys, nullptr, {}); },
            [&] {
              return step(state, keys, part.region.get(),
                          part.analysis.flatten(b, b.getLoc(), known.loads));
            });
      },
      [&] { return SmallVector<Value>(state); });
}

/// Keys number `first` to `end - 1` of the class, in tiles.
SmallVector<Value> TileBuilder::dense(ValueRange state, const PartMask &part,
                                      Value first, Value end) {
  ScalarValues known = scalars;
  known.loads =
      part.analysis.emitLoads(b, b.getLoc(), positions, {}, {}, known);
  Value stepBy = constant(plan.keys);
  auto loop = scf::ForOp::create(b, first, end, stepBy, state);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value number = loop.getInductionVar();
  Value tileEnd =
      fold<arith::MinSIOp>(fold<arith::AddIOp>(number, stepBy), end);
  KeyTile keys{keyPosition(number), fold<arith::SubIOp>(tileEnd, number), {}};
  Value last = keyPosition(fold<arith::SubIOp>(tileEnd, constant(1)));
  scf::YieldOp::create(
      b, classified(loop.getRegionIterArgs(), keys, last, part, known.loads));
  return loop.getResults();
}

/// Keys at listed positions, but for those that the dense loop visits: those of
/// the class in [from, to).
SmallVector<Value> TileBuilder::gathered(ValueRange state, Value from,
                                         Value to) {
  const PartMask &part = parts.gathered;
  if (part.analysis.alwaysFalse())
    return state;
  ScalarValues known = scalars;
  known.loads =
      part.analysis.emitLoads(b, b.getLoc(), positions, {}, {}, known);
  Value stepBy = constant(plan.keys), zero = constant(0), one = constant(1);
  // Those past the last key are of queries only.
  Value listed = ListedOp::create(
      b, batch, op.getAlign() == Alignment::TopLeft ? kvLen : Value());
  auto loop = scf::ForOp::create(b, zero, listed, stepBy, state);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value first = loop.getInductionVar();
  Value end = fold<arith::MinSIOp>(fold<arith::AddIOp>(first, stepBy), listed);
  auto pick = PickOp::create(b, PositionsType::get(b.getContext(), plan.keys),
                             b.getIndexType(), batch, first, end,
                             ValueRange{from, to, dilation ? dilation : one});
  Value any = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt,
                                    pick.getCount(), zero);
  ValueRange before = loop.getRegionIterArgs();
  scf::YieldOp::create(
      b, conditional(
             any, before.getTypes(),
             [&] {
               Value picked = pick.getPositions();
               Value key = PositionOp::create(b, picked, zero);
               Value last = PositionOp::create(
                   b, picked, fold<arith::SubIOp>(pick.getCount(), one));
               return classified(before, {key, pick.getCount(), picked}, last,
                                 part, known.loads);
             },
             [&] { return SmallVector<Value>(before); }));
  return loop.getResults();
}

void TileBuilder::loadRows(Value listed) {
  SmallVector<Value> itsClass;
  if (dilation)
    itsClass = {residue, dilation};
  q = LoadRowsOp::create(b, tile(plan.rows, op.getQkDim()), operand(Operand::Q),
                         batch, head, row, count, heads, itsClass, listed,
                         listed ? shift : Value(), op.getScaleAttr());
  kOperand = operand(Operand::K);
  vOperand = operand(Operand::V);
}

/// The state of the softmax before any key. With `isPart` (may be null) it is
/// one of several of the same rows, and without the sink.
SmallVector<Value> TileBuilder::start(Value isPart) {
  TileType column = tile(plan.rows, 1);
  const mlir::Type columns[] = {column, column};
  Value acc = fill(0, tile(plan.rows, op.getValueDim()));
  auto without = [&]() -> SmallVector<Value> {
    return {fill(-std::numeric_limits<float>::infinity(), column),
            fill(0, column)};
  };
  auto with = [&]() -> SmallVector<Value> {
    auto sink = SinkOp::create(b, column, column, batch, kvHead, head, row,
                               heads, qLen, kvLen);
    IRMapping mapping;
    op.getSink().cloneInto(&sink.getLogit(), mapping);
    return {sink.getMax(), sink.getSum()};
  };
  SmallVector<Value> state = op.getSink().empty() ? without()
                             : isPart
                                 ? conditional(isPart, columns, without, with)
                                 : with();
  state.push_back(acc);
  return state;
}

void TileBuilder::store(ValueRange state, Value listed) {
  SmallVector<Value> itsClass;
  if (dilation)
    itsClass = {residue, dilation};
  auto finish = FinishOp::create(b, state[2].getType(), state[0].getType(),
                                 state[2], state[0], state[1]);
  const bool others = !lists.empty() && !listed;
  StoreRowsOp::create(b, finish.getOut(), finish.getLse(), operand(Operand::O),
                      batch, head, row, count, heads, itsClass, listed,
                      others || listed ? queryShift : Value(),
                      others ? b.getDenseI64ArrayAttr(lists)
                             : DenseI64ArrayAttr());
}

} // namespace attn

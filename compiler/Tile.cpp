//===- compiler/Tile.cpp - From the plan to a tile program ----------------===//
//
// Part of attnc. Apache-2.0.
//
// A work item is a tile of rows, each a (query, head) pair of one group of
// heads; it walks the hull of the keys its rows may attend to in tiles that
// start at multiples of the plan's `keys`, so that the bits of a row depend on
// positions only: not on which rows share its tile, nor on how many threads
// there are.
//
//===----------------------------------------------------------------------===//
#include "compiler/TileBuilder.h"
#include <map>

using namespace mlir;

namespace attn {

/// A property of a group: arithmetic where it is linear in its number.
Value TileBuilder::lookUp(Value at, llvm::function_ref<int64_t(int64_t)> value,
                          int64_t groups) {
  int64_t first = value(0), slope = groups > 1 ? value(1) - first : 0;
  bool linear = true;
  SmallVector<int64_t> values;
  for (int64_t i = 0; i < groups; ++i) {
    values.push_back(value(i));
    linear &= values.back() == first + slope * i;
  }
  if (linear)
    return fold<arith::AddIOp>(fold<arith::MulIOp>(at, constant(slope)),
                               constant(first));
  return TableOp::create(b, values, at);
}

/// Of division by a positive number, not negative itself.
Value TileBuilder::remainder(Value x, Value d) {
  return fold<arith::RemSIOp>(
      fold<arith::AddIOp>(fold<arith::RemSIOp>(x, d), d), d);
}

/// Of x, not below -d, by a positive number.
Value TileBuilder::quotientUp(Value x, Value d) {
  return fold<arith::DivSIOp>(
      fold<arith::AddIOp>(x, fold<arith::SubIOp>(d, constant(1))), d);
}

/// The numbers of the keys, in the item's class, that its rows may see.
std::pair<Value, Value> TileBuilder::hull(const PartMask &part) {
  ScalarValues known = scalars;
  known.loads =
      part.analysis.emitLoads(b, b.getLoc(), positions, {}, {}, known);
  auto [lo, hi] = part.analysis.emitHull(b, b.getLoc(), positions, known);
  if (!dilation)
    return {lo, hi};
  // Of the first key at or after each end.
  return {quotientUp(fold<arith::SubIOp>(lo, firstKey), dilation),
          quotientUp(fold<arith::SubIOp>(hi, firstKey), dilation)};
}

/// Within a class queries and keys are numbered densely.
void TileBuilder::enterClass() {
  shift = queryShift;
  if (!dilation)
    return;
  shift = fold<arith::AddIOp>(shift, residue);
  firstKey = remainder(shift, dilation);
}

/// Whether the item's sequence is done split by split: its rows are those of
/// one tile, and its keys more than those of a split. Nothing but the sequence
/// itself decides that.
Value TileBuilder::isSplit() {
  Value fits = arith::CmpIOp::create(b, arith::CmpIPredicate::sle,
                                     fold<arith::MulIOp>(own, heads),
                                     constant(plan.rows));
  Value isMore = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, keyCount(),
                                       constant(plan.split));
  return fold<arith::AndIOp>(fits, isMore);
}

/// The splits that have keys of a hull, as numbers from first to end - 1; one
/// of them at least. For where the sequence is split.
std::pair<Value, Value> TileBuilder::splitsOf(Value lo, Value hi) {
  Value size = constant(plan.split), one = constant(1);
  Value last = fold<arith::SubIOp>(keyCount(), one);
  Value first = fold<arith::DivSIOp>(fold<arith::MinSIOp>(lo, last), size);
  return {first, fold<arith::MaxSIOp>(quotientUp(hi, size),
                                      fold<arith::AddIOp>(first, one))};
}

/// The positions of a tile of rows of the item's class.
RowValues TileBuilder::tileOfClass() {
  Value lastRow =
      fold<arith::SubIOp>(fold<arith::AddIOp>(row, count), constant(1));
  auto position = [&](Value r) {
    Value query = fold<arith::DivSIOp>(r, heads);
    if (dilation)
      query = fold<arith::MulIOp>(query, dilation);
    return fold<arith::AddIOp>(query, shift);
  };
  return {position(row), position(lastRow)};
}

/// A tile of rows, whatever their queries; those at listed positions, which may
/// see more, are not stored. Of all keys, or of those of a split.
void TileBuilder::queries() {
  positions = tileOfClass();
  // Keys at listed positions do not widen the dense loop: they are gathered.
  Value lo, hi;
  std::tie(lo, hi) = hull(parts.denseHull);
  Value step = constant(plan.keys);
  Value first = fold<arith::MulIOp>(fold<arith::DivSIOp>(lo, step), step);
  Value from = first, to = hi, gathers;
  OpBuilder::InsertionGuard guard(b);
  if (ofSplit) {
    auto [firstSplit, endSplit] = splitsOf(lo, hi);
    auto is = [&](arith::CmpIPredicate how, Value x, Value y) -> Value {
      return arith::CmpIOp::create(b, how, x, y);
    };
    Value isFirst = is(arith::CmpIPredicate::eq, split, firstSplit);
    Value hasKeys =
        fold<arith::AndIOp>(is(arith::CmpIPredicate::sge, split, firstSplit),
                            is(arith::CmpIPredicate::slt, split, endSplit));
    Value always = arith::ConstantIntOp::create(b, 1, 1);
    auto ifSplit = [&](Value x, Value otherwise) {
      return b.createOrFold<arith::SelectOp>(ofSplit, x, otherwise);
    };
    Value begin = fold<arith::MulIOp>(split, constant(plan.split));
    Value end = fold<arith::AddIOp>(begin, constant(plan.split));
    from = ifSplit(fold<arith::MaxSIOp>(first, begin), first);
    to = ifSplit(fold<arith::MinSIOp>(hi, end), hi);
    gathers = ifSplit(isFirst, always);
    auto ifOp = scf::IfOp::create(b, ifSplit(hasKeys, always),
                                  /*withElseRegion=*/false);
    b.setInsertionPointToStart(ifOp.thenBlock());
  }
  loadRows({});
  SmallVector<Value> state = dense(start(ofSplit), parts.dense, from, to);
  if (!lists.empty()) {
    auto rest = [&] {
      return gathered(state, keyPosition(first), keyPosition(hi));
    };
    state = gathers ? conditional(gathers, ValueRange(state).getTypes(), rest,
                                  [&] { return state; })
                    : rest();
  }
  if (!ofSplit)
    return store(state, {});
  auto ifOp = scf::IfOp::create(b, ofSplit, /*withElseRegion=*/true);
  b.setInsertionPointToStart(ifOp.thenBlock());
  StoreStateOp::create(b, state[0], state[1], state[2], batch, group, split,
                       count);
  b.setInsertionPointToStart(ifOp.elseBlock());
  store(state, {});
}

/// Puts together what the splits of a sequence stored, in their order.
void TileBuilder::merge() {
  positions = tileOfClass();
  auto [lo, hi] = hull(parts.denseHull);
  auto [first, end] = splitsOf(lo, hi);
  SmallVector<Value> state = start({});
  auto loop = scf::ForOp::create(b, first, end, constant(1), state);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    TypeRange types = ValueRange(state).getTypes();
    auto loaded = LoadStateOp::create(b, types, batch, group,
                                      loop.getInductionVar(), count);
    SmallVector<Value> both(loop.getRegionIterArgs());
    llvm::append_range(both, loaded.getResults());
    auto combined = CombineOp::create(b, types, both);
    scf::YieldOp::create(b, combined.getResults());
  }
  store(loop.getResults(), {});
}

/// A tile of rows whose queries are at listed positions.
void TileBuilder::listedQueries() {
  dilation = residue = {};
  shift = queryShift;
  Value one = constant(1);
  auto query = [&](Value r) {
    return fold<arith::AddIOp>(firstListed, fold<arith::DivSIOp>(r, heads));
  };
  Value first = query(row);
  Value last = query(fold<arith::SubIOp>(fold<arith::AddIOp>(row, count), one));
  auto pick = PickOp::create(b, PositionsType::get(b.getContext(), plan.rows),
                             b.getIndexType(), batch, first,
                             fold<arith::AddIOp>(last, one), ValueRange());
  Value picked = pick.getPositions();
  positions = {PositionOp::create(b, picked, constant(0)),
               PositionOp::create(b, picked, fold<arith::SubIOp>(last, first))};
  loadRows(picked);
  SmallVector<Value> state = start({});
  auto [lo, hi] = hull(parts.listed);
  Value step = constant(plan.keys);
  Value from = fold<arith::MulIOp>(fold<arith::DivSIOp>(lo, step), step);
  store(dense(state, parts.listed, from, hi), picked);
}

void TileBuilder::whenAny(Value left, llvm::function_ref<void()> body) {
  // There are as many tiles as the longest sequence needs.
  count = fold<arith::MinSIOp>(left, constant(plan.rows));
  Value any =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, left, constant(0));
  auto ifOp = scf::IfOp::create(b, any, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  body();
}

/// Whose item it is: from its batch entry and group.
void TileBuilder::describe() {
  int64_t n = int64_t(groups.size());
  auto ofGroup = [&](auto value) {
    return lookUp(group, [&](int64_t i) { return value(groups[i]); }, n);
  };
  heads = ofGroup([](const ItemGroup &g) { return g.heads.heads; });
  head = ofGroup([](const ItemGroup &g) { return g.heads.firstHead; });
  kvHead = ofGroup([](const ItemGroup &g) { return g.heads.kvHead; });
  qLen = LengthOp::create(b, Operand::Q, batch);
  kvLen = LengthOp::create(b, Operand::K, batch);
  queryShift = op.getAlign() == Alignment::TopLeft
                   ? constant(0)
                   : fold<arith::SubIOp>(kvLen, qLen);
  scalars = {batch, head, kvHead, qLen, kvLen};
  own = qLen;
  dilation = residue = {};
  if (isDilated()) {
    dilation = ofGroup([](const ItemGroup &g) { return g.heads.dilation; });
    residue = ofGroup([](const ItemGroup &g) { return g.residue; });
    own = quotientUp(fold<arith::SubIOp>(qLen, residue), dilation);
  }
}

void TileBuilder::item(Value number) {
  SmallVector<int64_t> classes;
  for (const ItemGroup &g : groups)
    classes.push_back(g.heads.dilation);
  mlir::Type index = b.getIndexType(), flag = b.getI1Type(), none;
  auto itemOp = ItemOp::create(
      b, index, index, index, lists.empty() ? none : flag,
      plan.split ? index : none, plan.split ? flag : none, number,
      b.getI64IntegerAttr(groups.size()), b.getI64IntegerAttr(plan.heads),
      b.getI64IntegerAttr(plan.rows),
      isDilated() ? b.getDenseI64ArrayAttr(classes) : DenseI64ArrayAttr(),
      plan.split ? b.getI64IntegerAttr(plan.split) : IntegerAttr());
  batch = itemOp.getBatch(), group = itemOp.getGroup(), row = itemOp.getRow();
  split = itemOp.getSplit(), ofSplit = itemOp.getOfSplit();
  describe();
  auto rowsLeft = [&](Value queries) {
    return fold<arith::SubIOp>(fold<arith::MulIOp>(queries, heads), row);
  };
  auto ofQueries = [&] {
    enterClass();
    Value left = rowsLeft(own);
    if (ofSplit) {
      // Sequences that are split are done by items of splits, others are not.
      Value isIts = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, ofSplit,
                                          isSplit());
      left = b.createOrFold<arith::SelectOp>(isIts, left, constant(0));
    }
    whenAny(left, [&] { queries(); });
  };
  if (lists.empty())
    return ofQueries();
  auto ifOp = scf::IfOp::create(b, itemOp.getOfGlobals(),
                                /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.elseBlock());
  ofQueries();
  b.setInsertionPointToStart(ifOp.thenBlock());
  firstListed = ListedOp::create(b, batch, queryShift);
  Value lastListed =
      ListedOp::create(b, batch, fold<arith::AddIOp>(queryShift, qLen));
  Value listed = fold<arith::SubIOp>(lastListed, firstListed);
  // Of the classes of a dilated group, the first does all of them.
  if (residue)
    listed = b.createOrFold<arith::SelectOp>(
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, residue,
                              constant(0)),
        listed, constant(0));
  whenAny(rowsLeft(listed), [&] { listedQueries(); });
}

/// An item of the program that merges: a batch entry and a group.
void TileBuilder::mergedItem(Value number) {
  Value n = constant(int64_t(groups.size()));
  batch = fold<arith::DivSIOp>(number, n);
  group = fold<arith::RemSIOp>(number, n);
  row = constant(0);
  describe();
  enterClass();
  Value rows = b.createOrFold<arith::SelectOp>(
      isSplit(), fold<arith::MulIOp>(own, heads), constant(0));
  whenAny(rows, [&] { merge(); });
}

KernelOp TileBuilder::kernel(const Twine &name, bool merges,
                             llvm::function_ref<void(Value)> body) {
  OpBuilder::InsertionGuard guard(b);
  auto result = KernelOp::create(b, b.getStringAttr(name),
                                 b.getI64IntegerAttr(groups.size()),
                                 b.getI64IntegerAttr(plan.heads), *op.getPlan(),
                                 merges ? b.getUnitAttr() : UnitAttr());
  Block *block = b.createBlock(&result.getBody());
  body(block->addArgument(b.getIndexType(), b.getLoc()));
  return result;
}

void TileBuilder::run() {
  SmallVector<KernelOp> kernels = {
      kernel(op.getSymName(), false, [&](Value number) { item(number); })};
  // (No variant has a dot in its name.)
  if (plan.split)
    kernels.push_back(kernel(op.getSymName() + ".merge", true,
                             [&](Value number) { mergedItem(number); }));
  // Blocks sum up one dimension of a parameter; along another, elements are
  // looked at one by one.
  std::map<int64_t, int64_t> summed;
  for (KernelOp kernel : kernels)
    kernel.walk([&](ExtremesOp extremes) {
      if (extremes.getBlocks() &&
          summed.try_emplace(extremes.getNumber(), extremes.getDim())
                  .first->second != int64_t(extremes.getDim()))
        extremes.setBlocks(false);
    });
  op.erase();
}

LogicalResult buildTilePrograms(ModuleOp module) {
  module.getContext()->loadDialect<scf::SCFDialect, arith::ArithDialect>();
  for (AttentionOp op :
       llvm::make_early_inc_range(module.getOps<AttentionOp>())) {
    if (!op.getPlan())
      return op.emitError("has no plan");
    TileBuilder(op).run();
  }
  return success();
}

} // namespace attn

//===- compiler/Tile.cpp - From the plan to a tile program ----------------===//
//
// Part of attnc. Apache-2.0.
//
// The one place where the online-softmax loop is written. A work item is a tile
// of rows, each a (query, head) pair of one group of heads; it walks the hull
// of the keys its rows may attend to in tiles that start at multiples of the
// plan's `keys`, so that the bits of a row depend on positions only: not on
// which rows share its tile, nor on how many threads there are.
//
//===----------------------------------------------------------------------===//
#include "compiler/Tile.h"
#include "compiler/RangeAnalysis.h"
#include "compiler/Specialise.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <limits>
#include <map>

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
                               p.valueVectors, p.unroll));
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

namespace {

/// Keys of a tile: `count` from position `key` on, as far apart as the item's
/// dilation; or those at listed positions.
struct KeyTile {
  Value key, count, listed;
};

class TileBuilder {
public:
  explicit TileBuilder(AttentionOp op)
      : op(op), b(op.getLoc(), op), plan(toPlan(*op.getPlan())), parts(op),
        lists(parts.lists) {}

  void run();

private:
  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  template <typename OpTy> Value fold(Value x, Value y) {
    return b.createOrFold<OpTy>(x, y);
  }
  TileType tile(int64_t rows, int64_t cols) {
    return TileType::get(b.getContext(), rows, cols, b.getF32Type());
  }
  /// Of K or V: elements as they are stored.
  TileType tileOfKeys(int64_t cols) {
    return TileType::get(b.getContext(), plan.keys, cols, op.getKvType());
  }
  Value operand(Operand which) {
    mlir::Type stored = which == Operand::Q   ? op.getQType()
                        : which == Operand::O ? op.getOutType()
                                              : op.getKvType();
    return TensorOp::create(b, TensorType::get(b.getContext(), stored), which);
  }
  Value fill(float value, TileType type) {
    return FillOp::create(b, type, b.getF32FloatAttr(value));
  }
  Value lookUp(Value group, llvm::function_ref<int64_t(int64_t)> value,
               int64_t groups);
  Value remainder(Value x, Value d);
  Value quotientUp(Value x, Value d);
  void item(Value item);
  void whenAny(Value left, llvm::function_ref<void()> body);
  void queries();
  void listedQueries();
  SmallVector<Value> start(Value listed);
  void store(ValueRange state, Value listed);
  /// The position of key number `number` of the item's class.
  Value keyPosition(Value number) {
    return dilation ? fold<arith::AddIOp>(fold<arith::MulIOp>(number, dilation),
                                          firstKey)
                    : number;
  }
  std::pair<Value, Value> hull(const PartMask &part);
  SmallVector<Value> dense(ValueRange state, const PartMask &part, Value first,
                           Value end);
  SmallVector<Value> gathered(ValueRange state, Value from, Value to);
  SmallVector<Value> step(ValueRange state, const KeyTile &keys, Region *mask,
                          ValueRange loads);
  SmallVector<Value> classified(ValueRange state, const KeyTile &keys,
                                Value last, const PartMask &part,
                                const LoadValues &itemLoads);
  SmallVector<Value>
  conditional(Value condition, ValueRange state,
              llvm::function_ref<SmallVector<Value>()> then,
              llvm::function_ref<SmallVector<Value>()> otherwise);

  AttentionOp op;
  ImplicitLocOpBuilder b;
  Plan plan;
  MaskParts parts;
  ArrayRef<int64_t> lists; ///< of tokens, that the mask asks about
  // Of the work item.
  Value batch, group, row, head, kvHead, heads, qLen, kvLen, count, shift;
  Value queryShift;        ///< the position of query 0
  Value firstListed;       ///< number of its first query at a listed position
  Value residue, dilation; ///< of the item's queries; null unless dilated
  Value firstKey;          ///< the first key of their class
  Value q, kOperand, vOperand;
  RowValues positions;
  ScalarValues scalars;
};

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
TileBuilder::conditional(Value condition, ValueRange state,
                         llvm::function_ref<SmallVector<Value>()> then,
                         llvm::function_ref<SmallVector<Value>()> otherwise) {
  if (auto known = getConstantIntValue(condition))
    return *known ? then() : otherwise();
  auto ifOp = scf::IfOp::create(b, TypeRange(state), condition,
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
  Value may =
      part.analysis.emitMay(b, b.getLoc(), positions, keys.key, last, known);
  Value must =
      part.analysis.emitMust(b, b.getLoc(), positions, keys.key, last, known);
  return conditional(
      may, state,
      [&] {
        return conditional(
            must, state, [&] { return step(state, keys, nullptr, {}); },
            [&] {
              return step(state, keys, part.region.get(),
                          part.analysis.flatten(b, b.getLoc(), known.loads));
            });
      },
      [&] { return SmallVector<Value>(state); });
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
             any, before,
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

/// The item's rows, and the state of their softmax before any key.
SmallVector<Value> TileBuilder::start(Value listed) {
  SmallVector<Value> itsClass;
  if (dilation)
    itsClass = {residue, dilation};
  q = LoadRowsOp::create(b, tile(plan.rows, op.getQkDim()), operand(Operand::Q),
                         batch, head, row, count, heads, itsClass, listed,
                         listed ? shift : Value(), op.getScaleAttr());
  kOperand = operand(Operand::K);
  vOperand = operand(Operand::V);
  scalars = {batch, head, kvHead, qLen, kvLen};
  TileType column = tile(plan.rows, 1);
  Value acc = fill(0, tile(plan.rows, op.getValueDim()));
  if (op.getSink().empty())
    return {fill(-std::numeric_limits<float>::infinity(), column),
            fill(0, column), acc};
  auto sink = SinkOp::create(b, column, column, batch, kvHead, head, row, heads,
                             qLen, kvLen);
  IRMapping mapping;
  op.getSink().cloneInto(&sink.getLogit(), mapping);
  return {sink.getMax(), sink.getSum(), acc};
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

/// A tile of rows, whatever their queries; those at listed positions, which may
/// see more, are not stored.
void TileBuilder::queries() {
  Value lastRow =
      fold<arith::SubIOp>(fold<arith::AddIOp>(row, count), constant(1));
  shift = queryShift;
  if (dilation) {
    // Within a class queries and keys are numbered densely.
    shift = fold<arith::AddIOp>(shift, residue);
    firstKey = remainder(shift, dilation);
  }
  auto position = [&](Value r) {
    Value query = fold<arith::DivSIOp>(r, heads);
    if (dilation)
      query = fold<arith::MulIOp>(query, dilation);
    return fold<arith::AddIOp>(query, shift);
  };
  positions = {position(row), position(lastRow)};
  SmallVector<Value> state = start({});
  // Keys at listed positions do not widen the dense loop: they are gathered.
  auto [lo, hi] = hull(parts.denseHull);
  Value step = constant(plan.keys);
  Value first = fold<arith::MulIOp>(fold<arith::DivSIOp>(lo, step), step);
  state = dense(state, parts.dense, first, hi);
  if (!lists.empty())
    state = gathered(state, keyPosition(first), keyPosition(hi));
  store(state, {});
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
  SmallVector<Value> state = start(picked);
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

void TileBuilder::item(Value number) {
  SmallVector<ItemGroup> groups = itemGroups(op, plan);
  SmallVector<int64_t> classes;
  for (const ItemGroup &g : groups)
    classes.push_back(g.heads.dilation);
  const bool isDilated = llvm::any_of(classes, [](int64_t d) { return d > 1; });
  mlir::Type index = b.getIndexType();
  auto itemOp = ItemOp::create(
      b, index, index, index, lists.empty() ? mlir::Type() : b.getI1Type(),
      number, b.getI64IntegerAttr(groups.size()),
      b.getI64IntegerAttr(plan.heads), b.getI64IntegerAttr(plan.rows),
      isDilated ? b.getDenseI64ArrayAttr(classes) : DenseI64ArrayAttr());
  batch = itemOp.getBatch(), group = itemOp.getGroup(), row = itemOp.getRow();
  int64_t n = groups.size();
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
  Value own = qLen;
  if (isDilated) {
    dilation = ofGroup([](const ItemGroup &g) { return g.heads.dilation; });
    residue = ofGroup([](const ItemGroup &g) { return g.residue; });
    own = quotientUp(fold<arith::SubIOp>(qLen, residue), dilation);
  }
  auto rowsLeft = [&](Value queries) {
    return fold<arith::SubIOp>(fold<arith::MulIOp>(queries, heads), row);
  };
  if (lists.empty())
    return whenAny(rowsLeft(own), [&] { queries(); });
  auto ifOp = scf::IfOp::create(b, itemOp.getOfGlobals(),
                                /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.elseBlock());
  whenAny(rowsLeft(own), [&] { queries(); });
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

void TileBuilder::run() {
  auto kernel = KernelOp::create(
      b, op.getSymNameAttr(), b.getI64IntegerAttr(itemGroups(op, plan).size()),
      b.getI64IntegerAttr(plan.heads), *op.getPlan());
  Block *body = b.createBlock(&kernel.getBody());
  Value number = body->addArgument(b.getIndexType(), b.getLoc());
  item(number);
  // Blocks sum up one dimension of a parameter; along another, elements are
  // looked at one by one.
  std::map<int64_t, int64_t> summed;
  kernel.walk([&](ExtremesOp extremes) {
    if (extremes.getBlocks() &&
        summed.try_emplace(extremes.getNumber(), extremes.getDim())
                .first->second != int64_t(extremes.getDim()))
      extremes.setBlocks(false);
  });
  b.setInsertionPointAfter(kernel);
  op.erase();
}

} // namespace

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

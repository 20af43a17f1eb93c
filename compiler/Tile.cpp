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
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <limits>

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

class TileBuilder {
public:
  explicit TileBuilder(AttentionOp op)
      : op(op), b(op.getLoc(), op), plan(toPlan(*op.getPlan())),
        mask(RangeAnalysis::analyse(op.getMask())) {}

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
  Value operand(Operand which) {
    return TensorOp::create(b, TensorType::get(b.getContext(), b.getF32Type()),
                            which);
  }
  Value fill(float value, TileType type) {
    return FillOp::create(b, type, b.getF32FloatAttr(value));
  }
  Value lookUp(Value group, llvm::function_ref<int64_t(int64_t)> value,
               int64_t groups);
  Value remainder(Value x, Value d);
  void item(Value item);
  void rows();
  /// The position of key number `number` of the item's class.
  Value keyPosition(Value number) {
    return dilated ? fold<arith::AddIOp>(fold<arith::MulIOp>(number, dilation),
                                         firstKey)
                   : number;
  }
  SmallVector<Value> step(ValueRange state, Value key, Value count,
                          bool masked);
  SmallVector<Value> classified(ValueRange state, Value key, Value end,
                                Value count);
  Value conditional(Value condition, ValueRange state,
                    llvm::function_ref<SmallVector<Value>()> then,
                    llvm::function_ref<SmallVector<Value>()> otherwise,
                    SmallVector<Value> &results);

  AttentionOp op;
  ImplicitLocOpBuilder b;
  Plan plan;
  RangeAnalysis mask;
  // Of the work item.
  Value batch, group, row, head, kvHead, heads, qLen, kvLen, count, shift;
  bool dilated = false;
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

SmallVector<Value> TileBuilder::step(ValueRange state, Value key,
                                     Value keyCount, bool masked) {
  key = keyPosition(key);
  Value k = LoadKeysOp::create(b, tile(plan.keys, op.getQkDim()), kOperand,
                               batch, kvHead, key, keyCount, dilation);
  Value v = LoadKeysOp::create(b, tile(plan.keys, op.getValueDim()), vOperand,
                               batch, kvHead, key, keyCount, dilation);
  auto scores = ScoresOp::create(b, tile(plan.rows, plan.keys), q, k, batch,
                                 kvHead, head, row, count, heads, shift, key,
                                 keyCount, qLen, kvLen, dilation);
  IRMapping scoreMapping;
  op.getScore().cloneInto(&scores.getScore(), scoreMapping);
  if (masked) {
    IRMapping mapping;
    op.getMask().cloneInto(&scores.getMask(), mapping);
  }
  auto softmax = SoftmaxOp::create(b, scores.getType(), state[0].getType(),
                                   state[1].getType(), state[0].getType(),
                                   scores, state[0], state[1]);
  Value acc = AccumulateOp::create(b, state[2].getType(), state[2],
                                   softmax.getDecay(), softmax.getWeights(), v);
  return {softmax.getNewMax(), softmax.getNewSum(), acc};
}

Value TileBuilder::conditional(
    Value condition, ValueRange state,
    llvm::function_ref<SmallVector<Value>()> then,
    llvm::function_ref<SmallVector<Value>()> otherwise,
    SmallVector<Value> &results) {
  if (auto known = getConstantIntValue(condition)) {
    results = *known ? then() : otherwise();
    return {};
  }
  auto ifOp = scf::IfOp::create(b, TypeRange(state), condition,
                                /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  scf::YieldOp::create(b, then());
  b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(b, otherwise());
  results.assign(ifOp.getResults().begin(), ifOp.getResults().end());
  return {};
}

/// A tile of keys: left out, done without the mask, or done with it.
SmallVector<Value> TileBuilder::classified(ValueRange state, Value key,
                                           Value end, Value keyCount) {
  Value last = fold<arith::SubIOp>(end, constant(1));
  Value from = keyPosition(key), to = keyPosition(last);
  Value may = mask.emitMay(b, b.getLoc(), positions, from, to, scalars);
  Value must = mask.emitMust(b, b.getLoc(), positions, from, to, scalars);
  SmallVector<Value> results;
  conditional(
      may, state,
      [&] {
        SmallVector<Value> inner;
        conditional(
            must, state, [&] { return step(state, key, keyCount, false); },
            [&] { return step(state, key, keyCount, true); }, inner);
        return inner;
      },
      [&] { return SmallVector<Value>(state); }, results);
  return results;
}

/// Of division by a positive number, not negative itself.
Value TileBuilder::remainder(Value x, Value d) {
  return fold<arith::RemSIOp>(
      fold<arith::AddIOp>(fold<arith::RemSIOp>(x, d), d), d);
}

void TileBuilder::rows() {
  shift = op.getAlign() == Alignment::TopLeft
              ? constant(0)
              : fold<arith::SubIOp>(kvLen, qLen);
  Value lastRow =
      fold<arith::SubIOp>(fold<arith::AddIOp>(row, count), constant(1));
  SmallVector<Value> itsClass;
  if (dilated) {
    // Within a class queries and keys are numbered densely.
    itsClass = {residue, dilation};
    shift = fold<arith::AddIOp>(shift, residue);
    firstKey = remainder(shift, dilation);
  }
  auto position = [&](Value r) {
    Value query = fold<arith::DivSIOp>(r, heads);
    if (dilated)
      query = fold<arith::MulIOp>(query, dilation);
    return fold<arith::AddIOp>(query, shift);
  };
  positions = {position(row), position(lastRow)};
  scalars = {batch, head, kvHead, qLen, kvLen};

  q = LoadRowsOp::create(b, tile(plan.rows, op.getQkDim()), operand(Operand::Q),
                         batch, head, row, count, heads, itsClass,
                         op.getScaleAttr());
  kOperand = operand(Operand::K);
  vOperand = operand(Operand::V);
  const float infinity = std::numeric_limits<float>::infinity();
  SmallVector<Value> state = {fill(-infinity, tile(plan.rows, 1)),
                              fill(0, tile(plan.rows, 1)),
                              fill(0, tile(plan.rows, op.getValueDim()))};

  Value lo, hi;
  std::tie(lo, hi) = mask.emitHull(b, b.getLoc(), positions, scalars);
  if (dilated) {
    // Numbers of the first key at or after each end.
    auto number = [&](Value end) {
      Value beyond = fold<arith::SubIOp>(
          fold<arith::AddIOp>(end, fold<arith::SubIOp>(dilation, constant(1))),
          firstKey);
      return fold<arith::DivSIOp>(beyond, dilation);
    };
    lo = number(lo), hi = number(hi);
  }
  Value step0 = constant(plan.keys);
  Value first = fold<arith::MulIOp>(fold<arith::DivSIOp>(lo, step0), step0);
  auto loop = scf::ForOp::create(b, first, hi, step0, state);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value key = loop.getInductionVar();
    Value end = fold<arith::MinSIOp>(fold<arith::AddIOp>(key, step0), hi);
    Value keyCount = fold<arith::SubIOp>(end, key);
    scf::YieldOp::create(
        b, classified(loop.getRegionIterArgs(), key, end, keyCount));
  }
  auto done = loop.getResults();
  auto finish = FinishOp::create(b, done[2].getType(), done[0].getType(),
                                 done[2], done[0], done[1]);
  StoreRowsOp::create(b, finish.getOut(), finish.getLse(), operand(Operand::O),
                      batch, head, row, count, heads, itsClass);
}

void TileBuilder::item(Value number) {
  SmallVector<ItemGroup> groups = itemGroups(op, plan);
  auto itemOp = ItemOp::create(b, number, b.getI64IntegerAttr(groups.size()),
                               b.getI64IntegerAttr(plan.heads),
                               b.getI64IntegerAttr(plan.rows));
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
  Value queries = qLen;
  dilated = llvm::any_of(
      groups, [](const ItemGroup &g) { return g.heads.dilation > 1; });
  if (dilated) {
    dilation = ofGroup([](const ItemGroup &g) { return g.heads.dilation; });
    residue = ofGroup([](const ItemGroup &g) { return g.residue; });
    // Those of its class: (q_len - residue) / dilation, rounded up.
    queries = fold<arith::DivSIOp>(
        fold<arith::AddIOp>(fold<arith::SubIOp>(qLen, residue),
                            fold<arith::SubIOp>(dilation, constant(1))),
        dilation);
  }
  Value left = fold<arith::SubIOp>(fold<arith::MulIOp>(queries, heads), row);
  count = fold<arith::MinSIOp>(left, constant(plan.rows));
  // There are as many tiles as the longest sequence needs.
  Value any =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, left, constant(0));
  auto ifOp = scf::IfOp::create(b, any, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  rows();
}

void TileBuilder::run() {
  auto kernel = KernelOp::create(
      b, op.getSymNameAttr(), b.getI64IntegerAttr(itemGroups(op, plan).size()),
      b.getI64IntegerAttr(plan.heads), *op.getPlan());
  Block *body = b.createBlock(&kernel.getBody());
  Value number = body->addArgument(b.getIndexType(), b.getLoc());
  item(number);
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

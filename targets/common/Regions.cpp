//===- targets/common/Regions.cpp - What a variant says of a pair ------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Math/IR/Math.h"
#include "targets/common/ProgramLowering.h"
#include "targets/common/VectorMath.h"

using namespace mlir;

namespace attn {

PairInfo ProgramLowering::pairInfo(ScoresOp op, Value listedKeys,
                                   Value listedRows) {
  PairInfo info;
  info.listedKeys = listedKeys;
  info.listedRows = listedRows;
  info.batch = scalar(op.getBatch());
  info.group = scalar(op.getGroup());
  info.head = scalar(op.getHead());
  info.row = scalar(op.getRow());
  info.rows = scalar(op.getRows());
  info.heads = scalar(op.getHeads());
  info.shift = scalar(op.getShift());
  info.key = scalar(op.getKey());
  info.count = scalar(op.getCount());
  info.qLen = scalar(op.getQLen());
  info.kvLen = scalar(op.getKvLen());
  info.step = op.getStep() ? scalar(op.getStep()) : e.c(1);
  if (!op.getScore().empty())
    info.score = &op.getScore();
  if (!op.getMask().empty()) {
    info.mask = &op.getMask();
    info.analysis =
        std::make_shared<RangeAnalysis>(RangeAnalysis::analyse(op.getMask()));
  }
  for (Value v : op.getLoads())
    info.loads.push_back(scalar(v));
  return info;
}

PairInfo ProgramLowering::pairInfo(SinkOp op) {
  PairInfo info;
  info.batch = scalar(op.getBatch());
  info.group = scalar(op.getGroup());
  info.qLen = scalar(op.getQLen());
  info.kvLen = scalar(op.getKvLen());
  return info;
}

Value ProgramLowering::narrow(Value v) {
  return arith::TruncIOp::create(e.b, e.i32, v);
}

Value ProgramLowering::rowPosition(const PairInfo &pairs, Value r) {
  if (pairs.listedRows)
    return positionAt(pairs.listedRows, r);
  Value query = e.div(e.add(pairs.row, r), pairs.heads);
  return narrow(e.add(e.mul(query, pairs.step), pairs.shift));
}

Value ProgramLowering::keyPosition(const PairInfo &pairs, Value column) {
  if (pairs.listedKeys)
    return positionAt(pairs.listedKeys, column);
  return narrow(e.add(pairs.key, e.mul(column, pairs.step)));
}

IRMapping ProgramLowering::arguments(const PairInfo &pairs, Block &block,
                                     Value score, Value head, Value q,
                                     Value k) {
  IRMapping map;
  unsigned next = 0;
  auto bind = [&](Value v) { map.map(block.getArgument(next++), v); };
  auto narrow = [&](Value v) -> Value {
    return arith::TruncIOp::create(e.b, e.i32, v);
  };
  if (score)
    bind(score);
  bind(narrow(pairs.batch));
  bind(head);
  bind(narrow(pairs.group));
  bind(q);
  bind(k);
  bind(narrow(pairs.qLen));
  bind(narrow(pairs.kvLen));
  return map;
}

Value ProgramLowering::evaluate(const PairInfo &pairs, Region &region,
                                Value score, Value head, Value q, Value k) {
  Block &block = region.front();
  IRMapping map = arguments(pairs, block, score, head, q, k);
  writeOps(block, map, [](Operation &) { return true; });
  return map.lookup(block.getTerminator()->getOperand(0));
}

bool ProgramLowering::readInputs(const PairInfo &pairs) {
  bool found = false;
  for (Region *region : {pairs.mask, pairs.score})
    if (region)
      region->walk([&](Operation *op) { found |= isa<ParamOp, MemberOp>(op); });
  return found;
}

ProgramLowering::Judgement
ProgramLowering::judge(const PairInfo &pairs, Value score, Value q, Value k) {
  auto one = [&](Value v) -> Value {
    return isa<VectorType>(v.getType())
               ? vector::ExtractOp::create(e.b, v, ArrayRef<int64_t>{0})
                     .getResult()
               : v;
  };
  Value head = narrow(pairs.head);
  Judgement result{score, {}};
  if (pairs.score)
    result.score = one(evaluate(pairs, *pairs.score, score, head, q, k));
  if (pairs.mask)
    result.counts = one(evaluate(pairs, *pairs.mask, {}, head, q, k));
  return result;
}

Value ProgramLowering::sinkLogit(SinkOp op, Value r) {
  Value head = e.add(scalar(op.getHead()), e.rem(e.add(scalar(op.getRow()), r),
                                                 scalar(op.getHeads())));
  Value zero = narrow(e.c(0));
  Value logit =
      evaluate(pairInfo(op), op.getLogit(), {}, narrow(head), zero, zero);
  return isa<VectorType>(logit.getType())
             ? vector::ExtractOp::create(e.b, logit, ArrayRef<int64_t>{0})
                   .getResult()
             : logit;
}

void ProgramLowering::writeOps(Block &block, IRMapping &map,
                               llvm::function_ref<bool(Operation &)> wanted) {
  const unsigned first = block.getNumArguments() - kMaskArgs;
  llvm::DenseMap<Value, Value> broadcasts;
  auto isVectorNow = [&](Value v) {
    return isa<VectorType>(map.lookup(v).getType());
  };
  // What depends on the query or the score is a vector, and so is what a
  // function takes; the rest stays scalar and is worked out once.
  for (Operation &op : block.without_terminator()) {
    if (!wanted(op))
      continue;
    if (auto load = dyn_cast<ParamOp>(op)) {
      if (Value value = loadedAhead(load)) {
        map.map(load.getValue(), value);
        continue;
      }
      SmallVector<Value> at;
      for (Value index : load.getAt())
        at.push_back(map.lookup(index));
      map.map(load.getValue(), element(load.getNumber(), load.getStored(),
                                       load.getInside(), at));
      continue;
    }
    if (auto asked = dyn_cast<MemberOp>(op)) {
      const bool ofKey =
          asked.getPosition() == block.getArgument(first + MaskK);
      map.map(asked.getValue(),
              member(asked.getNumber(), map.lookup(asked.getBatch()),
                     map.lookup(asked.getPosition()), ofKey));
      continue;
    }
    if (auto congruent = dyn_cast<CongruentOp>(op)) {
      Value operands[] = {map.lookup(congruent.getK()),
                          map.lookup(congruent.getQ()),
                          map.lookup(congruent.getStep())};
      if (llvm::any_of(congruent->getOperands(), isVectorNow))
        for (Value &v : operands)
          v = isa<VectorType>(v.getType()) ? v : e.broadcast(v);
      Value rest = arith::RemSIOp::create(
          e.b, arith::SubIOp::create(e.b, operands[0], operands[1]),
          operands[2]);
      map.map(congruent.getValue(),
              arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, rest,
                                    arith::ConstantOp::create(
                                        e.b, e.b.getZeroAttr(rest.getType()))));
      continue;
    }
    const bool isFunction = isa<math::MathDialect>(op.getDialect());
    if (!isFunction && llvm::none_of(op.getOperands(), isVectorNow)) {
      e.b.clone(op, map);
      continue;
    }
    // (A scalar stays one for whoever else reads it.)
    IRMapping own;
    for (Value v : op.getOperands()) {
      if (isVectorNow(v)) {
        own.map(v, map.lookup(v));
        continue;
      }
      Value &wide = broadcasts[v];
      if (!wide)
        wide = e.broadcast(map.lookup(v));
      own.map(v, wide);
    }
    if (isFunction) {
      map.map(op.getResult(0),
              emitFunction(e, op, own.lookup(op.getOperand(0))));
      continue;
    }
    Operation *copy = e.b.clone(op, own);
    map.map(op.getResults(), copy->getResults());
    for (Value result : copy->getResults())
      result.setType(VectorType::get({e.lanes}, result.getType()));
  }
}

} // namespace attn

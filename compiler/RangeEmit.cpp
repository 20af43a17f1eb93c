//===- compiler/RangeEmit.cpp - Ranges of keys as IR ----------------------===//
//
// Part of attnc. Apache-2.0.
//
// The evaluation of the symbolic form in `arith`. The code runs once for each
// tile inside a kernel, so whatever can fold does so here.
//
//===----------------------------------------------------------------------===//
#include "compiler/AttnDialect.h"
#include "compiler/RangeAnalysis.h"
#include "compiler/RangeEval.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace attn {

using namespace range;

namespace {

class ValueOps {
public:
  using Int = Value;
  using Bool = Value;

  ValueOps(OpBuilder &builder, Location loc) : b(builder), loc(loc) {}

  Value constant(int64_t value) {
    Value &known = constants[value];
    if (!known)
      known = arith::ConstantIndexOp::create(b, loc, value);
    return known;
  }
  Value truth(bool value) {
    return arith::ConstantOp::create(b, loc, b.getBoolAttr(value));
  }
  Value add(Value x, Value y) { return fold<arith::AddIOp>(x, y, nsw); }
  Value sub(Value x, Value y) {
    return x == y ? constant(0) : fold<arith::SubIOp>(x, y, nsw);
  }
  Value scale(Value x, int64_t n) {
    return n == 1 ? x : fold<arith::MulIOp>(x, constant(n), nsw);
  }
  Value truncDiv(Value x, int64_t c) {
    return c == 1 ? x : fold<arith::DivSIOp>(x, constant(c));
  }
  /// Without the ops that need an expansion of their own later.
  Value floorDiv(Value x, int64_t c) {
    if (c == 1)
      return x;
    if (llvm::isPowerOf2_64(c))
      return fold<arith::ShRSIOp>(x, constant(llvm::Log2_64(c)));
    Value quotient = truncDiv(x, c);
    Value above = compare(arith::CmpIPredicate::sgt, scale(quotient, c), x);
    return select(above, sub(quotient, constant(1)), quotient);
  }
  Value min(Value x, Value y) {
    return x == y ? x : fold<arith::MinSIOp>(x, y);
  }
  Value max(Value x, Value y) {
    return x == y ? x : fold<arith::MaxSIOp>(x, y);
  }
  Value select(Value c, Value x, Value y) {
    return x == y ? x : fold<arith::SelectOp>(c, x, y);
  }
  Value le(Value x, Value y) {
    return compare(arith::CmpIPredicate::sle, x, y);
  }
  Value eq(Value x, Value y) { return compare(arith::CmpIPredicate::eq, x, y); }
  Value bothOf(Value x, Value y) { return fold<arith::AndIOp>(x, y); }
  Value eitherOf(Value x, Value y) { return fold<arith::OrIOp>(x, y); }
  Value notOf(Value x) { return fold<arith::XOrIOp>(x, truth(true)); }

private:
  // Every form stays far from 64 bits: see the limits in RangeExpr.cpp.
  static constexpr auto nsw = arith::IntegerOverflowFlags::nsw;

  template <typename Op, typename... Args> Value fold(Args... args) {
    return b.createOrFold<Op>(loc, args...);
  }
  Value compare(arith::CmpIPredicate p, Value x, Value y) {
    return fold<arith::CmpIOp>(p, x, y);
  }

  OpBuilder &b;
  Location loc;
  DenseMap<int64_t, Value> constants;
};

/// An evaluator at a place in the IR.
struct Emitter {
  ValueOps ops;
  Evaluator<ValueOps> evaluator;

  Emitter(OpBuilder &builder, Location loc, const ScalarValues &s)
      : ops(builder, loc),
        evaluator(ops, {s.b, s.h, s.g, Value(), Value(), s.qLen, s.kvLen},
                  s.loads) {}
};

} // namespace

LoadValues RangeAnalysis::emitLoads(OpBuilder &b, Location loc, RowValues rows,
                                    Value kMin, Value kMax,
                                    const ScalarValues &scalars) const {
  Emitter e(b, loc, scalars);
  Evaluator<ValueOps>::Box box{rows.qMin, rows.qMax, std::nullopt};
  if (kMin)
    box.keys = {{kMin, kMax}};
  auto stored = [&](const Load &load) {
    return TypeAttr::get(load.isBool ? b.getI1Type() : b.getI32Type());
  };
  return e.evaluator.evaluateLoads(
      *mask, box,
      [&](const Load &load, ArrayRef<Value> at) -> std::optional<Value> {
        return ParamOp::create(b, loc, b.getIndexType(),
                               b.getI64IntegerAttr(load.number),
                               b.getStringAttr(load.name), stored(load),
                               b.getDenseBoolArrayAttr(load.inside), at);
      },
      [&](const Load &load, ArrayRef<Value> at, unsigned dim,
          Value last) -> std::optional<std::pair<Value, Value>> {
        // Keys are many: their blocks were summed up before.
        UnitAttr blocks =
            load.vars & setOf(Var::K) ? b.getUnitAttr() : UnitAttr();
        auto op = ExtremesOp::create(
            b, loc, b.getIndexType(), b.getIndexType(),
            b.getI64IntegerAttr(load.number), b.getStringAttr(load.name),
            stored(load), b.getI64IntegerAttr(dim), at, last, blocks);
        return std::pair<Value, Value>(op.getMin(), op.getMax());
      });
}

SmallVector<Value> RangeAnalysis::flatten(OpBuilder &b, Location loc,
                                          const LoadValues &loads) const {
  SmallVector<Value> flat;
  for (auto [number, load] : llvm::enumerate(mask->loads)) {
    if (number < loads.size() && loads[number]) {
      flat.append({loads[number]->first, loads[number]->second});
      continue;
    }
    for (int64_t end : {load.isBool ? int64_t(0) : int64_t(INT32_MIN),
                        load.isBool ? int64_t(1) : int64_t(INT32_MAX)})
      flat.push_back(arith::ConstantIndexOp::create(b, loc, end));
  }
  return flat;
}

LoadValues RangeAnalysis::unflatten(ValueRange flat) {
  LoadValues loads;
  for (size_t i = 0; i + 1 < flat.size(); i += 2)
    loads.push_back({{flat[i], flat[i + 1]}});
  return loads;
}

std::pair<Value, Value> RangeAnalysis::emitHull(OpBuilder &builder,
                                                Location loc, RowValues rows,
                                                ScalarValues scalars) const {
  Value first = arith::ConstantIndexOp::create(builder, loc, 0);
  return emitHullWithin(builder, loc, rows, first, scalars.kvLen, scalars);
}

std::pair<Value, Value>
RangeAnalysis::emitHullWithin(OpBuilder &builder, Location loc, RowValues rows,
                              Value keysFrom, Value keysTo,
                              ScalarValues scalars) const {
  Emitter e(builder, loc, scalars);
  e.evaluator.lookAt({keysFrom, keysTo});
  return e.evaluator.clamped(
      e.evaluator.hull(mask->value.yes, {rows.qMin, rows.qMax, std::nullopt}));
}

std::pair<Value, Value> RangeAnalysis::emitInner(OpBuilder &builder,
                                                 Location loc, RowValues rows,
                                                 ScalarValues scalars) const {
  Emitter e(builder, loc, scalars);
  return e.evaluator.clamped(
      e.evaluator.clear(mask->value.no, {rows.qMin, rows.qMax, std::nullopt}));
}

Value RangeAnalysis::emitMay(OpBuilder &builder, Location loc, RowValues rows,
                             Value kMin, Value kMax,
                             ScalarValues scalars) const {
  Emitter e(builder, loc, scalars);
  return e.evaluator.may(mask->value.yes,
                         {rows.qMin, rows.qMax, {{kMin, kMax}}});
}

Value RangeAnalysis::emitMust(OpBuilder &builder, Location loc, RowValues rows,
                              Value kMin, Value kMax,
                              ScalarValues scalars) const {
  Emitter e(builder, loc, scalars);
  return e.ops.notOf(
      e.evaluator.may(mask->value.no, {rows.qMin, rows.qMax, {{kMin, kMax}}}));
}

} // namespace attn

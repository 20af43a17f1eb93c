//===- targets/common/Emitter.cpp - Short names for building loops
//-----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "targets/common/Emitter.h"

using namespace mlir;

namespace attn {

Emitter::Emitter(Location loc, OpBuilder builder, const TargetInfo &target,
                 unsigned space)
    : b(loc, builder), target(target), lanes(target.lanes) {
  i64 = b.getI64Type();
  i32 = b.getI32Type();
  i1 = b.getI1Type();
  f32 = b.getF32Type();
  ptr = LLVM::LLVMPointerType::get(b.getContext(), space);
  vf = VectorType::get({lanes}, f32);
  vi = VectorType::get({lanes}, i32);
  vm = VectorType::get({lanes}, i1);
}

Value Emitter::c(int64_t value) {
  return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
}
Value Emitter::add(Value x, Value y) {
  return b.createOrFold<arith::AddIOp>(x, y);
}
Value Emitter::sub(Value x, Value y) {
  return b.createOrFold<arith::SubIOp>(x, y);
}
Value Emitter::mul(Value x, Value y) {
  return b.createOrFold<arith::MulIOp>(x, y);
}
Value Emitter::div(Value x, Value y) {
  return b.createOrFold<arith::DivUIOp>(x, y);
}
Value Emitter::rem(Value x, Value y) {
  return b.createOrFold<arith::RemUIOp>(x, y);
}
Value Emitter::min(Value x, Value y) {
  return b.createOrFold<arith::MinSIOp>(x, y);
}
Value Emitter::max(Value x, Value y) {
  return b.createOrFold<arith::MaxSIOp>(x, y);
}
Value Emitter::roundUp(Value x, int64_t multiple) {
  return mul(div(add(x, multiple - 1), c(multiple)), multiple);
}
Value Emitter::less(Value x, Value y) {
  return b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::slt, x, y);
}
Value Emitter::equal(Value x, Value y) {
  return b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::eq, x, y);
}
Value Emitter::select(Value condition, Value x, Value y) {
  return b.createOrFold<arith::SelectOp>(condition, x, y);
}

Value Emitter::f(float value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
}
Value Emitter::splat(float value) {
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(vf, b.getF32FloatAttr(value).getValue()));
}
Value Emitter::broadcast(Value scalar) {
  return vector::BroadcastOp::create(
      b, VectorType::get({lanes}, scalar.getType()), scalar);
}
Value Emitter::broadcastElement(Value vector, int64_t element) {
  return vector::ShuffleOp::create(b, vector, vector,
                                   llvm::SmallVector<int64_t>(lanes, element));
}
Value Emitter::fma(Value x, Value y, Value z) {
  return vector::FMAOp::create(b, x, y, z);
}
Value Emitter::maxIgnoringNan(Value x, Value other) {
  Value greater = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, other, x);
  return arith::SelectOp::create(b, greater, other, x);
}

void Emitter::loop(Value from, Value to, int64_t step, Body body) {
  auto forOp = scf::ForOp::create(b, from, to, c(step));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(forOp.getBody()->getTerminator());
  body(forOp.getInductionVar());
}

Values Emitter::loop(Value from, Value to, int64_t step, ValueRange init,
                     CarriedBody body) {
  if (init.empty()) {
    loop(from, to, step, [&](Value i) { body(i, {}); });
    return {};
  }
  auto forOp = scf::ForOp::create(b, from, to, c(step), init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  scf::YieldOp::create(
      b, body(forOp.getInductionVar(), forOp.getRegionIterArgs()));
  return Values(forOp.getResults());
}

Values Emitter::unrolled(Value from, Value to, int64_t unroll, ValueRange init,
                         CarriedBody body) {
  Value main = to;
  Values carried(init);
  if (unroll > 1) {
    Value steps = div(max(sub(to, from), c(0)), c(unroll));
    main = add(from, mul(steps, unroll));
    carried = loop(from, main, unroll, carried, [&](Value i, ValueRange state) {
      Values current(state);
      for (int64_t u = 0; u < unroll; ++u)
        current = body(add(i, u), current);
      return current;
    });
  } else {
    main = from;
  }
  return loop(main, to, 1, carried, body);
}

void Emitter::branch(Value condition, llvm::function_ref<void()> then,
                     llvm::function_ref<void()> otherwise) {
  if (auto known = getConstantIntValue(condition)) {
    if (*known)
      then();
    else if (otherwise)
      otherwise();
    return;
  }
  auto ifOp = scf::IfOp::create(b, condition, bool(otherwise));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(ifOp.thenBlock()->getTerminator());
  then();
  if (otherwise) {
    b.setInsertionPoint(ifOp.elseBlock()->getTerminator());
    otherwise();
  }
}

} // namespace attn

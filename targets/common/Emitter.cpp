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

Value Emitter::at(Value base, Value offset) {
  return LLVM::GEPOp::create(b, base.getType(), f32, base,
                             ArrayRef<LLVM::GEPArg>{offset});
}
Value Emitter::at(Value base, int64_t offset) {
  return offset == 0
             ? base
             : LLVM::GEPOp::create(b, base.getType(), f32, base,
                                   ArrayRef<LLVM::GEPArg>{int32_t(offset)});
}
Value Emitter::loadScalar(Value from) {
  return LLVM::LoadOp::create(b, f32, from, /*alignment=*/4);
}
void Emitter::storeScalar(Value value, Value to) {
  LLVM::StoreOp::create(b, value, to, /*alignment=*/4);
}
Value Emitter::load(Value from, Aligned aligned) {
  return LLVM::LoadOp::create(b, vf, from,
                              aligned == Aligned::Vector ? lanes * 4 : 4);
}
void Emitter::store(Value value, Value to, Aligned aligned) {
  LLVM::StoreOp::create(b, value, to,
                        aligned == Aligned::Vector ? lanes * 4 : 4);
}

void Emitter::prefetch(Value from, int64_t columns) {
  for (int64_t column = 0; column < columns; column += 16)
    LLVM::Prefetch::create(b, at(from, column), /*rw=*/0, /*hint=*/2,
                           /*cache=*/1);
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

void Emitter::copyRows(Value rows, Value columns, Value from, Value fromRow,
                       Value fromColumn, Value to, Value toRow,
                       Value toColumn) {
  // Whole vectors where both sides are dense, then one element at a time.
  Value dense = b.createOrFold<arith::AndIOp>(equal(fromColumn, c(1)),
                                              equal(toColumn, c(1)));
  Value whole = select(dense, mul(div(columns, c(lanes)), lanes), c(0));
  loop(c(0), rows, 1, [&](Value row) {
    Value source = at(from, mul(row, fromRow));
    Value sink = at(to, mul(row, toRow));
    loop(c(0), whole, lanes, [&](Value column) {
      store(load(at(source, column), Aligned::Element), at(sink, column),
            Aligned::Element);
    });
    loop(whole, columns, 1, [&](Value column) {
      storeScalar(loadScalar(at(source, mul(column, fromColumn))),
                  at(sink, mul(column, toColumn)));
    });
  });
}

} // namespace attn

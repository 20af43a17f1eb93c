//===- targets/cpu/Rows.cpp - Rows in and out -----------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "targets/cpu/KernelLowering.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace attn {

/// Row `row` is query `row / heads` of head `head + row % heads`.
Value KernelLowering::rowAddress(const CallFields::Tensor &tensor, Value batch,
                                 Value head, Value row, Value heads,
                                 OperandRange residue) {
  Value token = e.div(row, heads);
  if (!residue.empty())
    token = e.add(scalar(residue[0]), e.mul(token, scalar(residue[1])));
  Value itsHead = e.add(head, e.rem(row, heads));
  Value offset = e.add(
      e.mul(batch, tensor.stride[0]),
      e.add(e.mul(itsHead, tensor.stride[1]), e.mul(token, tensor.stride[2])));
  return e.at(tensor.base, offset);
}

void KernelLowering::loadRows(LoadRowsOp op) {
  const CallFields::Tensor &q = call.operands[int(Operand::Q)];
  Value area = allocate(plan.rows * qkDim);
  tiles[op.getTile()] = area;
  const int64_t width = panelRows();
  Value count = scalar(op.getCount()), row = scalar(op.getRow());
  Value scale = e.f(static_cast<float>(op.getScale().convertToDouble()));
  e.loop(e.c(0), e.roundUp(count, width), 1, [&](Value r) {
    Value panel = e.mul(e.div(r, e.c(width)), width * qkDim);
    Value to = e.at(area, e.add(panel, e.rem(r, e.c(width))));
    auto each = [&](llvm::function_ref<Value(Value)> value) {
      e.unrolled(e.c(0), e.c(qkDim), 4, {}, [&](Value d, ValueRange) {
        e.storeScalar(value(d), e.at(to, e.mul(d, width)));
        return Values{};
      });
    };
    e.branch(
        e.less(r, count),
        [&] {
          Value from =
              rowAddress(q, scalar(op.getBatch()), scalar(op.getHead()),
                         e.add(row, r), scalar(op.getHeads()), op.getResidue());
          each([&](Value d) {
            Value x = e.loadScalar(e.at(from, e.mul(d, q.stride[3])));
            return arith::MulFOp::create(e.b, x, scale).getResult();
          });
        },
        [&] { each([&](Value) { return e.f(0); }); });
  });
}

void KernelLowering::loadKeys(LoadKeysOp op) {
  Operand which = op.getSource().getDefiningOp<TensorOp>().getWhich();
  const CallFields::Tensor &tensor = call.operands[int(which)];
  Value offset = e.add(e.mul(scalar(op.getBatch()), tensor.stride[0]),
                       e.add(e.mul(scalar(op.getHead()), tensor.stride[1]),
                             e.mul(scalar(op.getToken()), tensor.stride[2])));
  Value step = op.getStep() ? scalar(op.getStep()) : e.c(1);
  views[op.getTile()] = {e.at(tensor.base, offset),
                         e.mul(tensor.stride[2], step), tensor.stride[3],
                         scalar(op.getCount())};
}

void KernelLowering::fill(FillOp op) {
  TileType type = op.getTile().getType();
  // In whole panels: a column of one may be an accumulator too.
  const int64_t columns = llvm::alignTo(type.getCols(), panelColumns());
  Value area = allocate(type.getRows() * columns);
  tiles[op.getTile()] = area;
  Value value = e.splat(op.getValue().convertToFloat());
  e.loop(e.c(0), e.c(type.getRows() * columns), e.lanes,
         [&](Value i) { e.store(value, e.at(area, i), Aligned::Vector); });
}

void KernelLowering::finish(FinishOp op) {
  Value acc = tiles.lookup(op.getAcc()), max = tiles.lookup(op.getMax()),
        sum = tiles.lookup(op.getSum());
  tiles[op.getOut()] = acc;
  tiles[op.getLse()] = lseArea;
  Value zero = e.splat(0), one = e.splat(1);
  Value minusInfinity = e.splat(-std::numeric_limits<float>::infinity());
  e.loop(e.c(0), e.c(plan.rows), e.lanes, [&](Value r) {
    Value s = e.load(e.at(sum, r), Aligned::Vector);
    Value none = arith::CmpFOp::create(e.b, arith::CmpFPredicate::OEQ, s, zero);
    Value divisor = arith::SelectOp::create(e.b, none, one, s);
    e.store(divisor, e.at(sum, r), Aligned::Vector);
    Value lse = arith::AddFOp::create(
        e.b, e.load(e.at(max, r), Aligned::Vector), emitLog(e, divisor));
    e.store(arith::SelectOp::create(e.b, none, minusInfinity, lse),
            e.at(lseArea, r), Aligned::Vector);
  });
  const int64_t width = panelColumns();
  const int64_t panels = llvm::divideCeil(valueDim, width);
  e.loop(e.c(0), e.c(plan.rows), 1, [&](Value r) {
    Value divisor = e.broadcast(e.loadScalar(e.at(sum, r)));
    e.loop(e.c(0), e.c(panels), 1, [&](Value panel) {
      Value from =
          e.at(acc, e.add(e.mul(panel, plan.rows * width), e.mul(r, width)));
      for (int64_t v = 0; v < plan.valueVectors; ++v) {
        Value at = e.at(from, v * e.lanes);
        e.store(
            arith::DivFOp::create(e.b, e.load(at, Aligned::Vector), divisor),
            at, Aligned::Vector);
      }
    });
  });
}

void KernelLowering::storeRows(StoreRowsOp op) {
  const CallFields::Tensor &o = call.operands[int(Operand::O)];
  Value out = tiles.lookup(op.getOut()), lse = tiles.lookup(op.getLse());
  const int64_t width = panelColumns();
  Value batch = scalar(op.getBatch()), head = scalar(op.getHead()),
        heads = scalar(op.getHeads()), first = scalar(op.getRow()),
        count = scalar(op.getCount());
  e.loop(e.c(0), count, 1, [&](Value r) {
    Value to =
        rowAddress(o, batch, head, e.add(first, r), heads, op.getResidue());
    // A panel after the other: each is a dense row of `width` columns.
    e.loop(e.c(0), e.c(valueDim), width, [&](Value column) {
      Value from = e.at(out, e.add(e.mul(column, plan.rows), e.mul(r, width)));
      e.copyRows(e.c(1), e.min(e.c(width), e.sub(e.c(valueDim), column)), from,
                 e.c(width), e.c(1), e.at(to, e.mul(column, o.stride[3])),
                 e.c(0), o.stride[3]);
    });
  });
  Value none = LLVM::ZeroOp::create(e.b, e.ptr);
  Value wanted =
      LLVM::ICmpOp::create(e.b, LLVM::ICmpPredicate::ne, call.lse, none);
  e.branch(wanted, [&] {
    CallFields::Tensor target{
        call.lse,
        {call.lseStride[0], call.lseStride[1], call.lseStride[2], {}}};
    e.loop(e.c(0), count, 1, [&](Value r) {
      e.storeScalar(e.loadScalar(e.at(lse, r)),
                    rowAddress(target, batch, head, e.add(first, r), heads,
                               op.getResidue()));
    });
  });
}

} // namespace attn

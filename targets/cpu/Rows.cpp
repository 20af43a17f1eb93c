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

Value KernelLowering::rowAddress(const CallFields::Tensor &tensor,
                                 const RowPlaces &places, Value r) {
  return e.at(tensor.base, rowOffset(tensor, places, r), tensor.element);
}

/// Those of `most` and one more: what is left out is written, and then written
/// over.
void KernelLowering::pick(PickOp op) {
  // One place more: what is left out is written, and then written over.
  Value area = allocate(op.getPositions().getType().getMost() + 1);
  tiles[op.getPositions()] = area;
  Value batch = scalar(op.getBatch());
  Values outside;
  for (Value v : op.getOutside())
    outside.push_back(scalar(v));
  Value count =
      e.loop(scalar(op.getFirst()), scalar(op.getEnd()), 1, {e.c(0)},
             [&](Value i, ValueRange state) {
               Value position = listedPosition(batch, i);
               LLVM::StoreOp::create(
                   e.b, arith::TruncIOp::create(e.b, e.i32, position),
                   e.at(area, state[0], e.i32), 4);
               if (outside.empty())
                 return Values{e.add(state[0], 1)};
               Value distance = e.sub(position, outside[0]);
               Value before = e.less(position, outside[0]);
               Value beyond = e.less(e.sub(outside[1], e.c(1)), position);
               Value apart = arith::CmpIOp::create(
                   e.b, arith::CmpIPredicate::ne,
                   arith::RemSIOp::create(e.b, distance, outside[2]), e.c(0));
               Value kept = arith::OrIOp::create(
                   e.b, arith::OrIOp::create(e.b, before, beyond), apart);
               return Values{
                   e.add(state[0], arith::ExtUIOp::create(e.b, e.i64, kept))};
             })[0];
  scalars.map(op.getCount(), count);
}

void KernelLowering::loadRows(LoadRowsOp op) {
  const CallFields::Tensor &q = call.operands[int(Operand::Q)];
  Value area = allocate(plan.rows * qkDim);
  tiles[op.getTile()] = area;
  const int64_t width = panelRows();
  Value count = scalar(op.getCount());
  const RowPlaces places = placesOf(op, rowPositions);
  if (op.getListed()) {
    // One position for each row; rows beyond the last have the last one's.
    Value positions = tiles.lookup(op.getListed());
    Value within = e.rem(places.row, places.heads), last = e.sub(count, e.c(1));
    e.loop(e.c(0), e.c(plan.rows), 1, [&](Value r) {
      Value number = e.div(e.add(within, e.min(r, last)), places.heads);
      LLVM::StoreOp::create(e.b, positionAt(positions, number),
                            e.at(rowPositions, r, e.i32), 4);
    });
  }
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
          Value from = rowAddress(q, places, r);
          each([&](Value d) {
            Value x = e.loadScalar(e.at(from, e.mul(d, q.stride[3]), q.element),
                                   q.element);
            return arith::MulFOp::create(e.b, x, scale).getResult();
          });
        },
        [&] { each([&](Value) { return e.f(0); }); });
  });
}

void KernelLowering::loadKeys(LoadKeysOp op) {
  Operand which = op.getSource().getDefiningOp<TensorOp>().getWhich();
  const CallFields::Tensor &tensor = call.operands[int(which)];
  if (op.getListed()) {
    // Copied together, dense and as f32.
    const int64_t width = op.getTile().getType().getCols();
    Value area = allocate(plan.keys * width), count = scalar(op.getCount());
    Value positions = tiles.lookup(op.getListed());
    Value head = e.at(tensor.base,
                      e.add(e.mul(scalar(op.getBatch()), tensor.stride[0]),
                            e.mul(scalar(op.getHead()), tensor.stride[1])),
                      tensor.element);
    e.loop(e.c(0), count, 1, [&](Value key) {
      Value token = wide(positionAt(positions, key));
      e.copyRows(e.c(1), e.c(width),
                 {e.at(head, e.mul(token, tensor.stride[2]), tensor.element),
                  e.c(0), tensor.stride[3], tensor.element},
                 {e.at(area, e.mul(key, width)), e.c(0), e.c(1), e.f32});
    });
    views[op.getTile()] = {{area, e.c(width), e.c(1), e.f32}, count};
    return;
  }
  Value offset = e.add(e.mul(scalar(op.getBatch()), tensor.stride[0]),
                       e.add(e.mul(scalar(op.getHead()), tensor.stride[1]),
                             e.mul(scalar(op.getToken()), tensor.stride[2])));
  Value step = op.getStep() ? scalar(op.getStep()) : e.c(1);
  views[op.getTile()] = {{e.at(tensor.base, offset, tensor.element),
                          e.mul(tensor.stride[2], step), tensor.stride[3],
                          tensor.element},
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

void KernelLowering::sink(SinkOp op) {
  Value max = allocate(plan.rows), sum = allocate(plan.rows);
  tiles[op.getMax()] = max;
  tiles[op.getSum()] = sum;
  const PairInfo info = pairInfo(op);
  Value head = narrow(scalar(op.getHead())), zero = narrow(e.c(0));
  Value heads = e.broadcast(narrow(scalar(op.getHeads())));
  Value none = e.splat(-std::numeric_limits<float>::infinity());
  e.loop(e.c(0), e.c(plan.rows), e.lanes, [&](Value r) {
    Value within =
        narrow(e.rem(e.add(scalar(op.getRow()), r), scalar(op.getHeads())));
    Value row = arith::AddIOp::create(e.b, e.broadcast(within), iota());
    Value own = arith::AddIOp::create(e.b, e.broadcast(head),
                                      arith::RemUIOp::create(e.b, row, heads));
    Value logit = evaluated(info, op.getLogit(), {}, own, zero, zero);
    Value absent =
        arith::CmpFOp::create(e.b, arith::CmpFPredicate::OEQ, logit, none);
    e.store(logit, e.at(max, r), Aligned::Vector);
    e.store(arith::SelectOp::create(e.b, absent, e.splat(0), e.splat(1)),
            e.at(sum, r), Aligned::Vector);
  });
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
        // Adding 0 makes -0 the same 0 that every other way of adding nothing
        // to a sum gives.
        Value out =
            arith::DivFOp::create(e.b, e.load(at, Aligned::Vector), divisor);
        e.store(arith::AddFOp::create(e.b, out, e.splat(0)), at,
                Aligned::Vector);
      }
    });
  });
}

void KernelLowering::storeRows(StoreRowsOp op) {
  const CallFields::Tensor &o = call.operands[int(Operand::O)];
  Value out = tiles.lookup(op.getOut()), lse = tiles.lookup(op.getLse());
  const int64_t width = panelColumns();
  Value count = scalar(op.getCount());
  const RowPlaces places = placesOf(op, rowPositions);
  auto each = [&](llvm::function_ref<void(Value)> body) {
    e.loop(e.c(0), count, 1,
           [&](Value r) { e.branch(isOwn(op, places, r), [&] { body(r); }); });
  };
  each([&](Value r) {
    Value to = rowAddress(o, places, r);
    // A panel after the other: each is a dense row of `width` columns.
    e.loop(e.c(0), e.c(valueDim), width, [&](Value column) {
      Value from = e.at(out, e.add(e.mul(column, plan.rows), e.mul(r, width)));
      e.copyRows(e.c(1), e.min(e.c(width), e.sub(e.c(valueDim), column)),
                 {from, e.c(width), e.c(1), e.f32},
                 {e.at(to, e.mul(column, o.stride[3]), o.element), e.c(0),
                  o.stride[3], o.element});
    });
  });
  Value wanted =
      LLVM::ICmpOp::create(e.b, LLVM::ICmpPredicate::ne, call.lse, null());
  e.branch(wanted, [&] {
    CallFields::Tensor target{
        call.lse,
        {call.lseStride[0], call.lseStride[1], call.lseStride[2], {}},
        e.f32};
    each([&](Value r) {
      e.storeScalar(e.loadScalar(e.at(lse, r)), rowAddress(target, places, r));
    });
  });
}

} // namespace attn

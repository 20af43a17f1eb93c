//===- targets/cuda/Rows.cpp - Rows in and out ----------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "targets/common/VectorMath.h"
#include "targets/cuda/FragmentLowering.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace attn {

static constexpr float kInfinity = std::numeric_limits<float>::infinity();

Value FragmentLowering::equalF(Value x, float y) {
  return arith::CmpFOp::create(e.b, arith::CmpFPredicate::OEQ, x, e.f(y));
}

void FragmentLowering::loadRows(LoadRowsOp op) {
  const CallFields::Tensor tensor = loadOperand(Operand::Q);
  Value count = scalar(op.getCount());
  const RowPlaces places = placesOf(op, rowPositions);
  if (op.getListed()) {
    // One position for each row; rows beyond the last have the last one's.
    Value positions = tiles.lookup(op.getListed());
    Value within = e.rem(places.row, places.heads), last = e.sub(count, e.c(1));
    e.loop(wide(thread), e.c(plan.rows), threads(), [&](Value r) {
      Value number = e.div(e.add(within, e.min(r, last)), places.heads);
      LLVM::StoreOp::create(e.b, positionAt(positions, number),
                            e.at(rowPositions, r, e.i32), 4);
    });
    barrier();
  }
  auto place = [&](Value r) { return rowOffset(tensor, places, r); };
  copyIn(queryRows, plan.rows, {tensor, {}, {}, place, count});
  commitCopies();
  waitForCopies(0);
  barrier();
  queries.rows = queryRows;
  queries.scale = e.f(static_cast<float>(op.getScale().convertToDouble()));
  queries.fragments.clear();
  if (usesMma && qkDim <= 128)
    for (int64_t block = 0; block < queryRows.chunks / 2; ++block)
      queries.fragments.append(queryFragment(block));
}

/// Columns 16*block to 16*block+15 of this warp's rows.
Values FragmentLowering::queryFragment(int64_t block) {
  Value row = addI(mulI(warp, 16), andI(lane, 15));
  Value chunk = addI(shiftRight(lane, 4), 2 * block);
  return matrices(shared(chunkOffset(queryRows, row, chunk)), false);
}

LogicalResult FragmentLowering::fill(FillOp op) {
  const float value = op.getValue().convertToFloat();
  // Each thread holds a share of a sum, so a column may be 0 or nothing.
  if (value != 0 && value != -kInfinity)
    return op.emitOpError("fills with what is neither 0 nor -inf");
  fragments[op.getTile()] =
      Values(valuesOf(op.getTile().getType()), e.f(value));
  return success();
}

void FragmentLowering::sink(SinkOp op) {
  Value isFirst =
      arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, inGroup, i32(0));
  Values max, sum;
  for (int64_t r = 0; r < 2; ++r) {
    Value logit = sinkLogit(op, wide(addI(firstRow, 8 * r)));
    Value present = arith::CmpFOp::create(e.b, arith::CmpFPredicate::UNE, logit,
                                          e.f(-kInfinity));
    max.push_back(logit);
    sum.push_back(e.select(both(isFirst, present), e.f(1), e.f(0)));
  }
  setColumn(op.getMax(), max);
  setColumn(op.getSum(), sum);
}

void FragmentLowering::finish(FinishOp op) {
  const Values &acc = fragments.find(op.getAcc())->second;
  const Values &max = fragments.find(op.getMax())->second;
  const Values &sum = fragments.find(op.getSum())->second;
  Values out, lse, factors;
  for (int64_t r = 0; r < 2; ++r) {
    Value total = addF(sum[r], fromNeighbour(sum[r], 1));
    total = addF(total, fromNeighbour(total, 2));
    Value none = equalF(total, 0);
    Value divisor = e.select(none, e.f(1), total);
    Value log = vector::ExtractOp::create(e.b, emitLog(e, e.broadcast(divisor)),
                                          ArrayRef<int64_t>{0});
    lse.push_back(e.select(none, e.f(-kInfinity), addF(max[r], log)));
    factors.push_back(arith::DivFOp::create(e.b, e.f(1), divisor));
  }
  // Adding 0 makes -0 the same 0 that every other way of adding nothing to a
  // sum gives.
  for (auto [i, x] : llvm::enumerate(acc))
    out.push_back(fmaF(x, factors[i % 4 / 2], e.f(0)));
  fragments[op.getOut()] = out;
  fragments[op.getLse()] = lse;
}

void FragmentLowering::storeRows(StoreRowsOp op) {
  const CallFields::Tensor tensor = loadOperand(Operand::O);
  const Values &out = fragments.find(op.getOut())->second;
  const Values &lse = fragments.find(op.getLse())->second;
  Value count = scalar(op.getCount());
  const RowPlaces places = placesOf(op, rowPositions);
  const SharedRows &area = outRows;
  barrier(); // of those who read what was there
  for (auto [i, x] : llvm::enumerate(out)) {
    if (i % 2)
      continue;
    Value row = addI(firstRow, i % 4 / 2 * 8);
    Value column = addI(mulI(inGroup, 2), int64_t(i / 4 * 8));
    Value chunk = shiftRight(column, llvm::Log2_64(area.perChunk()));
    Value within = mulI(andI(column, area.perChunk() - 1), area.elementBytes());
    Value to = shared(addI(chunkOffset(area, row, chunk), within));
    if (area.type.isF32()) {
      Value pair = LLVM::UndefOp::create(e.b, VectorType::get({2}, e.f32));
      pair = vector::InsertOp::create(e.b, x, pair, ArrayRef<int64_t>{0});
      pair =
          vector::InsertOp::create(e.b, out[i + 1], pair, ArrayRef<int64_t>{1});
      LLVM::StoreOp::create(e.b, pair, to, 8);
    } else {
      LLVM::StoreOp::create(e.b, packed(x, out[i + 1], area.type), to, 4);
    }
  }
  barrier();
  Value aligned = isAligned(tensor, area.elementBytes());
  e.loop(wide(thread), e.c(plan.rows * area.chunks), threads(),
         [&](Value number) {
           Value r = e.div(number, e.c(area.chunks));
           Value chunk = e.rem(number, e.c(area.chunks));
           e.branch(e.less(r, count), [&] {
             e.branch(isOwn(op, places, r), [&] {
               storeChunk(area, r, chunk, tensor, rowOffset(tensor, places, r),
                          aligned);
             });
           });
         });
  Value wanted =
      LLVM::ICmpOp::create(e.b, LLVM::ICmpPredicate::ne, call.lse, null());
  Value isFirst =
      arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, inGroup, i32(0));
  const CallFields::Tensor target{
      call.lse,
      {call.lseStride[0], call.lseStride[1], call.lseStride[2], {}},
      e.f32};
  e.branch(both(wanted, isFirst), [&] {
    for (int64_t i = 0; i < 2; ++i) {
      Value r = wide(addI(firstRow, 8 * i));
      e.branch(e.less(r, count), [&] {
        e.branch(isOwn(op, places, r), [&] {
          e.storeScalar(lse[i],
                        e.at(target.base, rowOffset(target, places, r)));
        });
      });
    }
  });
}

/// Whole where all of it exists and lies well, else one element at a time.
void FragmentLowering::storeChunk(const SharedRows &from, Value row,
                                  Value chunk, const CallFields::Tensor &tensor,
                                  Value offset, Value aligned) {
  const int64_t per = from.perChunk();
  Type memory = e.b.getIntegerType(from.elementBytes() * 8);
  Value source = shared(chunkOffset(from, narrow(row), narrow(chunk)));
  Value column = e.mul(chunk, per);
  Value whole = e.less(e.add(column, per - 1), e.c(from.width));
  e.branch(
      both(aligned, whole),
      [&] {
        auto words = VectorType::get({4}, e.i32);
        Value all = LLVM::LoadOp::create(e.b, words, source, 16);
        LLVM::StoreOp::create(
            e.b, all, e.at(tensor.base, e.add(offset, column), memory), 16);
      },
      [&] {
        e.loop(e.c(0), e.min(e.c(per), e.sub(e.c(from.width), column)), 1,
               [&](Value i) {
                 Value x = LLVM::LoadOp::create(
                     e.b, memory, e.at(source, i, memory), from.elementBytes());
                 Value to =
                     e.add(offset, e.mul(e.add(column, i), tensor.stride[3]));
                 LLVM::StoreOp::create(e.b, x, e.at(tensor.base, to, memory),
                                       from.elementBytes());
               });
      });
}

} // namespace attn

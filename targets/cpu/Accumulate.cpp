//===- targets/cpu/Accumulate.cpp - Weights times values ------------------===//
//
// Part of attnc. Apache-2.0.
//
// Lanes are value columns. A panel of V is copied to a dense area once a key
// tile (its rows would otherwise fall into few sets of the cache) and serves
// all rows; the weight of a (key, row) pair is broadcast.
//
//===----------------------------------------------------------------------===//
#include "targets/cpu/KernelLowering.h"
#include <tuple>

using namespace mlir;

namespace attn {

/// A panel of V for keys lo..hi-1: where its row of key 0 is, and the stride.
std::pair<Value, Value> KernelLowering::valuePanel(const KeyRows &rows,
                                                   bool masked, Value tileRows,
                                                   Value panel, Value lo,
                                                   Value hi) {
  const int64_t width = panelColumns();
  Value first = e.mul(panel, width);
  Value columns = e.min(e.c(width), e.sub(e.c(valueDim), first));
  Value from = e.at(rows.base, e.mul(first, rows.columnStride));
  Value whole = e.b.createOrFold<arith::AndIOp>(
      e.equal(columns, e.c(width)), e.equal(rows.columnStride, e.c(1)));
  // With a mask a copy pays once several register blocks of rows read it;
  // without, the first block makes it on its way.
  Value inPlace = whole;
  if (masked)
    inPlace = e.b.createOrFold<arith::AndIOp>(
        whole, e.less(tileRows, e.c(2 * plan.valueRows + 1)));
  e.branch(
      inPlace, [] {},
      [&] {
        e.branch(
            whole,
            [&] {
              e.unrolled(lo, hi, 4, {}, [&](Value key, ValueRange) {
                for (int64_t v = 0; v < plan.valueVectors; ++v)
                  e.store(e.load(e.at(e.at(from, e.mul(key, rows.rowStride)),
                                      v * e.lanes),
                                 Aligned::Element),
                          e.at(e.at(valueArea, e.mul(key, width)), v * e.lanes),
                          Aligned::Vector);
                return Values{};
              });
            },
            [&] {
              e.copyRows(e.sub(hi, lo), columns,
                         e.at(from, e.mul(lo, rows.rowStride)), rows.rowStride,
                         rows.columnStride, e.at(valueArea, e.mul(lo, width)),
                         e.c(width), e.c(1));
            });
      });
  return {e.select(inPlace, from, valueArea),
          e.select(inPlace, rows.rowStride, e.c(width))};
}

void KernelLowering::accumulateBlock(int64_t rows, Value acc, Value decay,
                                     Value weights, Value panel, Value stride,
                                     Value lo, Value hi, bool masked,
                                     Value copy) {
  const int64_t vectors = plan.valueVectors, width = panelColumns();
  Values state;
  for (int64_t m = 0; m < rows; ++m) {
    Value factor = e.broadcast(e.loadScalar(e.at(decay, m)));
    for (int64_t v = 0; v < vectors; ++v)
      state.push_back(arith::MulFOp::create(
          e.b, e.load(e.at(acc, m * width + v * e.lanes), Aligned::Vector),
          factor));
  }
  Value zero = e.splat(0);
  Value none = arith::ConstantOp::create(e.b, e.b.getZeroAttr(e.vi));
  state = e.unrolled(
      lo, hi, masked ? 1 : plan.unroll, state,
      [&](Value key, ValueRange before) {
        Values next(before);
        Values values;
        for (int64_t v = 0; v < vectors; ++v)
          values.push_back(
              e.load(e.at(e.at(panel, e.mul(key, stride)), v * e.lanes),
                     Aligned::Element));
        if (copy)
          for (int64_t v = 0; v < vectors; ++v)
            e.store(values[v], e.at(e.at(copy, e.mul(key, width)), v * e.lanes),
                    Aligned::Vector);
        Value column = e.at(weights, e.mul(key, plan.rows));
        for (int64_t m = 0; m < rows; ++m) {
          Value weight = e.broadcast(e.loadScalar(e.at(column, m)));
          Value skip;
          if (masked)
            skip = arith::CmpIOp::create(
                e.b, arith::CmpIPredicate::slt,
                arith::BitcastOp::create(e.b, e.vi, weight), none);
          for (int64_t v = 0; v < vectors; ++v) {
            Value value = values[v];
            if (masked)
              value = arith::SelectOp::create(e.b, skip, zero, value);
            Value &sum = next[m * vectors + v];
            sum = e.fma(weight, value, sum);
          }
        }
        return next;
      });
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t v = 0; v < vectors; ++v)
      e.store(state[m * vectors + v], e.at(acc, m * width + v * e.lanes),
              Aligned::Vector);
}

/// A decay of zero forgets what was summed, even where huge values of keys that
/// now weigh nothing have overflown it: infinity times zero is not zero.
void KernelLowering::forgetDecayed(Value acc, Value rows) {
  const int64_t width = panelColumns();
  const int64_t panels = llvm::divideCeil(valueDim, width);
  e.loop(e.c(0), rows, 1, [&](Value r) {
    Value forgotten =
        arith::CmpFOp::create(e.b, arith::CmpFPredicate::OEQ,
                              e.loadScalar(e.at(decayArea, r)), e.f(0));
    e.branch(forgotten, [&] {
      Value row = e.at(acc, e.mul(r, width));
      e.loop(e.c(0), e.c(panels), 1, [&](Value panel) {
        Value to = e.at(row, e.mul(panel, plan.rows * width));
        for (int64_t v = 0; v < plan.valueVectors; ++v)
          e.store(e.splat(0), e.at(to, v * e.lanes), Aligned::Vector);
      });
    });
  });
}

void KernelLowering::accumulate(AccumulateOp op) {
  auto softmaxOp = op.getWeights().getDefiningOp<SoftmaxOp>();
  PairInfo pairs = pairInfo(softmaxOp.getScores().getDefiningOp<ScoresOp>());
  Value acc = tiles.lookup(op.getAcc());
  tiles[op.getResult()] = acc;
  const KeyRows values = views.find(op.getValues())->second;
  const int64_t width = panelColumns();
  const int64_t panels = llvm::divideCeil(valueDim, width);
  const int64_t full = plan.valueRows, low = endBlock(full);
  const bool masked = pairs.mask != nullptr;
  auto [tileLo, tileHi] = bounds(pairs, e.c(0), e.sub(pairs.rows, e.c(1)));
  Value rows = e.roundUp(pairs.rows, low);
  forgetDecayed(acc, pairs.rows);
  e.loop(e.c(0), e.c(panels), 1, [&, lo = tileLo, hi = tileHi](Value panel) {
    Value from, stride;
    std::tie(from, stride) =
        valuePanel(values, masked, pairs.rows, panel, lo, hi);
    Value area = e.at(acc, e.mul(panel, plan.rows * width));
    auto block = [&](int64_t height, Value r, Value copy = {}) {
      Value first, last;
      std::tie(first, last) = bounds(pairs, r, e.add(r, height - 1));
      auto body = [&] {
        accumulateBlock(height, e.at(area, e.mul(r, width)), e.at(decayArea, r),
                        e.at(scoreArea, r), from, stride, first, last, masked,
                        copy);
      };
      // Rows that may see no key of this tile keep what they have.
      if (masked)
        e.branch(e.less(first, last), body);
      else
        body();
    };
    Value next = e.c(0);
    Value blocks = e.div(rows, e.c(full));
    if (!masked) {
      // The first block reads V where it lies and leaves the dense copy.
      Value some = e.less(e.c(0), blocks);
      e.branch(some, [&] { block(full, e.c(0), valueArea); });
      next = e.select(some, e.c(full), next);
      from = e.select(some, valueArea, from);
      stride = e.select(some, e.c(width), stride);
    }
    if (full > low) {
      Value end = e.mul(blocks, full);
      e.loop(next, end, full, [&](Value r) { block(full, r); });
      next = end;
    }
    e.loop(next, rows, low, [&](Value r) { block(low, r); });
  });
}

} // namespace attn

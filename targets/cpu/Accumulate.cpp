//===- targets/cpu/Accumulate.cpp - Weights times values ------------------===//
//
// Part of attnc. Apache-2.0.
//
// Lanes are value columns; the weight of a (key, row) pair is broadcast. Where
// several register blocks of rows read a panel of V, they read a dense copy:
// the rows of V would fall into few sets of the cache.
//
//===----------------------------------------------------------------------===//
#include "targets/cpu/KernelLowering.h"
#include <tuple>

using namespace mlir;

namespace attn {

/// A panel of V for keys lo..hi-1, dense in columns, from its row of key 0 on.
Matrix KernelLowering::valuePanel(const KeyRows &rows, bool ahead,
                                  Value tileRows, Value panel, Value lo,
                                  Value hi) {
  const int64_t width = panelColumns();
  Value first = e.mul(panel, width);
  Value columns = e.min(e.c(width), e.sub(e.c(valueDim), first));
  Matrix from = rows;
  from.base = e.at(rows.base, e.mul(first, rows.columnStride), rows.element);
  Value whole = e.b.createOrFold<arith::AndIOp>(
      e.equal(columns, e.c(width)), e.equal(rows.columnStride, e.c(1)));
  // A copy made ahead, which is f32, pays once several register blocks of rows
  // read it; else the first block makes it on its way.
  const bool isNarrow = rows.element != e.f32;
  Value inPlace = whole;
  if (ahead)
    inPlace =
        isNarrow
            ? arith::ConstantOp::create(e.b, e.b.getBoolAttr(false)).getResult()
            : e.b.createOrFold<arith::AndIOp>(
                  whole, e.less(tileRows, e.c(2 * plan.valueRows + 1)));
  Matrix copy{isNarrow && !ahead ? narrowArea : valueArea, e.c(width), e.c(1),
              ahead ? e.f32 : rows.element};
  e.branch(
      inPlace, [] {},
      [&] {
        auto vectors = [&] {
          e.unrolled(lo, hi, 4, {}, [&](Value key, ValueRange) {
            Value source =
                e.at(from.base, e.mul(key, from.rowStride), from.element);
            Value sink = e.at(copy.base, e.mul(key, width));
            for (int64_t v = 0; v < plan.valueVectors; ++v)
              e.store(e.load(e.at(source, v * e.lanes, from.element),
                             Aligned::Element, from.element),
                      e.at(sink, v * e.lanes), Aligned::Vector);
            return Values{};
          });
        };
        auto elements = [&] {
          auto part = [&](Matrix of) {
            of.base = e.at(of.base, e.mul(lo, of.rowStride), of.element);
            return of;
          };
          e.copyRows(e.sub(hi, lo), columns, part(from), part(copy));
        };
        // (Else what is not in place is not whole.)
        if (ahead)
          e.branch(whole, vectors, elements);
        else
          elements();
      });
  return {e.select(inPlace, from.base, copy.base),
          e.select(inPlace, from.rowStride, copy.rowStride), e.c(1),
          copy.element};
}

/// acc * decay + weights x values over columns lo..hi-1, `rows` rows at a time.
void KernelLowering::accumulateBlocks(const ValueBlock &block) {
  std::string name = "accumulate_" + std::to_string(block.rows);
  if (block.masked)
    name += "_masked";
  if (block.copy)
    name += "_copy";
  name += suffix(block.element);
  Values args = {block.count,  block.acc,    block.decay, block.weights,
                 block.values, block.stride, block.lo,    block.hi};
  if (block.copy)
    args.push_back(block.copy);
  callRoutine(name, args, [&](ValueRange in) {
    e.loop(e.c(0), in[0], block.rows, [&](Value r) {
      ValueBlock inside = block;
      inside.acc = e.at(in[1], e.mul(r, panelColumns()));
      inside.decay = e.at(in[2], r), inside.weights = e.at(in[3], r);
      inside.values = in[4], inside.stride = in[5];
      inside.lo = in[6], inside.hi = in[7];
      if (block.copy)
        inside.copy = in[8];
      accumulateBody(inside);
    });
  });
}

void KernelLowering::accumulateBody(const ValueBlock &block) {
  const int64_t vectors = plan.valueVectors, width = panelColumns();
  auto accAt = [&](int64_t m, int64_t v) {
    return e.at(block.acc, m * width + v * e.lanes);
  };
  Values state;
  for (int64_t m = 0; m < block.rows; ++m) {
    Value factor = e.broadcast(e.loadScalar(e.at(block.decay, m)));
    for (int64_t v = 0; v < vectors; ++v)
      state.push_back(arith::MulFOp::create(
          e.b, e.load(accAt(m, v), Aligned::Vector), factor));
  }
  Value zero = e.splat(0);
  Value none = arith::ConstantOp::create(e.b, e.b.getZeroAttr(e.vi));
  auto step = [&](Value key, ValueRange before) {
    Values next(before), values;
    Value from = e.at(block.values, e.mul(key, block.stride), block.element);
    for (int64_t v = 0; v < vectors; ++v)
      values.push_back(e.load(e.at(from, v * e.lanes, block.element),
                              Aligned::Element, block.element));
    if (block.copy)
      for (int64_t v = 0; v < vectors; ++v)
        e.store(values[v],
                e.at(e.at(block.copy, e.mul(key, width)), v * e.lanes),
                Aligned::Vector);
    Value column = e.at(block.weights, e.mul(key, plan.rows));
    Value several;
    for (int64_t m = 0; m < block.rows; ++m) {
      // Whole vectors of weights, then one by one.
      const int64_t element = m % e.lanes;
      const bool byElement =
          e.target.multipliesByElement && m - element + e.lanes <= block.rows;
      if (byElement && element == 0)
        several = e.load(e.at(column, m), Aligned::Element);
      Value weight = byElement ? e.broadcastElement(several, element)
                               : e.broadcast(e.loadScalar(e.at(column, m)));
      Value skip;
      if (block.masked)
        skip = arith::CmpIOp::create(
            e.b, arith::CmpIPredicate::slt,
            arith::BitcastOp::create(e.b, e.vi, weight), none);
      for (int64_t v = 0; v < vectors; ++v) {
        Value value = values[v];
        if (block.masked)
          value = arith::SelectOp::create(e.b, skip, zero, value);
        Value &sum = next[m * vectors + v];
        sum = e.fma(weight, value, sum);
      }
    }
    return next;
  };
  // Weights that are told apart, and elements that are converted, take
  // registers that a second key at a time would not leave.
  const bool alone = block.masked || block.element != e.f32;
  state = e.unrolled(block.lo, block.hi, alone ? 1 : plan.unroll, state, step);
  for (int64_t m = 0; m < block.rows; ++m)
    for (int64_t v = 0; v < vectors; ++v)
      e.store(state[m * vectors + v], accAt(m, v), Aligned::Vector);
}

/// i1: whether no value of keys lo..hi-1 is infinite or NaN.
Value KernelLowering::allFinite(const KeyRows &rows, Value lo, Value hi) {
  // Times zero each is zero, but for those.
  Value whole = e.select(e.equal(rows.columnStride, e.c(1)),
                         e.c(valueDim / e.lanes * e.lanes), e.c(0));
  auto add = [&](Value sum, Value x, Value zero) -> Value {
    return arith::AddFOp::create(e.b, sum, arith::MulFOp::create(e.b, x, zero));
  };
  constexpr int64_t kSums = 4;
  Values sums = e.unrolled(
      lo, hi, kSums, Values(kSums, e.splat(0)),
      [&](Value key, ValueRange before) {
        const Type type = rows.element;
        Value row = e.at(rows.base, e.mul(key, rows.rowStride), type);
        Value own = e.loop(e.c(0), whole, e.lanes, {before[0]},
                           [&](Value column, ValueRange state) {
                             Value x = e.load(e.at(row, column, type),
                                              Aligned::Element, type);
                             return Values{add(state[0], x, e.splat(0))};
                           })[0];
        Value rest = e.loop(
            whole, e.c(valueDim), 1, {e.f(0)},
            [&](Value column, ValueRange state) {
              Value x = e.loadScalar(
                  e.at(row, e.mul(column, rows.columnStride), type), type);
              return Values{add(state[0], x, e.f(0))};
            })[0];
        // The next key goes on with another sum.
        Values after(before.drop_front());
        after.push_back(arith::AddFOp::create(e.b, own, e.broadcast(rest)));
        return after;
      });
  Value sum = sums[0];
  for (int64_t i = 1; i < kSums; ++i)
    sum = arith::AddFOp::create(e.b, sum, sums[i]);
  Value total =
      vector::ReductionOp::create(e.b, vector::CombiningKind::ADD, sum);
  return arith::CmpFOp::create(e.b, arith::CmpFPredicate::ORD, total, total);
}

/// Rows of which some may see only part of the tile. Where all values are
/// `finite`, the weights of masked pairs do: they are zero, and which zero a
/// sum of nothing is does not matter (finish). Else, in the order of the keys:
/// those that only some of the rows see, with a look at each weight; those that
/// all see; and the rest. The first that runs applies the decay.
void KernelLowering::accumulateMasked(const PairInfo &pairs, ValueBlock block,
                                      Value r, Value finite) {
  Value last = e.add(r, block.rows - 1);
  Value first, end;
  std::tie(first, end) = bounds(pairs, r, last, Bound::Hull);
  e.branch(
      finite,
      [&] {
        ValueBlock part = block;
        part.lo = first, part.hi = end;
        accumulateBlocks(part);
      },
      [&] { accumulateNearNan(pairs, block, r, first, end); });
}

void KernelLowering::accumulateNearNan(const PairInfo &pairs, ValueBlock block,
                                       Value r, Value first, Value end) {
  Value last = e.add(r, block.rows - 1);
  auto [allFrom, allTo] = bounds(pairs, r, last, Bound::Inner);
  Value from = e.min(e.max(allFrom, first), end);
  Value to = e.max(e.min(allTo, end), from);
  // Telling masked weights apart takes registers of its own; a block that has
  // none left for it is done in halves.
  const int64_t weights =
      e.target.multipliesByElement ? llvm::divideCeil(block.rows, e.lanes) : 0;
  const int64_t needed = (block.rows + 1) * plan.valueVectors + weights + 4;
  const int64_t height = block.rows % 2 == 0 && needed > e.target.registers
                             ? block.rows / 2
                             : block.rows;
  auto masked = [&](Value lo, Value hi, Value decay) {
    e.branch(e.less(lo, hi), [&] {
      ValueBlock part = block;
      part.rows = height, part.masked = true;
      part.decay = decay, part.lo = lo, part.hi = hi;
      accumulateBlocks(part);
    });
  };
  masked(first, from, block.decay);
  Value decay = e.select(e.less(first, from), onesArea, block.decay);
  e.branch(e.less(from, to), [&] {
    ValueBlock part = block;
    part.decay = decay, part.lo = from, part.hi = to;
    accumulateBlocks(part);
  });
  masked(to, end, e.select(e.less(first, to), onesArea, block.decay));
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
  const bool masked = pairs.mask != nullptr;
  // Converting by integers leaves no registers for accumulators.
  const bool ahead =
      masked || (values.element.isF16() && !e.target.convertsF16);
  const int64_t full = plan.valueRows, low = endBlock(full);
  Value tileLo, tileHi;
  std::tie(tileLo, tileHi) =
      bounds(pairs, e.c(0), e.sub(pairs.rows, e.c(1)), Bound::Hull);
  Value rows = e.roundUp(pairs.rows, low);
  Value finite = masked ? allFinite(values, tileLo, tileHi) : Value();
  forgetDecayed(acc, pairs.rows);
  e.loop(e.c(0), e.c(panels), 1, [&](Value panel) {
    ValueBlock common;
    auto readFrom = [&](const Matrix &panel) {
      common.values = panel.base, common.stride = panel.rowStride;
      common.element = panel.element;
    };
    readFrom(valuePanel(values, ahead, pairs.rows, panel, tileLo, tileHi));
    Value area = e.at(acc, e.mul(panel, plan.rows * width));
    auto blocks = [&](int64_t height, Value from, Value to, Value copy = {}) {
      ValueBlock b = common;
      b.rows = height;
      b.lo = tileLo, b.hi = tileHi;
      b.copy = copy;
      auto at = [&](Value r, Value rows) {
        b.count = rows;
        b.acc = e.at(area, e.mul(r, width));
        b.decay = e.at(decayArea, r);
        b.weights = e.at(scoreArea, r);
      };
      if (!masked) {
        at(from, e.sub(to, from));
        accumulateBlocks(b);
        return;
      }
      e.loop(from, to, height, [&](Value r) {
        at(r, e.c(height));
        accumulateMasked(pairs, b, r, finite);
      });
    };
    Value whole = e.mul(e.div(rows, e.c(full)), full);
    auto blocksFrom = [&](Value next) {
      if (full > low) {
        blocks(full, next, whole);
        next = whole;
      }
      blocks(low, next, rows);
    };
    if (ahead)
      return blocksFrom(e.c(0));
    // The first block reads V where it lies and leaves the dense copy.
    e.branch(
        e.less(e.c(0), whole),
        [&] {
          const ValueBlock inPlace = common;
          blocks(full, e.c(0), e.c(full), valueArea);
          readFrom({valueArea, e.c(width), e.c(1), e.f32});
          blocksFrom(e.c(full));
          common = inPlace;
        },
        [&] {
          if (full > low)
            blocks(low, e.c(0), rows);
        });
  });
}

} // namespace attn

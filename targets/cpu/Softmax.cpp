//===- targets/cpu/Softmax.cpp - One step of the online softmax -----------===//
//
// Part of attnc. Apache-2.0.
//
// Rows are lanes, so the maximum and the sum over keys are plain vector
// operations. A masked weight is -0.0: worth nothing in a sum, and its sign
// tells `accumulate` not to touch the value, where a weight that has merely
// underflown is +0.0.
//
//===----------------------------------------------------------------------===//
#include "targets/cpu/KernelLowering.h"
#include <limits>

using namespace mlir;

namespace attn {

void KernelLowering::softmax(SoftmaxOp op) {
  PairInfo pairs = pairInfo(op.getScores().getDefiningOp<ScoresOp>());
  Value max = tiles.lookup(op.getMax()), sum = tiles.lookup(op.getSum());
  tiles[op.getWeights()] = tiles.lookup(op.getScores());
  tiles[op.getNewMax()] = max;
  tiles[op.getNewSum()] = sum;
  tiles[op.getDecay()] = decayArea;
  e.loop(e.c(0), pairs.rows, panelRows(), [&](Value r) {
    softmaxPanel(pairs, r, e.at(scoreArea, r), e.at(max, r), e.at(sum, r));
  });
}

void KernelLowering::softmaxPanel(const PairInfo &pairs, Value r, Value s,
                                  Value max, Value sum) {
  const int64_t vectors = plan.scoreVectors;
  Value lo, hi;
  std::tie(lo, hi) = bounds(pairs, r, e.add(r, panelRows() - 1), Bound::Hull);
  const bool keepsMask = pairs.mask && isCostly(*pairs.mask);
  auto maskAt = [&](Value key, int64_t v) {
    return e.at(e.at(maskArea, e.mul(key, panelRows())), v * e.lanes);
  };
  Value infinity = e.splat(-std::numeric_limits<float>::infinity());
  SmallVector<RowVector> where;
  const Staged staged = stage(pairs, r, lo, hi);
  if (pairs.mask || pairs.score)
    for (int64_t v = 0; v < vectors; ++v)
      where.push_back({positions(pairs, e.add(r, v * e.lanes)), v, &staged});
  auto address = [&](Value key, int64_t v) {
    return e.at(e.at(s, e.mul(key, plan.rows)), v * e.lanes);
  };
  auto each = [&](Value from, int64_t stride, auto &&make) {
    Values result;
    for (int64_t v = 0; v < vectors; ++v)
      result.push_back(make(e.at(from, v * stride), v));
    return result;
  };
  auto loadAll = [&](Value from) {
    return each(from, e.lanes,
                [&](Value at, int64_t) { return e.load(at, Aligned::Vector); });
  };

  Values before = loadAll(max), largest;
  if (!pairs.mask && !pairs.score)
    largest = loadAll(e.at(peakArea, r)); // found with the scores
  else
    largest = e.loop(lo, hi, 1, before, [&](Value key, ValueRange state) {
      Values next(state);
      for (int64_t v = 0; v < vectors; ++v) {
        Value x = e.load(address(key, v), Aligned::Vector);
        if (pairs.score) {
          x = scored(pairs, x, where[v], key);
          e.store(x, address(key, v), Aligned::Vector);
        }
        if (pairs.mask) {
          Value is = allowed(pairs, where[v], key);
          if (keepsMask)
            LLVM::StoreOp::create(e.b, arith::ExtSIOp::create(e.b, e.vi, is),
                                  maskAt(key, v), e.lanes * 4);
          x = arith::SelectOp::create(e.b, is, x, infinity);
        }
        next[v] = e.maxIgnoringNan(next[v], x);
      }
      return next;
    });

  // While a row has seen no key its maximum is -inf: subtract 0 instead, so
  // that exp(-inf - (-inf)) never happens.
  Values reference, sums;
  for (int64_t v = 0; v < vectors; ++v) {
    Value none = arith::CmpFOp::create(e.b, arith::CmpFPredicate::OEQ,
                                       largest[v], infinity);
    reference.push_back(
        arith::SelectOp::create(e.b, none, e.splat(0), largest[v]));
    Value decay = emitExpOfNegative(
        e, arith::SubFOp::create(e.b, before[v], reference[v]));
    // Nothing new changes nothing, even where the maximum is a sink that is
    // infinite or NaN.
    Value same = arith::CmpFOp::create(e.b, arith::CmpFPredicate::UEQ,
                                       before[v], largest[v]);
    decay = arith::SelectOp::create(e.b, same, e.splat(1), decay);
    e.store(decay, e.at(e.at(decayArea, r), v * e.lanes), Aligned::Vector);
    e.store(largest[v], e.at(max, v * e.lanes), Aligned::Vector);
    Value old = e.load(e.at(sum, v * e.lanes), Aligned::Vector);
    sums.push_back(arith::MulFOp::create(e.b, old, decay));
  }

  Value none = arith::ConstantOp::create(e.b, e.b.getZeroAttr(e.vi));
  auto isAllowed = [&](Value key, int64_t v) -> Value {
    if (!keepsMask)
      return allowed(pairs, where[v], key);
    Value kept = LLVM::LoadOp::create(e.b, e.vi, maskAt(key, v), e.lanes * 4);
    return arith::CmpIOp::create(e.b, arith::CmpIPredicate::slt, kept, none);
  };

  // A vector of rows at a time: the constants of exp then stay in registers. So
  // do they only if the mask has a loop of its own.
  Value masked = e.splat(-0.0f);
  auto weigh = [&](int64_t v, Value key) {
    Value x = e.load(address(key, v), Aligned::Vector);
    return emitExpOfNegative(e, arith::SubFOp::create(e.b, x, reference[v]));
  };
  for (int64_t v = 0; v < vectors; ++v) {
    if (pairs.mask)
      e.loop(lo, hi, 1, [&](Value key) {
        e.store(weigh(v, key), address(key, v), Aligned::Vector);
      });
    Values total = e.loop(lo, hi, 1, sums[v], [&](Value key, ValueRange state) {
      Value at = address(key, v);
      Value weight =
          pairs.mask
              ? arith::SelectOp::create(e.b, isAllowed(key, v),
                                        e.load(at, Aligned::Vector), masked)
                    .getResult()
              : weigh(v, key);
      e.store(weight, at, Aligned::Vector);
      return Values{arith::AddFOp::create(e.b, state[0], weight)};
    });
    e.store(total[0], e.at(sum, v * e.lanes), Aligned::Vector);
  }

  // Keys that none of these rows may see, but rows of other panels may.
  if (pairs.mask)
    for (auto [from, to] :
         {std::pair<Value, Value>{e.c(0), lo}, {hi, pairs.count}})
      e.loop(from, to, 1, [&](Value key) {
        for (int64_t v = 0; v < vectors; ++v)
          e.store(masked, address(key, v), Aligned::Vector);
      });
}

} // namespace attn

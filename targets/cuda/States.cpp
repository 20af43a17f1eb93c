//===- targets/cuda/States.cpp - States of splits -------------------------===//
//
// Part of attnc. Apache-2.0.
//
// A state is stored as the threads hold it: pairs of values of a row, and of
// each pair those of all threads side by side. First the maximum and the
// thread's share of the sum, of both its rows; then its accumulators, two
// columns a pair. Rows that do not exist are neither written nor read.
//
//===----------------------------------------------------------------------===//
#include "targets/cuda/FragmentLowering.h"
#include <limits>

using namespace mlir;

namespace attn {

static constexpr float kInfinity = std::numeric_limits<float>::infinity();
static constexpr int64_t kPairBytes = 8;

/// Where this thread's values of a pair lie in a state.
Value FragmentLowering::statePair(Value base, int64_t pair) {
  Value offset =
      e.add(e.mul(wide(thread), kPairBytes), pair * threads() * kPairBytes);
  return e.at(base, offset, e.b.getI8Type());
}

void FragmentLowering::storeState(StoreStateOp op) {
  const Values &max = fragments.find(op.getMax())->second;
  const Values &sum = fragments.find(op.getSum())->second;
  const Values &acc = fragments.find(op.getAcc())->second;
  const auto pairs = 2 + int64_t(acc.size()) / 2;
  bytesOfState = pairs * threads() * kPairBytes;
  Value base = statePlace(scalar(op.getBatch()), scalar(op.getGroup()),
                          scalar(op.getSplit()), bytesOfState);
  auto store = [&](int64_t pair, Value first, Value second) {
    Value both = LLVM::UndefOp::create(e.b, VectorType::get({2}, e.f32));
    both = vector::InsertOp::create(e.b, first, both, ArrayRef<int64_t>{0});
    both = vector::InsertOp::create(e.b, second, both, ArrayRef<int64_t>{1});
    LLVM::StoreOp::create(e.b, both, statePair(base, pair), kPairBytes);
  };
  Value count = scalar(op.getCount());
  for (int64_t r = 0; r < 2; ++r)
    e.branch(e.less(wide(addI(firstRow, 8 * r)), count), [&] {
      store(r, max[r], sum[r]);
      for (int64_t i = 2 * r; i < int64_t(acc.size()); i += 4)
        store(2 + i / 2, acc[i], acc[i + 1]);
    });
}

void FragmentLowering::loadState(LoadStateOp op) {
  const int64_t values = valuesOf(op.getAcc().getType());
  const int64_t bytes = (2 + values / 2) * threads() * kPairBytes;
  Value base = statePlace(scalar(op.getBatch()), scalar(op.getGroup()),
                          scalar(op.getSplit()), bytes);
  Value count = scalar(op.getCount());
  Values max, sum, acc(values);
  for (int64_t r = 0; r < 2; ++r) {
    auto load = [&] {
      Values all;
      auto add = [&](int64_t pair) {
        Value both = LLVM::LoadOp::create(e.b, VectorType::get({2}, e.f32),
                                          statePair(base, pair), kPairBytes);
        for (int64_t j = 0; j < 2; ++j)
          all.push_back(
              vector::ExtractOp::create(e.b, both, ArrayRef<int64_t>{j}));
      };
      add(r);
      for (int64_t i = 2 * r; i < values; i += 4)
        add(2 + i / 2);
      return all;
    };
    auto none = [&] {
      Values all(2 + values / 2, e.f(0));
      all[0] = e.f(-kInfinity);
      return all;
    };
    Values own =
        chooseAll(e.less(wide(addI(firstRow, 8 * r)), count), load, none);
    max.push_back(own[0]);
    sum.push_back(own[1]);
    for (int64_t i = 0; i < values / 2; ++i)
      acc[i / 2 * 4 + 2 * r + i % 2] = own[2 + i];
  }
  setColumn(op.getMax(), max);
  setColumn(op.getSum(), sum);
  fragments[op.getAcc()] = acc;
}

void FragmentLowering::combine(CombineOp op) {
  auto of = [&](Value tile) { return fragments.find(tile)->second; };
  const Values max = of(op.getMax()), otherMax = of(op.getOtherMax());
  const Values sum = of(op.getSum()), otherSum = of(op.getOtherSum());
  Values newMax, newSum, decay, otherDecay;
  auto compare = [&](arith::CmpFPredicate how, Value x, Value y) -> Value {
    return arith::CmpFOp::create(e.b, how, x, y);
  };
  for (int64_t r = 0; r < 2; ++r) {
    const Peak peak = peakOf(max[r], otherMax[r]);
    // What has seen no key changes nothing, even where the maximum is a sink
    // that is infinite or NaN.
    Value same = compare(arith::CmpFPredicate::UEQ, max[r], peak.max);
    decay.push_back(e.select(same, e.f(1), weigh(max[r], peak)));
    Value otherSame = compare(arith::CmpFPredicate::OEQ, otherMax[r], peak.max);
    Value none = equalF(otherMax[r], -kInfinity);
    Value other = e.select(none, e.f(0), weigh(otherMax[r], peak));
    otherDecay.push_back(e.select(otherSame, e.f(1), other));
    newMax.push_back(peak.max);
    newSum.push_back(
        addF(mulF(sum[r], decay[r]), mulF(otherSum[r], otherDecay[r])));
  }
  Values acc = faded(of(op.getAcc()), decay);
  for (auto [x, y] : llvm::zip(acc, faded(of(op.getOtherAcc()), otherDecay)))
    x = addF(x, y);
  setColumn(op.getNewMax(), newMax);
  setColumn(op.getNewSum(), newSum);
  fragments[op.getNewAcc()] = acc;
}

} // namespace attn

//===- targets/cuda/Steps.cpp - The loop's steps on fragments -------------===//
//
// Part of attnc. Apache-2.0.
//
// Products of 16-bit types are mma. Those of others, and of values that are not
// finite where some pairs do not count, are done one by one from shared memory,
// into the same fragments.
//
//===----------------------------------------------------------------------===//
#include "targets/cuda/FragmentLowering.h"
#include <limits>

using namespace mlir;

namespace attn {

static constexpr float kInfinity = std::numeric_limits<float>::infinity();
static constexpr float kLog2E = 1.44269504f;

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// Columns of keys in pairs of 8, so that one load of matrices serves two
/// products.
Values FragmentLowering::productsByMma(const SharedRows &keys) {
  Values result(plan.keys / 8 * 4, e.f(0));
  Value row = addI(andI(lane, 7), andI(shiftRight(lane, 1), 8));
  Value half = andI(shiftRight(lane, 3), 1);
  for (int64_t block = 0; block < keys.chunks / 2; ++block) {
    Values query;
    if (queries.fragments.empty())
      query = queryFragment(block);
    else
      query = Values(ArrayRef<Value>(queries.fragments).slice(4 * block, 4));
    Value chunk = addI(half, 2 * block);
    for (int64_t pair = 0; pair < plan.keys / 16; ++pair) {
      // (Rows 16 apart are permuted alike.)
      Value at = addI(chunkOffset(keys, row, chunk), 16 * pair * keys.stride());
      Values b = matrices(shared(at), false);
      for (int64_t n = 0; n < 2; ++n) {
        MutableArrayRef<Value> c(&result[(2 * pair + n) * 4], 4);
        llvm::copy(
            multiply(keys.type, query, b[2 * n], b[2 * n + 1], Values(c)),
            c.begin());
      }
    }
  }
  return result;
}

Values FragmentLowering::products(const SharedRows &keys) {
  // A chunk of the wider type at a time.
  const int64_t per = std::max(keys.perChunk(), queries.rows.perChunk());
  Values zero(plan.keys / 8 * 4, e.f(0));
  auto read = [&](const SharedRows &rows, Value row, Value block) {
    Values all;
    const int64_t chunks = per / rows.perChunk();
    for (int64_t c = 0; c < chunks; ++c)
      all.append(readChunk(rows, row, addI(mulI(block, chunks), c)));
    return all;
  };
  return e.loop(e.c(0), e.c(llvm::alignTo(qkDim, 16) / per), 1, zero,
                [&](Value number, ValueRange before) {
                  Values next(before), query[2];
                  Value block = narrow(number);
                  for (int64_t r = 0; r < 2; ++r)
                    query[r] = read(queries.rows, addI(firstRow, 8 * r), block);
                  for (int64_t column = 0; column < plan.keys / 4; ++column) {
                    Value key =
                        addI(mulI(inGroup, 2), column / 2 * 8 + column % 2);
                    Values own = read(keys, key, block);
                    for (int64_t r = 0; r < 2; ++r) {
                      Value &sum = next[column / 2 * 4 + 2 * r + column % 2];
                      for (int64_t i = 0; i < per; ++i)
                        sum = fmaF(query[r][i], own[i], sum);
                    }
                  }
                  return next;
                });
}

void FragmentLowering::scores(ScoresOp op) {
  Value listedKeys, listedRows;
  if (Value listed = op.getK().getDefiningOp<LoadKeysOp>().getListed())
    listedKeys = tiles.lookup(listed);
  if (op.getQ().getDefiningOp<LoadRowsOp>().getListed())
    listedRows = rowPositions;
  const PairInfo pairs = pairInfo(op, listedKeys, listedRows);
  const Keys &keys = keyTiles.find(op.getK())->second;
  waitForCopies(0);
  barrier();
  copyKeys(valuesAwaited);
  Values s = usesMma ? productsByMma(keys.rows) : products(keys.rows);
  for (Value &x : s)
    x = mulF(x, queries.scale);

  auto columnOf = [&](int64_t i) {
    return addI(mulI(inGroup, 2), i / 4 * 8 + i % 2);
  };
  Value count = narrow(keys.count), nothing = e.f(-kInfinity);
  auto exists = [&](int64_t i) -> Value {
    return arith::CmpIOp::create(e.b, arith::CmpIPredicate::slt, columnOf(i),
                                 count);
  };
  const int64_t all = int64_t(s.size());
  if (hasRegions(pairs)) {
    // What does not exist is not looked up.
    const bool looksUp = listedKeys || listedRows || readInputs(pairs);
    auto rowAt = [&](Value r) {
      return looksUp ? e.min(r, e.sub(pairs.rows, e.c(1))) : r;
    };
    Value rows[2] = {rowPosition(pairs, rowAt(wide(firstRow))),
                     rowPosition(pairs, rowAt(wide(addI(firstRow, 8))))};
    Values bits(llvm::divideCeil(all, 32), i32(0));
    bool everyPair = true;
    for (int64_t i = 0; i < all; ++i) {
      Value column = looksUp ? arith::MinSIOp::create(
                                   e.b, columnOf(i),
                                   arith::SubIOp::create(e.b, count, i32(1)))
                                   .getResult()
                             : columnOf(i);
      const Judgement own =
          judge(pairs, s[i], rows[i % 4 / 2], keyPosition(pairs, wide(column)));
      s[i] = own.score;
      if (!own.counts)
        continue;
      everyPair = false;
      Value counts = both(own.counts, exists(i));
      s[i] = e.select(counts, s[i], nothing);
      bits[i / 32] = arith::OrIOp::create(
          e.b, bits[i / 32],
          e.select(counts, i32(int64_t(1) << (i % 32)), i32(0)));
    }
    if (!everyPair)
      counting[op.getScores()] = bits;
  }
  if (!counting.count(op.getScores())) {
    // Of the last tile, keys that do not exist.
    Value isWhole = arith::CmpIOp::create(e.b, arith::CmpIPredicate::sge, count,
                                          i32(plan.keys));
    const Values whole = s;
    s = chooseAll(
        isWhole, [&] { return whole; },
        [&] {
          Values part;
          for (int64_t i = 0; i < all; ++i)
            part.push_back(e.select(exists(i), whole[i], nothing));
          return part;
        });
  }
  fragments[op.getScores()] = s;
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

FragmentLowering::Peak FragmentLowering::peakOf(Value before, Value found) {
  // A NaN that is there (a sink's) stays.
  Value isMore =
      arith::CmpFOp::create(e.b, arith::CmpFPredicate::OGT, found, before);
  Value largest = e.select(isMore, found, before);
  // While a row has seen no key its maximum is -inf: subtract 0 instead, so
  // that exp(-inf - (-inf)) never happens.
  Value none = equalF(largest, -kInfinity);
  return {largest, e.select(none, e.f(0), largest)};
}

/// The difference first, which is exact where it is small: of large scores a
/// product's rounding would be a factor of the weight.
Value FragmentLowering::weigh(Value score, const Peak &peak) {
  return exp2(mulF(arith::SubFOp::create(e.b, score, peak.base), e.f(kLog2E)));
}

void FragmentLowering::softmax(SoftmaxOp op) {
  const Values s = fragments.find(op.getScores())->second;
  const Values max = fragments.find(op.getMax())->second;
  const Values sum = fragments.find(op.getSum())->second;
  Values newMax, newSum, decay, weights(s.size());
  for (int64_t r = 0; r < 2; ++r) {
    auto isOfRow = [&](int64_t i) { return i % 4 / 2 == r; };
    Value largest = e.f(-kInfinity);
    for (auto [i, x] : llvm::enumerate(s))
      if (isOfRow(i))
        largest = larger(largest, x);
    largest = larger(largest, fromNeighbour(largest, 1));
    largest = larger(largest, fromNeighbour(largest, 2));
    const Peak peak = peakOf(max[r], largest);
    Value fade = weigh(max[r], peak);
    // Nothing new changes nothing, even where the maximum is a sink that is
    // infinite or NaN.
    Value same =
        arith::CmpFOp::create(e.b, arith::CmpFPredicate::UEQ, max[r], peak.max);
    fade = e.select(same, e.f(1), fade);
    Value share = mulF(sum[r], fade);
    for (auto [i, x] : llvm::enumerate(s))
      if (isOfRow(i)) {
        weights[i] = weigh(x, peak);
        share = addF(share, weights[i]);
      }
    newMax.push_back(peak.max);
    newSum.push_back(share);
    decay.push_back(fade);
  }
  fragments[op.getWeights()] = weights;
  setColumn(op.getNewMax(), newMax);
  setColumn(op.getNewSum(), newSum);
  fragments[op.getDecay()] = decay;
}

//===----------------------------------------------------------------------===//
// Accumulation
//===----------------------------------------------------------------------===//

Values FragmentLowering::accumulateByMma(ValueRange acc, ValueRange weights,
                                         const SharedRows &values) {
  Values result(acc);
  Value row = andI(lane, 15), half = shiftRight(lane, 4);
  for (int64_t block = 0; block < plan.keys / 16; ++block) {
    // Weights of 16 keys, as they lie, are the first operand.
    Values a;
    for (int64_t i = 0; i < 4; ++i)
      a.push_back(packed(weights[8 * block + 2 * i],
                         weights[8 * block + 2 * i + 1], values.type));
    for (int64_t pair = 0; pair < values.chunks / 2; ++pair) {
      Value at = addI(chunkOffset(values, row, addI(half, 2 * pair)),
                      16 * block * values.stride());
      Values b = matrices(shared(at), true);
      for (int64_t n = 0; n < 2; ++n) {
        MutableArrayRef<Value> c(&result[(2 * pair + n) * 4], 4);
        llvm::copy(multiply(values.type, a, b[2 * n], b[2 * n + 1], Values(c)),
                   c.begin());
      }
    }
  }
  return result;
}

/// Weights come from shared memory, where a negative zero is that of a pair
/// that does not count; a value that such a pair must not see, of those that
/// `which` names, is not looked at.
Values FragmentLowering::accumulateOneByOne(ValueRange acc,
                                            const SharedRows &values,
                                            OneByOne which) {
  const bool careful = which != OneByOne::All;
  const int64_t bytes = values.elementBytes();
  return e.loop(
      e.c(0), e.c(plan.keys), 1, Values(acc),
      [&](Value number, ValueRange before) {
        Values next(before);
        Value key = narrow(number), weight[2], skip[2];
        for (int64_t r = 0; r < 2; ++r) {
          Value at = addI(
              addI(mulI(addI(firstRow, 8 * r), weightStride()), mulI(key, 4)),
              weightArea);
          weight[r] = LLVM::LoadOp::create(e.b, e.f32, shared(at), 4);
          if (careful)
            skip[r] = arith::CmpIOp::create(
                e.b, arith::CmpIPredicate::slt,
                arith::BitcastOp::create(e.b, e.i32, weight[r]), i32(0));
        }
        for (int64_t n = 0; n < int64_t(acc.size()) / 4; ++n) {
          Value column = addI(mulI(inGroup, 2), 8 * n);
          Value chunk = shiftRight(column, llvm::Log2_64(values.perChunk()));
          Value at = addI(chunkOffset(values, key, chunk),
                          mulI(andI(column, values.perChunk() - 1), bytes));
          Value own[2];
          if (values.type.isF32()) {
            Value pair = LLVM::LoadOp::create(e.b, VectorType::get({2}, e.f32),
                                              shared(at), 8);
            for (int64_t j = 0; j < 2; ++j)
              own[j] =
                  vector::ExtractOp::create(e.b, pair, ArrayRef<int64_t>{j});
          } else {
            Value word = LLVM::LoadOp::create(e.b, e.i32, shared(at), 4);
            for (int64_t j = 0; j < 2; ++j)
              own[j] = this->half(word, j, values.type);
          }
          Value finite[2];
          if (which == OneByOne::InfiniteThatCount)
            for (int64_t j = 0; j < 2; ++j)
              finite[j] = arith::CmpIOp::create(
                  e.b, arith::CmpIPredicate::sge,
                  infinite(arith::BitcastOp::create(e.b, e.i32, own[j]), e.f32),
                  i32(0));
          for (int64_t i = 0; i < 4; ++i) {
            Value value = own[i % 2];
            if (careful)
              value = e.select(skip[i / 2], e.f(0), value);
            if (which == OneByOne::InfiniteThatCount)
              value = e.select(finite[i % 2], e.f(0), value);
            next[4 * n + i] = fmaF(weight[i / 2], value, next[4 * n + i]);
          }
        }
        return next;
      });
}

void FragmentLowering::storeWeights(ValueRange weights, ValueRange bits) {
  for (auto [i, weight] : llvm::enumerate(weights)) {
    Value x = weight;
    if (!bits.empty()) {
      Value bit = andI(bits[i / 32], int64_t(1) << (i % 32));
      Value skip =
          arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, bit, i32(0));
      x = e.select(skip, e.f(-0.0f), x);
    }
    Value column = addI(mulI(inGroup, 2), int64_t(i / 4 * 8 + i % 2));
    Value row = addI(firstRow, int64_t(i % 4 / 2 * 8));
    LLVM::StoreOp::create(
        e.b, x,
        shared(
            addI(addI(mulI(row, weightStride()), mulI(column, 4)), weightArea)),
        4);
  }
}

/// Decayed accumulators of rows. A decay of zero forgets what was summed, even
/// where huge values of keys that now weigh nothing have overflown it: infinity
/// times zero is not zero.
Values FragmentLowering::faded(ValueRange acc, ValueRange decay) {
  Values result, forgets;
  for (Value x : decay)
    forgets.push_back(equalF(x, 0));
  for (auto [i, x] : llvm::enumerate(acc))
    result.push_back(
        e.select(forgets[i % 4 / 2], e.f(0), mulF(x, decay[i % 4 / 2])));
  return result;
}

void FragmentLowering::accumulate(AccumulateOp op) {
  auto softmaxOp = op.getWeights().getDefiningOp<SoftmaxOp>();
  const Values weights = fragments.find(op.getWeights())->second;
  const Values decay = fragments.find(op.getDecay())->second;
  const SharedRows values = keyTiles.find(op.getValues())->second.rows;
  Values acc = fragments.find(op.getAcc())->second;
  const Values bits = counting.lookup(softmaxOp.getScores());
  const bool careful = !bits.empty();

  waitForCopies(0);
  if (careful)
    noteFinite(values, plan.keys);
  const bool oneByOne = !usesMma;
  if (oneByOne)
    storeWeights(weights, bits);
  barrier();
  copyNext();

  // Mostly no maximum changes, and nothing fades.
  auto isOther = [&](Value x) -> Value {
    return arith::CmpFOp::create(e.b, arith::CmpFPredicate::UNE, x, e.f(1));
  };
  const Values before = acc;
  acc = chooseAll(
      arith::OrIOp::create(e.b, isOther(decay[0]), isOther(decay[1])),
      [&] { return faded(before, decay); }, [&] { return before; });

  if (oneByOne) {
    auto added = [&](OneByOne which) {
      return [&, which] { return accumulateOneByOne(acc, values, which); };
    };
    fragments[op.getResult()] =
        careful ? chooseAll(notedFinite(), added(OneByOne::All),
                            added(OneByOne::ThatCount))
                : accumulateOneByOne(acc, values, OneByOne::All);
    return;
  }
  // What is not finite is added one by one where it counts, and is then gone:
  // the products of all rows that may not see it stay what they were.
  if (careful) {
    const Values before = acc;
    acc = chooseAll(
        notedFinite(), [&] { return before; },
        [&] {
          storeWeights(weights, bits);
          barrier();
          Values added =
              accumulateOneByOne(before, values, OneByOne::InfiniteThatCount);
          barrier();
          clearInfinite(values, plan.keys);
          barrier();
          return added;
        });
  }
  fragments[op.getResult()] = accumulateByMma(acc, weights, values);
}

} // namespace attn

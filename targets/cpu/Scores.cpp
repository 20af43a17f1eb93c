//===- targets/cpu/Scores.cpp - Dot products and masks --------------------===//
//
// Part of attnc. Apache-2.0.
//
// Lanes are rows (queries): the queries were transposed on loading, and each
// element of a key is broadcast, so K is read as it lies and no step is
// horizontal. A register block is some keys by some vectors of rows.
//
//===----------------------------------------------------------------------===//
#include "targets/cpu/KernelLowering.h"

using namespace mlir;

namespace attn {

/// K's rows as f32 at a stride of `qkDim`: where they lie, or copied. Every
/// element is read once for each panel of rows, so it is converted here.
Value KernelLowering::denseKeys(const KeyRows &rows) {
  Value dense =
      rows.element == e.f32
          ? e.b.createOrFold<arith::AndIOp>(e.equal(rows.rowStride, e.c(qkDim)),
                                            e.equal(rows.columnStride, e.c(1)))
          : arith::ConstantOp::create(e.b, e.b.getBoolAttr(false)).getResult();
  e.branch(
      dense, [] {},
      [&] {
        e.copyRows(rows.count, e.c(qkDim), rows,
                   {keyArea, e.c(qkDim), e.c(1), e.f32});
      });
  return e.select(dense, rows.base, keyArea);
}

/// While the first rows are at work (`ahead`), the keys of the next block
/// (where they were converted together: of the next tile) are asked for, and
/// the values that `accumulate` will read in narrow columns, which no hardware
/// foresees.
void KernelLowering::scoreBlocks(int64_t height, const ScoreBlocks &blocks) {
  callRoutine(
      "scores_" + std::to_string(height) + suffix(blocks.k.element) +
          suffix(blocks.v.element),
      {blocks.keys, blocks.queries, blocks.scores, blocks.peak, blocks.from,
       blocks.to, blocks.last, blocks.ahead, blocks.k.base, blocks.k.rowStride,
       blocks.v.base, blocks.v.rowStride},
      [&](ValueRange in) {
        Value keys = in[0], queries = in[1], scores = in[2], peak = in[3];
        Value last = in[6], ahead = in[7];
        auto ask = [&](Value base, Value stride, Value first, int64_t columns,
                       Type element) {
          e.loop(e.c(0), e.c(height), 1, [&](Value i) {
            e.prefetch(e.at(base, e.mul(e.add(first, i), stride), element),
                       columns, element);
          });
        };
        const Type k = blocks.k.element, v = blocks.v.element;
        const int64_t distance = k == e.f32 ? height : plan.keys;
        e.loop(in[4], in[5], height, [&](Value key) {
          key = e.min(key, last);
          e.branch(ahead, [&] {
            ask(in[8], in[9], e.add(key, distance), qkDim, k);
            ask(in[10], in[11], key, valueDim, v);
          });
          scoreBody(height, e.at(keys, e.mul(key, qkDim)), queries,
                    e.at(scores, e.mul(key, plan.rows)), peak);
        });
      });
}

/// `keys` x `scoreVectors` scores into `s`; the maximum at `peak` takes them in
/// while they are in registers.
void KernelLowering::scoreBody(int64_t keys, Value k, Value q, Value s,
                               Value peak) {
  const int64_t vectors = plan.scoreVectors, width = panelRows();
  auto step = [&](Value d, llvm::function_ref<Value(int64_t)> element,
                  Values acc) {
    Values queries;
    for (int64_t v = 0; v < vectors; ++v)
      queries.push_back(
          e.load(e.at(e.at(q, e.mul(d, width)), v * e.lanes), Aligned::Vector));
    for (int64_t m = 0; m < keys; ++m) {
      Value key = element(m);
      for (int64_t v = 0; v < vectors; ++v)
        acc[m * vectors + v] = e.fma(key, queries[v], acc[m * vectors + v]);
    }
    return acc;
  };
  auto oneColumn = [&](Value d, const Values &acc) {
    Value column = e.at(k, d);
    return step(
        d,
        [&](int64_t m) {
          return e.broadcast(e.loadScalar(e.at(column, m * qkDim)));
        },
        acc);
  };
  // As many columns as a vector of a key has.
  auto vectorOfColumns = [&](Value d, Values acc) {
    Value column = e.at(k, d);
    Values loaded;
    for (int64_t m = 0; m < keys; ++m)
      loaded.push_back(e.load(e.at(column, m * qkDim), Aligned::Element));
    for (int64_t u = 0; u < e.lanes; ++u)
      acc = step(
          e.add(d, u),
          [&](int64_t m) { return e.broadcastElement(loaded[m], u); }, acc);
    return acc;
  };
  Values acc(keys * vectors, e.splat(0));
  const int64_t together = e.target.multipliesByElement ? e.lanes : 1;
  const int64_t unroll = llvm::alignTo(plan.unroll, together);
  const int64_t whole = qkDim / unroll * unroll;
  acc = e.loop(e.c(0), e.c(whole), unroll, acc, [&](Value d, ValueRange state) {
    Values current(state);
    for (int64_t u = 0; u < unroll; u += together)
      current = together > 1 ? vectorOfColumns(e.add(d, u), current)
                             : oneColumn(e.add(d, u), current);
    return current;
  });
  for (int64_t d = whole; d < qkDim; ++d)
    acc = oneColumn(e.c(d), acc);
  for (int64_t m = 0; m < keys; ++m)
    for (int64_t v = 0; v < vectors; ++v)
      e.store(acc[m * vectors + v], e.at(s, m * plan.rows + v * e.lanes),
              Aligned::Vector);
  for (int64_t v = 0; v < vectors; ++v) {
    Value at = e.at(peak, v * e.lanes);
    Value largest = e.load(at, Aligned::Vector);
    for (int64_t m = 0; m < keys; ++m)
      largest = e.maxIgnoringNan(largest, acc[m * vectors + v]);
    e.store(largest, at, Aligned::Vector);
  }
}

void KernelLowering::scores(ScoresOp op) {
  PairInfo pairs = pairInfo(op);
  Value queries = tiles.lookup(op.getQ());
  tiles[op.getScores()] = scoreArea;
  auto step = cast<SoftmaxOp>(*op->getUsers().begin());
  auto next = cast<AccumulateOp>(*step.getWeights().getUsers().begin());
  Value max = tiles.lookup(step.getMax());
  ScoreBlocks blocks;
  blocks.k = views.find(op.getK())->second;
  blocks.v = views.find(next.getValues())->second;
  blocks.keys = denseKeys(blocks.k);
  const int64_t width = panelRows();
  // Blocks of the full height, then lower ones. The last is moved up so that it
  // ends with the tile: its dot products may be computed twice, the same.
  const int64_t full = plan.scoreKeys, low = endBlock(full);
  e.loop(e.c(0), pairs.rows, width, [&](Value r) {
    Value lo, hi;
    std::tie(lo, hi) = bounds(pairs, r, e.add(r, width - 1), Bound::Hull);
    blocks.queries = e.at(queries, e.mul(r, qkDim));
    blocks.scores = e.at(scoreArea, r);
    // (With a region nobody reads it: raw scores are in it.)
    blocks.peak = e.at(peakArea, r);
    if (!pairs.mask && !pairs.score)
      for (int64_t v = 0; v < plan.scoreVectors; ++v)
        e.store(e.load(e.at(e.at(max, r), v * e.lanes), Aligned::Vector),
                e.at(blocks.peak, v * e.lanes), Aligned::Vector);
    blocks.ahead = e.equal(r, e.c(0));
    auto run = [&](int64_t height, Value from, Value to, Value last) {
      blocks.from = from, blocks.to = to, blocks.last = last;
      scoreBlocks(height, blocks);
    };
    Value rest = lo;
    if (full > low) {
      rest = e.add(lo, e.mul(e.div(e.sub(hi, lo), e.c(full)), full));
      run(full, lo, rest, rest);
    }
    // (Plan.h's coveredKeys counts what this covers.)
    const int64_t tail = tailBlock(full);
    e.branch(
        e.less(pairs.count, e.c(tail)), [&] { run(1, rest, hi, hi); },
        [&] {
          Value from = rest;
          if (tail < low) {
            Value whole =
                e.add(rest, e.mul(e.div(e.sub(hi, rest), e.c(low)), low));
            Value oneMore = e.b.createOrFold<arith::AndIOp>(
                e.less(e.c(tail), e.sub(hi, whole)),
                e.less(e.c(low - 1), pairs.count));
            from = e.select(oneMore, hi, whole);
            run(low, rest, from, e.sub(pairs.count, e.c(low)));
          }
          run(tail, from, hi, e.sub(pairs.count, e.c(tail)));
        });
  });
}

} // namespace attn

//===- targets/cpu/Pairs.cpp - Positions, masks and scores of pairs -------===//
//
// Part of attnc. Apache-2.0.
//
// Which (row, key) pair an element of a score tile is, and what the regions of
// the variant say of it, on vectors of rows.
//
//===----------------------------------------------------------------------===//
#include "targets/cpu/KernelLowering.h"

using namespace mlir;

namespace attn {

PairInfo KernelLowering::pairInfo(ScoresOp op) {
  PairInfo &info = pairs[op];
  if (info.batch)
    return info;
  Value keys, rows;
  if (Value listed = op.getK().getDefiningOp<LoadKeysOp>().getListed())
    keys = tiles.lookup(listed);
  if (op.getQ().getDefiningOp<LoadRowsOp>().getListed())
    rows = rowPositions;
  return info = ProgramLowering::pairInfo(op, keys, rows);
}

std::pair<Value, Value> KernelLowering::bounds(const PairInfo &pairs,
                                               Value first, Value last,
                                               Bound bound) {
  if (!pairs.mask)
    return {e.c(0), pairs.count};
  // Columns at listed positions are no range of keys.
  if (pairs.listedKeys)
    return {e.c(0), bound == Bound::Hull ? pairs.count : e.c(0)};
  auto index = [&](Value v) -> Value {
    return arith::IndexCastOp::create(e.b, e.b.getIndexType(), v);
  };
  auto integer = [&](Value v) -> Value {
    return e.b.createOrFold<arith::IndexCastOp>(e.i64, v);
  };
  auto position = [&](Value r) {
    r = e.min(r, e.sub(pairs.rows, e.c(1)));
    if (pairs.listedRows)
      return index(wide(positionAt(pairs.listedRows, r)));
    Value query = e.div(e.add(pairs.row, r), pairs.heads);
    return index(e.add(e.mul(query, pairs.step), pairs.shift));
  };
  RowValues at{position(first), position(last)};
  ScalarValues of{index(pairs.batch), index(pairs.head), index(pairs.group),
                  index(pairs.qLen), index(pairs.kvLen)};
  SmallVector<Value> loads;
  for (Value v : pairs.loads)
    loads.push_back(index(v));
  of.loads = RangeAnalysis::unflatten(loads);
  Value lastKey =
      e.add(pairs.key, e.mul(e.sub(pairs.count, e.c(1)), pairs.step));
  auto [lo, hi] = bound == Bound::Hull
                      ? pairs.analysis->emitHullWithin(
                            e.b, e.b.getLoc(), at, index(pairs.key),
                            index(e.add(lastKey, 1)), of)
                      : pairs.analysis->emitInner(e.b, e.b.getLoc(), at, of);
  // The first column at or after a position.
  auto column = [&](Value position) {
    Value distance = e.max(e.sub(integer(position), pairs.key), e.c(0));
    return e.min(e.div(e.add(distance, e.sub(pairs.step, e.c(1))), pairs.step),
                 pairs.count);
  };
  Value from = column(lo);
  return {from, e.max(column(hi), from)};
}

Value KernelLowering::iota() {
  SmallVector<int32_t> lanes;
  for (int64_t i = 0; i < e.lanes; ++i)
    lanes.push_back(i);
  return arith::ConstantOp::create(
      e.b, DenseElementsAttr::get(e.vi, ArrayRef<int32_t>(lanes)));
}

Value KernelLowering::positions(const PairInfo &pairs, Value first) {
  if (pairs.listedRows)
    return LLVM::LoadOp::create(e.b, e.vi, e.at(pairs.listedRows, first, e.i32),
                                4);
  // Exact in i32 however long the sequence: only the rows of one tile are
  // divided by the number of heads.
  Value at = e.add(pairs.row, first);
  auto narrow = [&](Value v) {
    return e.broadcast(arith::TruncIOp::create(e.b, e.i32, v));
  };
  Value within =
      arith::AddIOp::create(e.b, narrow(e.rem(at, pairs.heads)), iota());
  auto heads = getConstantIntValue(pairs.heads);
  Value queries = heads && *heads == 1
                      ? within
                      : arith::DivUIOp::create(e.b, within, narrow(pairs.heads))
                            .getResult();
  auto step = getConstantIntValue(pairs.step);
  if (!step || *step != 1)
    queries = arith::MulIOp::create(e.b, queries, narrow(pairs.step));
  Value base = e.mul(e.div(at, pairs.heads), pairs.step);
  return arith::AddIOp::create(e.b, queries, narrow(e.add(base, pairs.shift)));
}

/// A region on vectors of rows.
Value KernelLowering::evaluated(const PairInfo &pairs, Region &region,
                                Value score, Value head, Value q, Value k,
                                const RowVector *rows, Value column) {
  if (rows && rows->staged) {
    atWork = rows;
    columnAtWork = e.sub(column, rows->staged->from);
  }
  Value result = evaluate(pairs, region, score, head, q, k);
  atWork = nullptr;
  return isa<VectorType>(result.getType()) ? result : e.broadcast(result);
}

Value KernelLowering::loadedAhead(ParamOp load) {
  Value area = atWork ? atWork->staged->areas.lookup(load) : Value();
  return area ? stagedElement(load.getStored(), area, columnAtWork,
                              atWork->number)
              : area;
}

Value KernelLowering::allowed(const PairInfo &pairs, const RowVector &rows,
                              Value column) {
  return evaluated(pairs, *pairs.mask, {}, narrow(pairs.head), rows.positions,
                   keyPosition(pairs, column), &rows, column);
}

Value KernelLowering::scored(const PairInfo &pairs, Value score,
                             const RowVector &rows, Value column) {
  return evaluated(pairs, *pairs.score, score, narrow(pairs.head),
                   rows.positions, keyPosition(pairs, column), &rows, column);
}

/// The ops that the indices of a load need; nothing where they need a load.
static std::optional<llvm::DenseSet<Operation *>> indexOps(ParamOp load) {
  llvm::DenseSet<Operation *> needed;
  SmallVector<Operation *> rest;
  auto add = [&](Operation *op) {
    for (Value v : op->getOperands())
      if (Operation *from = v.getDefiningOp();
          from && needed.insert(from).second)
        rest.push_back(from);
  };
  add(load);
  while (!rest.empty()) {
    Operation *op = rest.pop_back_val();
    if (isa<ParamOp, MemberOp>(op))
      return std::nullopt;
    add(op);
  }
  return needed;
}

/// Which index of a load is the key's position itself, where nothing else of it
/// depends on the key and it does depend on the query; else none.
static std::optional<unsigned> keyIndex(ParamOp load) {
  Block &block = *load->getBlock();
  const unsigned first = block.getNumArguments() - kMaskArgs;
  Value q = block.getArgument(first + MaskQ),
        k = block.getArgument(first + MaskK);
  auto needed = indexOps(load);
  if (!needed)
    return std::nullopt;
  auto dependsOn = [&](Value v) {
    return llvm::any_of(*needed, [&](Operation *op) {
      return llvm::is_contained(op->getOperands(), v);
    });
  };
  if (dependsOn(k) || llvm::count(load.getAt(), k) != 1 ||
      !(dependsOn(q) || llvm::is_contained(load.getAt(), q)))
    return std::nullopt;
  return unsigned(llvm::find(load.getAt(), k) - load.getAt().begin());
}

/// The rows of an array of (query, key) pairs are far apart, often by a
/// multiple of what a set of the cache holds: read a key at a time they would
/// evict each other. So what a panel reads is copied first, a row at a time.
KernelLowering::Staged KernelLowering::stage(const PairInfo &pairs, Value first,
                                             Value lo, Value hi) {
  Staged staged;
  staged.from = lo;
  for (Region *region : {pairs.score, pairs.mask}) {
    if (!region || pairs.listedKeys)
      continue;
    Block &block = region->front();
    const bool isScore = block.getNumArguments() > kMaskArgs;
    region->walk([&](ParamOp load) {
      auto dim = keyIndex(load);
      if (!dim)
        return;
      auto needed = indexOps(load);
      const ParamFields &param = params.find(load.getNumber())->second;
      Value stride = e.mul(param.stride[*dim], pairs.step);
      Value area;
      for (int64_t v = 0; v < plan.scoreVectors; ++v) {
        IRMapping map =
            arguments(pairs, block, isScore ? e.splat(0) : Value(),
                      arith::TruncIOp::create(e.b, e.i32, pairs.head),
                      positions(pairs, e.add(first, v * e.lanes)),
                      keyPosition(pairs, lo));
        writeOps(block, map,
                 [&](Operation &op) { return needed->contains(&op); });
        SmallVector<Value> at;
        for (Value index : load.getAt())
          at.push_back(map.lookup(index));
        const Place place =
            placeOf(load.getNumber(), load.getStored(), load.getInside(), at);
        if (!area)
          area = allocate(
              llvm::divideCeil(stagedStride() * panelRows() *
                                   place.memory.getIntOrFloatBitWidth() / 8,
                               4));
        for (auto [lane, distance] : llvm::enumerate(place.lanes)) {
          Value to =
              e.at(area, e.c((v * e.lanes + int64_t(lane)) * stagedStride()),
                   place.memory);
          copyElements(place.memory, e.at(place.base, distance, place.memory),
                       stride, to, e.sub(hi, lo));
        }
      }
      staged.areas[load] = area;
    });
  }
  return staged;
}

Value KernelLowering::stagedElement(Type stored, Value area, Value column,
                                    int64_t vector) {
  Type memory = memoryType(stored);
  Value base = e.at(area, column, memory);
  Values lanes;
  for (int64_t lane = 0; lane < e.lanes; ++lane)
    lanes.push_back(readElement(
        memory, stored,
        LLVM::GEPOp::create(e.b, e.ptr, memory, base,
                            ArrayRef<LLVM::GEPArg>{int32_t(
                                (vector * e.lanes + lane) * stagedStride())})));
  return converted(stored, together(lanes));
}

/// `count` elements, `stride` apart, to a dense place.
void KernelLowering::copyElements(mlir::Type type, Value from, Value stride,
                                  Value to, Value count) {
  const int64_t bytes = type.getIntOrFloatBitWidth() / 8;
  const int64_t wide = 4 * e.lanes / bytes;
  auto vector = VectorType::get({wide}, type);
  Value whole = e.select(e.equal(stride, e.c(1)),
                         e.mul(e.div(count, e.c(wide)), wide), e.c(0));
  e.loop(e.c(0), whole, wide, [&](Value i) {
    Value x = LLVM::LoadOp::create(e.b, vector, e.at(from, i, type), bytes);
    LLVM::StoreOp::create(e.b, x, e.at(to, i, type), bytes);
  });
  e.loop(whole, count, 1, [&](Value i) {
    Value x = LLVM::LoadOp::create(e.b, type,
                                   e.at(from, e.mul(i, stride), type), bytes);
    LLVM::StoreOp::create(e.b, x, e.at(to, i, type), bytes);
  });
}

bool KernelLowering::isCostly(Region &mask) {
  int64_t ops = 0;
  mask.walk([&](Operation *op) {
    ops += !isa<arith::ConstantOp, YieldOp>(op);
    ops += isa<ParamOp, MemberOp>(op) ? 8 : 0;
  });
  return ops > 8;
}

} // namespace attn

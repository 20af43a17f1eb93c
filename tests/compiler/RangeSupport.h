//===- tests/compiler/RangeSupport.h -------------------------------------===//
//
// Part of attnc. Apache-2.0.
//
// Brute force, and the emitted IR executed, to hold range analysis against.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_COMPILER_RANGESUPPORT_H
#define ATTNC_TESTS_COMPILER_RANGESUPPORT_H

#include "MaskTree.h"
#include "compiler/AttnDialect.h"
#include "compiler/RangeAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include <gtest/gtest.h>

namespace attn::test {

using namespace mlir;

inline MLIRContext &context() {
  static MLIRContext c;
  static bool loaded = [] {
    c.loadDialect<AttnDialect, arith::ArithDialect>();
    return true;
  }();
  (void)loaded;
  return c;
}

inline const TreeRef b = arg(0), h = arg(1), q = arg(3), k = arg(4),
                     qLen = arg(5), kvLen = arg(6);
inline TreeRef n(int64_t v) { return number(v); }
inline TreeRef rem(TreeRef x, int64_t d) { return make(Node::Rem, {x, n(d)}); }
inline TreeRef quotient(TreeRef x, int64_t d) {
  return make(Node::Div, {x, n(d)});
}
inline TreeRef distance(TreeRef x, TreeRef y) {
  return make(Node::Abs, {x - y});
}

inline RangeAnalysis analyse(const TreeRef &tree) {
  MaskRegion mask(context(), tree);
  return RangeAnalysis::analyse(mask.region());
}

inline bool same(KeyRange x, KeyRange y) {
  return (x.empty() && y.empty()) || (x.lo == y.lo && x.hi == y.hi);
}

/// What is true, by evaluating every pair.
struct Brute {
  Brute(const TreeRef &mask, Rows rows, Scalars s, const Tables &tables = {})
      : rows(rows), s(s) {
    for (int64_t y = rows.qMin; y <= rows.qMax; ++y) {
      allowed.emplace_back();
      for (int64_t x = 0; x < s.kvLen; ++x)
        allowed.back().push_back(
            evaluate(mask, {s.b, s.h, s.g, y, x, s.qLen, s.kvLen}, tables) !=
            0);
    }
  }
  bool any(int64_t key) const {
    for (auto &row : allowed)
      if (row[key])
        return true;
    return false;
  }
  bool all(int64_t key) const {
    for (auto &row : allowed)
      if (!row[key])
        return false;
    return true;
  }
  KeyRange hull() const { return hull({0, s.kvLen}); }
  KeyRange hull(KeyRange keys) const {
    KeyRange r{0, 0};
    for (int64_t x = keys.lo; x < keys.hi; ++x)
      if (any(x))
        r = {r.empty() ? x : r.lo, x + 1};
    return r;
  }
  /// The length of the longest run that every row sees.
  int64_t longestInner() const {
    int64_t best = 0, run = 0;
    for (int64_t x = 0; x < s.kvLen; ++x)
      best = std::max(best, run = all(x) ? run + 1 : 0);
    return best;
  }
  TileClass classify(KeyRange tile) const {
    bool some = false, every = true;
    for (int64_t x = tile.lo; x < std::min(tile.hi, s.kvLen); ++x) {
      some |= any(x);
      every &= all(x);
    }
    return !some   ? TileClass::Skip
           : every ? TileClass::Full
                   : TileClass::Partial;
  }

  Rows rows;
  Scalars s;
  std::vector<std::vector<char>> allowed;
};

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// Reads tables; those of `open` (a bit each) are not known.
class TableReader final : public ParamReader {
public:
  explicit TableReader(const Tables &tables, unsigned open = 0)
      : tables(tables), open(open) {}

  std::optional<int64_t> element(int64_t param,
                                 ArrayRef<int64_t> at) const override {
    if (open >> param & 1)
      return std::nullopt;
    return tables[param].at(at.vec());
  }
  std::optional<std::pair<int64_t, int64_t>>
  extremes(int64_t param, ArrayRef<int64_t> at, unsigned dim,
           int64_t last) const override {
    if (open >> param & 1)
      return std::nullopt;
    return blocks(param, at.vec(), dim, last, 1);
  }
  /// Of whole blocks of elements.
  std::pair<int64_t, int64_t> blocks(int64_t param, std::vector<int64_t> at,
                                     unsigned dim, int64_t last,
                                     int64_t size) const {
    const Table &table = tables[param];
    auto within = [&](int64_t i) {
      return std::clamp(i, int64_t(0), table.shape[dim] - 1);
    };
    std::pair<int64_t, int64_t> range{INT64_MAX, INT64_MIN};
    const int64_t end = within(last) / size * size + size;
    for (int64_t i = within(at[dim]) / size * size; i < end; ++i) {
      at[dim] = i;
      int64_t value = table.at(at);
      range = {std::min(range.first, value), std::max(range.second, value)};
    }
    return range;
  }

private:
  const Tables &tables;
  unsigned open;
};

//===----------------------------------------------------------------------===//
// Emitted IR, executed
//===----------------------------------------------------------------------===//

inline int64_t execute(Operation *op, const DenseMap<Value, int64_t> &values) {
  auto x = [&](unsigned i) { return values.lookup(op->getOperand(i)); };
  // The code promises not to wrap.
  int64_t result = 0;
  auto whole = [&](bool overflow) {
    EXPECT_FALSE(overflow) << "in " << op->getName().getStringRef().str();
    return result;
  };
  APInt c;
  if (matchPattern(op, m_ConstantInt(&c)))
    return op->getResult(0).getType().isInteger(1) ? !c.isZero()
                                                   : c.getSExtValue();
  return llvm::TypeSwitch<Operation *, int64_t>(op)
      .Case([&](arith::AddIOp) {
        return whole(__builtin_add_overflow(x(0), x(1), &result));
      })
      .Case([&](arith::SubIOp) {
        return whole(__builtin_sub_overflow(x(0), x(1), &result));
      })
      .Case([&](arith::MulIOp) {
        return whole(__builtin_mul_overflow(x(0), x(1), &result));
      })
      .Case([&](arith::DivSIOp) { return x(0) / x(1); })
      .Case([&](arith::ShRSIOp) { return x(0) >> x(1); })
      .Case([&](arith::MinSIOp) { return std::min(x(0), x(1)); })
      .Case([&](arith::MaxSIOp) { return std::max(x(0), x(1)); })
      .Case([&](arith::AndIOp) { return x(0) & x(1); })
      .Case([&](arith::OrIOp) { return x(0) | x(1); })
      .Case([&](arith::XOrIOp) { return x(0) ^ x(1); })
      .Case([&](arith::SelectOp) { return x(0) ? x(1) : x(2); })
      .Case([&](arith::CmpIOp cmp) -> int64_t {
        APInt l(64, x(0), true), r(64, x(1), true);
        return arith::applyCmpPredicate(cmp.getPredicate(), l, r);
      })
      .Default([](Operation *unexpected) -> int64_t {
        ADD_FAILURE() << "emitted "
                      << unexpected->getName().getStringRef().str();
        return 0;
      });
}

/// The operations that results need; constants cost nothing.
inline size_t cost(ArrayRef<Value> results) {
  llvm::SmallPtrSet<Operation *, 32> seen;
  llvm::SmallVector<Value> work(results);
  size_t count = 0;
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    count += !isa<arith::ConstantOp>(op);
    work.append(op->operand_begin(), op->operand_end());
  }
  return count;
}

/// Everything a kernel asks for, as IR on arguments or on constants. Where
/// parameters are summed up in blocks, these are of `blockSize` elements.
struct Emitted {
  Emitted(const RangeAnalysis &a, Rows rows, KeyRange tile, Scalars s,
          bool constants, const Tables &tables = {}, int64_t blockSize = 1)
      : reader(tables), blockSize(blockSize) {
    OpBuilder builder(&context());
    builder.createBlock(&body);
    Location loc = builder.getUnknownLoc();
    auto in = [&](int64_t v) -> Value {
      if (constants)
        return arith::ConstantIndexOp::create(builder, loc, v);
      Value x = body.front().addArgument(builder.getIndexType(), loc);
      values[x] = v;
      return x;
    };
    RowValues r{in(rows.qMin), in(rows.qMax)};
    Value first = in(tile.lo), last = in(tile.hi - 1);
    ScalarValues sv{in(s.b), in(s.h), in(s.g), in(s.qLen), in(s.kvLen)};
    // What is known of an item's rows, then of a tile's keys.
    sv.loads = a.emitLoads(builder, loc, r, {}, {}, sv);
    itemLoads = sv.loads;
    hull = a.emitHull(builder, loc, r, sv);
    inner = a.emitInner(builder, loc, r, sv);
    Value end = builder.createOrFold<arith::AddIOp>(
        loc, last, arith::ConstantIndexOp::create(builder, loc, 1));
    sv.loads = a.emitLoads(builder, loc, r, first, last, sv);
    tileLoads = sv.loads;
    within = a.emitHullWithin(builder, loc, r, first, end, sv);
    may = a.emitMay(builder, loc, r, first, last, sv);
    must = a.emitMust(builder, loc, r, first, last, sv);
    // As an op carries them.
    sv.loads = RangeAnalysis::unflatten(a.flatten(builder, loc, sv.loads));
    mayOfFlat = a.emitMay(builder, loc, r, first, last, sv);
    for (Operation &op : body.front())
      run(&op);
  }
  int64_t operator[](Value v) const { return values.lookup(v); }
  bool folded() {
    return cost({hull.first, hull.second, within.first, within.second,
                 inner.first, inner.second, may, must}) == 0;
  }
  LoadRanges numbers(const LoadValues &loads) const {
    LoadRanges result;
    for (const auto &load : loads)
      result.push_back(
          load ? std::optional(std::pair(values.lookup(load->first),
                                         values.lookup(load->second)))
               : std::nullopt);
    return result;
  }

  Region body;
  DenseMap<Value, int64_t> values;
  std::pair<Value, Value> hull, within, inner;
  Value may, must, mayOfFlat;
  LoadValues itemLoads, tileLoads;
  bool hasBlocks = false;

private:
  void run(Operation *op) {
    auto at = [&](ValueRange indices) {
      std::vector<int64_t> result;
      for (Value index : indices)
        result.push_back(values.lookup(index));
      return result;
    };
    if (auto param = dyn_cast<ParamOp>(op)) {
      values[param] = *reader.element(param.getNumber(), at(param.getAt()));
    } else if (auto extremes = dyn_cast<ExtremesOp>(op)) {
      hasBlocks |= extremes.getBlocks();
      auto range =
          reader.blocks(extremes.getNumber(), at(extremes.getAt()),
                        extremes.getDim(), values.lookup(extremes.getLast()),
                        extremes.getBlocks() ? blockSize : 1);
      values[extremes.getMin()] = range.first;
      values[extremes.getMax()] = range.second;
    } else {
      values[op->getResult(0)] = execute(op, values);
    }
  }

  TableReader reader;
  int64_t blockSize;
};

} // namespace attn::test

#endif

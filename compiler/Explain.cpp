//===- compiler/Explain.cpp - What a kernel will do, in numbers -----------===//
//
// Part of attnc. Apache-2.0.
//
// Follows the loops of the tile program (Tile.cpp) with the same analysis, in
// numbers instead of IR.
//
//===----------------------------------------------------------------------===//
#include "compiler/Explain.h"
#include "compiler/Import.h"
#include "compiler/RangeAnalysis.h"
#include "compiler/Target.h"
#include "compiler/Tile.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

using namespace mlir;

namespace attn {
namespace {

constexpr double kMostTiles = 3e7;

class Explainer {
public:
  Explainer(AttentionOp op, const TargetInfo &target, int64_t qLen,
            int64_t kvLen, Explanation &out)
      : op(op), plan(toPlan(*op.getPlan())),
        mask(RangeAnalysis::analyse(op.getMask())), lanes(target.lanes),
        qLen(qLen), kvLen(kvLen), out(out),
        shift(op.getAlign() == Alignment::TopLeft ? 0 : kvLen - qLen) {}

  void run();

private:
  struct Item {
    ItemGroup group;
    int64_t row, count; ///< first row of the tile, rows it has
    Scalars scalars;
    int64_t firstKey; ///< of its class

    int64_t step() const { return group.heads.dilation; }
    int64_t position(int64_t key) const { return firstKey + key * step(); }
    /// The number in the class of the first key at or after a position.
    int64_t number(int64_t position) const {
      return std::max<int64_t>(position - firstKey + step() - 1, 0) / step();
    }
  };
  Rows rowsOf(const Item &item, int64_t first, int64_t last) const {
    last = std::min(last, item.count - 1);
    auto position = [&](int64_t row) {
      return (item.row + row) / item.group.heads.heads * item.step() +
             item.group.residue + shift;
    };
    return {position(first), position(last)};
  }
  void tile(const Item &item);
  double visited(const Item &item, int64_t key, int64_t end, bool masked);
  int64_t allowed(int64_t q, KeyRange keys, const Item &item);
  bool holds(int64_t q, int64_t k, Scalars scalars);

  AttentionOp op;
  Plan plan;
  RangeAnalysis mask;
  int64_t lanes, qLen, kvLen;
  Explanation &out;
  int64_t shift;
  double pairs = 0;
};

/// Pairs that blocks of scores cover in keys [key, end) of a tile.
double Explainer::visited(const Item &item, int64_t key, int64_t end,
                          bool masked) {
  const int64_t panel = plan.scoreVectors * lanes;
  const int64_t full = plan.scoreKeys, low = endBlock(full);
  double sum = 0;
  for (int64_t r = 0; r < item.count; r += panel) {
    KeyRange keys{key, end};
    if (masked) {
      KeyRange hull = mask.hullWithin(
          rowsOf(item, r, r + panel - 1),
          {item.position(key), item.position(end - 1) + 1}, item.scalars);
      keys = {item.number(hull.lo), item.number(hull.hi)};
    }
    if (keys.empty())
      continue;
    int64_t width = keys.hi - keys.lo;
    if (end - key >= low)
      width = width / full * full + llvm::alignTo(width % full, low);
    sum += double(std::min(panel, item.count - r)) * width;
  }
  return sum;
}

void Explainer::tile(const Item &item) {
  Rows rows = rowsOf(item, 0, item.count - 1);
  KeyRange hull = mask.hull(rows, item.scalars);
  int64_t tiles = llvm::divideCeil(item.number(kvLen), plan.keys), seen = 0;
  const int64_t last = item.number(hull.hi);
  if (!hull.empty())
    for (int64_t key = item.number(hull.lo) / plan.keys * plan.keys; key < last;
         key += plan.keys) {
      int64_t end = std::min(key + plan.keys, last);
      TileClass kind = mask.classify(
          rows, {item.position(key), item.position(end - 1) + 1}, item.scalars);
      if (kind == TileClass::Skip)
        continue;
      ++seen;
      ++(kind == TileClass::Full ? out.fullTiles : out.partialTiles);
      pairs += visited(item, key, end, kind == TileClass::Partial);
    }
  out.skippedTiles += tiles - seen;
}

/// The value of the mask for one pair, by folding each operation.
bool Explainer::holds(int64_t q, int64_t k, Scalars s) {
  Block &block = op.getMask().front();
  llvm::DenseMap<Value, Attribute> values;
  Builder b(op.getContext());
  const int64_t args[] = {s.b, s.h, s.g, q, k, s.qLen, s.kvLen};
  for (auto [argument, value] : llvm::zip(block.getArguments(), args))
    values[argument] = b.getI32IntegerAttr(static_cast<int32_t>(value));
  for (Operation &inner : block.without_terminator()) {
    SmallVector<Attribute> operands;
    for (Value v : inner.getOperands())
      operands.push_back(values.lookup(v));
    SmallVector<OpFoldResult> results;
    if (failed(inner.fold(operands, results)) || results.size() != 1)
      return true; // counted as allowed rather than lost
    auto attribute = dyn_cast<Attribute>(results[0]);
    values[inner.getResult(0)] =
        attribute ? attribute : values.lookup(cast<Value>(results[0]));
  }
  auto result = dyn_cast_or_null<IntegerAttr>(
      values.lookup(block.getTerminator()->getOperand(0)));
  return !result || !result.getValue().isZero();
}

/// Of keys number [lo, hi) of the class.
int64_t Explainer::allowed(int64_t q, KeyRange keys, const Item &item) {
  if (keys.empty())
    return 0;
  switch (mask.classify(
      {q, q}, {item.position(keys.lo), item.position(keys.hi - 1) + 1},
      item.scalars)) {
  case TileClass::Skip:
    return 0;
  case TileClass::Full:
    return keys.hi - keys.lo;
  case TileClass::Partial:
    break;
  }
  if (keys.hi - keys.lo == 1)
    return holds(q, item.position(keys.lo), item.scalars);
  int64_t middle = keys.lo + (keys.hi - keys.lo) / 2;
  return allowed(q, {keys.lo, middle}, item) +
         allowed(q, {middle, keys.hi}, item);
}

void Explainer::run() {
  const int64_t heads = op.getHeads();
  auto groups = itemGroups(op, plan);
  double allowedSum = 0;
  // Groups of one size do the same unless the mask reads who they are.
  const bool alike =
      !mask.reads(RangeAnalysis::Arg::H) && !mask.reads(RangeAnalysis::Arg::G);
  auto kind = [](const ItemGroup &group) {
    return std::make_tuple(group.heads.heads, group.heads.dilation,
                           group.residue);
  };
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> times;
  for (const ItemGroup &group : groups)
    ++times[kind(group)];
  for (const ItemGroup &group : groups) {
    int64_t weight = 1;
    if (alike) {
      weight = std::exchange(times[kind(group)], 0);
      if (weight == 0)
        continue;
    }
    const Explanation before = out;
    const double pairsBefore = pairs;
    const int64_t step = group.heads.dilation;
    Item item{group,
              0,
              0,
              {0, group.heads.firstHead, group.heads.kvHead, qLen, kvLen},
              ((group.residue + shift) % step + step) % step};
    const int64_t rows = group.rows(qLen);
    for (item.row = 0; item.row < rows; item.row += plan.rows) {
      item.count = std::min(plan.rows, rows - item.row);
      tile(item);
    }
    // Heads of a group differ only where the mask reads the head, and then
    // each is a group of its own.
    double own = 0;
    for (int64_t i = group.residue; i < qLen; i += step) {
      const int64_t q = i + shift;
      KeyRange hull = mask.hull({q, q}, item.scalars);
      own += double(
          allowed(q, {item.number(hull.lo), item.number(hull.hi)}, item));
    }
    allowedSum += own * group.heads.heads * weight;
    pairs = pairsBefore + (pairs - pairsBefore) * weight;
    for (int64_t Explanation::*tiles :
         {&Explanation::fullTiles, &Explanation::partialTiles,
          &Explanation::skippedTiles})
      out.*tiles = before.*tiles + (out.*tiles - before.*tiles) * weight;
  }
  // Of a group of heads, all its classes together.
  const int64_t n = llvm::count_if(
      groups, [](const ItemGroup &group) { return group.residue == 0; });
  for (int64_t *tiles : {&out.fullTiles, &out.partialTiles, &out.skippedTiles})
    *tiles = (*tiles + n / 2) / n;
  out.visitedPairs = std::llround(pairs / heads);
  out.allowedPairs = std::llround(allowedSum / heads);
  const double width = double(op.getQkDim()) + double(op.getValueDim());
  out.flops = 2 * width * allowedSum;
  out.bytes =
      4 * width * (double(heads) * qLen + double(op.getKvHeads()) * kvLen);
}

} // namespace

Explanation explain(const Spec &spec, const CompileOptions &options,
                    int64_t qLen, int64_t kvLen) {
  Explanation result;
  const Target *target = findTarget(options.target);
  if (!target) {
    result.diagnostics.push_back(
        {{}, "there is no target '" + options.target + "'", ""});
    return result;
  }
  DialectRegistry registry;
  registry.insert<AttnDialect, arith::ArithDialect, math::MathDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &d) {
    result.diagnostics.push_back({toSourceRange(d.getLocation()), d.str(), ""});
  });
  auto module = importSpec(context, spec, result.diagnostics);
  if (!module)
    return result;
  AttentionOp op = *module->getOps<AttentionOp>().begin();
  if (failed(target->check(op)) ||
      failed(setPlan(op, target->info(), options.plan, &result.reasons)))
    return result;
  for (auto [name, value] : fields(toPlan(*op.getPlan())))
    result.plan +=
        (result.plan.empty() ? "" : ",") + name + "=" + std::to_string(value);
  if (!op.getMask().empty()) {
    std::string text = RangeAnalysis::analyse(op.getMask()).describe();
    for (StringRef rest = text; !rest.empty();) {
      auto [line, tail] = rest.split('\n');
      rest = tail;
      result.reasons.push_back("mask: " + line.str());
    }
  }
  // Tiles are counted one by one.
  const Plan plan = toPlan(*op.getPlan());
  const double tiles =
      double(qLen) * plan.heads / plan.rows * kvLen / plan.keys;
  if (tiles > kMostTiles) {
    result.diagnostics.push_back(
        {spec.where,
         llvm::formatv("{0} queries x {1} keys are {2:e1} tiles, too many to "
                       "count",
                       qLen, kvLen, tiles),
         llvm::formatv("lengths that make at most {0:e1} are allowed",
                       kMostTiles)});
    return result;
  }
  Explainer(op, target->info(), qLen, kvLen, result).run();
  return result;
}

} // namespace attn

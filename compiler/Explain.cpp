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
    AttentionOp::Group group;
    int64_t row, count; ///< first row of the tile, rows it has
    Scalars scalars;
  };
  Rows rowsOf(const Item &item, int64_t first, int64_t last) const {
    last = std::min(last, item.count - 1);
    return {(item.row + first) / item.group.heads + shift,
            (item.row + last) / item.group.heads + shift};
  }
  void tile(const Item &item);
  double visited(const Item &item, int64_t key, int64_t end, bool masked);
  int64_t allowed(int64_t q, KeyRange keys, Scalars scalars);
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
      keys = mask.hullWithin(rowsOf(item, r, r + panel - 1), {key, end},
                             item.scalars);
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
  int64_t tiles = llvm::divideCeil(kvLen, plan.keys), seen = 0;
  if (!hull.empty())
    for (int64_t key = hull.lo / plan.keys * plan.keys; key < hull.hi;
         key += plan.keys) {
      int64_t end = std::min(key + plan.keys, hull.hi);
      TileClass kind = mask.classify(rows, {key, end}, item.scalars);
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

int64_t Explainer::allowed(int64_t q, KeyRange keys, Scalars scalars) {
  if (keys.empty())
    return 0;
  switch (mask.classify({q, q}, keys, scalars)) {
  case TileClass::Skip:
    return 0;
  case TileClass::Full:
    return keys.hi - keys.lo;
  case TileClass::Partial:
    break;
  }
  if (keys.hi - keys.lo == 1)
    return holds(q, keys.lo, scalars);
  int64_t middle = keys.lo + (keys.hi - keys.lo) / 2;
  return allowed(q, {keys.lo, middle}, scalars) +
         allowed(q, {middle, keys.hi}, scalars);
}

void Explainer::run() {
  const int64_t heads = op.getHeads();
  auto groups = itemGroups(op, plan);
  double allowedSum = 0;
  // Groups of one size do the same unless the mask reads who they are.
  const bool alike =
      !mask.reads(RangeAnalysis::Arg::H) && !mask.reads(RangeAnalysis::Arg::G);
  std::map<int64_t, int64_t> times;
  for (const AttentionOp::Group &group : groups)
    ++times[group.heads];
  for (const AttentionOp::Group &group : groups) {
    int64_t weight = 1;
    if (alike) {
      weight = times[group.heads];
      times[group.heads] = 0;
      if (weight == 0)
        continue;
    }
    const Explanation before = out;
    const double pairsBefore = pairs;
    Scalars scalars{0, group.firstHead, group.kvHead, qLen, kvLen};
    const int64_t rows = qLen * group.heads;
    for (int64_t row = 0; row < rows; row += plan.rows)
      tile({group, row, std::min(plan.rows, rows - row), scalars});
    // Heads of a group differ only where the mask reads the head, and then
    // each is a group of its own.
    double own = 0;
    for (int64_t i = 0; i < qLen; ++i) {
      KeyRange hull = mask.hull({i + shift, i + shift}, scalars);
      own += double(allowed(i + shift, hull, scalars));
    }
    allowedSum += own * group.heads * weight;
    pairs = pairsBefore + (pairs - pairsBefore) * weight;
    for (int64_t Explanation::*tiles :
         {&Explanation::fullTiles, &Explanation::partialTiles,
          &Explanation::skippedTiles})
      out.*tiles = before.*tiles + (out.*tiles - before.*tiles) * weight;
  }
  const int64_t n = groups.size();
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

//===- compiler/Explain.cpp - What a kernel will do, in numbers -----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Explain.h"
#include "compiler/Tile.h"
#include "compiler/TileWalk.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

using namespace mlir;

namespace attn {
namespace {

constexpr double kMostTiles = 3e7;

void count(AttentionOp op, const TileWalk &walk, int64_t qLen, int64_t kvLen,
           Explanation &out) {
  const int64_t heads = op.getHeads();
  const RangeAnalysis &mask = walk.getMask();
  auto groups = itemGroups(op, walk.getPlan());
  double pairsSum = 0, allowedSum = 0;
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
    double pairs = 0;
    int64_t full = 0, partial = 0, skipped = 0;
    walk.items(group, [&](const TileWalk::Item &item) {
      skipped += walk.tiles(item, [&](const TileWalk::Visit &visit) {
        ++(visit.kind == TileClass::Full ? full : partial);
        pairs += visit.pairs;
      });
    });
    // Heads of a group differ only where the mask reads the head, and then
    // each is a group of its own.
    double own = 0;
    for (int64_t i = group.residue; i < qLen; i += group.heads.dilation)
      walk.allowed(group, i,
                   [&](KeyRange run) { own += double(run.hi - run.lo); });
    allowedSum += own * group.heads.heads * weight;
    pairsSum += pairs * weight;
    out.fullTiles += full * weight;
    out.partialTiles += partial * weight;
    out.skippedTiles += skipped * weight;
  }
  // Of a group of heads, all its classes together.
  const int64_t n = llvm::count_if(
      groups, [](const ItemGroup &group) { return group.residue == 0; });
  for (int64_t *tiles : {&out.fullTiles, &out.partialTiles, &out.skippedTiles})
    *tiles = (*tiles + n / 2) / n;
  out.visitedPairs = std::llround(pairsSum / heads);
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
  auto variant =
      PlannedVariant::make(spec, options, result.diagnostics, &result.reasons);
  if (!variant)
    return result;
  AttentionOp op = variant->op;
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
  count(op, TileWalk(op, *variant->target, qLen, kvLen), qLen, kvLen, result);
  return result;
}

} // namespace attn

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

/// Allowed pairs of the rows of an item, by run of keys.
class RowRuns {
public:
  RowRuns(const TileWalk &walk, const TileWalk::Item &item) {
    for (int64_t r = 0; r < item.count; ++r) {
      const int64_t query = walk.positionOf(item, r) - walk.firstPosition();
      if (r > 0 && query == last) {
        runs.push_back(runs.back());
        continue;
      }
      last = query;
      runs.emplace_back();
      walk.allowed(item.group, query,
                   [&](KeyRange run) { runs.back().push_back(run); });
    }
  }
  /// Those with keys of a range of positions.
  double within(KeyRange keys) const {
    double sum = 0;
    for (const auto &row : runs)
      for (KeyRange run : row)
        sum += double(std::max<int64_t>(
            std::min(run.hi, keys.hi) - std::max(run.lo, keys.lo), 0));
    return sum;
  }

private:
  std::vector<std::vector<KeyRange>> runs;
  int64_t last = 0;
};

void count(AttentionOp op, const TileWalk &walk, int64_t qLen, int64_t kvLen,
           Explanation &out) {
  const int64_t heads = op.getHeads();
  const RangeAnalysis mask = RangeAnalysis::analyse(op.getMask());
  auto groups = itemGroups(op, walk.getPlan());
  double pairsSum = 0, allowedSum = 0, undecidedSum = 0;
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
    double pairs = 0, undecided = 0;
    int64_t full = 0, partial = 0, skipped = 0, undecidedTiles = 0;
    walk.items(group, [&](const TileWalk::Item &item) {
      std::optional<RowRuns> runs;
      skipped += walk.tiles(item, [&](const TileWalk::Visit &visit) {
        ++(visit.kind == TileClass::Full ? full : partial);
        pairs += visit.pairs;
        // Of a class, and of listed keys, runs are single keys: the masks of
        // those are decided key by key.
        if (visit.kind == TileClass::Full || !visit.listed.empty() ||
            item.step() > 1)
          return;
        if (!runs)
          runs.emplace(walk, item);
        const double own = runs->within(visit.keys);
        const double most =
            double(item.count) * double(visit.keys.hi - visit.keys.lo);
        if (own > 0 && own < most)
          return;
        ++undecidedTiles;
        undecided += own > 0 ? 0 : visit.pairs;
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
    undecidedSum += undecided * weight;
    out.fullTiles += full * weight;
    out.partialTiles += partial * weight;
    out.skippedTiles += skipped * weight;
    out.undecidedTiles += undecidedTiles * weight;
  }
  // Of a group of heads, all its classes together.
  const int64_t n = llvm::count_if(
      groups, [](const ItemGroup &group) { return group.residue == 0; });
  for (int64_t *tiles : {&out.fullTiles, &out.partialTiles, &out.skippedTiles,
                         &out.undecidedTiles})
    *tiles = (*tiles + n / 2) / n;
  out.visitedPairs = std::llround(pairsSum / heads);
  out.allowedPairs = std::llround(allowedSum / heads);
  out.undecidedPairs = std::llround(undecidedSum / heads);
  const double width = double(op.getQkDim()) + double(op.getValueDim());
  out.flops = 2 * width * allowedSum;
  out.bytes =
      4 * width * (double(heads) * qLen + double(op.getKvHeads()) * kvLen) +
      walk.getValues().bytes();
}

/// The parts of the mask, and what is not known of parameters.
void describeMask(AttentionOp op, const TileWalk &walk,
                  std::vector<std::string> &reasons) {
  const MaskParts &parts = walk.getParts();
  auto add = [&](StringRef what, const PartMask &part) {
    std::string text = part.analysis.describe();
    reasons.push_back("mask" + what.str() + ":");
    for (StringRef rest = text; !rest.empty();) {
      auto [line, tail] = rest.split('\n');
      rest = tail;
      reasons.push_back("  " + line.str());
    }
  };
  if (op.getMask().empty())
    return;
  if (parts.lists.empty()) {
    add("", parts.dense);
  } else {
    add(" of other rows, the range of keys", parts.denseHull);
    add(" of other rows, listed keys", parts.gathered);
    add(" of listed rows", parts.listed);
  }
  SmallVector<StringRef> open;
  auto note = [&](int64_t number, StringRef name) {
    if (!walk.getValues().isKnown(number) && !llvm::is_contained(open, name))
      open.push_back(name);
  };
  op.getMask().walk([&](Operation *inner) {
    if (auto param = dyn_cast<ParamOp>(inner))
      note(param.getNumber(), param.getName());
    else if (auto member = dyn_cast<MemberOp>(inner))
      note(member.getNumber(), member.getName());
  });
  for (StringRef name : open)
    reasons.push_back("mask: '" + name.str() +
                      "' is not given (--param): counted as if it could be "
                      "anything, a list of tokens as empty");
}

} // namespace

Explanation explain(const Spec &spec, const CompileOptions &options,
                    int64_t qLen, int64_t kvLen, const attn_call *values) {
  Explanation result;
  auto variant =
      PlannedVariant::make(spec, options, result.diagnostics, &result.reasons);
  if (!variant)
    return result;
  AttentionOp op = variant->op;
  const Plan plan = toPlan(*op.getPlan());
  for (auto [name, value] : fields(plan))
    result.plan +=
        (result.plan.empty() ? "" : ",") + name + "=" + std::to_string(value);
  const TileWalk walk(op, *variant->target, qLen, kvLen, values);
  describeMask(op, walk, result.reasons);
  // Tiles are counted one by one.
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
  count(op, walk, qLen, kvLen, result);
  if (result.undecidedTiles)
    result.reasons.push_back(llvm::formatv(
        "mask: {0} partial tiles a head hold no allowed pair or nothing else, "
        "which the analysis does not tell: {1} pairs, {2:f1} % of those "
        "visited, are for nothing",
        result.undecidedTiles, result.undecidedPairs,
        100.0 * double(result.undecidedPairs) /
            double(std::max<int64_t>(result.visitedPairs, 1))));
  return result;
}

} // namespace attn

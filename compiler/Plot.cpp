//===- compiler/Plot.cpp - Which tiles a kernel visits, one by one --------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Plot.h"
#include "compiler/Tile.h"
#include "compiler/TileWalk.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;

namespace attn {

namespace {

constexpr double kMostTiles = 1e6;

/// The group of a head, and which of the group it is.
std::pair<AttentionOp::Group, int64_t>
groupOf(ArrayRef<AttentionOp::Group> groups, int64_t head) {
  for (const AttentionOp::Group &group : groups)
    if (head < group.firstHead + group.heads && head >= group.firstHead)
      return {group, head - group.firstHead};
  llvm_unreachable("every head is in a group");
}

} // namespace

struct TileMap::Source {
  std::unique_ptr<PlannedVariant> variant;
  TileWalk walk;
  AttentionOp::Group group;
};

void TileMap::forEachAllowed(int64_t query,
                             const std::function<void(Span)> &body) const {
  source->walk.allowed(source->group, query,
                       [&](KeyRange run) { body({run.lo, run.hi}); });
}

TileMap makeTileMap(const Spec &spec, const CompileOptions &options,
                    int64_t qLen, int64_t kvLen, int64_t head) {
  TileMap map;
  auto variant = PlannedVariant::make(spec, options, map.diagnostics, nullptr);
  if (!variant)
    return map;
  AttentionOp op = variant->op;
  const Plan plan = toPlan(*op.getPlan());
  auto [group, at] = groupOf(itemGroups(op, plan), head);
  const double tiles = std::ceil(double(qLen) * group.heads / plan.rows) *
                       std::ceil(double(kvLen) / plan.keys);
  if (tiles > kMostTiles) {
    map.diagnostics.push_back(
        {spec.where,
         llvm::formatv("{0} queries x {1} keys are {2:f0} tiles, too many to "
                       "draw",
                       qLen, kvLen, tiles),
         llvm::formatv("at most {0:f0}", kMostTiles)});
    return map;
  }
  TileWalk walk(op, *variant->target, qLen, kvLen);
  map.rowsOfTile = plan.rows;
  map.keysOfTile = plan.keys;
  map.headsOfTile = group.heads;
  map.firstPosition = walk.firstPosition();
  double pairs = 0;
  walk.items(group, [&, at = at,
                     heads = group.heads](const TileWalk::Item &item) {
    // Row r is head r % heads of query r / heads.
    auto firstFrom = [&](int64_t row) {
      return row <= at ? 0 : (row - at + heads - 1) / heads;
    };
    TileMap::Row row{{firstFrom(item.row), firstFrom(item.row + item.count)},
                     {}};
    map.skippedTiles += walk.tiles(item, [&](const TileWalk::Visit &visit) {
      const bool full = visit.kind == TileClass::Full;
      ++(full ? map.fullTiles : map.partialTiles);
      pairs += visit.pairs;
      row.tiles.push_back({{visit.keys.lo, visit.keys.hi}, full});
    });
    // A small tile may have no row of this head.
    if (row.queries.lo < row.queries.hi)
      map.rows.push_back(std::move(row));
  });
  map.visitedPairs = std::llround(pairs / double(group.heads));
  map.source = std::make_shared<const TileMap::Source>(
      TileMap::Source{std::move(variant), walk, group});
  return map;
}

} // namespace attn

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
#include <tuple>

using namespace mlir;

namespace attn {

namespace {

constexpr double kMostTiles = 1e6;

/// The group of a head, one for each residue class, and which of the group it
/// is.
std::pair<SmallVector<ItemGroup>, int64_t> groupOf(ArrayRef<ItemGroup> groups,
                                                   int64_t head) {
  SmallVector<ItemGroup> classes;
  for (const ItemGroup &group : groups)
    if (head < group.heads.firstHead + group.heads.heads &&
        head >= group.heads.firstHead)
      classes.push_back(group);
  return {classes, head - classes.front().heads.firstHead};
}

} // namespace

struct TileMap::Source {
  std::unique_ptr<PlannedVariant> variant;
  TileWalk walk;
  SmallVector<ItemGroup> classes;
};

void TileMap::forEachAllowed(int64_t query,
                             const std::function<void(Span)> &body) const {
  const auto &classes = source->classes;
  source->walk.allowed(classes[query % classes.size()], query, MaskBound::Most,
                       [&](KeyRange run) { body({run.lo, run.hi}); });
}

TileMap makeTileMap(const Spec &spec, const CompileOptions &options,
                    int64_t qLen, int64_t kvLen, int64_t head,
                    const attn_call *values) {
  TileMap map;
  auto variant = PlannedVariant::make(spec, options, map.diagnostics, nullptr);
  if (!variant)
    return map;
  AttentionOp op = variant->op;
  const Plan plan = toPlan(*op.getPlan());
  SmallVector<ItemGroup> classes;
  int64_t at;
  std::tie(classes, at) = groupOf(itemGroups(op, plan), head);
  const AttentionOp::Group group = classes.front().heads;
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
  TileWalk walk(op, *variant->target, qLen, kvLen, values);
  map.rowsOfTile = plan.rows;
  map.keysOfTile = plan.keys;
  map.headsOfTile = group.heads;
  map.firstPosition = walk.firstPosition();
  double pairs = 0;
  const int64_t heads = group.heads, step = group.dilation;
  for (const ItemGroup &itemClass : classes)
    walk.items(itemClass, [&](const TileWalk::Item &item) {
      // Row r is head r % heads of query r / heads of the class. The picture
      // shows the stretch that a class covers.
      auto firstFrom = [&](int64_t row) {
        return row <= at ? 0 : (row - at + heads - 1) / heads;
      };
      const int64_t lo = firstFrom(item.row),
                    hi = firstFrom(item.row + item.count);
      if (lo >= hi)
        return; // a small tile may have no row of this head
      auto queryOf = [&](int64_t number) {
        return item.isListed ? item.queries[number] - walk.firstPosition()
                             : itemClass.residue + number * step;
      };
      TileMap::Row row{{queryOf(lo), queryOf(hi - 1) + 1}, item.step(), {}, {}};
      if (item.isListed)
        for (int64_t number = lo; number < hi; ++number)
          row.listed.push_back(queryOf(number));
      map.skippedTiles += walk.tiles(item, [&](const TileWalk::Visit &visit) {
        const bool full = visit.kind == TileClass::Full;
        ++(full ? map.fullTiles : map.partialTiles);
        pairs += visit.pairs;
        if (visit.listed.empty()) {
          const KeyRange keys = item.positions(visit.keys);
          row.tiles.push_back({{keys.lo, keys.hi}, full, {}});
          return;
        }
        TileMap::Tile tile{{visit.keys.lo, visit.keys.hi}, full, {}};
        for (int64_t key : visit.listed) {
          if (tile.gathered.empty() || tile.gathered.back().hi != key)
            tile.gathered.push_back({key, key});
          ++tile.gathered.back().hi;
        }
        row.tiles.push_back(std::move(tile));
      });
      map.rows.push_back(std::move(row));
    });
  llvm::sort(map.rows, [](const TileMap::Row &a, const TileMap::Row &b) {
    return a.queries.lo < b.queries.lo;
  });
  if (walk.isOpen())
    for (int64_t query = 0; query < qLen; ++query)
      for (auto [bound, sign] :
           {std::pair(MaskBound::Most, 1), std::pair(MaskBound::Least, -1)})
        walk.allowed(classes[query % classes.size()], query, bound,
                     [&map, sign = sign](KeyRange run) {
                       map.openPairs += sign * (run.hi - run.lo);
                     });
  map.visitedPairs = std::llround(pairs / double(group.heads));
  map.source = std::make_shared<const TileMap::Source>(
      TileMap::Source{std::move(variant), walk, std::move(classes)});
  return map;
}

} // namespace attn

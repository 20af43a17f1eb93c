//===- compiler/TileWalk.cpp - The loops of a tile program, in numbers ----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/TileWalk.h"
#include "compiler/Import.h"
#include "compiler/Target.h"
#include "compiler/Tile.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace mlir;

namespace attn {

std::unique_ptr<PlannedVariant>
PlannedVariant::make(const Spec &spec, const CompileOptions &options,
                     std::vector<Diagnostic> &diagnostics,
                     std::vector<std::string> *reasons) {
  const Target *target = findTarget(options.target);
  if (!target) {
    diagnostics.push_back(
        {{}, "there is no target '" + options.target + "'", ""});
    return nullptr;
  }
  DialectRegistry registry;
  registry.insert<AttnDialect, arith::ArithDialect, math::MathDialect>();
  auto result = std::make_unique<PlannedVariant>();
  result->context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler handler(
      result->context.get(), [&](mlir::Diagnostic &d) {
        diagnostics.push_back({toSourceRange(d.getLocation()), d.str(), ""});
      });
  result->module = importSpec(*result->context, spec, diagnostics);
  if (!result->module)
    return nullptr;
  result->op = *result->module->getOps<AttentionOp>().begin();
  result->target = &target->info();
  if (failed(target->check(result->op)) ||
      failed(setPlan(result->op, target->info(), options.plan, reasons)))
    return nullptr;
  return result;
}

static bool isOpenIn(AttentionOp op, const CallValues &values) {
  if (op.getMask().empty())
    return false;
  return llvm::any_of(op.getMask().front(), [&](Operation &inner) {
    return !isa<YieldOp>(inner) && !isComputable(inner, values);
  });
}

TileWalk::TileWalk(AttentionOp op, const TargetInfo &target, int64_t qLen,
                   int64_t kvLen, const attn_call *call)
    : op(op), plan(toPlan(*op.getPlan())),
      parts(std::make_shared<const MaskParts>(op)),
      values(std::make_shared<const CallValues>(op, call)),
      open(isOpenIn(op, *values)), lanes(target.lanes), qLen(qLen),
      kvLen(kvLen),
      shift(op.getAlign() == Alignment::TopLeft ? 0 : kvLen - qLen) {
  auto counted = [&](MaskBound bound) {
    auto of = [&](const PartMask &part) {
      return Counted(*part.region, bound, *values);
    };
    return std::make_shared<CountedParts>(
        CountedParts{of(parts->dense), of(parts->gathered), of(parts->listed)});
  };
  most = counted(MaskBound::Most);
  least = open ? counted(MaskBound::Least) : most;
}

int64_t TileWalk::positionOf(const Item &item, int64_t row) const {
  const int64_t heads = item.group.heads.heads;
  if (item.isListed)
    return item.queries[(item.row + row) / heads];
  return (item.row + row) / heads * item.step() + item.group.residue + shift;
}

Rows TileWalk::rowsOf(const Item &item, int64_t first, int64_t last) const {
  return {positionOf(item, first),
          positionOf(item, std::min(last, item.count - 1))};
}

TileWalk::Item TileWalk::itemOf(const ItemGroup &group) const {
  const int64_t step = group.heads.dilation;
  return {group,
          0,
          0,
          {0, group.heads.firstHead, group.heads.kvHead, qLen, kvLen},
          ((group.residue + shift) % step + step) % step};
}

void TileWalk::items(const ItemGroup &group,
                     llvm::function_ref<void(const Item &)> body) const {
  auto tiles = [&](Item item, int64_t rows) {
    for (item.row = 0; item.row < rows; item.row += plan.rows) {
      item.count = std::min(plan.rows, rows - item.row);
      body(item);
    }
  };
  Item item = itemOf(group);
  tiles(item, group.rows(qLen));
  if (parts->lists.empty() || group.residue != 0)
    return;
  item.isListed = true;
  item.firstKey = 0;
  item.queries = values->listedWithin(shift, shift + qLen);
  tiles(item, int64_t(item.queries.size()) * group.heads.heads);
}

Scalars TileWalk::known(const RangeAnalysis &analysis, Rows rows,
                        std::optional<KeyRange> keys, Scalars scalars) const {
  scalars.loads = analysis.loads(rows, keys, scalars, *values);
  return scalars;
}

TileClass TileWalk::classify(const RangeAnalysis &analysis, Rows rows,
                             KeyRange keys, Scalars scalars) const {
  return analysis.classify(rows, keys, known(analysis, rows, keys, scalars));
}

/// Pairs that blocks of scores cover in keys [key, end) of a tile.
double TileWalk::visited(const Item &item, int64_t key, int64_t end,
                         bool masked) const {
  const int64_t panel = plan.scoreVectors * lanes;
  const RangeAnalysis &mask = maskOf(item).analysis;
  const KeyRange positions = item.positions({key, end});
  Scalars ofTile = item.scalars;
  if (masked)
    ofTile = known(mask, rowsOf(item, 0, item.count - 1), positions, ofTile);
  double sum = 0;
  for (int64_t r = 0; r < item.count; r += panel) {
    KeyRange keys{key, end};
    if (masked)
      keys = item.numbers(
          mask.hullWithin(rowsOf(item, r, r + panel - 1), positions, ofTile));
    if (keys.empty())
      continue;
    const int64_t width =
        coveredKeys(keys.hi - keys.lo, end - key, plan.scoreKeys);
    sum += double(std::min(panel, item.count - r)) * width;
  }
  return sum;
}

/// The numbers of the keys that an item's rows may see.
KeyRange TileWalk::hullOf(const Item &item, Rows rows) const {
  const RangeAnalysis &mask =
      item.isListed ? parts->listed.analysis : parts->denseHull.analysis;
  return item.numbers(
      mask.hull(rows, known(mask, rows, std::nullopt, item.scalars)));
}

bool TileWalk::isVisitedDensely(const Item &item, KeyRange numbers,
                                int64_t key) const {
  return key >= item.position(numbers.lo) && key < item.position(numbers.hi) &&
         (key - item.firstKey) % item.step() == 0;
}

int64_t TileWalk::tiles(const Item &item,
                        llvm::function_ref<void(const Visit &)> body) const {
  const Rows rows = rowsOf(item, 0, item.count - 1);
  const RangeAnalysis &mask = maskOf(item).analysis;
  KeyRange hull = hullOf(item, rows);
  int64_t skipped = llvm::divideCeil(item.numbers({0, kvLen}).hi, plan.keys);
  hull.lo = hull.lo / plan.keys * plan.keys;
  for (int64_t key = hull.lo; key < hull.hi; key += plan.keys) {
    int64_t end = std::min(key + plan.keys, hull.hi);
    TileClass kind =
        classify(mask, rows, item.positions({key, end}), item.scalars);
    if (kind == TileClass::Skip)
      continue;
    --skipped;
    body({{key, end},
          kind,
          visited(item, key, end, kind == TileClass::Partial)});
  }
  if (item.isListed || parts->lists.empty())
    return skipped;
  for (llvm::ArrayRef<int64_t> rest = values->listedWithin(0, kvLen);
       !rest.empty();) {
    SmallVector<int64_t> picked;
    for (int64_t key : rest.take_front(plan.keys))
      if (!isVisitedDensely(item, hull, key))
        picked.push_back(key);
    rest = rest.drop_front(std::min<size_t>(plan.keys, rest.size()));
    if (picked.empty())
      continue;
    KeyRange range{picked.front(), picked.back() + 1};
    TileClass kind =
        classify(parts->gathered.analysis, rows, range, item.scalars);
    if (kind == TileClass::Skip)
      continue;
    const auto count = int64_t(picked.size());
    const int64_t width = coveredKeys(count, count, plan.scoreKeys);
    body({range, kind, double(item.count) * double(width), picked});
  }
  return skipped;
}

/// Keys by number in the class; `body` gets runs of numbers.
void TileWalk::split(int64_t q, KeyRange keys, const Item &item, Counted &mask,
                     llvm::function_ref<void(KeyRange)> body) const {
  if (keys.empty())
    return;
  switch (classify(mask.analysis, {q, q}, item.positions(keys), item.scalars)) {
  case TileClass::Skip:
    return;
  case TileClass::Full:
    return body(keys);
  case TileClass::Partial:
    break;
  }
  const int64_t count = keys.hi - keys.lo;
  if (count > MaskRows::kMostKeys) {
    const int64_t middle = keys.lo + count / 2;
    split(q, {keys.lo, middle}, item, mask, body);
    return split(q, {middle, keys.hi}, item, mask, body);
  }
  const ArrayRef<uint8_t> holds = mask.rows.evaluate(
      q, item.position(keys.lo), item.step(), int(count), item.scalars);
  for (size_t i = 0; i < holds.size();) {
    const size_t begin = i;
    while (i < holds.size() && holds[i])
      ++i;
    if (i == begin)
      ++i;
    else
      body({keys.lo + int64_t(begin), keys.lo + int64_t(i)});
  }
}

void TileWalk::allowed(const ItemGroup &group, int64_t query, MaskBound bound,
                       llvm::function_ref<void(KeyRange)> body) const {
  const int64_t q = query + shift;
  Item item = itemOf(group);
  if (!parts->lists.empty() && !values->listedWithin(q, q + 1).empty()) {
    item.isListed = true;
    item.firstKey = 0;
  }
  CountedParts &masks = bound == MaskBound::Most ? *most : *least;
  std::vector<KeyRange> runs;
  const KeyRange numbers = hullOf(item, {q, q});
  split(q, numbers, item, item.isListed ? masks.listed : masks.dense,
        [&](KeyRange keys) {
          if (item.step() == 1)
            return runs.push_back(keys);
          for (int64_t key = keys.lo; key < keys.hi; ++key)
            runs.push_back(item.positions({key, key + 1}));
        });
  if (!item.isListed && !parts->lists.empty()) {
    for (int64_t key : values->listedWithin(0, kvLen))
      if (!isVisitedDensely(item, numbers, key) &&
          masks.gathered.rows.evaluate(q, key, 1, 1, item.scalars).front())
        runs.push_back({key, key + 1});
    llvm::sort(runs, [](KeyRange a, KeyRange b) { return a.lo < b.lo; });
  }
  KeyRange run{0, 0};
  for (KeyRange next : runs) {
    if (next.lo == run.hi) {
      run.hi = next.hi;
      continue;
    }
    if (!run.empty())
      body(run);
    run = next;
  }
  if (!run.empty())
    body(run);
}

} // namespace attn

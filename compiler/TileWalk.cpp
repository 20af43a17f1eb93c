//===- compiler/TileWalk.cpp - The loops of a tile program, in numbers ----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/TileWalk.h"
#include "compiler/Import.h"
#include "compiler/Specialise.h"
#include "compiler/Target.h"
#include "compiler/Tile.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/DenseMap.h"
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

TileWalk::TileWalk(AttentionOp op, const TargetInfo &target, int64_t qLen,
                   int64_t kvLen)
    : op(op), plan(toPlan(*op.getPlan())),
      region(specialised(op.getMask(), {std::nullopt, std::nullopt, true})),
      mask(RangeAnalysis::analyse(*region)), lanes(target.lanes),
      qLen(qLen), kvLen(kvLen),
      shift(op.getAlign() == Alignment::TopLeft ? 0 : kvLen - qLen) {}

Rows TileWalk::rowsOf(const Item &item, int64_t first, int64_t last) const {
  last = std::min(last, item.count - 1);
  auto position = [&](int64_t row) {
    return (item.row + row) / item.group.heads.heads * item.step() +
           item.group.residue + shift;
  };
  return {position(first), position(last)};
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
  Item item = itemOf(group);
  const int64_t rows = group.rows(qLen);
  for (item.row = 0; item.row < rows; item.row += plan.rows) {
    item.count = std::min(plan.rows, rows - item.row);
    body(item);
  }
}

/// Pairs that blocks of scores cover in keys [key, end) of a tile.
double TileWalk::visited(const Item &item, int64_t key, int64_t end,
                         bool masked) const {
  const int64_t panel = plan.scoreVectors * lanes;
  const int64_t full = plan.scoreKeys, low = endBlock(full);
  double sum = 0;
  for (int64_t r = 0; r < item.count; r += panel) {
    KeyRange keys{key, end};
    if (masked) {
      keys = item.numbers(mask.hullWithin(rowsOf(item, r, r + panel - 1),
                                          item.positions({key, end}),
                                          item.scalars));
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

int64_t TileWalk::tiles(const Item &item,
                        llvm::function_ref<void(const Visit &)> body) const {
  Rows rows = rowsOf(item, 0, item.count - 1);
  KeyRange hull = item.numbers(mask.hull(rows, item.scalars));
  int64_t skipped = llvm::divideCeil(item.numbers({0, kvLen}).hi, plan.keys);
  if (hull.empty())
    return skipped;
  for (int64_t key = hull.lo / plan.keys * plan.keys; key < hull.hi;
       key += plan.keys) {
    int64_t end = std::min(key + plan.keys, hull.hi);
    TileClass kind =
        mask.classify(rows, item.positions({key, end}), item.scalars);
    if (kind == TileClass::Skip)
      continue;
    --skipped;
    body({{key, end},
          kind,
          visited(item, key, end, kind == TileClass::Partial)});
  }
  return skipped;
}

/// The value of the mask for one pair, by folding each operation.
bool TileWalk::holds(int64_t q, int64_t k, Scalars s) const {
  AttentionOp attention = op;
  Block &block = region->front();
  llvm::DenseMap<Value, Attribute> values;
  Builder b(attention.getContext());
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

/// Keys by number in the class; `body` gets runs of numbers.
void TileWalk::split(int64_t q, KeyRange keys, const Item &item,
                     llvm::function_ref<void(KeyRange)> body) const {
  if (keys.empty())
    return;
  switch (mask.classify({q, q}, item.positions(keys), item.scalars)) {
  case TileClass::Skip:
    return;
  case TileClass::Full:
    return body(keys);
  case TileClass::Partial:
    break;
  }
  if (keys.hi - keys.lo == 1) {
    if (holds(q, item.position(keys.lo), item.scalars))
      body(keys);
    return;
  }
  int64_t middle = keys.lo + (keys.hi - keys.lo) / 2;
  split(q, {keys.lo, middle}, item, body);
  split(q, {middle, keys.hi}, item, body);
}

void TileWalk::allowed(const ItemGroup &group, int64_t query,
                       llvm::function_ref<void(KeyRange)> body) const {
  const int64_t q = query + shift;
  const Item item = itemOf(group);
  KeyRange run{0, 0};
  auto add = [&](KeyRange next) {
    if (next.lo == run.hi) {
      run.hi = next.hi;
      return;
    }
    if (!run.empty())
      body(run);
    run = next;
  };
  split(q, item.numbers(mask.hull({q, q}, item.scalars)), item,
        [&](KeyRange keys) {
          if (item.step() == 1)
            return add(keys);
          for (int64_t key = keys.lo; key < keys.hi; ++key)
            add(item.positions({key, key + 1}));
        });
  if (!run.empty())
    body(run);
}

} // namespace attn

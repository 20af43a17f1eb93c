//===- compiler/Explain.cpp - What a kernel will do, in numbers -----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Explain.h"
#include "compiler/Import.h"
#include "compiler/Tile.h"
#include "compiler/TileWalk.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

using namespace mlir;

namespace attn {
namespace {

constexpr double kMostTiles = 3e7;

/// The allowed pairs of an item, by query.
class ItemPairs {
public:
  ItemPairs(const TileWalk &walk, const TileWalk::Item &item) {
    for (int64_t r = 0; r < item.count; ++r) {
      const int64_t position = walk.positionOf(item, r);
      if (!queries.empty() && queries.back().position == position) {
        ++queries.back().rows;
        continue;
      }
      Query &query = queries.emplace_back();
      query.position = position;
      // Rows at listed positions are stored by items of their own.
      if (!item.isListed && !walk.getParts().lists.empty() &&
          !walk.getValues().listedWithin(position, position + 1).empty())
        continue;
      auto collect = [&](MaskBound bound, std::vector<KeyRange> &runs) {
        walk.allowed(item.group, position - walk.firstPosition(), bound,
                     [&](KeyRange run) { runs.push_back(run); });
      };
      collect(MaskBound::Most, query.most);
      if (walk.isOpen())
        collect(MaskBound::Least, query.least);
      else
        query.least = query.most;
    }
  }
  /// Pairs with keys of a range of positions that may be allowed, and that are.
  std::pair<double, double> within(KeyRange keys) const {
    auto sum = [&](const std::vector<KeyRange> &runs) {
      // (They are in order, and a few of many.)
      auto run = llvm::partition_point(
          runs, [&](KeyRange run) { return run.hi <= keys.lo; });
      double pairs = 0;
      for (; run != runs.end() && run->lo < keys.hi; ++run)
        pairs +=
            double(std::min(run->hi, keys.hi) - std::max(run->lo, keys.lo));
      return pairs;
    };
    double most = 0, least = 0;
    for (const Query &query : queries) {
      most += sum(query.most) * double(query.rows);
      least += sum(query.least) * double(query.rows);
    }
    return {most, least};
  }

private:
  struct Query {
    int64_t position = 0, rows = 1;
    std::vector<KeyRange> most, least;
  };
  std::vector<Query> queries;
};

/// What groups of items do, summed over heads.
struct Sums {
  double visited = 0, most = 0, least = 0, undecided = 0;
  int64_t full = 0, partial = 0, skipped = 0, undecidedTiles = 0;
};

Sums sumsOf(const TileWalk &walk, const ItemGroup &group, int64_t kvLen) {
  Sums sums;
  walk.items(group, [&](const TileWalk::Item &item) {
    const ItemPairs pairs(walk, item);
    auto [itsMost, itsLeast] = pairs.within({0, kvLen});
    sums.most += itsMost;
    sums.least += itsLeast;
    sums.skipped += walk.tiles(item, [&](const TileWalk::Visit &visit) {
      ++(visit.kind == TileClass::Full ? sums.full : sums.partial);
      sums.visited += visit.pairs;
      // Of a class, and of listed keys, the masks are decided key by key.
      if (visit.kind == TileClass::Full || !visit.listed.empty() ||
          item.step() > 1)
        return;
      auto [most, least] = pairs.within(visit.keys);
      if (most > 0 &&
          least < double(item.count) * double(visit.keys.hi - visit.keys.lo))
        return;
      ++sums.undecidedTiles;
      sums.undecided += most > 0 ? 0 : visit.pairs;
    });
  });
  return sums;
}

void count(AttentionOp op, const TileWalk &walk, int64_t qLen, int64_t kvLen,
           Explanation &out) {
  const int64_t heads = op.getHeads();
  const RangeAnalysis mask = RangeAnalysis::analyse(op.getMask());
  auto groups = itemGroups(op, walk.getPlan());
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
  Sums all;
  for (const ItemGroup &group : groups) {
    const int64_t weight = alike ? std::exchange(times[kind(group)], 0) : 1;
    if (weight == 0)
      continue;
    const Sums own = sumsOf(walk, group, kvLen);
    for (auto of :
         {&Sums::visited, &Sums::most, &Sums::least, &Sums::undecided})
      all.*of += own.*of * double(weight);
    for (auto of :
         {&Sums::full, &Sums::partial, &Sums::skipped, &Sums::undecidedTiles})
      all.*of += own.*of * weight;
  }
  // Of a group of heads, all its classes together.
  const int64_t n = llvm::count_if(
      groups, [](const ItemGroup &group) { return group.residue == 0; });
  auto aGroup = [&](int64_t tiles) { return (tiles + n / 2) / n; };
  out.fullTiles = aGroup(all.full);
  out.partialTiles = aGroup(all.partial);
  out.skippedTiles = aGroup(all.skipped);
  out.undecidedTiles = aGroup(all.undecidedTiles);
  out.visitedPairs = std::llround(all.visited / double(heads));
  out.allowedPairs = std::llround(all.least / double(heads));
  out.openPairs = std::llround((all.most - all.least) / double(heads));
  out.undecidedPairs = std::llround(all.undecided / double(heads));
  const auto qk = double(op.getQkDim()), value = double(op.getValueDim());
  out.flops = 2 * (qk + value) * all.most;
  auto bytes = [](mlir::Type type) {
    return type.getIntOrFloatBitWidth() / 8.0;
  };
  out.bytes = double(heads) * double(qLen) *
                  (qk * bytes(op.getQType()) + value * bytes(op.getOutType())) +
              double(op.getKvHeads()) * double(kvLen) * (qk + value) *
                  bytes(op.getKvType()) +
              walk.getValues().bytes();
}

/// The mask as it is written, a line for each condition: what analysis makes of
/// that one, by importing it as a mask of its own.
class MaskLines {
public:
  MaskLines(mlir::MLIRContext &context, const Spec &spec, Explanation &out)
      : context(context), spec(spec), out(out) {}

  void add(const ExprRef &e, unsigned depth) {
    const std::string indent(size_t(2) * depth, ' ');
    if (e->kind == ExprKind::Binary && (e->op == Op::And || e->op == Op::Or)) {
      out.mask.push_back(indent + (e->op == Op::And ? "all of" : "any of"));
      for (const ExprRef &part : partsOf(e))
        add(part, depth + 1);
      return;
    }
    out.mask.push_back(indent + print(e) + ": " + meaningOf(e));
  }

private:
  /// Of a && b && c, all three.
  static std::vector<ExprRef> partsOf(const ExprRef &e) {
    std::vector<ExprRef> parts;
    for (const ExprRef &arg : e->args) {
      if (arg->kind != ExprKind::Binary || arg->op != e->op) {
        parts.push_back(arg);
        continue;
      }
      auto inner = partsOf(arg);
      parts.insert(parts.end(), inner.begin(), inner.end());
    }
    return parts;
  }

  std::string meaningOf(const ExprRef &e) {
    if (e->kind == ExprKind::Call && e->name == "global")
      return "keys of the list are gathered, queries of it are items of their "
             "own";
    Spec alone = spec;
    alone.mask = e;
    alone.score = alone.sink = nullptr;
    std::vector<Diagnostic> diagnostics;
    ScopedDiagnosticHandler quiet(&context, [](mlir::Diagnostic &) {});
    auto module = importSpec(context, alone, diagnostics);
    if (!module)
      return "part of a condition that is understood as a whole";
    AttentionOp op = *module->getOps<AttentionOp>().begin();
    const bool isDilation = op.getDilation().has_value();
    PartMask mask(op.getMask(), {std::nullopt, std::nullopt, isDilation});
    const RangeAnalysis::Summary summary = mask.analysis.summary();
    for (const std::string &what : summary.open)
      out.notes.push_back("mask: in '" + print(e) + "', " + what +
                          " is not understood");
    std::vector<std::string> texts;
    if (isDilation)
      texts.push_back("makes residue classes dense");
    if (!summary.open.empty())
      texts.push_back("not understood: the tiles it may matter to are masked");
    if (!summary.effects.empty())
      texts.push_back(llvm::join(summary.effects, " and "));
    // (What tells tiles apart bounds nothing that could be shown.)
    const bool isBound = llvm::any_of(summary.effects, [](StringRef effect) {
      return effect.starts_with("where") || effect.starts_with("which");
    });
    if (isBound && summary.open.empty() && summary.condition != print(e))
      texts.push_back(summary.condition);
    if (texts.empty())
      texts.push_back(summary.condition);
    return llvm::join(texts, "; ");
  }

  mlir::MLIRContext &context;
  const Spec &spec;
  Explanation &out;
};

/// Parameters of the mask without a value.
void noteOpen(AttentionOp op, const TileWalk &walk,
              std::vector<std::string> &notes) {
  std::vector<std::string> names;
  auto note = [&](int64_t number, StringRef name, const char *counted) {
    if (walk.getValues().isKnown(number) || llvm::is_contained(names, name))
      return;
    names.push_back(name.str());
    notes.push_back("mask: '" + name.str() +
                    "' is not given (--param): " + counted);
  };
  op.getMask().walk([&](Operation *inner) {
    if (auto param = dyn_cast<ParamOp>(inner))
      note(param.getNumber(), param.getName(),
           "tiles that depend on it count as visited, their pairs as open");
    else if (auto member = dyn_cast<MemberOp>(inner))
      note(member.getNumber(), member.getName(), "counted as an empty list");
  });
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
  if (spec.mask)
    MaskLines(*variant->context, spec, result).add(spec.mask, 0);
  noteOpen(op, walk, result.notes);
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
    result.notes.push_back(llvm::formatv(
        "mask: {0} partial tiles a head hold no allowed pair or nothing else, "
        "which the analysis does not tell: {1} pairs, {2:f1} % of those "
        "visited, are for nothing",
        result.undecidedTiles, result.undecidedPairs,
        100.0 * double(result.undecidedPairs) /
            double(std::max<int64_t>(result.visitedPairs, 1))));
  return result;
}

} // namespace attn

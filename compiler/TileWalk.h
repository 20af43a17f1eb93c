//===- compiler/TileWalk.h - The loops of a tile program, in numbers ------===//
//
// Part of attnc. Apache-2.0.
//
// Follows the loops of the tile program (Tile.cpp) with the same analysis, in
// numbers instead of IR: what `explain` counts and `plot` draws.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TILEWALK_H
#define ATTNC_COMPILER_TILEWALK_H

#include "compiler/AttnDialect.h"
#include "compiler/CallValues.h"
#include "compiler/Compiler.h"
#include "compiler/MaskRows.h"
#include "compiler/Plan.h"
#include "compiler/Specialise.h"
#include "compiler/Tile.h"
#include "dsl/Spec.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace attn {

/// A variant in the IR with its plan, and what owns it.
struct PlannedVariant {
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  AttentionOp op;
  const TargetInfo *target = nullptr;

  /// Null where something is refused; `diagnostics` then say what. `reasons`
  /// (may be null) gets those of the plan.
  static std::unique_ptr<PlannedVariant>
  make(const Spec &spec, const CompileOptions &options,
       std::vector<Diagnostic> &diagnostics, std::vector<std::string> *reasons);
};

/// Lengths are those of the sequence. Parameters that `values` (may be null)
/// does not tell are open, and lists of tokens then empty. `op` and `values`
/// have to outlive it. Copies share what they look up; none of them is for two
/// threads at once.
class TileWalk {
public:
  TileWalk(AttentionOp op, const TargetInfo &target, int64_t qLen,
           int64_t kvLen, const attn_call *values);

  /// A work item: a tile of (query, head) pairs of a group of heads; of a
  /// dilated one, of a residue class of its queries; or of queries at listed
  /// positions.
  struct Item {
    ItemGroup group;
    int64_t row, count; ///< first row of the tile, rows it has
    Scalars scalars;
    int64_t firstKey; ///< of the class of its keys
    bool isListed = false;
    llvm::ArrayRef<int64_t> queries{}; ///< positions that rows of heads share

    int64_t step() const { return isListed ? 1 : group.heads.dilation; }
    /// Of key number `key` of the class.
    int64_t position(int64_t key) const { return firstKey + key * step(); }
    /// Positions from the first to the last of keys number [lo, hi), not empty.
    KeyRange positions(KeyRange keys) const {
      return {position(keys.lo), position(keys.hi - 1) + 1};
    }
    /// The keys of the class in a range of positions, by number.
    KeyRange numbers(KeyRange positions) const {
      auto first = [&](int64_t position) {
        return std::max<int64_t>(position - firstKey + step() - 1, 0) / step();
      };
      return {first(positions.lo), first(positions.hi)};
    }
  };
  /// A tile of scores that is computed.
  struct Visit {
    KeyRange keys;  ///< by number in the item's class; unless `listed`
    TileClass kind; ///< never Skip
    double pairs;   ///< pairs of rows and keys that blocks of scores cover
    llvm::ArrayRef<int64_t> listed{}; ///< the positions of gathered keys
  };

  void items(const ItemGroup &group,
             llvm::function_ref<void(const Item &)> body) const;
  /// In the order of the kernel; gives the number of tiles that are skipped.
  int64_t tiles(const Item &item,
                llvm::function_ref<void(const Visit &)> body) const;
  /// The keys that a query (counted from 0) of a group's class may attend to,
  /// as longest runs of positions in ascending order: with `Most` all that
  /// some values of the open parameters allow, with `Least` those that all
  /// values do. Time grows with what the analysis cannot decide of the query,
  /// and not with what is open.
  void allowed(const ItemGroup &group, int64_t query, MaskBound bound,
               llvm::function_ref<void(KeyRange)> body) const;
  /// Whether the mask reads a parameter without a value, so that bounds differ.
  bool isOpen() const { return open; }

  /// The position of the query of a row of an item.
  int64_t positionOf(const Item &item, int64_t row) const;

  const Plan &getPlan() const { return plan; }
  const CallValues &getValues() const { return *values; }
  const MaskParts &getParts() const { return *parts; }
  /// The position of query 0.
  int64_t firstPosition() const { return shift; }

private:
  Rows rowsOf(const Item &item, int64_t first, int64_t last) const;
  /// Of the group, with no rows yet.
  Item itemOf(const ItemGroup &group) const;
  const PartMask &maskOf(const Item &item) const {
    return item.isListed ? parts->listed : parts->dense;
  }
  /// A mask that reads nothing open, to count pairs with.
  struct Counted {
    std::unique_ptr<mlir::Region> region;
    RangeAnalysis analysis;
    MaskRows rows;

    Counted(mlir::Region &mask, MaskBound bound, const CallValues &values)
        : region(boundOf(mask, bound, values)),
          analysis(RangeAnalysis::analyse(*region)), rows(*region, values) {}
  };
  /// Those of the parts of the pairs.
  struct CountedParts {
    Counted dense, gathered, listed;
  };
  KeyRange hullOf(const Item &item, Rows rows) const;
  Scalars known(const RangeAnalysis &analysis, Rows rows,
                std::optional<KeyRange> keys, Scalars scalars) const;
  TileClass classify(const RangeAnalysis &analysis, Rows rows, KeyRange keys,
                     Scalars scalars) const;
  double visited(const Item &item, int64_t key, int64_t end, bool masked) const;
  void split(int64_t q, KeyRange keys, const Item &item, Counted &mask,
             llvm::function_ref<void(KeyRange)> body) const;
  bool isVisitedDensely(const Item &item, KeyRange numbers, int64_t key) const;

  AttentionOp op;
  Plan plan;
  std::shared_ptr<const MaskParts> parts;
  std::shared_ptr<const CallValues> values;
  bool open;
  std::shared_ptr<CountedParts> most, least; ///< one and the same unless `open`
  int64_t lanes, qLen, kvLen, shift;
};

} // namespace attn

#endif

//===- compiler/RangeAnalysis.h - Which keys a mask lets rows see ---------===//
//
// Part of attnc. Apache-2.0.
//
// Turns a mask region into the keys that a tile of queries has to visit and
// into a class for each tile of keys. It reasons about the expression; there is
// no list of known masks. What it can't decide is "partial": a key that some
// row may see is never skipped, and a tile is never called full unless every
// row sees every key of it.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_RANGEANALYSIS_H
#define ATTNC_COMPILER_RANGEANALYSIS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Region.h"
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attn {

namespace range {
struct Mask;
}

/// The positions of a tile's queries, both inclusive, qMin <= qMax. Positions
/// and sizes are below 2^31 in magnitude, here and in everything below.
struct Rows {
  int64_t qMin, qMax;
};

/// The smallest and the largest value of each of a mask's loads, elements of
/// parameters, by their number; nothing where that is not known.
using LoadRanges =
    llvm::SmallVector<std::optional<std::pair<int64_t, int64_t>>, 4>;
using LoadValues =
    llvm::SmallVector<std::optional<std::pair<mlir::Value, mlir::Value>>, 4>;

/// What is the same for all pairs of a tile. b, h, g: entry of the batch, query
/// head, key/value head.
struct Scalars {
  int64_t b, h, g, qLen, kvLen;
  LoadRanges loads{}; ///< of RangeAnalysis::loads
};

/// Keys [lo, hi); lo == hi if there are none.
struct KeyRange {
  int64_t lo, hi;
  bool empty() const { return lo >= hi; }
};

enum class TileClass {
  Skip,    ///< no row sees any key
  Partial, ///< neither is known
  Full     ///< every row sees every key
};

/// Rows and Scalars as values of type `index`. b, h, g and qLen may be null
/// where `reads` is false for them.
struct RowValues {
  mlir::Value qMin, qMax;
};
struct ScalarValues {
  mlir::Value b, h, g, qLen, kvLen;
  LoadValues loads{}; ///< of RangeAnalysis::emitLoads
};

/// Reads parameters' values for an analysis in numbers. Indices beyond a
/// dimension are those of the nearest element.
class ParamReader {
public:
  virtual ~ParamReader() = default;
  /// An integer or bool element; nothing where the value is not known.
  virtual std::optional<int64_t> element(int64_t param,
                                         llvm::ArrayRef<int64_t> at) const = 0;
  /// The range of the elements from at[dim] to `last` along a dimension.
  virtual std::optional<std::pair<int64_t, int64_t>>
  extremes(int64_t param, llvm::ArrayRef<int64_t> at, unsigned dim,
           int64_t last) const = 0;
};

/// An immutable result: cheap to copy, independent of the IR it came from, safe
/// to share between threads. Numbers and emitted IR are evaluations of one and
/// the same form and agree.
class RangeAnalysis {
public:
  enum class Arg : unsigned { B, H, G, Q, K, QLen, KvLen };

  /// `mask` has one block with the integer arguments (b, h, g, q, k, q_len,
  /// kv_len) whose terminator has one i1 operand; or it is empty: every key is
  /// allowed. Integers are taken not to wrap around. Any operation may occur;
  /// results of those that are not understood are open.
  static RangeAnalysis analyse(mlir::Region &mask);

  /// A range in [0, kvLen) outside which no row sees a key. For any comparison
  /// that is linear in the key, and for any conjunction of comparisons of k
  /// with q + constant or constants, the smallest one; a union gets the hull of
  /// its parts. A condition on the residue of a key restricts nothing.
  KeyRange hull(Rows rows, Scalars scalars) const;
  /// The hull of what rows see of keys [lo, hi) of [0, kvLen), in that range:
  /// smaller than the part of `hull` there where a union has a gap.
  KeyRange hullWithin(Rows rows, KeyRange keys, Scalars scalars) const;
  /// A range in [0, kvLen) of which every row sees every key.
  KeyRange inner(Rows rows, Scalars scalars) const;
  /// The class of the part of `tile` that lies in [0, kvLen); Skip if none.
  TileClass classify(Rows rows, KeyRange tile, Scalars scalars) const;

  /// The same as IR: straight-line `arith` on `index` and i1 at the builder's
  /// insertion point, folded as far as the operands are constant.
  std::pair<mlir::Value, mlir::Value> emitHull(mlir::OpBuilder &builder,
                                               mlir::Location loc,
                                               RowValues rows,
                                               ScalarValues scalars) const;
  std::pair<mlir::Value, mlir::Value>
  emitHullWithin(mlir::OpBuilder &builder, mlir::Location loc, RowValues rows,
                 mlir::Value keysFrom, mlir::Value keysTo,
                 ScalarValues scalars) const;
  std::pair<mlir::Value, mlir::Value> emitInner(mlir::OpBuilder &builder,
                                                mlir::Location loc,
                                                RowValues rows,
                                                ScalarValues scalars) const;
  /// i1: false only if no row sees any of the keys kMin..kMax, both inclusive,
  /// 0 <= kMin <= kMax < kvLen.
  mlir::Value emitMay(mlir::OpBuilder &builder, mlir::Location loc,
                      RowValues rows, mlir::Value kMin, mlir::Value kMax,
                      ScalarValues scalars) const;
  /// i1: true only if every row sees all of those keys.
  mlir::Value emitMust(mlir::OpBuilder &builder, mlir::Location loc,
                       RowValues rows, mlir::Value kMin, mlir::Value kMax,
                       ScalarValues scalars) const;

  /// What the mask's loads may be for pairs of `rows` with any key, or with
  /// those of a range; loads that `scalars` has already stay.
  LoadRanges loads(Rows rows, std::optional<KeyRange> keys,
                   const Scalars &scalars, const ParamReader &reader) const;
  /// The same as `attn.param` and `attn.extremes`; kMin and kMax, both
  /// inclusive, may be null.
  LoadValues emitLoads(mlir::OpBuilder &builder, mlir::Location loc,
                       RowValues rows, mlir::Value kMin, mlir::Value kMax,
                       const ScalarValues &scalars) const;
  /// Flat, for an op's operands: two values a load, those of its type where
  /// nothing else is known; and back.
  mlir::SmallVector<mlir::Value> flatten(mlir::OpBuilder &builder,
                                         mlir::Location loc,
                                         const LoadValues &loads) const;
  static LoadValues unflatten(mlir::ValueRange flat);
  /// Parameters of which a dimension is summed up over keys, and which.
  llvm::SmallVector<std::pair<int64_t, unsigned>> summedDims() const;

  /// Known for every position and size.
  bool alwaysTrue() const;
  bool alwaysFalse() const;
  /// True where every tile of one row and one key is decided: no part of the
  /// mask was left open.
  bool exact() const;

  /// Whether the mask's value depends on that argument. Rows of different
  /// heads may share a tile if it reads neither H nor G.
  bool reads(Arg arg) const;

  /// For people: each condition with what it bounds, and what was left open
  /// and where it is written. Several lines, each ended by a newline.
  std::string describe() const;
  /// The same in one line.
  struct Summary {
    std::string condition;            ///< "k <= q and k >= q - 3"
    std::vector<std::string> effects; ///< what it bounds, each once
    std::vector<std::string> open;    ///< what was not understood, and where
  };
  Summary summary() const;

private:
  std::shared_ptr<const range::Mask> mask;
};

} // namespace attn

#endif

//===- compiler/Plot.h - Which tiles a kernel visits, one by one ----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_PLOT_H
#define ATTNC_COMPILER_PLOT_H

#include "compiler/Compiler.h"
#include "dsl/Spec.h"
#include "runtime/attn_abi.h"
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace attn {

/// A stretch [lo, hi) of queries or of keys, counted from 0.
struct Span {
  int64_t lo, hi;
};

/// What the kernel of a plan does for one head of one sequence. Immutable;
/// copies share what is behind `forEachAllowed`.
class TileMap {
public:
  /// A computed tile. What no tile covers is skipped.
  struct Tile {
    Span keys;
    bool full; ///< computed without the mask
    /// Of a tile of gathered keys: their positions, in runs. Else empty.
    std::vector<Span> gathered{};
  };
  /// The tiles of one work item, by key. Where several heads share a tile's
  /// rows, the queries are those of the one head. An item of a dilated head has
  /// every d-th query of its stretch, and of a tile's keys every d-th from the
  /// first on; items of other classes overlap it. So do items of queries at
  /// listed positions, whose rows count there and not in others.
  struct Row {
    Span queries;
    int64_t step; ///< from one query, or key, of the item to the next
    std::vector<Tile> tiles;
    /// Of an item of queries at listed positions: those. Else empty.
    std::vector<int64_t> listed;
  };

  std::vector<Diagnostic> diagnostics; ///< if any, there is nothing else
  std::vector<Row> rows;               ///< every item of the head, by query
  int64_t rowsOfTile = 0;    ///< (query, head) pairs of a tile, as planned
  int64_t keysOfTile = 0;    ///< keys of a tile; tiles start at multiples
  int64_t headsOfTile = 1;   ///< heads that share the tiles' rows
  int64_t firstPosition = 0; ///< the position of query 0; keys start at 0
  /// Of the items' tiles, as `Explanation` counts them.
  int64_t fullTiles = 0, partialTiles = 0, skippedTiles = 0;
  /// Computed pairs, the mean over the heads that share the tiles, rounded.
  int64_t visitedPairs = 0;
  bool ok() const { return diagnostics.empty(); }

  /// Pairs that depend on parameters without a value, of the head.
  int64_t openPairs = 0;

  /// Calls `body` with the longest runs of keys that a query may attend to, in
  /// ascending order; 0 <= query < the number of queries. Keys that depend on
  /// parameters without a value are among them. Not to be called by two
  /// threads at once.
  void forEachAllowed(int64_t query,
                      const std::function<void(Span)> &body) const;

private:
  friend TileMap makeTileMap(const Spec &, const CompileOptions &, int64_t,
                             int64_t, int64_t, const attn_call *);
  struct Source;
  std::shared_ptr<const Source> source;
};

/// Does not compile. `head` is one of the variant's query heads; lengths are at
/// least 1. Refuses what has more tiles than a picture can show.
/// `values` are as for `explain`; they have to outlive the map.
TileMap makeTileMap(const Spec &spec, const CompileOptions &options,
                    int64_t qLen, int64_t kvLen, int64_t head,
                    const attn_call *values = nullptr);

} // namespace attn

#endif

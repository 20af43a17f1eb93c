//===- compiler/Specialise.h - A mask where more is known of its pairs ----===//
//
// Part of attnc. Apache-2.0.
//
// A tile program walks the keys of a row in parts: those of the dense loop,
// those at listed positions, and rows at listed positions apart. In each of
// them some conditions of the mask are known, and the mask is simpler.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_SPECIALISE_H
#define ATTNC_COMPILER_SPECIALISE_H

#include "compiler/AttnDialect.h"
#include "compiler/RangeAnalysis.h"
#include <memory>
#include <optional>

namespace attn {

/// What is known of all pairs of a part.
struct PairFacts {
  /// Whether the query's or the key's position is in every list of tokens
  /// (true), or in none (false).
  std::optional<bool> listedQuery, listedKey;
  /// `attn.congruent` holds.
  bool congruent = false;
};

/// A copy of a mask region, detached, with what is known folded; empty where
/// that makes it true.
std::unique_ptr<mlir::Region> specialised(mlir::Region &mask, PairFacts facts);

/// The numbers of the lists of tokens that a mask asks about, ascending.
llvm::SmallVector<int64_t> listsOf(mlir::Region &mask);

/// The mask of a part of the pairs, and what analysis makes of it.
struct PartMask {
  std::unique_ptr<mlir::Region> region;
  RangeAnalysis analysis;

  PartMask(mlir::Region &mask, PairFacts facts)
      : region(specialised(mask, facts)),
        analysis(RangeAnalysis::analyse(*region)) {}
};

/// The parts of the pairs of a variant. Rows at listed positions are items of
/// their own; the others visit a range of keys densely, and the keys at listed
/// positions outside it.
struct MaskParts {
  explicit MaskParts(AttentionOp op);

  llvm::SmallVector<int64_t> lists; ///< that the mask asks about
  PartMask dense;     ///< other rows, the keys of their class in a range
  PartMask denseHull; ///< ... and keys that are not listed: gives that range
  PartMask gathered;  ///< other rows, listed keys
  PartMask listed;    ///< listed rows, all keys
};

} // namespace attn

#endif

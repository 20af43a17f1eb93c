//===- compiler/Plan.h - How a variant is cut into tiles ------------------===//
//
// Part of attnc. Apache-2.0.
//
// The planner is a pure function from a variant and the numbers of a machine to
// a plan; the plan travels in the IR as `#attn.plan` and can be overridden.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_PLAN_H
#define ATTNC_COMPILER_PLAN_H

#include "compiler/Target.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace attn {

/// What the planner needs to know of a variant.
struct Problem {
  int64_t qkDim = 1;
  int64_t valueDim = 1;
  /// For each run of query heads that share a kv head: how many.
  std::vector<int64_t> groupSizes;
  bool readsHead = false; ///< mask or score do: a tile's rows are of one head
  /// Bytes of an element as it is stored.
  int64_t qBytes = 4, kvBytes = 4, outBytes = 4;
};

/// Sizes are in rows and keys, not bytes. A row is a (query, head) pair.
struct Plan {
  int64_t rows = 0;      ///< rows of a tile; a multiple of `lanes*scoreVectors`
                         ///< and of `valueRows`
  int64_t keys = 0;      ///< keys of a tile; a multiple of `scoreKeys`
  int64_t heads = 1;     ///< heads of a group packed into the rows of a tile
  int64_t scoreKeys = 0; ///< register block of the scores: keys ...
  int64_t scoreVectors = 0; ///< ... by vectors of rows
  int64_t valueRows = 0;    ///< register block of the accumulation: rows ...
  int64_t valueVectors = 0; ///< ... by vectors of value columns
  int64_t unroll = 0;       ///< steps of an inner loop written out
  /// Keys of a split, a multiple of `keys`: a sequence of more keys, whose rows
  /// are those of one tile, is done by an item for each split of its keys, and
  /// merged by another program. 0: never.
  int64_t split = 0;
};

/// The block that ends a run which blocks of `block` keys or rows don't divide.
inline int64_t endBlock(int64_t block) { return block < 6 ? block : 6; }

/// The block that ends what lower blocks than `endBlock` don't divide either.
inline int64_t tailBlock(int64_t block) {
  return endBlock(block) < 6 ? endBlock(block) : 3;
}

/// How many keys blocks of `scoreKeys` and of what ends them cover of `keys`,
/// in a tile of `tileKeys`: one that is too long for its place begins earlier.
inline int64_t coveredKeys(int64_t keys, int64_t tileKeys, int64_t scoreKeys) {
  const int64_t low = endBlock(scoreKeys), tail = tailBlock(scoreKeys);
  if (tileKeys < tail)
    return keys;
  const int64_t left = keys % scoreKeys % low;
  if (left > tail && tileKeys >= low)
    return keys - left + low;
  return keys - left + (left + tail - 1) / tail * tail;
}

/// Bytes from row to row of `width` elements in memory that threads share: in
/// pieces of 16 bytes, whole steps of 16 elements; an odd number of pieces, or
/// a multiple of 8 that the target permutes, so that no two of eight
/// consecutive rows begin in the same bank.
int64_t sharedRowBytes(int64_t width, int64_t elementBytes);

/// Bytes from row to row of weights in such memory.
inline int64_t sharedWeightBytes(int64_t keys) { return 4 * (keys + 4); }

/// How much of such memory the tiles of a plan take at most: the queries, and
/// beside them a tile each of keys, values and weights, or rows on their way
/// out.
int64_t sharedTileBytes(const Plan &plan, const Problem &problem);

/// The plan and, for each choice, why.
struct PlanWithReasons {
  Plan plan;
  std::vector<std::string> reasons;
};

PlanWithReasons makePlan(const Problem &problem, const TargetInfo &target);

/// Applies "KEY=VALUE,..." (the names of Plan's fields in snake case); whether
/// the result can be lowered is for `checkPlan` to say. The error names the
/// key, its value and what is allowed.
llvm::Error overridePlan(PlanWithReasons &plan, llvm::StringRef overrides);

/// Whether the plan can be lowered for that target. The error names the key,
/// its value and what is allowed.
llvm::Error checkPlan(const Plan &plan, const Problem &problem,
                      const TargetInfo &target);

/// Key/value pairs for printing.
std::vector<std::pair<std::string, int64_t>> fields(const Plan &plan);

} // namespace attn

#endif

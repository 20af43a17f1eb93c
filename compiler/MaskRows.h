//===- compiler/MaskRows.h - A mask on rows of pairs, in numbers ----------===//
//
// Part of attnc. Apache-2.0.
//
// What a mask says of each pair of a row, for counting and drawing: many keys
// at a time, with the values of parameters. Where some are not known, two
// masks that do not read them enclose it.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_MASKROWS_H
#define ATTNC_COMPILER_MASKROWS_H

#include "compiler/AttnDialect.h"
#include "compiler/CallValues.h"
#include "compiler/RangeAnalysis.h"
#include "mlir/IR/Region.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <memory>
#include <vector>

namespace attn {

/// Whether a value of the mask can be had in numbers: its operation is one that
/// MaskRows knows, and the parameter it reads has a value.
bool isComputable(mlir::Operation &op, const CallValues &values);

enum class MaskBound {
  Least, ///< true only where the mask is true whatever is not known
  Most   ///< true wherever the mask may be true
};
/// A copy of a mask region, detached, that reads nothing unknown; empty where
/// it is true for every pair. Both bounds are the mask itself where all of it
/// is computable.
std::unique_ptr<mlir::Region> boundOf(mlir::Region &mask, MaskBound bound,
                                      const CallValues &values);

/// Evaluates a mask region of which everything is computable. Not for two
/// threads at once.
class MaskRows {
public:
  /// At most that many keys at a time.
  static constexpr int kMostKeys = 256;

  /// Both have to outlive this. `mask` may be empty: always true.
  MaskRows(mlir::Region &mask, const CallValues &values);

  /// One byte a key, 0 or 1, of `count` keys from `key` on, `step` apart.
  /// Positions are below 2^31. Valid until the next call.
  llvm::ArrayRef<uint8_t> evaluate(int64_t q, int64_t key, int64_t step,
                                   int count, const Scalars &scalars);

private:
  /// A value for each key: integers and conditions, or floats.
  struct Column {
    std::vector<int32_t> ints;
    std::vector<float> floats;
  };
  /// The same for all keys of a row, or not; `run` fills the first n elements.
  struct Step {
    bool isUniform;
    Column *out;
    std::function<void(int n)> run;
  };
  class Builder;

  std::vector<std::unique_ptr<Column>> columns;
  std::vector<Step> steps;
  std::vector<Column *> arguments;
  const Column *result = nullptr;       ///< null: always true
  std::array<int64_t, kMaskArgs> row{}; ///< that uniform columns are of
  bool hasRow = false;
  std::vector<uint8_t> bytes;
};

} // namespace attn

#endif

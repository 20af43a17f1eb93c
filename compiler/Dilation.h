//===- compiler/Dilation.h - Residue classes in a mask --------------------===//
//
// Part of attnc. Apache-2.0.
//
// A mask that lets a query see only keys a multiple of d away splits the work
// into d independent dense ones. Finds such a condition among those that all
// have to hold, whoever wrote it.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_DILATION_H
#define ATTNC_COMPILER_DILATION_H

#include "dsl/Spec.h"
#include <optional>
#include <vector>

namespace attn {

struct Dilation {
  /// The condition, as it stands in the mask: `window(l, r, d)`,
  /// `neighborhood(n, d)`, `(k - q) % d == 0` or `k % d == q % d`.
  const Expr *condition = nullptr;
  ExprRef divisor;             ///< d
  bool ofRemainders = false;   ///< the last form
  std::vector<int64_t> ofHead; ///< d of each query head, at least 1
};

/// nullopt if there is none, or it is not known for every head, or 1 for all.
std::optional<Dilation> findDilation(const Spec &spec);

} // namespace attn

#endif

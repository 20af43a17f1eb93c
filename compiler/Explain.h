//===- compiler/Explain.h - What a kernel will do, in numbers -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_EXPLAIN_H
#define ATTNC_COMPILER_EXPLAIN_H

#include "compiler/Compiler.h"
#include "dsl/Spec.h"
#include "runtime/attn_abi.h"
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace attn {

/// The work of one batch entry. Pairs and tiles are counted per query head
/// (the mean over heads, rounded).
struct Explanation {
  int64_t visitedPairs = 0; ///< pairs whose score is computed
  int64_t allowedPairs = 0; ///< pairs with the mask true, whatever is not known
  int64_t openPairs = 0;    ///< pairs that depend on parameters not known
  int64_t fullTiles = 0;    ///< tiles computed without the mask
  int64_t partialTiles = 0; ///< tiles computed with it
  int64_t skippedTiles = 0; ///< tiles not computed
  double flops = 0; ///< 2 (qk + value width) an allowed or open pair, over all
                    ///< heads
  double bytes = 0; ///< Q, K, V read once and O written once, over all heads,
                    ///< and the parameters that are known
  /// Partial tiles that turn out to hold no allowed pair, or only such: what
  /// the analysis could not decide costs their masks and these pairs.
  int64_t undecidedTiles = 0, undecidedPairs = 0;
  std::string plan;                 ///< as `--plan` takes it
  std::vector<std::string> reasons; ///< of the plan
  /// The mask's conditions as written, each with what it bounds, one a line;
  /// indented below what joins them.
  std::vector<std::string> mask;
  /// What was not known, not understood or not decided, and what that costs.
  std::vector<std::string> notes;
  std::vector<Diagnostic> diagnostics;
  bool ok() const { return diagnostics.empty(); }
};

/// Lengths are those of every sequence. `values` (may be null) is a call of one
/// sequence that holds the parameters' values; those that `data` is null of are
/// not known. Then a tile that depends on them counts as visited and partial,
/// which is the most a kernel may do; pairs that some values allow and others
/// do not are `openPairs`, not `allowedPairs`; lists of tokens are empty;
/// `notes` say so. Does not compile. Where the analysis decides, time does not
/// grow with the number of pairs.
Explanation explain(const Spec &spec, const CompileOptions &options,
                    int64_t qLen, int64_t kvLen,
                    const attn_call *values = nullptr);

} // namespace attn

#endif

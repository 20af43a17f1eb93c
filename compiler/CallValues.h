//===- compiler/CallValues.h - Values of parameters, in numbers -----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_CALLVALUES_H
#define ATTNC_COMPILER_CALLVALUES_H

#include "compiler/AttnDialect.h"
#include "compiler/RangeAnalysis.h"
#include "runtime/attn_abi.h"
#include <map>
#include <memory>
#include <utility>

namespace attn {

/// What the parameters of a variant hold in a call of one sequence, as far as
/// that is known: without a call, or where its `data` is null, it is not. A
/// list of tokens that is not known is empty. Copies share what they looked up;
/// none of them is for two threads at once.
class CallValues final : public ParamReader {
public:
  /// `call` (may be null) has to outlive this.
  CallValues(AttentionOp op, const attn_call *call);

  std::optional<int64_t> element(int64_t param,
                                 llvm::ArrayRef<int64_t> at) const override;
  std::optional<std::pair<int64_t, int64_t>>
  extremes(int64_t param, llvm::ArrayRef<int64_t> at, unsigned dim,
           int64_t last) const override;
  /// An element of any type.
  std::optional<double> real(int64_t param, llvm::ArrayRef<int64_t> at) const;

  /// The positions of [from, to) in any list of tokens, ascending.
  llvm::ArrayRef<int64_t> listedWithin(int64_t from, int64_t to) const;
  /// Whether a value was given.
  bool isKnown(int64_t param) const { return find(param) != nullptr; }
  /// Of the elements that were given, together.
  double bytes() const;

private:
  struct Ranges;

  const attn_param *find(int64_t param) const;
  /// Of the elements along a dimension of which the first is `first` elements
  /// from the start.
  const Ranges &rangesOf(int64_t param, unsigned dim, int64_t first) const;

  const attn_call *call;
  llvm::SmallVector<mlir::Type> types; ///< in memory, by parameter
  llvm::SmallVector<int64_t> lists;    ///< of tokens, that the mask asks about
  llvm::SmallVector<int64_t> positions;
  /// By parameter and dimension, of the elements asked about last.
  std::shared_ptr<std::map<std::pair<int64_t, unsigned>, Ranges>> ranges;
};

} // namespace attn

#endif

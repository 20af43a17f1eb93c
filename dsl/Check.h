//===- dsl/Check.h - From drafts to specs ---------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_DSL_CHECK_H
#define ATTNC_DSL_CHECK_H

#include "dsl/Draft.h"
#include "dsl/Errors.h"

namespace attn::internal {

/// Applies `-D` to every draft that has the name, and checks all drafts. The
/// one way to a Spec, for texts and for the builder. `wellFormed` is false if
/// there were errors before; then a name of a `-D` may be in what was skipped.
ParseResult checkAll(std::vector<Draft> drafts, const ParseOptions &options,
                     Errors &errors, bool wellFormed);

/// Marks what `-D` fixes: lets get `fixed`, scalar parameters become lets.
void applyDefines(std::vector<Draft> &drafts, const ParseOptions &options,
                  Errors &errors, bool wellFormed);

/// Null after errors. `work` bounds what is spent on trying every head.
std::optional<Spec> checkDraft(const Draft &draft, Errors &errors,
                               uint64_t &work);

} // namespace attn::internal

#endif

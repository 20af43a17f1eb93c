//===- compiler/FatalErrors.h - LLVM's last words as errors ---------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_FATALERRORS_H
#define ATTNC_COMPILER_FATALERRORS_H

#include "dsl/Spec.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <vector>

namespace attn {

/// Runs `body`. Where LLVM would end the process (it meets something that a
/// code generator can't select, say), `body` is left where it is, with what it
/// had allocated, a diagnostic is added and false is returned. So `body` may
/// hold no lock and own nothing that others use. Thread-safe; may be nested.
bool survivingFatalErrors(llvm::function_ref<void()> body,
                          std::vector<Diagnostic> &diagnostics);

} // namespace attn

#endif

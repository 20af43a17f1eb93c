//===- compiler/Link.h - Objects to files ---------------------------------===//
//
// Part of attnc. Apache-2.0.
//
// Linking without a linker on the user's machine. Internal to the compiler;
// thread-safe (links are done one at a time). No object comes to share a
// constant with another one, here or when the result is linked further.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_LINK_H
#define ATTNC_COMPILER_LINK_H

#include "dsl/Spec.h"
#include <string>
#include <vector>

namespace attn {

/// Links `objects` (bytes) to a shared library that exports only
/// `exportedSymbol`, needs no other library and has no text relocations.
/// `path` is replaced as a whole, or left as it is if a diagnostic is added.
bool linkShared(const std::vector<std::string> &objects,
                const std::string &exportedSymbol, const std::string &path,
                std::vector<Diagnostic> &diagnostics);

/// Joins `objects` to one relocatable object with the same exported symbols.
bool linkRelocatable(const std::vector<std::string> &objects,
                     const std::string &path,
                     std::vector<Diagnostic> &diagnostics);

} // namespace attn

#endif

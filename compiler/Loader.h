//===- compiler/Loader.h - Objects into this process ----------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_LOADER_H
#define ATTNC_COMPILER_LOADER_H

#include "dsl/Spec.h"
#include <string>
#include <vector>

namespace attn {

/// Links an object that stands alone into this process and returns the address
/// of `symbol`, or nullptr with diagnostics. It stays until the process ends.
/// Thread-safe; objects don't see each other's symbols.
const void *loadObject(const std::string &object, const std::string &symbol,
                       std::vector<Diagnostic> &diagnostics);

} // namespace attn

#endif

//===- compiler/Version.cpp - What this build of the compiler is ----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "attn_build_identity.inc" // ATTN_BUILD_IDENTITY: hash of the sources
#include "compiler/Compiler.h"
#include "llvm/Config/llvm-config.h"

namespace attn {

std::string compilerVersion() {
  return ATTN_PROJECT_VERSION " (LLVM " LLVM_VERSION_STRING
                              ", build " ATTN_BUILD_IDENTITY ")";
}

} // namespace attn

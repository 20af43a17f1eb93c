//===- tools/Png.h - Drawings as PNG --------------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TOOLS_PNG_H
#define ATTNC_COMPILER_TOOLS_PNG_H

#include "compiler/tools/Drawing.h"

namespace attn {

/// The bytes of a PNG file; the same for the same drawing and the same libpng.
/// Throws std::runtime_error where libpng fails.
std::string toPng(const Drawing &drawing);

} // namespace attn

#endif

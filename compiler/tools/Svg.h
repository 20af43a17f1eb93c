//===- tools/Svg.h - Drawings as SVG --------------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TOOLS_SVG_H
#define ATTNC_COMPILER_TOOLS_SVG_H

#include "compiler/tools/Drawing.h"

namespace attn {

/// The bytes of an SVG file; the same for the same drawing.
std::string toSvg(const Drawing &drawing);

} // namespace attn

#endif

//===- targets/x86/X86.h - x86-64 in three levels -------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_X86_X86_H
#define ATTNC_TARGETS_X86_X86_H

#include "compiler/Target.h"

namespace attn {
/// Appends x86-64 (SSE2), x86-avx2 (AVX2 and FMA) and x86-avx512.
void addX86Targets(std::vector<const Target *> &list);
} // namespace attn

#endif

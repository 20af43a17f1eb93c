//===- targets/x86/Emulation.h - x86-64 code on other machines ------------===//
//
// Part of attnc. Apache-2.0.
//
// Apart from X86.cpp, so that it can be had without the compiler.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_X86_EMULATION_H
#define ATTNC_TARGETS_X86_EMULATION_H

#include "compiler/Target.h"

namespace attn {

/// Of a level that qemu knows, by the name of a CPU that has it.
inline Emulation x86Emulation(const char *cpu) {
  Emulation e;
  e.program = "qemu-x86_64";
  e.options = {"-cpu", cpu};
  e.package = "qemu-user";
  e.triple = "x86_64-linux-gnu";
  e.linkPackages = "gcc-x86-64-linux-gnu, libc6-dev-amd64-cross";
  return e;
}

/// Of x86-avx512, which qemu does not know.
inline Emulation avx512Emulation() {
  Emulation e = x86Emulation("");
  e.program.clear();
  e.options.clear();
  e.package.clear();
  e.variable = "ATTN_AVX512_RUNNER";
  e.hasOwnFiles = true;
  return e;
}

} // namespace attn

#endif

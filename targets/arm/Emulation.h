//===- targets/arm/Emulation.h - AArch64 code on other machines -----------===//
//
// Part of attnc. Apache-2.0.
//
// Apart from Arm.cpp, so that it can be had without the compiler.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_ARM_EMULATION_H
#define ATTNC_TARGETS_ARM_EMULATION_H

#include "compiler/Target.h"

namespace attn {

/// Of arm-neon.
inline Emulation neonEmulation() {
  Emulation e;
  e.program = "qemu-aarch64";
  e.options = {"-cpu", "cortex-a57"};
  e.package = "qemu-user";
  e.triple = "aarch64-linux-gnu";
  e.linkPackages = "gcc-aarch64-linux-gnu, libc6-dev-arm64-cross";
  return e;
}

} // namespace attn

#endif

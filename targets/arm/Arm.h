//===- targets/arm/Arm.h - AArch64 with NEON ------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_ARM_ARM_H
#define ATTNC_TARGETS_ARM_ARM_H

#include "compiler/Target.h"

namespace attn {
/// Appends arm-neon: ARMv8.0-A, all of whose application processors have it.
void addArmTargets(std::vector<const Target *> &list);
} // namespace attn

#endif

//===- targets/arm/Arm.cpp - AArch64 with NEON ----------------------------===//
//
// Part of attnc. Apache-2.0.
//
// A descriptor of the shared CPU lowering. LLVM's "generic" CPU is ARMv8.0-A:
// nothing that a later revision added is used.
//
//===----------------------------------------------------------------------===//
#include "targets/arm/Arm.h"
#include "targets/arm/Emulation.h"
#include "targets/cpu/CpuTarget.h"

extern "C" {
void LLVMInitializeAArch64TargetInfo();
void LLVMInitializeAArch64Target();
void LLVMInitializeAArch64TargetMC();
void LLVMInitializeAArch64AsmPrinter();
}

namespace attn {

static void initialize() {
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
}

static CpuDescriptor neon() {
  CpuDescriptor d;
  d.info.name = "arm-neon";
  d.info.features = "neon";
  d.info.lanes = 4;
  d.info.registers = 32;
  d.info.fusedMultiplyAdd = true;
  d.info.multipliesByElement = true;
  d.info.convertsF16 = true;
  d.info.l1Bytes = 32 << 10;
  d.info.l2Bytes = 512 << 10;
  d.triple = "aarch64-unknown-linux-gnu";
  d.cpu = "generic";
  d.llvmFeatures = "+neon";
  d.initialize = initialize;
  d.emulation = neonEmulation();
  return d;
}

void addArmTargets(std::vector<const Target *> &list) {
  static const CpuTarget target(neon());
  list.push_back(&target);
}

} // namespace attn

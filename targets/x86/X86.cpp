//===- targets/x86/X86.cpp - x86-64 in three levels -----------------------===//
//
// Part of attnc. Apache-2.0.
//
// Three descriptors of the shared CPU lowering. Features are explicit: code is
// never generated for the name of a CPU, so it needs nothing but what its
// descriptor says.
//
//===----------------------------------------------------------------------===//
#include "targets/x86/X86.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/x86/Emulation.h"

extern "C" {
void LLVMInitializeX86TargetInfo();
void LLVMInitializeX86Target();
void LLVMInitializeX86TargetMC();
void LLVMInitializeX86AsmPrinter();
}

namespace attn {

static void initialize() {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
}

/// `later`: what came after the baseline, fused multiply-adds and conversions
/// of f16.
static CpuDescriptor level(const char *name, int preference, unsigned lanes,
                           unsigned registers, bool later, const char *features,
                           const char *llvmFeatures,
                           const Emulation &emulation) {
  CpuDescriptor d;
  d.info.name = name;
  d.info.features = features;
  d.info.preference = preference;
  d.info.lanes = lanes;
  d.info.registers = registers;
  d.info.fusedMultiplyAdd = later;
  d.info.convertsF16 = later;
  d.info.l1Bytes = 32 << 10;
  d.info.l2Bytes = 512 << 10;
  d.triple = "x86_64-unknown-linux-gnu";
  d.cpu = "x86-64";
  d.llvmFeatures = llvmFeatures;
  d.initialize = initialize;
  d.emulation = emulation;
  return d;
}

void addX86Targets(std::vector<const Target *> &list) {
  static const CpuTarget sse2(level("x86-64", 0, 4, 16, /*later=*/false, "sse2",
                                    "+sse2", x86Emulation("qemu64")));
  static const CpuTarget avx2(level("x86-avx2", 100, 8, 16, /*later=*/true,
                                    "avx2,fma,f16c", "+avx2,+fma,+f16c",
                                    x86Emulation("Haswell")));
  static const CpuTarget avx512(
      level("x86-avx512", 200, 16, 32, /*later=*/true,
            "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c",
            "+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx2,+fma,+f16c,"
            "-prefer-256-bit",
            avx512Emulation()));
  list.insert(list.end(), {&sse2, &avx2, &avx512});
}

} // namespace attn

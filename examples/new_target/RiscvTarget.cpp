//===- examples/new_target/RiscvTarget.cpp - RISC-V with V ----------------===//
//
// Part of attnc. Apache-2.0.
//
// Two targets, for vector registers of 128 and of 256 bits: the length is fixed
// when a kernel is compiled, and longer registers run it as well. Descriptors
// of the lowering that all CPUs share; README.md goes through them.
//
//===----------------------------------------------------------------------===//
#include "compiler/Target.h"
#include "targets/cpu/CpuTarget.h"

extern "C" {
void LLVMInitializeRISCVTargetInfo();
void LLVMInitializeRISCVTarget();
void LLVMInitializeRISCVTargetMC();
void LLVMInitializeRISCVAsmPrinter();
}

namespace {

void initialize() {
  LLVMInitializeRISCVTargetInfo();
  LLVMInitializeRISCVTarget();
  LLVMInitializeRISCVTargetMC();
  LLVMInitializeRISCVAsmPrinter();
}

attn::CpuDescriptor rvv(unsigned bits) {
  const std::string length = std::to_string(bits);
  attn::CpuDescriptor d;
  d.info.name = "riscv-rvv" + length;
  d.info.features = "rv64gc,v,zvl" + length + "b";
  d.info.preference = static_cast<int>(bits);
  d.info.lanes = bits / 32;
  d.info.registers = 32;
  d.info.fusedMultiplyAdd = true;
  d.info.l1Bytes = 32 << 10;
  d.info.l2Bytes = 256 << 10;
  d.triple = "riscv64-unknown-linux-gnu";
  d.cpu = "generic-rv64";
  d.llvmFeatures = "+m,+a,+f,+d,+c,+v,+zvl" + length + "b";
  d.initialize = initialize;
  d.emulation.program = "qemu-riscv64";
  d.emulation.options = {"-cpu", "rv64,v=true,vlen=" + length +
                                     ",elen=64,vext_spec=v1.0"};
  d.emulation.package = "qemu-user";
  d.emulation.triple = "riscv64-linux-gnu";
  d.emulation.linkPackages = "gcc-riscv64-linux-gnu, libc6-dev-riscv64-cross";
  return d;
}

void addTargets(std::vector<const attn::Target *> &list) {
  static const attn::CpuTarget shorter(rvv(128)), longer(rvv(256));
  list.insert(list.end(), {&shorter, &longer});
}

} // namespace

ATTN_TARGET_LIBRARY(addTargets)

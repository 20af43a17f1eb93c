//===- targets/cpu/CpuTarget.cpp - The lowering all CPUs share ------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "targets/cpu/CpuTarget.h"
#include "compiler/AttnDialect.h"
#include "runtime/attn_abi.h"
#include "targets/common/Limits.h"
#include "targets/common/Loops.h"
#include "targets/cpu/TileLowering.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"

using namespace mlir;

namespace attn {

std::string CpuTarget::missingHere() const {
  std::string missing;
  llvm::StringRef rest = d.info.features;
  while (!rest.empty()) {
    auto [feature, tail] = rest.split(',');
    rest = tail;
    if (!attn_machine_has(feature.data(), feature.size()))
      missing += (missing.empty() ? "" : ",") + feature.str();
  }
  return missing;
}

const Emulation *CpuTarget::emulation() const {
  const Emulation &e = d.emulation;
  return e.program.empty() && e.variable.empty() ? nullptr : &e;
}

void CpuTarget::registerDialects(DialectRegistry &registry) const {
  registerLoopDialects(registry);
}

LogicalResult CpuTarget::check(AttentionOp op) const {
  return checkTensors(op, d.info.name, kMaxWidth);
}

LogicalResult CpuTarget::lowerTiles(ModuleOp module) const {
  return lowerTilesToLoops(module, d.info);
}

LogicalResult CpuTarget::lowerToLLVM(ModuleOp module) const {
  return lowerLoopsToLLVM(module);
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
CpuTarget::createTargetMachine() const {
  d.initialize();
  llvm::Triple triple(d.triple);
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return llvm::createStringError(llvm::inconvertibleErrorCode(), error);
  llvm::TargetOptions options;
  // Fuses llvm.fmuladd, never a separate multiply and add.
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, d.cpu, d.llvmFeatures, options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

} // namespace attn

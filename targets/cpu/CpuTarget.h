//===- targets/cpu/CpuTarget.h - The lowering all CPUs share --------------===//
//
// Part of attnc. Apache-2.0.
//
// A CPU is a descriptor: vector width, registers, features. Everything else is
// shared: the tile program becomes loops over scratch memory and vectors.
// Installed, for targets from outside (compiler/Target.h).
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_CPU_CPUTARGET_H
#define ATTNC_TARGETS_CPU_CPUTARGET_H

#include "compiler/Target.h"

namespace attn {

struct CpuDescriptor {
  TargetInfo info;
  std::string triple;
  std::string cpu;                ///< LLVM's baseline CPU of the architecture
  std::string llvmFeatures;       ///< "+a,+b": all that may be used beyond it
  void (*initialize)() = nullptr; ///< registers LLVM's code generator
  Emulation emulation;            ///< without a program or variable: none
};

/// Thread-safe. Lowers f32 of widths up to `kMaxWidth`.
class ATTN_PUBLIC CpuTarget final : public Target {
public:
  explicit CpuTarget(CpuDescriptor descriptor) : d(std::move(descriptor)) {}

  const TargetInfo &info() const override { return d.info; }
  bool runsHere() const override { return missingHere().empty(); }
  std::string missingHere() const override;
  const Emulation *emulation() const override;
  void registerDialects(mlir::DialectRegistry &registry) const override;
  llvm::LogicalResult check(AttentionOp op) const override;
  llvm::LogicalResult lowerTiles(mlir::ModuleOp module) const override;
  llvm::LogicalResult lowerToLLVM(mlir::ModuleOp module) const override;
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
  createTargetMachine() const override;

private:
  CpuDescriptor d;
};

} // namespace attn

#endif

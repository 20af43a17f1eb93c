//===- compiler/tools/attnc-opt.cpp - Passes on any stage's MLIR ----------===//
//
// Part of attnc. Apache-2.0.
//
// mlir-opt with the attn dialect: reads the text of any MLIR stage of
// `attnc compile --emit`, verifies it and takes it on through the stages.
//
//===----------------------------------------------------------------------===//
#include "compiler/Passes.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  attn::registerAllDialects(registry);
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  attn::registerStages();
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, argv, "attention variants through their stages\n", registry));
}

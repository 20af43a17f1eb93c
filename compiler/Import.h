//===- compiler/Import.h - From a Spec to attn.attention ------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_IMPORT_H
#define ATTNC_COMPILER_IMPORT_H

#include "compiler/AttnDialect.h"
#include "dsl/Spec.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace attn {

/// Builds a module with one `attn.attention`. What the compiler does not carry
/// yet is reported, each at its place, and gives a null module.
mlir::OwningOpRef<mlir::ModuleOp>
importSpec(mlir::MLIRContext &context, const Spec &spec,
           std::vector<Diagnostic> &diagnostics);

/// A location that carries a place of the text, and back.
mlir::Location toLocation(mlir::MLIRContext &context, SourceRange where);
SourceRange toSourceRange(mlir::Location loc);

} // namespace attn

#endif

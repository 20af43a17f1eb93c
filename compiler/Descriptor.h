//===- compiler/Descriptor.h - attn_abi.h's structs as IR -----------------===//
//
// Part of attnc. Apache-2.0.
//
// Internal to the compiler.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_DESCRIPTOR_H
#define ATTNC_COMPILER_DESCRIPTOR_H

#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/Module.h"
#include <string>
#include <vector>

namespace attn {

/// `attn_kernel` and `attn_bundle_table`, one element a field, in order.
llvm::StructType *kernelStructType(llvm::LLVMContext &context);
llvm::StructType *bundleTableStructType(llvm::LLVMContext &context);

/// Adds an `attn_bundle_table` named `table` to `module`, which names the
/// kernels `symbols`.
void addBundleTable(llvm::Module &module, const std::string &table,
                    const std::vector<std::string> &symbols);

} // namespace attn

#endif

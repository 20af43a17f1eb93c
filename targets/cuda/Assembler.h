//===- targets/cuda/Assembler.h - From PTX to the code of a GPU -----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_CUDA_ASSEMBLER_H
#define ATTNC_TARGETS_CUDA_ASSEMBLER_H

#include "llvm/Support/Error.h"
#include <string>

namespace attn {

/// The cubin that NVIDIA's `ptxas` makes of PTX for an architecture such as
/// "sm_80". It is the program that ATTN_PTXAS names, and else looked for in
/// PATH, below CUDA_HOME and in /usr/local/cuda; an error where it is not
/// there, and what it says where it objects.
llvm::Expected<std::string> assemblePtx(const std::string &ptx,
                                        const std::string &architecture);

} // namespace attn

#endif

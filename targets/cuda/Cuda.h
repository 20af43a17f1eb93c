//===- targets/cuda/Cuda.h - NVIDIA GPUs ----------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_CUDA_CUDA_H
#define ATTNC_TARGETS_CUDA_CUDA_H

#include "compiler/Target.h"
#include <vector>

namespace attn {

/// Adds the targets of this folder; they live as long as the process.
void addCudaTargets(std::vector<const Target *> &list);

} // namespace attn

#endif

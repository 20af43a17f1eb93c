//===- tests/ptx/FlashKernel.h - An attention kernel in PTX ---------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PTX_FLASHKERNEL_H
#define ATTNC_TESTS_PTX_FLASHKERNEL_H

#include "Interpreter.h"

namespace attn::ptx {

struct FlashOptions {
  unsigned head = 64; ///< a multiple of 64, up to 128
  bool bf16 = false;  ///< else f16
  bool causal = true;
  bool swizzle = true; ///< without it, ldmatrix meets bank conflicts
};

/// The text of a kernel `flash` that computes attention in tiles of 64 queries
/// and 64 keys: K and V pass through shared memory in two stages. Parameters:
/// the addresses of Q, K, V (f16 or bf16) and O (f32), each [blocks in y]
/// [length] [head], and the length, a multiple of 64, as .u32.
std::string flashKernel(const FlashOptions &options);

/// Runs the kernel, on inputs from a seed, for `heads` heads.
struct FlashRun {
  Counts counts;
  double error = 0; ///< the greatest one, against double precision
  std::vector<float> output;
  double seconds = 0; ///< of CPU time, for run() alone
};
FlashRun runFlash(const Module &module, const FlashOptions &options,
                  unsigned length, unsigned heads, bool checks = true,
                  Order order = Order::Forward);

} // namespace attn::ptx

#endif

//===- tests/cuda/CudaKernel.h - Kernels as PTX, and launches of them -----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_CUDA_CUDAKERNEL_H
#define ATTNC_TESTS_CUDA_CUDAKERNEL_H

#include "tests/kernels/KernelTest.h"
#include "tests/support/PtxLaunch.h"

namespace attn::test {

inline const std::vector<std::string> &cudaTargets() {
  static const std::vector<std::string> names = {"cuda-sm80", "cuda-sm90"};
  return names;
}

inline ptx::Module moduleOf(const Code &code) {
  const attn_device_code &device = *code.descriptor()->device;
  return ptx::Module::parse(device.text, device.entry);
}

/// What a call's launches do, each with all of its work. A fault fails the
/// test, and so does a wrong result.
inline std::vector<ptx::Counts> launchesOf(const Case &c, const Code &code) {
  Trial trial(c, code, Order::AllAtOnce);
  try {
    std::vector<ptx::Counts> counts = launchPtx(moduleOf(code), trial.job);
    EXPECT_EQ(trial.judge(""), "") << describe(c);
    return counts;
  } catch (const ptx::Error &error) {
    ADD_FAILURE() << error.what() << "\n" << describe(c);
    return {};
  }
}

/// The same of a call that takes one launch.
inline ptx::Counts countsOf(const Case &c, const Code &code) {
  const std::vector<ptx::Counts> counts = launchesOf(c, code);
  EXPECT_EQ(counts.size(), 1);
  return counts.empty() ? ptx::Counts() : counts.front();
}

/// A variant with tensors of one type.
inline Spec typed(const std::string &type, int64_t heads, int64_t kvHeads,
                  int64_t dim, const std::string &rest = "") {
  return variant(heads, kvHeads, dim, "type = " + type + " " + rest);
}

} // namespace attn::test

#endif

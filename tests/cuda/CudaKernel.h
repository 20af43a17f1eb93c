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

/// What one launch with all items of a call does; traffic with global memory
/// with that of merging splits, if there are any. A fault fails the test, and
/// so does a wrong result.
inline ptx::Counts countsOf(const Case &c, const Code &code) {
  Trial trial(c, code, Order::AllAtOnce);
  try {
    const std::vector<ptx::Counts> counts =
        launchPtx(moduleOf(code), trial.job);
    EXPECT_EQ(trial.judge(""), "") << describe(c);
    const bool merges = splits(*code.descriptor(), trial.job.call) > 0;
    EXPECT_EQ(counts.size(), merges ? 2 : 1);
    ptx::Counts all = counts.at(0);
    if (merges) {
      all.globalReadSectors += counts.at(1).globalReadSectors;
      all.globalWrittenSectors += counts.at(1).globalWrittenSectors;
    }
    return all;
  } catch (const ptx::Error &error) {
    ADD_FAILURE() << error.what() << "\n" << describe(c);
    return {};
  }
}

/// A variant with tensors of one type.
inline Spec typed(const std::string &type, int64_t heads, int64_t kvHeads,
                  int64_t dim, const std::string &rest = "") {
  return variant(heads, kvHeads, dim, "type = " + type + " " + rest);
}

} // namespace attn::test

#endif

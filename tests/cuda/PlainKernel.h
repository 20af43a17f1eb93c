//===- tests/cuda/PlainKernel.h - The kernel of plain.ptx -----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_CUDA_PLAINKERNEL_H
#define ATTNC_TESTS_CUDA_PLAINKERNEL_H

#include "runtime/attn_abi.h"
#include "tests/support/Case.h"
#include <string>

namespace attn::test {

/// Descriptors of plain.ptx, without parameters or with two. The device code is
/// the owner's to change; not copyable, since the kernel points into this.
class PlainKernel {
public:
  /// `target` is that of the descriptor and its feature word; the code is for
  /// "cuda-sm80".
  explicit PlainKernel(const std::string &target = "cuda-sm80",
                       bool withParameters = false);
  /// As a bundle that is closed.
  ~PlainKernel();
  PlainKernel(const PlainKernel &) = delete;
  PlainKernel &operator=(const PlainKernel &) = delete;

  /// A call of the variant; the parameters are set.
  Case someCase(int64_t batch, int64_t qLen, int64_t kvLen) const;
  operator const attn_kernel *() const { return &kernel; }

  attn_kernel kernel = {};
  attn_device_code code = {};
  attn_param_info params[2] = {};

private:
  std::string target, text;
};

} // namespace attn::test

#endif

//===- tools/attnc/DeviceRun.h - Kernels of devices -----------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TOOLS_ATTNC_DEVICERUN_H
#define ATTNC_COMPILER_TOOLS_ATTNC_DEVICERUN_H

#include "runtime/attn.h"
#include <string>

namespace attn {

/// How a call was run, in words, and how long it took.
struct Done {
  std::string through;
  double milliseconds = 0;
};

/// Throws Failure with the runtime's error.
void require(int status, const attn_error &error);

/// Runs a kernel of a device on tensors in this process's memory: on the first
/// device that can run it, to which they are copied and back, else through the
/// interpreter. The time is that of the call alone. Throws Failure.
Done runOnDevice(const attn_kernel &kernel, const attn_tensors &tensors,
                 int layout);

} // namespace attn

#endif

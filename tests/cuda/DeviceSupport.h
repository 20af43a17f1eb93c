//===- tests/cuda/DeviceSupport.h - Calls on the fake driver's devices ----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_CUDA_DEVICESUPPORT_H
#define ATTNC_TESTS_CUDA_DEVICESUPPORT_H

#include "runtime/attn.h"
#include "tests/cuda/FakeDriver.h"
#include "tests/support/Case.h"
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace attn::test {

/// The fake driver, which is the one that the runtime finds.
FakeDriver &fakeDriver();

/// What a function says in a process of its own, in which no driver has been
/// asked for yet. `driver` is what ATTN_CUDA_DRIVER names there.
std::string inChild(const std::string &driver,
                    const std::function<std::string()> &body);

inline DLDevice deviceAt(int index) { return {kDLCUDA, index}; }
inline constexpr DLDevice kHost = {kDLCPU, 0};

/// Memory of a device, with what a buffer of the host holds.
class DeviceMemory {
public:
  DeviceMemory(DLDevice place, const GuardedBuffer &host);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;
  /// Where an address within the buffer is on the device.
  void *at(const void *address) const;
  std::vector<std::byte> contents() const;

private:
  DLDevice place;
  const GuardedBuffer &host;
  void *memory = nullptr;
};

/// A case whose Q, K, V, O and LSE are on a device; change `tensors`, the views
/// and `options` to taste before it runs.
class DeviceCall {
public:
  DeviceCall(const Case &c, const attn_kernel *kernel, int device = 0);
  DeviceCall(const DeviceCall &) = delete;
  DeviceCall &operator=(const DeviceCall &) = delete;

  int run() { return attn_run(kernel, &tensors, &options, &error); }
  /// Fetches the outputs: empty, or a byte changed that must not be, or a
  /// difference from the double-precision evaluation.
  std::string judge();
  /// The bytes of O on the device.
  std::vector<std::byte> outputBytes() const { return memory[3]->contents(); }

  Case c;
  CallBuffers buffers;
  DLTensor q, k, v, o, lse, qLens, kvLens;
  attn_tensors tensors = {};
  attn_run_options options = {};
  attn_error error = {};

private:
  DLTensor viewOf(const Tensor &tensor, int rank);
  DLTensor lengthsOf(const int64_t *lengths);

  const attn_kernel *kernel;
  DLDevice place;
  std::vector<attn_argument> arguments;
  std::vector<std::unique_ptr<DeviceMemory>> memory;
};

} // namespace attn::test

#endif

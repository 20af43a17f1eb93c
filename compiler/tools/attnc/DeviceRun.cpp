//===- tools/attnc/DeviceRun.cpp - Kernels of devices ---------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/tools/attnc/DeviceRun.h"
#include "compiler/tools/Files.h"
#include "tests/support/Interpreted.h"
#include <chrono>
#include <fmt/format.h>

namespace attn {

void require(int status, const attn_error &error) {
  if (status != ATTN_OK)
    throw Failure(error.text);
}

namespace {

/// A compact tensor of the host's, on a device.
class Copy {
public:
  Copy(DLDevice place, const DLTensor *tensor, bool isInput) : place(place) {
    if (!tensor)
      return;
    view = *tensor;
    view.device = place;
    host = view.data;
    bytes = view.dtype.bits / 8;
    for (int i = 0; i < view.ndim; ++i)
      bytes *= size_t(view.shape[i]);
    require(attn_device_alloc(place, bytes, &view.data, &error), error);
    if (isInput)
      require(attn_device_upload(place, view.data, host, bytes, &error), error);
  }
  ~Copy() { attn_device_free(place, view.data, nullptr); }
  Copy(const Copy &) = delete;
  Copy &operator=(const Copy &) = delete;

  const DLTensor *get() const { return host ? &view : nullptr; }
  void back() {
    if (host)
      require(attn_device_download(place, host, view.data, bytes, &error),
              error);
  }

private:
  DLDevice place;
  DLTensor view = {};
  void *host = nullptr;
  size_t bytes = 0;
  attn_error error = {};
};

template <typename Call> double milliseconds(Call &&call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now() - start)
      .count();
}

Done runAt(DLDevice place, const attn_kernel &kernel,
           const attn_tensors &tensors, int layout) {
  attn_error error = {};
  Copy q(place, tensors.q, true), k(place, tensors.k, true),
      v(place, tensors.v, true), o(place, tensors.o, false),
      lse(place, tensors.lse, false);
  attn_tensors there = tensors;
  there.q = q.get();
  there.k = k.get();
  there.v = v.get();
  there.o = o.get();
  there.lse = lse.get();
  attn_run_options options = {};
  options.struct_size = sizeof options;
  options.layout = layout;
  const auto run = [&] {
    require(attn_run(&kernel, &there, &options, &error), error);
  };
  Done done;
  run(); // the driver loads the code
  done.milliseconds = milliseconds(run);
  o.back();
  lse.back();
  char name[256];
  require(attn_device_describe(place, name, sizeof name, &error), error);
  done.through = name;
  return done;
}

} // namespace

Done runOnDevice(const attn_kernel &kernel, const attn_tensors &tensors,
                 int layout) {
  attn_error error = {};
  DLDevice place = {};
  const int status = attn_device_find(&kernel, &place, &error);
  if (status == ATTN_OK)
    return runAt(place, kernel, tensors, layout);
  if (status != ATTN_NO_DEVICE)
    throw Failure(error.text);
  Done done;
  std::string wrong;
  done.milliseconds =
      milliseconds([&] { wrong = runInterpreted(kernel, tensors, layout); });
  if (!wrong.empty())
    throw Failure(wrong);
  done.through = fmt::format("{} ({})", interpreterName(), error.text);
  return done;
}

} // namespace attn

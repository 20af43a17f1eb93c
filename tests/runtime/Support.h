//===- tests/runtime/Support.h - Tensors, directories, processes ----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_RUNTIME_SUPPORT_H
#define ATTNC_TESTS_RUNTIME_SUPPORT_H

#include "runtime/attn.h"
#include <cstring>
#include <functional>
#include <string>
#include <vector>

/// A DLTensor with its own memory, shape and strides.
template <typename T> struct Tensor {
  std::vector<T> data;
  std::vector<int64_t> shape, strides;
  DLTensor dl;

  static DLDataType type() {
    if constexpr (std::is_floating_point_v<T>)
      return {kDLFloat, 8 * sizeof(T), 1};
    else
      return {kDLInt, 8 * sizeof(T), 1};
  }
  /// Compact; `strides` stays empty and is passed as NULL.
  explicit Tensor(std::vector<int64_t> extents) : shape(std::move(extents)) {
    int64_t n = 1;
    for (int64_t extent : shape)
      n *= extent;
    data.resize(size_t(n));
    dl = {data.data(),
          {kDLCPU, 0},
          int(shape.size()),
          type(),
          shape.data(),
          nullptr,
          0};
  }
  Tensor(std::vector<int64_t> extents, std::vector<T> values)
      : Tensor(std::move(extents)) {
    data = std::move(values);
    dl.data = data.data();
  }
  Tensor(const Tensor &) = delete;
  Tensor &operator=(const Tensor &) = delete;

  void fill(uint32_t seed) {
    for (size_t i = 0; i < data.size(); ++i) {
      uint32_t u = uint32_t(i) * 2654435761u + seed * 40503u + 1;
      u = (u ^ u >> 16) * 2246822519u;
      u = (u ^ u >> 13) * 3266489917u;
      u ^= u >> 16;
      data[i] = T(double(u >> 8) / 8388608 - 1);
    }
  }
  /// Every bit set: a NaN in floats.
  void poison() {
    if (!data.empty())
      memset(data.data(), 0xff, data.size() * sizeof(T));
  }
  DLTensor *operator&() { return &dl; }
};

/// Sizes of the test bundle's kernels.
constexpr int64_t kHeads = 4, kKvHeads = 2, kQkDim = 5, kValueDim = 3;

/// The tensors of one valid call, filled; change them to taste.
struct Call {
  Tensor<float> q, k, v, o, lse;
  attn_tensors tensors = {};
  attn_run_options options = {};
  attn_error error = {};

  Call(int64_t batch, int64_t qLen, int64_t kvLen);
  int run(const attn_kernel *kernel) {
    return attn_run(kernel, &tensors, &options, &error);
  }
};

/// The element-wise exact attention in double precision, [b, h, q, c].
std::vector<double> reference(const Call &call, int64_t batch, int64_t qLen,
                              int64_t kvLen);

/// A bundle file that the build made, by its CMake target's name.
std::string bundlePath(const std::string &name);
/// Opens it, which has to work.
attn_bundle *openBundle(const std::string &name);
/// The kernel "plain" of the bundle "good", open for the process's life.
const attn_kernel *plainKernel();

std::string readFile(const std::string &path);
void writeFile(const std::string &path, const std::string &bytes);

/// A directory that is removed at the end.
class TempDir {
public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir &) = delete;
  TempDir &operator=(const TempDir &) = delete;
  std::string operator/(const std::string &name) const {
    return path + "/" + name;
  }
  std::string path;
};

/// The names in a directory, sorted.
std::vector<std::string> listDir(const std::string &path);

/// Sets an environment variable for a scope.
class ScopedEnv {
public:
  ScopedEnv(const char *name, const std::string &value);
  ScopedEnv(const char *name, std::nullptr_t);
  ~ScopedEnv();
  ScopedEnv(const ScopedEnv &) = delete;
  ScopedEnv &operator=(const ScopedEnv &) = delete;

private:
  std::string name, old;
  bool had;
};

/// A compiler library and a log of its work, in a directory of their own, so
/// that each use is a library that this process has not yet loaded.
class FakeCompiler {
public:
  FakeCompiler();
  /// How often it has compiled so far, in all processes.
  size_t compilations() const;
  TempDir dir;
  std::string library;

private:
  ScopedEnv bundle, log;
};

/// One run of the program client.c.
class Client {
public:
  /// Starts it; it waits for `release`.
  explicit Client(const std::vector<std::string> &arguments);
  ~Client();
  Client(const Client &) = delete;
  Client &operator=(const Client &) = delete;
  void release();
  void kill();
  /// Waits for the end: the exit code, or 128 and the signal.
  int wait();
  /// What it printed, both streams; after `wait`.
  std::string output;

private:
  int pid = -1, input = -1, printed = -1;
};

#endif

//===- tests/cuda/FakeDriver.h - A driver without a device ----------------===//
//
// Part of attnc. Apache-2.0.
//
// A library that exports the functions of targets/cuda/Driver.h. Kernels run in
// the PTX interpreter. What is queued on a stream happens when somebody waits
// for it, and not before. Memory of devices is inaccessible to the host except
// while the driver itself works.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_CUDA_FAKEDRIVER_H
#define ATTNC_TESTS_CUDA_FAKEDRIVER_H

#include <cstddef>
#include <string>
#include <vector>

/// What tests see of the driver; all functions may be called from any thread.
class FakeDriver {
public:
  virtual ~FakeDriver() = default;
  /// The devices, by compute capability (10 x major + minor). At first there is
  /// one of 90. Those that programs have opened keep theirs.
  virtual void setDevices(std::vector<int> capabilities) = 0;
  /// The call of a function after `skip` others fails with this result.
  virtual void failAt(const std::string &function, int result, int skip) = 0;
  /// A stream of a device; `capturing` is what it says of itself.
  virtual void *makeStream(int device, bool capturing) = 0;
  /// Makes memory of the host known to the driver.
  virtual void registerHost(void *data, size_t bytes) = 0;

  /// How often a function was called.
  virtual int calls(const std::string &function) = 0;
  virtual size_t liveAllocations() = 0;
  virtual size_t loadedModules() = 0;
  /// Loaded since the start: from text, and from binaries.
  virtual int loadedTexts() = 0;
  virtual int loadedBinaries() = 0;
  /// How many contexts the calling thread has pushed and not popped.
  virtual size_t contextDepth() = 0;
  /// What the interpreter said of the last kernel that went wrong.
  virtual std::string kernelError() = 0;
};

/// The library's one symbol beside the driver's: `FakeDriver *fakeDriver()`.
inline constexpr const char *kFakeDriverSymbol = "fakeDriver";

/// A "binary" that it loads is this, and then PTX.
inline constexpr const char *kFakeBinary = "\177FAKE";

#endif

//===- tests/cuda/FakeDriver.cpp - A driver without a device --------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/cuda/FakeDriver.h"
#include "targets/cuda/Driver.h"
#include "tests/ptx/Interpreter.h"
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sys/mman.h>
#include <utility>

using namespace attn;

// Results that the runtime does not name.
enum {
  kInvalidContext = 201,
  kNoBinary = 209,
  kInvalidPtx = 218,
  kInvalidHandle = 400,
  kNotFound = 500,
  kIllegalAddress = 700,
};

struct CUctx_st {
  int device = 0;
};
struct CUmemPoolHandle_st {
  int device = 0;
};
struct CUfunc_st {
  CUmod_st *module;
  std::string name;
  size_t maxShared = 48 << 10;
};
struct CUmod_st {
  int device;
  ptx::Module ptx;
  std::map<std::string, CUfunc_st> functions;
};
struct CUstream_st {
  int device = 0;
  bool isCapturing = false;
  std::deque<std::function<CUresult()>> queue;
  CUresult failed = CUDA_SUCCESS;
};

namespace {

struct Allocation {
  size_t bytes, mapped;
  int device;
};

struct Failure {
  std::string function;
  CUresult result;
  int skip;
};

constexpr int kMaxDevices = 8;
constexpr uint64_t kInstructionLimit = 200'000'000;

class Driver final : public FakeDriver {
public:
  Driver() {
    for (int device = 0; device < kMaxDevices; ++device) {
      contexts[device].device = device;
      defaults[device].device = device;
    }
  }
  void setDevices(std::vector<int> list) override {
    std::lock_guard<std::recursive_mutex> hold(mutex);
    capabilities = std::move(list);
  }
  void failAt(const std::string &function, int result, int skip) override {
    std::lock_guard<std::recursive_mutex> hold(mutex);
    failure = Failure{function, result, skip};
  }
  void *makeStream(int device, bool capturing) override {
    std::lock_guard<std::recursive_mutex> hold(mutex);
    streams.push_back(std::make_unique<CUstream_st>());
    streams.back()->device = device;
    streams.back()->isCapturing = capturing;
    return streams.back().get();
  }
  void registerHost(void *data, size_t bytes) override {
    std::lock_guard<std::recursive_mutex> hold(mutex);
    hostMemory.emplace_back(reinterpret_cast<uintptr_t>(data), bytes);
  }
  int calls(const std::string &function) override {
    std::lock_guard<std::recursive_mutex> hold(mutex);
    return counts[function];
  }
  size_t liveAllocations() override {
    std::lock_guard<std::recursive_mutex> hold(mutex);
    return allocations.size();
  }
  size_t loadedModules() override {
    std::lock_guard<std::recursive_mutex> hold(mutex);
    return modules.size();
  }
  int loadedTexts() override { return texts; }
  int loadedBinaries() override { return binaries; }
  size_t contextDepth() override { return current.size(); }
  std::string kernelError() override {
    std::lock_guard<std::recursive_mutex> hold(mutex);
    return lastError;
  }

  /// Counts a call; the failure that a test asked for, if it is its turn.
  CUresult enter(const char *function) {
    ++counts[function];
    if (!failure || failure->function != function || failure->skip-- > 0)
      return CUDA_SUCCESS;
    CUresult result = failure->result;
    failure.reset();
    return result;
  }

  /// Null where the stream is not of the context.
  CUstream_st *streamOf(CUstream stream) {
    if (current.empty())
      return nullptr;
    int device = current.back()->device;
    // The two handles that stand for default streams.
    if (reinterpret_cast<uintptr_t>(stream) <= 2)
      return &defaults[device];
    return stream->device == device ? stream : nullptr;
  }

  CUresult queue(CUstream stream, std::function<CUresult()> work) {
    CUstream_st *own = streamOf(stream);
    if (!own)
      return current.empty() ? int(kInvalidContext) : int(kInvalidHandle);
    own->queue.push_back(std::move(work));
    return CUDA_SUCCESS;
  }

  CUresult finish(CUstream_st &stream) {
    while (!stream.queue.empty()) {
      std::function<CUresult()> work = std::move(stream.queue.front());
      stream.queue.pop_front();
      CUresult result = work();
      if (stream.failed == CUDA_SUCCESS)
        stream.failed = result;
    }
    return std::exchange(stream.failed, CUDA_SUCCESS);
  }

  void protect(bool open) {
    for (auto &[address, allocation] : allocations)
      mprotect(reinterpret_cast<void *>(address), allocation.mapped,
               open ? PROT_READ | PROT_WRITE : PROT_NONE);
  }

  /// The allocation that a range of bytes lies in.
  Allocation *find(CUdeviceptr at, size_t bytes) {
    auto next = allocations.upper_bound(at);
    if (next == allocations.begin())
      return nullptr;
    --next;
    bool inside = at - next->first < next->second.bytes + (bytes == 0) &&
                  bytes <= next->second.bytes - (at - next->first);
    return inside ? &next->second : nullptr;
  }

  CUresult run(const CUfunc_st &function, ptx::Launch launch) {
    for (auto &[address, allocation] : allocations)
      if (allocation.device == function.module->device)
        launch.memory.push_back({reinterpret_cast<void *>(address),
                                 allocation.bytes, true, "an allocation"});
    launch.instructionLimit = kInstructionLimit;
    protect(true);
    CUresult result = CUDA_SUCCESS;
    try {
      ptx::run(function.module->ptx, launch);
    } catch (const ptx::Error &error) {
      lastError = error.what();
      result = kIllegalAddress;
    }
    protect(false);
    return result;
  }

  std::recursive_mutex mutex;
  std::vector<int> capabilities{90};
  CUctx_st contexts[kMaxDevices];
  CUmemPoolHandle_st pools[kMaxDevices];
  CUstream_st defaults[kMaxDevices];
  std::vector<std::unique_ptr<CUstream_st>> streams;
  std::map<CUdeviceptr, Allocation> allocations;
  std::map<CUmodule, std::unique_ptr<CUmod_st>> modules;
  std::vector<std::pair<uintptr_t, size_t>> hostMemory;
  std::map<std::string, int> counts;
  std::optional<Failure> failure;
  std::string lastError;
  int texts = 0, binaries = 0;
  static thread_local std::vector<CUcontext> current;
};
thread_local std::vector<CUcontext> Driver::current;

Driver &driver() {
  static auto *the = new Driver;
  return *the;
}

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

/// The head of every function: one at a time, counted, and failing on demand.
#define ENTER(name)                                                            \
  Driver &d = driver();                                                        \
  std::lock_guard<std::recursive_mutex> hold(d.mutex);                         \
  if (CUresult injected = d.enter(#name))                                      \
  return injected

#define NEEDS_CONTEXT                                                          \
  if (d.current.empty())                                                       \
  return kInvalidContext

EXPORTED FakeDriver *fakeDriver() { return &driver(); }

EXPORTED CUresult cuInit(unsigned) {
  ENTER(cuInit);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuDriverGetVersion(int *version) {
  ENTER(cuDriverGetVersion);
  *version = 12040;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuGetErrorName(CUresult error, const char **text) {
  static const std::map<CUresult, const char *> names = {
      {1, "CUDA_ERROR_INVALID_VALUE"},
      {2, "CUDA_ERROR_OUT_OF_MEMORY"},
      {100, "CUDA_ERROR_NO_DEVICE"},
      {201, "CUDA_ERROR_INVALID_CONTEXT"},
      {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {218, "CUDA_ERROR_INVALID_PTX"},
      {400, "CUDA_ERROR_INVALID_HANDLE"},
      {500, "CUDA_ERROR_NOT_FOUND"},
      {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {719, "CUDA_ERROR_LAUNCH_FAILED"}};
  auto found = names.find(error);
  if (found == names.end())
    return CUDA_ERROR_INVALID_VALUE;
  *text = found->second;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuGetErrorString(CUresult error, const char **text) {
  const char *name;
  CUresult result = cuGetErrorName(error, &name);
  if (result == CUDA_SUCCESS)
    *text = "as the fake driver has it";
  return result;
}

EXPORTED CUresult cuDeviceGetCount(int *count) {
  ENTER(cuDeviceGetCount);
  *count = int(d.capabilities.size());
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER(cuDeviceGet);
  if (ordinal < 0 || size_t(ordinal) >= d.capabilities.size())
    return CUDA_ERROR_INVALID_VALUE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
  ENTER(cuDeviceGetName);
  snprintf(name, size_t(size), "Fake %d", device);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetAttribute(int *value, int attribute,
                                       CUdevice device) {
  ENTER(cuDeviceGetAttribute);
  int capability = d.capabilities[size_t(device)];
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    *value = capability / 10;
  else if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    *value = capability % 10;
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuDevicePrimaryCtxRetain(CUcontext *context,
                                           CUdevice device) {
  ENTER(cuDevicePrimaryCtxRetain);
  *context = &d.contexts[device];
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxPushCurrent_v2(CUcontext context) {
  ENTER(cuCtxPushCurrent);
  d.current.push_back(context);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  ENTER(cuCtxPopCurrent);
  NEEDS_CONTEXT;
  *context = d.current.back();
  d.current.pop_back();
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuModuleLoadDataEx(CUmodule *module, const void *image,
                                     unsigned n, int *options, void **values) {
  ENTER(cuModuleLoadDataEx);
  NEEDS_CONTEXT;
  const auto *text = static_cast<const char *>(image);
  int device = d.current.back()->device;
  int capability = d.capabilities[size_t(device)];
  bool isBinary = std::strncmp(text, kFakeBinary, strlen(kFakeBinary)) == 0;
  if (isBinary)
    text += strlen(kFakeBinary);
  else if (text[0] == '\177')
    return kNoBinary; // a real one
  std::string why;
  try {
    ptx::Module parsed = ptx::Module::parse(text);
    int needed = std::stoi(parsed.target().substr(3));
    if (isBinary ? needed / 10 != capability / 10 || needed > capability
                 : needed > capability)
      return kNoBinary;
    auto made = std::make_unique<CUmod_st>(CUmod_st{device, parsed, {}});
    *module = made.get();
    d.modules.emplace(*module, std::move(made));
    ++(isBinary ? d.binaries : d.texts);
    return CUDA_SUCCESS;
  } catch (const ptx::Error &error) {
    why = error.what();
  }
  char *log = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < n; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
      log = static_cast<char *>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      size = reinterpret_cast<uintptr_t>(values[i]);
  }
  if (log && size)
    snprintf(log, size, "%s", why.c_str());
  return kInvalidPtx;
}

EXPORTED CUresult cuModuleUnload(CUmodule module) {
  ENTER(cuModuleUnload);
  NEEDS_CONTEXT;
  return d.modules.erase(module) ? int(CUDA_SUCCESS) : int(kInvalidHandle);
}

EXPORTED CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                                      const char *name) {
  ENTER(cuModuleGetFunction);
  NEEDS_CONTEXT;
  for (const ptx::KernelInfo &kernel : module->ptx.kernels())
    if (kernel.name == name) {
      *function = &module->functions
                       .try_emplace(name, CUfunc_st{module, name, 48 << 10})
                       .first->second;
      return CUDA_SUCCESS;
    }
  return kNotFound;
}

EXPORTED CUresult cuFuncSetAttribute(CUfunction function, int attribute,
                                     int value) {
  ENTER(cuFuncSetAttribute);
  NEEDS_CONTEXT;
  int capability = d.capabilities[size_t(function->module->device)];
  int most = (capability >= 90 ? 227 : 163) << 10;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
      value < 0 || value > most)
    return CUDA_ERROR_INVALID_VALUE;
  function->maxShared = size_t(value);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuLaunchKernel(CUfunction function, unsigned gridX,
                                 unsigned gridY, unsigned gridZ,
                                 unsigned blockX, unsigned blockY,
                                 unsigned blockZ, unsigned sharedBytes,
                                 CUstream stream, void **params, void **) {
  ENTER(cuLaunchKernel);
  NEEDS_CONTEXT;
  if (function->module->device != d.current.back()->device)
    return kInvalidHandle;
  if (gridX == 0 || blockX == 0 || blockX > 1024 ||
      sharedBytes > function->maxShared)
    return CUDA_ERROR_INVALID_VALUE;
  ptx::Launch launch;
  launch.kernel = function->name;
  launch.grid = {gridX, gridY, gridZ};
  launch.block = {blockX, blockY, blockZ};
  launch.dynamicShared = sharedBytes;
  const ptx::KernelInfo &info = function->module->ptx.kernel(function->name);
  launch.params.resize(info.parameterBytes);
  for (size_t i = 0; i < info.parameters.size(); ++i)
    std::memcpy(launch.params.data() + info.parameters[i].offset, params[i],
                info.parameters[i].bytes);
  return d.queue(
      stream, [function, launch] { return driver().run(*function, launch); });
}

EXPORTED CUresult cuMemPoolCreate(CUmemoryPool *pool,
                                  const CUmemPoolProps *props) {
  ENTER(cuMemPoolCreate);
  if (props->allocation_type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      props->location_type != CU_MEM_LOCATION_TYPE_DEVICE ||
      props->location < 0 || size_t(props->location) >= d.capabilities.size())
    return CUDA_ERROR_INVALID_VALUE;
  *pool = &d.pools[props->location];
  (*pool)->device = props->location;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuMemPoolSetAttribute(CUmemoryPool, int attribute,
                                        void *value) {
  ENTER(cuMemPoolSetAttribute);
  return attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && value
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

EXPORTED CUresult cuMemAllocFromPoolAsync(CUdeviceptr *memory, size_t bytes,
                                          CUmemoryPool pool, CUstream stream) {
  ENTER(cuMemAllocFromPoolAsync);
  if (!d.streamOf(stream))
    return kInvalidHandle;
  // An inaccessible page behind it, so that no two are adjacent.
  size_t mapped = (bytes + 4095) / 4096 * 4096;
  void *mapping = mmap(nullptr, mapped + 4096, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED || bytes == 0)
    return bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
  *memory = reinterpret_cast<uintptr_t>(mapping);
  d.allocations[*memory] = {bytes, mapped, pool->device};
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream) {
  ENTER(cuMemFreeAsync);
  if (!d.allocations.count(memory))
    return CUDA_ERROR_INVALID_VALUE;
  return d.queue(stream, [memory] {
    auto found = driver().allocations.find(memory);
    if (found == driver().allocations.end())
      return CUDA_ERROR_INVALID_VALUE;
    munmap(reinterpret_cast<void *>(memory), found->second.mapped + 4096);
    driver().allocations.erase(found);
    return CUDA_SUCCESS;
  });
}

static CUresult copy(CUdeviceptr device, size_t bytes,
                     const std::function<void(void *)> &move) {
  Allocation *found = driver().find(device, bytes);
  if (!found)
    return CUDA_ERROR_INVALID_VALUE;
  driver().protect(true);
  move(reinterpret_cast<void *>(device));
  driver().protect(false);
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from,
                                       size_t bytes, CUstream stream) {
  ENTER(cuMemcpyHtoDAsync);
  // Staged at once, as the driver does with ordinary memory.
  const auto *first = static_cast<const char *>(from);
  std::vector<char> staged(first, first + bytes);
  return d.queue(stream, [to, staged] {
    return copy(to, staged.size(), [&](void *device) {
      std::memcpy(device, staged.data(), staged.size());
    });
  });
}

EXPORTED CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
                                       CUstream stream) {
  ENTER(cuMemcpyDtoHAsync);
  return d.queue(stream, [to, from, bytes] {
    return copy(from, bytes,
                [&](void *device) { std::memcpy(to, device, bytes); });
  });
}

EXPORTED CUresult cuStreamSynchronize(CUstream stream) {
  ENTER(cuStreamSynchronize);
  CUstream_st *own = d.streamOf(stream);
  if (!own)
    return kInvalidHandle;
  // The default stream comes after all others of its device.
  if (own == &d.defaults[own->device])
    for (auto &other : d.streams)
      if (other->device == own->device)
        d.finish(*other);
  return d.finish(*own);
}

EXPORTED CUresult cuStreamIsCapturing(CUstream stream, int *status) {
  ENTER(cuStreamIsCapturing);
  CUstream_st *own = d.streamOf(stream);
  if (!own)
    return kInvalidHandle;
  *status = own->isCapturing ? 1 : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuPointerGetAttribute(void *value, int attribute,
                                        CUdeviceptr pointer) {
  ENTER(cuPointerGetAttribute);
  NEEDS_CONTEXT;
  int ordinal = 0;
  unsigned type = 2;
  if (Allocation *found = d.find(pointer, 0)) {
    ordinal = found->device;
  } else {
    bool isHost = std::any_of(d.hostMemory.begin(), d.hostMemory.end(),
                              [&](const auto &range) {
                                return pointer - range.first < range.second;
                              });
    if (!isHost)
      return CUDA_ERROR_INVALID_VALUE;
    type = CU_MEMORYTYPE_HOST;
  }
  if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
    std::memcpy(value, &type, sizeof type);
  else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
    std::memcpy(value, &ordinal, sizeof ordinal);
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

/*===- targets/cuda/Device.c - Kernels on NVIDIA GPUs ---------------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * By the driver API, whose library is loaded when the first device is asked
 * for: "libcuda.so.1", or what the environment's ATTN_CUDA_DRIVER names. Work
 * is done in each device's primary context, which is the one that libraries
 * made with CUDA's runtime use.
 *
 *===----------------------------------------------------------------------===*/
#include "targets/cuda/Device.h"
#include "targets/cuda/Driver.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEVICES 64
#define KIND_NAME "CUDA"
#define FEATURE "cuda-sm"
/* Bytes that stay with a device's pool when nothing uses them. Without any, the
 * memory of each call would come from the system. */
#define KEPT_BYTES ((uint64_t)32 << 20)

struct cuda_device {
  attn_device base;
  int capability; /* 10 x major + minor */
  CUcontext context;
  CUmemoryPool pool;
};

/* Loaded code of a kernel. */
struct code {
  CUmodule module;
  struct function {
    CUfunction handle;
    unsigned threads, shared_bytes;
  } functions[2]; /* by attn_device_entry */
};

/*--- The driver ------------------------------------------------------------*/

/* Set as a whole, with the lock held, and never changed again. */
static struct {
#define DECLARE(name, symbol, arguments) CUresult(*name) arguments;
  ATTN_CUDA_FUNCTIONS(DECLARE)
#undef DECLARE
} cuda;
static bool is_loaded;
static struct cuda_device *devices[MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Reports what a function of the driver returned; `where` may be NULL. */
static int fail(const struct cuda_device *where, const char *function,
                CUresult result, attn_error *error) {
  const char *name = NULL, *text = NULL;
  cuda.cuGetErrorName(result, &name);
  cuda.cuGetErrorString(result, &text);
  char place[160] = "";
  if (where)
    snprintf(place, sizeof place, " on " KIND_NAME " device %d, %s",
             where->base.index, where->base.name);
  return attn_fail(error,
                   result == CUDA_ERROR_OUT_OF_MEMORY ? ATTN_OUT_OF_MEMORY
                                                      : ATTN_DEVICE_FAILED,
                   "%s fails%s: %s (%d), %s", function, place,
                   name ? name : "an unknown error", result,
                   text ? text : "without a description");
}

/* Calls a function of the driver; an attn_status. */
#define CALL(where, error, name, ...)                                          \
  check(where, #name, cuda.name(__VA_ARGS__), error)
static int check(const struct cuda_device *where, const char *function,
                 CUresult result, attn_error *error) {
  return result == CUDA_SUCCESS ? ATTN_OK
                                : fail(where, function, result, error);
}

static int fail_to_start(const char *path, CUresult result, attn_error *error) {
  attn_error why;
  fail(NULL, "cuInit", result, &why);
  return attn_fail(error, ATTN_NO_DEVICE,
                   "there is a CUDA driver, '%s', but it does not start: %s",
                   path, why.text);
}

/* With the lock held. */
static int load_driver(attn_error *error) {
  if (is_loaded)
    return ATTN_OK;
  const char *path = getenv("ATTN_CUDA_DRIVER");
  bool named = path && *path;
  if (!named)
    path = "libcuda.so.1";
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    return attn_fail(
        error, ATTN_NO_DEVICE, "there is no CUDA driver here%s: %s",
        named ? " (ATTN_CUDA_DRIVER names it)" : "", reason ? reason : path);
  }
  const char *missing = NULL;
#define LOOK_UP(name, symbol, arguments)                                       \
  *(void **)&cuda.name = dlsym(library, #symbol);                              \
  if (!cuda.name && !missing)                                                  \
    missing = #symbol;
  ATTN_CUDA_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
  int status = ATTN_OK;
  if (missing) {
    status = attn_fail(error, ATTN_NO_DEVICE,
                       "the CUDA driver '%s' is too old: it has no %s; those "
                       "of CUDA 11.2 and later have it",
                       path, missing);
  } else {
    CUresult result = cuda.cuInit(0);
    if (result == CUDA_ERROR_NO_DEVICE)
      status =
          attn_fail(error, ATTN_NO_DEVICE,
                    "there is a CUDA driver, '%s', but no CUDA device", path);
    else if (result != CUDA_SUCCESS)
      status = fail_to_start(path, result, error);
  }
  if (status)
    dlclose(library);
  is_loaded = !status;
  return status;
}

static int count_devices(int *n, attn_error *error) {
  *n = 0;
  pthread_mutex_lock(&lock);
  int status = load_driver(error);
  pthread_mutex_unlock(&lock);
  if (!status)
    status = CALL(NULL, error, cuDeviceGetCount, n);
  if (!status && *n < 1) {
    int version = 0;
    status = CALL(NULL, error, cuDriverGetVersion, &version);
    if (!status)
      status = attn_fail(error, ATTN_NO_DEVICE,
                         "there is a CUDA driver, for CUDA %d.%d, but no CUDA "
                         "device",
                         version / 1000, version % 1000 / 10);
  }
  if (*n > MAX_DEVICES)
    *n = MAX_DEVICES;
  return status;
}

/* Calls have a pool of their own, so that what other libraries ask of the
 * device's is left as it is. */
static int make_pool(struct cuda_device *d, attn_error *error) {
  const CUmemPoolProps props = {.allocation_type =
                                    CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location_type = CU_MEM_LOCATION_TYPE_DEVICE,
                                .location = d->base.index};
  uint64_t kept = KEPT_BYTES;
  int status = CALL(d, error, cuMemPoolCreate, &d->pool, &props);
  if (!status)
    status = CALL(d, error, cuMemPoolSetAttribute, d->pool,
                  CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept);
  return status;
}

/* With the lock held. */
static int open_locked(struct cuda_device *d, attn_error *error) {
  CUdevice device;
  int major, minor;
  int status = CALL(NULL, error, cuDeviceGet, &device, d->base.index);
  if (!status)
    status = CALL(NULL, error, cuDeviceGetName, d->base.name,
                  (int)sizeof d->base.name, device);
  if (!status)
    status = CALL(d, error, cuDeviceGetAttribute, &major,
                  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  if (!status)
    status = CALL(d, error, cuDeviceGetAttribute, &minor,
                  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  if (!status)
    status = CALL(d, error, cuDevicePrimaryCtxRetain, &d->context, device);
  if (!status)
    status = make_pool(d, error);
  if (status)
    return status;
  d->capability = 10 * major + minor;
  snprintf(d->base.feature, sizeof d->base.feature, FEATURE "%d",
           d->capability);
  return ATTN_OK;
}

static int open_device(int index, attn_device **device, attn_error *error) {
  pthread_mutex_lock(&lock);
  struct cuda_device *d = devices[index];
  int status = ATTN_OK;
  if (!d) {
    d = calloc(1, sizeof *d);
    if (!d) {
      status = attn_fail(error, ATTN_OUT_OF_MEMORY, "out of memory");
    } else {
      d->base.kind = &attn_cuda_devices;
      d->base.index = index;
      status = open_locked(d, error);
      if (status)
        free(d);
      else
        devices[index] = d;
    }
  }
  pthread_mutex_unlock(&lock);
  *device = status ? NULL : &d->base;
  return status;
}

/*--- Features --------------------------------------------------------------*/

/* The compute capability that a feature word names, or 0. */
static int parse_feature(const char *feature, size_t length) {
  size_t start = sizeof FEATURE - 1;
  if (length <= start || length > start + 4 ||
      memcmp(feature, FEATURE, start) != 0)
    return 0;
  int capability = 0;
  for (size_t i = start; i < length; ++i) {
    if (feature[i] < '0' || feature[i] > '9')
      return 0;
    capability = 10 * capability + (feature[i] - '0');
  }
  return capability;
}

static bool knows(const char *feature, size_t length) {
  return parse_feature(feature, length) != 0;
}

static bool runs(const attn_device *device, const char *feature,
                 size_t length) {
  const struct cuda_device *d = (const struct cuda_device *)device;
  int capability = parse_feature(feature, length);
  return capability && capability <= d->capability;
}

/*--- In the device's context -----------------------------------------------*/

static int enter(struct cuda_device *d, attn_error *error) {
  return CALL(d, error, cuCtxPushCurrent, d->context);
}

/* Keeps the first failure. */
static int leave(struct cuda_device *d, int status, attn_error *error) {
  CUcontext context;
  CUresult result = cuda.cuCtxPopCurrent(&context);
  return status ? status : check(d, "cuCtxPopCurrent", result, error);
}

/* Binaries run on devices of their own generation, from the named one on. */
static bool has_binary_for(const struct cuda_device *d,
                           const attn_kernel *kernel) {
  int capability = parse_feature(kernel->features, strlen(kernel->features));
  return kernel->device->binary && capability / 10 == d->capability / 10;
}

static int load_module(struct cuda_device *d, const attn_kernel *kernel,
                       CUmodule *module, attn_error *error) {
  const attn_device_code *device = kernel->device;
  /* A binary may be of a newer toolkit than the driver: the text is the same
   * code. */
  if (has_binary_for(d, kernel) &&
      cuda.cuModuleLoadDataEx(module, device->binary, 0, NULL, NULL) ==
          CUDA_SUCCESS)
    return ATTN_OK;
  char log[1024] = "";
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
  CUresult result =
      cuda.cuModuleLoadDataEx(module, device->text, 2, options, values);
  if (result == CUDA_SUCCESS)
    return ATTN_OK;
  attn_error why;
  int status = fail(d, "cuModuleLoadDataEx", result, &why);
  return attn_fail(error, status,
                   "the driver refuses the code of variant '%s' for target "
                   "'%s': %s%s%s",
                   kernel->variant, kernel->target, why.text,
                   log[0] ? ": " : "", log);
}

static int find_function(struct cuda_device *d, CUmodule module,
                         const char *entry, int32_t threads,
                         int32_t shared_bytes, struct function *function,
                         attn_error *error) {
  function->threads = (unsigned)threads;
  function->shared_bytes = (unsigned)shared_bytes;
  int status =
      CALL(d, error, cuModuleGetFunction, &function->handle, module, entry);
  if (!status)
    status =
        CALL(d, error, cuFuncSetAttribute, function->handle,
             CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes);
  return status;
}

static int load(attn_device *device, const attn_kernel *kernel, void **loaded,
                attn_error *error) {
  struct cuda_device *d = (struct cuda_device *)device;
  struct code *code = calloc(1, sizeof *code);
  if (!code)
    return attn_fail(error, ATTN_OUT_OF_MEMORY, "out of memory");
  const attn_device_code *text = kernel->device;
  int status = enter(d, error);
  if (!status) {
    status = load_module(d, kernel, &code->module, error);
    if (!status) {
      status = find_function(d, code->module, text->entry, text->threads,
                             text->shared_bytes,
                             &code->functions[ATTN_DEVICE_ITEMS], error);
      if (!status && text->merge_entry)
        status = find_function(d, code->module, text->merge_entry,
                               text->merge_threads, text->merge_shared_bytes,
                               &code->functions[ATTN_DEVICE_MERGE], error);
      if (status)
        cuda.cuModuleUnload(code->module);
    }
    int left = leave(d, status, error);
    if (left && !status)
      cuda.cuModuleUnload(code->module);
    status = left;
  }
  if (status)
    free(code);
  else
    *loaded = code;
  return status;
}

static void unload(attn_device *device, void *loaded) {
  struct cuda_device *d = (struct cuda_device *)device;
  struct code *code = loaded;
  /* Nobody is left to be told of a failure, and there is nothing to be done
   * about one. */
  attn_error ignored;
  if (!enter(d, &ignored)) {
    cuda.cuModuleUnload(code->module);
    leave(d, ATTN_OK, &ignored);
  }
  free(code);
}

static int launch(attn_device *device, void *loaded, attn_device_entry entry,
                  void *stream, const void *call, int64_t first, int64_t blocks,
                  attn_error *error) {
  struct cuda_device *d = (struct cuda_device *)device;
  const struct function *function = &((struct code *)loaded)->functions[entry];
  CUdeviceptr where = (CUdeviceptr)(uintptr_t)call;
  void *arguments[] = {&where, &first};
  int status = enter(d, error);
  if (status)
    return status;
  status = CALL(d, error, cuLaunchKernel, function->handle, (unsigned)blocks, 1,
                1, function->threads, 1, 1, function->shared_bytes, stream,
                arguments, NULL);
  return leave(d, status, error);
}

/*--- Memory ----------------------------------------------------------------*/

static int allocate(attn_device *device, void *stream, size_t bytes,
                    void **memory, attn_error *error) {
  struct cuda_device *d = (struct cuda_device *)device;
  CUdeviceptr where = 0;
  int status = enter(d, error);
  if (status)
    return status;
  status =
      CALL(d, error, cuMemAllocFromPoolAsync, &where, bytes, d->pool, stream);
  *memory = (void *)(uintptr_t)where;
  return leave(d, status, error);
}

static int release(attn_device *device, void *stream, void *memory,
                   attn_error *error) {
  struct cuda_device *d = (struct cuda_device *)device;
  int status = enter(d, error);
  if (status)
    return status;
  status =
      CALL(d, error, cuMemFreeAsync, (CUdeviceptr)(uintptr_t)memory, stream);
  return leave(d, status, error);
}

static int upload(attn_device *device, void *stream, void *to, const void *from,
                  size_t bytes, attn_error *error) {
  struct cuda_device *d = (struct cuda_device *)device;
  int status = enter(d, error);
  if (status)
    return status;
  /* The driver stages ordinary memory before it returns. */
  status = CALL(d, error, cuMemcpyHtoDAsync, (CUdeviceptr)(uintptr_t)to, from,
                bytes, stream);
  return leave(d, status, error);
}

static int wait_for(attn_device *device, void *stream, attn_error *error) {
  struct cuda_device *d = (struct cuda_device *)device;
  int status = enter(d, error);
  if (status)
    return status;
  status = CALL(d, error, cuStreamSynchronize, stream);
  return leave(d, status, error);
}

static int download(attn_device *device, void *stream, void *to,
                    const void *from, size_t bytes, attn_error *error) {
  struct cuda_device *d = (struct cuda_device *)device;
  int status = enter(d, error);
  if (status)
    return status;
  status = CALL(d, error, cuMemcpyDtoHAsync, to, (CUdeviceptr)(uintptr_t)from,
                bytes, stream);
  if (!status)
    status = CALL(d, error, cuStreamSynchronize, stream);
  return leave(d, status, error);
}

/*--- What callers give -----------------------------------------------------*/

static int check_stream(attn_device *device, void *stream, attn_error *error) {
  struct cuda_device *d = (struct cuda_device *)device;
  int capture = CU_STREAM_CAPTURE_STATUS_NONE;
  int status = enter(d, error);
  if (status)
    return status;
  status = CALL(d, error, cuStreamIsCapturing, stream, &capture);
  if (!status && capture != CU_STREAM_CAPTURE_STATUS_NONE)
    status = attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "attn_run_options.stream is being captured into a "
                       "graph; a call has to run when it is made");
  return leave(d, status, error);
}

static const char *find_memory_fault(attn_device *device, const void *data) {
  struct cuda_device *d = (struct cuda_device *)device;
  attn_error ignored;
  if (enter(d, &ignored))
    return NULL; /* what follows will say so */
  unsigned type = 0;
  int ordinal = 0;
  CUdeviceptr where = (CUdeviceptr)(uintptr_t)data;
  CUresult known = cuda.cuPointerGetAttribute(
      &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, where);
  if (known == CUDA_SUCCESS)
    known = cuda.cuPointerGetAttribute(
        &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, where);
  leave(d, ATTN_OK, &ignored);
  if (known == CUDA_ERROR_INVALID_VALUE)
    return "no memory that the CUDA driver knows";
  if (known != CUDA_SUCCESS)
    return NULL;
  if (type == CU_MEMORYTYPE_HOST)
    return "memory of the host";
  return ordinal == d->base.index ? NULL : "memory of another CUDA device";
}

const attn_device_kind attn_cuda_devices = {
    .name = KIND_NAME,
    .tensor_type = kDLCUDA,
    .knows = knows,
    .runs = runs,
    .count = count_devices,
    .open = open_device,
    .load = load,
    .unload = unload,
    .launch = launch,
    .alloc = allocate,
    .release = release,
    .upload = upload,
    .download = download,
    .wait = wait_for,
    .check_stream = check_stream,
    .find_memory_fault = find_memory_fault,
};

/*===- targets/cuda/Driver.h - The part of the driver API that we use -----===*
 *
 * Part of attnc. Apache-2.0.
 *
 * Declared here so that building needs no CUDA toolkit. Names, types and values
 * are those of NVIDIA's documentation of the driver API; all of them have been
 * there since CUDA 11.2.
 *
 *===----------------------------------------------------------------------===*/
#ifndef ATTN_TARGETS_CUDA_DRIVER_H
#define ATTN_TARGETS_CUDA_DRIVER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUmemPoolHandle_st *CUmemoryPool;

typedef struct CUmemPoolProps {
  int allocation_type, handle_types;
  int location_type, location;
  void *security_attributes;
  unsigned char reserved[64];
} CUmemPoolProps;

enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NO_DEVICE = 100,

  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,

  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,

  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,

  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_MEMORYTYPE_HOST = 1,

  CU_STREAM_CAPTURE_STATUS_NONE = 0,

  CU_MEM_ALLOCATION_TYPE_PINNED = 1,
  CU_MEM_LOCATION_TYPE_DEVICE = 1,
  CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
};

/* Each function: its type, and the name that the library has for it. */
#define ATTN_CUDA_FUNCTIONS(F)                                                 \
  F(cuInit, cuInit, (unsigned flags))                                          \
  F(cuDriverGetVersion, cuDriverGetVersion, (int *version))                    \
  F(cuGetErrorName, cuGetErrorName, (CUresult error, const char **text))       \
  F(cuGetErrorString, cuGetErrorString, (CUresult error, const char **text))   \
  F(cuDeviceGetCount, cuDeviceGetCount, (int *count))                          \
  F(cuDeviceGet, cuDeviceGet, (CUdevice * device, int ordinal))                \
  F(cuDeviceGetName, cuDeviceGetName, (char *name, int size, CUdevice device)) \
  F(cuDeviceGetAttribute, cuDeviceGetAttribute,                                \
    (int *value, int attribute, CUdevice device))                              \
  F(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain,                        \
    (CUcontext * context, CUdevice device))                                    \
  F(cuCtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext context))                \
  F(cuCtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext * context))                \
  F(cuModuleLoadDataEx, cuModuleLoadDataEx,                                    \
    (CUmodule * module, const void *image, unsigned n_options, int *options,   \
     void **values))                                                           \
  F(cuModuleUnload, cuModuleUnload, (CUmodule module))                         \
  F(cuModuleGetFunction, cuModuleGetFunction,                                  \
    (CUfunction * function, CUmodule module, const char *name))                \
  F(cuFuncSetAttribute, cuFuncSetAttribute,                                    \
    (CUfunction function, int attribute, int value))                           \
  F(cuLaunchKernel, cuLaunchKernel,                                            \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,   \
     unsigned block_x, unsigned block_y, unsigned block_z,                     \
     unsigned shared_bytes, CUstream stream, void **params, void **extra))     \
  F(cuMemPoolCreate, cuMemPoolCreate,                                          \
    (CUmemoryPool * pool, const CUmemPoolProps *props))                        \
  F(cuMemPoolSetAttribute, cuMemPoolSetAttribute,                              \
    (CUmemoryPool pool, int attribute, void *value))                           \
  F(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync,                          \
    (CUdeviceptr * memory, size_t bytes, CUmemoryPool pool, CUstream stream))  \
  F(cuMemFreeAsync, cuMemFreeAsync, (CUdeviceptr memory, CUstream stream))     \
  F(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2,                                   \
    (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))         \
  F(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2,                                   \
    (void *to, CUdeviceptr from, size_t bytes, CUstream stream))               \
  F(cuStreamSynchronize, cuStreamSynchronize, (CUstream stream))               \
  F(cuStreamIsCapturing, cuStreamIsCapturing, (CUstream stream, int *status))  \
  F(cuPointerGetAttribute, cuPointerGetAttribute,                              \
    (void *value, int attribute, CUdeviceptr pointer))

#ifdef __cplusplus
}
#endif
#endif

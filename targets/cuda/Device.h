/*===- targets/cuda/Device.h - NVIDIA GPUs as the runtime sees them -------===*
 *
 * Part of attnc. Apache-2.0.
 *
 *===----------------------------------------------------------------------===*/
#ifndef ATTN_TARGETS_CUDA_DEVICE_H
#define ATTN_TARGETS_CUDA_DEVICE_H

#include "runtime/device.h"

extern const attn_device_kind attn_cuda_devices;

#endif

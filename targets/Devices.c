/*===- targets/Devices.c - The kinds of devices that kernels run on -------===*
 *
 * Part of attnc. Apache-2.0.
 *
 *===----------------------------------------------------------------------===*/
#include "runtime/device.h"
#include "targets/cuda/Device.h"

const attn_device_kind *const attn_device_kinds[] = {&attn_cuda_devices, NULL};

/*===- runtime/devices.c - Devices beside the CPU -------------------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 *===----------------------------------------------------------------------===*/
#include "internal.h"
#include <stdio.h>
#include <string.h>

static const attn_device_kind *kind_of_place(DLDevice place) {
  const attn_device_kind *const *kind = attn_device_kinds;
  while (*kind && (*kind)->tensor_type != (int32_t)place.device_type)
    ++kind;
  return *kind;
}

const attn_device_kind *attn_kind_of_kernel(const attn_kernel *kernel,
                                            attn_error *error) {
  const char *word = kernel->features;
  size_t length = strcspn(word, ",");
  const attn_device_kind *const *kind = attn_device_kinds;
  while (*kind && !(*kind)->knows(word, length))
    ++kind;
  if (!*kind)
    attn_fail(error, ATTN_UNSUPPORTED,
              "variant '%s' for target '%s' needs %s, which this library knows "
              "no device for",
              kernel->variant, kernel->target, kernel->features);
  return *kind;
}

struct attn_place_name attn_name_place(DLDevice place) {
  struct attn_place_name name;
  const attn_device_kind *kind = kind_of_place(place);
  if (place.device_type == kDLCPU)
    snprintf(name.text, sizeof name.text, "the CPU");
  else if (kind)
    snprintf(name.text, sizeof name.text, "%s device %d", kind->name,
             place.device_id);
  else
    snprintf(name.text, sizeof name.text, "DLPack device type %d",
             (int)place.device_type);
  return name;
}

int attn_device_open(DLDevice place, attn_device **device, attn_error *error) {
  attn_error ignored;
  error = error ? error : &ignored;
  const attn_device_kind *kind = kind_of_place(place);
  if (!kind) {
    char names_data[128] = "";
    struct attn_text names = {names_data, sizeof names_data, 0};
    for (const attn_device_kind *const *k = attn_device_kinds; *k; ++k)
      attn_append(&names, "%s%s (%d)", k == attn_device_kinds ? "" : ", ",
                  (*k)->name, (int)(*k)->tensor_type);
    return attn_fail(error, ATTN_UNSUPPORTED,
                     "DLPack device type %d is no device that kernels run on; "
                     "those are: %s",
                     (int)place.device_type, names_data);
  }
  int n = 0;
  int status = kind->count(&n, error);
  if (!status && (place.device_id < 0 || place.device_id >= n))
    status = attn_fail(error, ATTN_NO_DEVICE,
                       "there is no %s device %d; the driver has %d, counted "
                       "from 0",
                       kind->name, place.device_id, n);
  return status ? status : kind->open(place.device_id, device, error);
}

bool attn_device_runs(const attn_device *device, const attn_kernel *kernel) {
  for (const char *word = kernel->features; *word;) {
    size_t length = strcspn(word, ",");
    if (length && !device->kind->runs(device, word, length))
      return false;
    word += length + (word[length] == ',');
  }
  return true;
}

/*--- The public functions --------------------------------------------------*/

int attn_device_find(const attn_kernel *kernel, DLDevice *place,
                     attn_error *error) {
  attn_error ignored;
  error = error ? error : &ignored;
  if (!kernel || !place)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_device_find: %s is "
                     "NULL",
                     kernel ? "place" : "kernel");
  *place = (DLDevice){kDLCPU, 0};
  int status = attn_kernel_check(kernel, "(given to attn_device_find)", error);
  if (status)
    return status;
  if (!kernel->device) {
    status = attn_check_features(kernel, error);
    return status ? status : attn_succeed(error);
  }
  const attn_device_kind *kind = attn_kind_of_kernel(kernel, error);
  if (!kind)
    return ATTN_UNSUPPORTED;
  int n = 0;
  status = kind->count(&n, error);
  if (status)
    return status;
  char found_data[1024] = "";
  struct attn_text found = {found_data, sizeof found_data, 0};
  for (int i = 0; i < n; ++i) {
    attn_device *device;
    status = kind->open(i, &device, error);
    if (status)
      return status;
    if (attn_device_runs(device, kernel)) {
      *place = (DLDevice){(DLDeviceType)kind->tensor_type, i};
      return attn_succeed(error);
    }
    attn_append(&found, "%s%s (%s)", i ? ", " : "", device->name,
                device->feature);
  }
  return attn_fail(error, ATTN_NO_DEVICE,
                   "variant '%s' for target '%s' needs %s; the %s devices "
                   "here are: %s",
                   kernel->variant, kernel->target, kernel->features,
                   kind->name, found_data);
}

int attn_device_describe(DLDevice place, char *buffer, size_t size,
                         attn_error *error) {
  if (!buffer || !size)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_device_describe: there is no buffer");
  attn_device *device;
  int status = attn_device_open(place, &device, error);
  if (status)
    return status;
  snprintf(buffer, size, "%s (%s)", device->name, device->feature);
  return attn_succeed(error);
}

int attn_device_alloc(DLDevice place, size_t bytes, void **memory,
                      attn_error *error) {
  if (!memory)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_device_alloc: memory is NULL");
  *memory = NULL;
  attn_error own;
  attn_device *device;
  int status = attn_device_open(place, &device, &own);
  if (!status && bytes) {
    status = device->kind->alloc(device, NULL, bytes, memory, &own);
    if (!status)
      status = device->kind->wait(device, NULL, &own);
  }
  return status ? attn_fail(error, status, "%s", own.text)
                : attn_succeed(error);
}

int attn_device_free(DLDevice place, void *memory, attn_error *error) {
  attn_error own;
  attn_device *device;
  int status = attn_device_open(place, &device, &own);
  if (!status && memory) {
    status = device->kind->release(device, NULL, memory, &own);
    if (!status)
      status = device->kind->wait(device, NULL, &own);
  }
  return status ? attn_fail(error, status, "%s", own.text)
                : attn_succeed(error);
}

int attn_device_upload(DLDevice place, void *to, const void *from, size_t bytes,
                       attn_error *error) {
  attn_error own;
  attn_device *device;
  int status = attn_device_open(place, &device, &own);
  if (!status && bytes) {
    status = device->kind->upload(device, NULL, to, from, bytes, &own);
    if (!status)
      status = device->kind->wait(device, NULL, &own);
  }
  return status ? attn_fail(error, status, "%s", own.text)
                : attn_succeed(error);
}

int attn_device_download(DLDevice place, void *to, const void *from,
                         size_t bytes, attn_error *error) {
  attn_error own;
  attn_device *device;
  int status = attn_device_open(place, &device, &own);
  if (!status && bytes)
    status = device->kind->download(device, NULL, to, from, bytes, &own);
  return status ? attn_fail(error, status, "%s", own.text)
                : attn_succeed(error);
}

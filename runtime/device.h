/*===- runtime/device.h - What the runtime asks of a kind of device -------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * The seam between the runtime and the folders of targets whose kernels run
 * beside the CPU (attn_kernel.device). Each has one attn_device_kind, which
 * `attn_device_kinds` lists. The runtime checks tensors, lays out a call and
 * keeps loaded kernels; a kind moves bytes and launches.
 *
 * Functions that can fail return an attn_status, and write the reason to
 * `error` (which is never NULL here). All may be called from any thread at
 * once. A stream is the caller's handle, or NULL: the device's default one.
 *
 *===----------------------------------------------------------------------===*/
#ifndef ATTN_DEVICE_H
#define ATTN_DEVICE_H

#include "attn.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct attn_device_kind;

/* A device that is open; it stays so as long as the process. A kind's own
 * struct begins with this one. */
typedef struct attn_device {
  const struct attn_device_kind *kind;
  int index; /* device_id of DLPack */
  /* What people call it, and the feature word that says what it runs. */
  char name[128], feature[32];
} attn_device;

/* The functions of a kernel's code: attn_device_code.entry, merge_entry. */
typedef enum attn_device_entry {
  ATTN_DEVICE_ITEMS,
  ATTN_DEVICE_MERGE,
} attn_device_entry;

typedef struct attn_device_kind {
  const char *name;    /* what people call the kind, in messages */
  int32_t tensor_type; /* DLDeviceType of tensors in such a device's memory */

  /* Whether a word of attn_kernel.features is one of this kind's. */
  bool (*knows)(const char *feature, size_t length);
  /* Whether the device has what such a word asks for. */
  bool (*runs)(const attn_device *device, const char *feature, size_t length);

  /* How many devices there are: at least 1, or ATTN_NO_DEVICE, where the reason
   * says what is missing. A failure is not kept: the next call looks again. */
  int (*count)(int *n, attn_error *error);
  /* Opens device `index`, below the count, once a process. */
  int (*open)(int index, attn_device **device, attn_error *error);

  /* Loads a kernel's code to the device. *loaded is to be given to unload. */
  int (*load)(attn_device *device, const attn_kernel *kernel, void **loaded,
              attn_error *error);
  void (*unload)(attn_device *device, void *loaded);
  /* Queues items first..first+blocks-1 of a call (an attn_call in the device's
   * memory), of a function that the kernel has. `blocks` is from 1 to
   * ATTN_DEVICE_MAX_BLOCKS. */
  int (*launch)(attn_device *device, void *loaded, attn_device_entry entry,
                void *stream, const void *call, int64_t first, int64_t blocks,
                attn_error *error);

  /* Memory that may be used by what is queued on `stream` afterwards, and is
   * let go after what was queued before. `bytes` is not 0. */
  int (*alloc)(attn_device *device, void *stream, size_t bytes, void **memory,
               attn_error *error);
  int (*release)(attn_device *device, void *stream, void *memory,
                 attn_error *error);
  /* Queues a copy. The host's bytes are read before this returns. */
  int (*upload)(attn_device *device, void *stream, void *to, const void *from,
                size_t bytes, attn_error *error);
  /* Queues a copy, and waits for it. */
  int (*download)(attn_device *device, void *stream, void *to, const void *from,
                  size_t bytes, attn_error *error);
  /* Waits for all that was queued on the stream. */
  int (*wait)(attn_device *device, void *stream, attn_error *error);

  /* Refuses a stream that can't take a call: what is queued there must run
   * once, now. */
  int (*check_stream)(attn_device *device, void *stream, attn_error *error);
  /* Says in words what is wrong with `data` as memory of the device; or NULL.
   * The text is static. */
  const char *(*find_memory_fault)(attn_device *device, const void *data);
} attn_device_kind;

#define ATTN_DEVICE_MAX_BLOCKS (INT64_C(1) << 30)

/* All kinds, NULL at the end (implemented under targets/). */
extern const attn_device_kind *const attn_device_kinds[];

/*--- What the runtime offers to kinds --------------------------------------*/

/* Writes a formatted reason (error may be NULL) and returns `code`. */
__attribute__((format(printf, 3, 4))) int attn_fail(attn_error *error, int code,
                                                    const char *format, ...);

/* Text that is put together in a fixed buffer; what does not fit is cut. */
struct attn_text {
  char *data;
  size_t size, used;
};
__attribute__((format(printf, 2, 3))) void attn_append(struct attn_text *text,
                                                       const char *format, ...);

/*--- devices.c: the runtime's own use of it --------------------------------*/

/* The kind whose devices a kernel of devices is for; NULL and a reason where
 * none knows its features. */
const attn_device_kind *attn_kind_of_kernel(const attn_kernel *kernel,
                                            attn_error *error);
/* Opens a device by where a tensor lies. */
int attn_device_open(DLDevice place, attn_device **device, attn_error *error);
/* Whether a device has all that a kernel of its kind needs. */
bool attn_device_runs(const attn_device *device, const attn_kernel *kernel);
/* Where a tensor lies, in words. */
struct attn_place_name {
  char text[64];
};
struct attn_place_name attn_name_place(DLDevice place);

/*--- launch.c --------------------------------------------------------------*/

/* A call that is checked and laid out in the host's memory. */
struct attn_prepared {
  const attn_kernel *kernel;
  const attn_call *call;
  const void *params; /* what attn_params_fill filled, and how much of it */
  size_t params_bytes;
  int64_t items; /* above 0 */
};

/* Copies what the call points to on the host to the device, and queues the
 * kernel. Everything taken for that is let go when the stream gets there; with
 * `wait` that is before the function returns. */
int attn_launch(attn_device *device, const struct attn_prepared *prepared,
                void *stream, bool wait, const attn_allocator *allocator,
                attn_error *error);
/* The code of a kernel on a device, loaded once; it lives as long as the
 * bundle, or the process. */
int attn_load_once(attn_device *device, const attn_kernel *kernel,
                   void **loaded, attn_error *error);
/* Unloads a kernel, which is about to go, from all devices. */
void attn_forget_kernel(const attn_kernel *kernel);

#ifdef __cplusplus
}
#endif
#endif

/*===- runtime/launch.c - A call on a device ------------------------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * What a call points to in the host's memory is packed into one block, with
 * pointers that are right on the device, and copied there at once.
 *
 *===----------------------------------------------------------------------===*/
#include "internal.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64

/*--- Loaded kernels --------------------------------------------------------*/

struct loaded {
  struct loaded *next;
  const attn_kernel *kernel;
  attn_device *device;
  void *code; /* of attn_device_kind.load */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct loaded *all_loaded;

/* With the lock held. */
static int load_locked(attn_device *device, const attn_kernel *kernel,
                       void **code, attn_error *error) {
  struct loaded *l = all_loaded;
  while (l && (l->kernel != kernel || l->device != device))
    l = l->next;
  if (!l) {
    l = calloc(1, sizeof *l);
    if (!l)
      return attn_fail(error, ATTN_OUT_OF_MEMORY, "out of memory");
    int status = device->kind->load(device, kernel, &l->code, error);
    if (status) {
      free(l);
      return status;
    }
    l->kernel = kernel;
    l->device = device;
    l->next = all_loaded;
    all_loaded = l;
  }
  *code = l->code;
  return ATTN_OK;
}

int attn_load_once(attn_device *device, const attn_kernel *kernel, void **code,
                   attn_error *error) {
  pthread_mutex_lock(&lock);
  int status = load_locked(device, kernel, code, error);
  pthread_mutex_unlock(&lock);
  return status;
}

void attn_forget_kernel(const attn_kernel *kernel) {
  pthread_mutex_lock(&lock);
  for (struct loaded **link = &all_loaded; *link;) {
    struct loaded *l = *link;
    if (l->kernel == kernel) {
      *link = l->next;
      l->device->kind->unload(l->device, l->code);
      free(l);
    } else {
      link = &l->next;
    }
  }
  pthread_mutex_unlock(&lock);
}

/*--- The block that goes to the device -------------------------------------*/

/* Counted first, with `host` NULL, and then filled. */
struct block {
  char *host, *device;
  size_t used;
  bool full;    /* more than can be counted */
  void *states; /* attn_call.states: on the device alone, behind the block */
};

/* Takes room; *host is where to fill it, NULL while counting. Returns where it
 * will be on the device. */
static void *take(struct block *block, size_t count, size_t size, char **host) {
  size_t start, bytes;
  if (__builtin_add_overflow(block->used, ALIGNMENT - 1, &start) ||
      __builtin_mul_overflow(count, size, &bytes) ||
      __builtin_add_overflow(start / ALIGNMENT * ALIGNMENT, bytes,
                             &block->used)) {
    block->full = true;
    block->used = 0;
  }
  start = start / ALIGNMENT * ALIGNMENT;
  *host = block->host ? block->host + start : NULL;
  return block->host ? block->device + start : NULL;
}

static void *put(struct block *block, const void *data, size_t bytes) {
  char *host;
  void *device = take(block, 1, bytes, &host);
  if (host)
    memcpy(host, data, bytes);
  return device;
}

/* Copies the elements of a parameter one behind the other. */
static void pack_elements(const attn_param *param, int rank, size_t size,
                          char *to) {
  int64_t index[ATTN_MAX_DIMS] = {0};
  int inner = rank - 1;
  while (inner >= 0 && !param->stride[inner])
    --inner;
  int64_t count = inner < 0 ? 1 : param->extent[inner];
  int64_t step = inner < 0 ? 1 : param->stride[inner];
  for (;;) {
    int64_t offset = 0;
    for (int i = 0; i < inner; ++i)
      offset += index[i] * param->stride[i];
    const char *from = (const char *)param->data + offset * (int64_t)size;
    if (step == 1)
      memcpy(to, from, (size_t)count * size);
    else
      for (int64_t i = 0; i < count; ++i)
        memcpy(to + i * (int64_t)size, from + i * step * (int64_t)size, size);
    to += count * (int64_t)size;
    int i = inner - 1;
    for (; i >= 0; --i) {
      if (param->stride[i] && ++index[i] < param->extent[i])
        break;
      index[i] = 0;
    }
    if (i < 0)
      return;
  }
}

/* Packs a parameter's elements, and makes its strides those of the copy. */
static const void *put_elements(struct block *block, attn_param *param,
                                const attn_param_info *info) {
  size_t size = attn_size_of(info->type), count = 1;
  int64_t strides[ATTN_MAX_DIMS] = {0};
  for (int i = info->rank - 1; i >= 0; --i) {
    if (!param->stride[i])
      continue;
    strides[i] = (int64_t)count;
    if (__builtin_mul_overflow(count, (size_t)param->extent[i], &count))
      count = SIZE_MAX;
  }
  char *host;
  const void *device = take(block, count, size, &host);
  if (host)
    pack_elements(param, info->rank, size, host);
  memcpy(param->stride, strides, sizeof strides);
  return device;
}

/* Memory that is copied as it is. */
struct span {
  const char *host;
  char *device; /* NULL while counting */
  size_t bytes;
};

static bool is_inside(const struct span *span, const void *pointer) {
  return (uintptr_t)pointer - (uintptr_t)span->host < span->bytes;
}

static const void *moved(const struct span *span, const void *pointer) {
  if (!span->device)
    return NULL;
  return span->device + ((const char *)pointer - span->host);
}

/* Lays out all that a call points to on the host. Returns where the call itself
 * will be. */
static void *lay_out(const struct attn_prepared *prepared,
                     struct block *block) {
  attn_call call = *prepared->call;
  call.states = block->states;
  char *host_call, *host_params;
  void *device_call = take(block, 1, sizeof call, &host_call);
  size_t lens_bytes = (size_t)call.batch * sizeof *call.q_lens;
  if (call.q_lens)
    call.q_lens = put(block, call.q_lens, lens_bytes);
  if (call.kv_lens)
    call.kv_lens = put(block, call.kv_lens, lens_bytes);

  struct span params = {prepared->params, NULL, prepared->params_bytes};
  params.device = take(block, 1, params.bytes, &host_params);
  if (host_params && params.bytes)
    memcpy(host_params, params.host, params.bytes);
  for (int32_t i = 0; i < prepared->kernel->n_params; ++i) {
    attn_param param = call.params[i];
    param.data =
        is_inside(&params, param.data)
            ? moved(&params, param.data)
            : put_elements(block, &param, &prepared->kernel->params[i]);
    /* Blocks that are not there are those of an array without elements. */
    if (param.blocks)
      param.blocks = is_inside(&params, param.blocks)
                         ? moved(&params, param.blocks)
                         : put(block, param.blocks, 2 * sizeof *param.blocks);
    if (host_params)
      memcpy(host_params + ((const char *)&call.params[i] - params.host),
             &param, sizeof param);
  }
  if (call.params)
    call.params = moved(&params, call.params);
  if (call.globals)
    call.globals = moved(&params, call.globals);
  if (call.global_counts)
    call.global_counts = moved(&params, call.global_counts);
  if (host_call)
    memcpy(host_call, &call, sizeof call);
  return device_call;
}

static int launch_all(attn_device *device, void *code, attn_device_entry entry,
                      void *stream, const void *call, int64_t items,
                      attn_error *error) {
  int status = ATTN_OK;
  for (int64_t first = 0; first < items && !status;
       first += ATTN_DEVICE_MAX_BLOCKS) {
    int64_t left = items - first;
    status = device->kind->launch(
        device, code, entry, stream, call, first,
        left < ATTN_DEVICE_MAX_BLOCKS ? left : ATTN_DEVICE_MAX_BLOCKS, error);
  }
  return status;
}

/* Fills the block and queues its copy and the kernel. */
static int queue(attn_device *device, const struct attn_prepared *prepared,
                 void *stream, void *code, struct block block, size_t bytes,
                 attn_error *error) {
  const attn_device_kind *kind = device->kind;
  const void *call = lay_out(prepared, &block);
  int status =
      kind->upload(device, stream, block.device, block.host, bytes, error);
  if (!status)
    status = launch_all(device, code, ATTN_DEVICE_ITEMS, stream, call,
                        prepared->items, error);
  /* (All items are more than these: they can be counted.) */
  if (!status && block.states)
    status = launch_all(device, code, ATTN_DEVICE_MERGE, stream, call,
                        prepared->call->batch * prepared->kernel->item_groups,
                        error);
  return status;
}

/* Bytes of the states of a call's splits; *full where they can't be counted. */
static size_t count_states(const struct attn_prepared *prepared, bool *full) {
  const attn_kernel *kernel = prepared->kernel;
  size_t bytes = (size_t)attn_count_splits(kernel, prepared->call);
  if (__builtin_mul_overflow(bytes, (size_t)prepared->call->batch, &bytes) ||
      __builtin_mul_overflow(bytes, (size_t)kernel->item_groups, &bytes) ||
      __builtin_mul_overflow(bytes, (size_t)kernel->state_bytes, &bytes))
    *full = true;
  return bytes;
}

int attn_launch(attn_device *device, const struct attn_prepared *prepared,
                void *stream, bool wait, const attn_allocator *allocator,
                attn_error *error) {
  const attn_device_kind *kind = device->kind;
  void *code;
  int status = kind->check_stream(device, stream, error);
  if (!status)
    status = attn_load_once(device, prepared->kernel, &code, error);
  if (status)
    return status;
  struct block block = {NULL, NULL, 0, false, NULL};
  size_t states_bytes = count_states(prepared, &block.full);
  lay_out(prepared, &block);
  size_t bytes = block.used, states_at, all_bytes;
  block.full |= __builtin_add_overflow(bytes, ALIGNMENT - 1, &states_at);
  states_at = states_at / ALIGNMENT * ALIGNMENT;
  block.full |= __builtin_add_overflow(states_at, states_bytes, &all_bytes);
  if (!block.full)
    block.host = allocator->alloc(allocator->context, bytes, ALIGNMENT);
  if (!block.host)
    return attn_fail(error, ATTN_OUT_OF_MEMORY,
                     "no memory to copy the parameters from: %zu bytes%s",
                     bytes, block.full ? " and more" : "");
  block.used = 0;
  void *memory = NULL;
  status = kind->alloc(device, stream, all_bytes, &memory, error);
  if (!status) {
    block.device = memory;
    if (states_bytes)
      block.states = block.device + states_at;
    status = queue(device, prepared, stream, code, block, bytes, error);
    /* The first error is the one to tell. */
    attn_error second;
    int let_go = kind->release(device, stream, memory, &second);
    if (wait && !let_go)
      let_go = kind->wait(device, stream, &second);
    if (!status && let_go)
      status = attn_fail(error, let_go, "%s", second.text);
  }
  allocator->free(allocator->context, block.host, bytes);
  return status;
}

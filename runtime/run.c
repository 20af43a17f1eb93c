/*===- runtime/run.c - Run a kernel on checked tensors --------------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 *===----------------------------------------------------------------------===*/
#include "internal.h"
#include <fenv.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SCRATCH_ALIGNMENT 64
/* A worker takes its next chunk when it is done with one. Sixteen a worker keep
 * the last one short, and leave neighbours, which share keys, together. */
#define CHUNKS_PER_WORKER 16

/* One call of attn_run, seen by its workers. */
struct job {
  const attn_kernel *kernel;
  attn_device *device; /* NULL: the CPU */
  attn_call call;
  int64_t items, chunk;
  char *scratch;
  size_t scratch_stride;
  atomic_llong next;
  atomic_llong done;
};

/* One worker: takes chunks until none is left. */
static void work(void *arg, size_t index) {
  struct job *job = arg;
  long long first = atomic_load_explicit(&job->next, memory_order_relaxed);
  if (first >= job->items)
    return;
  /* Rounding mode, flushing of small numbers and traps are the caller's
   * affair; the result may not depend on them. */
  fenv_t environment;
  fegetenv(&environment);
  fesetenv(FE_DFL_ENV);
  void *scratch =
      job->scratch ? job->scratch + index * job->scratch_stride : NULL;
  long long ran = 0;
  while ((first = atomic_fetch_add_explicit(
              &job->next, job->chunk, memory_order_relaxed)) < job->items) {
    long long last =
        first + job->chunk < job->items ? first + job->chunk : job->items;
    job->kernel->run(&job->call, first, last, scratch);
    ran += last - first;
  }
  fesetenv(&environment);
  atomic_fetch_add_explicit(&job->done, ran, memory_order_release);
}

static void *default_alloc(void *context, size_t bytes, size_t alignment) {
  (void)context;
  return aligned_alloc(alignment,
                       (bytes + alignment - 1) / alignment * alignment);
}

static void default_free(void *context, void *pointer, size_t bytes) {
  (void)context;
  (void)bytes;
  free(pointer);
}

static const attn_allocator default_allocator = {default_alloc, default_free,
                                                 NULL};

static int check_options(const attn_run_options *o, attn_error *error) {
  if (o->layout != ATTN_BHTD && o->layout != ATTN_BTHD)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_run_options.layout is %d, must be ATTN_BHTD (%d) or "
                     "ATTN_BTHD (%d)",
                     o->layout, ATTN_BHTD, ATTN_BTHD);
  if (o->pool && o->parallel_for)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_run_options has both a pool and a parallel_for, at "
                     "most one is allowed");
  if (o->allocator && (!o->allocator->alloc || !o->allocator->free))
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_run_options.allocator has no %s function",
                     o->allocator->alloc ? "free" : "alloc");
  return ATTN_OK;
}

/* Whether the kernel can run where 'q' is; *device is NULL on the CPU. */
static int check_kernel(const attn_kernel *kernel, const attn_tensors *tensors,
                        attn_device **device, attn_error *error) {
  *device = NULL;
  int status = attn_kernel_check(kernel, "(given to attn_run)", error);
  if (status)
    return status;
  DLDevice place = tensors->q ? tensors->q->device : (DLDevice){kDLCPU, 0};
  if (kernel->device)
    return attn_check_device(kernel, place, device, error);
  if (place.device_type != kDLCPU)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "tensor 'q' is on %s; variant '%s' for target '%s' runs "
                     "on the CPU",
                     attn_name_place(place).text, kernel->variant,
                     kernel->target);
  return attn_check_features(kernel, error);
}

/* How many workers: no more than there are threads and items. */
static size_t count_workers(const attn_run_options *o, int64_t items) {
  size_t threads = 1;
  if (o->pool)
    threads = attn_pool_threads(o->pool);
  else if (o->parallel_for)
    threads =
        o->parallel_for_threads ? o->parallel_for_threads : attn_cpu_count();
  if (threads > ATTN_MAX_THREADS)
    threads = ATTN_MAX_THREADS;
  return (uint64_t)items < threads ? (size_t)items : threads;
}

/* Hands the items of a ready job to the workers. */
static int dispatch(struct job *job, const attn_run_options *o,
                    const attn_allocator *allocator, attn_error *error) {
  size_t workers = count_workers(o, job->items);
  int64_t chunks = (int64_t)workers * (workers > 1 ? CHUNKS_PER_WORKER : 1);
  job->chunk = (job->items - 1) / chunks + 1;
  /* Each worker's memory begins on its own cache line. */
  job->scratch_stride =
      ((size_t)job->kernel->scratch_bytes + SCRATCH_ALIGNMENT - 1) /
      SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
  size_t bytes;
  if (__builtin_mul_overflow(job->scratch_stride, workers, &bytes))
    return attn_fail(error, ATTN_OUT_OF_MEMORY,
                     "scratch memory of %zu workers is more than can be",
                     workers);
  bool of_pool = o->pool && !o->allocator;
  if (bytes && !of_pool) {
    job->scratch =
        allocator->alloc(allocator->context, bytes, SCRATCH_ALIGNMENT);
    if (!job->scratch)
      return attn_fail(error, ATTN_OUT_OF_MEMORY,
                       "no scratch memory: %zu bytes for %zu workers", bytes,
                       workers);
  }
  bool ran = true;
  if (o->pool)
    ran = attn_pool_run(o->pool, workers, of_pool ? bytes : 0, &job->scratch,
                        work, job);
  else if (o->parallel_for)
    o->parallel_for(o->parallel_for_context, workers, work, job);
  else
    work(job, 0);
  if (bytes && !of_pool)
    allocator->free(allocator->context, job->scratch, bytes);
  if (!ran)
    return attn_fail(error, ATTN_OUT_OF_MEMORY,
                     "no scratch memory: %zu bytes for %zu workers", bytes,
                     workers);
  long long done = atomic_load_explicit(&job->done, memory_order_acquire);
  if (done != job->items)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "parallel_for returned with %lld of %lld work items done; "
                     "it must call the body for each index before it returns",
                     done, (long long)job->items);
  return ATTN_OK;
}

/* Whether the tensors of a call are the device's. */
static int check_memory(attn_device *device, const attn_call *call,
                        attn_error *error) {
  const struct {
    const char *name;
    const void *data;
  } tensors[] = {{"q", call->q},
                 {"k", call->k},
                 {"v", call->v},
                 {"o", call->o},
                 {"lse", call->lse}};
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; ++i) {
    const char *fault = NULL;
    if (tensors[i].data)
      fault = device->kind->find_memory_fault(device, tensors[i].data);
    if (fault)
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "tensor '%s': the data at %p is %s", tensors[i].name,
                       tensors[i].data, fault);
  }
  return ATTN_OK;
}

/* Queues a ready job on the device. */
static int launch(const struct job *job, const void *params,
                  size_t params_bytes, const attn_run_options *o,
                  const attn_allocator *allocator, attn_error *error) {
  struct attn_prepared prepared = {job->kernel, &job->call, params,
                                   params_bytes, job->items};
  int status = check_memory(job->device, &job->call, error);
  return status ? status
                : attn_launch(job->device, &prepared, o->stream, !o->stream,
                              allocator, error);
}

/* Runs a job whose tensors are checked and whose parameters are not. */
static int run_with_params(struct job *job, const attn_tensors *t,
                           const attn_run_options *o,
                           const attn_allocator *allocator, attn_error *error) {
  size_t bytes;
  int status = attn_params_check(job->kernel, t->params, t->n_params,
                                 &job->call, &bytes, error);
  if (status)
    return status;
  void *memory = NULL;
  if (bytes) {
    memory = allocator->alloc(allocator->context, bytes, SCRATCH_ALIGNMENT);
    if (!memory)
      return attn_fail(error, ATTN_OUT_OF_MEMORY,
                       "no memory for the parameters: %zu bytes", bytes);
  }
  status = attn_params_fill(job->kernel, t->params, t->n_params, &job->call,
                            memory, error);
  if (!status) {
    job->items = attn_count_items(job->kernel, &job->call);
    if (job->items < 0)
      status =
          attn_fail(error, ATTN_INVALID_ARGUMENT,
                    "tensor 'q': %lld x %lld x %lld (batch, heads, "
                    "queries) is more work than 64 bits can count",
                    (long long)job->call.batch, (long long)job->kernel->heads,
                    (long long)job->call.q_len);
  }
  if (!status && job->items)
    status = job->device ? launch(job, memory, bytes, o, allocator, error)
                         : dispatch(job, o, allocator, error);
  if (memory)
    allocator->free(allocator->context, memory, bytes);
  return status;
}

int attn_call_fill(const attn_kernel *kernel, const attn_tensors *tensors,
                   int layout, attn_call *call, int64_t *lens,
                   attn_error *error) {
  if (!kernel || !tensors || !call)
    return attn_fail(error, ATTN_INVALID_ARGUMENT, "attn_call_fill: %s is NULL",
                     !kernel    ? "kernel"
                     : !tensors ? "tensors"
                                : "call");
  attn_tensors t;
  int status = attn_copy_struct(&t, sizeof t, tensors, "attn_tensors", error);
  const attn_run_options o = {.layout = layout};
  if (!status)
    status = check_options(&o, error);
  if (!status)
    status = attn_check_tensors(kernel, &t, layout, call, error);
  if (!status && (t.q_lens || t.kv_lens) && call->batch && !lens)
    status = attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "attn_call_fill: lens is NULL, but there are lengths");
  if (!status)
    status = attn_read_lens(&t, call, lens, error);
  return status ? status : attn_succeed(error);
}

int attn_run(const attn_kernel *kernel, const attn_tensors *tensors,
             const attn_run_options *options, attn_error *error) {
  attn_error own;
  error = error ? error : &own;
  if (!kernel || !tensors)
    return attn_fail(error, ATTN_INVALID_ARGUMENT, "attn_run: %s is NULL",
                     kernel ? "tensors" : "kernel");
  attn_tensors t;
  attn_run_options o = {0};
  int status = attn_copy_struct(&t, sizeof t, tensors, "attn_tensors", error);
  if (!status && options)
    status = attn_copy_struct(&o, sizeof o, options, "attn_run_options", error);
  if (!status)
    status = check_options(&o, error);
  struct job job = {.kernel = kernel};
  if (!status)
    status = check_kernel(kernel, &t, &job.device, error);
  if (!status && o.stream && !job.device)
    status = attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "attn_run_options.stream is %p, but variant '%s' for "
                       "target '%s' runs on the CPU",
                       o.stream, kernel->variant, kernel->target);
  if (!status)
    status = attn_check_tensors(kernel, &t, o.layout, &job.call, error);
  if (status)
    return status;

  const attn_allocator *allocator =
      o.allocator ? o.allocator : &default_allocator;
  int64_t few[64], *lens = few;
  size_t n_lens = (size_t)job.call.batch * 2, lens_bytes = 0;
  if ((t.q_lens || t.kv_lens) && n_lens > sizeof few / sizeof few[0]) {
    lens_bytes = n_lens * sizeof *lens;
    lens = allocator->alloc(allocator->context, lens_bytes, SCRATCH_ALIGNMENT);
    if (!lens)
      return attn_fail(error, ATTN_OUT_OF_MEMORY,
                       "no memory for the lengths: %zu bytes", lens_bytes);
  }
  status = attn_read_lens(&t, &job.call, lens, error);
  if (!status)
    status = run_with_params(&job, &t, &o, allocator, error);
  if (lens_bytes)
    allocator->free(allocator->context, lens, lens_bytes);
  return status ? status : attn_succeed(error);
}

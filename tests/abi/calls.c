/*===- tests/abi/calls.c - Kernels called from C and C++ ------------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * C11 and C++17. Calls every kernel of variants.attn that runs here with all
 * that the C ABI lets a caller rely on under watch, on a small stack, and in
 * odd floating-point modes. Prints a line a kernel; exit status 1 on a breach.
 *
 *===----------------------------------------------------------------------===*/
#include "attn.h"
#include "variants.h"
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__x86_64__)
#include "calls_x86_64.h"
#elif defined(__aarch64__)
#include "calls_aarch64.h"
#else
#error "there is no call_*.S for this machine"
#endif

enum { BATCH = 2, TOKENS = 101, SMALL_STACK = 64 * 1024 };

static int breaches;
static void expect(int holds, const char *who, const char *what) {
  if (holds)
    return;
  printf("%s: %s\n", who, what);
  ++breaches;
}

/* Each check finds what it is for. */
static void check_the_checks(void) {
  for (int64_t rule = 0; rude_breach(rule); ++rule) {
    struct abi_request request = make_request(abi_rude);
    struct abi_state state;
    memset(&state, 0, sizeof state);
    request.first = rule;
    abi_call(&request, &state);
    const char *breach = find_breach(&request, &state);
    expect(breach && !strcmp(breach, rude_breach(rule)), "harness",
           rude_breach(rule));
  }
}

/* A kernel with tensors for it. */
struct job {
  const attn_kernel *kernel;
  int64_t q_shape[4], kv_shape[4], list_shape[2];
  float *q, *k, *v, *o;
  int32_t list[BATCH * 3];
  DLTensor tensor_q, tensor_k, tensor_v, tensor_o, tensor_list;
  attn_argument argument;
  attn_tensors tensors;
  size_t count;    /* of outputs */
  attn_pool *pool; /* for run_through_library; NULL: this thread alone */
  attn_call call;  /* for run_directly */
  void *params, *scratch;
  int64_t items;
};

static void *allocate(size_t bytes) {
  void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (!memory)
    abort();
  memset(memory, 0, (bytes + 64) / 64 * 64);
  return memory;
}

static DLTensor make_tensor(void *data, int64_t *shape, int rank, int code) {
  DLTensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = rank;
  tensor.dtype.code = (uint8_t)code;
  tensor.dtype.bits = 32;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  return tensor;
}

static float *make_values(int64_t *shape, uint32_t seed) {
  size_t count = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]);
  float *values = (float *)allocate(count * sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(seed >> 8) / (1 << 23) - 1;
  }
  return values;
}

static void fill_strides(int64_t *strides, const int64_t *shape) {
  strides[3] = 1;
  for (int i = 3; i > 0; --i)
    strides[i - 1] = strides[i] * shape[i];
}

static void prepare(struct job *job, const attn_kernel *kernel) {
  memset(job, 0, sizeof *job);
  job->kernel = kernel;
  const int64_t q_shape[4] = {BATCH, kernel->heads, TOKENS, kernel->qk_dim};
  const int64_t kv_shape[4] = {BATCH, kernel->kv_heads, TOKENS, kernel->qk_dim};
  memcpy(job->q_shape, q_shape, sizeof q_shape);
  memcpy(job->kv_shape, kv_shape, sizeof kv_shape);
  job->q = make_values(job->q_shape, 1);
  job->k = make_values(job->kv_shape, 2);
  job->v = make_values(job->kv_shape, 3);
  job->o = make_values(job->q_shape, 4);
  job->count = (size_t)(BATCH * kernel->heads * TOKENS * kernel->value_dim);
  job->tensor_q = make_tensor(job->q, job->q_shape, 4, kDLFloat);
  job->tensor_k = make_tensor(job->k, job->kv_shape, 4, kDLFloat);
  job->tensor_v = make_tensor(job->v, job->kv_shape, 4, kDLFloat);
  job->tensor_o = make_tensor(job->o, job->q_shape, 4, kDLFloat);
  static const int32_t list[BATCH * 3] = {40, 3, -1, 100, 0, 64};
  memcpy(job->list, list, sizeof list);
  job->list_shape[0] = BATCH;
  job->list_shape[1] = 3;
  job->tensor_list = make_tensor(job->list, job->list_shape, 2, kDLInt);
  job->argument.name = "globals";
  job->argument.value = &job->tensor_list;
  job->tensors.struct_size = sizeof job->tensors;
  job->tensors.q = &job->tensor_q;
  job->tensors.k = &job->tensor_k;
  job->tensors.v = &job->tensor_v;
  job->tensors.o = &job->tensor_o;
  job->tensors.params = &job->argument;
  job->tensors.n_params = (size_t)kernel->n_params;

  attn_call *call = &job->call;
  call->q = job->q;
  call->k = job->k;
  call->v = job->v;
  call->o = job->o;
  call->batch = BATCH;
  call->q_len = call->kv_len = TOKENS;
  fill_strides(call->q_stride, job->q_shape);
  fill_strides(call->o_stride, job->q_shape);
  fill_strides(call->k_stride, job->kv_shape);
  fill_strides(call->v_stride, job->kv_shape);
  size_t bytes = 0;
  expect(attn_params_check(kernel, job->tensors.params, job->tensors.n_params,
                           call, &bytes, NULL) == ATTN_OK,
         kernel->variant, "attn_params_check");
  job->params = allocate(bytes);
  expect(attn_params_fill(kernel, job->tensors.params, job->tensors.n_params,
                          call, job->params, NULL) == ATTN_OK,
         kernel->variant, "attn_params_fill");
  job->scratch = allocate((size_t)kernel->scratch_bytes);
  job->items = attn_count_items(kernel, call);
}

static void release(struct job *job) {
  free(job->q);
  free(job->k);
  free(job->v);
  free(job->o);
  free(job->params);
  free(job->scratch);
}

static void clear_output(struct job *job) {
  memset(job->o, 0xff, job->count * sizeof(float));
}

static void *run_directly(void *argument) {
  struct job *job = (struct job *)argument;
  job->kernel->run(&job->call, 0, job->items, job->scratch);
  return NULL;
}

static void *run_through_library(void *argument) {
  struct job *job = (struct job *)argument;
  attn_run_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.pool = job->pool;
  attn_error error;
  expect(attn_run(job->kernel, &job->tensors, &options, &error) == ATTN_OK,
         job->kernel->variant, error.text);
  return NULL;
}

/* On a stack with nothing readable on either side. */
static void on_small_stack(void *(*body)(void *), struct job *job) {
  const size_t page = 4096;
  char *memory = (char *)mmap(NULL, SMALL_STACK + 2 * page, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED ||
      mprotect(memory + page, SMALL_STACK, PROT_READ | PROT_WRITE) ||
      run_on_stack(memory + page, SMALL_STACK, body, job))
    abort();
  munmap(memory, SMALL_STACK + 2 * page);
}

static void check_state(struct job *job) {
  for (uint64_t stack = 0; stack < 64; stack += 16) {
    struct abi_request request = make_request(job->kernel->run);
    struct abi_state state;
    memset(&state, 0, sizeof state);
    request.call = &job->call;
    request.last = job->items;
    request.scratch = job->scratch;
    request.stack = stack;
    abi_call(&request, &state);
    const char *breach = find_breach(&request, &state);
    expect(!breach, job->kernel->target, breach);
  }
}

/* The same bits from attn_run whatever the caller's modes, which stay. */
static void check_modes(struct job *job, const float *expected) {
  static const int rounding[4] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD,
                                  FE_TOWARDZERO};
  for (int i = 0; i < 8; ++i) {
    const uint64_t before = read_modes();
    fesetround(rounding[i / 2]);
    write_modes(read_modes() | FLUSH_MODES);
    const uint64_t modes = read_modes();
    clear_output(job);
    attn_pool *pool = job->pool;
    job->pool = i % 2 ? pool : NULL;
    run_through_library(job);
    job->pool = pool;
    const uint64_t after = read_modes();
    const int round_after = fegetround();
    fesetround(FE_TONEAREST);
    write_modes(before);
    expect(modes == after && (modes & FLUSH_MODES) == FLUSH_MODES &&
               round_after == rounding[i / 2],
           job->kernel->variant, "attn_run changes the caller's modes");
    expect(!memcmp(expected, job->o, job->count * sizeof(float)),
           job->kernel->variant, "the caller's modes change the result");
  }
}

static void check_kernel(const attn_kernel *kernel, attn_pool *pool) {
  struct job job;
  prepare(&job, kernel);
  job.pool = pool;
  const size_t bytes = job.count * sizeof(float);
  clear_output(&job);
  run_through_library(&job);
  float *expected = (float *)allocate(bytes);
  memcpy(expected, job.o, bytes);
  for (size_t i = 0; i < job.count; ++i)
    if (!(expected[i] >= -1 && expected[i] <= 1))
      expect(0, kernel->variant, "an output is no mean of values");

  struct {
    void *(*body)(void *);
    const char *what;
  } const ways[2] = {{run_directly, "run differs from attn_run"},
                     {run_through_library, "attn_run differs from itself"}};
  for (int i = 0; i < 2; ++i) {
    clear_output(&job);
    ways[i].body(&job);
    expect(!memcmp(expected, job.o, bytes), kernel->variant, ways[i].what);
    clear_output(&job);
    on_small_stack(ways[i].body, &job);
    expect(!memcmp(expected, job.o, bytes), kernel->variant,
           "another result on a small stack");
  }
  check_state(&job);
  check_modes(&job, expected);
  printf("checked %s for %s\n", kernel->variant, kernel->target);
  free(expected);
  release(&job);
}

int main(void) {
  check_the_checks();
  attn_error error;
  attn_pool *pool = NULL;
  if (attn_pool_create(3, &pool, &error)) {
    printf("%s\n", error.text);
    return 1;
  }
  static const attn_kernel *const kernels[] = {ABI_KERNELS};
  attn_bundle *bundle = NULL;
  if (attn_bundle_open_static(kernels, sizeof kernels / sizeof *kernels,
                              &bundle, &error)) {
    printf("%s\n", error.text);
    return 1;
  }
  for (size_t i = 0; i < attn_bundle_kernel_count(bundle); ++i) {
    const attn_kernel *kernel = NULL;
    if (attn_kernel_pick(bundle, kernels[i]->variant, kernels[i]->target,
                         &kernel, &error) == ATTN_OK)
      check_kernel(kernel, pool);
  }
  attn_bundle_close(bundle);
  attn_pool_destroy(pool);
  return breaches != 0;
}

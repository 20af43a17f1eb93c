/*===- tests/support/emulated/sample_kernel.c - A kernel by hand -----------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * Causal attention of one head, 16 columns wide, on contiguous columns, with
 * 16-lane vectors: shows that the emulated path runs such code. With
 * ATTN_SAMPLE_OVERRUN it reads a vector past the end of K. With
 * ATTN_SAMPLE_PARAMS it is, for f32[keys] and so on without strides of 0,
 *   sample(n: i32[batch], bias: f32[keys], doc: i32[keys], t: tokens)
 *   score = s + bias[k]
 *   mask = (causal && k < n[b] || global(t)) && doc[k] == 0
 *
 *===----------------------------------------------------------------------===*/
#include "attn_abi.h"
#include <stddef.h>

#define INFINITY __builtin_inff()

typedef float vector __attribute__((vector_size(64), aligned(4)));

/* Kernels call no library. exp(x) is exp(x/1024)^1024, for x <= 0. */
static double exponential(double x) {
  double y = 1, term = 1;
  if (x < -700)
    return 0;
  for (int n = 1; n < 8; ++n)
    y += term *= x / 1024 / n;
  for (int n = 0; n < 10; ++n)
    y *= y;
  return y;
}

/* Newton's method; z >= 1. */
static double logarithm(double z) {
  double y = 0;
  for (int n = 0; n < 60; ++n)
    y += 2 * (z * exponential(-y) - 1) / (z * exponential(-y) + 1);
  return y;
}

static float dot(const float *a, const float *b) {
  vector product = *(const vector *)a * *(const vector *)b;
  /* Halves added to halves, in whole registers. */
  product += __builtin_shufflevector(product, product, 8, 9, 10, 11, 12, 13, 14,
                                     15, 0, 1, 2, 3, 4, 5, 6, 7);
  product += __builtin_shufflevector(product, product, 4, 5, 6, 7, 0, 1, 2, 3,
                                     12, 13, 14, 15, 8, 9, 10, 11);
  return (product[0] + product[1] + product[2] + product[3]) * 0.25f;
}

#ifdef ATTN_SAMPLE_PARAMS
#define ITEMS(call) ((call)->q_len + (call)->max_globals)

static int32_t read_i32(const attn_param *p, int64_t index) {
  return ((const int32_t *)p->data)[index * p->stride[0]];
}

static int is_global(const attn_param *t, int64_t b, int64_t position) {
  return ((const unsigned char *)
              t->data)[b * t->stride[0] + position * t->stride[1]] != 0;
}

/* The query of an item, or -1. */
static int64_t find_query(const attn_call *call, int64_t b, int64_t n,
                          int64_t start) {
  const int32_t *list = call->globals + b * call->globals_stride;
  if (n >= call->q_len)
    return n - call->q_len < call->global_counts[b]
               ? list[n - call->q_len] - start
               : -1;
  for (int64_t at = 0; at < call->global_counts[b]; ++at)
    if (list[at] == n + start)
      return -1;
  return n;
}

static int is_allowed(const attn_call *call, int64_t b, int64_t q, int64_t k) {
  const attn_param *p = call->params;
  /* A whole block without a document 0. */
  const int32_t *block = p[2].blocks + k / ATTN_BLOCK * p[2].block_stride[0];
  if (block[0] > 0 || block[1] < 0)
    return 0;
  return read_i32(&p[2], k) == 0 &&
         ((k <= q && k < read_i32(&p[0], b)) || is_global(&p[3], b, k) ||
          is_global(&p[3], b, q));
}

static float get_bias(const attn_call *call, int64_t k) {
  const attn_param *p = &call->params[1];
  return ((const float *)p->data)[k * p->stride[0]];
}
#else
#define ITEMS(call) ((call)->q_len)

static int64_t find_query(const attn_call *call, int64_t b, int64_t n,
                          int64_t start) {
  (void)call, (void)b, (void)start;
  return n;
}

static int is_allowed(const attn_call *call, int64_t b, int64_t q, int64_t k) {
  (void)call, (void)b;
  return k <= q;
}

static float get_bias(const attn_call *call, int64_t k) {
  (void)call, (void)k;
  return 0;
}
#endif

static void run(const attn_call *call, int64_t first, int64_t last,
                void *scratch) {
  (void)scratch;
  for (int64_t item = first; item < last; ++item) {
    int64_t b = item / ITEMS(call);
    int64_t kv_len = call->kv_lens ? call->kv_lens[b] : call->kv_len;
    int64_t q_len = call->q_lens ? call->q_lens[b] : call->q_len;
    int64_t start = kv_len - q_len;
    int64_t i = find_query(call, b, item % ITEMS(call), start);
    if (i < 0 || i >= q_len)
      continue;
    const float *q =
        (const float *)call->q + b * call->q_stride[0] + i * call->q_stride[2];
    const float *k = (const float *)call->k + b * call->k_stride[0];
    const float *v = (const float *)call->v + b * call->v_stride[0];
    float *o = (float *)call->o + b * call->o_stride[0] + i * call->o_stride[2];
    float m = -INFINITY, z = 0;
    for (int64_t j = 0; j < kv_len; ++j) {
      if (!is_allowed(call, b, i + start, j))
        continue;
      float s = dot(q, k + j * call->k_stride[2]) + get_bias(call, j);
      m = s > m ? s : m;
    }
    vector sum = {0};
    for (int64_t j = 0; j < kv_len; ++j) {
      if (m == -INFINITY || !is_allowed(call, b, i + start, j))
        continue;
      float s = dot(q, k + j * call->k_stride[2]) + get_bias(call, j);
      float weight = (float)exponential(s - m);
      z += weight;
      sum += weight * *(const vector *)(v + j * call->v_stride[2]);
    }
#ifdef ATTN_SAMPLE_OVERRUN
    sum += 0 * *(const volatile vector *)(k + kv_len * call->k_stride[2]);
#endif
    *(vector *)o = m > -INFINITY ? sum / z : (vector){0};
    if (call->lse)
      call->lse[b * call->lse_stride[0] + i * call->lse_stride[2]] =
          m > -INFINITY ? m + (float)logarithm(z) : -INFINITY;
  }
}

#ifdef ATTN_SAMPLE_PARAMS
static const attn_param_info params[] = {
    {.name = "n",
     .type = ATTN_I32,
     .rank = 1,
     .dims = {ATTN_DIM_BATCH},
     .flags = ATTN_PARAM_BOUNDED,
     .summary_dim = -1},
    {.name = "bias",
     .type = ATTN_F32,
     .rank = 1,
     .dims = {ATTN_DIM_KEYS},
     .summary_dim = -1},
    {.name = "doc", .type = ATTN_I32, .rank = 1, .dims = {ATTN_DIM_KEYS}},
    {.name = "t",
     .type = ATTN_TOKENS,
     .rank = 2,
     .dims = {ATTN_DIM_BATCH, ATTN_DIM_TOKENS},
     .summary_dim = -1},
};
#endif

__attribute__((visibility("default")))
const attn_kernel attn_sample__emulated = {
    .abi_version = ATTN_ABI_VERSION,
    .struct_size = sizeof(attn_kernel),
    .variant = "sample",
    .target = "emulated",
    .features = "",
    .text = "",
    .run = run,
    .heads = 1,
    .kv_heads = 1,
    .qk_dim = 16,
    .value_dim = 16,
    .item_groups = 1,
    .item_heads = 1,
    .item_rows = 1,
#ifdef ATTN_SAMPLE_PARAMS
    .n_params = 4,
    .params = params,
    .flags = ATTN_KERNEL_GLOBALS,
#endif
};

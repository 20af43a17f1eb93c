/*===- tests/support/emulated/sample_kernel.c - A kernel by hand -----------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * Causal attention of one head, 16 columns wide, on contiguous columns, with
 * 16-lane vectors: shows that the emulated path runs such code. With
 * ATTN_SAMPLE_OVERRUN it reads a vector past the end of K.
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

static void run(const attn_call *call, int64_t first, int64_t last,
                void *scratch) {
  (void)scratch;
  for (int64_t item = first; item < last; ++item) {
    int64_t b = item / call->q_len, i = item % call->q_len;
    int64_t kv_len = call->kv_lens ? call->kv_lens[b] : call->kv_len;
    int64_t q_len = call->q_lens ? call->q_lens[b] : call->q_len;
    if (i >= q_len)
      continue;
    const float *q =
        (const float *)call->q + b * call->q_stride[0] + i * call->q_stride[2];
    const float *k = (const float *)call->k + b * call->k_stride[0];
    const float *v = (const float *)call->v + b * call->v_stride[0];
    float *o = (float *)call->o + b * call->o_stride[0] + i * call->o_stride[2];
    int64_t keys = i + kv_len - q_len + 1;
    float m = -INFINITY, z = 0;
    for (int64_t j = 0; j < keys; ++j) {
      float s = dot(q, k + j * call->k_stride[2]);
      m = s > m ? s : m;
    }
    vector sum = {0};
    for (int64_t j = 0; j < keys; ++j) {
      float weight = (float)exponential(dot(q, k + j * call->k_stride[2]) - m);
      z += weight;
      sum += weight * *(const vector *)(v + j * call->v_stride[2]);
    }
#ifdef ATTN_SAMPLE_OVERRUN
    sum += 0 * *(const volatile vector *)(k + kv_len * call->k_stride[2]);
#endif
    *(vector *)o = keys > 0 ? sum / z : (vector){0};
    if (call->lse)
      call->lse[b * call->lse_stride[0] + i * call->lse_stride[2]] =
          keys > 0 ? m + (float)logarithm(z) : -INFINITY;
  }
}

__attribute__((visibility("default")))
const attn_kernel attn_sample__x86_avx512 = {
    .abi_version = ATTN_ABI_VERSION,
    .struct_size = sizeof(attn_kernel),
    .variant = "sample",
    .target = "x86-avx512",
    .features = "avx512f",
    .text = "",
    .run = run,
    .heads = 1,
    .kv_heads = 1,
    .qk_dim = 16,
    .value_dim = 16,
    .item_groups = 1,
    .item_heads = 1,
    .item_rows = 1,
};

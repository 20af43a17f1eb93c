/*===- tests/runtime/test_bundle.c - A bundle written by hand -------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * A plain f32 attention kernel without a mask. The build makes one good bundle
 * of this file and several that are wrong in one respect, by these macros.
 *
 *===----------------------------------------------------------------------===*/
#include "runtime/attn_abi.h"
#include <math.h>

#ifndef BUNDLE_MAGIC
#define BUNDLE_MAGIC ATTN_BUNDLE_MAGIC
#endif
#ifndef BUNDLE_ABI
#define BUNDLE_ABI ATTN_ABI_VERSION
#endif
#ifndef BUNDLE_SIZE
#define BUNDLE_SIZE sizeof(attn_bundle_table)
#endif
#ifndef KERNEL_ABI
#define KERNEL_ABI ATTN_ABI_VERSION
#endif
#ifndef KERNEL_ROWS
#define KERNEL_ROWS 4
#endif

enum { HEADS = 4, KV_HEADS = 2, QK_DIM = 5, VALUE_DIM = 3, ITEM_ROWS = 4 };

/* The stand-in for the compiler overwrites this in the file. */
static const char text[2048] = "@@ATTN_TEXT@@";

static void run_row(const attn_call *call, int64_t b, int64_t h, int64_t row,
                    float *sums) {
  int64_t g = h * KV_HEADS / HEADS;
  int64_t keys = call->kv_lens ? call->kv_lens[b] : call->kv_len;
  const float *q = (const float *)call->q + b * call->q_stride[0] +
                   h * call->q_stride[1] + row * call->q_stride[2];
  const float *k =
      (const float *)call->k + b * call->k_stride[0] + g * call->k_stride[1];
  const float *v =
      (const float *)call->v + b * call->v_stride[0] + g * call->v_stride[1];
  float *o = (float *)call->o + b * call->o_stride[0] + h * call->o_stride[1] +
             row * call->o_stride[2];
  float largest = -INFINITY, total = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (int c = 0; c < VALUE_DIM; ++c)
      sums[c] = 0;
    for (int64_t j = 0; j < keys; ++j) {
      float s = 0;
      for (int c = 0; c < QK_DIM; ++c)
        s += q[c * call->q_stride[3]] *
             k[j * call->k_stride[2] + c * call->k_stride[3]];
      s *= 0.44721359549995793f; /* 1/sqrt(5) */
      if (!pass) {
        largest = s > largest ? s : largest;
        continue;
      }
      float weight = expf(s - largest);
      total += weight;
      for (int c = 0; c < VALUE_DIM; ++c)
        sums[c] += weight * v[j * call->v_stride[2] + c * call->v_stride[3]];
    }
  }
  for (int c = 0; c < VALUE_DIM; ++c)
    o[c * call->o_stride[3]] = keys ? sums[c] / total : 0;
  if (call->lse)
    call->lse[b * call->lse_stride[0] + h * call->lse_stride[1] +
              row * call->lse_stride[2]] =
        keys ? largest + logf(total) : -INFINITY;
}

static void run(const attn_call *call, int64_t first, int64_t last,
                void *scratch) {
  if ((uintptr_t)scratch % 64)
    return; /* leaves the output as it was, which every test notices */
  int64_t blocks = (call->q_len + ITEM_ROWS - 1) / ITEM_ROWS;
  for (int64_t item = first; item < last; ++item) {
    int64_t b = item / (HEADS * blocks), h = item / blocks % HEADS;
    int64_t rows = call->q_lens ? call->q_lens[b] : call->q_len;
    int64_t row = item % blocks * ITEM_ROWS, end = row + ITEM_ROWS;
    for (; row < end && row < rows; ++row)
      run_row(call, b, h, row, scratch);
  }
}

/* For those that have a parameter; nothing reads it. */
static const attn_param_info params[] = {{.name = "slope",
                                          .type = ATTN_F32,
                                          .rank = 1,
                                          .dims = {ATTN_DIM_HEADS},
                                          .summary_dim = -1}};

#define KERNEL(VARIANT, TARGET, FEATURES, PREFERENCE, PARAMS)                  \
  {                                                                            \
      .abi_version = KERNEL_ABI,                                               \
      .struct_size = sizeof(attn_kernel),                                      \
      .variant = VARIANT,                                                      \
      .target = TARGET,                                                        \
      .features = FEATURES,                                                    \
      .text = text,                                                            \
      .run = run,                                                              \
      .heads = HEADS,                                                          \
      .kv_heads = KV_HEADS,                                                    \
      .qk_dim = QK_DIM,                                                        \
      .value_dim = VALUE_DIM,                                                  \
      .preference = PREFERENCE,                                                \
      .item_groups = HEADS,                                                    \
      .item_heads = 1,                                                         \
      .item_rows = KERNEL_ROWS,                                                \
      .scratch_bytes = 100,                                                    \
      .n_params = PARAMS,                                                      \
      .params = params,                                                        \
  }

static const attn_kernel plain = KERNEL("demo", "plain", "", 1, 0);
#ifndef ONLY_PLAIN
static const attn_kernel better = KERNEL("demo", "better", "", 2, 0);
static const attn_kernel exotic =
    KERNEL("demo", "exotic", "warp-drive,flux", 9, 0);
#endif
#ifdef SECOND_VARIANT
static const attn_kernel second = KERNEL("second", "plain", "", 1, 1);
#endif

static const attn_kernel *const kernels[] = {
    &plain,
#ifndef ONLY_PLAIN
    &exotic,
    &better,
#endif
#ifdef SECOND_VARIANT
    &second,
#endif
};

#if defined(NO_TABLE)
__attribute__((visibility("default"))) const void *something_else = kernels;
#elif defined(SMALL_TABLE)
__attribute__((visibility("default"))) const uint32_t attn_bundle =
    ATTN_BUNDLE_MAGIC;
__attribute__((visibility("default"))) const void *kept = kernels;
#else
__attribute__((visibility("default"))) const attn_bundle_table attn_bundle = {
    BUNDLE_MAGIC, BUNDLE_ABI, BUNDLE_SIZE, sizeof kernels / sizeof kernels[0],
    kernels,      "by hand"};
#endif

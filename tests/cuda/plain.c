/*===- tests/cuda/plain.c - A kernel of a device, by hand -----------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * Plain attention in f32 with a causal mask, so that the runtime is tested
 * without the compiler. A block has a thread for each value column, and does
 * one query of one head. plain.ptx is made of this by
 *
 *   clang --target=nvptx64-nvidia-cuda -march=sm_80 -O2 -ffreestanding \
 *     -nostdinc -isystem FREESTANDING_HEADERS -I ROOT -S plain.c
 *
 *===----------------------------------------------------------------------===*/
#include "runtime/attn_abi.h"

enum { HEADS = 2, KV_HEADS = 1, WIDTH = 16 };
#define LOG2_E 1.44269504088896340736f

static float exp2_of(float x) {
  float y;
  __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

static float log2_of(float x) {
  float y;
  __asm__("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__attribute__((nvptx_kernel)) void plain(const attn_call *call, int64_t first) {
  int64_t item = first + __nvvm_read_ptx_sreg_ctaid_x();
  int64_t column = __nvvm_read_ptx_sreg_tid_x();
  int64_t i = item % call->q_len, h = item / call->q_len % HEADS,
          b = item / call->q_len / HEADS, g = h * KV_HEADS / HEADS;
  int64_t q_len = call->q_lens ? call->q_lens[b] : call->q_len;
  int64_t kv_len = call->kv_lens ? call->kv_lens[b] : call->kv_len;
  if (i >= q_len)
    return;
  float slope = 1;
  const int32_t *ids = 0;
  int64_t ids_stride = 0;
  if (call->params) {
    const attn_param *p = call->params;
    slope = ((const float *)p[0].data)[h * p[0].stride[0]];
    ids = (const int32_t *)p[1].data + b * p[1].stride[0];
    ids_stride = p[1].stride[1];
  }
  const float *q = (const float *)call->q + b * call->q_stride[0] +
                   h * call->q_stride[1] + i * call->q_stride[2];
  const float *k =
      (const float *)call->k + b * call->k_stride[0] + g * call->k_stride[1];
  const float *v = (const float *)call->v + b * call->v_stride[0] +
                   g * call->v_stride[1] + column * call->v_stride[3];
  const float scale = 0.25f * LOG2_E; /* 1 / sqrt(WIDTH) */
  float largest = -__builtin_inff(), total = 0, sum = 0;
  for (int pass = 0; pass < 2; ++pass)
    for (int64_t j = 0; j < kv_len && j <= i + kv_len - q_len; ++j) {
      if (ids && !ids[j * ids_stride])
        continue;
      float s = 0;
      for (int c = 0; c < WIDTH; ++c)
        s += q[c * call->q_stride[3]] *
             k[j * call->k_stride[2] + c * call->k_stride[3]];
      s *= scale * slope;
      if (!pass) {
        largest = s > largest ? s : largest;
        continue;
      }
      float weight = exp2_of(s - largest);
      total += weight;
      sum += weight * v[j * call->v_stride[2]];
    }
  float *o = (float *)call->o + b * call->o_stride[0] + h * call->o_stride[1] +
             i * call->o_stride[2] + column * call->o_stride[3];
  *o = total > 0 ? sum / total : 0;
  if (call->lse && !column)
    call->lse[b * call->lse_stride[0] + h * call->lse_stride[1] +
              i * call->lse_stride[2]] =
        total > 0 ? (largest + log2_of(total)) / LOG2_E : -__builtin_inff();
}

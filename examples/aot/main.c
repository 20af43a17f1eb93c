/* A program with an attention kernel linked in: no compiler, no LLVM, no files.
 *
 * minilm.h and minilm.o were made by attnc from minilm.attn; the build does it
 * (see CMakeLists.txt). The result is compared with plain loops. */
#include "attn.h"
#include "minilm.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 2, HEADS = 12, TOKENS = 100, WIDTH = 32 };
enum { COUNT = BATCH * HEADS * TOKENS * WIDTH };

static float q[COUNT], k[COUNT], v[COUNT], o[COUNT];

/* Uniform in [-1, 1), the same everywhere. */
static void fill(float *x, uint32_t seed) {
  for (int i = 0; i < COUNT; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (1 << 23) - 1;
  }
}

/* Row `i` of the answer for one batch entry and head, in double precision. */
static void expected_row(const float *qh, const float *kh, const float *vh,
                         int i, double *row) {
  double weight[TOKENS], largest = -INFINITY, sum = 0;
  for (int j = 0; j < TOKENS; ++j) {
    double dot = 0;
    for (int d = 0; d < WIDTH; ++d)
      dot += (double)qh[i * WIDTH + d] * kh[j * WIDTH + d];
    weight[j] = dot / sqrt(WIDTH);
    largest = fmax(largest, weight[j]);
  }
  for (int j = 0; j < TOKENS; ++j)
    sum += weight[j] = exp(weight[j] - largest);
  for (int d = 0; d < WIDTH; ++d) {
    row[d] = 0;
    for (int j = 0; j < TOKENS; ++j)
      row[d] += weight[j] / sum * vh[j * WIDTH + d];
  }
}

int main(void) {
  fill(q, 1);
  fill(k, 2);
  fill(v, 3);

  attn_error error;
#ifdef __aarch64__
  /* One kernel, for all of these machines. */
  const attn_kernel *kernel = &attn_minilm__arm_neon;
#else
  /* Kernels for several machines are linked in; the best that runs here is
   * taken, or the one that ATTN_TARGET names. */
  const attn_kernel *kernel = NULL;
  if (attn_minilm__pick(&kernel, &error)) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
#endif

  int64_t shape[] = {BATCH, HEADS, TOKENS, WIDTH};
  DLTensor tensor = {.device = {kDLCPU, 0},
                     .ndim = 4,
                     .dtype = {kDLFloat, 32, 1},
                     .shape = shape};
  DLTensor tq = tensor, tk = tensor, tv = tensor, to = tensor;
  tq.data = q;
  tk.data = k;
  tv.data = v;
  to.data = o;
  attn_tensors tensors = {
      .struct_size = sizeof tensors, .q = &tq, .k = &tk, .v = &tv, .o = &to};
  if (attn_run(kernel, &tensors, NULL, &error)) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }

  double worst = 0;
  for (int h = 0; h < BATCH * HEADS; ++h)
    for (int i = 0; i < TOKENS; ++i) {
      double row[WIDTH];
      const int head = h * TOKENS * WIDTH;
      expected_row(q + head, k + head, v + head, i, row);
      for (int d = 0; d < WIDTH; ++d) {
        double difference = fabs(row[d] - o[head + i * WIDTH + d]);
        /* Written so that a NaN counts. */
        if (!(difference <= worst))
          worst = difference;
      }
    }
  printf("%s for %s: %d values, largest difference from plain loops %.2e\n",
         kernel->variant, kernel->target, COUNT, worst);
  return worst <= 2e-5 ? 0 : 1;
}

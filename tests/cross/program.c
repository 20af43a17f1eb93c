/*===- tests/cross/program.c - A program for another machine --------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * usage: program BUNDLE
 * Runs the kernel of layer.attn that is linked in, KERNEL, and the one in the
 * bundle, and compares both with plain loops in double precision.
 *
 *===----------------------------------------------------------------------===*/
#include "attn.h"
#include "attn_abi.h"
#include "layer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, TOKENS = 130, WIDTH = 48 };
enum { WINDOW = 40, SIZE = TOKENS * WIDTH };

static float q[BATCH * HEADS * SIZE], o[BATCH * HEADS * SIZE];
static float k[BATCH * KV_HEADS * SIZE], v[BATCH * KV_HEADS * SIZE];

static int fail(const char *text) {
  fprintf(stderr, "%s\n", text);
  return 1;
}

/* Uniform in [-1, 1). */
static void fill(float *x, size_t count, uint32_t seed) {
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (1 << 23) - 1;
  }
}

static double get_score(const float *qi, const float *kj) {
  double dot = 0;
  for (int d = 0; d < WIDTH; ++d)
    dot += (double)qi[d] * kj[d];
  return dot / sqrt(WIDTH);
}

/* The largest difference in row i of a head. */
static double compare_row(int head, int i) {
  const int kv = head / HEADS * KV_HEADS + head % HEADS * KV_HEADS / HEADS;
  const float *keys = k + kv * SIZE, *values = v + kv * SIZE;
  const int row = head * SIZE + i * WIDTH;
  double expected[WIDTH] = {0}, sum = 0, worst = 0;
  for (int j = i < WINDOW ? 0 : i - WINDOW + 1; j <= i; ++j) {
    double weight = exp(get_score(q + row, keys + j * WIDTH));
    sum += weight;
    for (int d = 0; d < WIDTH; ++d)
      expected[d] += weight * values[j * WIDTH + d];
  }
  for (int d = 0; d < WIDTH; ++d) {
    double difference = fabs(expected[d] / sum - o[row + d]);
    /* Written so that a NaN counts. */
    if (!(difference <= worst))
      worst = difference;
  }
  return worst;
}

static DLTensor tensor(float *data, int64_t *shape) {
  DLTensor t = {.data = data,
                .device = {kDLCPU, 0},
                .ndim = 4,
                .dtype = {kDLFloat, 32, 1},
                .shape = shape};
  return t;
}

static int run(attn_bundle *bundle, const char *from) {
  attn_error error;
  const attn_kernel *kernel = NULL;
  if (attn_kernel_pick(bundle, "layer", NULL, &kernel, &error))
    return fail(error.text);
  int64_t rows[] = {BATCH, HEADS, TOKENS, WIDTH};
  int64_t keys[] = {BATCH, KV_HEADS, TOKENS, WIDTH};
  DLTensor tq = tensor(q, rows), tk = tensor(k, keys), tv = tensor(v, keys);
  DLTensor to = tensor(o, rows);
  attn_tensors tensors = {
      .struct_size = sizeof tensors, .q = &tq, .k = &tk, .v = &tv, .o = &to};
  memset(o, 0xff, sizeof o);
  if (attn_run(kernel, &tensors, NULL, &error))
    return fail(error.text);
  double worst = 0;
  for (int head = 0; head < BATCH * HEADS; ++head)
    for (int i = 0; i < TOKENS; ++i) {
      double difference = compare_row(head, i);
      if (!(difference <= worst))
        worst = difference;
    }
  printf("%s: %s for %s, largest difference %.1e\n", from, kernel->variant,
         kernel->target, worst);
  attn_bundle_close(bundle);
  return worst <= 2e-5 ? 0 : 1;
}

/* Whether the machine has each of the words, "a,b,c", and no part of one. */
static int has_all(const char *words) {
  size_t length;
  for (; *words; words += length + (words[length] == ',')) {
    length = strcspn(words, ",");
    if (!attn_machine_has(words, length) || attn_machine_has(words, length - 1))
      return 0;
  }
  return strstr(attn_machine_features(), KERNEL.features) != NULL;
}

int main(int argc, char **argv) {
  if (argc != 2)
    return fail("usage: program BUNDLE");
  fill(q, sizeof q / sizeof q[0], 1);
  fill(k, sizeof k / sizeof k[0], 2);
  fill(v, sizeof v / sizeof v[0], 3);
  if (!has_all(KERNEL.features))
    return fail("the features of this machine are not told");
  const attn_kernel *const linked[] = {&KERNEL};
  attn_error error;
  attn_bundle *bundle = NULL;
  if (attn_bundle_open_static(linked, 1, &bundle, &error))
    return fail(error.text);
  if (run(bundle, "linked in"))
    return 1;
  if (attn_bundle_open(argv[1], &bundle, &error))
    return fail(error.text);
  return run(bundle, "bundle");
}

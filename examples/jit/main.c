/* A program that reads an attention variant from a text when it starts.
 *
 *   example_jit window.attn
 *
 * The runtime finds the compiler library, compiles the text for this CPU and
 * keeps the result on disk, so that the next start does not compile. The result
 * is compared with plain loops that know the window of window.attn. */
#include "attn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 4, KV_HEADS = 2, TOKENS = 300, WIDTH = 64, WINDOW = 100 };

static float q[HEADS][TOKENS][WIDTH], o[HEADS][TOKENS][WIDTH];
static float k[KV_HEADS][TOKENS][WIDTH], v[KV_HEADS][TOKENS][WIDTH];

/* Uniform in [-1, 1), the same everywhere. */
static void fill(float *x, size_t count, uint32_t seed) {
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (1 << 23) - 1;
  }
}

/* Row `i` of head `h` in double precision. */
static void expected_row(int h, int i, double *row) {
  const int g = h / (HEADS / KV_HEADS);
  const int first = i - WINDOW + 1 > 0 ? i - WINDOW + 1 : 0;
  double weight[TOKENS], largest = -INFINITY, sum = 0;
  for (int j = first; j <= i; ++j) {
    double dot = 0;
    for (int d = 0; d < WIDTH; ++d)
      dot += (double)q[h][i][d] * k[g][j][d];
    weight[j] = dot / sqrt(WIDTH);
    largest = fmax(largest, weight[j]);
  }
  for (int j = first; j <= i; ++j)
    sum += weight[j] = exp(weight[j] - largest);
  for (int d = 0; d < WIDTH; ++d) {
    row[d] = 0;
    for (int j = first; j <= i; ++j)
      row[d] += weight[j] / sum * v[g][j][d];
  }
}

static size_t read_text(const char *path, char *text, size_t size) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(1);
  }
  size_t length = fread(text, 1, size, file);
  fclose(file);
  return length;
}

static DLTensor tensor(void *data, int64_t *shape) {
  return (DLTensor){.data = data,
                    .device = {kDLCPU, 0},
                    .ndim = 4,
                    .dtype = {kDLFloat, 32, 1},
                    .shape = shape};
}

static int fail(const attn_error *error) {
  fprintf(stderr, "%s: %s\n", attn_status_name(error->code), error->text);
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s window.attn\n", argv[0]);
    return 2;
  }
  static char text[1 << 16];
  const size_t length = read_text(argv[1], text, sizeof text);

  attn_error error;
  attn_bundle *bundle = NULL;
  attn_jit_info info;
  const attn_kernel *kernel = NULL;
  if (attn_jit(text, length, argv[1], NULL, &bundle, &info, &error) ||
      attn_kernel_pick(bundle, NULL, NULL, &kernel, &error))
    return fail(&error);
  if (kernel->heads != HEADS || kernel->kv_heads != KV_HEADS ||
      kernel->qk_dim != WIDTH || kernel->value_dim != WIDTH) {
    fprintf(stderr, "%s: this program wants the sizes of window.attn\n",
            argv[1]);
    return 1;
  }

  fill(&q[0][0][0], sizeof q / sizeof(float), 1);
  fill(&k[0][0][0], sizeof k / sizeof(float), 2);
  fill(&v[0][0][0], sizeof v / sizeof(float), 3);
  int64_t q_shape[] = {1, HEADS, TOKENS, WIDTH};
  int64_t kv_shape[] = {1, KV_HEADS, TOKENS, WIDTH};
  DLTensor tq = tensor(q, q_shape), to = tensor(o, q_shape);
  DLTensor tk = tensor(k, kv_shape), tv = tensor(v, kv_shape);
  attn_tensors tensors = {
      .struct_size = sizeof tensors, .q = &tq, .k = &tk, .v = &tv, .o = &to};

  attn_pool *pool = NULL;
  if (attn_pool_create(0, &pool, &error))
    return fail(&error);
  attn_run_options options = {.struct_size = sizeof options, .pool = pool};
  if (attn_run(kernel, &tensors, &options, &error))
    return fail(&error);

  double worst = 0;
  for (int h = 0; h < HEADS; ++h)
    for (int i = 0; i < TOKENS; ++i) {
      double row[WIDTH];
      expected_row(h, i, row);
      for (int d = 0; d < WIDTH; ++d) {
        double difference = fabs(row[d] - o[h][i][d]);
        /* Written so that a NaN counts. */
        if (!(difference <= worst))
          worst = difference;
      }
    }
  printf("%s for %s, %s, on %zu threads: largest difference from plain loops "
         "%.2e\n",
         kernel->variant, kernel->target,
         info.source == ATTN_JIT_COMPILED ? "compiled now" : "from the cache",
         attn_pool_threads(pool), worst);
  attn_pool_destroy(pool);
  attn_bundle_close(bundle);
  return worst <= 2e-5 ? 0 : 1;
}

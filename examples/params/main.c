/* A program that gives a kernel the values of its variant's parameters.
 *
 *   example_params params.attn
 *
 * The text declares a scalar, an array over heads, an array over the tokens of
 * each sequence, and a list of tokens for each sequence. They are DLPack
 * tensors like Q, K and V, handed over by name. The results are compared with
 * plain loops that know what params.attn says. */
#include "attn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  BATCH = 2,
  HEADS = 4,
  KV_HEADS = 2,
  TOKENS = 200,
  WIDTH = 64,
  GLOBALS = 3,
};

static float q[BATCH][HEADS][TOKENS][WIDTH], o[BATCH][HEADS][TOKENS][WIDTH];
static float k[BATCH][KV_HEADS][TOKENS][WIDTH];
static float v[BATCH][KV_HEADS][TOKENS][WIDTH];

/* What the parameters hold. */
static int32_t reach;
static float slope[HEADS];
static int32_t doc[BATCH][TOKENS];
static int32_t globals[BATCH][GLOBALS];

/* Uniform in [-1, 1), the same everywhere. */
static void fill(float *x, size_t count, uint32_t seed) {
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (1 << 23) - 1;
  }
}

static int is_global(int b, int token) {
  for (int i = 0; i < GLOBALS; ++i)
    if (globals[b][i] == token)
      return 1;
  return 0;
}

static int is_allowed(int b, int i, int j) {
  return (abs(j - i) <= reach && doc[b][i] == doc[b][j]) || is_global(b, i) ||
         is_global(b, j);
}

/* Row `i` of a head in double precision. */
static void expected_row(int b, int h, int i, double *row) {
  const int g = h / (HEADS / KV_HEADS);
  double score[TOKENS], largest = -INFINITY, sum = 0;
  for (int j = 0; j < TOKENS; ++j) {
    if (!is_allowed(b, i, j))
      continue;
    double dot = 0;
    for (int d = 0; d < WIDTH; ++d)
      dot += (double)q[b][h][i][d] * k[b][g][j][d];
    score[j] = dot / sqrt(WIDTH) - (double)slope[h] * abs(j - i);
    largest = fmax(largest, score[j]);
  }
  for (int d = 0; d < WIDTH; ++d)
    row[d] = 0;
  for (int j = 0; j < TOKENS; ++j) {
    if (!is_allowed(b, i, j))
      continue;
    const double weight = exp(score[j] - largest);
    sum += weight;
    for (int d = 0; d < WIDTH; ++d)
      row[d] += weight * v[b][g][j][d];
  }
  for (int d = 0; d < WIDTH; ++d)
    row[d] /= sum;
}

static double largest_difference(void) {
  double worst = 0;
  for (int b = 0; b < BATCH; ++b)
    for (int h = 0; h < HEADS; ++h)
      for (int i = 0; i < TOKENS; ++i) {
        double row[WIDTH];
        expected_row(b, h, i, row);
        for (int d = 0; d < WIDTH; ++d) {
          const double difference = fabs(row[d] - o[b][h][i][d]);
          /* Written so that a NaN counts. */
          if (!(difference <= worst))
            worst = difference;
        }
      }
  return worst;
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

static DLTensor tensor(void *data, uint8_t code, int ndim, int64_t *shape) {
  return (DLTensor){.data = data,
                    .device = {kDLCPU, 0},
                    .ndim = ndim,
                    .dtype = {code, 32, 1},
                    .shape = shape};
}

static int fail(const attn_error *error) {
  fprintf(stderr, "%s: %s\n", attn_status_name(error->code), error->text);
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s params.attn\n", argv[0]);
    return 2;
  }
  static char text[1 << 16];
  const size_t length = read_text(argv[1], text, sizeof text);

  attn_error error;
  attn_bundle *bundle = NULL;
  const attn_kernel *kernel = NULL;
  if (attn_jit(text, length, argv[1], NULL, &bundle, NULL, &error) ||
      attn_kernel_pick(bundle, NULL, NULL, &kernel, &error))
    return fail(&error);

  fill(&q[0][0][0][0], sizeof q / sizeof(float), 1);
  fill(&k[0][0][0][0], sizeof k / sizeof(float), 2);
  fill(&v[0][0][0][0], sizeof v / sizeof(float), 3);
  int64_t q_shape[] = {BATCH, HEADS, TOKENS, WIDTH};
  int64_t kv_shape[] = {BATCH, KV_HEADS, TOKENS, WIDTH};
  DLTensor tq = tensor(q, kDLFloat, 4, q_shape);
  DLTensor tk = tensor(k, kDLFloat, 4, kv_shape);
  DLTensor tv = tensor(v, kDLFloat, 4, kv_shape);
  DLTensor to = tensor(o, kDLFloat, 4, q_shape);

  /* A scalar has no dimensions. The list has room for the longest one; what is
   * left over is filled up with -1. */
  int64_t slope_shape[] = {HEADS};
  int64_t doc_shape[] = {BATCH, TOKENS};
  int64_t globals_shape[] = {BATCH, GLOBALS};
  DLTensor treach = tensor(&reach, kDLInt, 0, NULL);
  DLTensor tslope = tensor(slope, kDLFloat, 1, slope_shape);
  DLTensor tdoc = tensor(doc, kDLInt, 2, doc_shape);
  DLTensor tglobals = tensor(globals, kDLInt, 2, globals_shape);
  const attn_argument params[] = {{"reach", &treach},
                                  {"slope", &tslope},
                                  {"doc", &tdoc},
                                  {"globals", &tglobals}};
  attn_tensors tensors = {.struct_size = sizeof tensors,
                          .q = &tq,
                          .k = &tk,
                          .v = &tv,
                          .o = &to,
                          .params = params,
                          .n_params = sizeof params / sizeof *params};

  attn_pool *pool = NULL;
  if (attn_pool_create(0, &pool, &error))
    return fail(&error);
  attn_run_options options = {.struct_size = sizeof options, .pool = pool};

  double worst = 0;
  for (int call = 0; call < 2; ++call) {
    reach = call ? 9 : 40;
    for (int h = 0; h < HEADS; ++h)
      slope[h] = (float)(call + 1) / (float)(4 << h);
    for (int b = 0; b < BATCH; ++b) {
      for (int i = 0; i < TOKENS; ++i)
        doc[b][i] = i / (50 + 20 * b);
      globals[b][0] = 0;
      globals[b][1] = b ? -1 : 130;
      globals[b][2] = call ? TOKENS - 1 : -1;
    }
    if (attn_run(kernel, &tensors, &options, &error))
      return fail(&error);
    const double difference = largest_difference();
    if (!(difference <= worst))
      worst = difference;
  }

  /* A value that can't be is refused, and nothing runs. */
  globals[0][0] = TOKENS;
  if (attn_run(kernel, &tensors, &options, &error) != ATTN_INVALID_ARGUMENT) {
    fprintf(stderr, "a global token past the end was taken\n");
    return 1;
  }
  printf("refused, as it should be: %s\n", error.text);
  printf("%s for %s, two calls: largest difference from plain loops %.2e\n",
         kernel->variant, kernel->target, worst);
  attn_pool_destroy(pool);
  attn_bundle_close(bundle);
  return worst <= 2e-5 ? 0 : 1;
}

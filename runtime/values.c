/*===- runtime/values.c - What is in a call's parameters ------------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * Kernels rely on what is checked here: a divisor of 0 would end the process,
 * and a summary that leaves out an element would leave out keys.
 *
 *===----------------------------------------------------------------------===*/
#include "internal.h"
#include <math.h>
#include <string.h>

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t attn_own_extent(const attn_kernel *kernel, const attn_call *call,
                        int32_t dim, int64_t b) {
  bool of_queries =
      dim == ATTN_DIM_QUERIES ||
      (dim == ATTN_DIM_TOKENS && kernel->flags & ATTN_KERNEL_TOP_LEFT);
  bool of_keys = dim == ATTN_DIM_KEYS || dim == ATTN_DIM_TOKENS;
  if (!of_queries && !of_keys)
    return INT64_MAX;
  int64_t own = 0;
  int64_t last = b < 0 ? call->batch : b + 1;
  for (b = larger(b, 0); b < last; ++b) {
    if (of_queries)
      own = larger(own, call->q_lens ? call->q_lens[b] : call->q_len);
    if (of_keys)
      own = larger(own, call->kv_lens ? call->kv_lens[b] : call->kv_len);
  }
  return own;
}

/*--- Single values ---------------------------------------------------------*/

static double widen_f16(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  double fraction = bits & 1023;
  double value = INFINITY;
  if (!exponent)
    value = ldexp(fraction, -24);
  else if (exponent < 31)
    value = ldexp(fraction + 1024, exponent - 25);
  else if (fraction != 0)
    value = NAN;
  return bits >> 15 ? -value : value;
}

size_t attn_size_of(int32_t type) {
  switch (type) {
  case ATTN_F16:
  case ATTN_BF16:
    return 2;
  case ATTN_BOOL:
  case ATTN_TOKENS:
    return 1;
  default:
    return 4;
  }
}

static double read_value(int32_t type, const char *at) {
  uint16_t half;
  uint32_t bits;
  int32_t integer;
  float value;
  switch (type) {
  case ATTN_F16:
    memcpy(&half, at, sizeof half);
    return widen_f16(half);
  case ATTN_BF16:
    memcpy(&half, at, sizeof half);
    bits = (uint32_t)half << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
  case ATTN_I32:
    memcpy(&integer, at, sizeof integer);
    return integer;
  case ATTN_BOOL:
  case ATTN_TOKENS:
    return *at != 0;
  default:
    memcpy(&value, at, sizeof value);
    return value;
  }
}

/* What is not as the flags want it, as words for a message; or NULL. */
static const char *find_fault(double value, int32_t flags) {
  if (flags & ATTN_PARAM_BOUNDED && !(fabs(value) <= (double)ATTN_MAX_TOKENS))
    return "must be from -1073741824 to 1073741824";
  if (flags & ATTN_PARAM_NONZERO && value == 0)
    return "must not be 0 (something is divided by it)";
  if (flags & ATTN_PARAM_POSITIVE && !(value > 0 && value < INFINITY))
    return "must be above 0 and finite";
  return NULL;
}
_Static_assert(ATTN_MAX_TOKENS == 1073741824, "as the message says");

/*--- Ranges of integers ----------------------------------------------------*/

struct range {
  int32_t low, high;
  bool zero; /* there is one */
};

/* This and the next are written so that a compiler makes vector code of them.
 */
static struct range find_range_of_i32(const int32_t *values, int64_t n) {
  int32_t low = INT32_MAX, high = INT32_MIN, zeros = 0;
  for (int64_t i = 0; i < n; ++i) {
    low = values[i] < low ? values[i] : low;
    high = values[i] > high ? values[i] : high;
    zeros += values[i] == 0;
  }
  return (struct range){low, high, zeros != 0};
}

static struct range find_range_of_bools(const unsigned char *values,
                                        int64_t n) {
  unsigned char any = 0, zero = 0;
  for (int64_t i = 0; i < n; ++i) {
    any |= values[i];
    zero |= values[i] == 0;
  }
  return (struct range){!zero, any != 0, zero};
}

static struct range find_range(int32_t type, const char *at, int64_t stride,
                               int64_t n) {
  if (type == ATTN_I32 && stride == 1)
    return find_range_of_i32((const int32_t *)(const void *)at, n);
  if (type != ATTN_I32 && stride == 1)
    return find_range_of_bools((const unsigned char *)at, n);
  struct range range = {INT32_MAX, INT32_MIN, false};
  for (int64_t i = 0; i < n; ++i) {
    int32_t value = (int32_t)read_value(
        type, at + i * stride * (int64_t)attn_size_of(type));
    range.low = value < range.low ? value : range.low;
    range.high = value > range.high ? value : range.high;
    range.zero |= value == 0;
  }
  return range;
}

static bool is_range_allowed(struct range range, int32_t flags) {
  int32_t others = flags & ~ATTN_PARAM_NONZERO;
  return !(flags & ATTN_PARAM_NONZERO && range.zero) &&
         !find_fault(range.low, others) && !find_fault(range.high, others);
}

/*--- Whole arrays ----------------------------------------------------------*/

/* A walk over an array, a row along the dimension `inner` at a time. */
struct walk {
  const attn_kernel *kernel;
  const attn_call *call;
  const attn_param_info *info;
  const attn_param *param;
  int inner;                    /* -1: a scalar */
  int batch;                    /* which dimension tells the sequence; or -1 */
  int64_t index[ATTN_MAX_DIMS]; /* of the row */
  int64_t longest[ATTN_MAX_DIMS]; /* what belongs to any sequence */
};

/* How much of a dimension belongs to the sequence that the walk is at. */
static int64_t own_extent(const struct walk *w, int i) {
  int64_t own = w->batch < 0
                    ? w->longest[i]
                    : attn_own_extent(w->kernel, w->call, w->info->dims[i],
                                      w->index[w->batch]);
  return smaller(own, w->param->extent[i]);
}

static int report(struct walk *w, int64_t inner_index, double value,
                  const char *fault, attn_error *error) {
  char place_data[256] = "";
  struct attn_text place = {place_data, sizeof place_data, 0};
  if (w->inner >= 0)
    w->index[w->inner] = inner_index;
  for (int i = 0; i < w->info->rank; ++i)
    attn_append(&place, "%s%lld", i ? ", " : " at [", (long long)w->index[i]);
  return attn_fail(error, ATTN_INVALID_ARGUMENT,
                   "parameter '%s': the value is %.*g%s%s, %s", w->info->name,
                   w->info->type == ATTN_I32 ? 10 : 9, value, place_data,
                   w->info->rank ? "]" : "", fault);
}

/* Looks at n elements one by one. */
static int check_each(struct walk *w, const char *at, int64_t stride,
                      int64_t first, int64_t n, attn_error *error) {
  int64_t step = stride * (int64_t)attn_size_of(w->info->type);
  for (int64_t i = 0; i < n; ++i) {
    double value = read_value(w->info->type, at + i * step);
    const char *fault = find_fault(value, w->info->flags);
    if (fault)
      return report(w, first + i, value, fault, error);
  }
  return ATTN_OK;
}

/* Checks the first n elements of a row, and sums the row up in its blocks. */
static int check_row(struct walk *w, const char *row, int64_t n,
                     int32_t *blocks, int64_t block_stride, attn_error *error) {
  int32_t type = w->info->type;
  bool integers = type >= ATTN_I32;
  int64_t stride = w->inner < 0 ? 0 : w->param->stride[w->inner];
  int64_t step = stride * (int64_t)attn_size_of(type);
  if (!blocks && !stride)
    n = smaller(n, 1);
  for (int64_t first = 0; first < n; first += ATTN_BLOCK) {
    int64_t count = stride ? smaller(n - first, ATTN_BLOCK) : 1;
    const char *at = row + first * step;
    if (integers) {
      struct range range = find_range(type, at, stride, count);
      if (blocks) {
        blocks[0] = range.low;
        blocks[1] = range.high;
        blocks += block_stride;
      }
      if (is_range_allowed(range, w->info->flags))
        continue;
    }
    int status = check_each(w, at, stride, first, count, error);
    if (status)
      return status;
  }
  if (!blocks)
    return ATTN_OK;
  int64_t extent = w->param->extent[w->inner];
  for (int64_t block = (n + ATTN_BLOCK - 1) / ATTN_BLOCK;
       block < (extent + ATTN_BLOCK - 1) / ATTN_BLOCK; ++block) {
    blocks[0] = INT32_MAX;
    blocks[1] = INT32_MIN;
    blocks += block_stride;
  }
  return ATTN_OK;
}

/* Goes to the next row. A stride of 0 makes all of a dimension one element. */
static bool advance(struct walk *w) {
  for (int i = w->info->rank - 1; i >= 0; --i) {
    if (i == w->inner || !w->param->stride[i])
      continue;
    if (++w->index[i] < w->param->extent[i])
      return true;
    w->index[i] = 0;
  }
  return false;
}

int attn_check_values(const attn_kernel *kernel, const attn_call *call,
                      const attn_param_info *info, const attn_param *param,
                      int32_t *blocks, attn_error *error) {
  if (!info->flags && !blocks)
    return ATTN_OK;
  struct walk w = {.kernel = kernel, .call = call, .info = info};
  w.param = param;
  w.batch = -1;
  /* The batch is never inner where lengths depend on it. */
  w.inner = info->rank - 1;
  while (w.inner > 0 && info->dims[w.inner] == ATTN_DIM_BATCH)
    --w.inner;
  if (blocks)
    w.inner = info->summary_dim;
  for (int i = info->rank - 1; i >= 0; --i) {
    if (!param->extent[i])
      return ATTN_OK;
    if (info->dims[i] == ATTN_DIM_BATCH)
      w.batch = i;
    w.longest[i] = attn_own_extent(kernel, call, info->dims[i], -1);
  }
  /* One element for the whole batch belongs to every sequence. */
  if (w.batch == w.inner || (w.batch >= 0 && !param->stride[w.batch]))
    w.batch = -1;
  int status;
  do {
    const char *row = param->data;
    int32_t *row_blocks = blocks;
    bool inside = true;
    for (int i = 0; i < info->rank; ++i) {
      if (i == w.inner)
        continue;
      inside &= w.index[i] < own_extent(&w, i);
      row += w.index[i] * param->stride[i] * (int64_t)attn_size_of(info->type);
      if (blocks)
        row_blocks += w.index[i] * param->block_stride[i];
    }
    int64_t n = w.inner < 0 ? 1 : own_extent(&w, w.inner);
    status = check_row(&w, row, inside ? n : 0, row_blocks,
                       blocks ? param->block_stride[w.inner] : 0, error);
  } while (!status && advance(&w));
  return status;
}

/*--- Lists of tokens -------------------------------------------------------*/

static int64_t read_token(const struct attn_token_list *list, int64_t row,
                          int64_t column) {
  int64_t at = row * list->stride[0] + column * list->stride[1];
  if (list->bits == 64)
    return ((const int64_t *)(const void *)list->data)[at];
  return ((const int32_t *)(const void *)list->data)[at];
}

int attn_mark_tokens(const attn_kernel *kernel, const attn_call *call,
                     const struct attn_token_list *list, int64_t positions,
                     unsigned char *flags, attn_error *error) {
  for (int64_t row = 0; row < list->rows; ++row) {
    /* A row for the whole batch has to suit its shortest sequence. */
    int64_t b = row;
    int64_t own = attn_own_extent(kernel, call, ATTN_DIM_TOKENS, b);
    for (int64_t other = 1; list->rows == 1 && other < call->batch; ++other) {
      int64_t its = attn_own_extent(kernel, call, ATTN_DIM_TOKENS, other);
      if (its < own) {
        own = its;
        b = other;
      }
    }
    unsigned char *mine = flags + row * positions;
    memset(mine, 0, (size_t)positions);
    for (int64_t column = 0; column < list->columns; ++column) {
      int64_t token = read_token(list, row, column);
      if (token < own) {
        if (token >= 0)
          mine[token] = 1;
        continue;
      }
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "parameter '%s': the value is %lld at [%lld, %lld], "
                       "must be below %lld, the number of positions of "
                       "sequence %lld (negative values are padding)",
                       list->name, (long long)token, (long long)row,
                       (long long)column, (long long)own, (long long)b);
    }
  }
  return ATTN_OK;
}

/* Whether any list has one of the `n` (up to 8) positions from `first` on. */
static bool is_in_any(const attn_kernel *kernel, const attn_param *params,
                      int64_t row, int64_t first, int64_t n) {
  for (int32_t p = 0; p < kernel->n_params; ++p) {
    if (kernel->params[p].type != ATTN_TOKENS)
      continue;
    const unsigned char *flags =
        (const unsigned char *)params[p].data + row * params[p].stride[0];
    uint64_t bytes = 0;
    if (n == sizeof bytes)
      memcpy(&bytes, flags + first, sizeof bytes);
    else
      for (int64_t i = 0; i < n; ++i)
        bytes |= flags[first + i];
    if (bytes)
      return true;
  }
  return false;
}

int64_t attn_collect_globals(const attn_kernel *kernel, const attn_call *call,
                             const attn_param *params, int64_t positions,
                             int64_t rows, int64_t stride, int32_t *globals,
                             int64_t *counts) {
  int64_t most = 0;
  for (int64_t b = 0; b < call->batch; ++b) {
    if (b >= rows) {
      counts[b] = counts[0];
      continue;
    }
    int64_t count = 0;
    for (int64_t first = 0; first < positions && count < stride; first += 8) {
      int64_t n = smaller(positions - first, 8);
      if (!is_in_any(kernel, params, b, first, n))
        continue;
      for (int64_t i = first; i < first + n; ++i)
        if (is_in_any(kernel, params, b, i, 1))
          globals[b * stride + count++] = (int32_t)i;
    }
    counts[b] = count;
    most = larger(most, count);
  }
  return most;
}

/*===- runtime/params.c - From named arguments to a kernel's parameters ---===*
 *
 * Part of attnc. Apache-2.0.
 *
 * One walk over the parameters, `lay_out`, both counts the memory they need
 * and, on a second pass that is given the memory, fills it.
 *
 *===----------------------------------------------------------------------===*/
#include "internal.h"
#include <string.h>

#define ALIGNMENT 64
/* kDLBool of newer versions of DLPack. */
#define DL_BOOL 6

/*--- Memory ----------------------------------------------------------------*/

/* Memory that is counted, and given out where there is a base. */
struct arena {
  char *base;
  size_t used;
  bool full; /* more than can be counted */
};

static void *take(struct arena *arena, size_t count, size_t size) {
  size_t start, bytes;
  if (__builtin_add_overflow(arena->used, ALIGNMENT - 1, &start) ||
      __builtin_mul_overflow(count, size, &bytes) ||
      __builtin_add_overflow(start / ALIGNMENT * ALIGNMENT, bytes,
                             &arena->used)) {
    arena->full = true;
    arena->used = 0;
  }
  start = start / ALIGNMENT * ALIGNMENT;
  return arena->base && !arena->full ? arena->base + start : NULL;
}

/* The product, or SIZE_MAX where it does not fit. */
static size_t times(size_t a, size_t b) {
  size_t product;
  return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

/*--- Names -----------------------------------------------------------------*/

/* Writes what the variant has to the buffer, and returns it. */
static const char *list_names(const attn_kernel *kernel, char *data,
                              size_t size) {
  struct attn_text text = {data, size, 0};
  attn_append(&text, "variant '%s' has%s", kernel->variant,
              kernel->n_params ? ": " : " none");
  for (int32_t i = 0; i < kernel->n_params; ++i)
    attn_append(&text, "%s%s", i ? ", " : "", kernel->params[i].name);
  return data;
}

static const DLTensor *find_argument(const attn_argument *arguments, size_t n,
                                     const char *name) {
  for (size_t i = 0; i < n; ++i)
    if (!strcmp(arguments[i].name, name))
      return arguments[i].value;
  return NULL;
}

/* Each parameter of the kernel once, and nothing else. */
static int check_names(const attn_kernel *kernel,
                       const attn_argument *arguments, size_t n,
                       attn_error *error) {
  char names[1024];
  if (n && !arguments)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "there are %zu parameters, but their array is NULL", n);
  for (size_t i = 0; i < n; ++i) {
    const char *name = arguments[i].name;
    if (!name)
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "parameter %zu of the call has no name (NULL); %s", i,
                       list_names(kernel, names, sizeof names));
    int32_t known = 0;
    while (known < kernel->n_params &&
           strcmp(kernel->params[known].name, name) != 0)
      ++known;
    if (known == kernel->n_params)
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "parameter '%s' is unknown; %s", name,
                       list_names(kernel, names, sizeof names));
    /* At most n_params names are behind this one, so this ends soon. */
    for (size_t j = 0; j < i; ++j)
      if (!strcmp(arguments[j].name, name))
        return attn_fail(error, ATTN_INVALID_ARGUMENT,
                         "parameter '%s' is given twice", name);
    if (!arguments[i].value)
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "parameter '%s' has no tensor (NULL)", name);
  }
  for (int32_t i = 0; i < kernel->n_params; ++i)
    if (!find_argument(arguments, n, kernel->params[i].name))
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "parameter '%s' is missing; %s", kernel->params[i].name,
                       list_names(kernel, names, sizeof names));
  return ATTN_OK;
}

/*--- Types and shapes ------------------------------------------------------*/

static int check_type(const attn_param_info *info, DLDataType type,
                      attn_error *error) {
  const char *wanted;
  bool right = false, integer = type.code == kDLInt && type.lanes == 1;
  switch (info->type) {
  case ATTN_BOOL:
    wanted = "bool (or u8)";
    right =
        type.bits == 8 && type.lanes == 1 &&
        (type.code == DL_BOOL || type.code == kDLInt || type.code == kDLUInt);
    break;
  case ATTN_TOKENS:
    wanted = "i32 or i64";
    right = integer && (type.bits == 32 || type.bits == 64);
    break;
  default:
    wanted = NULL;
    right = attn_same_type(type, attn_dl_type(info->type));
  }
  if (right)
    return ATTN_OK;
  return attn_fail(error, ATTN_INVALID_ARGUMENT,
                   "parameter '%s' has elements of type %s, must be %s",
                   info->name, attn_name_type(type).text,
                   wanted ? wanted
                          : attn_name_type(attn_dl_type(info->type)).text);
}

/* A dimension of a parameter: its extent in this call, and who says so. */
struct rule {
  int64_t extent;
  const char *name, *because;
};

static struct rule get_rule(const attn_kernel *kernel,
                            const attn_param_info *info, int i,
                            const attn_call *call) {
  bool top_left = kernel->flags & ATTN_KERNEL_TOP_LEFT;
  switch (info->dims[i]) {
  case ATTN_DIM_BATCH:
    return (struct rule){call->batch, "batch", "as in 'q'"};
  case ATTN_DIM_HEADS:
    return (struct rule){kernel->heads, "heads", "heads of the variant"};
  case ATTN_DIM_KV_HEADS:
    return (struct rule){kernel->kv_heads, "kv_heads",
                         "kv_heads of the variant"};
  case ATTN_DIM_QUERIES:
    return (struct rule){call->q_len, "queries", "as in 'q'"};
  case ATTN_DIM_KEYS:
    return (struct rule){call->kv_len, "keys", "as in 'k'"};
  case ATTN_DIM_TOKENS:
    if (top_left && call->q_len > call->kv_len)
      return (struct rule){call->q_len, "tokens",
                           "the queries, which are more than the keys"};
    return (struct rule){call->kv_len, "tokens", "as many as keys in 'k'"};
  default:
    return (struct rule){info->constants[i], "constant", "as declared"};
  }
}

static int check_extent(const attn_param_info *info, int i, int64_t given,
                        struct rule rule, attn_error *error) {
  if (given == rule.extent || given == 1) {
    if (rule.extent <= INT32_MAX)
      return ATTN_OK;
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "parameter '%s', dimension %d (%s): the extent is %lld, "
                     "at most %d is allowed",
                     info->name, i, rule.name, (long long)rule.extent,
                     INT32_MAX);
  }
  return attn_fail(error, ATTN_INVALID_ARGUMENT,
                   "parameter '%s', dimension %d (%s): the extent is %lld, "
                   "must be %lld (%s)%s",
                   info->name, i, rule.name, (long long)given,
                   (long long)rule.extent, rule.because,
                   rule.extent == 1 ? "" : " or 1");
}

/*--- Arrays ----------------------------------------------------------------*/

/* What stands for an array without elements, so that reading it is safe. */
static const int32_t one_i32 = 1;
static const float one_f32 = 1;
static const uint16_t one_f16 = 0x3c00, one_bf16 = 0x3f80;
static const unsigned char no_flag = 0;
static const int32_t empty_block[2] = {INT32_MAX, INT32_MIN};

static const void *get_stand_in(int32_t type) {
  switch (type) {
  case ATTN_F16:
    return &one_f16;
  case ATTN_BF16:
    return &one_bf16;
  case ATTN_I32:
    return &one_i32;
  case ATTN_BOOL:
  case ATTN_TOKENS:
    return &no_flag;
  default:
    return &one_f32;
  }
}

static bool is_empty(const attn_param_info *info, const attn_param *param) {
  for (int i = 0; i < info->rank; ++i)
    if (!param->extent[i])
      return true;
  return false;
}

/* Takes memory for the blocks and sets their strides, the last dimension
 * innermost. */
static int32_t *take_blocks(const attn_param_info *info, attn_param *param,
                            struct arena *arena) {
  size_t count = 2;
  for (int i = info->rank - 1; i >= 0; --i) {
    param->block_stride[i] = 0;
    size_t n = 1;
    if (i == info->summary_dim)
      n = ((size_t)param->extent[i] + ATTN_BLOCK - 1) / ATTN_BLOCK;
    else if (param->stride[i])
      n = (size_t)param->extent[i];
    else
      continue;
    param->block_stride[i] = (int64_t)count;
    count = times(count, n);
  }
  return take(arena, count, sizeof(int32_t));
}

/* What arrays and marked lists have in common: their blocks and values. */
static int finish_param(const attn_kernel *kernel, const attn_param_info *info,
                        const attn_call *call, attn_param *param,
                        struct arena *arena, attn_error *error) {
  if (is_empty(info, param)) {
    param->data = get_stand_in(info->type);
    memset(param->stride, 0, sizeof param->stride);
    if (info->summary_dim >= 0)
      param->blocks = empty_block;
    return ATTN_OK;
  }
  int32_t *blocks =
      info->summary_dim < 0 ? NULL : take_blocks(info, param, arena);
  param->blocks = blocks;
  if (!arena->base)
    return ATTN_OK;
  return attn_check_values(kernel, call, info, param, blocks, error);
}

static int lay_out_array(const attn_kernel *kernel, const attn_param_info *info,
                         const DLTensor *tensor, const attn_call *call,
                         attn_param *param, struct arena *arena,
                         attn_error *error) {
  int status = attn_check_array(tensor, "parameter", info->name, info->rank,
                                attn_on_host, error);
  if (!status)
    status = check_type(info, tensor->dtype, error);
  for (int i = 0; i < info->rank && !status; ++i) {
    struct rule rule = get_rule(kernel, info, i, call);
    param->extent[i] = rule.extent;
    status = check_extent(info, i, tensor->shape[i], rule, error);
  }
  char *data = NULL;
  if (!status)
    status = attn_locate_array(tensor, "parameter", info->name, param->stride,
                               &data, error);
  if (status)
    return status;
  param->data = data;
  for (int i = 0; i < info->rank; ++i)
    if (tensor->shape[i] == 1)
      param->stride[i] = 0;
  return finish_param(kernel, info, call, param, arena, error);
}

/*--- Lists of tokens -------------------------------------------------------*/

/* What all lists of a call add up to. */
struct globals {
  size_t most;     /* entries of all lists of a sequence */
  bool sequential; /* sequences have lists of their own */
};

static int lay_out_tokens(const attn_kernel *kernel,
                          const attn_param_info *info, const DLTensor *tensor,
                          const attn_call *call, attn_param *param,
                          struct globals *globals, struct arena *arena,
                          attn_error *error) {
  struct rule batch = get_rule(kernel, info, 0, call);
  struct rule tokens = get_rule(kernel, info, 1, call);
  int status =
      attn_check_array(tensor, "parameter", info->name, 2, attn_on_host, error);
  if (!status)
    status = check_type(info, tensor->dtype, error);
  if (!status)
    status = check_extent(info, 0, tensor->shape[0], batch, error);
  /* The list may have any length that positions may have. */
  if (!status)
    status = check_extent(info, 1, tokens.extent, tokens, error);
  if (!status)
    status = check_extent(info, 1, tensor->shape[1],
                          (struct rule){tensor->shape[1], "list", NULL}, error);
  struct attn_token_list list = {.name = info->name,
                                 .bits = tensor->dtype.bits};
  char *data = NULL;
  if (!status)
    status = attn_locate_array(tensor, "parameter", info->name, list.stride,
                               &data, error);
  if (status)
    return status;
  bool single = tensor->shape[0] == 1 || !list.stride[0];
  list.data = data;
  list.rows = single ? 1 : batch.extent;
  list.columns = tensor->shape[1] && !list.stride[1] ? 1 : tensor->shape[1];
  param->extent[0] = batch.extent;
  param->extent[1] = tokens.extent;
  param->stride[0] = single ? 0 : tokens.extent;
  param->stride[1] = 1;
  if (!batch.extent)
    return finish_param(kernel, info, call, param, arena, error);
  unsigned char *flags =
      take(arena, times((size_t)list.rows, (size_t)tokens.extent), 1);
  param->data = flags;
  globals->most += (size_t)list.columns;
  globals->sequential |= !single;
  /* Also where there are no positions, so that any is refused. */
  if (flags)
    status = attn_mark_tokens(kernel, call, &list, tokens.extent, flags, error);
  if (status)
    return status;
  return finish_param(kernel, info, call, param, arena, error);
}

/* The positions that are in any list, for a kernel that wants them. */
static void lay_out_globals(const attn_kernel *kernel,
                            const struct globals *globals, attn_call *call,
                            struct arena *arena) {
  int64_t positions = call->kv_len;
  if (kernel->flags & ATTN_KERNEL_TOP_LEFT && call->q_len > positions)
    positions = call->q_len;
  size_t stride =
      globals->most < (size_t)positions ? globals->most : (size_t)positions;
  size_t rows = globals->sequential ? (size_t)call->batch : 1;
  int64_t *counts = take(arena, (size_t)call->batch, sizeof *counts);
  int32_t *list = take(arena, times(rows, stride), sizeof *list);
  if (!arena->base)
    return;
  call->globals = list;
  call->globals_stride = rows == 1 ? 0 : (int64_t)stride;
  call->global_counts = counts;
  call->max_globals =
      attn_collect_globals(kernel, call, call->params, positions, (int64_t)rows,
                           (int64_t)stride, list, counts);
}

/*--- All of a call ---------------------------------------------------------*/

/* Counts the memory of a call's parameters, and fills it where there is any.
 * The call gets what points into it. */
static int lay_out(const attn_kernel *kernel, const attn_argument *arguments,
                   size_t n, attn_call *call, struct arena *arena,
                   attn_error *error) {
  struct globals globals = {0, false};
  attn_param *params =
      take(arena, (size_t)kernel->n_params, sizeof(attn_param));
  for (int32_t i = 0; i < kernel->n_params; ++i) {
    const attn_param_info *info = &kernel->params[i];
    const DLTensor *tensor = find_argument(arguments, n, info->name);
    attn_param param = {0};
    int status =
        info->type == ATTN_TOKENS
            ? lay_out_tokens(kernel, info, tensor, call, &param, &globals,
                             arena, error)
            : lay_out_array(kernel, info, tensor, call, &param, arena, error);
    if (status)
      return status;
    if (arena->full)
      return attn_fail(error, ATTN_OUT_OF_MEMORY,
                       "parameter '%s' needs more memory than can be counted",
                       info->name);
    if (params)
      params[i] = param;
  }
  call->params = kernel->n_params ? params : NULL;
  if (kernel->flags & ATTN_KERNEL_GLOBALS)
    lay_out_globals(kernel, &globals, call, arena);
  if (arena->full)
    return attn_fail(error, ATTN_OUT_OF_MEMORY,
                     "the lists of tokens need more memory than can be "
                     "counted");
  return ATTN_OK;
}

static int check_call(const attn_kernel *kernel, const attn_call *call,
                      attn_error *error) {
  if (!kernel || !call)
    return attn_fail(error, ATTN_INVALID_ARGUMENT, "parameters: %s is NULL",
                     kernel ? "the call" : "the kernel");
  if (call->batch < 0 || call->q_len < 0 || call->kv_len < 0)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_call has batch %lld, q_len %lld, kv_len %lld; none "
                     "may be negative",
                     (long long)call->batch, (long long)call->q_len,
                     (long long)call->kv_len);
  return ATTN_OK;
}

int attn_params_check(const attn_kernel *kernel, const attn_argument *arguments,
                      size_t n, const attn_call *call, size_t *bytes,
                      attn_error *error) {
  int status = check_call(kernel, call, error);
  if (!status && !bytes)
    status = attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "attn_params_check: bytes is NULL");
  if (!status)
    status = check_names(kernel, arguments, n, error);
  if (status)
    return status;
  struct arena arena = {NULL, 0, false};
  attn_call copy = *call;
  status = lay_out(kernel, arguments, n, &copy, &arena, error);
  if (status)
    return status;
  *bytes = arena.used;
  return attn_succeed(error);
}

int attn_params_fill(const attn_kernel *kernel, const attn_argument *arguments,
                     size_t n, attn_call *call, void *memory,
                     attn_error *error) {
  int status = check_call(kernel, call, error);
  if (!status)
    status = check_names(kernel, arguments, n, error);
  if (status)
    return status;
  attn_call filled = *call;
  filled.params = NULL;
  filled.globals = NULL;
  filled.global_counts = NULL;
  filled.globals_stride = filled.max_globals = 0;
  struct arena arena = {memory, 0, false};
  status = lay_out(kernel, arguments, n, &filled, &arena, error);
  if (status)
    return status;
  if (!memory && arena.used)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_params_fill: the memory is NULL, %zu bytes are "
                     "needed",
                     arena.used);
  *call = filled;
  return attn_succeed(error);
}

/* What `rows` of each group make, or a negative number: too many. */
static int64_t count_groups(int64_t rows, int64_t heads, int64_t per_item) {
  int64_t n;
  if (__builtin_mul_overflow(rows, heads, &n))
    return -1;
  return n < 1 ? 0 : (n - 1) / per_item + 1;
}

int64_t attn_count_splits(const attn_kernel *kernel, const attn_call *call) {
  if (kernel->split_keys < 1 || call->kv_len <= kernel->split_keys)
    return 0;
  return (call->kv_len - 1) / kernel->split_keys + 1;
}

int64_t attn_count_items(const attn_kernel *kernel, const attn_call *call) {
  if (call->batch < 1 || call->q_len < 1 || kernel->heads < 1)
    return 0;
  int64_t globals = kernel->flags & ATTN_KERNEL_GLOBALS ? call->max_globals : 0;
  int64_t rows =
      count_groups(call->q_len, kernel->item_heads, kernel->item_rows);
  int64_t more = count_groups(globals, kernel->item_heads, kernel->item_rows);
  int64_t n;
  if (rows < 0 || more < 0 || __builtin_add_overflow(rows, more, &n) ||
      __builtin_add_overflow(n, attn_count_splits(kernel, call), &n) ||
      __builtin_mul_overflow(n, kernel->item_groups, &n) ||
      __builtin_mul_overflow(n, call->batch, &n) || n > INT64_MAX / 2)
    return -1;
  return n;
}

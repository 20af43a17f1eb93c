/*===- runtime/tensor.c - From DLPack tensors to a kernel's call ----------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * Nothing reaches a kernel unchecked: a kernel computes addresses from what is
 * found here, in 64 bits and without looking again.
 *
 *===----------------------------------------------------------------------===*/
#include "internal.h"
#include <stdio.h>
#include <string.h>

/* A tensor in the order batch, head, token, column, whatever its layout. */
struct view {
  const char *name;
  int rank;
  const int *axis; /* which dimension of the tensor holds each role */
  char *data;
  int64_t extent[4];
  int64_t stride[4];
};

static const int axes_bhtd[4] = {0, 1, 2, 3};
static const int axes_bthd[4] = {0, 2, 1, 3};

static const char *role_name(const struct view *view, int role) {
  static const char *const q_names[] = {"batch", "heads", "queries", "width"};
  static const char *const k_names[] = {"batch", "kv heads", "keys", "width"};
  bool of_keys = view->name[0] == 'k' || view->name[0] == 'v';
  return of_keys ? k_names[role] : q_names[role];
}

DLDataType attn_dl_type(int32_t type) {
  switch (type) {
  case ATTN_F16:
    return (DLDataType){kDLFloat, 16, 1};
  case ATTN_BF16:
    return (DLDataType){kDLBfloat, 16, 1};
  case ATTN_I32:
    return (DLDataType){kDLInt, 32, 1};
  default:
    return (DLDataType){kDLFloat, 32, 1};
  }
}

bool attn_same_type(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

struct attn_type_name attn_name_type(DLDataType type) {
  static const char *const codes[] = {"i",  "u",       "f",   "handle",
                                      "bf", "complex", "bool"};
  struct attn_type_name name;
  if (type.code < sizeof codes / sizeof codes[0])
    snprintf(name.text, sizeof name.text, "%s%u", codes[type.code], type.bits);
  else
    snprintf(name.text, sizeof name.text, "type code %u of %u bits", type.code,
             type.bits);
  if (type.lanes != 1) {
    size_t used = strlen(name.text);
    snprintf(name.text + used, sizeof name.text - used, "x%u", type.lanes);
  }
  return name;
}

const struct attn_place_rule attn_on_host = {{kDLCPU, 0},
                                             "the runtime reads its values"};

static bool is_same_place(DLDevice a, DLDevice b) {
  return a.device_type == b.device_type &&
         (a.device_type == kDLCPU || a.device_id == b.device_id);
}

int attn_check_array(const DLTensor *tensor, const char *kind, const char *name,
                     int rank, struct attn_place_rule rule, attn_error *error) {
  if (!is_same_place(tensor->device, rule.place))
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "%s '%s' is on %s, must be on %s (%s)", kind, name,
                     attn_name_place(tensor->device).text,
                     attn_name_place(rule.place).text, rule.because);
  if (tensor->ndim != rank)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "%s '%s' has %d dimensions, must have %d", kind, name,
                     tensor->ndim, rank);
  if (rank && !tensor->shape)
    return attn_fail(error, ATTN_INVALID_ARGUMENT, "%s '%s' has no shape", kind,
                     name);
  for (int i = 0; i < rank; ++i)
    if (tensor->shape[i] < 0)
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "%s '%s', dimension %d: the extent is %lld, must not be "
                       "negative",
                       kind, name, i, (long long)tensor->shape[i]);
  return ATTN_OK;
}

/* The strides, in elements: as given, or those of a compact tensor. */
static int get_strides(const DLTensor *tensor, const char *kind,
                       const char *name, int64_t *strides, attn_error *error) {
  if (tensor->strides) {
    if (tensor->ndim)
      memcpy(strides, tensor->strides, (size_t)tensor->ndim * sizeof *strides);
    return ATTN_OK;
  }
  int64_t stride = 1;
  for (int i = tensor->ndim - 1; i >= 0; --i) {
    strides[i] = stride;
    int64_t extent = tensor->shape[i] ? tensor->shape[i] : 1;
    if (__builtin_mul_overflow(stride, extent, &stride))
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "%s '%s', dimension %d: with the extent %lld there are "
                       "more elements than 64 bits can count",
                       kind, name, i, (long long)extent);
  }
  return ATTN_OK;
}

int attn_locate_array(const DLTensor *tensor, const char *kind,
                      const char *name, int64_t *strides, char **data,
                      attn_error *error) {
  *data = NULL;
  int status = get_strides(tensor, kind, name, strides, error);
  if (status)
    return status;
  int64_t bytes = tensor->dtype.bits / 8;
  for (int i = 0; i < tensor->ndim; ++i)
    if (!tensor->shape[i])
      return ATTN_OK;
  if (!tensor->data)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "%s '%s' has no data (NULL) but is not empty", kind, name);
  uintptr_t base;
  if (__builtin_add_overflow((uintptr_t)tensor->data, tensor->byte_offset,
                             &base))
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "%s '%s': byte_offset %llu lies outside the address space",
                     kind, name, (unsigned long long)tensor->byte_offset);
  if (base % (uintptr_t)bytes)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "%s '%s': the data is at %p, must be aligned to its "
                     "elements of %lld bytes",
                     kind, name, (void *)base, (long long)bytes);
  int64_t low = 0, high = bytes; /* bytes from `base` */
  for (int i = 0; i < tensor->ndim; ++i) {
    int64_t span = 0;
    bool bad = __builtin_mul_overflow(tensor->shape[i] - 1, strides[i], &span);
    bad |= __builtin_mul_overflow(span, bytes, &span);
    int64_t *end = span < 0 ? &low : &high;
    bad |= __builtin_add_overflow(*end, span, end);
    bad |= low < 0 && (uintptr_t)0 - (uintptr_t)low > base;
    bad |= (uintptr_t)high > UINTPTR_MAX - base;
    if (bad)
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "%s '%s', dimension %d: the extent %lld with the stride "
                       "%lld reaches outside the address space",
                       kind, name, i, (long long)tensor->shape[i],
                       (long long)strides[i]);
  }
  *data = (char *)base;
  return ATTN_OK;
}

static int make_view(struct view *view, const DLTensor *tensor, int32_t type,
                     bool output, DLDevice place, attn_error *error) {
  const char *name = view->name;
  if (!tensor)
    return attn_fail(error, ATTN_INVALID_ARGUMENT, "tensor '%s' is missing",
                     name);
  struct attn_place_rule rule = {place, "as 'q'"};
  int status =
      attn_check_array(tensor, "tensor", name, view->rank, rule, error);
  if (status)
    return status;
  DLDataType wanted = attn_dl_type(type);
  if (!attn_same_type(tensor->dtype, wanted))
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "tensor '%s' has elements of type %s, must be %s", name,
                     attn_name_type(tensor->dtype).text,
                     attn_name_type(wanted).text);
  int64_t strides[4];
  status =
      attn_locate_array(tensor, "tensor", name, strides, &view->data, error);
  if (status)
    return status;
  for (int role = 0; role < view->rank; ++role) {
    int axis = view->axis[role];
    view->extent[role] = tensor->shape[axis];
    view->stride[role] = strides[axis];
    if (output && view->data && view->extent[role] > 1 && !strides[axis])
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "tensor '%s', dimension %d (%s): the stride is 0 over "
                       "an extent of %lld; an output needs a place for each "
                       "element",
                       name, axis, role_name(view, role),
                       (long long)view->extent[role]);
  }
  return ATTN_OK;
}

/* One extent against what it has to be, and who says so. */
static int check_extent(const struct view *view, int role, int64_t wanted,
                        const char *because, attn_error *error) {
  if (view->extent[role] == wanted)
    return ATTN_OK;
  return attn_fail(error, ATTN_INVALID_ARGUMENT,
                   "tensor '%s', dimension %d (%s): the extent is %lld, must "
                   "be %lld (%s)",
                   view->name, view->axis[role], role_name(view, role),
                   (long long)view->extent[role], (long long)wanted, because);
}

static int check_lens(const DLTensor *tensor, const char *name, int64_t batch,
                      attn_error *error) {
  if (!tensor)
    return ATTN_OK;
  int status = attn_check_array(tensor, "tensor", name, 1, attn_on_host, error);
  if (status)
    return status;
  if (tensor->dtype.code != kDLInt || tensor->dtype.lanes != 1 ||
      (tensor->dtype.bits != 32 && tensor->dtype.bits != 64))
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "tensor '%s' has elements of type %s, must be i32 or i64",
                     name, attn_name_type(tensor->dtype).text);
  if (tensor->shape[0] != batch)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "tensor '%s', dimension 0 (batch): the extent is %lld, "
                     "must be %lld (as in 'q')",
                     name, (long long)tensor->shape[0], (long long)batch);
  int64_t stride;
  char *data;
  return attn_locate_array(tensor, "tensor", name, &stride, &data, error);
}

int attn_check_tensors(const attn_kernel *kernel, const attn_tensors *tensors,
                       int layout, attn_call *call, attn_error *error) {
  const int *axis = layout == ATTN_BTHD ? axes_bthd : axes_bhtd;
  struct view q = {.name = "q", .rank = 4, .axis = axis};
  struct view k = {.name = "k", .rank = 4, .axis = axis};
  struct view v = {.name = "v", .rank = 4, .axis = axis};
  struct view o = {.name = "o", .rank = 4, .axis = axis};
  struct view lse = {.name = "lse", .rank = 3, .axis = axis};
  DLDevice place = tensors->q ? tensors->q->device : (DLDevice){kDLCPU, 0};
  int status = make_view(&q, tensors->q, kernel->q_type, false, place, error);
  if (!status)
    status = make_view(&k, tensors->k, kernel->kv_type, false, place, error);
  if (!status)
    status = make_view(&v, tensors->v, kernel->kv_type, false, place, error);
  if (!status)
    status = make_view(&o, tensors->o, kernel->out_type, true, place, error);
  if (!status && tensors->lse)
    status = make_view(&lse, tensors->lse, ATTN_F32, true, place, error);
  if (status)
    return status;

  int64_t batch = q.extent[0], q_len = q.extent[2], kv_len = k.extent[2];
  const struct {
    const struct view *view;
    int role;
    int64_t wanted;
    const char *because;
  } rules[] = {
      {&q, 1, kernel->heads, "heads of the variant"},
      {&q, 3, kernel->qk_dim, "query/key width of the variant"},
      {&k, 0, batch, "as in 'q'"},
      {&k, 1, kernel->kv_heads, "kv_heads of the variant"},
      {&k, 3, kernel->qk_dim, "query/key width of the variant"},
      {&v, 0, batch, "as in 'q'"},
      {&v, 1, kernel->kv_heads, "kv_heads of the variant"},
      {&v, 2, kv_len, "as in 'k'"},
      {&v, 3, kernel->value_dim, "value width of the variant"},
      {&o, 0, batch, "as in 'q'"},
      {&o, 1, kernel->heads, "heads of the variant"},
      {&o, 2, q_len, "as in 'q'"},
      {&o, 3, kernel->value_dim, "value width of the variant"},
      {&lse, 0, batch, "as in 'q'"},
      {&lse, 1, kernel->heads, "heads of the variant"},
      {&lse, 2, q_len, "as in 'q'"},
  };
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; ++i) {
    if (rules[i].view == &lse && !tensors->lse)
      continue;
    status = check_extent(rules[i].view, rules[i].role, rules[i].wanted,
                          rules[i].because, error);
    if (status)
      return status;
  }
  status = check_lens(tensors->q_lens, "q_lens", batch, error);
  if (!status)
    status = check_lens(tensors->kv_lens, "kv_lens", batch, error);
  if (status)
    return status;

  *call = (attn_call){.q = q.data,
                      .k = k.data,
                      .v = v.data,
                      .o = o.data,
                      .lse = tensors->lse ? (float *)(void *)lse.data : NULL,
                      .batch = batch,
                      .q_len = q_len,
                      .kv_len = kv_len};
  memcpy(call->q_stride, q.stride, sizeof call->q_stride);
  memcpy(call->k_stride, k.stride, sizeof call->k_stride);
  memcpy(call->v_stride, v.stride, sizeof call->v_stride);
  memcpy(call->o_stride, o.stride, sizeof call->o_stride);
  memcpy(call->lse_stride, lse.stride, sizeof call->lse_stride);

  /* Of an empty call nothing is computed, however long it says it is. */
  if (!batch || !q_len || !kernel->heads)
    return ATTN_OK;
  const struct {
    const char *name;
    int64_t tokens;
  } lengths[] = {{"q", q_len}, {"k", kv_len}};
  for (size_t i = 0; i < 2; ++i)
    if (lengths[i].tokens > ATTN_MAX_TOKENS)
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "tensor '%s', dimension %d (tokens): the extent is "
                       "%lld, at most %lld is allowed",
                       lengths[i].name, axis[2], (long long)lengths[i].tokens,
                       (long long)ATTN_MAX_TOKENS);
  return ATTN_OK;
}

/* Copies a checked tensor of lengths, each from 0 to `limit`. */
static int copy_lens(const DLTensor *tensor, const char *name, int64_t limit,
                     int64_t *lens, attn_error *error) {
  int64_t stride = tensor->strides ? tensor->strides[0] : 1;
  const char *data = (const char *)tensor->data + tensor->byte_offset;
  for (int64_t b = 0; b < tensor->shape[0]; ++b) {
    if (tensor->dtype.bits == 64)
      lens[b] = ((const int64_t *)(const void *)data)[b * stride];
    else
      lens[b] = ((const int32_t *)(const void *)data)[b * stride];
    if (lens[b] < 0 || lens[b] > limit)
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "tensor '%s', dimension 0 (batch): entry %lld is %lld, "
                       "must be from 0 to %lld",
                       name, (long long)b, (long long)lens[b],
                       (long long)limit);
  }
  return ATTN_OK;
}

int attn_read_lens(const attn_tensors *tensors, attn_call *call, int64_t *lens,
                   attn_error *error) {
  int status = ATTN_OK;
  if (tensors->q_lens) {
    status = copy_lens(tensors->q_lens, "q_lens", call->q_len, lens, error);
    call->q_lens = lens;
  }
  if (tensors->kv_lens && !status) {
    lens += call->batch;
    status = copy_lens(tensors->kv_lens, "kv_lens", call->kv_len, lens, error);
    call->kv_lens = lens;
  }
  return status;
}

/*===- runtime/attn_abi.h - What kernels and the runtime agree on ---------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * The seam between generated code, the compiler library and the C runtime.
 * C11 and C++17. Every struct begins with what tells its version; fields are
 * only ever appended, and the version number is raised when a meaning changes.
 *
 *===----------------------------------------------------------------------===*/
#ifndef ATTN_ABI_H
#define ATTN_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ATTN_ABI_VERSION 1u
#define ATTN_BUNDLE_MAGIC 0x4e545441u /* "ATTN" as a little-endian word */
/* The one symbol a bundle exports: a `const attn_bundle_table`. */
#define ATTN_BUNDLE_SYMBOL "attn_bundle"

/* The longest sequence. Positions are 32-bit integers in masks, and a position
 * plus or minus a constant of this size must not wrap around. */
#define ATTN_MAX_TOKENS (INT64_C(1) << 30)

/* One call: pointers, lengths and strides. Strides count elements, may be any
 * 64-bit value (0 and negative included), in the order batch, head, token,
 * column. Q is [batch, heads, q_len, qk_dim], K [batch, kv_heads, kv_len,
 * qk_dim], V [batch, kv_heads, kv_len, value_dim], O [batch, heads, q_len,
 * value_dim], LSE [batch, heads, q_len]. Only element alignment is assumed. */
typedef struct attn_call {
  const void *q;
  const void *k;
  const void *v;
  void *o;
  float *lse;             /* NULL: not wanted */
  const int64_t *q_lens;  /* [batch], each 0..q_len; NULL: all q_len */
  const int64_t *kv_lens; /* [batch], each 0..kv_len; NULL: all kv_len */
  int64_t batch;
  int64_t q_len;
  int64_t kv_len;
  int64_t q_stride[4];
  int64_t k_stride[4];
  int64_t v_stride[4];
  int64_t o_stride[4];
  int64_t lse_stride[3];
  const void *const *params; /* one a declared parameter; NULL where none */
} attn_call;

/* Runs work items first..last-1 of a call. Pure: no allocation, no globals, no
 * threads, and each item writes rows of its own, so items can run in any order
 * on any thread. `scratch` is the caller's, `scratch_bytes` long, aligned to
 * 64, not shared between concurrent calls; its contents do not matter. */
typedef void (*attn_kernel_fn)(const attn_call *call, int64_t first,
                               int64_t last, void *scratch);

typedef enum attn_dtype {
  ATTN_F32 = 0,
  ATTN_F16 = 1,
  ATTN_BF16 = 2,
} attn_dtype;

/* One kernel: a variant compiled for a target. */
typedef struct attn_kernel {
  uint32_t abi_version; /* ATTN_ABI_VERSION of the compiler */
  uint32_t struct_size; /* sizeof(attn_kernel) of the compiler */
  const char *variant;  /* name in the text */
  const char *target;   /* e.g. the --target it was compiled for */
  const char *features; /* what the CPU must have: "a,b,c", may be "" */
  const char *text;     /* canonical text of the variant */
  attn_kernel_fn run;
  int64_t heads, kv_heads;
  int64_t qk_dim, value_dim;
  int32_t q_type, kv_type, out_type; /* attn_dtype */
  int32_t preference;                /* the highest that runs here is taken */
  /* Work items of a call: batch * item_groups * ceil(q_len * item_heads /
   * item_rows); none where batch, q_len or heads is zero. An item is
   * `item_rows` consecutive (query, head of the group) rows. */
  int64_t item_groups, item_heads, item_rows;
  int64_t scratch_bytes;
  int32_t n_params; /* declared parameters, in order of `params` */
  int32_t reserved;
} attn_kernel;

typedef struct attn_bundle_table {
  uint32_t magic;       /* ATTN_BUNDLE_MAGIC */
  uint32_t abi_version; /* ATTN_ABI_VERSION of the compiler */
  uint32_t struct_size; /* sizeof(attn_bundle_table) of the compiler */
  uint32_t n_kernels;
  const attn_kernel *const *kernels;
  const char *producer; /* "attnc X.Y.Z" */
} attn_bundle_table;

/*--- What the runtime asks of the machine (implemented under targets/) -----*/

/* True if the CPU and the operating system both allow `feature` (a word of
 * attn_kernel.features). Unknown words are false. Thread-safe. */
int attn_machine_has(const char *feature, size_t length);
/* All features present here, comma separated; static storage. */
const char *attn_machine_features(void);

/*--- What the compiler library (libattnc.so) offers the runtime ------------*/

/* The entry points are looked up by name with dlsym. */
#define ATTNC_LIBRARY "libattnc.so.0"

typedef struct attnc_request {
  uint32_t abi_version; /* ATTN_ABI_VERSION of the caller */
  uint32_t struct_size;
  const char *text; /* need not end in NUL */
  size_t text_size;
  const char *file;           /* name for messages */
  const char *targets;        /* "T,T,..." or "host" */
  const char *variant;        /* NULL: all of the text */
  const char *plan;           /* "KEY=VALUE,...", NULL: the planner's */
  const char *const *defines; /* "NAME=VALUE" each */
  size_t n_defines;
} attnc_request;

/* Compiles a text to a bundle (a shared library) written whole to `out_path`
 * or not at all; an `out_path` /proc/self/fd/N names an open, empty file of the
 * caller's, which is written in place. Returns 0; else nonzero and *error is a
 * text to be given to attnc_free. Thread-safe; never throws, never exits. */
typedef int (*attnc_compile_fn)(const attnc_request *request,
                                const char *out_path, char **error);
#define ATTNC_COMPILE_SYMBOL "attnc_compile"
typedef void (*attnc_free_fn)(char *text);
#define ATTNC_FREE_SYMBOL "attnc_free"
/* A text that differs whenever generated code may differ. */
typedef const char *(*attnc_version_fn)(void);
#define ATTNC_VERSION_SYMBOL "attnc_version"

#ifdef __cplusplus
}
#endif
#endif

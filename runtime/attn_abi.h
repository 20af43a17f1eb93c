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

#define ATTN_ABI_VERSION 2u
#define ATTN_BUNDLE_MAGIC 0x4e545441u /* "ATTN" as a little-endian word */
/* The one symbol a bundle exports: a `const attn_bundle_table`. */
#define ATTN_BUNDLE_SYMBOL "attn_bundle"

/* The longest sequence. Positions are 32-bit integers in masks, and a position
 * plus or minus a constant of this size must not wrap around. */
#define ATTN_MAX_TOKENS (INT64_C(1) << 30)

/* The most dimensions a parameter has. */
#define ATTN_MAX_DIMS 8
/* How many consecutive elements one entry of attn_param.blocks sums up. */
#define ATTN_BLOCK 32

/* One parameter of a call, checked and laid out by the runtime. Extents are
 * those of the declared dimensions, below 2^31; along one in which the caller
 * gave a single element the stride is 0. A scalar has none. Elements are those
 * of attn_param_info.type; a bool is a byte, 0 or not. A list of tokens is a
 * bool for each [batch, position]: whether the position is in the list.
 *
 * An array without elements (an extent of 0) has `data` of one element, and
 * strides of 0, so that reading it is safe; so have its blocks.
 *
 * An index beyond its dimension takes the nearest element. An index into
 * ATTN_DIM_QUERIES counts from the first query of its sequence. */
typedef struct attn_param {
  const void *data;
  int64_t extent[ATTN_MAX_DIMS];
  int64_t stride[ATTN_MAX_DIMS]; /* in elements */
  /* Where attn_param_info.summary_dim asks for it, else NULL: the smallest and
   * the largest value of each ATTN_BLOCK elements along that dimension, two
   * numbers side by side. Elements past a sequence's own length are left out.
   */
  const int32_t *blocks;
  int64_t block_stride[ATTN_MAX_DIMS]; /* in int32_t; of the summed dimension,
                                          from block to block */
} attn_param;

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
  const attn_param *params; /* one a declared parameter; NULL where none */
  /* For kernels with ATTN_KERNEL_GLOBALS: for each entry of the batch the
   * positions in any of its lists of tokens, ascending, each once. */
  const int32_t *globals;
  int64_t globals_stride;       /* between entries of the batch */
  const int64_t *global_counts; /* [batch], each at most max_globals */
  int64_t max_globals;
  /* For kernels with `split_keys`, where the call has items of splits: memory
   * of [batch, item_groups, splits] states of `state_bytes` each, aligned to
   * 16. Its contents do not matter before and after. */
  void *states;
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
  ATTN_I32 = 3,    /* parameters only, as all that follow */
  ATTN_BOOL = 4,   /* a byte, 0 or not */
  ATTN_TOKENS = 5, /* a list of positions for each entry of the batch */
} attn_dtype;

typedef enum attn_dim {
  ATTN_DIM_CONSTANT = 0,
  ATTN_DIM_BATCH = 1,
  ATTN_DIM_HEADS = 2,
  ATTN_DIM_KV_HEADS = 3,
  ATTN_DIM_QUERIES = 4, /* q_len */
  ATTN_DIM_KEYS = 5,    /* kv_len */
  /* All positions: kv_len, with ATTN_KERNEL_TOP_LEFT q_len if that is more. */
  ATTN_DIM_TOKENS = 6,
} attn_dim;

/* What a kernel relies on in the values of a parameter, within the logical
 * shapes of a call. The runtime refuses other values. */
typedef enum attn_param_flag {
  ATTN_PARAM_BOUNDED = 1,  /* at most ATTN_MAX_TOKENS in magnitude */
  ATTN_PARAM_NONZERO = 2,  /* an integer that something is divided by */
  ATTN_PARAM_POSITIVE = 4, /* above 0, and finite */
} attn_param_flag;

/* A declared parameter. */
typedef struct attn_param_info {
  const char *name;
  int32_t type; /* attn_dtype */
  int32_t rank; /* 0: a scalar. A list of tokens has 2: batch, positions */
  int32_t dims[ATTN_MAX_DIMS];      /* attn_dim */
  int64_t constants[ATTN_MAX_DIMS]; /* extents of ATTN_DIM_CONSTANT, else 0 */
  int32_t flags;                    /* of attn_param_flag */
  int32_t summary_dim; /* which dimension attn_param.blocks sums up, never the
                          batch, and only of i32, bool and tokens; or -1 */
} attn_param_info;

typedef enum attn_kernel_flag {
  ATTN_KERNEL_TOP_LEFT = 1, /* query i is at position i */
  ATTN_KERNEL_GLOBALS = 2,  /* reads attn_call.globals; see `item_groups` */
} attn_kernel_flag;

/* Code that runs on a device beside the CPU. Its function takes a pointer to an
 * attn_call in the device's memory, whose pointers are the device's too, and an
 * int64_t `first`; block i of a launch does work item first + i. */
typedef struct attn_device_code {
  const char *entry;    /* name of the function */
  const char *text;     /* for the device's driver to compile; ends in NUL */
  const void *binary;   /* compiled for just this kind of device, or NULL */
  uint64_t binary_size; /* in bytes */
  int32_t threads;      /* of a block, in one dimension */
  int32_t shared_bytes; /* of dynamic shared memory for a block */
  /* With attn_kernel.split_keys the function that puts together what items of
   * splits stored, to be launched in the same way once all items are done, with
   * a block for each (batch, item group); it does nothing where the call has no
   * items of splits. Else NULL and 0. */
  const char *merge_entry;
  int32_t merge_threads;
  int32_t merge_shared_bytes;
} attn_device_code;

/* One kernel: a variant compiled for a target. */
typedef struct attn_kernel {
  uint32_t abi_version; /* ATTN_ABI_VERSION of the compiler */
  uint32_t struct_size; /* sizeof(attn_kernel) of the compiler */
  const char *variant;  /* name in the text */
  const char *target;   /* e.g. the --target it was compiled for */
  const char *features; /* what the CPU or the device must have: "a,b,c", may
                           be "" */
  const char *text;     /* canonical text of the variant */
  attn_kernel_fn run;   /* NULL where `device` has the code */
  int64_t heads, kv_heads;
  int64_t qk_dim, value_dim;
  int32_t q_type, kv_type, out_type; /* attn_dtype */
  int32_t preference;                /* the highest that runs here is taken */
  /* Work items of a call: batch * item_groups * (ceil(q_len * item_heads /
   * item_rows) + n + splits), none where batch, q_len or heads is zero. An item
   * is `item_rows` consecutive (query, head of the group) rows. n is 0, or with
   * ATTN_KERNEL_GLOBALS ceil(max_globals * item_heads / item_rows): the queries
   * at positions of `globals` are done by items of their own. `splits` is 0, or
   * with `split_keys`, where kv_len is more than that, ceil(kv_len /
   * split_keys): keys of sequences whose rows are those of one item are done by
   * items of their own, which store states for the merge. */
  int64_t item_groups, item_heads, item_rows;
  int64_t scratch_bytes;
  int32_t n_params; /* declared parameters, in the order of attn_call.params */
  int32_t flags;    /* of attn_kernel_flag */
  const attn_param_info *params;
  const attn_device_code *device; /* NULL for a kernel of the CPU */
  int64_t split_keys;             /* 0: keys are never split */
  int64_t state_bytes;            /* what an item of a split stores */
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

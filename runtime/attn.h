/*===- runtime/attn.h - Run compiled attention kernels --------------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * The public interface of the runtime library: open a bundle of kernels (or
 * compile a text), pick the kernel for this CPU or for a device, run it on
 * DLPack tensors.
 * C11 and C++. Beside this header it needs `attn_abi.h` and `dlpack/dlpack.h`.
 *
 * Conventions:
 *  - Every function that can fail returns an `attn_status` and, where the last
 *    argument is not NULL, writes the reason to the caller's `attn_error`. No
 *    function throws, aborts or prints.
 *  - Thread safety: all functions may be called from any thread at once,
 *    except that an object may not be used while it is being closed.
 *  - Structs that begin with `struct_size` are set to zero and then told their
 *    size: `attn_run_options o = {.struct_size = sizeof o};`. A library that
 *    is older than the header refuses fields it does not know.
 *
 *===----------------------------------------------------------------------===*/
#ifndef ATTN_H
#define ATTN_H

#include "attn_abi.h"
#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ATTN_API __attribute__((visibility("default")))
#else
#define ATTN_API
#endif

#define ATTN_VERSION_MAJOR 0
#define ATTN_VERSION_MINOR 1
#define ATTN_VERSION_PATCH 0
/* Compares as a number: 0x00MMmmpp. */
#define ATTN_VERSION                                                           \
  ((ATTN_VERSION_MAJOR << 16) | (ATTN_VERSION_MINOR << 8) | ATTN_VERSION_PATCH)

/* ATTN_VERSION of the library that runs, which may differ from the header's. */
ATTN_API uint32_t attn_version(void);
/* The same as "MAJOR.MINOR.PATCH"; static storage. */
ATTN_API const char *attn_version_string(void);

/*--- Errors ----------------------------------------------------------------*/

typedef enum attn_status {
  ATTN_OK = 0,
  ATTN_INVALID_ARGUMENT = 1, /* a tensor, an option: the text names it */
  ATTN_BAD_BUNDLE = 2,       /* truncated, foreign, or of another version */
  ATTN_NOT_FOUND = 3,        /* no such file, variant or target */
  ATTN_UNSUPPORTED_CPU = 4,  /* the kernel needs what this CPU lacks */
  ATTN_UNSUPPORTED = 5,      /* valid, but this version does not do it */
  ATTN_OUT_OF_MEMORY = 6,
  ATTN_IO_ERROR = 7,
  ATTN_NO_COMPILER = 8,    /* the compiler library is missing or foreign */
  ATTN_COMPILE_FAILED = 9, /* the text: the message has places in it */
  ATTN_INTERNAL = 10,
  ATTN_NO_DEVICE = 11, /* no driver, no device, or it can't run the kernel */
  ATTN_DEVICE_FAILED = 12, /* a call of a device's driver: the text names it */
} attn_status;

/* The name of a status, e.g. "ATTN_BAD_BUNDLE"; static storage. */
ATTN_API const char *attn_status_name(int status);

#define ATTN_ERROR_TEXT_SIZE 4096
/* Filled by each call that is given one: `code` is the returned status, `text`
 * ends in NUL, is empty on success, and ends in "..." where it was cut. */
typedef struct attn_error {
  int code;
  char text[ATTN_ERROR_TEXT_SIZE];
} attn_error;

/*--- Bundles and kernels ---------------------------------------------------*/

/* Kernels of one or more variants, for one or more targets. */
typedef struct attn_bundle attn_bundle;

/* Opens the bundle file at `path`. A file that is truncated, no bundle, or made
 * for another ABI version is refused before any of its code runs (a foreign
 * shared library is loaded and let go). On success *bundle is the caller's, to
 * be given to attn_bundle_close; on failure it is NULL. */
ATTN_API int attn_bundle_open(const char *path, attn_bundle **bundle,
                              attn_error *error);

/* Makes a bundle of `n` kernels that are linked into the program. The array is
 * copied, the kernels are not: they must outlive the bundle. */
ATTN_API int attn_bundle_open_static(const attn_kernel *const *kernels,
                                     size_t n, attn_bundle **bundle,
                                     attn_error *error);

/* Lets a bundle go (NULL is allowed). Its kernels must no longer run, and
 * pointers to them are no longer valid. */
ATTN_API void attn_bundle_close(attn_bundle *bundle);

/* How many kernels there are, and the one at `index` (NULL at or past the
 * count). Kernels live as long as the bundle. */
ATTN_API size_t attn_bundle_kernel_count(const attn_bundle *bundle);
ATTN_API const attn_kernel *attn_bundle_kernel(const attn_bundle *bundle,
                                               size_t index);
/* What made it, e.g. "attnc 0.1.0"; lives as long as the bundle. */
ATTN_API const char *attn_bundle_producer(const attn_bundle *bundle);

/* Picks the kernel of `variant` (NULL: the bundle has only one) with the
 * highest preference among those whose features this CPU and system allow.
 * `target`, or where that is NULL the environment's ATTN_TARGET, asks for one
 * target by name; it is refused, never replaced, if it can't run here, and so
 * are kernels of devices. */
ATTN_API int attn_kernel_pick(const attn_bundle *bundle, const char *variant,
                              const char *target, const attn_kernel **kernel,
                              attn_error *error);

/* The same for tensors that lie at `place`: on the CPU, or on a device, where
 * the kernel is one whose code is for such devices and which this one runs.
 * ATTN_NO_DEVICE: it says whether the driver or the device is missing, or what
 * was found instead of what the kernels need. */
ATTN_API int attn_kernel_pick_at(const attn_bundle *bundle, const char *variant,
                                 const char *target, DLDevice place,
                                 const attn_kernel **kernel, attn_error *error);

/* For the functions that generated headers define: picks, as attn_kernel_pick
 * does without a target, among the kernels of one variant whose table is linked
 * into the program. `*kept`, NULL at first and written only here, keeps the
 * first success, which later calls return whatever the environment says. */
ATTN_API int attn_kernel_pick_linked(const attn_bundle_table *table,
                                     const attn_kernel **kept,
                                     const attn_kernel **kernel,
                                     attn_error *error);

/*--- Threads and memory ----------------------------------------------------*/

/* A pool of threads to run kernels on. */
typedef struct attn_pool attn_pool;

#define ATTN_MAX_THREADS 4096
/* Makes a pool of `threads` threads, the caller of attn_run counted as one; 0
 * takes as many as the process may use CPUs. Several threads may run kernels on
 * one pool at once: their calls take turns. A pool does not survive fork(). */
ATTN_API int attn_pool_create(size_t threads, attn_pool **pool,
                              attn_error *error);
/* Joins the threads (NULL is allowed). No call may be using the pool. */
ATTN_API void attn_pool_destroy(attn_pool *pool);
ATTN_API size_t attn_pool_threads(const attn_pool *pool);

/* The caller's own threads: calls body(arg, i) once for each i in 0..n-1, in
 * any order, on any threads, and returns when all calls have returned. */
typedef void (*attn_parallel_for_fn)(void *context, size_t n,
                                     void (*body)(void *arg, size_t index),
                                     void *arg);

/* The caller's memory. `alloc` gives `bytes` (> 0) aligned to `alignment`, a
 * power of two, or NULL; `free` gets back pointer and size. Both are called by
 * the thread that calls attn_run only. */
typedef struct attn_allocator {
  void *(*alloc)(void *context, size_t bytes, size_t alignment);
  void (*free)(void *context, void *pointer, size_t bytes);
  void *context;
} attn_allocator;

/*--- Running ---------------------------------------------------------------*/

typedef enum attn_layout {
  ATTN_BHTD = 0, /* [batch, heads, tokens, width]; LSE [batch, heads, tokens] */
  ATTN_BTHD = 1, /* [batch, tokens, heads, width]; LSE [batch, tokens, heads] */
} attn_layout;

/* The value of a parameter, by the name it has in the text. A scalar has no
 * dimensions; others have the declared ones, where `batch`, `heads`, `queries`,
 * ... are extents of the call, and an extent of 1 stands for any: its element
 * is used throughout. `tokens` as a dimension are all positions: kv_len, or
 * with `align = top_left` q_len if that is more. Elements are f32, f16, bf16,
 * i32 or bool (also u8, 0 or not) as declared. A parameter of type tokens is
 * [batch, n] (or [1, n]) of i32 or i64: positions of each sequence, in any
 * order, repeated or not; negative ones are padding, those at or past the end
 * of the sequence are refused. Any strides are taken. */
typedef struct attn_argument {
  const char *name;
  const DLTensor *value;
} attn_argument;

/* The tensors of a call. All of q, k, v, o and lse lie on the CPU, or all on
 * one device that the kernel is for. Lengths and parameters are on the CPU in
 * either case, since the runtime reads their values; what a device needs of
 * them is copied there for each call. Shapes are in the order of the layout:
 *   q   [batch, heads, q_len, qk_dim]        type of the kernel's q_type
 *   k   [batch, kv_heads, kv_len, qk_dim]    kv_type
 *   v   [batch, kv_heads, kv_len, value_dim] kv_type
 *   o   [batch, heads, q_len, value_dim]     out_type; written
 *   lse [batch, heads, q_len]                f32; written; optional (NULL)
 *   q_lens, kv_lens [batch]  i32 or i64, each from 0 to q_len or kv_len;
 *                            optional (NULL: all are full)
 * NULL strides mean compact. Any strides are taken, 0 and negative ones in
 * inputs included; in `o` and `lse` no stride of an extent above 1 may be 0.
 * Data must be aligned to its elements, no more. Rows at or past q_lens[b] are
 * not written. Nothing may overlap `o` or `lse`. */
typedef struct attn_tensors {
  uint32_t struct_size;
  const DLTensor *q, *k, *v, *o, *lse, *q_lens, *kv_lens;
  /* One for each parameter of the variant, in any order. */
  const attn_argument *params;
  size_t n_params;
} attn_tensors;

/* How to run. At most one of `pool` and `parallel_for` is given; with neither,
 * everything is done by the calling thread. */
typedef struct attn_run_options {
  uint32_t struct_size;
  int32_t layout; /* attn_layout */
  attn_pool *pool;
  attn_parallel_for_fn parallel_for;
  void *parallel_for_context;
  size_t parallel_for_threads; /* largest `n` it is called with; 0: one for each
                                  CPU of the process */
  const attn_allocator *allocator; /* NULL: the C library's */
  void *stream;                    /* of the device that the tensors are on */
} attn_run_options;

/* Checks the tensors, then runs the kernel on them and waits until it is done.
 * On ATTN_INVALID_ARGUMENT and ATTN_OUT_OF_MEMORY nothing has been written. The
 * result is the same to the last bit for any number of threads, and does not
 * depend on the caller's floating-point environment. An empty output is quiet
 * success; with kv_len 0 the output is written (zeros, LSE -inf). `options`
 * may be NULL. A kernel with features that the CPU lacks is refused.
 *
 * The kernel of a device is queued on `stream`, a handle of the device's driver
 * for its primary context, and attn_run returns: the tensors' memory belongs to
 * the call until the stream has come that far, lengths and parameters are the
 * caller's again at once. Where `stream` is NULL it is queued on the default
 * stream, and attn_run waits until it is done. What goes wrong on the device
 * while it runs is reported by whoever waits. Memory on the device for what is
 * copied there is taken and given back in the order of the stream. Threads are
 * of no use there: `pool` and `parallel_for` are not looked at. A stream that
 * is being captured is refused, since a later replay would read the lengths and
 * parameters of this call. */
ATTN_API int attn_run(const attn_kernel *kernel, const attn_tensors *tensors,
                      const attn_run_options *options, attn_error *error);

/*--- Devices ---------------------------------------------------------------*/

/* For callers without another library that manages a device's memory. Memory is
 * aligned to 256 bytes at least; copies and `free` wait for all that was queued
 * on the default stream. */

/* Finds the first device that can run a kernel, which `*place` then names; the
 * CPU for a kernel of the CPU that runs here. ATTN_NO_DEVICE: there is none;
 * the text says whether the driver or the device is missing, or what the
 * devices are. */
ATTN_API int attn_device_find(const attn_kernel *kernel, DLDevice *place,
                              attn_error *error);
/* Writes what a device is called, and in brackets what it runs. */
ATTN_API int attn_device_describe(DLDevice place, char *buffer, size_t size,
                                  attn_error *error);
/* *memory is NULL on failure, and for 0 bytes. */
ATTN_API int attn_device_alloc(DLDevice place, size_t bytes, void **memory,
                               attn_error *error);
ATTN_API int attn_device_free(DLDevice place, void *memory, attn_error *error);
/* From the host to the device, and back. */
ATTN_API int attn_device_upload(DLDevice place, void *to, const void *from,
                                size_t bytes, attn_error *error);
ATTN_API int attn_device_download(DLDevice place, void *to, const void *from,
                                  size_t bytes, attn_error *error);

/*--- The pieces of attn_run ------------------------------------------------*/

/* For callers that fill an attn_call and schedule its work items themselves.
 * attn_run does all of this. */

/* Checks all tensors and lengths as attn_run does, wherever they lie as long as
 * it is one place, and fills the call but for its parameters. `lens` is for 2 *
 * batch numbers, as 'q' has it, and belongs to the call; it may be NULL where
 * there are no lengths. */
ATTN_API int attn_call_fill(const attn_kernel *kernel,
                            const attn_tensors *tensors, int layout,
                            attn_call *call, int64_t *lens, attn_error *error);
/* Finds each of the kernel's parameters among `n` arguments and checks names,
 * types and shapes against the call, of which batch, q_len and kv_len are set.
 * *bytes is how much memory attn_params_fill needs. */
ATTN_API int attn_params_check(const attn_kernel *kernel,
                               const attn_argument *arguments, size_t n,
                               const attn_call *call, size_t *bytes,
                               attn_error *error);
/* Checks the values of arguments that attn_params_check has passed, against the
 * call's q_lens and kv_lens too, and fills `memory` (aligned to 64; may be NULL
 * for 0 bytes) and the call's `params`, `globals` and what belongs to them,
 * which point into the memory and into the arguments' data. */
ATTN_API int attn_params_fill(const attn_kernel *kernel,
                              const attn_argument *arguments, size_t n,
                              attn_call *call, void *memory, attn_error *error);
/* The number of work items of a call that is filled in (attn_abi.h), or -1 if
 * that is more than can be counted in 62 bits. */
ATTN_API int64_t attn_count_items(const attn_kernel *kernel,
                                  const attn_call *call);

/*--- Compiling a text when the program runs --------------------------------*/

/* Where NULL or 0 is the default of each field. */
typedef struct attn_jit_options {
  uint32_t struct_size;
  const char *targets;        /* "T,T,..."; default "host" */
  const char *variant;        /* default: all variants of the text */
  const char *plan;           /* "KEY=VALUE,..."; default: the planner's */
  const char *const *defines; /* "NAME=VALUE" each */
  size_t n_defines;
  const char *cache_dir;        /* default: attn_cache_dir; "": no disk cache */
  const char *compiler_library; /* default: $ATTNC_LIBRARY, else libattnc.so.0
                                   beside this library, else where the system
                                   finds it */
} attn_jit_options;

typedef enum attn_jit_source {
  ATTN_JIT_COMPILED = 0,     /* by this call */
  ATTN_JIT_FROM_DISK = 1,    /* the on-disk cache had it */
  ATTN_JIT_FROM_PROCESS = 2, /* this process has it open, or was compiling it */
} attn_jit_source;

/* How a text became a bundle. `warning` is not empty where the disk cache could
 * not be used: the result is right, but the next process compiles again. */
typedef struct attn_jit_info {
  int source;         /* attn_jit_source */
  char key[65];       /* cache key, hexadecimal */
  char warning[1024]; /* why the result is not in the disk cache */
} attn_jit_info;

/* Turns the text of one or more variants (`size` bytes, any bytes) into a
 * bundle. `file_name` is for messages (NULL: "<text>"). The result is kept in
 * the disk cache under a key of everything that changes code; a hit there does
 * not load the compiler. Each key is compiled once in a process however many
 * threads ask, and by one process at a time on one cache directory. Close the
 * bundle with attn_bundle_close. `options` and `info` may be NULL. */
ATTN_API int attn_jit(const char *text, size_t size, const char *file_name,
                      const attn_jit_options *options, attn_bundle **bundle,
                      attn_jit_info *info, attn_error *error);

/*--- The disk cache --------------------------------------------------------*/

/* Writes the default directory to `buffer`: $ATTN_CACHE_DIR, else
 * $XDG_CACHE_HOME/attnc, else $HOME/.cache/attnc. Fails where none of these is
 * set or the buffer is too small. Does not create the directory. */
ATTN_API int attn_cache_dir(char *buffer, size_t size, attn_error *error);

typedef struct attn_cache_entry {
  const char *path;
  const char *key;         /* hexadecimal, 64 digits */
  const char *description; /* what was compiled; "" if damaged */
  uint64_t bytes;
  int64_t created; /* seconds since 1970 */
  int intact;      /* 0: damaged, and rebuilt when it is next asked for */
} attn_cache_entry;

/* Calls `visit` for each entry, in order of path; strings are valid during the
 * call. A missing directory has no entries. `dir` NULL: the default. */
ATTN_API int attn_cache_list(const char *dir,
                             void (*visit)(void *context,
                                           const attn_cache_entry *entry),
                             void *context, attn_error *error);

/* Removes all entries and leftovers of interrupted writers, nothing else.
 * *entries and *bytes (either may be NULL) count what was removed. Bundles
 * that are open stay usable. `dir` NULL: the default. */
ATTN_API int attn_cache_clear(const char *dir, size_t *entries, uint64_t *bytes,
                              attn_error *error);

#ifdef __cplusplus
}
#endif
#endif

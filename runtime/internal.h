/*===- runtime/internal.h - What the runtime's files share ----------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 *===----------------------------------------------------------------------===*/
#ifndef ATTN_INTERNAL_H
#define ATTN_INTERNAL_H

#include "device.h"
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*--- error.c ---------------------------------------------------------------*/

/* Marks success and returns ATTN_OK. */
int attn_succeed(attn_error *error);

/* Copies a caller's versioned struct into `own` (size bytes, set to zero
 * first). Refuses a size of 0 and unknown fields that are set. */
int attn_copy_struct(void *own, size_t size, const void *given,
                     const char *name, attn_error *error);

/*--- elf.c -----------------------------------------------------------------*/

/* Checks that the open file is a whole shared object for this machine: every
 * segment and the section table lie inside the first `size` bytes. `name` is
 * for messages. */
int attn_elf_check(int fd, uint64_t size, const char *name, attn_error *error);

/*--- bundle.c --------------------------------------------------------------*/

struct attn_bundle {
  void *handle; /* of dlopen; NULL: static */
  int fd;       /* kept open where the library was loaded by its descriptor */
  size_t n_kernels;
  const attn_kernel *const *kernels;
  const attn_kernel **owned; /* a static bundle's copy of the array */
  const char *producer;
  /* Only for bundles of attn_jit, guarded by its lock. */
  struct attn_jit_entry *jit;
};

/* Loads the open file, whose bundle is its first `size` bytes. `path` names it
 * for messages and for dlopen; NULL loads by descriptor alone. The descriptor
 * is closed, or kept by the bundle. */
int attn_bundle_load(int fd, uint64_t size, const char *path,
                     attn_bundle **bundle, attn_error *error);
/* Ends a bundle whatever refers to it. */
void attn_bundle_destroy(attn_bundle *bundle);
/* Checks one kernel's descriptor. */
int attn_kernel_check(const attn_kernel *kernel, const char *bundle_name,
                      attn_error *error);

/*--- pick.c ----------------------------------------------------------------*/

/* Appends, comma separated, the features that this machine lacks. Returns
 * their number. */
size_t attn_missing_features(const char *features, struct attn_text *text);
/* Refuses a kernel of the CPU that can't run here. */
int attn_check_features(const attn_kernel *kernel, attn_error *error);
/* Refuses a kernel of a device that can't run where a tensor is, and opens that
 * device. */
int attn_check_device(const attn_kernel *kernel, DLDevice place,
                      attn_device **device, attn_error *error);

/*--- params.c --------------------------------------------------------------*/

/* How many splits the keys of a call have (attn_abi.h), 0 where none. */
int64_t attn_count_splits(const attn_kernel *kernel, const attn_call *call);

/*--- tensor.c --------------------------------------------------------------*/

/* The element type of an attn_dtype that has one; the name of any type. */
DLDataType attn_dl_type(int32_t type);
bool attn_same_type(DLDataType a, DLDataType b);
struct attn_type_name {
  char text[40];
};
struct attn_type_name attn_name_type(DLDataType type);

/* Where an array has to lie, and who says so. */
struct attn_place_rule {
  DLDevice place;
  const char *because;
};
/* The rule for arrays whose values the runtime reads. */
extern const struct attn_place_rule attn_on_host;

/* What every array has to satisfy, whatever its type: the place, the rank, no
 * negative extent. Messages begin with `kind`, as in "tensor 'q'". */
int attn_check_array(const DLTensor *tensor, const char *kind, const char *name,
                     int rank, struct attn_place_rule place, attn_error *error);
/* The strides in elements, and the first element (NULL: there is none), of an
 * array whose rank and type are checked. Every element has to have an address,
 * and be aligned to its size. */
int attn_locate_array(const DLTensor *tensor, const char *kind,
                      const char *name, int64_t *strides, char **data,
                      attn_error *error);

/* Checks all tensors against the kernel and fills `call`, except for lengths
 * and parameters. They have to lie where 'q' does. */
int attn_check_tensors(const attn_kernel *kernel, const attn_tensors *tensors,
                       int layout, attn_call *call, attn_error *error);
/* Copies the checked lengths to `lens` (2 * call->batch values), those of the
 * queries first. */
int attn_read_lens(const attn_tensors *tensors, attn_call *call, int64_t *lens,
                   attn_error *error);

/*--- values.c --------------------------------------------------------------*/

/* Bytes of an element of an attn_dtype, as a kernel sees it. */
size_t attn_size_of(int32_t type);

/* How much of a dimension belongs to sequence `b` of a call, and how much to
 * any sequence where `b` is negative. Unlimited for dimensions without lengths.
 */
int64_t attn_own_extent(const attn_kernel *kernel, const attn_call *call,
                        int32_t dim, int64_t b);

/* Checks the values of a parameter that is laid out, and fills its blocks
 * (where that is not NULL). Only elements that belong to a sequence count. */
int attn_check_values(const attn_kernel *kernel, const attn_call *call,
                      const attn_param_info *info, const attn_param *param,
                      int32_t *blocks, attn_error *error);

/* A list of tokens as it was given; `rows` is 1 or the batch. */
struct attn_token_list {
  const char *name;
  const char *data;
  int64_t rows, columns;
  int64_t stride[2];
  int bits; /* of an element: 32 or 64 */
};
/* Fills flags[row][position] (`positions` a row). */
int attn_mark_tokens(const attn_kernel *kernel, const attn_call *call,
                     const struct attn_token_list *list, int64_t positions,
                     unsigned char *flags, attn_error *error);
/* Fills `globals`, `rows` (1 or the batch) lists with `stride` between them,
 * from the lists of tokens in `params`; returns the longest one's length. */
int64_t attn_collect_globals(const attn_kernel *kernel, const attn_call *call,
                             const attn_param *params, int64_t positions,
                             int64_t rows, int64_t stride, int32_t *globals,
                             int64_t *counts);

/*--- pool.c ----------------------------------------------------------------*/

/* Runs body(arg, i) for i in 0..n-1. With `bytes` not 0, *scratch is set,
 * before any body runs, to that much memory of the pool's, aligned to 64 and
 * the caller's until the function returns. False: out of memory, nothing ran.
 */
bool attn_pool_run(attn_pool *pool, size_t n, size_t bytes, char **scratch,
                   void (*body)(void *arg, size_t index), void *arg);
/* CPUs that this process may use, at least 1. */
size_t attn_cpu_count(void);

/*--- sha256.c --------------------------------------------------------------*/

struct attn_sha256 {
  uint32_t state[8];
  uint64_t bytes;
  uint8_t block[64];
};
void attn_sha256_init(struct attn_sha256 *hash);
void attn_sha256_update(struct attn_sha256 *hash, const void *data,
                        size_t size);
void attn_sha256_final(struct attn_sha256 *hash, uint8_t digest[32]);

/*--- compiler.c ------------------------------------------------------------*/

/* The compiler library as found on disk and, later, loaded. One a path; they
 * live as long as the process. */
struct attn_compiler;
/* Says which library would be used, without loading it if that can be. */
int attn_compiler_find(const char *option, struct attn_compiler **compiler,
                       attn_error *error);
/* Adds what identifies the library to a hash. */
void attn_compiler_hash(struct attn_compiler *compiler,
                        struct attn_sha256 *hash);
/* The version it tells of itself, or NULL while it is not loaded. */
const char *attn_compiler_version(struct attn_compiler *compiler);
/* Loads it if need be and compiles to `out_path`. *version is its version. */
int attn_compiler_run(struct attn_compiler *compiler,
                      const attnc_request *request, const char *out_path,
                      const char **version, attn_error *error);

/*--- cache.c ---------------------------------------------------------------*/

/* A key in hexadecimal. */
struct attn_key {
  char hex[65];
};

/* An open cache directory. */
struct attn_cache {
  int dirfd;
  char *path;
};
/* Opens (and creates) a cache directory; NULL: the default one. */
int attn_cache_open(const char *dir, struct attn_cache *cache,
                    attn_error *error);
void attn_cache_close(struct attn_cache *cache);

enum attn_cache_state { ATTN_CACHE_HIT, ATTN_CACHE_MISS, ATTN_CACHE_DAMAGED };
/* Looks an entry up and verifies all of it. On a hit, *fd is open and the
 * caller's, *size is the length of the bundle in it. `version` is the
 * compiler's, NULL if not known; an entry of another version is a miss. */
enum attn_cache_state attn_cache_lookup(const struct attn_cache *cache,
                                        const struct attn_key *key,
                                        const char *version, int *fd,
                                        uint64_t *size);
/* Locks an entry for writing, waiting for another writer of any process up to
 * `seconds`. *lock is then to be given to store or unlock. */
int attn_cache_lock(const struct attn_cache *cache, const struct attn_key *key,
                    double seconds, int *lock, attn_error *error);
/* Gives a lock back without an entry. */
void attn_cache_unlock(const struct attn_cache *cache,
                       const struct attn_key *key, int lock);
/* Writes the entry from the file `bundle`, whole or not at all, gives the lock
 * back, and removes leftovers of writers that died. */
int attn_cache_store(const struct attn_cache *cache, const struct attn_key *key,
                     int lock, int bundle, const char *version,
                     const char *description, attn_error *error);
/* dir/key.so; to be freed, NULL if out of memory. */
char *attn_cache_entry_path(const struct attn_cache *cache,
                            const struct attn_key *key);

/*--- jit.c -----------------------------------------------------------------*/

/* Drops one reference to a bundle of attn_jit. */
void attn_jit_release(attn_bundle *bundle);
/* The key of a request; exposed for the tests. */
void attn_jit_key(const attnc_request *request, struct attn_compiler *compiler,
                  struct attn_key *key);

#ifdef __cplusplus
}
#endif
#endif

/*===- runtime/bundle.c - Bundles of kernels ------------------------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 *===----------------------------------------------------------------------===*/
#define _GNU_SOURCE /* dladdr1 */
#include "internal.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_version(uint32_t version, const char *what, const char *name,
                         attn_error *error) {
  if (version == ATTN_ABI_VERSION)
    return ATTN_OK;
  return attn_fail(error, ATTN_BAD_BUNDLE,
                   "%s '%s' has ABI version %u, %s than this runtime (%s), "
                   "which reads version %u",
                   what, name, version,
                   version > ATTN_ABI_VERSION ? "newer" : "older",
                   attn_version_string(), ATTN_ABI_VERSION);
}

/* What is wrong with the declaration of a parameter, or NULL. */
static const char *find_param_fault(const attn_kernel *kernel, int32_t index) {
  const attn_param_info *info = &kernel->params[index];
  if (!info->name || !*info->name)
    return "no name";
  for (int32_t i = 0; i < index; ++i)
    if (!strcmp(kernel->params[i].name, info->name))
      return "the name of another one";
  if (info->type < ATTN_F32 || info->type > ATTN_TOKENS)
    return "an impossible type";
  if (info->rank < 0 || info->rank > ATTN_MAX_DIMS)
    return "an impossible rank";
  for (int32_t i = 0; i < info->rank; ++i)
    if (info->dims[i] < ATTN_DIM_CONSTANT || info->dims[i] > ATTN_DIM_TOKENS ||
        (info->dims[i] == ATTN_DIM_CONSTANT &&
         (info->constants[i] < 0 || info->constants[i] > INT32_MAX)))
      return "an impossible dimension";
  bool of_tokens = info->type == ATTN_TOKENS;
  if (of_tokens && (info->rank != 2 || info->dims[0] != ATTN_DIM_BATCH ||
                    info->dims[1] != ATTN_DIM_TOKENS))
    return "dimensions that a list of tokens does not have";
  int32_t known =
      of_tokens ? 0
                : ATTN_PARAM_BOUNDED | ATTN_PARAM_NONZERO | ATTN_PARAM_POSITIVE;
  if (info->flags & ~known)
    return "flags that its type does not have";
  if (info->summary_dim < -1 || info->summary_dim >= info->rank ||
      (info->summary_dim >= 0 &&
       (info->type < ATTN_I32 ||
        info->dims[info->summary_dim] == ATTN_DIM_BATCH)))
    return "an impossible summary";
  return NULL;
}

/* What is impossible in the code for a device, or NULL. */
static const char *find_device_fault(const attn_kernel *kernel) {
  const attn_device_code *code = kernel->device;
  if (!code->entry || !*code->entry || !code->text || !*code->text)
    return "text of device code";
  if (!code->binary != !code->binary_size)
    return "binary of device code";
  if (code->threads < 1 || code->shared_bytes < 0)
    return "number of threads or bytes of shared memory";
  if (!kernel->split_keys)
    return code->merge_entry ? "merge of keys that are not split" : NULL;
  if (!code->merge_entry || !*code->merge_entry || code->merge_threads < 1 ||
      code->merge_shared_bytes < 0)
    return "merge of split keys";
  return NULL;
}

int attn_kernel_check(const attn_kernel *kernel, const char *bundle_name,
                      attn_error *error) {
  if (!kernel)
    return attn_fail(error, ATTN_BAD_BUNDLE, "bundle '%s' has a null kernel",
                     bundle_name);
  int status =
      check_version(kernel->abi_version, "a kernel of", bundle_name, error);
  if (status)
    return status;
  if (kernel->struct_size < sizeof(attn_kernel))
    return attn_fail(error, ATTN_BAD_BUNDLE,
                     "a kernel of '%s' has a descriptor of %u bytes, ABI "
                     "version %u has %zu",
                     bundle_name, kernel->struct_size, ATTN_ABI_VERSION,
                     sizeof(attn_kernel));
  if (!kernel->variant || !kernel->target || !kernel->features ||
      !kernel->text || !kernel->run == !kernel->device)
    return attn_fail(error, ATTN_BAD_BUNDLE,
                     "a kernel of '%s' has an empty descriptor", bundle_name);
  const char *bad = NULL;
  if (kernel->heads < 0 || kernel->kv_heads < 0 ||
      (kernel->heads && !kernel->kv_heads))
    bad = "head count";
  else if (kernel->qk_dim < 0 || kernel->value_dim < 0)
    bad = "head size";
  else if (kernel->q_type < ATTN_F32 || kernel->q_type > ATTN_BF16 ||
           kernel->kv_type < ATTN_F32 || kernel->kv_type > ATTN_BF16 ||
           kernel->out_type < ATTN_F32 || kernel->out_type > ATTN_BF16)
    bad = "element type";
  else if (kernel->item_groups < 0 || kernel->item_heads < 0 ||
           kernel->item_rows < 1)
    bad = "division into work items";
  else if (kernel->scratch_bytes < 0 || kernel->n_params < 0)
    bad = "scratch size or parameter count";
  else if (kernel->flags & ~(ATTN_KERNEL_TOP_LEFT | ATTN_KERNEL_GLOBALS))
    bad = "set of flags";
  else if (kernel->split_keys < 0 || kernel->state_bytes < 0 ||
           !kernel->split_keys != !kernel->state_bytes ||
           (kernel->split_keys && !kernel->device))
    bad = "split of keys";
  else if (kernel->n_params && !kernel->params)
    bad = "list of parameters";
  else if (kernel->device)
    bad = find_device_fault(kernel);
  if (bad)
    return attn_fail(error, ATTN_BAD_BUNDLE,
                     "kernel '%s' for %s in '%s' has an impossible %s",
                     kernel->variant, kernel->target, bundle_name, bad);
  for (int32_t i = 0; i < kernel->n_params; ++i) {
    bad = find_param_fault(kernel, i);
    if (bad)
      return attn_fail(error, ATTN_BAD_BUNDLE,
                       "kernel '%s' for %s in '%s': parameter %d has %s",
                       kernel->variant, kernel->target, bundle_name, i, bad);
  }
  return ATTN_OK;
}

static int check_table(const attn_bundle_table *table, const char *name,
                       attn_error *error) {
  if (table->magic != ATTN_BUNDLE_MAGIC)
    return attn_fail(error, ATTN_BAD_BUNDLE,
                     "'%s' is not a bundle: its magic number is %08x, not %08x",
                     name, table->magic, ATTN_BUNDLE_MAGIC);
  int status = check_version(table->abi_version, "bundle", name, error);
  if (status)
    return status;
  if (table->struct_size < sizeof(attn_bundle_table))
    return attn_fail(error, ATTN_BAD_BUNDLE,
                     "bundle '%s' has a table of %u bytes, ABI version %u has "
                     "%zu",
                     name, table->struct_size, ATTN_ABI_VERSION,
                     sizeof(attn_bundle_table));
  if (!table->n_kernels || !table->kernels || !table->producer)
    return attn_fail(error, ATTN_BAD_BUNDLE, "bundle '%s' has no kernels",
                     name);
  for (uint32_t i = 0; i < table->n_kernels && !status; ++i)
    status = attn_kernel_check(table->kernels[i], name, error);
  return status;
}

/* Loads the library. The loader takes a library of the same *name* for the same
 * library, even if the file was replaced meanwhile. So where the name is taken,
 * the descriptor's own name is used, under which the loader compares files; the
 * bundle keeps the descriptor open, and thereby that name to itself. */
static void *load_library(int fd, const char *path, bool *keeps_fd) {
  *keeps_fd = false;
  if (path) {
    void *same = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!same)
      return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    dlclose(same);
  }
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  *keeps_fd = true;
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

int attn_bundle_load(int fd, uint64_t size, const char *path,
                     attn_bundle **bundle, attn_error *error) {
  const char *name = path ? path : "(in memory)";
  int status = attn_elf_check(fd, size, name, error);
  if (status) {
    close(fd);
    return status;
  }
  attn_bundle *b = calloc(1, sizeof *b);
  if (!b) {
    close(fd);
    return attn_fail(error, ATTN_OUT_OF_MEMORY, "out of memory");
  }
  bool keeps_fd;
  b->handle = load_library(fd, path, &keeps_fd);
  b->fd = keeps_fd ? fd : -1;
  if (!b->handle) {
    const char *reason = dlerror();
    status = attn_fail(error, ATTN_BAD_BUNDLE, "can't load bundle '%s': %s",
                       name, reason ? reason : "unknown reason");
  }
  if (!keeps_fd)
    close(fd);
  const attn_bundle_table *table = NULL;
  if (!status) {
    table = dlsym(b->handle, ATTN_BUNDLE_SYMBOL);
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    if (!table)
      status = attn_fail(error, ATTN_BAD_BUNDLE,
                         "'%s' is not a bundle: a shared library without the "
                         "symbol '" ATTN_BUNDLE_SYMBOL "'",
                         name);
    else if (!dladdr1(table, &info, (void **)&symbol, RTLD_DL_SYMENT) ||
             !symbol || symbol->st_size < sizeof *table)
      status = attn_fail(error, ATTN_BAD_BUNDLE,
                         "'%s' is not a bundle: its symbol '" ATTN_BUNDLE_SYMBOL
                         "' is no bundle table",
                         name);
    else
      status = check_table(table, name, error);
  }
  if (status) {
    attn_bundle_destroy(b);
    return status;
  }
  b->n_kernels = table->n_kernels;
  b->kernels = table->kernels;
  b->producer = table->producer;
  *bundle = b;
  return ATTN_OK;
}

int attn_bundle_open(const char *path, attn_bundle **bundle,
                     attn_error *error) {
  if (bundle)
    *bundle = NULL;
  if (!path || !bundle)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_bundle_open: %s is NULL", path ? "bundle" : "path");
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return attn_fail(error,
                     errno == ENOENT || errno == ENOTDIR ? ATTN_NOT_FOUND
                                                         : ATTN_IO_ERROR,
                     "can't open bundle '%s': %s", path, strerror(errno));
  struct stat info;
  if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
    close(fd);
    return attn_fail(error, ATTN_BAD_BUNDLE,
                     "'%s' is not a bundle: not a regular file", path);
  }
  /* A name without a slash would be searched for in the library path. */
  char *with_slash = NULL;
  if (!strchr(path, '/')) {
    with_slash = malloc(strlen(path) + 3);
    if (!with_slash) {
      close(fd);
      return attn_fail(error, ATTN_OUT_OF_MEMORY, "out of memory");
    }
    sprintf(with_slash, "./%s", path);
  }
  int status = attn_bundle_load(fd, (uint64_t)info.st_size,
                                with_slash ? with_slash : path, bundle, error);
  free(with_slash);
  return status ? status : attn_succeed(error);
}

int attn_bundle_open_static(const attn_kernel *const *kernels, size_t n,
                            attn_bundle **bundle, attn_error *error) {
  if (bundle)
    *bundle = NULL;
  if (!kernels || !n || !bundle)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_bundle_open_static: %s",
                     !bundle ? "bundle is NULL" : "there are no kernels");
  for (size_t i = 0; i < n; ++i) {
    int status = attn_kernel_check(kernels[i], "(static)", error);
    if (status)
      return status;
  }
  attn_bundle *b = calloc(1, sizeof *b);
  const attn_kernel **owned = calloc(n, sizeof *owned);
  if (!b || !owned) {
    free(b);
    free(owned);
    return attn_fail(error, ATTN_OUT_OF_MEMORY, "out of memory");
  }
  memcpy(owned, kernels, n * sizeof *owned);
  b->fd = -1;
  b->n_kernels = n;
  b->kernels = b->owned = owned;
  b->producer = "linked in";
  *bundle = b;
  return attn_succeed(error);
}

int attn_kernel_pick_linked(const attn_bundle_table *table,
                            const attn_kernel **kept,
                            const attn_kernel **kernel, attn_error *error) {
  if (kernel)
    *kernel = NULL;
  if (!table || !kept || !kernel)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_kernel_pick_linked: %s is NULL",
                     !table  ? "table"
                     : !kept ? "kept"
                             : "kernel");
  /* The caller's plain pointer, since C and C++ have no atomic type in common.
   */
  const attn_kernel *first = __atomic_load_n(kept, __ATOMIC_ACQUIRE);
  if (!first) {
    int status = check_table(table, "(linked in)", error);
    if (status)
      return status;
    const attn_bundle bundle = {.fd = -1,
                                .n_kernels = table->n_kernels,
                                .kernels = table->kernels,
                                .producer = table->producer};
    const attn_kernel *picked;
    status = attn_kernel_pick(&bundle, NULL, NULL, &picked, error);
    if (status)
      return status;
    /* Of several threads at once, one decides for all. */
    if (__atomic_compare_exchange_n(kept, &first, picked, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      first = picked;
  }
  *kernel = first;
  return attn_succeed(error);
}

void attn_bundle_destroy(attn_bundle *bundle) {
  for (size_t i = 0; i < bundle->n_kernels; ++i)
    if (bundle->kernels[i]->device)
      attn_forget_kernel(bundle->kernels[i]);
  if (bundle->handle)
    dlclose(bundle->handle);
  if (bundle->fd >= 0)
    close(bundle->fd);
  free(bundle->owned);
  free(bundle);
}

void attn_bundle_close(attn_bundle *bundle) {
  if (!bundle)
    return;
  if (bundle->jit)
    attn_jit_release(bundle);
  else
    attn_bundle_destroy(bundle);
}

size_t attn_bundle_kernel_count(const attn_bundle *bundle) {
  return bundle ? bundle->n_kernels : 0;
}

const attn_kernel *attn_bundle_kernel(const attn_bundle *bundle, size_t index) {
  return bundle && index < bundle->n_kernels ? bundle->kernels[index] : NULL;
}

const char *attn_bundle_producer(const attn_bundle *bundle) {
  return bundle ? bundle->producer : "";
}

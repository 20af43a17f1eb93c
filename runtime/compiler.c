/*===- runtime/compiler.c - Find and load the compiler library ------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * The library is large. So it is first only found, which is enough to make the
 * key of a cache entry, and loaded when something has to be compiled.
 *
 *===----------------------------------------------------------------------===*/
#define _GNU_SOURCE /* dlinfo */
#include "internal.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What tells one build of the library from another without reading it. */
struct identity {
  uint64_t device, inode, size;
  int64_t seconds, nanoseconds;
};

struct attn_compiler {
  struct attn_compiler *next;
  char *path;
  struct identity identity; /* of the file that is loaded, or would be */
  void *handle;
  attnc_compile_fn compile;
  attnc_free_fn free_text;
  const char *version;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct attn_compiler *compilers;

static bool identify(const char *path, struct identity *identity) {
  struct stat info;
  if (stat(path, &info) || !S_ISREG(info.st_mode))
    return false;
  *identity = (struct identity){(uint64_t)info.st_dev, (uint64_t)info.st_ino,
                                (uint64_t)info.st_size, info.st_mtim.tv_sec,
                                info.st_mtim.tv_nsec};
  return true;
}

/* The record of a path; the identity is refreshed until the library is loaded,
 * after which a new file at that path does not matter to this process. */
static struct attn_compiler *record(const char *path, struct identity identity,
                                    void *handle) {
  struct attn_compiler *c = compilers;
  while (c && strcmp(c->path, path) != 0)
    c = c->next;
  if (!c) {
    c = calloc(1, sizeof *c);
    char *copy = strdup(path);
    if (!c || !copy) {
      free(c);
      free(copy);
      return NULL;
    }
    c->path = copy;
    c->next = compilers;
    compilers = c;
  }
  if (!c->handle) {
    c->identity = identity;
    c->handle = handle;
  }
  return c;
}

/* The directory of the file that holds this code, with its last slash. */
static bool own_directory(char *buffer, size_t size) {
  Dl_info info;
  char path[PATH_MAX];
  if (!dladdr((const void *)attn_compiler_find, &info) || !info.dli_fname)
    return false;
  /* A program's own name need not be a path. */
  if (!strchr(info.dli_fname, '/') || !realpath(info.dli_fname, path)) {
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
      return false;
    path[n] = 0;
  }
  char *slash = strrchr(path, '/');
  if (!slash || (size_t)(slash - path) + 2 > size)
    return false;
  memcpy(buffer, path, (size_t)(slash - path) + 1);
  buffer[slash - path + 1] = 0;
  return true;
}

/* Looks through the directories of the dynamic loader's search. Does not know
 * those that only its cache file lists. */
static bool search_directories(char *path, size_t size,
                               struct identity *identity) {
  void *program = dlopen(NULL, RTLD_LAZY);
  Dl_serinfo head;
  bool found = false;
  if (program && dlinfo(program, RTLD_DI_SERINFOSIZE, &head) == 0) {
    Dl_serinfo *all = malloc(head.dls_size);
    if (all && dlinfo(program, RTLD_DI_SERINFOSIZE, all) == 0 &&
        dlinfo(program, RTLD_DI_SERINFO, all) == 0)
      for (unsigned i = 0; i < all->dls_cnt && !found; ++i) {
        int n = snprintf(path, size, "%s/" ATTNC_LIBRARY,
                         all->dls_serpath[i].dls_name);
        found = n > 0 && (size_t)n < size && identify(path, identity);
      }
    free(all);
  }
  if (program)
    dlclose(program);
  return found;
}

static int find_locked(const char *option, struct attn_compiler **compiler,
                       attn_error *error) {
  struct identity identity = {0};
  char path[PATH_MAX + sizeof ATTNC_LIBRARY + 2];
  const char *from_environment = getenv("ATTNC_LIBRARY");
  if (from_environment && !*from_environment)
    from_environment = NULL;
  const char *named = option ? option : from_environment;
  void *handle = NULL;
  if (named) {
    int n = snprintf(path, sizeof path, "%s%s", strchr(named, '/') ? "" : "./",
                     named);
    if (n < 0 || (size_t)n >= sizeof path || !identify(path, &identity))
      return attn_fail(error, ATTN_NO_COMPILER,
                       "no compiler library at '%s' (named by %s)", named,
                       option ? "attn_jit_options.compiler_library"
                              : "ATTNC_LIBRARY");
  } else {
    char own[PATH_MAX];
    bool found = false;
    if (own_directory(own, sizeof own)) {
      snprintf(path, sizeof path, "%s" ATTNC_LIBRARY, own);
      found = identify(path, &identity);
    }
    if (!found && !search_directories(path, sizeof path, &identity)) {
      handle = dlopen(ATTNC_LIBRARY, RTLD_NOW | RTLD_LOCAL);
      const struct link_map *map = NULL;
      if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) || !map ||
          !identify(map->l_name, &identity)) {
        if (handle)
          dlclose(handle);
        return attn_fail(error, ATTN_NO_COMPILER,
                         "the compiler library " ATTNC_LIBRARY
                         " is not installed: it is neither beside the runtime "
                         "nor where the system looks for libraries; "
                         "ATTNC_LIBRARY can name it");
      }
      snprintf(path, sizeof path, "%s", map->l_name);
    }
  }
  *compiler = record(path, identity, handle);
  if (!*compiler)
    return attn_fail(error, ATTN_OUT_OF_MEMORY, "out of memory");
  return ATTN_OK;
}

int attn_compiler_find(const char *option, struct attn_compiler **compiler,
                       attn_error *error) {
  pthread_mutex_lock(&lock);
  int status = find_locked(option, compiler, error);
  pthread_mutex_unlock(&lock);
  return status;
}

void attn_compiler_hash(struct attn_compiler *compiler,
                        struct attn_sha256 *hash) {
  pthread_mutex_lock(&lock);
  struct identity identity = compiler->identity;
  pthread_mutex_unlock(&lock);
  attn_sha256_update(hash, &identity, sizeof identity);
}

const char *attn_compiler_version(struct attn_compiler *compiler) {
  pthread_mutex_lock(&lock);
  const char *version = compiler->version;
  pthread_mutex_unlock(&lock);
  return version;
}

static int load_locked(struct attn_compiler *c, attn_error *error) {
  if (c->version)
    return ATTN_OK;
  if (!c->handle)
    c->handle = dlopen(c->path, RTLD_NOW | RTLD_LOCAL);
  if (!c->handle) {
    const char *reason = dlerror();
    return attn_fail(error, ATTN_NO_COMPILER,
                     "can't load the compiler library '%s': %s", c->path,
                     reason ? reason : "unknown reason");
  }
  attnc_version_fn version;
  *(void **)&c->compile = dlsym(c->handle, ATTNC_COMPILE_SYMBOL);
  *(void **)&c->free_text = dlsym(c->handle, ATTNC_FREE_SYMBOL);
  *(void **)&version = dlsym(c->handle, ATTNC_VERSION_SYMBOL);
  const char *missing = !c->compile     ? ATTNC_COMPILE_SYMBOL
                        : !c->free_text ? ATTNC_FREE_SYMBOL
                        : !version      ? ATTNC_VERSION_SYMBOL
                                        : NULL;
  if (missing)
    return attn_fail(error, ATTN_NO_COMPILER,
                     "'%s' is not the compiler library: it has no symbol '%s'",
                     c->path, missing);
  c->version = version();
  return ATTN_OK;
}

int attn_compiler_run(struct attn_compiler *compiler,
                      const attnc_request *request, const char *out_path,
                      const char **version, attn_error *error) {
  pthread_mutex_lock(&lock);
  int status = load_locked(compiler, error);
  pthread_mutex_unlock(&lock);
  if (status)
    return status;
  *version = compiler->version;
  char *reason = NULL;
  if (compiler->compile(request, out_path, &reason) != 0) {
    status = attn_fail(error, ATTN_COMPILE_FAILED, "%s",
                       reason ? reason : "the compiler gives no reason");
    if (reason)
      compiler->free_text(reason);
  }
  return status;
}

/*===- runtime/jit.c - From a text to an open bundle ----------------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 *===----------------------------------------------------------------------===*/
#define _GNU_SOURCE /* memfd_create */
#include "internal.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif
/* How long to wait for another process that compiles the same text. */
#define LOCK_SECONDS 60.0

/* One key that this process has open, or is making. */
struct attn_jit_entry {
  struct attn_jit_entry *next;
  struct attn_key key;
  attn_bundle *bundle; /* NULL while it is being made, and if that failed */
  size_t references;   /* of the bundle */
  size_t waiting;      /* threads that read the outcome */
  bool ready;
  char warning[sizeof((attn_jit_info *)0)->warning];
  attn_error *error; /* why it failed */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct attn_jit_entry *entries;

/*--- The key ---------------------------------------------------------------*/

static void hash_bytes(struct attn_sha256 *hash, const void *data,
                       size_t size) {
  uint64_t length = size;
  attn_sha256_update(hash, &length, sizeof length);
  attn_sha256_update(hash, data, size);
}

/* A missing text and an empty one differ. */
static void hash_text(struct attn_sha256 *hash, const char *text) {
  uint8_t present = text != NULL;
  attn_sha256_update(hash, &present, 1);
  if (text)
    hash_bytes(hash, text, strlen(text));
}

/* True if `word` is one of the comma-separated words of `list`. */
static bool has_word(const char *list, const char *word) {
  size_t length = strlen(word);
  for (;;) {
    size_t n = strcspn(list, ",");
    if (n == length && memcmp(list, word, n) == 0)
      return true;
    if (!list[n])
      return false;
    list += n + 1;
  }
}

void attn_jit_key(const attnc_request *request, struct attn_compiler *compiler,
                  struct attn_key *key) {
  struct attn_sha256 hash;
  attn_sha256_init(&hash);
  hash_text(&hash, "attn_jit 1");
  uint32_t abi = request->abi_version;
  attn_sha256_update(&hash, &abi, sizeof abi);
  hash_bytes(&hash, request->text, request->text_size);
  hash_text(&hash, request->targets);
  hash_text(&hash, has_word(request->targets, "host") ? attn_machine_features()
                                                      : NULL);
  hash_text(&hash, request->variant);
  hash_text(&hash, request->plan);
  uint64_t n = request->n_defines;
  attn_sha256_update(&hash, &n, sizeof n);
  for (size_t i = 0; i < request->n_defines; ++i)
    hash_text(&hash, request->defines[i]);
  attn_compiler_hash(compiler, &hash);
  uint8_t digest[32];
  attn_sha256_final(&hash, digest);
  for (int i = 0; i < 32; ++i)
    snprintf(key->hex + 2 * i, 3, "%02x", digest[i]);
}

/*--- Making a bundle -------------------------------------------------------*/

/* What one call of attn_jit asks for, and what it finds out. */
struct build {
  attnc_request request;
  struct attn_compiler *compiler;
  struct attn_key key;
  const char *cache_dir;
  int source;
  char warning[sizeof((attn_jit_info *)0)->warning];
};

static int open_memory(attn_error *error) {
  int fd = memfd_create("attn_jit", MFD_CLOEXEC | MFD_EXEC);
  if (fd < 0 && errno == EINVAL) /* systems that do not know MFD_EXEC */
    fd = memfd_create("attn_jit", MFD_CLOEXEC);
  if (fd < 0)
    attn_fail(error, ATTN_IO_ERROR, "can't make a file in memory: %s",
              strerror(errno));
  return fd;
}

/* Compiles into a file in memory: the compiler never sees the cache. */
static int compile(struct build *build, int *memory, const char **version,
                   attn_error *error) {
  int fd = open_memory(error);
  if (fd < 0)
    return ATTN_IO_ERROR;
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int status =
      attn_compiler_run(build->compiler, &build->request, path, version, error);
  struct stat info;
  if (!status && (fstat(fd, &info) || info.st_size == 0))
    status = attn_fail(error, ATTN_INTERNAL,
                       "the compiler library reports success but wrote "
                       "nothing to '%s'",
                       path);
  if (status) {
    close(fd);
    return status;
  }
  *memory = fd;
  return ATTN_OK;
}

static int load_memory(int memory, attn_bundle **bundle, attn_error *error) {
  struct stat info;
  if (fstat(memory, &info)) {
    close(memory);
    return attn_fail(error, ATTN_IO_ERROR, "fstat: %s", strerror(errno));
  }
  return attn_bundle_load(memory, (uint64_t)info.st_size, NULL, bundle, error);
}

/* Loads the entry if it is there. False: it has to be made. A whole entry that
 * does not load means a directory that no code may be loaded from. */
static bool load_cached(struct build *build, const struct attn_cache *cache,
                        attn_bundle **bundle, char *warning, size_t size) {
  int fd;
  uint64_t bytes;
  if (attn_cache_lookup(cache, &build->key,
                        attn_compiler_version(build->compiler), &fd,
                        &bytes) != ATTN_CACHE_HIT)
    return false;
  char *path = attn_cache_entry_path(cache, &build->key);
  attn_error error;
  int status = attn_bundle_load(fd, bytes, path, bundle, &error);
  if (status)
    snprintf(warning, size, "%.900s", error.text);
  free(path);
  return !status;
}

/* For a person who looks at the cache: what was compiled, and how. */
static void describe(const struct build *build, char *text, size_t size) {
  struct attn_text out = {text, size, 0};
  attn_append(&out, "%.100s", build->request.file);
  if (build->request.variant)
    attn_append(&out, " --variant %.100s", build->request.variant);
  attn_append(&out, " --target %.100s", build->request.targets);
  if (build->request.plan)
    attn_append(&out, " --plan %.100s", build->request.plan);
  for (size_t i = 0; i < build->request.n_defines; ++i)
    attn_append(&out, " -D %.100s", build->request.defines[i]);
}

static int make(struct build *build, attn_bundle **bundle, attn_error *error) {
  struct attn_cache cache;
  attn_error trouble;
  trouble.text[0] = 0;
  int cache_lock = -1;
  bool have_cache = false;
  build->source = ATTN_JIT_FROM_DISK;
  if (build->cache_dir && !*build->cache_dir) {
    snprintf(trouble.text, sizeof trouble.text, "the disk cache is turned off");
  } else if (!attn_cache_open(build->cache_dir, &cache, &trouble)) {
    have_cache = true;
    if (load_cached(build, &cache, bundle, trouble.text, sizeof trouble.text)) {
      attn_cache_close(&cache);
      return ATTN_OK;
    }
    /* Another process may be about to finish the same entry. */
    if (!trouble.text[0] && !attn_cache_lock(&cache, &build->key, LOCK_SECONDS,
                                             &cache_lock, &trouble)) {
      trouble.text[0] = 0;
      if (load_cached(build, &cache, bundle, trouble.text,
                      sizeof trouble.text)) {
        attn_cache_unlock(&cache, &build->key, cache_lock);
        attn_cache_close(&cache);
        return ATTN_OK;
      }
    }
  }

  int memory = -1;
  const char *version = "";
  build->source = ATTN_JIT_COMPILED;
  int status = compile(build, &memory, &version, error);
  if (cache_lock >= 0 && status)
    attn_cache_unlock(&cache, &build->key, cache_lock);
  bool loaded = false;
  if (cache_lock >= 0 && !status) {
    char description[256];
    describe(build, description, sizeof description);
    if (!attn_cache_store(&cache, &build->key, cache_lock, memory, version,
                          description, &trouble)) {
      trouble.text[0] = 0;
      loaded =
          load_cached(build, &cache, bundle, trouble.text, sizeof trouble.text);
    }
  }
  if (have_cache)
    attn_cache_close(&cache);
  if (status)
    return status;
  if (loaded) {
    close(memory);
    return ATTN_OK;
  }
  if (build->cache_dir && !*build->cache_dir)
    trouble.text[0] = 0; /* as asked for: nothing to warn of */
  if (trouble.text[0])
    snprintf(build->warning, sizeof build->warning,
             "%.900s; compiled in memory", trouble.text);
  return load_memory(memory, bundle, error);
}

/*--- One of each key in a process ------------------------------------------*/

static void drop(struct attn_jit_entry *entry) {
  struct attn_jit_entry **link = &entries;
  while (*link && *link != entry)
    link = &(*link)->next;
  if (*link)
    *link = entry->next;
}

static void free_entry(struct attn_jit_entry *entry) {
  free(entry->error);
  free(entry);
}

/* With the lock held: waits for the outcome of an entry that another thread is
 * making, and takes a reference to it. */
static int join(struct attn_jit_entry *entry, attn_bundle **bundle,
                char *warning, size_t size, attn_error *error) {
  ++entry->waiting;
  while (!entry->ready)
    pthread_cond_wait(&changed, &lock);
  --entry->waiting;
  snprintf(warning, size, "%s", entry->warning);
  if (entry->bundle) {
    ++entry->references;
    *bundle = entry->bundle;
    return ATTN_OK;
  }
  int status = entry->error ? entry->error->code : ATTN_OUT_OF_MEMORY;
  attn_fail(error, status, "%s",
            entry->error ? entry->error->text : "out of memory");
  if (!entry->waiting)
    free_entry(entry); /* a failure is forgotten with its last reader */
  return status;
}

static int get(struct build *build, attn_bundle **bundle, attn_error *error) {
  pthread_mutex_lock(&lock);
  struct attn_jit_entry *entry = entries;
  while (entry && strcmp(entry->key.hex, build->key.hex) != 0)
    entry = entry->next;
  if (entry) {
    build->source = ATTN_JIT_FROM_PROCESS;
    int status =
        join(entry, bundle, build->warning, sizeof build->warning, error);
    pthread_mutex_unlock(&lock);
    return status;
  }
  entry = calloc(1, sizeof *entry);
  attn_error *reason = calloc(1, sizeof *reason);
  if (!entry || !reason) {
    pthread_mutex_unlock(&lock);
    free(entry);
    free(reason);
    return attn_fail(error, ATTN_OUT_OF_MEMORY, "out of memory");
  }
  entry->key = build->key;
  entry->error = reason;
  entry->next = entries;
  entries = entry;
  pthread_mutex_unlock(&lock);

  attn_bundle *made = NULL;
  int status = make(build, &made, reason);

  pthread_mutex_lock(&lock);
  entry->ready = true;
  memcpy(entry->warning, build->warning, sizeof entry->warning);
  if (status) {
    attn_fail(error, status, "%s", reason->text);
    drop(entry); /* the next who asks tries again */
    if (!entry->waiting)
      free_entry(entry);
  } else {
    made->jit = entry;
    entry->bundle = *bundle = made;
    entry->references = 1;
    entry->error = NULL;
    free(reason);
  }
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return status;
}

void attn_jit_release(attn_bundle *bundle) {
  pthread_mutex_lock(&lock);
  struct attn_jit_entry *entry = bundle->jit;
  /* A thread that waits takes its reference when it wakes. */
  bool last = --entry->references == 0 && !entry->waiting;
  if (last)
    drop(entry);
  pthread_mutex_unlock(&lock);
  if (last) {
    attn_bundle_destroy(bundle);
    free_entry(entry);
  }
}

int attn_jit(const char *text, size_t size, const char *file_name,
             const attn_jit_options *options, attn_bundle **bundle,
             attn_jit_info *info, attn_error *error) {
  if (bundle)
    *bundle = NULL;
  if (info)
    memset(info, 0, sizeof *info);
  if ((!text && size) || !bundle)
    return attn_fail(error, ATTN_INVALID_ARGUMENT, "attn_jit: %s is NULL",
                     bundle ? "text" : "bundle");
  attn_jit_options o = {0};
  int status = options ? attn_copy_struct(&o, sizeof o, options,
                                          "attn_jit_options", error)
                       : ATTN_OK;
  if (status)
    return status;
  if (o.n_defines && !o.defines)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_jit_options.defines is NULL, n_defines is %zu",
                     o.n_defines);
  for (size_t i = 0; i < o.n_defines; ++i)
    if (!o.defines[i])
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "attn_jit_options.defines[%zu] is NULL", i);
  struct build build = {
      .request = {.abi_version = ATTN_ABI_VERSION,
                  .struct_size = sizeof(attnc_request),
                  .text = text ? text : "",
                  .text_size = size,
                  .file = file_name ? file_name : "<text>",
                  .targets = o.targets && *o.targets ? o.targets : "host",
                  .variant = o.variant,
                  .plan = o.plan,
                  .defines = o.defines,
                  .n_defines = o.n_defines},
      .cache_dir = o.cache_dir,
  };
  status = attn_compiler_find(o.compiler_library, &build.compiler, error);
  if (status)
    return status;
  attn_jit_key(&build.request, build.compiler, &build.key);
  status = get(&build, bundle, error);
  if (info) {
    info->source = build.source;
    memcpy(info->key, build.key.hex, sizeof info->key);
    memcpy(info->warning, build.warning, sizeof info->warning);
  }
  return status ? status : attn_succeed(error);
}

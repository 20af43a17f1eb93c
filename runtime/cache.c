/*===- runtime/cache.c - Compiled bundles on disk -------------------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * An entry is a file KEY.so: the bundle as it is loaded, then a description,
 * then a footer with a checksum of everything before it. It appears by rename
 * and never changes. It is not synced: what a power cut leaves of it fails the
 * checksum and is made anew.
 *
 * A writer holds a lock (flock) on KEY.tmp, so a second process waits for the
 * first one's work, and the lock of a process that dies is let go by the
 * system. Whoever gets the lock of a .tmp may therefore remove or reuse it.
 *
 *===----------------------------------------------------------------------===*/
#include "internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define KEY_DIGITS 64
#define NAME_SIZE (KEY_DIGITS + 5)
#define DESCRIPTION_SIZE 512
#define VERSION_SIZE 64

struct footer {
  char magic[8];
  uint64_t payload_size;
  char key[KEY_DIGITS];
  char version[VERSION_SIZE]; /* digest of the compiler's version, hex */
  uint64_t description_size;
  uint8_t digest[32]; /* of payload, description and the fields above */
};
static const char footer_magic[8] = "ATTNC01";

/*--- Directories and names -------------------------------------------------*/

int attn_cache_dir(char *buffer, size_t size, attn_error *error) {
  if (!buffer)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_cache_dir: buffer is NULL");
  static const char *const places[][2] = {{"ATTN_CACHE_DIR", ""},
                                          {"XDG_CACHE_HOME", "/attnc"},
                                          {"HOME", "/.cache/attnc"}};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; ++i) {
    const char *base = getenv(places[i][0]);
    if (!base || !*base)
      continue;
    int n = snprintf(buffer, size, "%s%s", base, places[i][1]);
    if (n < 0 || (size_t)n >= size)
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "the cache directory's name (from %s) does not fit in "
                       "%zu bytes",
                       places[i][0], size);
    return attn_succeed(error);
  }
  return attn_fail(error, ATTN_NOT_FOUND,
                   "there is no cache directory: none of ATTN_CACHE_DIR, "
                   "XDG_CACHE_HOME and HOME is set");
}

/* Whether that worked shows when the directory is opened. */
static void make_directories(char *path) {
  for (char *p = path + 1; *p; ++p) {
    if (*p != '/')
      continue;
    *p = 0;
    mkdir(path, 0700);
    *p = '/';
  }
  mkdir(path, 0700);
}

static int open_directory(const char *dir, bool create,
                          struct attn_cache *cache, attn_error *error) {
  char path[PATH_MAX];
  if (!dir) {
    int status = attn_cache_dir(path, sizeof path, error);
    if (status)
      return status;
  } else if (strlen(dir) >= sizeof path || !*dir) {
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "the cache directory's name has %zu bytes, must have from "
                     "1 to %zu",
                     strlen(dir), sizeof path - 1);
  } else {
    strcpy(path, dir);
  }
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && create) {
    make_directories(path);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }
  if (fd < 0)
    return attn_fail(error, errno == ENOENT ? ATTN_NOT_FOUND : ATTN_IO_ERROR,
                     "can't %s the cache directory '%s': %s",
                     create ? "make" : "open", path, strerror(errno));
  /* The loader needs a path with a slash. */
  char *copy = malloc(strlen(path) + 3);
  if (!copy) {
    close(fd);
    return attn_fail(error, ATTN_OUT_OF_MEMORY, "out of memory");
  }
  sprintf(copy, "%s%s", strchr(path, '/') ? "" : "./", path);
  *cache = (struct attn_cache){fd, copy};
  return ATTN_OK;
}

int attn_cache_open(const char *dir, struct attn_cache *cache,
                    attn_error *error) {
  return open_directory(dir, true, cache, error);
}

void attn_cache_close(struct attn_cache *cache) {
  close(cache->dirfd);
  free(cache->path);
}

char *attn_cache_entry_path(const struct attn_cache *cache,
                            const struct attn_key *key) {
  size_t size = strlen(cache->path) + NAME_SIZE + 1;
  char *path = malloc(size);
  if (path)
    snprintf(path, size, "%s/%s.so", cache->path, key->hex);
  return path;
}

/* True if `name` is 64 hexadecimal digits and then `suffix`. */
static bool is_entry_name(const char *name, const char *suffix) {
  return strspn(name, "0123456789abcdef") == KEY_DIGITS &&
         strcmp(name + KEY_DIGITS, suffix) == 0;
}

/*--- Reading ---------------------------------------------------------------*/

/* Reads size bytes, or until the end; returns how many, -1 on an error. */
static ssize_t read_some(int fd, void *data, size_t size, uint64_t offset) {
  size_t used = 0;
  while (used < size) {
    ssize_t n =
        pread(fd, (char *)data + used, size - used, (off_t)(offset + used));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return -1;
    if (n == 0)
      break;
    used += (size_t)n;
  }
  return (ssize_t)used;
}

/* Reads and verifies a whole entry. `key` NULL takes the file's own. */
static bool verify(int fd, const char *key, struct footer *footer,
                   char description[DESCRIPTION_SIZE]) {
  struct stat info;
  if (fstat(fd, &info) || !S_ISREG(info.st_mode) ||
      info.st_size < (off_t)sizeof *footer)
    return false;
  uint64_t before = (uint64_t)info.st_size - sizeof *footer;
  if (read_some(fd, footer, sizeof *footer, before) != sizeof *footer ||
      memcmp(footer->magic, footer_magic, sizeof footer_magic) != 0 ||
      (key && memcmp(footer->key, key, KEY_DIGITS) != 0) ||
      footer->description_size >= DESCRIPTION_SIZE ||
      footer->payload_size > before ||
      footer->description_size != before - footer->payload_size)
    return false;
  struct attn_sha256 hash;
  attn_sha256_init(&hash);
  char chunk[16384];
  for (uint64_t at = 0; at < before;) {
    size_t want = before - at < sizeof chunk ? before - at : sizeof chunk;
    if (read_some(fd, chunk, want, at) != (ssize_t)want)
      return false;
    attn_sha256_update(&hash, chunk, want);
    at += want;
  }
  attn_sha256_update(&hash, footer, offsetof(struct footer, digest));
  uint8_t digest[32];
  attn_sha256_final(&hash, digest);
  if (memcmp(digest, footer->digest, sizeof digest) != 0)
    return false;
  size_t n = (size_t)footer->description_size;
  if (read_some(fd, description, n, footer->payload_size) != (ssize_t)n)
    return false;
  description[n] = 0;
  return true;
}

static void hash_version(const char *version, char hex[VERSION_SIZE]) {
  static const char digits[] = "0123456789abcdef";
  struct attn_sha256 hash;
  uint8_t digest[32];
  attn_sha256_init(&hash);
  attn_sha256_update(&hash, version, strlen(version));
  attn_sha256_final(&hash, digest);
  for (int i = 0; i < 32; ++i) {
    hex[2 * i] = digits[digest[i] >> 4];
    hex[2 * i + 1] = digits[digest[i] & 15];
  }
}

enum attn_cache_state attn_cache_lookup(const struct attn_cache *cache,
                                        const struct attn_key *key,
                                        const char *version, int *fd,
                                        uint64_t *size) {
  char name[NAME_SIZE];
  snprintf(name, sizeof name, "%s.so", key->hex);
  int file = openat(cache->dirfd, name,
                    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0)
    return ATTN_CACHE_MISS;
  /* Code is taken only from this user, or from one who may do anything. */
  struct stat info;
  struct footer footer;
  char description[DESCRIPTION_SIZE], wanted[VERSION_SIZE];
  bool good = fstat(file, &info) == 0 &&
              (info.st_uid == geteuid() || info.st_uid == 0) &&
              !(info.st_mode & (S_IWGRP | S_IWOTH)) &&
              verify(file, key->hex, &footer, description);
  if (good && version) {
    hash_version(version, wanted);
    good = memcmp(wanted, footer.version, VERSION_SIZE) == 0;
  }
  if (!good) {
    close(file);
    return ATTN_CACHE_DAMAGED;
  }
  *fd = file;
  *size = footer.payload_size;
  return ATTN_CACHE_HIT;
}

/*--- Writing ---------------------------------------------------------------*/

/* True if `fd` is still what the directory has under `name`. */
static bool is_current(const struct attn_cache *cache, const char *name,
                       int fd) {
  struct stat mine, named;
  return fstat(fd, &mine) == 0 &&
         fstatat(cache->dirfd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int attn_cache_lock(const struct attn_cache *cache, const struct attn_key *key,
                    double seconds, int *lock, attn_error *error) {
  char name[NAME_SIZE];
  snprintf(name, sizeof name, "%s.tmp", key->hex);
  double end = now() + seconds;
  long pause = 100000; /* nanoseconds */
  int fd = -1;
  for (;;) {
    if (fd < 0)
      fd = openat(cache->dirfd, name,
                  O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
      return attn_fail(error, ATTN_IO_ERROR,
                       "can't write to the cache directory '%s': %s",
                       cache->path, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
      if (is_current(cache, name, fd))
        break;
      /* Renamed or removed by whoever had it before. */
      close(fd);
      fd = -1;
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) {
      int reason = errno;
      close(fd);
      return attn_fail(error, ATTN_IO_ERROR,
                       "can't lock a file of the cache directory '%s': %s",
                       cache->path, strerror(reason));
    }
    if (now() >= end) {
      close(fd);
      return attn_fail(error, ATTN_IO_ERROR,
                       "another process has been compiling the same kernel "
                       "for %.0f seconds (it holds '%s/%s')",
                       seconds, cache->path, name);
    }
    nanosleep(&(struct timespec){0, pause}, NULL);
    pause = pause < 5000000 ? pause * 2 : pause;
  }
  *lock = fd;
  return ATTN_OK;
}

void attn_cache_unlock(const struct attn_cache *cache,
                       const struct attn_key *key, int lock) {
  char name[NAME_SIZE];
  snprintf(name, sizeof name, "%s.tmp", key->hex);
  unlinkat(cache->dirfd, name, 0);
  /* Told explicitly: a child of fork() may hold the same open file. */
  flock(lock, LOCK_UN);
  close(lock);
}

static bool write_all(int fd, const void *data, size_t size) {
  for (const char *p = data; size;) {
    ssize_t n = write(fd, p, size);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    p += n;
    size -= (size_t)n;
  }
  return true;
}

static bool write_entry(int fd, const struct attn_key *key, int bundle,
                        const char *version, const char *description) {
  struct footer footer = {0};
  memcpy(footer.magic, footer_magic, sizeof footer.magic);
  memcpy(footer.key, key->hex, KEY_DIGITS);
  hash_version(version, footer.version);
  footer.description_size = strlen(description);
  struct attn_sha256 hash;
  attn_sha256_init(&hash);
  if (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET) < 0)
    return false;
  char chunk[16384];
  for (;;) {
    ssize_t n = read_some(bundle, chunk, sizeof chunk, footer.payload_size);
    if (n < 0)
      return false;
    if (n == 0)
      break;
    attn_sha256_update(&hash, chunk, (size_t)n);
    footer.payload_size += (uint64_t)n;
    if (!write_all(fd, chunk, (size_t)n))
      return false;
  }
  attn_sha256_update(&hash, description, (size_t)footer.description_size);
  attn_sha256_update(&hash, &footer, offsetof(struct footer, digest));
  attn_sha256_final(&hash, footer.digest);
  return write_all(fd, description, (size_t)footer.description_size) &&
         write_all(fd, &footer, sizeof footer);
}

/* Removes the .tmp files that no living process has locked. */
static size_t remove_leftovers(const struct attn_cache *cache) {
  size_t removed = 0;
  int fd = openat(cache->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  if (!dir) {
    if (fd >= 0)
      close(fd);
    return 0;
  }
  for (struct dirent *entry; (entry = readdir(dir));) {
    if (!is_entry_name(entry->d_name, ".tmp"))
      continue;
    int file = openat(cache->dirfd, entry->d_name,
                      O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
      continue;
    if (flock(file, LOCK_EX | LOCK_NB) == 0 &&
        is_current(cache, entry->d_name, file))
      removed += unlinkat(cache->dirfd, entry->d_name, 0) == 0;
    close(file);
  }
  closedir(dir);
  return removed;
}

int attn_cache_store(const struct attn_cache *cache, const struct attn_key *key,
                     int lock, int bundle, const char *version,
                     const char *description, attn_error *error) {
  char temporary[NAME_SIZE], final[NAME_SIZE];
  snprintf(temporary, sizeof temporary, "%s.tmp", key->hex);
  snprintf(final, sizeof final, "%s.so", key->hex);
  /* A limit on the size of files would be told by a signal that ends the
   * process; here it is an error like any other. */
  sigset_t limit, before;
  sigemptyset(&limit);
  sigaddset(&limit, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &limit, &before);
  errno = 0;
  bool written = write_entry(lock, key, bundle, version, description) &&
                 renameat(cache->dirfd, temporary, cache->dirfd, final) == 0;
  int reason = errno;
  if (!written && reason == EFBIG && !sigismember(&before, SIGXFSZ))
    sigtimedwait(&limit, NULL, &(struct timespec){0, 0});
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!written) {
    attn_cache_unlock(cache, key, lock);
    return attn_fail(error, ATTN_IO_ERROR,
                     "can't write to the cache directory '%s': %s", cache->path,
                     strerror(reason));
  }
  flock(lock, LOCK_UN);
  close(lock);
  remove_leftovers(cache);
  return ATTN_OK;
}

/*--- For people ------------------------------------------------------------*/

/* The names of all entries, sorted; to be freed one by one. -1: an error. */
static int scan(const struct attn_cache *cache, struct dirent ***names,
                attn_error *error) {
  int n = scandir(cache->path, names, NULL, alphasort);
  if (n < 0)
    attn_fail(error, ATTN_IO_ERROR, "can't read the cache directory '%s': %s",
              cache->path, strerror(errno));
  return n;
}

int attn_cache_list(const char *dir,
                    void (*visit)(void *context, const attn_cache_entry *entry),
                    void *context, attn_error *error) {
  if (!visit)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_cache_list: visit is NULL");
  struct attn_cache cache;
  int status = open_directory(dir, false, &cache, error);
  if (status == ATTN_NOT_FOUND)
    return attn_succeed(error);
  if (status)
    return status;
  struct dirent **names;
  int n = scan(&cache, &names, error);
  for (int i = 0; i < n; ++i) {
    struct stat info;
    if (is_entry_name(names[i]->d_name, ".so") &&
        fstatat(cache.dirfd, names[i]->d_name, &info, AT_SYMLINK_NOFOLLOW) ==
            0) {
      struct attn_key key;
      memcpy(key.hex, names[i]->d_name, KEY_DIGITS);
      key.hex[KEY_DIGITS] = 0;
      char description[DESCRIPTION_SIZE];
      struct footer footer;
      int fd = openat(cache.dirfd, names[i]->d_name,
                      O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
      bool intact = fd >= 0 && verify(fd, key.hex, &footer, description);
      if (fd >= 0)
        close(fd);
      char *path = attn_cache_entry_path(&cache, &key);
      attn_cache_entry entry = {path ? path : names[i]->d_name,
                                key.hex,
                                intact ? description : "",
                                (uint64_t)info.st_size,
                                info.st_mtim.tv_sec,
                                intact};
      visit(context, &entry);
      free(path);
    }
    free(names[i]);
  }
  if (n >= 0)
    free(names);
  attn_cache_close(&cache);
  return n < 0 ? ATTN_IO_ERROR : attn_succeed(error);
}

int attn_cache_clear(const char *dir, size_t *entries, uint64_t *bytes,
                     attn_error *error) {
  size_t count = 0;
  uint64_t sum = 0;
  if (entries)
    *entries = 0;
  if (bytes)
    *bytes = 0;
  struct attn_cache cache;
  int status = open_directory(dir, false, &cache, error);
  if (status == ATTN_NOT_FOUND)
    return attn_succeed(error);
  if (status)
    return status;
  struct dirent **names;
  int n = scan(&cache, &names, error);
  status = n < 0 ? ATTN_IO_ERROR : ATTN_OK;
  for (int i = 0; i < n; ++i) {
    struct stat info;
    if (is_entry_name(names[i]->d_name, ".so") &&
        fstatat(cache.dirfd, names[i]->d_name, &info, AT_SYMLINK_NOFOLLOW) ==
            0) {
      if (unlinkat(cache.dirfd, names[i]->d_name, 0) == 0) {
        ++count;
        sum += (uint64_t)info.st_size;
      } else if (errno != ENOENT && !status) {
        status = attn_fail(error, ATTN_IO_ERROR, "can't remove '%s/%s': %s",
                           cache.path, names[i]->d_name, strerror(errno));
      }
    }
    free(names[i]);
  }
  if (n >= 0)
    free(names);
  remove_leftovers(&cache);
  attn_cache_close(&cache);
  if (entries)
    *entries = count;
  if (bytes)
    *bytes = sum;
  return status ? status : attn_succeed(error);
}

/*===- runtime/pool.c - Threads -------------------------------------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 *===----------------------------------------------------------------------===*/
#define _GNU_SOURCE /* CPU_COUNT */
#include "internal.h"
#include <pthread.h>
#include <pthreadpool.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct attn_pool {
  pthreadpool_t threads;
  size_t count;
  uint32_t flags;
  /* One call at a time: it owns the scratch memory, which is kept from call to
   * call so that small calls do not pay for fresh pages. */
  pthread_mutex_t lock;
  char *scratch;
  size_t scratch_bytes;
  void (*body)(void *arg, size_t index);
  void *arg;
  /* Order what the caller wrote before the bodies, and what they wrote before
   * what it reads next, whatever the threads underneath use for it. */
  atomic_uint started, ended;
};

size_t attn_cpu_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
    return (size_t)CPU_COUNT(&set);
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (size_t)n : 1;
}

static void *wait_for_end(void *gate) {
  pthread_mutex_lock(gate);
  pthread_mutex_unlock(gate);
  return NULL;
}

/* pthreadpool waits for ever for a thread that the system did not give it. So
 * first see whether that many can exist at once. */
static int try_threads(size_t n) {
  pthread_t *ids = calloc(n ? n : 1, sizeof *ids);
  if (!ids)
    return 1;
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&gate);
  size_t made = 0;
  int failed = 0;
  while (made < n && !failed) {
    failed = pthread_create(&ids[made], NULL, wait_for_end, &gate);
    made += !failed;
  }
  pthread_mutex_unlock(&gate);
  for (size_t i = 0; i < made; ++i)
    pthread_join(ids[i], NULL);
  pthread_mutex_destroy(&gate);
  free(ids);
  return failed;
}

int attn_pool_create(size_t threads, attn_pool **pool, attn_error *error) {
  if (!pool)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_pool_create: pool is NULL");
  *pool = NULL;
  size_t cpus = attn_cpu_count();
  if (!threads)
    threads = cpus < ATTN_MAX_THREADS ? cpus : ATTN_MAX_THREADS;
  if (threads > ATTN_MAX_THREADS)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_pool_create: %zu threads, at most %d are allowed",
                     threads, ATTN_MAX_THREADS);
  int failed = try_threads(threads - 1);
  if (failed)
    return attn_fail(error, ATTN_OUT_OF_MEMORY,
                     "attn_pool_create: the system does not give %zu threads: "
                     "%s",
                     threads, strerror(failed));
  attn_pool *p = calloc(1, sizeof *p);
  if (!p)
    return attn_fail(error, ATTN_OUT_OF_MEMORY, "out of memory");
  p->threads = pthreadpool_create(threads);
  if (!p->threads) {
    free(p);
    return attn_fail(error, ATTN_OUT_OF_MEMORY,
                     "attn_pool_create: no pool of %zu threads", threads);
  }
  p->count = threads;
  /* Threads beyond the CPUs would spin at the expense of those that work. */
  p->flags = threads > cpus ? PTHREADPOOL_FLAG_YIELD_WORKERS : 0;
  pthread_mutex_init(&p->lock, NULL);
  *pool = p;
  return attn_succeed(error);
}

void attn_pool_destroy(attn_pool *pool) {
  if (!pool)
    return;
  pthreadpool_destroy(pool->threads);
  pthread_mutex_destroy(&pool->lock);
  free(pool->scratch);
  free(pool);
}

size_t attn_pool_threads(const attn_pool *pool) {
  return pool ? pool->count : 0;
}

static void run_body(void *pool_arg, size_t index) {
  attn_pool *pool = pool_arg;
  (void)atomic_load_explicit(&pool->started, memory_order_acquire);
  pool->body(pool->arg, index);
  atomic_fetch_add_explicit(&pool->ended, 1, memory_order_release);
}

bool attn_pool_run(attn_pool *pool, size_t n, size_t bytes, char **scratch,
                   void (*body)(void *arg, size_t index), void *arg) {
  pthread_mutex_lock(&pool->lock);
  if (bytes > pool->scratch_bytes) {
    free(pool->scratch);
    pool->scratch = aligned_alloc(64, bytes);
    pool->scratch_bytes = pool->scratch ? bytes : 0;
    if (!pool->scratch) {
      pthread_mutex_unlock(&pool->lock);
      return false;
    }
  }
  if (bytes)
    *scratch = pool->scratch;
  if (n == 1) {
    body(arg, 0);
  } else {
    pool->body = body;
    pool->arg = arg;
    atomic_fetch_add_explicit(&pool->started, 1, memory_order_release);
    pthreadpool_parallelize_1d(pool->threads, run_body, pool, n, pool->flags);
    (void)atomic_load_explicit(&pool->ended, memory_order_acquire);
  }
  pthread_mutex_unlock(&pool->lock);
  return true;
}

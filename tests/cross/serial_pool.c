/*===- tests/cross/serial_pool.c - A thread pool without threads ----------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * What the runtime calls of pthreadpool, done one after the other. The library
 * itself is not there for the machine that is compiled for.
 *
 *===----------------------------------------------------------------------===*/
#include <pthreadpool.h>

static char only;

pthreadpool_t pthreadpool_create(size_t threads) {
  (void)threads;
  return (pthreadpool_t)&only;
}

void pthreadpool_destroy(pthreadpool_t pool) { (void)pool; }

void pthreadpool_parallelize_1d(pthreadpool_t pool,
                                pthreadpool_task_1d_t function, void *context,
                                size_t range, uint32_t flags) {
  (void)pool;
  (void)flags;
  for (size_t i = 0; i < range; ++i)
    function(context, i);
}

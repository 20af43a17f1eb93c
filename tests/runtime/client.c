/*===- tests/runtime/client.c - A C program that uses the runtime ---------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * Run by the tests in processes of its own; links the shared library only.
 *
 *   client jit LIBRARY CACHE THREADS TEXT...
 *       Waits for the end of standard input, then compiles each text on that
 *       many threads at once and runs the kernel. Prints a line for each text.
 *   client file-limit BYTES LIBRARY CACHE THREADS TEXT...
 *       The same with that limit on the size of files.
 *   client pool-limit
 *       Asks for more threads than the address space has room for.
 *
 *===----------------------------------------------------------------------===*/
#include <attn.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct task {
  const char *library, *cache, *text;
  pthread_barrier_t *start;
  attn_jit_info info;
  char kernel_text[256];
  int failed;
};

/* One key, so the output is V; the numbers tell heads apart. */
static int run_kernel(const attn_kernel *kernel, attn_error *error) {
  float q[4][2][5] = {{{0}}}, k[2][1][5] = {{{0}}}, o[4][2][3];
  float v[2][1][3] = {{{1, 2, 3}}, {{4, 5, 6}}};
  int64_t q_shape[] = {1, 4, 2, 5}, k_shape[] = {1, 2, 1, 5};
  int64_t v_shape[] = {1, 2, 1, 3}, o_shape[] = {1, 4, 2, 3};
  DLDevice cpu = {kDLCPU, 0};
  DLDataType f32 = {kDLFloat, 32, 1};
  DLTensor tq = {q, cpu, 4, f32, q_shape, NULL, 0};
  DLTensor tk = {k, cpu, 4, f32, k_shape, NULL, 0};
  DLTensor tv = {v, cpu, 4, f32, v_shape, NULL, 0};
  DLTensor to = {o, cpu, 4, f32, o_shape, NULL, 0};
  attn_tensors tensors = {
      .struct_size = sizeof tensors, .q = &tq, .k = &tk, .v = &tv, .o = &to};
  memset(o, 0xff, sizeof o);
  int status = attn_run(kernel, &tensors, NULL, error);
  for (int h = 0; h < 4 && !status; ++h)
    for (int i = 0; i < 2; ++i)
      for (int c = 0; c < 3; ++c)
        if (!(fabsf(o[h][i][c] - v[h / 2][0][c]) < 1e-6f)) {
          snprintf(error->text, sizeof error->text, "wrong result");
          return ATTN_INTERNAL;
        }
  return status;
}

static void *do_task(void *arg) {
  struct task *task = arg;
  attn_error error = {0};
  attn_jit_options options = {.struct_size = sizeof options};
  options.compiler_library = task->library;
  options.cache_dir = task->cache;
  attn_bundle *bundle = NULL;
  const attn_kernel *kernel = NULL;
  pthread_barrier_wait(task->start);
  if (attn_jit(task->text, strlen(task->text), "client.attn", &options, &bundle,
               &task->info, &error) ||
      attn_kernel_pick(bundle, NULL, NULL, &kernel, &error) ||
      run_kernel(kernel, &error)) {
    fprintf(stderr, "client: %s: %s\n", attn_status_name(error.code),
            error.text);
    task->failed = 1;
  } else {
    snprintf(task->kernel_text, sizeof task->kernel_text, "%s", kernel->text);
  }
  attn_bundle_close(bundle);
  return NULL;
}

static int jit(int argc, char **argv) {
  if (argc < 4)
    return 2;
  const char *library = argv[0], *cache = argv[1];
  size_t threads = strtoul(argv[2], NULL, 10);
  char byte;
  while (read(0, &byte, 1) > 0)
    ;
  int failed = 0;
  for (int i = 3; i < argc; ++i) {
    struct task *tasks = calloc(threads, sizeof *tasks);
    pthread_t *ids = calloc(threads, sizeof *ids);
    pthread_barrier_t start;
    if (!tasks || !ids || pthread_barrier_init(&start, NULL, (unsigned)threads))
      return 3;
    for (size_t t = 0; t < threads; ++t) {
      tasks[t] = (struct task){library, cache, argv[i], &start, {0}, "", 0};
      if (pthread_create(&ids[t], NULL, do_task, &tasks[t]))
        return 3;
    }
    for (size_t t = 0; t < threads; ++t) {
      pthread_join(ids[t], NULL);
      failed |= tasks[t].failed;
      if (strncmp(tasks[t].kernel_text, argv[i], strlen(argv[i])) != 0) {
        fprintf(stderr, "client: got the kernel of '%s', asked for '%s'\n",
                tasks[t].kernel_text, argv[i]);
        failed = 1;
      }
    }
    void *compiler = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    printf("source=%d compiler=%d warning=%s\n", tasks[0].info.source,
           compiler != NULL, tasks[0].info.warning);
    if (compiler)
      dlclose(compiler);
    pthread_barrier_destroy(&start);
    free(tasks);
    free(ids);
  }
  return failed;
}

static int pool_limit(void) {
  struct rlimit limit = {256 << 20, 256 << 20};
  if (setrlimit(RLIMIT_AS, &limit))
    return 3;
  attn_pool *pool;
  attn_error error;
  int status = attn_pool_create(500, &pool, &error);
  printf("%s: %s\n", attn_status_name(status), error.text);
  if (status != ATTN_OUT_OF_MEMORY || pool)
    return 1;
  /* What is left is usable. */
  if (attn_pool_create(2, &pool, &error))
    return 1;
  attn_pool_destroy(pool);
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "jit"))
    return jit(argc - 2, argv + 2);
  if (argc > 2 && !strcmp(argv[1], "file-limit")) {
    struct rlimit limit = {strtoull(argv[2], NULL, 10),
                           strtoull(argv[2], NULL, 10)};
    if (setrlimit(RLIMIT_FSIZE, &limit))
      return 3;
    return jit(argc - 3, argv + 3);
  }
  if (argc > 1 && !strcmp(argv[1], "pool-limit"))
    return pool_limit();
  return 2;
}

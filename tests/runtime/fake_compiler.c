/*===- tests/runtime/fake_compiler.c - A stand-in for the compiler --------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * "Compiles" by copying the bundle that $FAKE_BUNDLE names, with the whole
 * request written into its kernels' text. Appends a byte to $FAKE_LOG for each
 * compilation, takes $FAKE_DELAY_MS, and fails for texts with "error" in them.
 *
 *===----------------------------------------------------------------------===*/
#define _GNU_SOURCE /* memmem */
#include "runtime/attn_abi.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static const char marker[] = "@@ATTN_TEXT@@";

static void log_compilation(void) {
  const char *path = getenv("FAKE_LOG");
  int fd =
      path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (fd >= 0) {
    if (write(fd, "x", 1) != 1)
      abort();
    close(fd);
  }
}

static void delay(int divisor) {
  const char *text = getenv("FAKE_DELAY_MS");
  long ms = text ? atol(text) : 0;
  ms /= divisor;
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static int fail(char **error, const char *file, const char *what) {
  size_t size = strlen(file) + strlen(what) + 32;
  *error = malloc(size);
  if (*error)
    snprintf(*error, size, "%s:1:1: error: %s", file, what);
  return 1;
}

EXPORT int attnc_compile(const attnc_request *request, const char *out_path,
                         char **error) {
  log_compilation();
  delay(2);
  if (request->text_size >= 5 &&
      memmem(request->text, request->text_size, "error", 5))
    return fail(error, request->file, "as asked for");
  const char *source = getenv("FAKE_BUNDLE");
  int in = source ? open(source, O_RDONLY | O_CLOEXEC) : -1;
  struct stat info;
  if (in < 0 || fstat(in, &info))
    return fail(error, request->file, "FAKE_BUNDLE names no file");
  size_t size = (size_t)info.st_size;
  char *data = malloc(size);
  if (!data || read(in, data, size) != (ssize_t)size)
    return fail(error, request->file, "can't read the bundle");
  close(in);
  char *place = memmem(data, size, marker, sizeof marker);
  if (place) {
    int n = snprintf(place, 2048, "%.*s|%s|%s|%s", (int)request->text_size,
                     request->text, request->targets,
                     request->variant ? request->variant : "-",
                     request->plan ? request->plan : "-");
    for (size_t i = 0; i < request->n_defines && n < 1900; ++i)
      n += snprintf(place + n, 2048 - (size_t)n, "|%s", request->defines[i]);
  }
  int out = open(out_path, O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (out < 0)
    return fail(error, request->file, "can't open the output");
  size_t half = size / 2;
  int good = write(out, data, half) == (ssize_t)half;
  delay(2);
  good = good && write(out, data + half, size - half) == (ssize_t)(size - half);
  close(out);
  free(data);
  return good ? 0 : fail(error, request->file, "can't write the output");
}

EXPORT void attnc_free(char *text) { free(text); }

EXPORT const char *attnc_version(void) {
  const char *version = getenv("FAKE_VERSION");
  return version ? version : "fake 1";
}

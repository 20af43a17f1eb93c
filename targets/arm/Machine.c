/*===- targets/arm/Machine.c - What this AArch64 CPU can run --------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * The kernel's hardware capabilities: what it names, both the CPU has and the
 * system saves. Their bits are part of Linux's interface, so they are written
 * out here rather than taken from headers that may be older than a feature.
 *
 *===----------------------------------------------------------------------===*/
#include "runtime/attn_abi.h"
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>

/* LLVM's names. */
static const struct feature {
  const char *name;
  unsigned long type;
  unsigned bit;
} features[] = {
    {"fp-armv8", AT_HWCAP, 0}, {"neon", AT_HWCAP, 1},
    {"lse", AT_HWCAP, 8},      {"fullfp16", AT_HWCAP, 10},
    {"rdm", AT_HWCAP, 12},     {"dotprod", AT_HWCAP, 20},
    {"sve", AT_HWCAP, 22},     {"fp16fml", AT_HWCAP, 23},
    {"sve2", AT_HWCAP2, 1},    {"i8mm", AT_HWCAP2, 13},
    {"bf16", AT_HWCAP2, 14},   {"sme", AT_HWCAP2, 23},
};
#define N_FEATURES (sizeof features / sizeof features[0])

static char text[N_FEATURES * 16];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int is_present(const struct feature *f) {
  return (int)(getauxval(f->type) >> f->bit & 1);
}

static void write_text(void) {
  char *end = text;
  for (size_t i = 0; i < N_FEATURES; ++i) {
    if (!is_present(&features[i]))
      continue;
    if (end != text)
      *end++ = ',';
    size_t length = strlen(features[i].name);
    memcpy(end, features[i].name, length);
    end += length;
  }
  *end = 0;
}

int attn_machine_has(const char *feature, size_t length) {
  for (size_t i = 0; i < N_FEATURES; ++i)
    if (strlen(features[i].name) == length &&
        memcmp(features[i].name, feature, length) == 0)
      return is_present(&features[i]);
  return 0;
}

const char *attn_machine_features(void) {
  pthread_once(&once, write_text);
  return text;
}

/*===- targets/x86/Machine.c - What this x86-64 CPU can run ---------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 *===----------------------------------------------------------------------===*/
#include "targets/x86/Machine.h"
#include "runtime/attn_abi.h"
#include <cpuid.h>
#include <pthread.h>
#include <string.h>

enum reg { L1C, L1D, L7B, L7C, L7D, L71A, E1C };
/* Register state that the system has to save: bits of XCR0. */
enum { NO_STATE = 0, YMM_STATE = 0x06, ZMM_STATE = 0xe6 };
#define OSXSAVE (1u << 27)

/* Rows come after the rows they imply. */
static const struct feature {
  const char *name;
  uint8_t reg, bit, state;
  const char *implies; /* space separated */
} features[] = {
    {"sse2", L1D, 26, NO_STATE, ""},
    {"sse3", L1C, 0, NO_STATE, "sse2"},
    {"ssse3", L1C, 9, NO_STATE, "sse3"},
    {"sse4.1", L1C, 19, NO_STATE, "ssse3"},
    {"sse4.2", L1C, 20, NO_STATE, "sse4.1"},
    {"popcnt", L1C, 23, NO_STATE, ""},
    {"lzcnt", E1C, 5, NO_STATE, ""},
    {"bmi", L7B, 3, NO_STATE, ""},
    {"bmi2", L7B, 8, NO_STATE, ""},
    {"avx", L1C, 28, YMM_STATE, "sse4.2"},
    {"f16c", L1C, 29, YMM_STATE, "avx"},
    {"fma", L1C, 12, YMM_STATE, "avx"},
    {"avx2", L7B, 5, YMM_STATE, "avx"},
    {"avxvnni", L71A, 4, YMM_STATE, "avx2"},
    {"avx512f", L7B, 16, ZMM_STATE, "avx2 f16c fma"},
    {"avx512cd", L7B, 28, ZMM_STATE, "avx512f"},
    {"avx512bw", L7B, 30, ZMM_STATE, "avx512f"},
    {"avx512dq", L7B, 17, ZMM_STATE, "avx512f"},
    {"avx512vl", L7B, 31, ZMM_STATE, "avx512f"},
    {"avx512vbmi", L7C, 1, ZMM_STATE, "avx512bw"},
    {"avx512vnni", L7C, 11, ZMM_STATE, "avx512f"},
    {"avx512bf16", L71A, 5, ZMM_STATE, "avx512bw"},
    {"avx512fp16", L7D, 23, ZMM_STATE, "avx512bw avx512dq avx512vl"},
};
#define N_FEATURES (sizeof features / sizeof features[0])

const char *attn_x86_feature_name(unsigned bit) {
  return bit < N_FEATURES ? features[bit].name : NULL;
}

int attn_x86_feature_bit(const char *name, size_t length) {
  for (size_t i = 0; i < N_FEATURES; ++i)
    if (strlen(features[i].name) == length &&
        memcmp(features[i].name, name, length) == 0)
      return (int)i;
  return -1;
}

static int has_all(uint64_t have, const char *words) {
  while (*words) {
    size_t length = strcspn(words, " ");
    int bit = attn_x86_feature_bit(words, length);
    if (bit < 0 || !(have >> bit & 1))
      return 0;
    words += length + (words[length] == ' ');
  }
  return 1;
}

uint64_t attn_x86_features(const struct attn_x86_cpuid *raw, uint64_t xcr0) {
  const uint32_t regs[] = {
      [L1C] = raw->leaf1_ecx,     [L1D] = raw->leaf1_edx,
      [L7B] = raw->leaf7_ebx,     [L7C] = raw->leaf7_ecx,
      [L7D] = raw->leaf7_edx,     [L71A] = raw->leaf7_1_eax,
      [E1C] = raw->extended1_ecx,
  };
  if (!(raw->leaf1_ecx & OSXSAVE))
    xcr0 = 0;
  uint64_t have = 0;
  for (size_t i = 0; i < N_FEATURES; ++i) {
    const struct feature *f = &features[i];
    if ((regs[f->reg] >> f->bit & 1) && (xcr0 & f->state) == f->state &&
        has_all(have, f->implies))
      have |= UINT64_C(1) << i;
  }
  return have;
}

static struct {
  uint64_t have;
  char text[N_FEATURES * 16];
} machine;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void detect(void) {
  struct attn_x86_cpuid raw = {0};
  uint32_t a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d)) {
    raw.leaf1_ecx = c;
    raw.leaf1_edx = d;
  }
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    uint32_t subleaves = a;
    raw.leaf7_ebx = b;
    raw.leaf7_ecx = c;
    raw.leaf7_edx = d;
    if (subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d))
      raw.leaf7_1_eax = a;
  }
  if (__get_cpuid(0x80000001, &a, &b, &c, &d))
    raw.extended1_ecx = c;
  uint64_t xcr0 = 0;
  if (raw.leaf1_ecx & OSXSAVE) {
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    xcr0 = (uint64_t)d << 32 | a;
  }
  machine.have = attn_x86_features(&raw, xcr0);
  char *end = machine.text;
  for (size_t i = 0; i < N_FEATURES; ++i) {
    if (!(machine.have >> i & 1))
      continue;
    if (end != machine.text)
      *end++ = ',';
    size_t length = strlen(features[i].name);
    memcpy(end, features[i].name, length);
    end += length;
  }
  *end = 0;
}

int attn_machine_has(const char *feature, size_t length) {
  pthread_once(&once, detect);
  int bit = attn_x86_feature_bit(feature, length);
  return bit >= 0 && (machine.have >> bit & 1);
}

const char *attn_machine_features(void) {
  pthread_once(&once, detect);
  return machine.text;
}

/*===- tests/abi/calls_x86_64.h - What callees keep -------------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * The part of calls.c that is about one machine.
 *
 *===----------------------------------------------------------------------===*/
#ifndef ATTN_TESTS_ABI_CALLS_X86_64_H
#define ATTN_TESTS_ABI_CALLS_X86_64_H

#include "variants.h"
#include <pthread.h>
#include <string.h>
#include <xmmintrin.h>

#define ABI_KERNELS                                                            \
  &attn_plain__x86_64, &attn_plain__x86_avx2, &attn_plain__x86_avx512,         \
      &attn_scored__x86_64, &attn_scored__x86_avx2, &attn_scored__x86_avx512,  \
      &attn_listed__x86_64, &attn_listed__x86_avx2, &attn_listed__x86_avx512

/* Both as in call_x86_64.S. */
struct abi_request {
  attn_kernel_fn run;
  const attn_call *call;
  int64_t first, last;
  void *scratch;
  uint64_t kept[6]; /* rbx, rbp, r12 to r15 */
  uint64_t stack; /* bytes that the stack pointer is below 64-byte alignment */
  uint64_t wide;  /* whether there are ymm registers */
  uint32_t mxcsr;
  uint32_t control; /* of the x87, in the low half */
};
struct abi_state {
  uint64_t kept[6];
  int64_t stack; /* by how much the stack pointer moved */
  uint64_t flags;
  uint64_t frame[4]; /* of the caller's, above the return address */
  uint32_t mxcsr;
  uint32_t x87[7]; /* as fnstenv writes it: control, status, tags, ... */
  uint64_t upper[16][2];
};

#ifdef __cplusplus
extern "C" {
#endif
void abi_call(const struct abi_request *request, struct abi_state *state);
void abi_rude(const attn_call *call, int64_t first, int64_t last,
              void *scratch);
#ifdef __cplusplus
}
#endif

/* What the callee did not keep, or NULL. */
static const char *find_breach(const struct abi_request *request,
                               const struct abi_state *state) {
  static const char *const names[6] = {"rbx", "rbp", "r12",
                                       "r13", "r14", "r15"};
  for (int i = 0; i < 6; ++i)
    if (state->kept[i] != request->kept[i])
      return names[i];
  if (state->stack)
    return "the stack pointer";
  if (state->flags & 0x400)
    return "the direction flag";
  for (int i = 0; i < 4; ++i)
    if (state->frame[i] != 0x1122334455667788)
      return "the caller's frame";
  /* The six lowest bits are flags, which any arithmetic sets. */
  if ((state->mxcsr ^ request->mxcsr) & ~0x3fu)
    return "the modes of MXCSR";
  if ((state->x87[0] & 0xffff) != request->control)
    return "the x87 control word";
  if ((state->x87[2] & 0xffff) != 0xffff)
    return "an empty x87 stack";
  for (int i = 0; i < 16; ++i)
    if (state->upper[i][0] || state->upper[i][1])
      return "clean upper halves";
  return NULL;
}

static struct abi_request make_request(attn_kernel_fn run) {
  struct abi_request request;
  memset(&request, 0, sizeof request);
  request.run = run;
  for (uint64_t i = 0; i < 6; ++i)
    request.kept[i] = 0x5151515100000000 + i * 0x01010101;
  request.wide = __builtin_cpu_supports("avx") != 0;
  /* Nothing that a program begins with: toward zero and flushing; the x87 in
   * double precision, upward. */
  request.mxcsr = 0x1f80 | 0x6000 | 0x8040;
  request.control = 0x0a7f;
  return request;
}

/* What abi_rude(.., rule, ..) breaks; NULL at the end. */
static const char *rude_breach(int64_t rule) {
  static const char *const expected[] = {"rbx",
                                         "rbp",
                                         "r12",
                                         "r13",
                                         "r14",
                                         "r15",
                                         "the direction flag",
                                         "the caller's frame",
                                         "the modes of MXCSR",
                                         "the x87 control word",
                                         "an empty x87 stack",
                                         "clean upper halves"};
  const int64_t count = __builtin_cpu_supports("avx") ? 12 : 11;
  return rule < count ? expected[rule] : NULL;
}

/* Flushing denormals, of operands and of results. */
#define FLUSH_MODES 0x8040u
static uint64_t read_modes(void) { return _mm_getcsr() & ~0x3fu; }
static void write_modes(uint64_t modes) { _mm_setcsr((unsigned)modes); }

/* body(argument) with `bytes` at `stack` for its stack: a thread. */
static int run_on_stack(void *stack, size_t bytes, void *(*body)(void *),
                        void *argument) {
  pthread_attr_t attributes;
  pthread_t thread;
  if (pthread_attr_init(&attributes) ||
      pthread_attr_setstack(&attributes, stack, bytes) ||
      pthread_create(&thread, &attributes, body, argument) ||
      pthread_join(thread, NULL))
    return 1;
  return pthread_attr_destroy(&attributes);
}

#endif

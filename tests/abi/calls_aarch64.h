/*===- tests/abi/calls_aarch64.h - What callees keep ------------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * The part of calls.c that is about one machine.
 *
 *===----------------------------------------------------------------------===*/
#ifndef ATTN_TESTS_ABI_CALLS_AARCH64_H
#define ATTN_TESTS_ABI_CALLS_AARCH64_H

#include "variants.h"
#include <string.h>
#include <ucontext.h>

#define ABI_KERNELS                                                            \
  &attn_plain__arm_neon, &attn_scored__arm_neon, &attn_listed__arm_neon

/* Both as in call_aarch64.S. */
struct abi_request {
  attn_kernel_fn run;
  const attn_call *call;
  int64_t first, last;
  void *scratch;
  uint64_t kept[11];  /* x19 to x29 */
  uint64_t halves[8]; /* the lower ones of v8 to v15 */
  uint64_t stack;     /* bytes that sp is below 64-byte alignment */
  uint64_t fpcr;
};
struct abi_state {
  uint64_t kept[11];
  uint64_t halves[8];
  int64_t stack;     /* by how much sp moved */
  uint64_t frame[4]; /* of the caller's, at sp and above */
  uint64_t fpcr;
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

static const char *const abi_names[] = {"x19",
                                        "x20",
                                        "x21",
                                        "x22",
                                        "x23",
                                        "x24",
                                        "x25",
                                        "x26",
                                        "x27",
                                        "x28",
                                        "x29",
                                        "d8",
                                        "d9",
                                        "d10",
                                        "d11",
                                        "d12",
                                        "d13",
                                        "d14",
                                        "d15",
                                        "the caller's frame",
                                        "the modes of FPCR"};

/* What the callee did not keep, or NULL. */
static const char *find_breach(const struct abi_request *request,
                               const struct abi_state *state) {
  for (int i = 0; i < 11; ++i)
    if (state->kept[i] != request->kept[i])
      return abi_names[i];
  for (int i = 0; i < 8; ++i)
    if (state->halves[i] != request->halves[i])
      return abi_names[11 + i];
  if (state->stack)
    return "the stack pointer";
  for (int i = 0; i < 4; ++i)
    if (state->frame[i] != 0x1122334455667788)
      return "the caller's frame";
  return state->fpcr != request->fpcr ? "the modes of FPCR" : NULL;
}

static struct abi_request make_request(attn_kernel_fn run) {
  struct abi_request request;
  memset(&request, 0, sizeof request);
  request.run = run;
  for (uint64_t i = 0; i < 11; ++i)
    request.kept[i] = 0x5151515100000000 + i * 0x01010101;
  for (uint64_t i = 0; i < 8; ++i)
    request.halves[i] = 0x6161616100000000 + i * 0x01010101;
  request.fpcr = 0x1c00000; /* toward zero and flushing */
  return request;
}

/* What abi_rude(.., rule, ..) breaks; NULL at the end. */
static const char *rude_breach(int64_t rule) {
  const int64_t count = sizeof abi_names / sizeof *abi_names;
  return rule < count ? abi_names[rule] : NULL;
}

#define FLUSH_MODES 0x1000000u
static uint64_t read_modes(void) {
  uint64_t modes;
  __asm__ volatile("mrs %0, fpcr" : "=r"(modes));
  return modes;
}
static void write_modes(uint64_t modes) {
  __asm__ volatile("msr fpcr, %0" : : "r"(modes));
}

/* body(argument) with `bytes` at `stack` for its stack: a context, since the
 * system gives threads 128 KiB at least. */
static void *(*context_body)(void *);
static void *context_argument;
static void start_context(void) { context_body(context_argument); }
static int run_on_stack(void *stack, size_t bytes, void *(*body)(void *),
                        void *argument) {
  static ucontext_t here, there;
  if (getcontext(&there))
    return 1;
  there.uc_stack.ss_sp = stack;
  there.uc_stack.ss_size = bytes;
  there.uc_link = &here;
  context_body = body;
  context_argument = argument;
  makecontext(&there, start_context, 0);
  return swapcontext(&here, &there);
}

#endif

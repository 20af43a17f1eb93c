/* tests/abi/call_x86_64.S: a call between two looks at the machine's state.
 *
 * Part of attnc. Apache-2.0.
 *
 * void abi_call(const struct abi_request *, struct abi_state *): see
 * calls_x86_64.h, whose structs these offsets are of. Everything that the callee
 * has to keep holds a value of the request's; afterwards all of it is copied to
 * the state.
 */
#define REQUEST_RUN 0
#define REQUEST_ARGUMENTS 8
#define REQUEST_KEPT 40
#define REQUEST_STACK 88
#define REQUEST_WIDE 96
#define REQUEST_MXCSR 104
#define REQUEST_CONTROL 108
#define STATE_KEPT 0
#define STATE_STACK 48
#define STATE_FLAGS 56
#define STATE_FRAME 64
#define STATE_MXCSR 96
#define STATE_X87 100
#define STATE_UPPER 128

/* The frame at the call, from the stack pointer on. */
#define FRAME_OWN 0 /* four words that belong to the caller */
#define FRAME_OLD 32
#define FRAME_STATE 40
#define FRAME_WIDE 48
#define FRAME_HERE 56
#define FRAME_MXCSR 64
#define FRAME_CONTROL 68
#define FRAME_BYTES 128

  .text
  .globl abi_call
  .type abi_call, @function
abi_call:
  pushq %rbx
  pushq %rbp
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, %rax
  subq $FRAME_BYTES, %rsp
  andq $-64, %rsp
  subq REQUEST_STACK(%rdi), %rsp
  movq %rax, FRAME_OLD(%rsp)
  movq %rsi, FRAME_STATE(%rsp)
  movq REQUEST_WIDE(%rdi), %rax
  movq %rax, FRAME_WIDE(%rsp)
  movq %rsp, FRAME_HERE(%rsp)
  stmxcsr FRAME_MXCSR(%rsp)
  fnstcw FRAME_CONTROL(%rsp)

  movabsq $0x1122334455667788, %rax
  movq %rax, FRAME_OWN(%rsp)
  movq %rax, FRAME_OWN+8(%rsp)
  movq %rax, FRAME_OWN+16(%rsp)
  movq %rax, FRAME_OWN+24(%rsp)
  ldmxcsr REQUEST_MXCSR(%rdi)
  fldcw REQUEST_CONTROL(%rdi)
  movq REQUEST_KEPT(%rdi), %rbx
  movq REQUEST_KEPT+8(%rdi), %rbp
  movq REQUEST_KEPT+16(%rdi), %r12
  movq REQUEST_KEPT+24(%rdi), %r13
  movq REQUEST_KEPT+32(%rdi), %r14
  movq REQUEST_KEPT+40(%rdi), %r15
  movq REQUEST_RUN(%rdi), %rax
  movq REQUEST_ARGUMENTS+24(%rdi), %rcx
  movq REQUEST_ARGUMENTS+16(%rdi), %rdx
  movq REQUEST_ARGUMENTS+8(%rdi), %rsi
  movq REQUEST_ARGUMENTS(%rdi), %rdi
  call *%rax

  movq FRAME_STATE(%rsp), %rax
  movq %rbx, STATE_KEPT(%rax)
  movq %rbp, STATE_KEPT+8(%rax)
  movq %r12, STATE_KEPT+16(%rax)
  movq %r13, STATE_KEPT+24(%rax)
  movq %r14, STATE_KEPT+32(%rax)
  movq %r15, STATE_KEPT+40(%rax)
  movq %rsp, %rcx
  subq FRAME_HERE(%rsp), %rcx
  movq %rcx, STATE_STACK(%rax)
  pushfq
  popq STATE_FLAGS(%rax)
  cld
  movq FRAME_OWN(%rsp), %rcx
  movq %rcx, STATE_FRAME(%rax)
  movq FRAME_OWN+8(%rsp), %rcx
  movq %rcx, STATE_FRAME+8(%rax)
  movq FRAME_OWN+16(%rsp), %rcx
  movq %rcx, STATE_FRAME+16(%rax)
  movq FRAME_OWN+24(%rsp), %rcx
  movq %rcx, STATE_FRAME+24(%rax)
  stmxcsr STATE_MXCSR(%rax)
  fnstenv STATE_X87(%rax)
  cmpq $0, FRAME_WIDE(%rsp)
  je 1f
  vextractf128 $1, %ymm0, STATE_UPPER(%rax)
  vextractf128 $1, %ymm1, STATE_UPPER+16(%rax)
  vextractf128 $1, %ymm2, STATE_UPPER+32(%rax)
  vextractf128 $1, %ymm3, STATE_UPPER+48(%rax)
  vextractf128 $1, %ymm4, STATE_UPPER+64(%rax)
  vextractf128 $1, %ymm5, STATE_UPPER+80(%rax)
  vextractf128 $1, %ymm6, STATE_UPPER+96(%rax)
  vextractf128 $1, %ymm7, STATE_UPPER+112(%rax)
  vextractf128 $1, %ymm8, STATE_UPPER+128(%rax)
  vextractf128 $1, %ymm9, STATE_UPPER+144(%rax)
  vextractf128 $1, %ymm10, STATE_UPPER+160(%rax)
  vextractf128 $1, %ymm11, STATE_UPPER+176(%rax)
  vextractf128 $1, %ymm12, STATE_UPPER+192(%rax)
  vextractf128 $1, %ymm13, STATE_UPPER+208(%rax)
  vextractf128 $1, %ymm14, STATE_UPPER+224(%rax)
  vextractf128 $1, %ymm15, STATE_UPPER+240(%rax)
  vzeroupper
1:
  fninit
  fldcw FRAME_CONTROL(%rsp)
  ldmxcsr FRAME_MXCSR(%rsp)
  movq FRAME_OLD(%rsp), %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbp
  popq %rbx
  ret
  .size abi_call, .-abi_call

/* void abi_rude(const attn_call *, int64_t first, ...): a callee that breaks
 * rule number `first`, so that each check is seen to see. */
  .globl abi_rude
  .type abi_rude, @function
abi_rude:
  cmpq $6, %rsi
  jae 2f
  leaq 3f(%rip), %rax
  movslq (%rax,%rsi,4), %rcx
  addq %rcx, %rax
  jmp *%rax
3:
  .long 10f-3b, 11f-3b, 12f-3b, 13f-3b, 14f-3b, 15f-3b
10: xorl %ebx, %ebx
  ret
11: xorl %ebp, %ebp
  ret
12: xorl %r12d, %r12d
  ret
13: xorl %r13d, %r13d
  ret
14: xorl %r14d, %r14d
  ret
15: xorl %r15d, %r15d
  ret
2: cmpq $6, %rsi
  jne 2f
  std
  ret
2: cmpq $7, %rsi
  jne 2f
  movq $0, 16(%rsp) /* of the caller's frame */
  ret
2: cmpq $8, %rsi
  jne 2f
  pushq $0x1f80
  ldmxcsr (%rsp)
  popq %rax
  ret
2: cmpq $9, %rsi
  jne 2f
  fninit
  ret
2: cmpq $10, %rsi
  jne 2f
  fldz
  ret
2: cmpq $11, %rsi
  jne 2f
  vcmpps $15, %ymm9, %ymm9, %ymm9
2: ret
  .size abi_rude, .-abi_rude
  .section .note.GNU-stack, "", @progbits

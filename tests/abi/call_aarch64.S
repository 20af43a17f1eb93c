/* tests/abi/call_aarch64.S: a call between two looks at the machine's state.
 *
 * Part of attnc. Apache-2.0.
 *
 * void abi_call(const struct abi_request *, struct abi_state *): see
 * calls_aarch64.h, whose structs these offsets are of. Everything that the
 * callee has to keep holds a value of the request's; afterwards all of it is
 * copied to the state.
 */
#define REQUEST_KEPT 40
#define REQUEST_HALVES 128
#define REQUEST_STACK 192
#define REQUEST_FPCR 200
#define STATE_KEPT 0
#define STATE_HALVES 88
#define STATE_STACK 152
#define STATE_FRAME 160
#define STATE_FPCR 192

/* The frame at the call, from the stack pointer on. */
#define FRAME_OWN 0 /* four words that belong to the caller */
#define FRAME_OLD 32
#define FRAME_STATE 40
#define FRAME_HERE 48
#define FRAME_FPCR 56
#define FRAME_BYTES 64

  .text
  .globl abi_call
  .type abi_call, %function
abi_call:
  stp x29, x30, [sp, #-16]!
  stp x19, x20, [sp, #-16]!
  stp x21, x22, [sp, #-16]!
  stp x23, x24, [sp, #-16]!
  stp x25, x26, [sp, #-16]!
  stp x27, x28, [sp, #-16]!
  stp d8, d9, [sp, #-16]!
  stp d10, d11, [sp, #-16]!
  stp d12, d13, [sp, #-16]!
  stp d14, d15, [sp, #-16]!
  mov x9, sp
  sub x10, x9, #FRAME_BYTES
  and x10, x10, #-64
  ldr x11, [x0, #REQUEST_STACK]
  sub sp, x10, x11
  mov x10, sp
  mrs x11, fpcr
  stp x9, x1, [sp, #FRAME_OLD]
  stp x10, x11, [sp, #FRAME_HERE]
  ldr x9, =0x1122334455667788
  stp x9, x9, [sp, #FRAME_OWN]
  stp x9, x9, [sp, #FRAME_OWN+16]

  ldr x9, [x0, #REQUEST_FPCR]
  msr fpcr, x9
  add x9, x0, #REQUEST_KEPT
  ldp x19, x20, [x9]
  ldp x21, x22, [x9, #16]
  ldp x23, x24, [x9, #32]
  ldp x25, x26, [x9, #48]
  ldp x27, x28, [x9, #64]
  ldr x29, [x9, #80]
  add x9, x0, #REQUEST_HALVES
  ldp d8, d9, [x9]
  ldp d10, d11, [x9, #16]
  ldp d12, d13, [x9, #32]
  ldp d14, d15, [x9, #48]
  ldr x9, [x0]
  ldp x2, x3, [x0, #24]
  ldr x1, [x0, #16]
  ldr x0, [x0, #8]
  blr x9

  ldr x0, [sp, #FRAME_STATE]
  stp x19, x20, [x0]
  stp x21, x22, [x0, #16]
  stp x23, x24, [x0, #32]
  stp x25, x26, [x0, #48]
  stp x27, x28, [x0, #64]
  str x29, [x0, #80]
  add x9, x0, #STATE_HALVES
  stp d8, d9, [x9]
  stp d10, d11, [x9, #16]
  stp d12, d13, [x9, #32]
  stp d14, d15, [x9, #48]
  mov x9, sp
  ldr x10, [sp, #FRAME_HERE]
  sub x9, x9, x10
  str x9, [x0, #STATE_STACK]
  ldp x9, x10, [sp, #FRAME_OWN]
  stp x9, x10, [x0, #STATE_FRAME]
  ldp x9, x10, [sp, #FRAME_OWN+16]
  stp x9, x10, [x0, #STATE_FRAME+16]
  mrs x9, fpcr
  str x9, [x0, #STATE_FPCR]
  ldr x9, [sp, #FRAME_FPCR]
  msr fpcr, x9
  ldr x9, [sp, #FRAME_OLD]
  mov sp, x9
  ldp d14, d15, [sp], #16
  ldp d12, d13, [sp], #16
  ldp d10, d11, [sp], #16
  ldp d8, d9, [sp], #16
  ldp x27, x28, [sp], #16
  ldp x25, x26, [sp], #16
  ldp x23, x24, [sp], #16
  ldp x21, x22, [sp], #16
  ldp x19, x20, [sp], #16
  ldp x29, x30, [sp], #16
  ret
  .ltorg
  .size abi_call, .-abi_call

/* void abi_rude(const attn_call *, int64_t first, ...): a callee that breaks
 * rule number `first`, so that each check is seen to see. Two instructions a
 * rule. */
  .globl abi_rude
  .type abi_rude, %function
abi_rude:
  adr x9, 1f
  add x9, x9, x1, lsl #3
  br x9
1:
  mov x19, xzr
  ret
  mov x20, xzr
  ret
  mov x21, xzr
  ret
  mov x22, xzr
  ret
  mov x23, xzr
  ret
  mov x24, xzr
  ret
  mov x25, xzr
  ret
  mov x26, xzr
  ret
  mov x27, xzr
  ret
  mov x28, xzr
  ret
  mov x29, xzr
  ret
  fmov d8, xzr
  ret
  fmov d9, xzr
  ret
  fmov d10, xzr
  ret
  fmov d11, xzr
  ret
  fmov d12, xzr
  ret
  fmov d13, xzr
  ret
  fmov d14, xzr
  ret
  fmov d15, xzr
  ret
  str xzr, [sp, #16] /* of the caller's frame */
  ret
  msr fpcr, xzr
  ret
  .size abi_rude, .-abi_rude
  .section .note.GNU-stack, "", %progbits

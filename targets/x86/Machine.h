/*===- targets/x86/Machine.h - Features of an x86-64 CPU ------------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * Detection as a pure function of what CPUID and XGETBV say, so that any
 * machine can be tested on any other. Names of CPUs play no part: a virtual
 * machine may hide what a name promises.
 *
 *===----------------------------------------------------------------------===*/
#ifndef ATTN_X86_MACHINE_H
#define ATTN_X86_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The CPUID registers that matter; zero where the CPU has no such leaf. */
struct attn_x86_cpuid {
  uint32_t leaf1_ecx, leaf1_edx;
  uint32_t leaf7_ebx, leaf7_ecx, leaf7_edx; /* leaf 7, subleaf 0 */
  uint32_t leaf7_1_eax;                     /* leaf 7, subleaf 1 */
  uint32_t extended1_ecx;                   /* leaf 0x80000001 */
};

/* The usable features as a set of bits, one for each name known to
 * attn_x86_feature_name: the CPU has the instructions, everything they imply in
 * LLVM's terms, and the system saves the registers (`xcr0`, which counts only
 * where OSXSAVE is set). */
uint64_t attn_x86_features(const struct attn_x86_cpuid *raw, uint64_t xcr0);

/* LLVM's name of a bit, or NULL past the last. */
const char *attn_x86_feature_name(unsigned bit);

/* The bit of a name, or -1. */
int attn_x86_feature_bit(const char *name, size_t length);

#ifdef __cplusplus
}
#endif
#endif

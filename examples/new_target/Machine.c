/*===- examples/new_target/Machine.c - What this RISC-V CPU can run --------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * For a runtime built on RISC-V: its letters of the instruction set, as Linux
 * hands them to each process, and the length of its vector registers. Linux
 * names V only if it saves them.
 *
 *===----------------------------------------------------------------------===*/
#include "runtime/attn_abi.h"
#include <string.h>
#include <sys/auxv.h>

static int has_letter(char letter) {
  return (int)(getauxval(AT_HWCAP) >> (letter - 'a') & 1);
}

/* Bits of a vector register; 0 without any. */
static long vector_bits(void) {
  unsigned long bytes;
  if (!has_letter('v'))
    return 0;
  __asm__("csrr %0, 0xc22" : "=r"(bytes)); /* vlenb */
  return (long)bytes * 8;
}

static int is_word(const char *feature, size_t length, const char *word) {
  return strlen(word) == length && memcmp(feature, word, length) == 0;
}

int attn_machine_has(const char *feature, size_t length) {
  if (is_word(feature, length, "rv64gc"))
    return has_letter('m') && has_letter('a') && has_letter('f') &&
           has_letter('d') && has_letter('c');
  if (is_word(feature, length, "v"))
    return has_letter('v');
  if (is_word(feature, length, "zvl128b"))
    return vector_bits() >= 128;
  return is_word(feature, length, "zvl256b") && vector_bits() >= 256;
}

const char *attn_machine_features(void) {
  if (vector_bits() >= 256)
    return "rv64gc,v,zvl128b,zvl256b";
  return has_letter('v') ? "rv64gc,v,zvl128b" : "rv64gc";
}

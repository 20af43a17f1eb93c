/*===- targets/generic/Machine.c - A machine without detection ------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * No optional feature is known to be present, so only kernels that need none
 * are chosen.
 *
 *===----------------------------------------------------------------------===*/
#include "runtime/attn_abi.h"

int attn_machine_has(const char *feature, size_t length) {
  (void)feature;
  (void)length;
  return 0;
}

const char *attn_machine_features(void) { return ""; }

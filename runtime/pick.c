/*===- runtime/pick.c - The best kernel that this CPU can run -------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 *===----------------------------------------------------------------------===*/
#include "internal.h"
#include <stdlib.h>
#include <string.h>

size_t attn_missing_features(const char *features, struct attn_text *text) {
  size_t missing = 0;
  for (const char *word = features; *word;) {
    size_t length = strcspn(word, ",");
    if (length && !attn_machine_has(word, length)) {
      if (text)
        attn_append(text, "%s%.*s", missing ? "," : "", (int)length, word);
      ++missing;
    }
    word += length + (word[length] == ',');
  }
  return missing;
}

/* "target (needs a,b), ..." of the kernels of a variant, or of all. */
static void list_targets(const attn_bundle *bundle, const char *variant,
                         struct attn_text *text) {
  bool first = true;
  for (size_t i = 0; i < bundle->n_kernels; ++i) {
    const attn_kernel *k = bundle->kernels[i];
    if (strcmp(k->variant, variant) != 0)
      continue;
    attn_append(text, "%s%s", first ? "" : ", ", k->target);
    if (k->features[0])
      attn_append(text, " (needs %s)", k->features);
    first = false;
  }
}

/* The distinct variants, comma separated; returns how many there are. */
static size_t list_variants(const attn_bundle *bundle, struct attn_text *text) {
  size_t count = 0;
  for (size_t i = 0; i < bundle->n_kernels; ++i) {
    bool seen = false;
    for (size_t j = 0; j < i && !seen; ++j)
      seen = !strcmp(bundle->kernels[i]->variant, bundle->kernels[j]->variant);
    if (seen)
      continue;
    attn_append(text, "%s%s", count ? ", " : "", bundle->kernels[i]->variant);
    ++count;
  }
  return count;
}

int attn_kernel_pick(const attn_bundle *bundle, const char *variant,
                     const char *target, const attn_kernel **kernel,
                     attn_error *error) {
  if (kernel)
    *kernel = NULL;
  if (!bundle || !kernel)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_kernel_pick: %s is NULL",
                     bundle ? "kernel" : "bundle");
  char names_data[1024] = "", lacks_data[512] = "";
  struct attn_text names = {names_data, sizeof names_data, 0};
  size_t n_variants = list_variants(bundle, &names);
  if (!variant) {
    if (n_variants != 1)
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "the bundle has several variants, name one of: %s",
                       names_data);
    variant = bundle->kernels[0]->variant;
  }
  const char *asked_by = "";
  if (!target) {
    target = getenv("ATTN_TARGET");
    if (target && !*target)
      target = NULL;
    if (target)
      asked_by = " (asked for by ATTN_TARGET)";
  }

  const attn_kernel *best = NULL, *refused = NULL;
  bool known = false;
  for (size_t i = 0; i < bundle->n_kernels; ++i) {
    const attn_kernel *k = bundle->kernels[i];
    if (strcmp(k->variant, variant) != 0)
      continue;
    known = true;
    if (target && strcmp(k->target, target) != 0)
      continue;
    const attn_kernel **slot =
        attn_missing_features(k->features, NULL) ? &refused : &best;
    /* Of the refused, the least demanding one is named. */
    if (!*slot || (slot == &best ? k->preference > best->preference
                                 : k->preference < refused->preference))
      *slot = k;
  }
  if (best) {
    *kernel = best;
    return attn_succeed(error);
  }
  if (!known)
    return attn_fail(error, ATTN_NOT_FOUND,
                     "the bundle has no variant '%s'; it has: %s", variant,
                     names_data);
  names = (struct attn_text){names_data, sizeof names_data, 0};
  list_targets(bundle, variant, &names);
  if (!refused)
    return attn_fail(error, ATTN_NOT_FOUND,
                     "variant '%s' was not compiled for target '%s'%s; the "
                     "bundle holds: %s",
                     variant, target, asked_by, names_data);
  struct attn_text lacks = {lacks_data, sizeof lacks_data, 0};
  attn_missing_features(refused->features, &lacks);
  const char *has = attn_machine_features();
  if (!*has)
    has = "none";
  return attn_fail(error, ATTN_UNSUPPORTED_CPU,
                   "variant '%s' for target '%s'%s needs %s; this machine "
                   "lacks %s and has %s; the bundle holds: %s",
                   variant, refused->target, asked_by, refused->features,
                   lacks_data, has, names_data);
}

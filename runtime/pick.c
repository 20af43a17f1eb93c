/*===- runtime/pick.c - The best kernel that can run here -----------------===*
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

int attn_check_features(const attn_kernel *kernel, attn_error *error) {
  char lacks_data[512] = "";
  struct attn_text lacks = {lacks_data, sizeof lacks_data, 0};
  if (!attn_missing_features(kernel->features, &lacks))
    return ATTN_OK;
  return attn_fail(error, ATTN_UNSUPPORTED_CPU,
                   "variant '%s' for target '%s' needs %s; this machine "
                   "lacks %s",
                   kernel->variant, kernel->target, kernel->features,
                   lacks_data);
}

int attn_check_device(const attn_kernel *kernel, DLDevice place,
                      attn_device **device, attn_error *error) {
  const attn_device_kind *kind = attn_kind_of_kernel(kernel, error);
  if (!kind)
    return ATTN_UNSUPPORTED;
  if (kind->tensor_type != (int32_t)place.device_type)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "tensor 'q' is on %s; variant '%s' for target '%s' runs "
                     "on a %s device",
                     attn_name_place(place).text, kernel->variant,
                     kernel->target, kind->name);
  int status = attn_device_open(place, device, error);
  if (status || attn_device_runs(*device, kernel))
    return status;
  return attn_fail(error, ATTN_NO_DEVICE,
                   "variant '%s' for target '%s' needs %s; %s is %s, which "
                   "has %s",
                   kernel->variant, kernel->target, kernel->features,
                   attn_name_place(place).text, (*device)->name,
                   (*device)->feature);
}

/* What kernels are picked for. */
struct wish {
  const char *variant;
  const char *target;   /* NULL: any */
  const char *asked_by; /* " (...)", or "" */
  DLDevice place;
  attn_device *device; /* NULL: the CPU */
};

enum fit { FITS, LACKS_FEATURES, RUNS_ELSEWHERE };

static enum fit find_fit(const struct wish *wish, const attn_kernel *k) {
  if (!wish->device)
    return k->device                                  ? RUNS_ELSEWHERE
           : attn_missing_features(k->features, NULL) ? LACKS_FEATURES
                                                      : FITS;
  if (!k->device || attn_kind_of_kernel(k, NULL) != wish->device->kind)
    return RUNS_ELSEWHERE;
  return attn_device_runs(wish->device, k) ? FITS : LACKS_FEATURES;
}

/* Why none of the kernels is taken. `refused` is the least demanding one whose
 * features are missing, `elsewhere` one of another kind of place; either may be
 * NULL. */
static int refuse(const attn_bundle *bundle, const struct wish *wish,
                  const attn_kernel *refused, const attn_kernel *elsewhere,
                  attn_error *error) {
  char names_data[1024] = "";
  struct attn_text names = {names_data, sizeof names_data, 0};
  list_targets(bundle, wish->variant, &names);
  if (!refused && !elsewhere)
    return attn_fail(error, ATTN_NOT_FOUND,
                     "variant '%s' was not compiled for target '%s'%s; the "
                     "bundle holds: %s",
                     wish->variant, wish->target, wish->asked_by, names_data);
  if (!refused)
    return attn_fail(error,
                     wish->device ? ATTN_NOT_FOUND : ATTN_UNSUPPORTED_CPU,
                     "variant '%s' for target '%s'%s does not run on %s, where "
                     "the tensors are; the bundle holds: %s",
                     wish->variant, elsewhere->target, wish->asked_by,
                     attn_name_place(wish->place).text, names_data);
  if (wish->device)
    return attn_fail(error, ATTN_NO_DEVICE,
                     "variant '%s' for target '%s'%s needs %s; %s is %s, which "
                     "has %s; the bundle holds: %s",
                     wish->variant, refused->target, wish->asked_by,
                     refused->features, attn_name_place(wish->place).text,
                     wish->device->name, wish->device->feature, names_data);
  char lacks_data[512] = "";
  struct attn_text lacks = {lacks_data, sizeof lacks_data, 0};
  attn_missing_features(refused->features, &lacks);
  const char *has = attn_machine_features();
  if (!*has)
    has = "none";
  return attn_fail(error, ATTN_UNSUPPORTED_CPU,
                   "variant '%s' for target '%s'%s needs %s; this machine "
                   "lacks %s and has %s; the bundle holds: %s",
                   wish->variant, refused->target, wish->asked_by,
                   refused->features, lacks_data, has, names_data);
}

int attn_kernel_pick_at(const attn_bundle *bundle, const char *variant,
                        const char *target, DLDevice place,
                        const attn_kernel **kernel, attn_error *error) {
  if (kernel)
    *kernel = NULL;
  if (!bundle || !kernel)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "attn_kernel_pick: %s is NULL",
                     bundle ? "kernel" : "bundle");
  char names_data[1024] = "";
  struct attn_text names = {names_data, sizeof names_data, 0};
  size_t n_variants = list_variants(bundle, &names);
  if (!variant) {
    if (n_variants != 1)
      return attn_fail(error, ATTN_INVALID_ARGUMENT,
                       "the bundle has several variants, name one of: %s",
                       names_data);
    variant = bundle->kernels[0]->variant;
  }
  struct wish wish = {variant, target, "", place, NULL};
  if (!target) {
    target = getenv("ATTN_TARGET");
    if (target && *target) {
      wish.target = target;
      wish.asked_by = " (asked for by ATTN_TARGET)";
    }
  }
  if (place.device_type != kDLCPU) {
    int status = attn_device_open(place, &wish.device, error);
    if (status)
      return status;
  }

  const attn_kernel *best = NULL, *refused = NULL, *elsewhere = NULL;
  bool known = false;
  for (size_t i = 0; i < bundle->n_kernels; ++i) {
    const attn_kernel *k = bundle->kernels[i];
    if (strcmp(k->variant, variant) != 0)
      continue;
    known = true;
    if (wish.target && strcmp(k->target, wish.target) != 0)
      continue;
    enum fit fit = find_fit(&wish, k);
    if (fit == FITS && (!best || k->preference > best->preference))
      best = k;
    else if (fit == LACKS_FEATURES &&
             (!refused || k->preference < refused->preference))
      refused = k;
    else if (fit == RUNS_ELSEWHERE && !elsewhere)
      elsewhere = k;
  }
  if (best) {
    *kernel = best;
    return attn_succeed(error);
  }
  if (!known)
    return attn_fail(error, ATTN_NOT_FOUND,
                     "the bundle has no variant '%s'; it has: %s", variant,
                     names_data);
  return refuse(bundle, &wish, refused, elsewhere, error);
}

int attn_kernel_pick(const attn_bundle *bundle, const char *variant,
                     const char *target, const attn_kernel **kernel,
                     attn_error *error) {
  return attn_kernel_pick_at(bundle, variant, target, (DLDevice){kDLCPU, 0},
                             kernel, error);
}

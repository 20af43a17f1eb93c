/*===- runtime/error.c - Reasons as text in the caller's buffer -----------===*
 *
 * Part of attnc. Apache-2.0.
 *
 *===----------------------------------------------------------------------===*/
#include "internal.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)

uint32_t attn_version(void) { return ATTN_VERSION; }

const char *attn_version_string(void) {
  return STRING(ATTN_VERSION_MAJOR) "." STRING(ATTN_VERSION_MINOR) "." STRING(
      ATTN_VERSION_PATCH);
}

const char *attn_status_name(int status) {
  switch (status) {
  case ATTN_OK:
    return "ATTN_OK";
  case ATTN_INVALID_ARGUMENT:
    return "ATTN_INVALID_ARGUMENT";
  case ATTN_BAD_BUNDLE:
    return "ATTN_BAD_BUNDLE";
  case ATTN_NOT_FOUND:
    return "ATTN_NOT_FOUND";
  case ATTN_UNSUPPORTED_CPU:
    return "ATTN_UNSUPPORTED_CPU";
  case ATTN_UNSUPPORTED:
    return "ATTN_UNSUPPORTED";
  case ATTN_OUT_OF_MEMORY:
    return "ATTN_OUT_OF_MEMORY";
  case ATTN_IO_ERROR:
    return "ATTN_IO_ERROR";
  case ATTN_NO_COMPILER:
    return "ATTN_NO_COMPILER";
  case ATTN_COMPILE_FAILED:
    return "ATTN_COMPILE_FAILED";
  case ATTN_INTERNAL:
    return "ATTN_INTERNAL";
  case ATTN_NO_DEVICE:
    return "ATTN_NO_DEVICE";
  case ATTN_DEVICE_FAILED:
    return "ATTN_DEVICE_FAILED";
  default:
    return "unknown status";
  }
}

int attn_fail(attn_error *error, int code, const char *format, ...) {
  if (!error)
    return code;
  error->code = code;
  va_list args;
  va_start(args, format);
  int length = vsnprintf(error->text, sizeof error->text, format, args);
  va_end(args);
  if (length < 0)
    error->text[0] = 0;
  else if ((size_t)length >= sizeof error->text)
    memcpy(error->text + sizeof error->text - 4, "...", 4);
  return code;
}

int attn_succeed(attn_error *error) {
  if (error) {
    error->code = ATTN_OK;
    error->text[0] = 0;
  }
  return ATTN_OK;
}

void attn_append(struct attn_text *text, const char *format, ...) {
  if (text->used + 1 >= text->size)
    return;
  va_list args;
  va_start(args, format);
  int length =
      vsnprintf(text->data + text->used, text->size - text->used, format, args);
  va_end(args);
  if (length < 0)
    return;
  text->used += (size_t)length;
  if (text->used >= text->size) {
    text->used = text->size - 1;
    if (text->size > 4)
      memcpy(text->data + text->size - 4, "...", 4);
  }
}

int attn_copy_struct(void *own, size_t size, const void *given,
                     const char *name, attn_error *error) {
  uint32_t given_size;
  memcpy(&given_size, given, sizeof given_size);
  if (given_size < sizeof given_size)
    return attn_fail(error, ATTN_INVALID_ARGUMENT,
                     "%s.struct_size is %u, must be sizeof(%s)", name,
                     given_size, name);
  memset(own, 0, size);
  memcpy(own, given, given_size < size ? given_size : size);
  for (size_t i = size; i < given_size; ++i)
    if (((const char *)given)[i])
      return attn_fail(error, ATTN_UNSUPPORTED,
                       "%s has a field at byte %zu that this library (version "
                       "%s) does not know; it must be zero",
                       name, i, attn_version_string());
  return ATTN_OK;
}

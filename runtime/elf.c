/*===- runtime/elf.c - Is this file a whole shared object? ----------------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * The dynamic loader maps what the headers say and does not look at the file's
 * length, so a truncated library ends the process with SIGBUS. All extents are
 * therefore compared with the file first.
 *
 *===----------------------------------------------------------------------===*/
#define _GNU_SOURCE /* dladdr */
#include "internal.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_at(int fd, void *data, size_t size, uint64_t offset) {
  char *p = data;
  while (size) {
    ssize_t n = pread(fd, p, size, (off_t)offset);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    p += n;
    size -= (size_t)n;
    offset += (uint64_t)n;
  }
  return true;
}

/* True if offset..offset+length lies inside `size` bytes. */
static bool inside(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

int attn_elf_check(int fd, uint64_t size, const char *name, attn_error *error) {
  ElfW(Ehdr) header;
  unsigned char ident[4];
  if (size < sizeof ident || !read_at(fd, ident, sizeof ident, 0) ||
      memcmp(ident, ELFMAG, SELFMAG) != 0)
    return attn_fail(error, ATTN_BAD_BUNDLE,
                     "'%s' is not a bundle: not a shared library (ELF)", name);
  if (size < sizeof header || !read_at(fd, &header, sizeof header, 0))
    return attn_fail(error, ATTN_BAD_BUNDLE,
                     "bundle '%s' is truncated: %llu bytes end inside its "
                     "header",
                     name, (unsigned long long)size);

  /* This library's own header says what the machine is. */
  Dl_info own;
  if (!dladdr((const void *)attn_elf_check, &own) || !own.dli_fbase)
    return attn_fail(error, ATTN_INTERNAL, "dladdr of the runtime failed");
  const ElfW(Ehdr) *self = own.dli_fbase;
  if (header.e_ident[EI_CLASS] != self->e_ident[EI_CLASS] ||
      header.e_ident[EI_DATA] != self->e_ident[EI_DATA] ||
      header.e_machine != self->e_machine)
    return attn_fail(error, ATTN_BAD_BUNDLE,
                     "bundle '%s' is for another machine (ELF machine %u, "
                     "class %u; here %u, class %u)",
                     name, header.e_machine, header.e_ident[EI_CLASS],
                     self->e_machine, self->e_ident[EI_CLASS]);
  if (header.e_type != ET_DYN || header.e_phentsize != sizeof(ElfW(Phdr)) ||
      header.e_phnum == 0)
    return attn_fail(error, ATTN_BAD_BUNDLE,
                     "'%s' is not a bundle: an ELF file, but not a shared "
                     "library",
                     name);

  size_t table = (size_t)header.e_phnum * sizeof(ElfW(Phdr));
  if (!inside(header.e_phoff, table, size) ||
      (header.e_shoff &&
       !inside(header.e_shoff, (uint64_t)header.e_shnum * header.e_shentsize,
               size)))
    return attn_fail(error, ATTN_BAD_BUNDLE,
                     "bundle '%s' is truncated: its header tables end past the "
                     "file's %llu bytes",
                     name, (unsigned long long)size);
  ElfW(Phdr) *segments = malloc(table);
  if (!segments)
    return attn_fail(error, ATTN_OUT_OF_MEMORY, "out of memory");
  int status = ATTN_OK;
  bool dynamic = false;
  if (!read_at(fd, segments, table, header.e_phoff))
    status = attn_fail(error, ATTN_IO_ERROR, "can't read '%s'", name);
  for (unsigned i = 0; i < header.e_phnum && status == ATTN_OK; ++i) {
    const ElfW(Phdr) *s = &segments[i];
    dynamic |= s->p_type == PT_DYNAMIC;
    if (!inside(s->p_offset, s->p_filesz, size) ||
        (s->p_type == PT_LOAD && s->p_memsz < s->p_filesz))
      status =
          attn_fail(error, ATTN_BAD_BUNDLE,
                    "bundle '%s' is truncated: segment %u ends at byte "
                    "%llu, the file has %llu",
                    name, i, (unsigned long long)(s->p_offset + s->p_filesz),
                    (unsigned long long)size);
  }
  free(segments);
  if (status == ATTN_OK && !dynamic)
    status = attn_fail(error, ATTN_BAD_BUNDLE,
                       "'%s' is not a bundle: it has no dynamic section", name);
  return status;
}

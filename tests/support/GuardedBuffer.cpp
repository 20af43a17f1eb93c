//===- tests/support/GuardedBuffer.cpp - Memory that ends where it ends ---===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/GuardedBuffer.h"
#include <new>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace attn::test {

GuardedBuffer::GuardedBuffer(size_t size, Placement placement)
    : bytes(size), place(placement) {
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t inner = (size + page - 1) / page * page;
  mappedBytes = inner + 2 * page;
  mapping = mmap(nullptr, mappedBytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    mapping = nullptr;
    throw std::bad_alloc();
  }
  std::byte *pages = static_cast<std::byte *>(mapping) + page;
  if (inner != 0 && mprotect(pages, inner, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping, mappedBytes);
    mapping = nullptr;
    throw std::bad_alloc();
  }
  first = placement == Placement::Start ? pages : pages + (inner - size);
}

GuardedBuffer::~GuardedBuffer() {
  if (mapping)
    munmap(mapping, mappedBytes);
}

GuardedBuffer::GuardedBuffer(GuardedBuffer &&other) noexcept {
  *this = std::move(other);
}

GuardedBuffer &GuardedBuffer::operator=(GuardedBuffer &&other) noexcept {
  std::swap(mapping, other.mapping);
  std::swap(mappedBytes, other.mappedBytes);
  std::swap(first, other.first);
  std::swap(bytes, other.bytes);
  std::swap(place, other.place);
  return *this;
}

} // namespace attn::test

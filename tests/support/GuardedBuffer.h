//===- tests/support/GuardedBuffer.h - Memory that ends where it ends -----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_GUARDEDBUFFER_H
#define ATTNC_TESTS_SUPPORT_GUARDEDBUFFER_H

#include <cstddef>
#include <cstdint>

namespace attn::test {

/// At which end of its pages a buffer touches inaccessible memory.
enum class Placement : uint8_t {
  Start, ///< the first byte follows an inaccessible page
  End,   ///< the last byte precedes an inaccessible page
};

/// Bytes between two inaccessible pages. A buffer of zero bytes has no
/// accessible memory at all. The alignment is what the placement makes it.
/// Throws std::bad_alloc where the system has no more memory.
class GuardedBuffer {
public:
  GuardedBuffer() = default;
  GuardedBuffer(size_t bytes, Placement placement);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer &&other) noexcept;
  GuardedBuffer &operator=(GuardedBuffer &&other) noexcept;

  std::byte *data() const { return first; }
  size_t size() const { return bytes; }
  Placement placement() const { return place; }

private:
  void *mapping = nullptr;
  size_t mappedBytes = 0;
  std::byte *first = nullptr;
  size_t bytes = 0;
  Placement place = Placement::End;
};

} // namespace attn::test

#endif

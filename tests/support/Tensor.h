//===- tests/support/Tensor.h - Tensors in awkward memory -----------------===//
//
// Part of attnc. Apache-2.0.
//
// A tensor of up to four dimensions, in guarded memory, with any storage order,
// pitch, direction and base, and with control over every byte that does not
// belong to it.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_TENSOR_H
#define ATTNC_TESTS_SUPPORT_TENSOR_H

#include "dsl/Spec.h"
#include "tests/support/GuardedBuffer.h"
#include <array>
#include <functional>
#include <string>
#include <vector>

namespace attn::test {

/// What lies where nothing may be read.
enum class Poison : uint8_t { Nan, Infinity, Huge, Zero };
const char *name(Poison poison);
/// As an element of a type (F32, F16, BF16).
float poisonValue(Poison poison, Type type);

/// How a tensor lies in memory. The default is contiguous, row-major, ending at
/// an inaccessible page. Dimensions are batch, head, token, column.
struct Layout {
  std::array<uint8_t, 4> order{0, 1, 2, 3}; ///< storage, outermost first
  int64_t step = 1;                         ///< innermost stride, elements
  std::array<int64_t, 4> gap{};             ///< elements after each dimension
  std::array<bool, 4> reversed{};           ///< negative stride
  std::array<bool, 4> broadcast{};          ///< stride 0: inputs only
  int64_t before = 0, after = 0;            ///< slack of the buffer, elements
  Placement placement = Placement::End;
};
std::string describe(const Layout &layout);

using Index = std::array<int64_t, 4>;

class Tensor {
public:
  Tensor() = default;
  /// All bytes are zero. `type` is F32, F16 or BF16.
  Tensor(const Index &extents, const Layout &layout, Type type);

  /// Address of element (0, 0, 0, 0), which exists if no extent is zero.
  void *base() const { return origin; }
  const Index &strides() const { return stride; }
  const Index &extents() const { return extent; }
  Type type() const { return elementType; }
  const GuardedBuffer &buffer() const { return storage; }
  bool isEmpty() const;

  float get(const Index &at) const;
  /// Rounds to nearest, ties to even.
  void set(const Index &at, float value);
  /// The bits of an element, widened.
  uint32_t bits(const Index &at) const;
  void setPoison(const Index &at, Poison poison);

  /// Sets every byte of the storage: gaps, slack and elements.
  void poisonAll(Poison poison);
  void fillBytes(uint8_t value);

  /// Calls `visit` for each index, row-major.
  template <typename Visit> void forEach(Visit &&visit) const {
    Index at;
    for (at[0] = 0; at[0] < extent[0]; ++at[0])
      for (at[1] = 0; at[1] < extent[1]; ++at[1])
        for (at[2] = 0; at[2] < extent[2]; ++at[2])
          for (at[3] = 0; at[3] < extent[3]; ++at[3])
            visit(static_cast<const Index &>(at));
  }

  /// A copy of the storage.
  std::vector<std::byte> snapshot() const;
  /// Compares all bytes of the storage with a snapshot, except the elements for
  /// which `mayChange` says so. Returns where they differ, or an empty text.
  std::string
  changedOutside(const std::vector<std::byte> &before,
                 const std::function<bool(const Index &)> &mayChange) const;

private:
  std::byte *address(const Index &at) const;
  void poisonAt(std::byte *element, Poison poison);

  Index extent{}, stride{};
  Type elementType = Type::F32;
  size_t elementBytes = 4;
  GuardedBuffer storage;
  std::byte *origin = nullptr;
};

/// The bits of `value` in a type (F32, F16, BF16), rounded to nearest even.
uint32_t encode(float value, Type type);
float decode(uint32_t bits, Type type);

} // namespace attn::test

#endif

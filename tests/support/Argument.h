//===- tests/support/Argument.h - Values of parameters in awkward memory --===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_ARGUMENT_H
#define ATTNC_TESTS_SUPPORT_ARGUMENT_H

#include "dsl/Spec.h"
#include "tests/oracle/Expression.h"
#include "tests/support/GuardedBuffer.h"
#include "tests/support/Tensor.h"
#include <dlpack/dlpack.h>
#include <functional>
#include <string>
#include <vector>

namespace attn::test {

/// How the array of a parameter lies in memory. The default is contiguous,
/// row-major, ending at an inaccessible page. Vectors have an element for each
/// dimension, or none at all.
struct ArgumentLayout {
  std::vector<uint8_t> order; ///< storage, outermost first
  std::vector<int64_t> gap;   ///< elements after each dimension
  std::vector<bool> reversed; ///< negative stride
  /// Dimensions of extent 1 that are passed in full, with stride 0.
  std::vector<bool> stretched;
  int64_t step = 1;              ///< innermost stride, elements
  int64_t before = 0, after = 0; ///< slack of the buffer, elements
  Placement placement = Placement::End;
};

/// The value of one parameter of a call, and how it is passed.
struct Argument {
  /// Numbers are rounded to the parameter's type where they are stored. A bool
  /// is stored as the byte that is given.
  oracle::ParamValue value;
  ArgumentLayout layout;
  /// The element type that may stand for the usual one: i64 for tokens, u8 for
  /// bools.
  bool otherType = false;
};
std::string describe(const Param &param, const Argument &argument);

/// What a parameter of that type holds where `value` is stored.
double rounded(double value, Type type);

/// The memory of an argument, as DLPack has it.
class ArgumentBuffer {
public:
  /// `extents` are those of the call, which stretched dimensions take. All
  /// bytes are zero.
  ArgumentBuffer(const Param &param, const Argument &argument,
                 const std::vector<int64_t> &extents);

  const DLTensor &tensor() const { return dlTensor; }
  const GuardedBuffer &buffer() const { return storage; }

  /// Stores the elements for which `isLogical` (of their indices) holds; every
  /// other byte is poison.
  void fill(const oracle::ParamValue &value, Poison poison,
            const std::function<bool(const std::vector<int64_t> &)> &isLogical);
  /// Makes an element (by its row-major number in the value) poison, whatever
  /// the type makes of it.
  void setPoison(size_t element, Poison poison);
  /// Stores an element.
  void set(size_t element, double value);

private:
  std::byte *address(size_t element) const;
  void store(std::byte *at, double value) const;
  void poisonAt(std::byte *at, Poison poison) const;

  Type type;
  size_t elementBytes = 4;
  std::vector<int64_t> valueShape; ///< as in the value
  std::vector<int64_t> shape, stride;
  GuardedBuffer storage;
  std::byte *origin = nullptr;
  DLTensor dlTensor{};
};

} // namespace attn::test

#endif

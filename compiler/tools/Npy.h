//===- tools/Npy.h - NumPy's .npy files -----------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TOOLS_NPY_H
#define ATTNC_COMPILER_TOOLS_NPY_H

#include <cstdint>
#include <string>
#include <vector>

namespace attn {

/// An array in C order, little endian. `type` is a kind and a size in bytes as
/// in the file: "f4", "f2", "u2", "i4", "i8", "b1" (a byte, 0 or 1), ...
struct Array {
  std::string type;
  std::vector<int64_t> shape;
  std::vector<char> bytes;

  int64_t elements() const;
  size_t elementBytes() const;
};

/// Reads versions 1 to 3 of the format. Throws Failure, naming the file and
/// what is wrong with it: other orders of dimensions or bytes, structured
/// types, a size that differs from the shape's.
Array readNpy(const std::string &path);

/// The bytes of a file of version 1. Throws Failure for a shape whose header
/// would not fit.
std::string npyBytes(const Array &array);

} // namespace attn

#endif

//===- tools/attnc/Tensor.h - An array that the runtime is handed ---------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TOOLS_ATTNC_TENSOR_H
#define ATTNC_COMPILER_TOOLS_ATTNC_TENSOR_H

#include "compiler/tools/Npy.h"
#include "runtime/attn.h"

namespace attn {

/// An array and the runtime's view of it; the shape lives here.
struct Tensor {
  Array array;
  DLTensor view = {};

  Tensor() = default;
  Tensor(const Tensor &) = delete;
  Tensor &operator=(const Tensor &) = delete;

  /// Call again when the array changes.
  void bind(DLDataType type) {
    view.data = array.bytes.data();
    view.device = {kDLCPU, 0};
    view.ndim = int32_t(array.shape.size());
    view.dtype = type;
    view.shape = array.shape.data();
  }
};

/// The type of an array's elements. `wanted` is an attn_dtype: NumPy has no
/// bf16, which travels as "u2".
inline DLDataType dlpackType(const Array &array, int32_t wanted) {
  const auto bits = uint8_t(8 * array.elementBytes());
  if (array.type == "u2" && wanted == ATTN_BF16)
    return {kDLBfloat, 16, 1};
  if (wanted == ATTN_BOOL)
    return {kDLUInt, 8, 1};
  switch (array.type[0]) {
  case 'f':
    return {kDLFloat, bits, 1};
  case 'i':
    return {kDLInt, bits, 1};
  default:
    return {kDLUInt, bits, 1};
  }
}

} // namespace attn

#endif

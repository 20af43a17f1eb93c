//===- compiler/CallValues.cpp - Values of parameters, in numbers ---------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/CallValues.h"
#include "llvm/ADT/APFloat.h"
#include <algorithm>
#include <cstring>

using namespace mlir;

namespace attn {

CallValues::CallValues(AttentionOp op, const attn_call *call) : call(call) {
  if (auto params = op.getParams())
    for (auto param : params->getAsRange<ParameterAttr>())
      types.push_back(param.getType());
  if (call && call->globals && call->global_counts)
    positions.assign(call->globals, call->globals + call->global_counts[0]);
}

const attn_param *CallValues::find(int64_t param) const {
  return call && call->params && call->params[param].data ? &call->params[param]
                                                          : nullptr;
}

template <typename T> static T read(const void *data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + index * sizeof(T),
              sizeof value);
  return value;
}

static int64_t clamped(int64_t index, int64_t extent) {
  return std::clamp(index, int64_t(0), std::max(extent - 1, int64_t(0)));
}

std::optional<double> CallValues::real(int64_t param,
                                       ArrayRef<int64_t> at) const {
  const attn_param *p = find(param);
  if (!p)
    return std::nullopt;
  int64_t index = 0;
  for (auto [d, i] : llvm::enumerate(at))
    index += clamped(i, p->extent[d]) * p->stride[d];
  Type type = types[param];
  if (type.isInteger(1))
    return read<uint8_t>(p->data, index) != 0;
  if (type.isInteger(32))
    return read<int32_t>(p->data, index);
  if (type.isF32())
    return double(read<float>(p->data, index));
  llvm::APFloat half(cast<FloatType>(type).getFloatSemantics(),
                     llvm::APInt(16, read<uint16_t>(p->data, index)));
  return half.convertToDouble();
}

std::optional<int64_t> CallValues::element(int64_t param,
                                           ArrayRef<int64_t> at) const {
  auto value = real(param, at);
  return value ? std::optional<int64_t>(*value) : std::nullopt;
}

std::optional<std::pair<int64_t, int64_t>>
CallValues::extremes(int64_t param, ArrayRef<int64_t> at, unsigned dim,
                     int64_t last) const {
  const attn_param *p = find(param);
  if (!p)
    return std::nullopt;
  llvm::SmallVector<int64_t> place(at);
  std::pair<int64_t, int64_t> range{INT32_MAX, INT32_MIN};
  const int64_t first = clamped(at[dim], p->extent[dim]);
  last = clamped(last, p->extent[dim]);
  for (int64_t i = first; i <= last; ++i) {
    place[dim] = i;
    int64_t value = *element(param, place);
    range = {std::min(range.first, value), std::max(range.second, value)};
    if (types[param].isInteger(1) && range.first < range.second)
      break;
  }
  return range;
}

ArrayRef<int64_t> CallValues::listedWithin(int64_t from, int64_t to) const {
  auto first = std::lower_bound(positions.begin(), positions.end(), from);
  auto last = std::lower_bound(first, positions.end(), to);
  return ArrayRef<int64_t>(first, last);
}

double CallValues::bytes() const {
  double sum = 0;
  for (size_t i = 0; i < types.size(); ++i)
    if (const attn_param *p = find(int64_t(i))) {
      double elements =
          types[i].isInteger(1) ? 1 : types[i].getIntOrFloatBitWidth() / 8.0;
      for (unsigned d = 0; d < ATTN_MAX_DIMS; ++d)
        if (p->stride[d] != 0 && p->extent[d] > 1)
          elements *= double(p->extent[d]);
      sum += elements;
    }
  return sum;
}

} // namespace attn

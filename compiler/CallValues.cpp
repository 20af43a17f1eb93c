//===- compiler/CallValues.cpp - Values of parameters, in numbers ---------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/CallValues.h"
#include "compiler/Specialise.h"
#include "llvm/ADT/APFloat.h"
#include <algorithm>
#include <cstring>

using namespace mlir;

namespace attn {

/// The ranges of stretches of elements: a tree over them in which node i has
/// the children 2 i and 2 i + 1, and the elements are the last half.
struct CallValues::Ranges {
  using Range = std::pair<int64_t, int64_t>;
  int64_t first = -1; ///< of the elements, from the start of the parameter
  std::vector<Range> nodes;

  static Range joined(Range a, Range b) {
    return {std::min(a.first, b.first), std::max(a.second, b.second)};
  }
  /// Of elements [from, to), not empty.
  Range within(size_t from, size_t to) const {
    const size_t count = nodes.size() / 2;
    Range range{INT64_MAX, INT64_MIN};
    for (from += count, to += count; from < to; from /= 2, to /= 2) {
      if (from % 2)
        range = joined(range, nodes[from++]);
      if (to % 2)
        range = joined(range, nodes[--to]);
    }
    return range;
  }
};

CallValues::CallValues(AttentionOp op, const attn_call *call)
    : call(call), lists(listsOf(op.getMask())),
      ranges(
          std::make_shared<std::map<std::pair<int64_t, unsigned>, Ranges>>()) {
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

/// As it is stored, of any type.
static double elementAt(Type type, const void *data, int64_t index) {
  if (type.isInteger(1))
    return read<uint8_t>(data, index) != 0;
  if (type.isInteger(32))
    return read<int32_t>(data, index);
  if (type.isF32())
    return double(read<float>(data, index));
  llvm::APFloat half(cast<FloatType>(type).getFloatSemantics(),
                     llvm::APInt(16, read<uint16_t>(data, index)));
  return half.convertToDouble();
}

static int64_t clamped(int64_t index, int64_t extent) {
  return std::clamp(index, int64_t(0), std::max(extent - 1, int64_t(0)));
}

std::optional<double> CallValues::real(int64_t param,
                                       ArrayRef<int64_t> at) const {
  const attn_param *p = find(param);
  if (!p)
    return llvm::is_contained(lists, param) ? std::optional(0.0) : std::nullopt;
  int64_t index = 0;
  for (auto [d, i] : llvm::enumerate(at))
    index += clamped(i, p->extent[d]) * p->stride[d];
  return elementAt(types[param], p->data, index);
}

std::optional<int64_t> CallValues::element(int64_t param,
                                           ArrayRef<int64_t> at) const {
  auto value = real(param, at);
  return value ? std::optional<int64_t>(*value) : std::nullopt;
}

const CallValues::Ranges &CallValues::rangesOf(int64_t param, unsigned dim,
                                               int64_t first) const {
  Ranges &result = (*ranges)[{param, dim}];
  if (result.first == first)
    return result;
  const attn_param &p = *find(param);
  const auto count = size_t(p.extent[dim]);
  result.first = first;
  result.nodes.resize(2 * count);
  for (size_t i = 0; i < count; ++i) {
    const auto value = int64_t(
        elementAt(types[param], p.data, first + int64_t(i) * p.stride[dim]));
    result.nodes[count + i] = {value, value};
  }
  for (size_t i = count; i-- > 1;)
    result.nodes[i] =
        Ranges::joined(result.nodes[2 * i], result.nodes[2 * i + 1]);
  return result;
}

std::optional<std::pair<int64_t, int64_t>>
CallValues::extremes(int64_t param, ArrayRef<int64_t> at, unsigned dim,
                     int64_t last) const {
  const attn_param *p = find(param);
  if (!p) {
    auto value = element(param, at);
    return value ? std::optional(std::pair(*value, *value)) : std::nullopt;
  }
  int64_t start = 0;
  for (auto [d, i] : llvm::enumerate(at))
    if (d != dim)
      start += clamped(i, p->extent[d]) * p->stride[d];
  const int64_t from = clamped(at[dim], p->extent[dim]);
  const int64_t to = std::max(clamped(last, p->extent[dim]), from) + 1;
  // (A few elements are not worth a tree.)
  if (to - from > 8)
    return rangesOf(param, dim, start).within(size_t(from), size_t(to));
  std::pair<int64_t, int64_t> range{INT64_MAX, INT64_MIN};
  for (int64_t i = from; i < to; ++i) {
    const auto value =
        int64_t(elementAt(types[param], p->data, start + i * p->stride[dim]));
    range = Ranges::joined(range, {value, value});
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

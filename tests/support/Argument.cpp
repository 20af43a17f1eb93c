//===- tests/support/Argument.cpp - Values of parameters in awkward memory ===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Argument.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdexcept>

namespace attn::test {

namespace {

/// kDLBool of newer versions of DLPack.
constexpr uint8_t kBool = 6;

bool isFloat(Type type) {
  return type == Type::F32 || type == Type::F16 || type == Type::BF16;
}

DLDataType dataType(Type type, bool other) {
  switch (type) {
  case Type::F32:
    return {kDLFloat, 32, 1};
  case Type::F16:
    return {kDLFloat, 16, 1};
  case Type::BF16:
    return {kDLBfloat, 16, 1};
  case Type::Bool:
    return {other ? static_cast<uint8_t>(kDLUInt) : kBool, 8, 1};
  case Type::Tokens:
    return {kDLInt, static_cast<uint8_t>(other ? 64 : 32), 1};
  default:
    return {kDLInt, 32, 1};
  }
}

/// The element of a vector that may be left empty.
template <typename T, typename V> T get(const V &vector, size_t n, T other) {
  return vector.empty() ? other : static_cast<T>(vector[n]);
}

std::vector<size_t> storageOrder(const ArgumentLayout &layout, size_t rank) {
  std::vector<size_t> order;
  for (size_t d = 0; d < rank; ++d)
    order.push_back(get<size_t>(layout.order, d, d));
  return order;
}

} // namespace

std::string describe(const Param &param, const Argument &argument) {
  const ArgumentLayout &l = argument.layout;
  constexpr size_t kShown = 24;
  const std::vector<double> &values = argument.value.values;
  std::vector<double> shown(
      values.begin(),
      values.begin() + static_cast<int64_t>(std::min(values.size(), kShown)));
  std::string text = fmt::format(
      "{} [{}] = {}{}", param.name, fmt::join(argument.value.shape, ", "),
      fmt::join(shown, " "), values.size() > kShown ? " ..." : "");
  if (argument.otherType)
    text += param.type == Type::Tokens ? ", as i64" : ", as u8";
  if (!l.order.empty())
    text += fmt::format(", order {}", fmt::join(l.order, ""));
  if (!l.gap.empty())
    text += fmt::format(", gaps {}", fmt::join(l.gap, " "));
  for (size_t d = 0; d < argument.value.shape.size(); ++d) {
    if (get<bool>(l.reversed, d, false))
      text += fmt::format(", reversed[{}]", d);
    if (get<bool>(l.stretched, d, false))
      text += fmt::format(", stride 0 in [{}]", d);
  }
  return text + fmt::format(", step {} slack {}+{} against the {}", l.step,
                            l.before, l.after,
                            l.placement == Placement::End ? "end" : "start");
}

double rounded(double value, Type type) {
  return isFloat(type) ? static_cast<double>(decode(
                             encode(static_cast<float>(value), type), type))
                       : value;
}

ArgumentBuffer::ArgumentBuffer(const Param &param, const Argument &argument,
                               const std::vector<int64_t> &extents)
    : type(param.type), valueShape(argument.value.shape),
      shape(argument.value.shape), stride(shape.size()) {
  const ArgumentLayout &layout = argument.layout;
  size_t elements = 1;
  for (int64_t extent : shape)
    elements *= static_cast<size_t>(extent);
  if (elements != argument.value.values.size())
    throw std::invalid_argument(
        fmt::format("the value of '{}' has {} elements, its shape {}",
                    param.name, argument.value.values.size(), elements));
  DLDataType dlType = dataType(type, argument.otherType);
  elementBytes = dlType.bits / 8;
  int64_t pitch = layout.step, span = 1, first = 0;
  std::vector<size_t> order = storageOrder(layout, shape.size());
  for (size_t n = order.size(); n-- > 0;) {
    size_t d = order[n];
    if (get<bool>(layout.stretched, d, false) && shape[d] == 1) {
      shape[d] = extents[d];
      continue;
    }
    int64_t last = std::max<int64_t>(shape[d] - 1, 0);
    bool reversed = get<bool>(layout.reversed, d, false);
    stride[d] = reversed ? -pitch : pitch;
    span += last * pitch;
    if (reversed)
      first += last * pitch;
    pitch =
        pitch * std::max<int64_t>(shape[d], 1) + get<int64_t>(layout.gap, d, 0);
  }
  if (elements == 0)
    span = first = 0;
  storage = GuardedBuffer(
      static_cast<size_t>(layout.before + span + layout.after) * elementBytes,
      layout.placement);
  origin = storage.data() +
           static_cast<size_t>(layout.before + first) * elementBytes;
  dlTensor.data = storage.data();
  dlTensor.byte_offset = static_cast<uint64_t>(origin - storage.data());
  dlTensor.device = {kDLCPU, 0};
  dlTensor.ndim = static_cast<int32_t>(shape.size());
  dlTensor.dtype = dlType;
  dlTensor.shape = shape.data();
  dlTensor.strides = stride.data();
}

std::byte *ArgumentBuffer::address(size_t element) const {
  int64_t offset = 0;
  for (size_t d = valueShape.size(); d-- > 0;) {
    auto extent = static_cast<size_t>(valueShape[d]);
    // One that is stretched has one element, at 0.
    offset += static_cast<int64_t>(element % extent) * stride[d];
    element /= extent;
  }
  return origin + offset * static_cast<int64_t>(elementBytes);
}

void ArgumentBuffer::store(std::byte *at, double value) const {
  if (isFloat(type)) {
    uint32_t bits = encode(static_cast<float>(value), type);
    std::memcpy(at, &bits, elementBytes); // little-endian
    return;
  }
  auto whole = static_cast<int64_t>(value);
  std::memcpy(at, &whole, elementBytes);
}

void ArgumentBuffer::poisonAt(std::byte *at, Poison poison) const {
  double whole = 0;
  switch (poison) {
  case Poison::Nan:
    whole = -2147483648.0;
    break;
  case Poison::Infinity:
    whole = 2147483647;
    break;
  case Poison::Huge:
    whole = 0x7f7f7f7f;
    break;
  case Poison::Zero:
    break;
  }
  store(at, isFloat(type) ? poisonValue(poison, type)
            : type == Type::Bool
                ? static_cast<double>(static_cast<int64_t>(whole) >> 24 & 255)
                : whole);
}

void ArgumentBuffer::fill(
    const oracle::ParamValue &value, Poison poison,
    const std::function<bool(const std::vector<int64_t> &)> &isLogical) {
  for (size_t at = 0; at + elementBytes <= storage.size(); at += elementBytes)
    poisonAt(storage.data() + at, poison);
  std::vector<int64_t> index(valueShape.size());
  for (size_t n = 0; n < value.values.size(); ++n) {
    size_t rest = n;
    for (size_t d = valueShape.size(); d-- > 0;) {
      auto extent = static_cast<size_t>(valueShape[d]);
      index[d] = static_cast<int64_t>(rest % extent);
      rest /= extent;
    }
    if (isLogical(index))
      set(n, value.values[n]);
  }
}

void ArgumentBuffer::setPoison(size_t element, Poison poison) {
  poisonAt(address(element), poison);
}

void ArgumentBuffer::set(size_t element, double value) {
  store(address(element), value);
}

} // namespace attn::test

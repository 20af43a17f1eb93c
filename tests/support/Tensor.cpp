//===- tests/support/Tensor.cpp - Tensors in awkward memory ---------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Tensor.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace attn::test {

const char *name(Poison poison) {
  switch (poison) {
  case Poison::Nan:
    return "NaN";
  case Poison::Infinity:
    return "+inf";
  case Poison::Huge:
    return "the largest finite values";
  case Poison::Zero:
    return "zero";
  }
  return "?";
}

std::string describe(const Layout &l) {
  std::string text = fmt::format("order {}", fmt::join(l.order, ""));
  if (l.step != 1)
    text += fmt::format(" step {}", l.step);
  for (size_t d = 0; d < 4; ++d) {
    if (l.gap[d] != 0)
      text += fmt::format(" gap[{}]={}", d, l.gap[d]);
    if (l.reversed[d])
      text += fmt::format(" reversed[{}]", d);
    if (l.broadcast[d])
      text += fmt::format(" broadcast[{}]", d);
  }
  return text + fmt::format(" slack {}+{} against the {}", l.before, l.after,
                            l.placement == Placement::End ? "end" : "start");
}

namespace {

uint32_t encodeHalf(float value) {
  uint32_t sign = std::signbit(value) ? 0x8000 : 0;
  double magnitude = std::fabs(static_cast<double>(value));
  if (std::isnan(value))
    return sign | 0x7e00;
  if (magnitude >= 65520) // halfway to the number after the largest
    return sign | 0x7c00;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // The distance between neighbours; nearbyint rounds ties to even.
  int unit = magnitude < 0x1p-14 ? -24 : exponent - 11;
  double count = std::nearbyint(std::ldexp(magnitude, -unit));
  // Adding, so that a carry out of the mantissa raises the exponent.
  return sign + static_cast<uint32_t>((unit + 24) << 10) +
         static_cast<uint32_t>(count);
}

float decodeHalf(uint32_t bits) {
  auto exponent = static_cast<int>(bits >> 10 & 31);
  auto mantissa = static_cast<double>(bits & 1023);
  double value = exponent == 31
                     ? (mantissa != 0 ? std::nan("")
                                      : std::numeric_limits<double>::infinity())
                 : exponent == 0 ? std::ldexp(mantissa, -24)
                                 : std::ldexp(mantissa + 1024, exponent - 25);
  return static_cast<float>((bits & 0x8000) != 0 ? -value : value);
}

} // namespace

uint32_t encode(float value, Type type) {
  if (type == Type::F16)
    return encodeHalf(value);
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (type == Type::F32)
    return bits;
  if (std::isnan(value))
    return bits >> 16 | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

float decode(uint32_t bits, Type type) {
  if (type == Type::F16)
    return decodeHalf(bits);
  if (type == Type::BF16)
    bits <<= 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

Tensor::Tensor(const Index &extents, const Layout &layout, Type type)
    : extent(extents), elementType(type),
      elementBytes(type == Type::F32 ? 4 : 2) {
  int64_t pitch = layout.step;
  int64_t span = 1, first = 0;
  for (size_t n = 4; n-- > 0;) {
    size_t d = layout.order[n];
    int64_t last = std::max<int64_t>(extent[d] - 1, 0);
    if (layout.broadcast[d])
      continue;
    stride[d] = layout.reversed[d] ? -pitch : pitch;
    span += last * pitch;
    if (layout.reversed[d])
      first += last * pitch;
    pitch = pitch * std::max<int64_t>(extent[d], 1) + layout.gap[d];
  }
  if (isEmpty())
    span = first = 0;
  auto elements = static_cast<size_t>(layout.before + span + layout.after);
  storage = GuardedBuffer(elements * elementBytes, layout.placement);
  origin = storage.data() +
           static_cast<size_t>(layout.before + first) * elementBytes;
}

bool Tensor::isEmpty() const {
  return extent[0] == 0 || extent[1] == 0 || extent[2] == 0 || extent[3] == 0;
}

std::byte *Tensor::address(const Index &at) const {
  int64_t offset = 0;
  for (size_t d = 0; d < 4; ++d)
    offset += at[d] * stride[d];
  return origin + offset * static_cast<int64_t>(elementBytes);
}

uint32_t Tensor::bits(const Index &at) const {
  if (elementBytes == 4) {
    uint32_t wide;
    std::memcpy(&wide, address(at), sizeof wide);
    return wide;
  }
  uint16_t narrow;
  std::memcpy(&narrow, address(at), sizeof narrow);
  return narrow;
}

float Tensor::get(const Index &at) const {
  return decode(bits(at), elementType);
}

void Tensor::set(const Index &at, float value) {
  uint32_t wide = encode(value, elementType);
  auto narrow = static_cast<uint16_t>(wide);
  if (elementBytes == 4)
    std::memcpy(address(at), &wide, sizeof wide);
  else
    std::memcpy(address(at), &narrow, sizeof narrow);
}

float poisonValue(Poison poison, Type type) {
  switch (poison) {
  case Poison::Nan:
    return std::numeric_limits<float>::quiet_NaN();
  case Poison::Infinity:
    return std::numeric_limits<float>::infinity();
  case Poison::Huge:
    return type == Type::F16 ? 65504.0F : 3e38F;
  case Poison::Zero:
    break;
  }
  return 0;
}

void Tensor::poisonAt(std::byte *element, Poison poison) {
  uint32_t wide = encode(poisonValue(poison, elementType), elementType);
  auto narrow = static_cast<uint16_t>(wide);
  if (elementBytes == 4)
    std::memcpy(element, &wide, sizeof wide);
  else
    std::memcpy(element, &narrow, sizeof narrow);
}

void Tensor::setPoison(const Index &at, Poison poison) {
  poisonAt(address(at), poison);
}

void Tensor::poisonAll(Poison poison) {
  for (size_t at = 0; at + elementBytes <= storage.size(); at += elementBytes)
    poisonAt(storage.data() + at, poison);
}

void Tensor::fillBytes(uint8_t value) {
  if (storage.size() != 0)
    std::memset(storage.data(), value, storage.size());
}

std::vector<std::byte> Tensor::snapshot() const {
  return {storage.data(), storage.data() + storage.size()};
}

std::string Tensor::changedOutside(
    const std::vector<std::byte> &before,
    const std::function<bool(const Index &)> &mayChange) const {
  std::vector<bool> free(storage.size() / elementBytes);
  if (!isEmpty())
    forEach([&](const Index &at) {
      if (mayChange(at))
        free[static_cast<size_t>(address(at) - storage.data()) / elementBytes] =
            true;
    });
  for (size_t i = 0; i < storage.size(); ++i)
    if (storage.data()[i] != before[i] && !free[i / elementBytes])
      return fmt::format("byte {} of the buffer (element 0 is at byte {}, "
                         "strides {}) was changed from {:#04x} to {:#04x}",
                         i, origin - storage.data(), fmt::join(stride, ","),
                         static_cast<unsigned>(before[i]),
                         static_cast<unsigned>(storage.data()[i]));
  return {};
}

} // namespace attn::test

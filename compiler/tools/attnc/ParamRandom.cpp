//===- tools/attnc/ParamRandom.cpp - Made-up values of parameters ---------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/tools/Files.h"
#include "compiler/tools/attnc/ParamArrays.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace attn {
namespace {

constexpr int64_t kMostElements = int64_t(1) << 40;
/// One token in so many is in a list.
constexpr int64_t kTokensApart = 64;
/// The mean length of a document is this part of the sequence.
constexpr int64_t kDocuments = 8;

/// SplitMix64.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  /// 0 <= below(n) < n, for n below 2^32.
  int64_t below(int64_t n) {
    return int64_t((next() >> 32) * uint64_t(n) >> 32);
  }

private:
  uint64_t state;
};

int64_t extentOf(const Dim &dim, const CallSizes &sizes) {
  switch (dim.kind) {
  case Dim::Batch:
    return sizes.batch;
  case Dim::Heads:
    return sizes.heads;
  case Dim::KvHeads:
    return sizes.kvHeads;
  case Dim::Queries:
    return sizes.qLen;
  case Dim::Keys:
    return sizes.kvLen;
  case Dim::Tokens:
    return sizes.tokens;
  case Dim::Constant:
    break;
  }
  return dim.constant;
}

bool runsAlongPositions(const Dim &dim) {
  return dim.kind == Dim::Queries || dim.kind == Dim::Keys ||
         dim.kind == Dim::Tokens;
}

/// The sum of four bytes is nearly normal, and has few enough values for a
/// table of their encodings in any type.
void fillFloats(Array &array, Type type, int64_t count, Random &random) {
  constexpr int kSums = 4 * 255 + 1;
  constexpr double kMean = 2 * 255, kDeviation = 147.8;
  Array table;
  for (int i = 0; i < kSums; ++i)
    (void)appendElement(table, type,
                        fmt::format("{:.9g}", (i - kMean) / kDeviation));
  const size_t size = array.elementBytes();
  char *out = array.bytes.data();
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = random.next();
    const uint64_t sum = (bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) +
                         (bits >> 24 & 255);
    std::memcpy(out + size_t(i) * size, table.bytes.data() + sum * size, size);
  }
}

/// Ascending document numbers along dimension `along`, other boundaries for
/// each row. Every position starts a document with the same chance.
void fillDocuments(Array &array, size_t along, Random &random) {
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < array.shape.size(); ++d)
    (d < along ? outer : inner) *= d == along ? 1 : array.shape[d];
  const int64_t length = array.shape[along];
  const int64_t mean = std::max<int64_t>(1, length / kDocuments);
  for (int64_t row = 0; row < outer * inner; ++row) {
    const int64_t first = row / inner * length * inner + row % inner;
    int32_t document = 0;
    for (int64_t i = 0; i < length; ++i) {
      if (i > 0 && random.below(mean) == 0)
        ++document;
      std::memcpy(array.bytes.data() +
                      size_t(first + i * inner) * sizeof document,
                  &document, sizeof document);
    }
  }
}

Array randomTokens(const CallSizes &sizes, Random &random) {
  Array array;
  array.type = npyTypeOf(Type::Tokens);
  const int64_t count =
      sizes.tokens == 0 ? 0 : std::max<int64_t>(1, sizes.tokens / kTokensApart);
  array.shape = {sizes.batch, count};
  array.bytes.resize(size_t(array.elements()) * array.elementBytes());
  for (int64_t i = 0; i < array.elements(); ++i) {
    const int64_t token = random.below(sizes.tokens);
    std::memcpy(array.bytes.data() + size_t(i) * sizeof token, &token,
                sizeof token);
  }
  return array;
}

} // namespace

Array randomParamValue(const Param &param, const CallSizes &sizes,
                       uint64_t seed) {
  Random random(seed);
  if (param.type == Type::Tokens)
    return randomTokens(sizes, random);
  if (param.dims.empty())
    throw Failure("no range of a scalar suggests itself");
  Array array;
  array.type = npyTypeOf(param.type);
  int64_t count = 1;
  for (const Dim &dim : param.dims) {
    array.shape.push_back(extentOf(dim, sizes));
    if (__builtin_mul_overflow(count, array.shape.back(), &count) ||
        count > kMostElements)
      throw Failure("an array of this size does not fit any memory");
  }
  array.bytes.resize(size_t(count) * array.elementBytes());
  switch (param.type) {
  case Type::Bool:
    for (char &byte : array.bytes)
      byte = random.below(4) != 0;
    break;
  case Type::I32: {
    const auto along = std::find_if(param.dims.rbegin(), param.dims.rend(),
                                    runsAlongPositions);
    if (along == param.dims.rend())
      throw Failure("no range of integers suggests itself without a dimension "
                    "of positions (queries, keys or tokens)");
    fillDocuments(array, size_t(param.dims.rend() - along) - 1, random);
    break;
  }
  default:
    fillFloats(array, param.type, count, random);
    break;
  }
  return array;
}

} // namespace attn

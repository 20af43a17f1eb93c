//===- tests/runtime/ValuesPropertyTest.cpp - Parameters at random --------===//
//
// Part of attnc. Apache-2.0.
//
// Against a straightforward evaluation, element by element.
//
//===----------------------------------------------------------------------===//
#include "ParamsSupport.h"
#include <algorithm>
#include <deque>
#include <random>
#include <rapidcheck/gtest.h>
#include <set>
#include <sstream>

namespace {

/// A call of random shape and its parameters, each in a block of memory that
/// ends with its last element.
struct RandomCall {
  std::mt19937 random;
  int64_t batch = below(4), qLen = below(40), kvLen = below(80);
  bool topLeft = below(2);
  std::vector<int64_t> qLens, kvLens;
  struct Array {
    attn_param_info info;
    std::vector<int64_t> extent, shape, strides;
    std::unique_ptr<uint8_t[]> memory;
    int bits = 0; // of a list's elements
    DLTensor dl;
    std::vector<double> values; // of the given shape, last index fastest
  };
  std::deque<Array> arrays;

  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }

  int64_t ownExtent(int dim, int64_t b) const {
    int64_t q = qLens.empty() ? qLen : qLens[size_t(b)];
    int64_t kv = kvLens.empty() ? kvLen : kvLens[size_t(b)];
    return dim == kQuery   ? q
           : dim == kKey   ? kv
           : dim != kToken ? INT64_MAX
           : topLeft       ? std::max(q, kv)
                           : kv;
  }
  /// The length that counts for an element: its sequence's, or the longest.
  int64_t limit(const Array &a, size_t dim,
                const std::vector<int64_t> &index) const {
    int kind = a.info.dims[dim];
    if (kind != kQuery && kind != kKey && kind != kToken)
      return INT64_MAX;
    for (size_t i = 0; i < a.extent.size(); ++i)
      if (a.info.dims[i] == kBatch) {
        if (a.shape[i] == 1 || a.strides[i] == 0)
          break;
        return ownExtent(kind, index[i]);
      }
    int64_t longest = 0;
    for (int64_t b = 0; b < batch; ++b)
      longest = std::max(longest, ownExtent(kind, b));
    return longest;
  }
  bool counts(const Array &a, const std::vector<int64_t> &index) const {
    for (size_t i = 0; i < index.size(); ++i)
      if (index[i] >= limit(a, i, index))
        return false;
    return true;
  }
  double valueAt(const Array &a, const std::vector<int64_t> &index) const {
    size_t at = 0;
    for (size_t i = 0; i < index.size(); ++i)
      at = at * size_t(a.shape[i]) + size_t(a.shape[i] == 1 ? 0 : index[i]);
    return a.values[at];
  }

  explicit RandomCall(uint32_t seed) : random(seed) {
    if (below(2))
      for (int64_t b = 0; b < batch; ++b)
        qLens.push_back(below(qLen + 1));
    if (below(2))
      for (int64_t b = 0; b < batch; ++b)
        kvLens.push_back(below(kvLen + 1));
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int64_t n = below(5), i = 0; i < n; ++i)
      addArray(names[i]);
  }

  void addArray(const char *name) {
    Array &a = arrays.emplace_back();
    int type = int(below(6));
    std::vector<int> dims;
    for (int64_t i = type == ATTN_TOKENS ? 0 : below(4); i > 0; --i) {
      int dim = int(below(7));
      dims.push_back(dim ? dim : -1 - int(below(5)));
    }
    a.info = type == ATTN_TOKENS
                 ? declareTokens(name)
                 : declare(name, attn_dtype(type), dims, int(below(8)));
    if (type >= ATTN_I32 && a.info.rank && below(2)) {
      int dim = int(below(a.info.rank));
      if (a.info.dims[dim] != kBatch)
        a.info.summary_dim = dim;
    }
    for (int i = 0; i < a.info.rank; ++i) {
      const int64_t extents[] = {a.info.constants[i],
                                 batch,
                                 kHeads,
                                 kKvHeads,
                                 qLen,
                                 kvLen,
                                 topLeft ? std::max(qLen, kvLen) : kvLen};
      a.extent.push_back(extents[a.info.dims[i]]);
    }
    a.shape = a.extent;
    if (type == ATTN_TOKENS)
      a.shape[1] = below(12);
    for (size_t i = 0; i < a.shape.size(); ++i)
      if (!below(4) && (type != ATTN_TOKENS || i == 0))
        a.shape[i] = 1;
    place(a, type);
  }

  /// Random strides, an exact block of memory, random contents.
  void place(Array &a, int type) {
    size_t rank = a.shape.size();
    std::vector<size_t> order(rank);
    for (size_t i = 0; i < rank; ++i)
      order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    a.strides.assign(rank, 0);
    int64_t stride = 1 + below(2), low = 0, high = 0;
    bool empty = false;
    for (size_t dim : order) {
      empty |= !a.shape[dim];
      a.strides[dim] = below(8) ? stride : 0;
      if (!a.strides[dim])
        continue;
      if (!below(4))
        a.strides[dim] = -stride;
      int64_t span = std::max<int64_t>(a.shape[dim] - 1, 0) * a.strides[dim];
      (span < 0 ? low : high) += span;
      stride = stride * std::max<int64_t>(a.shape[dim], 1) + below(2);
    }
    a.bits = below(2) ? 32 : 64;
    bool list = type == ATTN_TOKENS;
    size_t size = list ? size_t(a.bits) / 8 : sizeOf(type);
    size_t count = empty ? 0 : size_t(high - low + 1);
    a.memory = std::make_unique<uint8_t[]>(count * size);
    std::vector<double> meaning(count);
    int64_t dirt = below(2) ? 4 : 500; // one of so many values is anything
    for (size_t i = 0; i < count; ++i) {
      if (list) {
        int64_t most = (a.extent[1] + below(20)) / 20 * 20;
        int64_t value = below(std::max<int64_t>(most, 1)) - 3;
        meaning[i] = double(value);
        memcpy(&a.memory[i * size], &value, size);
        continue;
      }
      const auto &elements = elementsOf(type);
      const Element &element =
          below(dirt) ? elements[size_t(below(2))]
                      : elements[size_t(below(int64_t(elements.size())))];
      meaning[i] = element.value;
      memcpy(&a.memory[i * size], &element.bits, size);
    }
    a.dl = {a.memory.get(),
            {kDLCPU, 0},
            int(rank),
            list ? DLDataType{kDLInt, uint8_t(a.bits), 1} : typeOf(type),
            a.shape.data(),
            a.strides.data(),
            empty ? 0 : uint64_t(-low) * size};
    forEach(a.shape, [&](const std::vector<int64_t> &index) {
      int64_t at = -low;
      for (size_t i = 0; i < rank; ++i)
        at += index[i] * a.strides[i];
      a.values.push_back(meaning[size_t(at)]);
    });
  }

  /// Calls f for each index of a shape.
  template <typename F>
  static void forEach(const std::vector<int64_t> &shape, F f) {
    std::vector<int64_t> index(shape.size(), 0);
    for (int64_t extent : shape)
      if (!extent)
        return;
    while (true) {
      f(index);
      size_t dim = shape.size();
      while (dim > 0 && ++index[dim - 1] == shape[dim - 1])
        index[--dim] = 0;
      if (!dim)
        return;
    }
  }
};

/// The positions in a list of sequence b, or nullopt-like: whether all are
/// valid is told by `ok`.
std::set<int64_t> positionsOf(const RandomCall &call,
                              const RandomCall::Array &a, int64_t b, bool &ok) {
  std::set<int64_t> positions;
  for (int64_t i = 0; i < a.shape[1]; ++i) {
    auto value = int64_t(call.valueAt(a, {b, i}));
    if (value >= call.ownExtent(kToken, b))
      ok = false;
    if (value >= 0)
      positions.insert(value);
  }
  return positions;
}

/// Whether fill has to take this parameter.
bool isAllowed(const RandomCall &call, const RandomCall::Array &a) {
  bool ok = true;
  if (a.info.type == ATTN_TOKENS) {
    for (int64_t b = 0; b < call.batch; ++b)
      positionsOf(call, a, b, ok);
    return ok;
  }
  RandomCall::forEach(a.extent, [&](const std::vector<int64_t> &index) {
    ok &=
        !call.counts(a, index) || !breaks(a.info.flags, call.valueAt(a, index));
  });
  return ok;
}

/// The message has to name a wrong element that counts.
void checkMessage(const RandomCall &call, const RandomCall::Array &a,
                  const std::string &text) {
  std::string start = std::string("parameter '") + a.info.name + "': the value";
  RC_ASSERT(text.compare(0, start.size(), start) == 0);
  std::vector<int64_t> index;
  size_t at = text.find(" at [");
  if (at != std::string::npos) {
    std::istringstream in(text.substr(at + 5));
    char separator = ',';
    for (int64_t i; separator == ',' && in >> i >> separator;)
      index.push_back(i);
  }
  RC_ASSERT(index.size() == a.shape.size());
  if (a.info.type == ATTN_TOKENS) {
    bool wrong = false;
    for (int64_t b = 0; b < call.batch; ++b)
      if (a.shape[0] == 1 || !a.strides[0] || b == index[0])
        wrong |= call.valueAt(a, index) >= double(call.ownExtent(kToken, b));
    RC_ASSERT(wrong);
    return;
  }
  RC_ASSERT(call.counts(a, index));
  RC_ASSERT(breaks(a.info.flags, call.valueAt(a, index)));
}

double readParam(int type, const void *at) {
  if (type == ATTN_TOKENS)
    return *static_cast<const uint8_t *>(at);
  uint32_t bits = 0;
  memcpy(&bits, at, sizeOf(type));
  for (const Element &element : elementsOf(type))
    if (element.bits == bits)
      return element.value;
  return -12345;
}

/// Elements, where they are found.
void checkElements(const RandomCall &call, const RandomCall::Array &a,
                   const attn_param &param) {
  bool list = a.info.type == ATTN_TOKENS;
  RandomCall::forEach(a.extent, [&](const std::vector<int64_t> &index) {
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i)
      at += index[i] * param.stride[i];
    double found =
        readParam(a.info.type, static_cast<const char *>(param.data) +
                                   at * int64_t(sizeOf(a.info.type)));
    bool ok = true;
    double wanted =
        list ? double(positionsOf(call, a, index[0], ok).count(index[1]))
             : call.valueAt(a, index);
    RC_ASSERT(found == wanted || (std::isnan(found) && std::isnan(wanted)));
  });
}

void checkBlocks(const RandomCall &call, const RandomCall::Array &a,
                 const attn_param &param) {
  if (a.info.summary_dim < 0) {
    RC_ASSERT(!param.blocks);
    return;
  }
  RC_ASSERT(param.blocks);
  auto dim = size_t(a.info.summary_dim);
  std::vector<int64_t> outer = a.extent;
  outer[dim] = (outer[dim] + ATTN_BLOCK - 1) / ATTN_BLOCK;
  RandomCall::forEach(outer, [&](std::vector<int64_t> index) {
    const int32_t *pair = param.blocks;
    for (size_t i = 0; i < index.size(); ++i)
      pair += index[i] * param.block_stride[i];
    // A single element for a dimension counts where its first index does.
    for (size_t i = 0; i < index.size(); ++i)
      if (i != dim && !param.stride[i])
        index[i] = 0;
    int64_t low = INT32_MAX, high = INT32_MIN;
    int64_t first = index[dim] * ATTN_BLOCK;
    for (int64_t i = first; i < std::min(first + ATTN_BLOCK, a.extent[dim]);
         ++i) {
      index[dim] = i;
      if (!call.counts(a, index))
        continue;
      bool ok = true;
      auto value =
          a.info.type == ATTN_TOKENS
              ? int64_t(positionsOf(call, a, index[0], ok).count(index[1]))
              : int64_t(call.valueAt(a, index));
      low = std::min(low, value);
      high = std::max(high, value);
    }
    RC_ASSERT(pair[0] == low);
    RC_ASSERT(pair[1] == high);
  });
}

void checkGlobals(const RandomCall &call, const ParamCall &filled) {
  int64_t most = 0;
  for (int64_t b = 0; b < call.batch; ++b) {
    std::set<int64_t> all;
    bool ok = true;
    for (const auto &a : call.arrays)
      if (a.info.type == ATTN_TOKENS)
        all.merge(positionsOf(call, a, b, ok));
    RC_ASSERT(filled.globalsOf(b) ==
              std::vector<int32_t>(all.begin(), all.end()));
    most = std::max(most, int64_t(all.size()));
  }
  RC_ASSERT(filled.call.max_globals == most);
}

void checkCall(uint32_t seed, bool globals) {
  RandomCall call(seed);
  std::vector<attn_param_info> infos;
  for (auto &a : call.arrays)
    infos.push_back(a.info);
  ParamCall filled(infos, call.batch, call.qLen, call.kvLen);
  filled.kernel.flags = call.topLeft ? ATTN_KERNEL_TOP_LEFT : 0;
  if (globals)
    filled.kernel.flags |= ATTN_KERNEL_GLOBALS;
  filled.setLens(call.qLens, call.kvLens);
  for (auto a = call.arrays.rbegin(); a != call.arrays.rend(); ++a)
    filled.give(a->info.name, &a->dl);
  int status = filled.fill();
  for (auto &a : call.arrays)
    if (!isAllowed(call, a)) {
      RC_ASSERT(status == ATTN_INVALID_ARGUMENT);
      checkMessage(call, a, filled.error.text);
      return;
    }
  RC_ASSERT(status == ATTN_OK);
  for (size_t i = 0; i < call.arrays.size(); ++i) {
    for (size_t dim = 0; dim < call.arrays[i].extent.size(); ++dim)
      RC_ASSERT(filled[i].extent[dim] == call.arrays[i].extent[dim]);
    checkElements(call, call.arrays[i], filled[i]);
    checkBlocks(call, call.arrays[i], filled[i]);
  }
  if (globals)
    checkGlobals(call, filled);
}

} // namespace

RC_GTEST_PROP(ValuesProperty, AgreeWithAStraightforwardEvaluation, ()) {
  auto seed = *rc::gen::arbitrary<uint32_t>();
  // Making a case is cheap beside asking for one.
  for (uint32_t i = 0; i < 20; ++i)
    checkCall(seed + i, i % 2);
}

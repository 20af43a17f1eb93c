//===- tests/support/Case.cpp - One call of one variant, ready to be made -===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Case.h"
#include "runtime/attn.h"
#include "tests/support/Fill.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attn::test {

namespace {

constexpr uint8_t kCanary = 0xa5;

GuardedBuffer lengthsBuffer(const std::vector<int64_t> &lengths) {
  GuardedBuffer buffer(lengths.size() * sizeof(int64_t), Placement::End);
  if (!lengths.empty())
    std::memcpy(buffer.data(), lengths.data(), buffer.size());
  return buffer;
}

const int64_t *lengthsPointer(const std::vector<int64_t> &lengths,
                              const GuardedBuffer &buffer) {
  return lengths.empty() ? nullptr
                         : reinterpret_cast<const int64_t *>(buffer.data());
}

/// The row-major number of an element.
uint64_t flat(const Index &at, const Index &extents) {
  uint64_t number = 0;
  for (size_t d = 0; d < 4; ++d)
    number = number * static_cast<uint64_t>(extents[d]) +
             static_cast<uint64_t>(at[d]);
  return number;
}

std::vector<std::byte> copyOf(const GuardedBuffer &buffer) {
  return {buffer.data(), buffer.data() + buffer.size()};
}

/// Which byte of an input differs from a copy, or an empty text.
std::string changedIn(const std::string &name, const GuardedBuffer &buffer,
                      const std::vector<std::byte> &before) {
  for (size_t n = 0; n < before.size(); ++n)
    if (buffer.data()[n] != before[n])
      return fmt::format("input {}: byte {} was changed", name, n);
  return {};
}

} // namespace

int64_t Case::positionsOf(int64_t b) const {
  return spec.align == Align::TopLeft ? std::max(qLenOf(b), kvLenOf(b))
                                      : kvLenOf(b);
}

int64_t Case::positions() const {
  return spec.align == Align::TopLeft ? std::max(qLen, kvLen) : kvLen;
}

int64_t Case::extentOf(const Dim &dim) const {
  switch (dim.kind) {
  case Dim::Batch:
    return batch;
  case Dim::Heads:
    return spec.heads;
  case Dim::KvHeads:
    return spec.kvHeads;
  case Dim::Queries:
    return qLen;
  case Dim::Keys:
    return kvLen;
  case Dim::Tokens:
    return positions();
  case Dim::Constant:
    break;
  }
  return dim.constant;
}

std::vector<int64_t> Case::extentsOf(size_t param) const {
  const Param &declared = spec.params[param];
  if (declared.type == Type::Tokens)
    return {batch, params[param].value.shape[1]};
  std::vector<int64_t> extents;
  for (const Dim &dim : declared.dims)
    extents.push_back(extentOf(dim));
  return extents;
}

bool Case::isLogical(size_t param, const std::vector<int64_t> &index) const {
  const Param &declared = spec.params[param];
  if (declared.type == Type::Tokens)
    return true;
  const std::vector<int64_t> &shape = params[param].value.shape;
  const auto isFor = [&](int64_t b) {
    for (size_t d = 0; d < index.size(); ++d) {
      Dim::Kind kind = declared.dims[d].kind;
      bool inside = kind == Dim::Batch     ? shape[d] == 1 || index[d] == b
                    : kind == Dim::Queries ? index[d] < qLenOf(b)
                    : kind == Dim::Keys    ? index[d] < kvLenOf(b)
                    : kind == Dim::Tokens  ? index[d] < positionsOf(b)
                                           : true;
      // A single element along a dimension is that of every position.
      if (!inside && (kind == Dim::Batch || shape[d] != 1))
        return false;
    }
    return true;
  };
  for (int64_t b = 0; b < batch; ++b)
    if (isFor(b))
      return true;
  return batch == 0; // what belongs to no sequence exists all the same
}

oracle::Params Case::oracleParams() const {
  oracle::Params all;
  for (size_t n = 0; n < params.size(); ++n) {
    all.push_back(params[n].value);
    for (double &value : all.back().values)
      value = rounded(value, spec.params[n].type);
  }
  return all;
}

std::string describe(const Case &c) {
  std::string text = print(c.spec);
  text += fmt::format("batch {}  q_len {}  kv_len {}  lse {}\n", c.batch,
                      c.qLen, c.kvLen, c.lse ? "wanted" : "not wanted");
  if (!c.qLens.empty())
    text += fmt::format("q_lens {}\n", fmt::join(c.qLens, " "));
  if (!c.kvLens.empty())
    text += fmt::format("kv_lens {}\n", fmt::join(c.kvLens, " "));
  text += fmt::format(
      "values: seed {}{}{} scaled by {} {} {}, {} outside the shapes\n",
      c.values.seed, c.values.zeroQuery ? " Q=0" : "",
      c.values.integers ? " whole V" : "", c.values.qScale, c.values.kScale,
      c.values.vScale, name(c.poison));
  text += fmt::format("Q {}\nK {}\nV {}\nO {}\n", describe(c.q), describe(c.k),
                      describe(c.v), describe(c.o));
  if (c.lse)
    text += fmt::format("LSE {}\n", describe(c.lseLayout));
  for (size_t n = 0; n < c.params.size(); ++n)
    text += describe(c.spec.params[n], c.params[n]) + "\n";
  return text;
}

CallBuffers::CallBuffers(const Case &c, const attn_kernel *kernel)
    : q({c.batch, c.spec.heads, c.qLen, c.spec.qkDim}, c.q, c.spec.qType),
      k({c.batch, c.spec.kvHeads, c.kvLen, c.spec.qkDim}, c.k, c.spec.kvType),
      v({c.batch, c.spec.kvHeads, c.kvLen, c.spec.valueDim}, c.v,
        c.spec.kvType),
      o({c.batch, c.spec.heads, c.qLen, c.spec.valueDim}, c.o, c.spec.outType),
      lse({c.batch, c.spec.heads, c.lse ? c.qLen : 0, 1}, c.lseLayout,
          Type::F32),
      theCase(c), kernel(kernel), qLens(lengthsBuffer(c.qLens)),
      kvLens(lengthsBuffer(c.kvLens)) {
  attn_call &call = theCall;
  call.q = q.base();
  call.k = k.base();
  call.v = v.base();
  call.o = o.base();
  call.lse = c.lse ? static_cast<float *>(lse.base()) : nullptr;
  call.q_lens = lengthsPointer(c.qLens, qLens);
  call.kv_lens = lengthsPointer(c.kvLens, kvLens);
  call.batch = c.batch;
  call.q_len = c.qLen;
  call.kv_len = c.kvLen;
  std::copy_n(q.strides().begin(), 4, call.q_stride);
  std::copy_n(k.strides().begin(), 4, call.k_stride);
  std::copy_n(v.strides().begin(), 4, call.v_stride);
  std::copy_n(o.strides().begin(), 4, call.o_stride);
  std::copy_n(lse.strides().begin(), 3, call.lse_stride);
  for (size_t n = 0; n < c.params.size(); ++n)
    arguments.emplace_back(c.spec.params[n], c.params[n], c.extentsOf(n));
  fillInputs(c.poison);
  resetOutputs();
}

std::vector<attn_argument> CallBuffers::given() const {
  std::vector<attn_argument> all;
  for (size_t n = 0; n < arguments.size(); ++n)
    all.push_back(
        {theCase.spec.params[n].name.c_str(), &arguments[n].tensor()});
  return all;
}

void CallBuffers::prepareParameters() {
  if (!kernel || theCase.spec.params.empty())
    return;
  const std::vector<attn_argument> all = given();
  size_t bytes = 0;
  attn_error error{};
  theCall.params = nullptr;
  int status = attn_params_check(kernel, all.data(), all.size(), &theCall,
                                 &bytes, &error);
  if (status == ATTN_OK) {
    if (prepared.size() != bytes)
      prepared = GuardedBuffer(bytes, bytes % 64 == 0 ? Placement::End
                                                      : Placement::Start);
    status = attn_params_fill(kernel, all.data(), all.size(), &theCall,
                              prepared.data(), &error);
  }
  refusal =
      status == ATTN_OK
          ? ""
          : fmt::format("the runtime refuses the parameters: {}", error.text);
  if (status != ATTN_OK)
    theCall.params = nullptr;
}

void CallBuffers::changeParameters(
    const std::function<void(size_t, ArgumentBuffer &)> &change) {
  for (size_t n = 0; n < arguments.size(); ++n)
    change(n, arguments[n]);
  prepareParameters();
  takeSnapshots();
}

void CallBuffers::fillInputs(Poison poison) {
  const Values &values = theCase.values;
  const auto fill = [&](Tensor &tensor, uint32_t seed, float scale, bool zero,
                        bool whole, bool isQuery,
                        const std::function<float(const Index &)> &given) {
    tensor.poisonAll(poison);
    tensor.forEach([&](const Index &at) {
      int64_t length = isQuery ? theCase.qLenOf(at[0]) : theCase.kvLenOf(at[0]);
      if (at[2] >= length)
        return;
      float value = fillValue(seed, flat(at, tensor.extents()));
      if (whole)
        value = std::floor(value * 8);
      tensor.set(at, given ? given(at) : zero ? 0.0F : value * scale);
    });
  };
  uint32_t seed = values.seed;
  fill(q, seed, values.qScale, values.zeroQuery, false, true, values.q);
  fill(k, seed + 1, values.kScale, false, false, false, values.k);
  fill(v, seed + 2, values.vScale, false, values.integers, false, values.v);
  for (size_t n = 0; n < arguments.size(); ++n)
    arguments[n].fill(theCase.params[n].value, poison,
                      [&](const std::vector<int64_t> &index) {
                        return theCase.isLogical(n, index);
                      });
  prepareParameters();
  takeSnapshots();
}

void CallBuffers::takeSnapshots() {
  const Tensor *all[] = {&q, &k, &v, &o, &lse};
  for (size_t n = 0; n < 5; ++n)
    before[n] = all[n]->snapshot();
  argumentsBefore.clear();
  for (const ArgumentBuffer &argument : arguments)
    argumentsBefore.push_back(copyOf(argument.buffer()));
  preparedBefore = copyOf(prepared);
}

void CallBuffers::repoison(Poison poison) { fillInputs(poison); }

void CallBuffers::resetOutputs() {
  o.fillBytes(kCanary);
  lse.fillBytes(kCanary);
  takeSnapshots();
}

void CallBuffers::poisonKey(int64_t b, int64_t j, Poison poison, bool inK,
                            bool inV) {
  for (int64_t g = 0; g < theCase.spec.kvHeads; ++g) {
    for (int64_t c = 0; inK && c < theCase.spec.qkDim; ++c)
      k.setPoison({b, g, j, c}, poison);
    for (int64_t c = 0; inV && c < theCase.spec.valueDim; ++c)
      v.setPoison({b, g, j, c}, poison);
  }
  takeSnapshots();
}

std::vector<Region> CallBuffers::regions() const {
  std::vector<Region> all;
  const auto add = [&](const std::string &name, const GuardedBuffer &buffer,
                       bool isOutput) {
    all.push_back(
        {name, buffer.data(), buffer.size(), buffer.placement(), isOutput});
  };
  add("Q", q.buffer(), false);
  add("K", k.buffer(), false);
  add("V", v.buffer(), false);
  add("O", o.buffer(), true);
  if (theCase.lse)
    add("LSE", lse.buffer(), true);
  if (theCall.q_lens)
    add("q_lens", qLens, false);
  if (theCall.kv_lens)
    add("kv_lens", kvLens, false);
  for (size_t n = 0; n < arguments.size(); ++n)
    add(theCase.spec.params[n].name, arguments[n].buffer(), false);
  if (theCall.params)
    add("the prepared parameters", prepared, false);
  return all;
}

std::string CallBuffers::changedBytes() const {
  const auto never = [](const Index &) { return false; };
  const auto logicalRow = [&](const Index &at) {
    return at[2] < theCase.qLenOf(at[0]);
  };
  const Tensor *all[] = {&q, &k, &v, &o, &lse};
  const char *names[] = {"input Q", "input K", "input V", "O", "LSE"};
  for (size_t n = 0; n < 5; ++n) {
    std::string where = n < 3 ? all[n]->changedOutside(before[n], never)
                              : all[n]->changedOutside(before[n], logicalRow);
    if (!where.empty())
      return fmt::format("{}: {}{}", names[n], where,
                         n < 3 ? "" : ", outside the logical rows");
  }
  for (size_t n = 0; n < arguments.size(); ++n)
    if (std::string where =
            changedIn(theCase.spec.params[n].name, arguments[n].buffer(),
                      argumentsBefore[n]);
        !where.empty())
      return where;
  return changedIn("the prepared parameters", prepared, preparedBefore);
}

std::vector<uint32_t> CallBuffers::rowBits(int64_t b, int64_t h,
                                           int64_t i) const {
  std::vector<uint32_t> bits;
  for (int64_t c = 0; c < theCase.spec.valueDim; ++c)
    bits.push_back(o.bits({b, h, i, c}));
  if (theCase.lse)
    bits.push_back(lse.bits({b, h, i, 0}));
  return bits;
}

std::vector<uint32_t> CallBuffers::outputBits() const {
  std::vector<uint32_t> all;
  for (int64_t b = 0; b < theCase.batch; ++b)
    for (int64_t h = 0; h < theCase.spec.heads; ++h)
      for (int64_t i = 0; i < theCase.qLenOf(b); ++i) {
        std::vector<uint32_t> row = rowBits(b, h, i);
        all.insert(all.end(), row.begin(), row.end());
      }
  return all;
}

double tolerance(Type outType) {
  switch (outType) {
  case Type::F16:
    return 2e-3;
  case Type::BF16:
    return 1e-2;
  default:
    return 2e-5;
  }
}

std::string compare(const CallBuffers &buffers, const Case &c,
                    const oracle::Output &expected, double *worst) {
  double largest = 1;
  buffers.v.forEach([&](const Index &at) {
    if (at[2] < c.kvLenOf(at[0]))
      largest =
          std::max(largest, static_cast<double>(std::fabs(buffers.v.get(at))));
  });
  double tol = tolerance(c.spec.outType);
  const auto judge = [&](double got, double want, double allowed) {
    if (std::isnan(want))
      return std::isnan(got);
    double error = std::fabs(got - want);
    if (worst && !std::isnan(error))
      *worst = std::max(*worst, error / allowed);
    return error <= allowed; // false for NaN
  };
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.spec.heads; ++h)
      for (int64_t i = 0; i < c.qLenOf(b); ++i) {
        size_t row = expected.row(b, h, i);
        bool empty = expected.weightless[row] != 0;
        for (int64_t n = 0; n < c.spec.valueDim; ++n) {
          double want = expected.at(b, h, i, n);
          float got = buffers.o.get({b, h, i, n});
          if (empty ? got != 0 : !judge(got, want, tol * largest))
            return fmt::format(
                "O[{},{},{},{}] is {:.9g}, not {:.9g}{} ({} of {} keys are "
                "allowed; tolerance {:.3g})",
                b, h, i, n, got, want, empty ? " exactly" : "",
                expected.keys[row], c.kvLenOf(b), empty ? 0 : tol * largest);
        }
        if (!c.lse)
          continue;
        double want = expected.lse[row];
        float got = buffers.lse.get({b, h, i, 0});
        // An LSE is f32 whatever the storage type.
        double allowed = 2e-5 * std::max(1.0, std::fabs(want));
        if (std::isinf(want) ? got != static_cast<float>(want)
                             : !judge(got, want, allowed))
          return fmt::format("LSE[{},{},{}] is {:.9g}, not {:.9g} ({} keys are "
                             "allowed; tolerance {:.3g})",
                             b, h, i, got, want, expected.keys[row], allowed);
      }
  return {};
}

} // namespace attn::test

//===- tests/support/ReferenceParams.cpp - A slow kernel's parameters -----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/ReferenceParams.h"
#include "tests/support/Tensor.h"
#include <algorithm>
#include <cstring>

namespace attn::test {

namespace {

int32_t typeOf(Type type) {
  switch (type) {
  case Type::F16:
    return ATTN_F16;
  case Type::BF16:
    return ATTN_BF16;
  case Type::I32:
    return ATTN_I32;
  case Type::Bool:
    return ATTN_BOOL;
  case Type::Tokens:
    return ATTN_TOKENS;
  default:
    return ATTN_F32;
  }
}

int32_t dimOf(Dim::Kind kind) {
  switch (kind) {
  case Dim::Batch:
    return ATTN_DIM_BATCH;
  case Dim::Heads:
    return ATTN_DIM_HEADS;
  case Dim::KvHeads:
    return ATTN_DIM_KV_HEADS;
  case Dim::Queries:
    return ATTN_DIM_QUERIES;
  case Dim::Keys:
    return ATTN_DIM_KEYS;
  case Dim::Tokens:
    return ATTN_DIM_TOKENS;
  case Dim::Constant:
    break;
  }
  return ATTN_DIM_CONSTANT;
}

double readElement(const void *data, int64_t at, int32_t type) {
  if (type == ATTN_BOOL || type == ATTN_TOKENS)
    return static_cast<const uint8_t *>(data)[at];
  if (type == ATTN_I32)
    return static_cast<const int32_t *>(data)[at];
  if (type == ATTN_F32)
    return static_cast<double>(static_cast<const float *>(data)[at]);
  uint16_t bits = static_cast<const uint16_t *>(data)[at];
  return static_cast<double>(
      decode(bits, type == ATTN_F16 ? Type::F16 : Type::BF16));
}

/// One parameter as the kernel sees it, with one of the faults.
void read(const attn_param_info &info, const attn_param &param, Fault fault,
          oracle::ParamValue &value) {
  size_t elements = 1;
  for (int32_t d = 0; d < info.rank; ++d) {
    value.shape.push_back(param.extent[d]);
    elements *= static_cast<size_t>(param.extent[d]);
  }
  int64_t past = fault == Fault::ParamPastEnd ? 1 : 0;
  for (size_t n = 0; n < elements; ++n) {
    auto rest = static_cast<int64_t>(n);
    int64_t at = 0;
    for (int32_t d = info.rank - 1; d >= 0; --d) {
      int64_t index = rest % param.extent[d];
      rest /= param.extent[d];
      if (fault == Fault::FirstEntry && info.dims[d] == ATTN_DIM_BATCH)
        index = 0;
      at += (index + past) * param.stride[d];
    }
    if (fault == Fault::ParamStrides)
      at = static_cast<int64_t>(n);
    double element = readElement(param.data, at, info.type);
    if (info.type == ATTN_BOOL && fault == Fault::OneByteTrue)
      element = element == 1 ? 1 : 0;
    value.values.push_back(element);
  }
}

/// Of the positions that are marked, a list for each entry.
void toLists(oracle::ParamValue &marks) {
  for (size_t n = 0; n < marks.values.size(); ++n)
    marks.values[n] =
        marks.values[n] == 0
            ? -1
            : static_cast<double>(static_cast<int64_t>(n) % marks.shape[1]);
}

} // namespace

std::vector<attn_param_info> describeParams(const Spec &spec) {
  std::vector<attn_param_info> all;
  for (const Param &param : spec.params) {
    attn_param_info info{};
    info.name = param.name.c_str();
    info.type = typeOf(param.type);
    info.summary_dim = -1;
    bool sums = info.type >= ATTN_I32;
    if (param.type == Type::Tokens) {
      info.rank = 2;
      info.dims[0] = ATTN_DIM_BATCH;
      info.dims[1] = ATTN_DIM_TOKENS;
    }
    for (const Dim &dim : param.dims) {
      info.dims[info.rank] = dimOf(dim.kind);
      info.constants[info.rank] = dim.kind == Dim::Constant ? dim.constant : 0;
      if (sums && dim.kind != Dim::Batch)
        info.summary_dim = info.rank;
      ++info.rank;
    }
    all.push_back(info);
  }
  return all;
}

void readParams(const std::vector<attn_param_info> &infos,
                const attn_call &call, Fault fault, oracle::Params &params) {
  params.assign(infos.size(), {});
  for (size_t n = 0; n < infos.size(); ++n) {
    read(infos[n], call.params[n], fault, params[n]);
    if (infos[n].type == ATTN_TOKENS)
      toLists(params[n]);
  }
}

double paddingSum(const std::vector<attn_param_info> &infos,
                  const oracle::Params &params, int64_t b, int64_t kvLen) {
  double sum = 0;
  for (size_t n = 0; n < infos.size(); ++n) {
    const attn_param_info &info = infos[n];
    const oracle::ParamValue &value = params[n];
    bool isFloat = info.type < ATTN_I32;
    for (size_t e = 0; isFloat && e < value.values.size(); ++e) {
      auto rest = static_cast<int64_t>(e);
      bool past = false, mine = true;
      for (int32_t d = info.rank - 1; d >= 0; --d) {
        int64_t index = rest % value.shape[static_cast<size_t>(d)];
        rest /= value.shape[static_cast<size_t>(d)];
        past |= info.dims[d] == ATTN_DIM_KEYS && index >= kvLen;
        mine &= info.dims[d] != ATTN_DIM_BATCH || index == b;
      }
      if (past && mine)
        sum += value.values[e];
    }
  }
  return sum;
}

} // namespace attn::test

//===- tests/runtime/ParamsSupport.h - Calls with parameters --------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_RUNTIME_PARAMSSUPPORT_H
#define ATTNC_TESTS_RUNTIME_PARAMSSUPPORT_H

#include "Support.h"
#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>

inline constexpr int kBatch = ATTN_DIM_BATCH, kHead = ATTN_DIM_HEADS,
                     kKvHead = ATTN_DIM_KV_HEADS, kQuery = ATTN_DIM_QUERIES,
                     kKey = ATTN_DIM_KEYS, kToken = ATTN_DIM_TOKENS;
inline constexpr int kBounded = ATTN_PARAM_BOUNDED,
                     kNonzero = ATTN_PARAM_NONZERO,
                     kPositive = ATTN_PARAM_POSITIVE;

/// A declaration; a constant dimension is written as minus its extent.
inline attn_param_info declare(const char *name, attn_dtype type,
                               std::vector<int> dims, int flags = 0,
                               int summaryDim = -1) {
  attn_param_info info = {};
  info.name = name;
  info.type = type;
  info.rank = int32_t(dims.size());
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] < 0)
      info.constants[i] = -dims[i];
    else
      info.dims[i] = dims[i];
  info.flags = flags;
  info.summary_dim = summaryDim;
  return info;
}
inline attn_param_info declareTokens(const char *name, int summaryDim = -1) {
  return declare(name, ATTN_TOKENS, {ATTN_DIM_BATCH, ATTN_DIM_TOKENS}, 0,
                 summaryDim);
}

/// An element as it is stored (little endian), and what it means.
struct Element {
  uint32_t bits;
  double value;
};
inline const std::vector<Element> &elementsOf(int type) {
  static const std::vector<Element> f32 = {{0x3f800000, 1},
                                           {0x40000000, 2},
                                           {0xbf800000, -1},
                                           {0, 0},
                                           {0x80000000, -0.0},
                                           {0x7f800000, INFINITY},
                                           {0xff800000, -INFINITY},
                                           {0x7fc00000, NAN},
                                           {1, 1.401298464324817e-45},
                                           {0x4e800000, 1073741824.},
                                           {0x4e800001, 1073741952.}};
  static const std::vector<Element> f16 = {
      {0x3c00, 1},         {0x4000, 2},
      {0xbc00, -1},        {0, 0},
      {0x8000, -0.0},      {0x7c00, INFINITY},
      {0xfc00, -INFINITY}, {0x7e00, NAN},
      {1, 0x1p-24},        {0x7bff, 65504},
      {0x0400, 0x1p-14},   {0x3555, 0x1.554p-2}};
  static const std::vector<Element> bf16 = {
      {0x3f80, 1},          {0x4000, 2},
      {0xbf80, -1},         {0, 0},
      {0x8000, -0.0},       {0x7f80, INFINITY},
      {0xff80, -INFINITY},  {0x7fc0, NAN},
      {1, 0x1p-133},        {0x4e80, 1073741824.},
      {0x4e81, 1082130432.}};
  static const std::vector<Element> i32 = {{1, 1},
                                           {2, 2},
                                           {UINT32_MAX, -1},
                                           {0, 0},
                                           {1u << 30, 1073741824.},
                                           {(1u << 30) + 1, 1073741825.},
                                           {0u - (1u << 30), -1073741824.},
                                           {0u - (1u << 30) - 1, -1073741825.},
                                           {1u << 31, -2147483648.},
                                           {77, 77}};
  static const std::vector<Element> boolean = {
      {1, 1}, {1, 1}, {0, 0}, {255, 1}, {128, 1}};
  switch (type) {
  case ATTN_F16:
    return f16;
  case ATTN_BF16:
    return bf16;
  case ATTN_I32:
    return i32;
  case ATTN_BOOL:
    return boolean;
  default:
    return f32;
  }
}

inline size_t sizeOf(int type) {
  return type == ATTN_BOOL || type == ATTN_TOKENS ? 1
         : type == ATTN_F16 || type == ATTN_BF16  ? 2
                                                  : 4;
}

inline DLDataType typeOf(int type) {
  switch (type) {
  case ATTN_F16:
    return {kDLFloat, 16, 1};
  case ATTN_BF16:
    return {kDLBfloat, 16, 1};
  case ATTN_I32:
    return {kDLInt, 32, 1};
  case ATTN_BOOL:
    return {kDLUInt, 8, 1};
  default:
    return {kDLFloat, 32, 1};
  }
}

/// The rule of the flags, written out once more.
inline bool breaks(int flags, double x) {
  if (flags & kBounded && (std::isnan(x) || x > 1073741824 || x < -1073741824))
    return true;
  if (flags & kNonzero && x == 0)
    return true;
  return flags & kPositive && (std::isnan(x) || x <= 0 || std::isinf(x));
}

/// A kernel with parameters, and a call of it that is being filled. The memory
/// has exactly the size that was asked for, so that the address sanitizer sees
/// any access past it.
struct ParamCall {
  std::vector<attn_param_info> infos;
  std::vector<attn_argument> arguments;
  attn_kernel kernel = *plainKernel();
  attn_call call = {};
  attn_error error = {};
  size_t bytes = 0;

  ParamCall(std::vector<attn_param_info> declared, int64_t batch, int64_t qLen,
            int64_t kvLen)
      : infos(std::move(declared)) {
    kernel.params = infos.data();
    kernel.n_params = int32_t(infos.size());
    call.batch = batch;
    call.q_len = qLen;
    call.kv_len = kvLen;
  }
  ParamCall(const ParamCall &) = delete;
  ParamCall &operator=(const ParamCall &) = delete;

  void give(const char *name, const DLTensor *value) {
    arguments.push_back({name, value});
  }
  void setLens(std::vector<int64_t> q, std::vector<int64_t> kv) {
    qLens = std::move(q);
    kvLens = std::move(kv);
    call.q_lens = qLens.empty() ? nullptr : qLens.data();
    call.kv_lens = kvLens.empty() ? nullptr : kvLens.data();
  }
  int check() {
    return attn_params_check(&kernel, arguments.data(), arguments.size(), &call,
                             &bytes, &error);
  }
  /// Checks, allocates and fills.
  int fill() {
    if (int status = check())
      return status;
    void *block = nullptr;
    if (bytes && posix_memalign(&block, 64, bytes))
      abort();
    if (block)
      memset(block, 0xa5, bytes);
    memory.reset(block);
    return attn_params_fill(&kernel, arguments.data(), arguments.size(), &call,
                            block, &error);
  }
  const attn_param &operator[](size_t i) const { return call.params[i]; }
  std::vector<int32_t> globalsOf(int64_t b) const {
    const int32_t *first = call.globals + b * call.globals_stride;
    return {first, first + call.global_counts[b]};
  }

private:
  std::vector<int64_t> qLens, kvLens;
  std::unique_ptr<void, decltype(&free)> memory{nullptr, free};
};

inline void expectWords(const attn_error &error,
                        const std::vector<std::string> &words) {
  for (const std::string &word : words)
    EXPECT_NE(std::string(error.text).find(word), std::string::npos)
        << "'" << word << "' is not in: " << error.text;
}

#endif

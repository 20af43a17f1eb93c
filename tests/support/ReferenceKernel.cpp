//===- tests/support/ReferenceKernel.cpp - A slow kernel, right or wrong --===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/ReferenceKernel.h"
#include "tests/oracle/Oracle.h"
#include <cmath>
#include <csignal>
#include <limits>
#include <optional>

namespace attn::test {

struct ReferenceKernel::State {
  Spec spec;
  Fault fault = Fault::None;
  attn_kernel descriptor{};
  std::string error;
  std::optional<oracle::Expression> mask;
  float scale = 1;
  int64_t itemsRun = 0;
};

namespace {

constexpr int64_t kRows = 4;

ReferenceKernel::State *current = nullptr;

/// One row of the result: the state and the place.
struct Row {
  ReferenceKernel::State &state;
  const attn_call &call;
  int64_t b, h, i, g, qLen, kvLen;

  bool has(Fault fault) const { return state.fault == fault; }

  const float *element(const void *base, const int64_t *stride, int64_t head,
                       int64_t token, int64_t column) const {
    return static_cast<const float *>(base) + b * stride[0] + head * stride[1] +
           token * stride[2] + column * stride[3];
  }

  bool allows(int64_t j) {
    oracle::Point point;
    point.b = b;
    point.h = h;
    point.g = g;
    point.qLen = qLen;
    point.kvLen = kvLen;
    bool bottom =
        state.spec.align == Align::BottomRight && !has(Fault::TopLeft);
    point.q = bottom ? i + kvLen - qLen : i;
    point.k = has(Fault::WindowOffByOne) ? j + 1 : j;
    return !state.mask || state.mask->at(point, state.error).truth();
  }

  float score(int64_t j) const {
    float dot = 0;
    for (int64_t c = 0; c < state.spec.qkDim; ++c) {
      const float *k = element(call.k, call.k_stride, g, j, c);
      if (has(Fault::ShortOffsets))
        k = static_cast<const float *>(call.k) +
            static_cast<int32_t>(b * call.k_stride[0] + g * call.k_stride[1] +
                                 j * call.k_stride[2] + c * call.k_stride[3]);
      dot += *element(call.q, call.q_stride, h, i, c) * *k;
    }
    if (has(Fault::ReadPastEnd))
      for (int64_t c = state.spec.qkDim; c % 8 != 0; ++c)
        dot += 0 * *const_cast<const volatile float *>(
                       element(call.k, call.k_stride, g, j, c));
    if (has(Fault::ReadBeforeStart))
      dot += 0 * *const_cast<const volatile float *>(
                     element(call.q, call.q_stride, h, i, -1));
    return dot * state.scale;
  }

  const float *value(int64_t j, int64_t c) const {
    return has(Fault::UnitStride) ? element(call.v, call.v_stride, g, j, 0) + c
                                  : element(call.v, call.v_stride, g, j, c);
  }

  void run(float *scratch);
};

void Row::run(float *scratch) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  int64_t visited = has(Fault::IgnoreKvLens) ? call.kv_len : kvLen;
  float m = has(Fault::LowSentinel) ? -50000.0F : -infinity;
  for (int64_t j = 0; j < visited; ++j) {
    bool allowed = allows(j);
    if (has(Fault::LeakMaskedKey))
      m = std::fmax(m, score(j) + (allowed ? 0 : -infinity));
    else if (allowed)
      m = std::fmax(m, score(j));
  }
  float z = has(Fault::DirtyScratch) ? scratch[0] : 0;
  float *o = static_cast<float *>(call.o) + b * call.o_stride[0] +
             h * call.o_stride[1] + i * call.o_stride[2];
  const auto accumulate = [&](int64_t c) {
    float sum = 0;
    for (int64_t j = 0; j < visited; ++j) {
      if (allows(j)) {
        sum += std::exp(score(j) - m) * *value(j, c);
      } else if (has(Fault::LeakMaskedValue)) {
        sum += 0 * *value(j, c);
      } else if (has(Fault::LeakMaskedKey)) {
        float weight = std::exp(score(j) - infinity - m);
        sum += weight == 0 ? 0 : weight * *value(j, c);
      }
    }
    return sum;
  };
  for (int64_t j = 0; j < visited; ++j)
    if (allows(j))
      z += std::exp(score(j) - m);
  bool empty = z == 0 && !has(Fault::EmptyRowsNan);
  for (int64_t c = 0; c < state.spec.valueDim; ++c) {
    if (has(Fault::AlignedLoad) && kvLen != 0 &&
        reinterpret_cast<uintptr_t>(value(0, c)) % 32 != 0)
      raise(SIGSEGV);
    float result = empty ? 0 : accumulate(c) / z;
    if (has(Fault::ItemOrder))
      result *= 1 + 6e-8F * static_cast<float>(state.itemsRun % 3);
    if (has(Fault::BatchSize) && call.batch > 1)
      result = std::nextafter(result, infinity);
    o[c * call.o_stride[3]] = result;
  }
  if (has(Fault::WritePastEnd))
    o[state.spec.valueDim * call.o_stride[3]] = 0;
  if (call.lse)
    call.lse[b * call.lse_stride[0] + h * call.lse_stride[1] +
             i * call.lse_stride[2]] = empty ? -infinity
                                       : has(Fault::NarrowLse)
                                           ? m + std::log2(z)
                                           : m + std::log(z);
  if (has(Fault::WriteInput))
    *const_cast<float *>(element(call.q, call.q_stride, h, i, 0)) *=
        state.scale;
}

void runItems(const attn_call *call, int64_t first, int64_t last,
              void *scratch) {
  ReferenceKernel::State &state = *current;
  int64_t blocks = (call->q_len + kRows - 1) / kRows;
  for (int64_t item = first; item < last; ++item, ++state.itemsRun) {
    int64_t b = item / (blocks * state.spec.heads);
    int64_t h = item / blocks % state.spec.heads;
    int64_t qLen = call->q_lens ? call->q_lens[b] : call->q_len;
    int64_t kvLen = call->kv_lens ? call->kv_lens[b] : call->kv_len;
    int64_t g = state.fault == Fault::TiledHeads ? h % state.spec.kvHeads
                                                 : state.spec.kvHeadOf(h);
    for (int64_t i = item % blocks * kRows;
         i < std::min(item % blocks * kRows + kRows, call->q_len); ++i)
      if (i < qLen || state.fault == Fault::WriteUnusedRows)
        Row{state, *call, b, h, i, g, qLen, kvLen}.run(
            static_cast<float *>(scratch));
  }
}

} // namespace

ReferenceKernel::ReferenceKernel(Spec spec, Fault fault)
    : state(std::make_unique<State>()) {
  state->spec = std::move(spec);
  state->fault = fault;
  const Spec &s = state->spec;
  static const oracle::Params none;
  if (s.mask)
    state->mask.emplace(s, none, s.mask, oracle::Precision::F32, state->error);
  double scale = 1 / std::sqrt(static_cast<double>(s.qkDim));
  if (fault != Fault::LostScale)
    state->error += oracle::scaleOf(s, none, scale);
  state->scale = static_cast<float>(scale);
  attn_kernel &d = state->descriptor;
  d.abi_version = ATTN_ABI_VERSION;
  d.struct_size = sizeof d;
  d.variant = s.name.c_str();
  d.target = "reference";
  d.features = "";
  d.text = "";
  d.run = runItems;
  d.heads = s.heads;
  d.kv_heads = s.kvHeads;
  d.qk_dim = s.qkDim;
  d.value_dim = s.valueDim;
  d.item_groups = s.heads;
  d.item_heads = 1;
  d.item_rows = kRows;
  d.scratch_bytes = sizeof(float);
  current = state.get();
}

ReferenceKernel::~ReferenceKernel() {
  if (current == state.get())
    current = nullptr;
}

const attn_kernel *ReferenceKernel::kernel() const {
  return &state->descriptor;
}

} // namespace attn::test

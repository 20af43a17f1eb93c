//===- tests/support/ReferenceKernel.cpp - A slow kernel, right or wrong --===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/ReferenceKernel.h"
#include "tests/oracle/Oracle.h"
#include "tests/support/ReferenceParams.h"
#include "tests/support/Tensor.h"
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <optional>

namespace attn::test {

struct ReferenceKernel::State {
  Spec spec;
  Fault fault = Fault::None;
  attn_kernel descriptor{};
  std::vector<attn_param_info> infos;
  int64_t itemsRun = 0;
  // Of the call that runs.
  std::string error;
  oracle::Params params;
  std::optional<oracle::Expression> mask, score, sink;
  float scale = 1;
  std::vector<int64_t> queries; ///< of the item; a fault leaves it by a jump

  void bind(const attn_call &call);
};

void ReferenceKernel::State::bind(const attn_call &call) {
  readParams(infos, call, fault, params);
  mask.reset();
  score.reset();
  sink.reset();
  constexpr auto inF32 = oracle::Precision::F32;
  if (spec.mask)
    mask.emplace(spec, params, spec.mask, inF32, error);
  if (spec.score)
    score.emplace(spec, params, spec.score, inF32, error);
  if (spec.sink && fault != Fault::LostSink)
    sink.emplace(spec, params, spec.sink, inF32, error);
  double factor = 1 / std::sqrt(static_cast<double>(spec.qkDim));
  if (fault != Fault::LostScale)
    error += oracle::scaleOf(spec, params, factor);
  scale = static_cast<float>(factor);
}

namespace {

constexpr int64_t kRows = 4;

ReferenceKernel::State *current = nullptr;

size_t bytesOf(Type type) { return type == Type::F32 ? 4 : 2; }

float read(const void *base, int64_t offset, Type type) {
  return static_cast<float>(oracle::readElement(base, offset, type));
}

void write(void *base, int64_t offset, Type type, float value) {
  const uint32_t bits = encode(value, type);
  const auto half = static_cast<uint16_t>(bits);
  const size_t bytes = bytesOf(type);
  std::memcpy(static_cast<std::byte *>(base) +
                  offset * static_cast<int64_t>(bytes),
              bytes == 4 ? static_cast<const void *>(&bits) : &half, bytes);
}

/// One row of the result: the state and the place.
struct Row {
  ReferenceKernel::State &state;
  const attn_call &call;
  int64_t b, h, i, g, qLen, kvLen;

  bool has(Fault fault) const { return state.fault == fault; }

  int64_t offset(const int64_t *stride, int64_t head, int64_t token,
                 int64_t column) const {
    return b * stride[0] + head * stride[1] + token * stride[2] +
           column * stride[3];
  }
  float query(int64_t c) const {
    return read(call.q, offset(call.q_stride, h, i, c), state.spec.qType);
  }
  float key(int64_t j, int64_t c) const {
    int64_t at = offset(call.k_stride, g, j, c);
    if (has(Fault::ShortOffsets))
      at = static_cast<int32_t>(at);
    return read(call.k, at, state.spec.kvType);
  }
  int64_t valueOffset(int64_t j, int64_t c) const {
    return has(Fault::UnitStride) ? offset(call.v_stride, g, j, 0) + c
                                  : offset(call.v_stride, g, j, c);
  }
  float value(int64_t j, int64_t c) const {
    return read(call.v, valueOffset(j, c), state.spec.kvType);
  }

  /// Where expressions are evaluated.
  oracle::Point pointOf(int64_t j) const {
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
    if (has(Fault::FromPositions)) // then nothing is left to subtract
      point.qLen = kvLen;
    return point;
  }

  bool allows(int64_t j) const {
    return !state.mask || state.mask->at(pointOf(j), state.error).truth();
  }

  /// How much more a key weighs than it should.
  float factor(int64_t j) const {
    if (!has(Fault::GlobalTwice) || !call.globals)
      return 1;
    const int32_t *list = call.globals + b * call.globals_stride;
    return std::count(list, list + call.global_counts[b], j) != 0 ? 2.0F : 1.0F;
  }

  float score(int64_t j) const {
    float dot = 0;
    for (int64_t c = 0; c < state.spec.qkDim; ++c)
      dot += query(c) * key(j, c);
    if (has(Fault::ReadPastEnd))
      for (int64_t c = state.spec.qkDim; c % 8 != 0; ++c)
        dot += 0 * key(j, c);
    if (has(Fault::ReadBeforeStart))
      dot += 0 * query(-1);
    if (!state.score)
      return dot * state.scale;
    oracle::Point point = pointOf(j);
    point.k = j;
    point.s = dot * state.scale;
    return static_cast<float>(state.score->at(point, state.error).asReal());
  }

  void run(float *scratch);
};

void Row::run(float *scratch) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  int64_t visited = has(Fault::IgnoreKvLens) ? call.kv_len : kvLen;
  float m = has(Fault::LowSentinel) ? -50000.0F : -infinity;
  float sink = -infinity;
  if (state.sink)
    sink = static_cast<float>(state.sink->at(pointOf(0), state.error).asReal());
  if (has(Fault::ScaledSink))
    sink *= state.scale;
  for (int64_t j = 0; j < visited; ++j) {
    bool allowed = allows(j);
    if (has(Fault::LeakMaskedKey))
      m = std::fmax(m, score(j) + (allowed ? 0 : -infinity));
    else if (allowed)
      m = std::fmax(m, score(j));
  }
  // Without weight: the sink is all there is.
  bool empty = m == -infinity && !has(Fault::EmptyRowsNan);
  m = std::fmax(m, sink);
  float z = has(Fault::DirtyScratch) ? scratch[0] : 0;
  if (state.sink && !empty)
    z += std::exp(sink - m);
  if (has(Fault::ParamPadding))
    z +=
        0 * static_cast<float>(paddingSum(state.infos, state.params, b, kvLen));
  const auto storeOut = [&](int64_t c, float result) {
    write(call.o, offset(call.o_stride, h, i, c), state.spec.outType, result);
  };
  const auto accumulate = [&](int64_t c) {
    float sum = 0;
    for (int64_t j = 0; j < visited; ++j) {
      if (allows(j)) {
        sum += factor(j) * std::exp(score(j) - m) * value(j, c);
      } else if (has(Fault::LeakMaskedValue)) {
        sum += 0 * value(j, c);
      } else if (has(Fault::LeakMaskedKey)) {
        float weight = std::exp(score(j) - infinity - m);
        sum += weight == 0 ? 0 : weight * value(j, c);
      }
    }
    return sum;
  };
  for (int64_t j = 0; j < visited; ++j)
    if (allows(j))
      z += factor(j) * std::exp(score(j) - m);
    else if (has(Fault::LeakMaskedScore))
      z += 0 * score(j);
  for (int64_t c = 0; c < state.spec.valueDim; ++c) {
    if (has(Fault::AlignedLoad) && kvLen != 0 &&
        (reinterpret_cast<uintptr_t>(call.v) +
         bytesOf(state.spec.kvType) *
             static_cast<uintptr_t>(valueOffset(0, c))) %
                32 !=
            0)
      raise(SIGSEGV);
    float result = empty ? 0 : accumulate(c) / z;
    if (has(Fault::ItemOrder))
      result *= 1 + 6e-8F * static_cast<float>(state.itemsRun % 3);
    if (has(Fault::BatchSize) && call.batch > 1)
      result = std::nextafter(result, infinity);
    storeOut(c, result);
  }
  if (has(Fault::WritePastEnd))
    storeOut(state.spec.valueDim, 0);
  if (call.lse)
    call.lse[b * call.lse_stride[0] + h * call.lse_stride[1] +
             i * call.lse_stride[2]] = empty ? sink
                                       : has(Fault::NarrowLse)
                                           ? m + std::log2(z)
                                           : m + std::log(z);
  if (has(Fault::WriteInput))
    write(const_cast<void *>(call.q), offset(call.q_stride, h, i, 0),
          state.spec.qType, query(0) * state.scale);
}

/// Sets the queries of an item: of consecutive rows, or of global positions.
void findQueries(ReferenceKernel::State &state, const attn_call &call,
                 int64_t b, int64_t block, int64_t first) {
  state.queries.clear();
  int64_t rows = (call.q_len + kRows - 1) / kRows;
  const int32_t *list = nullptr, *end = nullptr;
  if (call.globals) {
    list = call.globals + b * call.globals_stride;
    end = list + call.global_counts[b];
  }
  if (block < rows) {
    for (int64_t i = block * kRows; i < block * kRows + kRows; ++i)
      if (!std::binary_search(list, end, i + first))
        state.queries.push_back(i);
    return;
  }
  if (state.fault == Fault::LostGlobalRows && end != list)
    --end;
  for (int64_t n = (block - rows) * kRows; n < (block - rows + 1) * kRows; ++n)
    if (n < end - list)
      state.queries.push_back(list[n] - first);
}

void runItems(const attn_call *call, int64_t first, int64_t last,
              void *scratch) {
  ReferenceKernel::State &state = *current;
  if (first < last)
    state.bind(*call);
  int64_t blocks = (call->q_len + kRows - 1) / kRows +
                   (call->max_globals + kRows - 1) / kRows;
  for (int64_t item = first; item < last; ++item, ++state.itemsRun) {
    int64_t b = item / (blocks * state.spec.heads);
    int64_t h = item / blocks % state.spec.heads;
    int64_t qLen = call->q_lens ? call->q_lens[b] : call->q_len;
    int64_t kvLen = call->kv_lens ? call->kv_lens[b] : call->kv_len;
    int64_t g = state.fault == Fault::TiledHeads ? h % state.spec.kvHeads
                                                 : state.spec.kvHeadOf(h);
    int64_t start = state.spec.align == Align::BottomRight ? kvLen - qLen : 0;
    findQueries(state, *call, b, item % blocks, start);
    for (int64_t i : state.queries) {
      bool isRow = i >= 0 && i < qLen;
      bool isUnused = i >= qLen && i < call->q_len;
      if (isRow || (isUnused && state.fault == Fault::WriteUnusedRows))
        Row{state, *call, b, h, i, g, qLen, kvLen}.run(
            static_cast<float *>(scratch));
    }
  }
}

} // namespace

ReferenceKernel::ReferenceKernel(Spec spec, Fault fault)
    : state(std::make_unique<State>()) {
  state->spec = std::move(spec);
  state->fault = fault;
  const Spec &s = state->spec;
  state->infos = describeParams(s);
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
  d.n_params = static_cast<int32_t>(state->infos.size());
  d.params = state->infos.data();
  bool lists =
      std::any_of(s.params.begin(), s.params.end(),
                  [](const Param &p) { return p.type == Type::Tokens; });
  if (s.align == Align::TopLeft)
    d.flags |= ATTN_KERNEL_TOP_LEFT;
  if (lists)
    d.flags |= ATTN_KERNEL_GLOBALS;
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

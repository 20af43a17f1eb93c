//===- tests/oracle/Oracle.cpp - What an attention call must give ---------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/oracle/Oracle.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

namespace attn::oracle {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

float widenHalf(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  double mantissa = bits & 1023;
  double value = exponent == 31  ? (mantissa != 0 ? std::nan("") : kInfinity)
                 : exponent == 0 ? std::ldexp(mantissa, -24)
                                 : std::ldexp(mantissa + 1024, exponent - 25);
  return static_cast<float>((bits & 0x8000) != 0 ? -value : value);
}

float widenBrain(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

bool isReadable(Type type) {
  return type == Type::F32 || type == Type::F16 || type == Type::BF16;
}

int64_t lengthOf(const int64_t *lengths, int64_t b, int64_t all) {
  return lengths ? lengths[b] : all;
}

/// The expressions of a variant, bound to parameters, and the sizes of a call.
struct Bound {
  const Spec &spec;
  const attn_call &call;
  std::optional<Expression> mask, score, sink;
  std::string error;

  Bound(const Spec &spec, const attn_call &call, const Params &params)
      : spec(spec), call(call) {
    if (spec.mask)
      mask.emplace(spec, params, spec.mask, Precision::F32, error);
    if (spec.score)
      score.emplace(spec, params, spec.score, Precision::F64, error);
    if (spec.sink)
      sink.emplace(spec, params, spec.sink, Precision::F64, error);
    for (int64_t b = 0; error.empty() && b < call.batch; ++b) {
      if (int64_t n = qLen(b); n < 0 || n > call.q_len)
        error = "q_lens[" + std::to_string(b) + "] is outside 0..q_len";
      if (int64_t n = kvLen(b); n < 0 || n > call.kv_len)
        error = "kv_lens[" + std::to_string(b) + "] is outside 0..kv_len";
    }
  }

  int64_t qLen(int64_t b) const { return lengthOf(call.q_lens, b, call.q_len); }
  int64_t kvLen(int64_t b) const {
    return lengthOf(call.kv_lens, b, call.kv_len);
  }

  /// Rule 1.
  Point pointOf(int64_t b, int64_t h, int64_t i) const {
    Point point;
    point.b = b;
    point.h = h;
    point.g = spec.kvHeadOf(h);
    point.qLen = qLen(b);
    point.kvLen = kvLen(b);
    point.q =
        spec.align == Align::BottomRight ? i + point.kvLen - point.qLen : i;
    return point;
  }

  /// Rule 2. The key is within the sequence.
  bool allows(const Point &point) {
    return !mask || mask->at(point, error).truth();
  }
};

} // namespace

double readElement(const void *base, int64_t index, Type type) {
  if (type == Type::F32) {
    float value;
    std::memcpy(&value, static_cast<const float *>(base) + index, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, static_cast<const uint16_t *>(base) + index, sizeof bits);
  return type == Type::F16    ? widenHalf(bits)
         : type == Type::BF16 ? widenBrain(bits)
                              : std::nan("");
}

std::string scaleOf(const Spec &spec, const Params &params, double &scale) {
  std::string error;
  if (!spec.scale) {
    scale = 1 / std::sqrt(static_cast<double>(spec.qkDim));
    return error;
  }
  Expression expression(spec, params, spec.scale, Precision::F64, error);
  if (error.empty())
    scale = expression.at(Point(), error).asReal();
  return error;
}

std::string evaluate(const Spec &spec, const attn_call &call,
                     const Params &params, Output &output) {
  if (spec.rope)
    return "the evaluator does not cover 'rope'";
  if (spec.latent != 0)
    return "the evaluator does not cover 'latent'";
  if (!isReadable(spec.qType) || !isReadable(spec.kvType))
    return "the evaluator reads f32, f16 and bf16 only";
  double scale = 0;
  if (std::string error = scaleOf(spec, params, scale); !error.empty())
    return error;
  Bound bound(spec, call, params);
  if (!bound.error.empty())
    return bound.error;

  output.batch = call.batch;
  output.heads = spec.heads;
  output.qLen = call.q_len;
  output.valueDim = spec.valueDim;
  size_t rows = static_cast<size_t>(call.batch * spec.heads * call.q_len);
  output.o.assign(rows * static_cast<size_t>(spec.valueDim), 0);
  output.lse.assign(rows, -kInfinity);
  output.inside.assign(rows, 0);
  output.keys.assign(rows, 0);
  output.weightless.assign(rows, 0);

  std::vector<double> query(static_cast<size_t>(spec.qkDim));
  std::vector<double> scores(static_cast<size_t>(call.kv_len));
  std::vector<int64_t> keys;
  for (int64_t b = 0; b < call.batch; ++b)
    for (int64_t h = 0; h < spec.heads; ++h)
      for (int64_t i = 0; i < bound.qLen(b); ++i) {
        Point point = bound.pointOf(b, h, i);
        size_t row = output.row(b, h, i);
        output.inside[row] = 1;
        int64_t qRow =
            b * call.q_stride[0] + h * call.q_stride[1] + i * call.q_stride[2];
        // Rule 3, for the keys of A(i) only: nothing else is read.
        keys.clear();
        double m = -kInfinity;
        for (int64_t j = 0; j < point.kvLen; ++j) {
          point.k = j;
          if (!bound.allows(point))
            continue;
          if (keys.empty())
            for (int64_t c = 0; c < spec.qkDim; ++c)
              query[static_cast<size_t>(c)] =
                  readElement(call.q, qRow + c * call.q_stride[3], spec.qType);
          int64_t kRow = b * call.k_stride[0] + point.g * call.k_stride[1] +
                         j * call.k_stride[2];
          double dot = 0;
          for (int64_t c = 0; c < spec.qkDim; ++c)
            dot +=
                query[static_cast<size_t>(c)] *
                readElement(call.k, kRow + c * call.k_stride[3], spec.kvType);
          point.s = scale * dot;
          double s = bound.score ? bound.score->at(point, bound.error).asReal()
                                 : point.s;
          scores[keys.size()] = s;
          keys.push_back(j);
          m = std::fmax(m, s); // a NaN score makes the weights NaN below
        }
        // Rules 4 and 5.
        double sink = -kInfinity;
        if (bound.sink) {
          point.k = 0;
          point.s = 0;
          sink = bound.sink->at(point, bound.error).asReal();
        }
        if (!bound.error.empty())
          return bound.error;
        output.keys[row] = static_cast<int64_t>(keys.size());
        bool weightless = std::all_of(
            scores.begin(), scores.begin() + static_cast<int64_t>(keys.size()),
            [](double s) { return s == -kInfinity; });
        output.weightless[row] = weightless;
        if (weightless) {
          output.lse[row] = sink;
          continue;
        }
        m = std::fmax(m, sink);
        // (An infinite sink takes all: its share of itself is 1.)
        double z = !bound.sink ? 0 : sink == m ? 1 : std::exp(sink - m);
        double *o = output.o.data() + row * static_cast<size_t>(spec.valueDim);
        for (size_t n = 0; n < keys.size(); ++n) {
          double weight = std::exp(scores[n] - m);
          z += weight;
          int64_t vRow = b * call.v_stride[0] + point.g * call.v_stride[1] +
                         keys[n] * call.v_stride[2];
          for (int64_t c = 0; c < spec.valueDim; ++c)
            o[c] += weight * readElement(call.v, vRow + c * call.v_stride[3],
                                         spec.kvType);
        }
        for (int64_t c = 0; c < spec.valueDim; ++c)
          o[c] /= z;
        output.lse[row] = m + std::log(z);
      }
  return bound.error;
}

std::string allowedSets(const Spec &spec, const attn_call &call,
                        const Params &params, std::vector<uint8_t> &allowed) {
  Bound bound(spec, call, params);
  allowed.assign(
      static_cast<size_t>(call.batch * spec.heads * call.q_len * call.kv_len),
      0);
  for (int64_t b = 0; b < call.batch; ++b)
    for (int64_t h = 0; h < spec.heads && bound.error.empty(); ++h)
      for (int64_t i = 0; i < bound.qLen(b); ++i) {
        Point point = bound.pointOf(b, h, i);
        size_t row = static_cast<size_t>(
            ((b * spec.heads + h) * call.q_len + i) * call.kv_len);
        for (int64_t j = 0; j < point.kvLen; ++j) {
          point.k = j;
          allowed[row + static_cast<size_t>(j)] = bound.allows(point);
        }
      }
  return bound.error;
}

std::string parametersRead(
    const Spec &spec, const attn_call &call, const Params &params,
    const std::function<void(int64_t, int64_t, int64_t,
                             const std::vector<ParamElement> &)> &visit) {
  Bound bound(spec, call, params);
  std::vector<ParamElement> reads;
  for (int64_t b = 0; b < call.batch; ++b)
    for (int64_t h = 0; h < spec.heads && bound.error.empty(); ++h)
      for (int64_t i = 0; i < bound.qLen(b); ++i) {
        Point point = bound.pointOf(b, h, i);
        reads.clear();
        if (bound.sink)
          bound.sink->readsAt(point, reads);
        for (point.k = 0; point.k < point.kvLen; ++point.k) {
          if (bound.mask)
            bound.mask->readsAt(point, reads);
          if (bound.score && bound.allows(point))
            bound.score->readsAt(point, reads);
        }
        visit(b, h, i, reads);
      }
  return bound.error;
}

std::string allowedPairs(const Spec &spec, const attn_call &call,
                         const Params &params, int64_t b, int64_t h,
                         int64_t &pairs) {
  Bound bound(spec, call, params);
  pairs = 0;
  for (int64_t i = 0; bound.error.empty() && i < bound.qLen(b); ++i) {
    Point point = bound.pointOf(b, h, i);
    for (point.k = 0; point.k < point.kvLen; ++point.k)
      pairs += bound.allows(point);
  }
  return bound.error;
}

} // namespace attn::oracle

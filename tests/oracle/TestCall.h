//===- tests/oracle/TestCall.h - A small contiguous call ------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_ORACLE_TESTCALL_H
#define ATTNC_TESTS_ORACLE_TESTCALL_H

#include "tests/oracle/Oracle.h"
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace attn::oracle {

/// Evaluates a variant on contiguous f32 tensors given as functions of (batch,
/// head, token, column).
struct TestCall {
  using Fill = std::function<double(int64_t, int64_t, int64_t, int64_t)>;

  explicit TestCall(const std::string &text) {
    ParseResult parsed = parse(text);
    for (const Diagnostic &diagnostic : parsed.diagnostics)
      ADD_FAILURE() << render(diagnostic, "test.attn", text);
    if (parsed.specs.size() == 1)
      spec = parsed.specs[0];
  }

  Spec spec;
  int64_t batch = 1, qLen = 1, kvLen = 1;
  std::vector<int64_t> qLens, kvLens;
  Params params;
  Fill q = zero, k = zero, v = zero;
  std::string error; ///< of the last evaluation

  /// Tensors without contents, for what depends on positions only.
  attn_call shape() const {
    attn_call call{};
    call.batch = batch;
    call.q_len = qLen;
    call.kv_len = kvLen;
    call.q_lens = qLens.empty() ? nullptr : qLens.data();
    call.kv_lens = kvLens.empty() ? nullptr : kvLens.data();
    return call;
  }

  Output run() {
    attn_call call = shape();
    std::vector<float> qs =
        make(q, spec.heads, qLen, spec.qkDim, call.q_stride);
    std::vector<float> ks =
        make(k, spec.kvHeads, kvLen, spec.qkDim, call.k_stride);
    std::vector<float> vs =
        make(v, spec.kvHeads, kvLen, spec.valueDim, call.v_stride);
    call.q = qs.data();
    call.k = ks.data();
    call.v = vs.data();
    Output output;
    error = evaluate(spec, call, params, output);
    return output;
  }

  /// Column 0 of each row of one head.
  std::vector<double> column(int64_t b = 0, int64_t h = 0) {
    Output output = run();
    EXPECT_EQ(error, "");
    std::vector<double> all;
    for (int64_t i = 0; error.empty() && i < qLen; ++i)
      all.push_back(output.at(b, h, i, 0));
    return all;
  }

  /// The allowed keys of each row of one head, as strings of 0 and 1.
  std::vector<std::string> allowedRows(int64_t b = 0, int64_t h = 0) {
    std::vector<uint8_t> allowed;
    error = allowedSets(spec, shape(), params, allowed);
    std::vector<std::string> rows;
    for (int64_t i = 0; error.empty() && i < qLen; ++i) {
      std::string row;
      for (int64_t j = 0; j < kvLen; ++j)
        row += allowed[static_cast<size_t>(
                   ((b * spec.heads + h) * qLen + i) * kvLen + j)] != 0
                   ? '1'
                   : '0';
      rows.push_back(row);
    }
    return rows;
  }

  static double zero(int64_t, int64_t, int64_t, int64_t) { return 0; }

private:
  std::vector<float> make(const Fill &fill, int64_t heads, int64_t tokens,
                          int64_t width, int64_t *stride) const {
    stride[0] = heads * tokens * width;
    stride[1] = tokens * width;
    stride[2] = width;
    stride[3] = 1;
    std::vector<float> all;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t t = 0; t < tokens; ++t)
          for (int64_t c = 0; c < width; ++c)
            all.push_back(static_cast<float>(fill(b, h, t, c)));
    return all;
  }
};

/// Tokens j hold the value j, or 2^j.
inline double position(int64_t, int64_t, int64_t t, int64_t) {
  return static_cast<double>(t);
}
inline double powerOfTwo(int64_t, int64_t, int64_t t, int64_t) {
  return static_cast<double>(int64_t{1} << t);
}
inline double one(int64_t, int64_t, int64_t, int64_t) { return 1; }

/// A function of the token: one number each.
inline TestCall::Fill tokens(std::vector<double> values) {
  return [values](int64_t, int64_t, int64_t t, int64_t) {
    return values[static_cast<size_t>(t)];
  };
}

inline void expectNear(const std::vector<double> &got,
                       const std::vector<double> &want, double within = 1e-6) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t n = 0; n < got.size(); ++n)
    EXPECT_NEAR(got[n], want[n], within) << "at " << n;
}

} // namespace attn::oracle

#endif

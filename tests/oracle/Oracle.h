//===- tests/oracle/Oracle.h - What an attention call must give -----------===//
//
// Part of attnc. Apache-2.0.
//
// A double-precision evaluation of a variant, straight from the ten rules under
// "Meaning" in language.md. It depends on the Spec and on the layout of a call,
// and on nothing of the compiler.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_ORACLE_ORACLE_H
#define ATTNC_TESTS_ORACLE_ORACLE_H

#include "dsl/Spec.h"
#include "runtime/attn_abi.h"
#include "tests/oracle/Expression.h"
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace attn::oracle {

/// Row-major results. Rows at or past a sequence's own length lie outside the
/// logical shape: `inside` is 0 there and the values mean nothing.
struct Output {
  int64_t batch = 0, heads = 0, qLen = 0, valueDim = 0;
  std::vector<double> o;       ///< [batch, heads, qLen, valueDim]
  std::vector<double> lse;     ///< [batch, heads, qLen]
  std::vector<uint8_t> inside; ///< [batch, heads, qLen]
  std::vector<int64_t> keys;   ///< [batch, heads, qLen]: the size of A(i)
  /// [batch, heads, qLen]: 1 where no key has weight. A(i) is empty, or all of
  /// its scores are minus infinity, which is the same: O is exactly 0, and LSE
  /// the sink or minus infinity.
  std::vector<uint8_t> weightless;

  size_t row(int64_t b, int64_t h, int64_t i) const {
    return static_cast<size_t>((b * heads + h) * qLen + i);
  }
  double at(int64_t b, int64_t h, int64_t i, int64_t column) const {
    return o[row(b, h, i) * static_cast<size_t>(valueDim) +
             static_cast<size_t>(column)];
  }
};

/// Evaluates a call. Reads Q, K, V and the lengths of `call`, with element
/// types as in `spec` (f32, f16, bf16); never its O, LSE or params. Parameters
/// come in `params`, one a declared parameter. Returns an empty text, or what
/// could not be evaluated. Thread-safe.
[[nodiscard]] std::string evaluate(const Spec &spec, const attn_call &call,
                                   const Params &params, Output &output);

/// Which keys each row may attend to: `allowed[((b*heads + h)*q_len + i)*kv_len
/// + j]` is 1 where key j is in A(i). Rows and keys outside a sequence's own
/// lengths are 0. Reads only the lengths of `call`.
[[nodiscard]] std::string allowedSets(const Spec &spec, const attn_call &call,
                                      const Params &params,
                                      std::vector<uint8_t> &allowed);

/// Calls `visit` for each row with the elements of parameters it may depend on:
/// through the mask at any key, through the score at keys of A(i), through the
/// sink. Repeats are possible; scalars and lists of tokens are left out.
[[nodiscard]] std::string parametersRead(
    const Spec &spec, const attn_call &call, const Params &params,
    const std::function<void(int64_t b, int64_t h, int64_t i,
                             const std::vector<ParamElement> &reads)> &visit);

/// The number of (query, key) pairs of one batch entry and head with the mask
/// true.
[[nodiscard]] std::string allowedPairs(const Spec &spec, const attn_call &call,
                                       const Params &params, int64_t b,
                                       int64_t h, int64_t &pairs);

/// The factor of rule 3: the variant's `scale`, or 1/sqrt(qk width).
[[nodiscard]] std::string scaleOf(const Spec &spec, const Params &params,
                                  double &scale);

/// Element `index` of an array of f32, f16 or bf16; NaN for other types.
double readElement(const void *base, int64_t index, Type type);

} // namespace attn::oracle

#endif

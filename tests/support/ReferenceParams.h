//===- tests/support/ReferenceParams.h - A slow kernel's parameters -------===//
//
// Part of attnc. Apache-2.0.
//
// The parameters of a call as a kernel finds them, back in the form that
// expressions are evaluated with.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_REFERENCEPARAMS_H
#define ATTNC_TESTS_SUPPORT_REFERENCEPARAMS_H

#include "tests/oracle/Expression.h"
#include "tests/support/ReferenceKernel.h"
#include <vector>

namespace attn::test {

/// Reads every element of every parameter. A fault may leave it by a jump, so
/// that all memory is the caller's.
void readParams(const std::vector<attn_param_info> &infos,
                const attn_call &call, Fault fault, oracle::Params &params);

/// The sum of the floating-point elements for an entry of the batch past its
/// own number of keys.
double paddingSum(const std::vector<attn_param_info> &infos,
                  const oracle::Params &params, int64_t b, int64_t kvLen);

} // namespace attn::test

#endif

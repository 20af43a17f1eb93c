//===- targets/common/VectorMath.h - Functions on vectors ----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_COMMON_VECTORMATH_H
#define ATTNC_TARGETS_COMMON_VECTORMATH_H

#include "targets/common/Emitter.h"

namespace attn {

/// A function of the math dialect on a vector: exp2 at most 2 ulp off, the
/// others at most 4, where argument and result are normal numbers; sqrt and
/// floor exact. NaN for NaN; exp of large arguments is infinity, log of 0 is
/// -infinity, of less NaN.
Value emitFunction(Emitter &e, mlir::Operation &op, Value x);
/// exp(x) for x <= 0; NaN for NaN, 0 below -88; at most 3.3 ulp for
/// x >= -87 (over a grid of 6 million).
Value emitExpOfNegative(Emitter &e, Value x);
/// ln(x) for finite x >= 2^-126; at most 4 ulp. NaN for NaN.
Value emitLog(Emitter &e, Value x);

} // namespace attn

#endif

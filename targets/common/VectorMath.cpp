//===- targets/common/VectorMath.cpp - exp and log on vectors
//----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "targets/common/VectorMath.h"
#include <limits>

using namespace mlir;

namespace attn {

static Value bits(Emitter &e, Value x) {
  return arith::BitcastOp::create(e.b, e.vi, x);
}
static Value asFloat(Emitter &e, Value x) {
  return arith::BitcastOp::create(e.b, e.vf, x);
}
static Value ints(Emitter &e, int32_t value) {
  return arith::ConstantOp::create(
      e.b,
      DenseElementsAttr::get(e.vi, e.b.getI32IntegerAttr(value).getValue()));
}

Value emitExpOfNegative(Emitter &e, Value x) {
  // exp(x) = 2^n exp(r), n = round(x log2 e), r = x - n ln 2. Below -88 the
  // power comes out as zero; comparing this way round keeps a NaN.
  Value least = e.splat(-88.0f);
  Value below = arith::CmpFOp::create(e.b, arith::CmpFPredicate::OLT, x, least);
  x = arith::SelectOp::create(e.b, below, least, x);
  // Adding 1.5*2^23 + 127 leaves n + 127 in the low bits of the sum: shifted
  // into place, the exponent field of 2^n; all zeros, so 0, for n = -127.
  Value magic = e.splat(12582912.0f + 127.0f);
  Value sum = e.fma(x, e.splat(1.44269504f), magic);
  Value n = arith::SubFOp::create(e.b, sum, magic);
  // ln 2 in two parts. With fused operations the first product is exact
  // whatever its bits; without, it needs the trailing zeros of 0.693359375.
  const float high = e.target.fusedMultiplyAdd ? 0.693147182f : 0.693359375f;
  const double ln2 = 0.69314718055994530942;
  Value r = e.fma(n, e.splat(-high), x);
  const float low = static_cast<float>(double(high) - ln2);
  // Minimax for the relative error on |r| <= ln(2)/2, 1.1e-7, with the first
  // two coefficients fixed so that exp(0) is exactly 1. Estrin's order: the
  // chain of operations, not their number, is what limits this loop. The low
  // part of the reduction is at most 1e-4 (2.4e-7 with fused operations).
  Value square, first;
  if (e.target.fusedMultiplyAdd) {
    first = arith::AddFOp::create(e.b, e.fma(n, e.splat(low), e.splat(1)), r);
  } else {
    r = e.fma(n, e.splat(low), r);
    first = arith::AddFOp::create(e.b, r, e.splat(1));
  }
  square = arith::MulFOp::create(e.b, r, r);
  Value second = e.fma(r, e.splat(0.16667117f), e.splat(0.49999228f));
  Value third = e.fma(r, e.splat(0.008312474f), e.splat(0.041890584f));
  Value p = e.fma(square, e.fma(square, third, second), first);
  Value power =
      asFloat(e, arith::ShLIOp::create(e.b, bits(e, sum), ints(e, 23)));
  return arith::MulFOp::create(e.b, p, power);
}

Value emitLog(Emitter &e, Value x) {
  // The method of Cephes' logf (S. Moshier): x = 2^n m, sqrt(1/2) <= m <
  // sqrt(2), and a polynomial of degree 8 in m - 1.
  Value pattern = bits(e, x);
  // Biasing by sqrt(1/2) makes the exponent field carry the rounding.
  Value biased = arith::SubIOp::create(e.b, pattern, ints(e, 0x3f3504f3));
  Value n = arith::SIToFPOp::create(
      e.b, e.vf, arith::ShRSIOp::create(e.b, biased, ints(e, 23)));
  Value mantissa = arith::AddIOp::create(
      e.b, arith::AndIOp::create(e.b, biased, ints(e, 0x007fffff)),
      ints(e, 0x3f3504f3));
  Value f = arith::SubFOp::create(e.b, asFloat(e, mantissa), e.splat(1));
  Value square = arith::MulFOp::create(e.b, f, f);
  Value p = e.splat(7.0376836292e-2f);
  for (float coefficient :
       {-1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f,
        1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f,
        -2.4999993993e-1f, 3.3333331174e-1f})
    p = e.fma(p, f, e.splat(coefficient));
  p = arith::MulFOp::create(e.b, arith::MulFOp::create(e.b, p, f), square);
  p = e.fma(n, e.splat(-2.12194440e-4f), p);
  p = e.fma(square, e.splat(-0.5f), p);
  Value result =
      e.fma(n, e.splat(0.693359375f), arith::AddFOp::create(e.b, f, p));
  // The exponent of a NaN or an infinity is not one: hand it on.
  Value finite =
      arith::CmpFOp::create(e.b, arith::CmpFPredicate::OLT, x,
                            e.splat(std::numeric_limits<float>::infinity()));
  return arith::SelectOp::create(e.b, finite, result, x);
}

} // namespace attn

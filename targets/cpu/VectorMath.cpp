//===- targets/cpu/VectorMath.cpp - exp and log on vectors ----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "targets/cpu/KernelLowering.h"

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
      e.b, DenseElementsAttr::get(e.vi, e.b.getI32IntegerAttr(value).getValue()));
}

Value emitExpOfNegative(Emitter &e, Value x) {
  // exp(x) = 2^n exp(r), n = round(x log2 e), r = x - n ln 2. Adding 1.5*2^23
  // leaves n in the low bits of the sum.
  Value magic = e.splat(12582912.0f);
  Value sum = e.fma(x, e.splat(1.44269504f), magic);
  Value n = arith::SubFOp::create(e.b, sum, magic);
  // ln 2 in two parts. With fused operations the first product is exact
  // whatever its bits; without, it needs the trailing zeros of 0.693359375.
  const float high = e.target.fusedMultiplyAdd ? 0.693147182f : 0.693359375f;
  const double ln2 = 0.69314718055994530942;
  Value r = e.fma(n, e.splat(-high), x);
  r = e.fma(n, e.splat(static_cast<float>(double(high) - ln2)), r);
  // Minimax for the relative error on |r| <= ln(2)/2, 1.1e-7, with the first
  // two coefficients fixed so that exp(0) is exactly 1.
  Value p = e.splat(0.008312474f);
  for (float coefficient :
       {0.041890584f, 0.16667117f, 0.49999228f, 1.0f, 1.0f})
    p = e.fma(p, r, e.splat(coefficient));
  Value exponent = arith::ShLIOp::create(e.b, bits(e, sum), ints(e, 23));
  Value scaled =
      asFloat(e, arith::AddIOp::create(e.b, bits(e, p), exponent));
  // What would be subnormal is zero. "Not below" keeps a NaN.
  Value notBelow = arith::CmpFOp::create(e.b, arith::CmpFPredicate::UGE, x,
                                         e.splat(-87.0f));
  return arith::SelectOp::create(e.b, notBelow, scaled, e.splat(0));
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
  Value result = e.fma(n, e.splat(0.693359375f),
                       arith::AddFOp::create(e.b, f, p));
  // The exponent of a NaN or an infinity is not one: hand it on.
  Value finite = arith::CmpFOp::create(e.b, arith::CmpFPredicate::OLT, x,
                                       e.splat(3.4028235e38f));
  return arith::SelectOp::create(e.b, finite, result, x);
}

} // namespace attn

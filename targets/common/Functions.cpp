//===- targets/common/Functions.cpp - Functions of score expressions
//---------===//
//
// Part of attnc. Apache-2.0.
//
// Polynomials on vectors, no call. Their coefficients are minimax fits of the
// relative error, made for these intervals.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Math/IR/Math.h"
#include "targets/common/VectorMath.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>

using namespace mlir;

namespace attn {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Functions {
public:
  explicit Functions(Emitter &e) : e(e) {}

  Value exp(Value x) {
    x = clamp(x, -104.0f, 89.0f);
    Value magic = e.splat(12582912.0f); // rounds to an integer
    Value sum = e.fma(x, e.splat(1.44269504f), magic);
    Value n = sub(sum, magic);
    // ln 2 in two parts; the first product is exact with or without fusion.
    Value r = e.fma(n, e.splat(-0.693359375f), x);
    r = e.fma(n, e.splat(2.12194440e-4f), r);
    Value p = polynomial(
        r, {0.008312474f, 0.041890584f, 0.16667117f, 0.49999228f, 1.0f, 1.0f});
    return scaled(p, sum, magic);
  }

  Value exp2(Value x) {
    x = clamp(x, -150.0f, 129.0f);
    Value magic = e.splat(12582912.0f);
    Value sum = add(x, magic);
    Value r = sub(x, sub(sum, magic));
    Value p = polynomial(r, {0.0001535336923552677f, 0.001339887734502554f,
                             0.00961843691766262f, 0.055503323674201965f,
                             0.24022647738456726f, 0.6931471824645996f, 1.0f});
    return scaled(p, sum, magic);
  }

  Value log(Value x) {
    // Subnormal arguments are brought up by 2^23.
    Value small = compare(arith::CmpFPredicate::OLT, x, 1.17549435e-38f);
    Value up = select(small, mul(x, e.splat(8388608.0f)), x);
    Value result = emitLog(e, up);
    result = select(small, sub(result, e.splat(15.942385152878742f)), result);
    Value zero = compare(arith::CmpFPredicate::OEQ, x, 0);
    Value negative = compare(arith::CmpFPredicate::OLT, x, 0);
    result = select(zero, e.splat(-kInfinity), result);
    return select(negative, e.splat(std::numeric_limits<float>::quiet_NaN()),
                  result);
  }

  Value log2(Value x) { return mul(log(x), e.splat(1.44269504f)); }

  Value tanh(Value x) {
    // -m / (2 + m) with m = exp(y) - 1, y = -2|x|, which keeps its digits near
    // 0: exp(y) - 1 = 2^n (exp(r) - 1) + (2^n - 1). From 10 on it is 1.
    Value size = magnitude(x), sign = signBit(x);
    size =
        select(compare(arith::CmpFPredicate::OGT, size, 10), e.splat(10), size);
    Value y = mul(size, e.splat(-2)), magic = e.splat(12582912.0f);
    Value sum = e.fma(y, e.splat(1.44269504f), magic);
    Value n = sub(sum, magic);
    Value r = e.fma(n, e.splat(-0.693359375f), y);
    r = e.fma(n, e.splat(2.12194440e-4f), r);
    Value p = polynomial(r, {0.0013882267521694303f, 0.008367854170501232f,
                             0.04166724532842636f, 0.16666533052921295f,
                             0.4999999701976776f});
    Value q = e.fma(mul(r, r), p, r);
    Value exponent = arith::SubIOp::create(e.b, bits(sum), bits(magic));
    Value power = asFloat(arith::ShLIOp::create(
        e.b, arith::AddIOp::create(e.b, exponent, ints(127)), ints(23)));
    Value m = e.fma(power, q, sub(power, e.splat(1)));
    Value result = arith::DivFOp::create(e.b, m, add(m, e.splat(2)));
    // (Of the argument's sign, whichever m has.)
    return asFloat(arith::OrIOp::create(e.b, bits(magnitude(result)), sign));
  }

  Value floor(Value x) {
    // Beyond 2^23 every number is whole (and may not fit an integer).
    Value size = magnitude(x), sign = signBit(x);
    Value whole = arith::SIToFPOp::create(
        e.b, e.vf, arith::FPToSIOp::create(e.b, e.vi, x));
    Value above =
        arith::CmpFOp::create(e.b, arith::CmpFPredicate::OGT, whole, x);
    Value down = select(above, sub(whole, e.splat(1)), whole);
    // floor(-0) is -0.
    down = asFloat(arith::OrIOp::create(e.b, bits(down), sign));
    return select(compare(arith::CmpFPredicate::OLT, size, 8388608.0f), down,
                  x);
  }

private:
  Value add(Value x, Value y) { return arith::AddFOp::create(e.b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(e.b, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(e.b, x, y); }
  Value select(Value c, Value x, Value y) {
    return arith::SelectOp::create(e.b, c, x, y);
  }
  Value compare(arith::CmpFPredicate predicate, Value x, float y) {
    return arith::CmpFOp::create(e.b, predicate, x, e.splat(y));
  }
  Value bits(Value x) { return arith::BitcastOp::create(e.b, e.vi, x); }
  Value asFloat(Value x) { return arith::BitcastOp::create(e.b, e.vf, x); }
  Value ints(int32_t value) {
    return arith::ConstantOp::create(
        e.b,
        DenseElementsAttr::get(e.vi, e.b.getI32IntegerAttr(value).getValue()));
  }
  Value magnitude(Value x) {
    return asFloat(arith::AndIOp::create(e.b, bits(x), ints(0x7fffffff)));
  }
  Value signBit(Value x) {
    return arith::AndIOp::create(e.b, bits(x),
                                 ints(std::numeric_limits<int32_t>::min()));
  }
  /// Keeps a NaN.
  Value clamp(Value x, float low, float high) {
    x = select(compare(arith::CmpFPredicate::OLT, x, low), e.splat(low), x);
    return select(compare(arith::CmpFPredicate::OGT, x, high), e.splat(high),
                  x);
  }
  /// Horner's scheme, the highest coefficient first.
  Value polynomial(Value x, std::initializer_list<float> coefficients) {
    Value p;
    for (float c : coefficients)
      p = p ? e.fma(p, x, e.splat(c)) : e.splat(c);
    return p;
  }
  /// p * 2^n, n in the low bits of `sum`: in two steps, since 2^n alone may not
  /// be a number where the product is.
  Value scaled(Value p, Value sum, Value magic) {
    Value n = arith::SubIOp::create(e.b, bits(sum), bits(magic));
    Value half = arith::ShRSIOp::create(e.b, n, ints(1));
    auto power = [&](Value exponent) {
      return asFloat(arith::ShLIOp::create(
          e.b, arith::AddIOp::create(e.b, exponent, ints(127)), ints(23)));
    };
    return mul(mul(p, power(half)), power(arith::SubIOp::create(e.b, n, half)));
  }

  Emitter &e;
};

} // namespace

Value emitFunction(Emitter &e, Operation &op, Value x) {
  Functions functions(e);
  return llvm::TypeSwitch<Operation *, Value>(&op)
      .Case<math::ExpOp>([&](auto) { return functions.exp(x); })
      .Case<math::Exp2Op>([&](auto) { return functions.exp2(x); })
      .Case<math::LogOp>([&](auto) { return functions.log(x); })
      .Case<math::Log2Op>([&](auto) { return functions.log2(x); })
      .Case<math::TanhOp>([&](auto) { return functions.tanh(x); })
      .Case<math::FloorOp>([&](auto) { return functions.floor(x); })
      .Case<math::SqrtOp>(
          [&](auto) -> Value { return LLVM::SqrtOp::create(e.b, e.vf, x); });
}

} // namespace attn

//===- targets/common/Storage.cpp - Elements in memory and as values
//---------===//
//
// Part of attnc. Apache-2.0.
//
// Values are f32; memory may hold f16 or bf16. Where the CPU has no instruction
// for a conversion it is made of integer operations, never of a call: what
// code generators call for it differs in name and in how it passes 16 bits.
//
//===----------------------------------------------------------------------===//
#include "targets/common/Emitter.h"

using namespace mlir;

namespace attn {

/// `type`, or a vector of it with as many elements as `like`.
static Type shaped(Type type, Value like) {
  auto vector = dyn_cast<VectorType>(like.getType());
  return vector ? Type(VectorType::get(vector.getShape(), type)) : type;
}

namespace {

/// Integer operations on i32s or vectors of them, with constants.
class Bits {
public:
  Bits(ImplicitLocOpBuilder &b, Value like)
      : b(b), ints(shaped(b.getI32Type(), like)),
        floats(shaped(b.getF32Type(), like)) {}

  Value constant(uint32_t value) {
    Attribute each = b.getI32IntegerAttr(static_cast<int32_t>(value));
    if (auto vector = dyn_cast<VectorType>(ints))
      each = DenseElementsAttr::get(vector, each);
    return arith::ConstantOp::create(b, cast<TypedAttr>(each));
  }
  template <typename Op> Value with(Value x, uint32_t value) {
    return Op::create(b, x, constant(value));
  }
  Value isLess(Value x, uint32_t value) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, x,
                                 constant(value));
  }
  Value asInt(Value x) { return arith::BitcastOp::create(b, ints, x); }
  Value asFloat(Value x) { return arith::BitcastOp::create(b, floats, x); }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, condition, x, y);
  }
  Value merge(Value x, Value y) { return arith::OrIOp::create(b, x, y); }

private:
  ImplicitLocOpBuilder &b;
  Type ints, floats;
};

// Of an f32 with the exponent field of an f16: 127 - 15, in place.
constexpr uint32_t kBias = 112u << 23;
constexpr uint32_t kInfinity = 0x7f800000, kSign = 0x80000000;

} // namespace

Type Emitter::rawType(Type element) {
  return element.isF16() || element.isBF16() ? b.getIntegerType(16) : element;
}

Value Emitter::halfAsFloat(Value raw) {
  Bits i(b, raw);
  Value magnitude = i.with<arith::AndIOp>(raw, 0x7fff);
  Value sign = i.with<arith::ShLIOp>(
      arith::XOrIOp::create(b, raw, magnitude).getResult(), 16);
  Value normal =
      i.with<arith::AddIOp>(i.with<arith::ShLIOp>(magnitude, 13), kBias);
  // An exponent of zero stands for 2^-14 without an implied one: with the one
  // it is normal, and taking that away is exact however subnormals are treated.
  Value one = i.with<arith::AddIOp>(normal, 1u << 23);
  Value small = i.asInt(arith::SubFOp::create(
      b, i.asFloat(one), i.asFloat(i.constant(kBias + (1u << 23)))));
  Value special = i.with<arith::OrIOp>(normal, kInfinity);
  Value value =
      i.select(i.isLess(magnitude, 0x400), small,
               i.select(i.isLess(magnitude, 0x7c00), normal, special));
  return i.asFloat(i.merge(sign, value));
}

/// The bits of the nearest f16, in the low half.
Value Emitter::floatAsHalf(Value x) {
  Bits i(b, x);
  Value bits = i.asInt(x);
  Value magnitude = i.with<arith::AndIOp>(bits, ~kSign);
  Value sign = i.with<arith::ShRUIOp>(
      arith::XOrIOp::create(b, bits, magnitude).getResult(), 16);
  // Half of the last place, a little less where the last bit is even.
  Value odd = i.with<arith::AndIOp>(i.with<arith::ShRUIOp>(magnitude, 13), 1);
  Value normal = i.with<arith::ShRUIOp>(
      arith::AddIOp::create(b, i.with<arith::AddIOp>(magnitude, 0xfffu - kBias),
                            odd)
          .getResult(),
      13);
  // The last place of 0.5 is that of subnormals, 2^-24: adding rounds to it.
  constexpr uint32_t kHalf = 126u << 23;
  Value small = i.with<arith::SubIOp>(
      i.asInt(arith::AddFOp::create(b, i.asFloat(magnitude),
                                    i.asFloat(i.constant(kHalf)))),
      kHalf);
  Value special = i.select(i.isLess(magnitude, kInfinity + 1),
                           i.constant(0x7c00), i.constant(0x7e00));
  Value value = i.select(
      i.isLess(magnitude, kBias + (1u << 23)), small,
      i.select(i.isLess(magnitude, kBias + (31u << 23)), normal, special));
  return i.merge(sign, value);
}

Value Emitter::widened(Value raw, Type element) {
  Type floats = shaped(f32, raw);
  if (element.isF16() && target.convertsF16)
    return arith::ExtFOp::create(
        b, floats,
        arith::BitcastOp::create(b, shaped(element, raw), raw).getResult());
  Value bits = arith::ExtUIOp::create(b, shaped(i32, raw), raw);
  if (element.isF16())
    return halfAsFloat(bits);
  Bits i(b, bits);
  return i.asFloat(i.with<arith::ShLIOp>(bits, 16));
}

Value Emitter::narrowed(Value x, Type element) {
  Type shorts = shaped(rawType(element), x);
  if (element.isF16() && target.convertsF16)
    return arith::BitcastOp::create(
        b, shorts,
        arith::TruncFOp::create(b, shaped(element, x), x).getResult());
  if (element.isF16())
    return arith::TruncIOp::create(b, shorts, floatAsHalf(x));
  Bits i(b, x);
  Value bits = i.asInt(x);
  Value odd = i.with<arith::AndIOp>(i.with<arith::ShRUIOp>(bits, 16), 1);
  Value rounded =
      arith::AddIOp::create(b, i.with<arith::AddIOp>(bits, 0x7fff), odd);
  // A NaN may have all its ones where they are cut off.
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x, x);
  Value top = i.with<arith::ShRUIOp>(
      i.select(isNan, i.with<arith::OrIOp>(bits, 1u << 22), rounded), 16);
  return arith::TruncIOp::create(b, shorts, top);
}

Value Emitter::at(Value base, Value offset, Type element) {
  return LLVM::GEPOp::create(b, base.getType(), element ? element : f32, base,
                             ArrayRef<LLVM::GEPArg>{offset});
}

Value Emitter::at(Value base, int64_t offset, Type element) {
  return offset == 0
             ? base
             : LLVM::GEPOp::create(b, base.getType(), element ? element : f32,
                                   base,
                                   ArrayRef<LLVM::GEPArg>{int32_t(offset)});
}

Value Emitter::loadRaw(Value from, Type type, Aligned aligned) {
  const int64_t bytes =
      int64_t(getElementTypeOrSelf(type).getIntOrFloatBitWidth()) / 8;
  return LLVM::LoadOp::create(
      b, type, from, aligned == Aligned::Vector ? lanes * bytes : bytes);
}

void Emitter::storeRaw(Value value, Value to, Aligned aligned) {
  const int64_t bytes =
      int64_t(getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth()) /
      8;
  LLVM::StoreOp::create(b, value, to,
                        aligned == Aligned::Vector ? lanes * bytes : bytes);
}

Value Emitter::loadScalar(Value from, Type element) {
  if (!element || element == f32)
    return loadRaw(from, f32, Aligned::Element);
  return widened(loadRaw(from, rawType(element), Aligned::Element), element);
}

void Emitter::storeScalar(Value value, Value to, Type element) {
  const bool isNarrow = element && element != f32;
  storeRaw(isNarrow ? narrowed(value, element) : value, to, Aligned::Element);
}

Value Emitter::load(Value from, Aligned aligned, Type element) {
  if (!element || element == f32)
    return loadRaw(from, vf, aligned);
  return widened(
      loadRaw(from, VectorType::get({lanes}, rawType(element)), aligned),
      element);
}

void Emitter::store(Value value, Value to, Aligned aligned, Type element) {
  const bool isNarrow = element && element != f32;
  storeRaw(isNarrow ? narrowed(value, element) : value, to, aligned);
}

void Emitter::prefetch(Value from, int64_t columns, Type element) {
  const int64_t line = 64 * 8 / int64_t(element.getIntOrFloatBitWidth());
  for (int64_t column = 0; column < columns; column += line)
    LLVM::Prefetch::create(b, at(from, column, element), /*rw=*/0, /*hint=*/2,
                           /*cache=*/1);
}

void Emitter::copyRows(Value rows, Value columns, const Matrix &from,
                       const Matrix &to) {
  // Bits that stay as they are keep even the payload of a NaN.
  const bool same = from.element == to.element;
  Type one = rawType(from.element);
  auto move = [&](Value source, Value sink, Type raw) {
    if (same)
      storeRaw(loadRaw(source, raw, Aligned::Element), sink, Aligned::Element);
    else if (raw == one)
      storeScalar(loadScalar(source, from.element), sink, to.element);
    else
      store(load(source, Aligned::Element, from.element), sink,
            Aligned::Element, to.element);
  };
  // Whole vectors where both sides are dense, then one element at a time.
  Value dense = b.createOrFold<arith::AndIOp>(equal(from.columnStride, c(1)),
                                              equal(to.columnStride, c(1)));
  Value whole = select(dense, mul(div(columns, c(lanes)), lanes), c(0));
  loop(c(0), rows, 1, [&](Value row) {
    Value source = at(from.base, mul(row, from.rowStride), from.element);
    Value sink = at(to.base, mul(row, to.rowStride), to.element);
    loop(c(0), whole, lanes, [&](Value column) {
      move(at(source, column, from.element), at(sink, column, to.element),
           VectorType::get({lanes}, one));
    });
    loop(whole, columns, 1, [&](Value column) {
      move(at(source, mul(column, from.columnStride), from.element),
           at(sink, mul(column, to.columnStride), to.element), one);
    });
  });
}

} // namespace attn

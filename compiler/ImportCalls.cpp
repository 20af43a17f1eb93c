//===- compiler/ImportCalls.cpp - Functions and built-in masks -----------===//
//
// Part of attnc. Apache-2.0.
//
// The one place that gives the language's built-in masks their meaning in IR:
// from here on a mask is an expression over positions, whoever wrote it.
//
//===----------------------------------------------------------------------===//
#include "compiler/Importer.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/bit.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>

using namespace mlir;

namespace attn {

/// (k - q) % step == 0, in the form that the op's `dilation` stands for where
/// that is this condition.
Value Importer::congruent(const Expr &e, Value step) {
  Value q = variable("q"), k = variable("k");
  if (isDilation(e))
    return CongruentOp::create(b, k, q, step);
  return compare(arith::CmpIPredicate::eq,
                 fold<arith::RemSIOp>(fold<arith::SubIOp>(k, q), step),
                 constant(0));
}

/// l * d for d > 0, held to where positions can reach, so that it never leaves
/// 32 bits: no comparison of positions can tell the difference.
Value Importer::steps(Value l, Value d) {
  auto knownOf = [](Value v) -> std::optional<int64_t> {
    llvm::APInt value;
    if (matchPattern(v, m_ConstantInt(&value)))
      return value.getSExtValue();
    return std::nullopt;
  };
  const int64_t most = ATTN_MAX_TOKENS;
  auto ofL = knownOf(l), ofD = knownOf(d);
  if (ofL && ofD)
    return constant(std::clamp(*ofL * *ofD, -most, most));
  Value product = fold<arith::MulIOp>(l, d);
  if ((ofL && std::abs(*ofL) <= 1) || (ofD && *ofD == 1))
    return product;
  // Divided by the one that is known, if one is.
  Value other = ofL ? d : l;
  Value limit = ofL ? constant(most / std::abs(*ofL))
                    : fold<arith::DivSIOp>(constant(most), d);
  auto held = [&](arith::CmpIPredicate beyond, Value limit, int64_t end,
                  Value value) -> Value {
    return fold<arith::SelectOp>(compare(beyond, other, limit), constant(end),
                                 value);
  };
  product = held(arith::CmpIPredicate::sgt, limit,
                 ofL && *ofL < 0 ? -most : most, product);
  return ofL ? product
             : held(arith::CmpIPredicate::slt,
                    fold<arith::SubIOp>(constant(0), limit), -most, product);
}

Value Importer::member(const Expr &e, StringRef position) {
  const Param *list = spec.findParam(e.args[0]->name);
  return MemberOp::create(b, b.getI64IntegerAttr(list - spec.params.data()),
                          b.getStringAttr(list->name), variable("b"),
                          variable(position));
}

Value Importer::neighborhood(const Expr &e, ArrayRef<Value> args) {
  // Exactly n keys of the query's residue class modulo d, n/2 to the left,
  // shifted inwards at the ends; the whole class where it is shorter. In units
  // of d: the query is number i of its class, which has `length` keys.
  auto d = e.args.size() > 1 ? known(e.args[1]) : std::optional<int64_t>(1);
  if (!d && !isDivisor(e.args[1]))
    return failed(e, "dilation '" + print(e.args[1]) + "' is not lowered yet",
                  "an expression of constants, h and g is, and a parameter "
                  "that does not depend on q or k");
  const bool isDilated = !d || *d > 1;
  rely(args[0], ATTN_PARAM_POSITIVE);
  Value q = variable("q"), k = variable("k"), length = variable("kv_len");
  Value residue = constant(0), number = q, zero = constant(0),
        dilation = args.size() > 1 ? args[1] : constant(1);
  Value sameClass;
  if (isDilated) {
    rely(dilation, ATTN_PARAM_POSITIVE);
    // The remainder of a negative position is made positive.
    residue = fold<arith::RemSIOp>(
        fold<arith::AddIOp>(fold<arith::RemSIOp>(q, dilation), dilation),
        dilation);
    number = fold<arith::DivSIOp>(fold<arith::SubIOp>(q, residue), dilation);
    length = fold<arith::DivSIOp>(
        fold<arith::AddIOp>(fold<arith::SubIOp>(length, residue),
                            fold<arith::SubIOp>(dilation, constant(1))),
        dilation);
    sameClass = congruent(e, dilation);
  }
  Value half = fold<arith::DivSIOp>(args[0], constant(2));
  Value start = fold<arith::MaxSIOp>(
      fold<arith::MinSIOp>(fold<arith::SubIOp>(number, half),
                           fold<arith::SubIOp>(length, args[0])),
      zero);
  auto place = [&](Value i) -> Value {
    return isDilated
               ? fold<arith::AddIOp>(fold<arith::MulIOp>(i, dilation), residue)
               : i;
  };
  Value within =
      fold<arith::AndIOp>(compare(arith::CmpIPredicate::sge, k, place(start)),
                          compare(arith::CmpIPredicate::slt, k,
                                  place(fold<arith::AddIOp>(start, args[0]))));
  return sameClass ? fold<arith::AndIOp>(sameClass, within) : within;
}

/// The slope that the ALiBi paper (Press et al., 2022) publishes for a head: a
/// geometric series for a power of two of heads; else that of the next lower
/// power, then every other one of the next higher.
Value Importer::alibiSlope(Value head) {
  int64_t lower = llvm::bit_floor(uint64_t(spec.heads));
  SmallVector<Value> slopes;
  for (int64_t h = 0; h < spec.heads; ++h) {
    double exponent = h < lower ? 8.0 * (h + 1) / lower
                                : 8.0 * (2 * (h - lower) + 1) / (2 * lower);
    slopes.push_back(arith::ConstantOp::create(
        b, b.getF32FloatAttr(static_cast<float>(std::exp2(-exponent)))));
  }
  return choose(head, slopes);
}

Value Importer::floatFunction(StringRef name, ArrayRef<Value> args) {
  auto one = [&] { return arith::ConstantOp::create(b, b.getF32FloatAttr(1)); };
  auto unary = [&](auto tag) -> Value {
    return decltype(tag)::create(b, toFloat(args[0]));
  };
  if (name == "exp")
    return unary(math::ExpOp());
  if (name == "exp2")
    return unary(math::Exp2Op());
  if (name == "log")
    return unary(math::LogOp());
  if (name == "log2")
    return unary(math::Log2Op());
  if (name == "sqrt")
    return unary(math::SqrtOp());
  if (name == "tanh")
    return unary(math::TanhOp());
  if (name == "floor")
    return unary(math::FloorOp());
  if (name == "sigmoid") { // 1 / (1 + exp(-x))
    Value e = math::ExpOp::create(b, fold<arith::NegFOp>(toFloat(args[0])));
    return fold<arith::DivFOp>(one(), fold<arith::AddFOp>(one(), e));
  }
  if (name == "softcap") { // c * tanh(x / c)
    rely(args[1], ATTN_PARAM_POSITIVE);
    Value c = toFloat(args[1]);
    llvm::APFloat known(0.0f);
    Value x = toFloat(args[0]), inverse = fold<arith::DivFOp>(one(), c);
    // A product is cheaper than a quotient, where the inverse is a number.
    x = matchPattern(inverse, m_ConstantFloat(&known)) && known.isNormal()
            ? fold<arith::MulFOp>(x, inverse)
            : fold<arith::DivFOp>(x, c);
    Value t = math::TanhOp::create(b, x);
    return fold<arith::MulFOp>(c, t);
  }
  return {};
}

Value Importer::call(const Expr &e) {
  Value q = variable("q"), k = variable("k");
  if (e.name == "causal")
    return compare(arith::CmpIPredicate::sle, k, q);
  SmallVector<Value> args;
  if (e.name == "global") // k in t || q in t
    return fold<arith::OrIOp>(member(e, "k"), member(e, "q"));
  for (const ExprRef &arg : e.args) {
    args.push_back(expr(arg));
    if (!args.back())
      return {};
  }
  b.setLoc(toLocation(context, e.where));
  if (e.name == "sliding") // q - n < k
    return compare(arith::CmpIPredicate::slt, fold<arith::SubIOp>(q, args[0]),
                   k);
  if (e.name == "prefix") // k < n
    return compare(arith::CmpIPredicate::slt, k, args[0]);
  if (e.name == "window") {
    // (k - q) % d == 0 && -l*d <= k - q && k - q <= r*d
    Value left = args[0], right = args.size() > 1 ? args[1] : args[0];
    Value distance = fold<arith::SubIOp>(k, q);
    Value residue;
    if (args.size() > 2) {
      auto d = known(e.args[2]);
      if (!d && !isDivisor(e.args[2]))
        return failed(e,
                      "dilation '" + print(e.args[2]) + "' is not lowered yet",
                      "an expression of constants, h and g is, and a parameter "
                      "that does not depend on q or k");
      rely(args[2], ATTN_PARAM_POSITIVE);
      left = bounded(e, steps(left, args[2]));
      right = bounded(e, steps(right, args[2]));
      if (!left || !right)
        return {};
      if (!d || *d > 1)
        residue = congruent(e, args[2]);
    }
    Value lower = compare(arith::CmpIPredicate::sle,
                          fold<arith::SubIOp>(constant(0), left), distance);
    Value both = fold<arith::AndIOp>(
        lower, compare(arith::CmpIPredicate::sle, distance, right));
    return residue ? fold<arith::AndIOp>(both, residue) : both;
  }
  if (e.name == "neighborhood")
    return neighborhood(e, args);
  if (e.name == "alibi_slope")
    return alibiSlope(args[0]);
  if (Value value = floatFunction(e.name, args))
    return value;
  bool isFloat =
      llvm::any_of(args, [](Value v) { return v.getType().isF32(); });
  auto less = [&](Value x, Value y) -> Value {
    return isFloat ? fold<arith::CmpFOp>(arith::CmpFPredicate::OLT, x, y)
                   : compare(arith::CmpIPredicate::slt, x, y);
  };
  if (isFloat)
    for (Value &v : args)
      v = toFloat(v);
  if (e.name == "abs") {
    Value negative = isFloat ? fold<arith::NegFOp>(args[0])
                             : fold<arith::SubIOp>(constant(0), args[0]);
    return fold<arith::SelectOp>(less(args[0], negative), negative, args[0]);
  }
  if (!isFloat)
    return e.name == "min" ? fold<arith::MinSIOp>(args[0], args[1])
                           : fold<arith::MaxSIOp>(args[0], args[1]);
  Value first =
      e.name == "min" ? less(args[0], args[1]) : less(args[1], args[0]);
  return fold<arith::SelectOp>(first, args[0], args[1]);
}

} // namespace attn

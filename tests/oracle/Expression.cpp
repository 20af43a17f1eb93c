//===- tests/oracle/Expression.cpp - The expressions of the language ------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/oracle/Node.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace attn::oracle {

namespace {

int64_t floorDiv(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

/// Evaluates bound expressions at one point.
class Evaluator {
public:
  Evaluator(const Spec &spec, const Point &point, Precision precision,
            std::string &error, std::vector<ParamElement> *reads = nullptr)
      : spec(spec), point(point), precision(precision), error(error),
        reads(reads) {}

  Value eval(const Node &node) {
    switch (node.form) {
    case Form::Constant:
      return node.value.isFloat ? real(node.value.f) : node.value;
    case Form::Variable:
      return variable(node.variable);
    case Form::Unary: {
      Value a = eval(*node.args[0]);
      if (node.op == Op::Not)
        return Value::integer(!a.truth());
      return a.isFloat ? real(-a.f) : Value::integer(-a.i);
    }
    case Form::Binary:
      return binary(node);
    case Form::Select: {
      bool first = eval(*node.args[0]).truth();
      if (reads)
        eval(*node.args[first ? 2 : 1]);
      return eval(*node.args[first ? 1 : 2]);
    }
    case Form::Element:
      return element(node);
    case Form::Call:
      return call(node);
    }
    return fail("unknown form");
  }

private:
  Value fail(const std::string &text) {
    if (error.empty())
      error = text;
    return Value::integer(0);
  }

  Value real(double v) const {
    return Value::real(precision == Precision::F32 ? static_cast<float>(v) : v);
  }

  Value variable(Var var) const {
    switch (var) {
    case Var::S:
      return real(point.s);
    case Var::B:
      return Value::integer(point.b);
    case Var::H:
      return Value::integer(point.h);
    case Var::G:
      return Value::integer(point.g);
    case Var::Q:
      return Value::integer(point.q);
    case Var::K:
      return Value::integer(point.k);
    case Var::QLen:
      return Value::integer(point.qLen);
    case Var::KvLen:
      return Value::integer(point.kvLen);
    }
    return Value::integer(0);
  }

  Value binary(const Node &node) {
    Value a = eval(*node.args[0]);
    if (reads)
      eval(*node.args[1]);
    if (node.op == Op::Or)
      return Value::integer(a.truth() || eval(*node.args[1]).truth());
    if (node.op == Op::And)
      return Value::integer(a.truth() && eval(*node.args[1]).truth());
    Value b = eval(*node.args[1]);
    if (a.isFloat || b.isFloat)
      return onReals(node.op, real(a.asReal()).f, real(b.asReal()).f);
    return onIntegers(node.op, a.i, b.i);
  }

  Value onReals(Op op, double a, double b) {
    switch (op) {
    case Op::Eq:
      return Value::integer(a == b);
    case Op::Ne:
      return Value::integer(a != b);
    case Op::Lt:
      return Value::integer(a < b);
    case Op::Le:
      return Value::integer(a <= b);
    case Op::Gt:
      return Value::integer(a > b);
    case Op::Ge:
      return Value::integer(a >= b);
    case Op::Add:
      return real(a + b);
    case Op::Sub:
      return real(a - b);
    case Op::Mul:
      return real(a * b);
    case Op::Div:
      return real(a / b);
    case Op::Rem:
      return real(std::fmod(a, b));
    default:
      return fail("unknown operator");
    }
  }

  Value onIntegers(Op op, int64_t a, int64_t b) {
    switch (op) {
    case Op::Eq:
      return Value::integer(a == b);
    case Op::Ne:
      return Value::integer(a != b);
    case Op::Lt:
      return Value::integer(a < b);
    case Op::Le:
      return Value::integer(a <= b);
    case Op::Gt:
      return Value::integer(a > b);
    case Op::Ge:
      return Value::integer(a >= b);
    case Op::Add:
      return Value::integer(a + b);
    case Op::Sub:
      return Value::integer(a - b);
    case Op::Mul:
      return Value::integer(a * b);
    case Op::Div:
      return b == 0 ? fail("division by zero") : Value::integer(a / b);
    case Op::Rem:
      return b == 0 ? fail("remainder by zero") : Value::integer(a % b);
    default:
      return fail("unknown operator");
    }
  }

  /// How far a dimension reaches for this sequence; what comes after that is
  /// padding.
  int64_t ownExtent(Dim::Kind kind) const {
    switch (kind) {
    case Dim::Queries:
      return point.qLen;
    case Dim::Keys:
      return point.kvLen;
    case Dim::Tokens:
      return spec.align == Align::TopLeft ? std::max(point.qLen, point.kvLen)
                                          : point.kvLen;
    default:
      return std::numeric_limits<int64_t>::max();
    }
  }

  Value element(const Node &node) {
    int64_t offset = 0;
    for (size_t i = 0; i < node.args.size(); ++i) {
      int64_t index = eval(*node.args[i]).i;
      // Queries are named by their positions, like all else.
      if (node.declaration && node.declaration->dims[i].kind == Dim::Queries &&
          spec.align == Align::BottomRight)
        index -= point.kvLen - point.qLen;
      int64_t extent = node.shape[i];
      if (node.declaration)
        extent = std::min(extent, ownExtent(node.declaration->dims[i].kind));
      int64_t last = std::max<int64_t>(extent - 1, 0);
      offset = offset * node.shape[i] + std::clamp<int64_t>(index, 0, last);
    }
    auto at = static_cast<size_t>(offset);
    const std::vector<double> &from =
        node.param ? node.param->values : node.own;
    if (at >= from.size()) {
      bool none = std::count(node.shape.begin(), node.shape.end(), 0) != 0;
      bool isBool = node.declaration && node.declaration->type == Type::Bool;
      return none ? Value::integer(isBool ? 0 : 1)
                  : fail("too few values for '" + node.name + "'");
    }
    if (node.declaration) {
      if (reads)
        reads->push_back(
            {static_cast<size_t>(node.declaration - spec.params.data()), at});
      Value value = valueOf(*node.declaration, from[at]);
      return value.isFloat ? real(value.f) : value;
    }
    return node.integral ? Value::integer(static_cast<int64_t>(from[at]))
                         : real(from[at]);
  }

  Value call(const Node &node) {
    const auto arg = [&](size_t i) { return eval(*node.args[i]); };
    const auto x = [&] { return arg(0).asReal(); };
    switch (node.fn) {
    case Fn::Abs: {
      Value a = arg(0);
      return a.isFloat ? real(std::fabs(a.f)) : Value::integer(std::abs(a.i));
    }
    case Fn::Min:
    case Fn::Max: {
      Value a = arg(0), b = arg(1);
      bool least = node.fn == Fn::Min;
      if (!a.isFloat && !b.isFloat)
        return Value::integer(least ? std::min(a.i, b.i) : std::max(a.i, b.i));
      return real(least ? std::fmin(a.asReal(), b.asReal())
                        : std::fmax(a.asReal(), b.asReal()));
    }
    case Fn::Floor:
      return real(std::floor(x()));
    case Fn::Exp:
      return real(std::exp(x()));
    case Fn::Exp2:
      return real(std::exp2(x()));
    case Fn::Log:
      return real(std::log(x()));
    case Fn::Log2:
      return real(std::log2(x()));
    case Fn::Sqrt:
      return real(std::sqrt(x()));
    case Fn::Tanh:
      return real(std::tanh(x()));
    case Fn::Sigmoid:
      return real(1 / (1 + std::exp(-x())));
    case Fn::Causal:
      return Value::integer(point.k <= point.q);
    case Fn::Window: {
      int64_t l = arg(0).i, r = arg(1).i, d = arg(2).i;
      if (d == 0)
        return fail("a window's dilation is zero");
      int64_t distance = point.k - point.q;
      return Value::integer(distance % d == 0 && -l * d <= distance &&
                            distance <= r * d);
    }
    case Fn::Sliding:
      return Value::integer(point.q - arg(0).i < point.k);
    case Fn::Neighborhood:
      return neighborhood(arg(0).i, arg(1).i);
    case Fn::Global: {
      const ParamValue &tokens = *node.param;
      int64_t n = tokens.shape[1];
      int64_t list = tokens.shape[0] == 1 ? 0 : point.b;
      if (list >= tokens.shape[0])
        return fail("no list of tokens for this entry of the batch");
      for (int64_t i = 0; i < n; ++i) {
        double t = tokens.values[static_cast<size_t>(list * n + i)];
        if (t >= 0 && (t == static_cast<double>(point.k) ||
                       t == static_cast<double>(point.q)))
          return Value::integer(1);
      }
      return Value::integer(0);
    }
    case Fn::Prefix:
      return Value::integer(point.k < arg(0).i);
    case Fn::Softcap: {
      double v = x(), cap = arg(1).asReal();
      return real(cap * std::tanh(v / cap));
    }
    case Fn::AlibiSlope:
      return alibiSlope(arg(0).i);
    }
    return fail("unknown function");
  }

  /// The keys of the query's residue class, numbered from 0, are a line of
  /// `count` places; the neighbourhood is `n` of them around the query's own.
  Value neighborhood(int64_t n, int64_t d) {
    if (d <= 0 || n <= 0)
      return fail("a neighbourhood's size and dilation are positive");
    int64_t residue = point.q - floorDiv(point.q, d) * d;
    if (floorDiv(point.k - residue, d) * d + residue != point.k)
      return Value::integer(0);
    int64_t count =
        residue < point.kvLen ? floorDiv(point.kvLen - 1 - residue, d) + 1 : 0;
    int64_t place = floorDiv(point.q, d);
    int64_t first = place - n / 2;
    first = std::max<int64_t>(0, std::min(first, count - n));
    int64_t at = (point.k - residue) / d;
    return Value::integer(first <= at && at < first + n);
  }

  /// The slopes published with ALiBi: a geometric sequence from 2^(-8/n) for n
  /// heads where n is a power of two; else those of the next lower power, then
  /// every second one of the next higher power.
  Value alibiSlope(int64_t head) {
    int64_t power = 1;
    while (power * 2 <= spec.heads)
      power *= 2;
    double exponent =
        head < power
            ? -8.0 * static_cast<double>(head + 1) / static_cast<double>(power)
            : -8.0 * static_cast<double>(2 * (head - power) + 1) /
                  static_cast<double>(2 * power);
    return real(std::exp2(exponent));
  }

  const Spec &spec;
  const Point &point;
  Precision precision;
  std::string &error;
  std::vector<ParamElement> *reads; ///< if set, every operand is evaluated
};

} // namespace

Value evaluate(const Spec &spec, const Node &node, const Point &point,
               Precision precision, std::string &error,
               std::vector<ParamElement> *reads) {
  return Evaluator(spec, point, precision, error, reads).eval(node);
}

Expression::Expression(const Spec &spec, const Params &params,
                       const ExprRef &expr, Precision precision,
                       std::string &error)
    : precision(precision), spec(spec), root(bind(spec, params, expr, error)) {}

Expression::~Expression() = default;

Value Expression::at(const Point &point, std::string &error) const {
  return evaluate(spec, *root, point, precision, error);
}

void Expression::readsAt(const Point &point,
                         std::vector<ParamElement> &reads) const {
  // An operand that the value does not need may divide by zero.
  std::string ignored;
  evaluate(spec, *root, point, precision, ignored, &reads);
}

} // namespace attn::oracle

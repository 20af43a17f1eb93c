//===- dsl/Constant.cpp - Values known when compiling ---------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "dsl/Constant.h"
#include "dsl/Words.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

using namespace attn;
using namespace attn::internal;

std::string Constant::text() const {
  switch (kind) {
  case Unknown:
    return "?";
  case Bool:
    return integer ? "true" : "false";
  case Int:
    return fmt::format("{}", integer);
  case Float:
    return fmt::format("{}", real);
  }
  return "?";
}

Constant internal::convert(Constant value, Type type) {
  if (value.kind == Constant::Int && type == Type::F32)
    return Constant::ofFloat(double(value.integer));
  return value;
}

/// An i32, or a fault if the exact result is none.
static Constant toInt(int64_t exact, Fault &fault) {
  if (exact < std::numeric_limits<int32_t>::min() ||
      exact > std::numeric_limits<int32_t>::max()) {
    fault = Fault::Overflow;
    return {};
  }
  return Constant::ofInt(exact);
}

Constant internal::foldUnary(Op op, Constant a, Fault &fault) {
  if (!a)
    return {};
  if (op == Op::Not)
    return Constant::ofBool(!a.isTrue());
  if (a.kind == Constant::Float)
    return Constant::ofFloat(-a.real);
  return toInt(-a.integer, fault);
}

template <typename T> static Constant compare(Op op, T a, T b) {
  switch (op) {
  case Op::Eq:
    return Constant::ofBool(a == b);
  case Op::Ne:
    return Constant::ofBool(a != b);
  case Op::Lt:
    return Constant::ofBool(a < b);
  case Op::Le:
    return Constant::ofBool(a <= b);
  case Op::Gt:
    return Constant::ofBool(a > b);
  case Op::Ge:
    return Constant::ofBool(a >= b);
  default:
    return {};
  }
}

static Constant foldInts(Op op, int64_t a, int64_t b, Fault &fault) {
  switch (op) {
  case Op::Add:
    return toInt(a + b, fault);
  case Op::Sub:
    return toInt(a - b, fault);
  case Op::Mul:
    return toInt(a * b, fault); // two i32: fits in 64 bits
  case Op::Div:
  case Op::Rem:
    if (b == 0) {
      fault = Fault::DivisionByZero;
      return {};
    }
    // The remainder of INT_MIN by -1 is 0, but C leaves it undefined.
    if (!toInt(a / b, fault))
      return {};
    return Constant::ofInt(op == Op::Div ? a / b : a % b);
  default:
    return compare(op, a, b);
  }
}

static Constant foldFloats(Op op, double a, double b) {
  switch (op) {
  case Op::Add:
    return Constant::ofFloat(a + b);
  case Op::Sub:
    return Constant::ofFloat(a - b);
  case Op::Mul:
    return Constant::ofFloat(a * b);
  case Op::Div: {
    if (b != 0)
      return Constant::ofFloat(a / b);
    // As IEEE 754 has it, written out because C++ leaves it undefined.
    if (a == 0 || std::isnan(a))
      return Constant::ofFloat(std::numeric_limits<double>::quiet_NaN());
    double sign = std::signbit(a) == std::signbit(b) ? 1 : -1;
    return Constant::ofFloat(sign * std::numeric_limits<double>::infinity());
  }
  default:
    return compare(op, a, b);
  }
}

Constant internal::foldBinary(Op op, Constant a, Constant b, Fault &fault) {
  if (!a || !b)
    return {};
  if (op == Op::And)
    return Constant::ofBool(a.isTrue() && b.isTrue());
  if (op == Op::Or)
    return Constant::ofBool(a.isTrue() || b.isTrue());
  if (a.kind == Constant::Float || b.kind == Constant::Float)
    return foldFloats(op, a.number(), b.number());
  return foldInts(op, a.integer, b.integer, fault);
}

static Constant foldFloatCall(std::string_view name, double x, double y) {
  double result;
  if (name == "floor")
    result = std::floor(x);
  else if (name == "exp")
    result = std::exp(x);
  else if (name == "exp2")
    result = std::exp2(x);
  else if (name == "log")
    result = std::log(x);
  else if (name == "log2")
    result = std::log2(x);
  else if (name == "sqrt")
    result = std::sqrt(x);
  else if (name == "tanh")
    result = std::tanh(x);
  else if (name == "sigmoid")
    result = 1 / (1 + std::exp(-x));
  else if (name == "softcap")
    result = y * std::tanh(foldFloats(Op::Div, x, y).real);
  else
    return {};
  return Constant::ofFloat(result);
}

Constant internal::foldCall(std::string_view name,
                            const std::vector<Constant> &args, Fault &fault) {
  const Function *function = findFunction(name);
  if (!function || args.empty() ||
      !std::all_of(args.begin(), args.end(),
                   [](Constant c) { return bool(c); }))
    return {};
  Constant x = args[0];
  Constant y = args.size() > 1 ? args[1] : Constant();
  if (function->arguments == Arguments::Floats)
    return foldFloatCall(name, x.number(), y.number());
  if (function->arguments != Arguments::Numbers)
    return {};
  if (name == "abs") {
    if (x.kind == Constant::Float)
      return Constant::ofFloat(std::fabs(x.real));
    return toInt(std::abs(x.integer), fault);
  }
  bool takeX =
      name == "min" ? x.number() <= y.number() : x.number() >= y.number();
  Constant result = takeX || std::isnan(x.number()) ? x : y;
  bool isFloat = x.kind == Constant::Float || y.kind == Constant::Float;
  return convert(result, isFloat ? Type::F32 : Type::I32);
}

Constant internal::literal(const Expr &expr) {
  switch (expr.kind) {
  case ExprKind::Int:
    return Constant::ofInt(expr.intValue);
  case ExprKind::Float:
    return Constant::ofFloat(expr.floatValue);
  case ExprKind::Bool:
    return Constant::ofBool(expr.intValue != 0);
  default:
    return {};
  }
}

void LetValues::add(const Let &let) {
  Value value;
  uint64_t work = std::numeric_limits<uint64_t>::max();
  if (let.value->kind == ExprKind::List) {
    value.isList = true;
    value.elements.reserve(let.value->args.size());
    for (const ExprRef &element : let.value->args)
      value.elements.push_back(
          convert(evaluate(*element, *this, {}, work), let.value->type));
  } else {
    value.scalar = evaluate(*let.value, *this, {}, work);
  }
  values.emplace(let.name, std::move(value));
}

Constant LetValues::scalar(std::string_view name) const {
  auto found = values.find(std::string(name));
  return found == values.end() ? Constant() : found->second.scalar;
}

const std::vector<Constant> *LetValues::list(std::string_view name) const {
  auto found = values.find(std::string(name));
  return found == values.end() || !found->second.isList
             ? nullptr
             : &found->second.elements;
}

static Constant evaluateIndex(const Expr &expr, const LetValues &lets,
                              const HeadValues &heads, uint64_t &work) {
  const std::vector<Constant> *list = lets.list(expr.args[0]->name);
  if (!list || expr.args.size() != 2)
    return {};
  Constant index = evaluate(*expr.args[1], lets, heads, work);
  if (index.kind != Constant::Int || index.integer < 0 ||
      uint64_t(index.integer) >= list->size())
    return {};
  return (*list)[index.integer];
}

Constant internal::evaluate(const Expr &expr, const LetValues &lets,
                            const HeadValues &heads, uint64_t &work) {
  if (work == 0)
    return {};
  --work;
  auto arg = [&](size_t i) {
    return evaluate(*expr.args[i], lets, heads, work);
  };
  Fault fault = Fault::None;
  switch (expr.kind) {
  case ExprKind::Int:
  case ExprKind::Float:
  case ExprKind::Bool:
    return literal(expr);
  case ExprKind::Name:
    if (expr.name == "h")
      return heads.head;
    if (expr.name == "g")
      return heads.kvHead;
    return lets.scalar(expr.name);
  case ExprKind::List:
    return {};
  case ExprKind::Unary:
    return foldUnary(expr.op, arg(0), fault);
  case ExprKind::Binary: {
    Constant left = arg(0);
    // As C has it: the right side may have no value where it is not asked for.
    if ((expr.op == Op::And && left.isFalse()) ||
        (expr.op == Op::Or && left.isTrue()))
      return left;
    return foldBinary(expr.op, left, arg(1), fault);
  }
  case ExprKind::Select: {
    Constant condition = arg(0);
    if (!condition)
      return {};
    return convert(arg(condition.isTrue() ? 1 : 2), expr.type);
  }
  case ExprKind::Index:
    return evaluateIndex(expr, lets, heads, work);
  case ExprKind::Call: {
    std::vector<Constant> args;
    for (size_t i = 0; i < expr.args.size(); ++i)
      args.push_back(arg(i));
    return foldCall(expr.name, args, fault);
  }
  }
  return {};
}

std::optional<double> attn::evaluateConstant(const Spec &spec,
                                             const ExprRef &expr) {
  if (!expr)
    return std::nullopt;
  if (Constant value = literal(*expr))
    return value.number();
  // In order, so that a long chain of lets needs no deep recursion.
  LetValues lets;
  for (const Let &let : spec.lets)
    lets.add(let);
  uint64_t work = std::numeric_limits<uint64_t>::max();
  Constant value = evaluate(*expr, lets, {}, work);
  if (!value)
    return std::nullopt;
  return value.number();
}

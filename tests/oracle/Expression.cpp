//===- tests/oracle/Expression.cpp - The expressions of the language ------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/oracle/Expression.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace attn::oracle {

namespace {

enum class Var { S, B, H, G, Q, K, QLen, KvLen };

const std::map<std::string, Var> kVariables = {
    {"s", Var::S}, {"b", Var::B}, {"h", Var::H},        {"g", Var::G},
    {"q", Var::Q}, {"k", Var::K}, {"q_len", Var::QLen}, {"kv_len", Var::KvLen}};

enum class Fn {
  Abs,
  Min,
  Max,
  Floor,
  Exp,
  Exp2,
  Log,
  Log2,
  Sqrt,
  Tanh,
  Sigmoid,
  Causal,
  Window,
  Sliding,
  Neighborhood,
  Global,
  Prefix,
  Softcap,
  AlibiSlope,
};

struct FnInfo {
  Fn fn;
  size_t least, most; // numbers of arguments
};

const std::map<std::string, FnInfo> kFunctions = {
    {"abs", {Fn::Abs, 1, 1}},
    {"min", {Fn::Min, 2, 2}},
    {"max", {Fn::Max, 2, 2}},
    {"floor", {Fn::Floor, 1, 1}},
    {"exp", {Fn::Exp, 1, 1}},
    {"exp2", {Fn::Exp2, 1, 1}},
    {"log", {Fn::Log, 1, 1}},
    {"log2", {Fn::Log2, 1, 1}},
    {"sqrt", {Fn::Sqrt, 1, 1}},
    {"tanh", {Fn::Tanh, 1, 1}},
    {"sigmoid", {Fn::Sigmoid, 1, 1}},
    {"causal", {Fn::Causal, 0, 0}},
    {"window", {Fn::Window, 1, 3}},
    {"sliding", {Fn::Sliding, 1, 1}},
    {"neighborhood", {Fn::Neighborhood, 1, 2}},
    {"global", {Fn::Global, 1, 1}},
    {"prefix", {Fn::Prefix, 1, 1}},
    {"softcap", {Fn::Softcap, 2, 2}},
    {"alibi_slope", {Fn::AlibiSlope, 1, 1}},
};

/// An element of a parameter: any nonzero bool is true.
Value valueOf(const Param &param, double element) {
  if (param.type == Type::Bool)
    return Value::integer(element != 0);
  return param.type == Type::I32 ? Value::integer(static_cast<int64_t>(element))
                                 : Value::real(element);
}

enum class Form { Constant, Variable, Unary, Binary, Select, Element, Call };

int64_t floorDiv(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

} // namespace

struct Node {
  Form form = Form::Constant;
  Value value;             // Constant
  Var variable = Var::S;   // Variable
  Op op = Op::None;        // Unary, Binary
  Fn fn = Fn::Abs;         // Call
  std::string name;        // Element: for messages
  bool integral = false;   // Element: of integers
  std::vector<double> own; // Element of a list-valued let: its elements
  std::vector<int64_t> shape;
  const ParamValue *param = nullptr;  // Element of a parameter; Call: global
  const Param *declaration = nullptr; // of `param`
  std::vector<std::unique_ptr<Node>> args;
};

namespace {

/// Resolves names. Depth is bounded by that of Spec expressions.
class Binder {
public:
  Binder(const Spec &spec, const Params &params, std::string &error)
      : spec(spec), params(params), error(error) {}

  std::unique_ptr<Node> bind(const ExprRef &expr) {
    auto node = std::make_unique<Node>();
    if (!expr) {
      fail("missing expression");
      return node;
    }
    switch (expr->kind) {
    case ExprKind::Int:
    case ExprKind::Bool:
      node->value = Value::integer(expr->intValue);
      return node;
    case ExprKind::Float:
      node->value = Value::real(expr->floatValue);
      return node;
    case ExprKind::Name:
      return bindName(expr->name);
    case ExprKind::List:
      fail("a list stands where a value is wanted");
      return node;
    case ExprKind::Unary:
    case ExprKind::Binary:
    case ExprKind::Select:
      node->form = expr->kind == ExprKind::Unary    ? Form::Unary
                   : expr->kind == ExprKind::Binary ? Form::Binary
                                                    : Form::Select;
      node->op = expr->op;
      for (const ExprRef &arg : expr->args)
        node->args.push_back(bind(arg));
      return node;
    case ExprKind::Index:
      return bindIndex(*expr);
    case ExprKind::Call:
      return bindCall(*expr);
    }
    fail("unknown kind of expression");
    return node;
  }

private:
  void fail(const std::string &text) {
    if (error.empty())
      error = text;
  }

  const ParamValue *findParam(const std::string &name, const Param *&param) {
    for (size_t i = 0; i < spec.params.size(); ++i)
      if (spec.params[i].name == name) {
        param = &spec.params[i];
        if (i < params.size())
          return &params[i];
        fail("no value for the parameter '" + name + "'");
        return nullptr;
      }
    return nullptr;
  }

  std::unique_ptr<Node> bindName(const std::string &name) {
    auto node = std::make_unique<Node>();
    for (const Let &let : spec.lets)
      if (let.name == name) {
        // A let sees only earlier ones, so this ends.
        return bind(let.value);
      }
    const Param *param = nullptr;
    if (const ParamValue *value = findParam(name, param)) {
      if (value->values.size() != 1) {
        fail("the parameter '" + name + "' is not a scalar");
        return node;
      }
      node->value = valueOf(*param, value->values[0]);
      return node;
    }
    auto variable = kVariables.find(name);
    if (variable != kVariables.end()) {
      node->form = Form::Variable;
      node->variable = variable->second;
      return node;
    }
    // `causal` is written without brackets.
    if (name == "causal") {
      node->form = Form::Call;
      node->fn = Fn::Causal;
      return node;
    }
    fail("unknown name '" + name + "'");
    return node;
  }

  std::unique_ptr<Node> bindIndex(const Expr &expr) {
    auto node = std::make_unique<Node>();
    node->form = Form::Element;
    if (expr.args.size() < 2 || !expr.args[0] ||
        expr.args[0]->kind != ExprKind::Name) {
      fail("malformed index expression");
      return node;
    }
    node->name = expr.args[0]->name;
    for (size_t i = 1; i < expr.args.size(); ++i)
      node->args.push_back(bind(expr.args[i]));
    for (const Let &let : spec.lets)
      if (let.name == node->name) {
        if (!let.value || let.value->kind != ExprKind::List) {
          fail("the let '" + node->name + "' is not a list");
          return node;
        }
        node->integral = true;
        for (const ExprRef &element : let.value->args) {
          Value value = constant(element);
          node->integral &= !value.isFloat;
          node->own.push_back(value.asReal());
        }
        node->shape = {static_cast<int64_t>(node->own.size())};
        return node;
      }
    const Param *param = nullptr;
    node->param = findParam(node->name, param);
    if (!node->param) {
      fail("'" + node->name + "' is neither a list nor a parameter");
      return node;
    }
    node->declaration = param;
    node->shape = node->param->shape;
    if (node->shape.size() != node->args.size())
      fail("'" + node->name + "' takes " + std::to_string(node->shape.size()) +
           " indices");
    return node;
  }

  /// The value of an element of a list: literals and earlier lets.
  Value constant(const ExprRef &expr);

  std::unique_ptr<Node> bindCall(const Expr &expr) {
    auto node = std::make_unique<Node>();
    node->form = Form::Call;
    auto found = kFunctions.find(expr.name);
    if (found == kFunctions.end()) {
      fail("unknown function '" + expr.name + "'");
      return node;
    }
    const FnInfo &info = found->second;
    node->fn = info.fn;
    if (expr.args.size() < info.least || expr.args.size() > info.most) {
      fail("wrong number of arguments of '" + expr.name + "'");
      return node;
    }
    if (info.fn == Fn::Global) {
      const Param *param = nullptr;
      if (expr.args[0] && expr.args[0]->kind == ExprKind::Name)
        node->param = findParam(expr.args[0]->name, param);
      if (!node->param || param->type != Type::Tokens ||
          node->param->shape.size() != 2)
        fail("the argument of 'global' is not a list of tokens");
      return node;
    }
    for (const ExprRef &arg : expr.args)
      node->args.push_back(bind(arg));
    // Defaults, as the table of built-ins gives them.
    if (info.fn == Fn::Window && node->args.size() == 1)
      node->args.push_back(bind(expr.args[0]));
    if ((info.fn == Fn::Window && node->args.size() == 2) ||
        (info.fn == Fn::Neighborhood && node->args.size() == 1)) {
      auto one = std::make_unique<Node>();
      one->value = Value::integer(1);
      node->args.push_back(std::move(one));
    }
    return node;
  }

  const Spec &spec;
  const Params &params;
  std::string &error;
};

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

Value Binder::constant(const ExprRef &expr) {
  std::unique_ptr<Node> node = bind(expr);
  if (!error.empty())
    return Value::integer(0);
  Point origin;
  return Evaluator(spec, origin, Precision::F64, error).eval(*node);
}

} // namespace

Expression::Expression(const Spec &spec, const Params &params,
                       const ExprRef &expr, Precision precision,
                       std::string &error)
    : precision(precision), spec(spec),
      root(Binder(spec, params, error).bind(expr)) {}

Expression::~Expression() = default;

Value Expression::at(const Point &point, std::string &error) const {
  return Evaluator(spec, point, precision, error).eval(*root);
}

void Expression::readsAt(const Point &point,
                         std::vector<ParamElement> &reads) const {
  // An operand that the value does not need may divide by zero.
  std::string ignored;
  Evaluator(spec, point, precision, ignored, &reads).eval(*root);
}

} // namespace attn::oracle

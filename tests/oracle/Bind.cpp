//===- tests/oracle/Bind.cpp - Names in expressions, resolved -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/oracle/Node.h"
#include <map>

namespace attn::oracle {

namespace {

const std::map<std::string, Var> kVariables = {
    {"s", Var::S}, {"b", Var::B}, {"h", Var::H},        {"g", Var::G},
    {"q", Var::Q}, {"k", Var::K}, {"q_len", Var::QLen}, {"kv_len", Var::KvLen}};

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
  Value constant(const ExprRef &expr) {
    std::unique_ptr<Node> node = bind(expr);
    if (!error.empty())
      return Value::integer(0);
    return evaluate(spec, *node, Point(), Precision::F64, error);
  }

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

} // namespace

Value valueOf(const Param &param, double element) {
  if (param.type == Type::Bool)
    return Value::integer(element != 0);
  return param.type == Type::I32 ? Value::integer(static_cast<int64_t>(element))
                                 : Value::real(element);
}

std::unique_ptr<Node> bind(const Spec &spec, const Params &params,
                           const ExprRef &expr, std::string &error) {
  return Binder(spec, params, error).bind(expr);
}

} // namespace attn::oracle

//===- dsl/Print.cpp - The canonical text ---------------------------------===//
//
// Part of attnc. Apache-2.0.
//
// Parentheses only where the tree needs them, defaults left out, floats in the
// shortest form that reads back as the same float.
//
//===----------------------------------------------------------------------===//
#include "dsl/Spec.h"
#include "dsl/Words.h"

#include <fmt/format.h>

using namespace attn;
using namespace attn::internal;

namespace {

/// C's precedence: what binds tighter is larger.
enum Precedence : unsigned {
  Lowest,
  SelectPrecedence,
  OrPrecedence,
  AndPrecedence,
  EqualityPrecedence,
  RelationPrecedence,
  SumPrecedence,
  ProductPrecedence,
  UnaryPrecedence,
  Primary,
};

struct OpText {
  std::string_view text;
  Precedence precedence;
};

OpText textOf(Op op) {
  switch (op) {
  case Op::None:
    break;
  case Op::Neg:
    return {"-", UnaryPrecedence};
  case Op::Not:
    return {"!", UnaryPrecedence};
  case Op::Or:
    return {"||", OrPrecedence};
  case Op::And:
    return {"&&", AndPrecedence};
  case Op::Eq:
    return {"==", EqualityPrecedence};
  case Op::Ne:
    return {"!=", EqualityPrecedence};
  case Op::Lt:
    return {"<", RelationPrecedence};
  case Op::Le:
    return {"<=", RelationPrecedence};
  case Op::Gt:
    return {">", RelationPrecedence};
  case Op::Ge:
    return {">=", RelationPrecedence};
  case Op::Add:
    return {"+", SumPrecedence};
  case Op::Sub:
    return {"-", SumPrecedence};
  case Op::Mul:
    return {"*", ProductPrecedence};
  case Op::Div:
    return {"/", ProductPrecedence};
  case Op::Rem:
    return {"%", ProductPrecedence};
  }
  return {"?", Primary};
}

Precedence precedenceOf(const Expr &expr) {
  switch (expr.kind) {
  case ExprKind::Select:
    return SelectPrecedence;
  case ExprKind::Unary:
  case ExprKind::Binary:
    return textOf(expr.op).precedence;
  default:
    return Primary;
  }
}

void printFloat(std::string &out, double value) {
  const std::string digits = fmt::format("{}", value); // the shortest
  out += digits;
  if (digits.find_first_not_of("-0123456789") == digits.npos)
    out += ".0"; // or it would read back as an integer
}

void printExpr(std::string &out, const Expr &expr, Precedence least);

void printList(std::string &out, const std::vector<ExprRef> &args,
               size_t first) {
  for (size_t i = first; i < args.size(); ++i) {
    if (i != first)
      out += ", ";
    printExpr(out, *args[i], Lowest);
  }
}

/// Prints with parentheses if it binds less tightly than `least`.
void printExpr(std::string &out, const Expr &expr, Precedence least) {
  const Precedence own = precedenceOf(expr);
  const bool parentheses = own < least;
  if (parentheses)
    out += '(';
  switch (expr.kind) {
  case ExprKind::Int:
    out += fmt::format("{}", expr.intValue);
    break;
  case ExprKind::Float:
    printFloat(out, expr.floatValue);
    break;
  case ExprKind::Bool:
    out += expr.intValue ? "true" : "false";
    break;
  case ExprKind::Name:
    out += expr.name;
    break;
  case ExprKind::List:
    out += '[';
    printList(out, expr.args, 0);
    out += ']';
    break;
  case ExprKind::Unary:
    out += textOf(expr.op).text;
    printExpr(out, *expr.args[0], own);
    break;
  case ExprKind::Binary:
    printExpr(out, *expr.args[0], own);
    out += fmt::format(" {} ", textOf(expr.op).text);
    printExpr(out, *expr.args[1], Precedence(own + 1));
    break;
  case ExprKind::Select:
    printExpr(out, *expr.args[0], Precedence(own + 1));
    out += " ? ";
    printExpr(out, *expr.args[1], Lowest);
    out += " : ";
    printExpr(out, *expr.args[2], own);
    break;
  case ExprKind::Index:
    out += expr.args[0]->name;
    out += '[';
    printList(out, expr.args, 1);
    out += ']';
    break;
  case ExprKind::Call: {
    out += expr.name;
    const Function *function = findFunction(expr.name);
    if (function && function->maxArgs == 0)
      break;
    out += '(';
    printList(out, expr.args, 0);
    out += ')';
    break;
  }
  }
  if (parentheses)
    out += ')';
}

void printParam(std::string &out, const Param &param) {
  out += fmt::format("{}: {}", param.name, name(param.type));
  for (size_t i = 0; i < param.dims.size(); ++i) {
    const Dim &dim = param.dims[i];
    out += i ? ", " : "[";
    if (dim.kind == Dim::Constant)
      out += fmt::format("{}", dim.constant);
    else
      out += extentName(dim.kind);
  }
  if (!param.dims.empty())
    out += ']';
}

void printRope(std::string &out, const Rope &rope) {
  static constexpr std::string_view kScalings[] = {"none", "linear", "llama3",
                                                   "yarn"};
  out += "  rope = { theta = ";
  printFloat(out, rope.theta);
  if (rope.dim)
    out += fmt::format(", dim = {}", rope.dim);
  out += fmt::format(", layout = {}",
                     rope.layout == Rope::Half ? "half" : "interleaved");
  if (rope.scaling != Rope::None) {
    out += fmt::format(", scaling = {}(", kScalings[rope.scaling]);
    for (size_t i = 0; i < rope.scalingArgs.size(); ++i) {
      out += i ? ", " : "";
      printFloat(out, rope.scalingArgs[i]);
    }
    out += ')';
  }
  out += " }\n";
}

void printField(std::string &out, std::string_view name, const ExprRef &value) {
  if (!value)
    return;
  out += fmt::format("  {} = ", name);
  printExpr(out, *value, Lowest);
  out += '\n';
}

} // namespace

std::string attn::print(const ExprRef &expr) {
  std::string out;
  if (expr)
    printExpr(out, *expr, Lowest);
  return out;
}

std::string attn::print(const Spec &spec) {
  std::string out = "attention " + spec.name;
  for (size_t i = 0; i < spec.params.size(); ++i) {
    out += i ? ", " : "(";
    printParam(out, spec.params[i]);
  }
  out += spec.params.empty() ? " {\n" : ") {\n";
  for (const Let &let : spec.lets)
    out += fmt::format("  let {} = {}\n", let.name, print(let.value));
  out += fmt::format("  heads = {}\n", spec.heads);
  out += fmt::format("  kv_heads = {}\n", spec.kvHeads);
  if (!spec.kvMap.empty()) {
    out += "  kv_map = [";
    for (size_t i = 0; i < spec.kvMap.size(); ++i)
      out += fmt::format("{}{}", i ? ", " : "", spec.kvMap[i]);
    out += "]\n";
  }
  if (spec.latent)
    out += fmt::format("  head_dim = {{ nope = {}, rope = {}, value = {} }}\n"
                       "  latent = {}\n",
                       spec.nopeDim, spec.ropeDim, spec.valueDim, spec.latent);
  else if (spec.qkDim == spec.valueDim)
    out += fmt::format("  head_dim = {}\n", spec.qkDim);
  else
    out += fmt::format("  head_dim = {{ qk = {}, value = {} }}\n", spec.qkDim,
                       spec.valueDim);
  if (spec.kvType == spec.qType && spec.outType == spec.qType)
    out += fmt::format("  type = {}\n", name(spec.qType));
  else
    out += fmt::format("  type = {{ q = {}, kv = {}, out = {} }}\n",
                       name(spec.qType), name(spec.kvType), name(spec.outType));
  if (spec.rope)
    printRope(out, *spec.rope);
  printField(out, "scale", spec.scale);
  printField(out, "score", spec.score);
  printField(out, "mask", spec.mask);
  printField(out, "sink", spec.sink);
  if (spec.align == Align::TopLeft)
    out += "  align = top_left\n";
  out += "}\n";
  return out;
}

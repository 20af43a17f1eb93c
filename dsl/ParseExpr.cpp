//===- dsl/ParseExpr.cpp - Reading expressions ----------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "dsl/Parser.h"
#include "dsl/Words.h"

#include <algorithm>
#include <fmt/format.h>

using namespace attn;
using namespace attn::internal;

/// How deep parentheses, operands on the right and arguments may nest while
/// reading. A tree of `kMaxExprDepth` needs at most two for each of its levels:
/// a position that is not the leftmost, and parentheses around it.
static constexpr unsigned kMaxNesting = 2 * kMaxExprDepth;

static std::string depthHint() {
  return fmt::format("expressions are at most {} levels deep", kMaxExprDepth);
}

namespace {
struct BinaryOp {
  Op op = Op::None;
  unsigned precedence = 0;
};
} // namespace

static BinaryOp binaryOp(Tok kind) {
  switch (kind) {
  case Tok::OrOr:
    return {Op::Or, 1};
  case Tok::AndAnd:
    return {Op::And, 2};
  case Tok::EqEq:
    return {Op::Eq, 3};
  case Tok::NotEq:
    return {Op::Ne, 3};
  case Tok::Less:
    return {Op::Lt, 4};
  case Tok::LessEq:
    return {Op::Le, 4};
  case Tok::Greater:
    return {Op::Gt, 4};
  case Tok::GreaterEq:
    return {Op::Ge, 4};
  case Tok::Plus:
    return {Op::Add, 5};
  case Tok::Minus:
    return {Op::Sub, 5};
  case Tok::Star:
    return {Op::Mul, 6};
  case Tok::Slash:
    return {Op::Div, 6};
  case Tok::Percent:
    return {Op::Rem, 6};
  default:
    return {};
  }
}

SourceRange internal::join(SourceRange a, SourceRange b) {
  if (a.line == b.line && b.column >= a.column)
    a.length = b.column + b.length - a.column;
  return a;
}

Parser::Node Parser::leaf(ExprKind kind, const Token &token) {
  auto expr = std::make_shared<Expr>();
  expr->kind = kind;
  expr->where = token.where;
  switch (kind) {
  case ExprKind::Int:
    expr->type = Type::I32;
    expr->intValue = token.intValue;
    break;
  case ExprKind::Float:
    expr->type = Type::F32;
    expr->floatValue = token.floatValue;
    break;
  case ExprKind::Bool:
    expr->type = Type::Bool;
    expr->intValue = token.text == "true";
    break;
  default:
    expr->name = token.text;
    break;
  }
  return {std::move(expr), 1, token.where};
}

Parser::Node Parser::make(ExprKind kind, Op op, SourceRange where,
                          std::vector<Node> args, std::string name) {
  auto expr = std::make_shared<Expr>();
  expr->kind = kind;
  expr->op = op;
  expr->where = where;
  expr->name = std::move(name);
  expr->args.reserve(args.size());
  unsigned depth = 0;
  for (Node &arg : args) {
    depth = std::max(depth, arg.depth);
    expr->args.push_back(std::move(arg.expr));
  }
  if (depth + 1 > kMaxExprDepth) {
    errors.add(where, "this expression is too deep", depthHint());
    return {};
  }
  return {std::move(expr), depth + 1, where};
}

bool Parser::enter() {
  if (nesting >= kMaxNesting) {
    errors.add(peek().where, "this is nested too deeply", depthHint());
    return false;
  }
  ++nesting;
  return true;
}

/// An expression one level further in.
Parser::Node Parser::parseNested() {
  if (!enter())
    return {};
  Node node = parseExpr();
  --nesting;
  return node;
}

Parser::Node Parser::parseExpr() {
  Node condition = parseBinary(1);
  if (!condition || !accept(Tok::Question))
    return condition;
  Node then = parseNested();
  if (!then || !expect(Tok::Colon, "':' of '?:'"))
    return {};
  Node otherwise = parseNested();
  if (!otherwise)
    return {};
  SourceRange where = join(condition.where, otherwise.where);
  return make(ExprKind::Select, Op::None, where,
              {std::move(condition), std::move(then), std::move(otherwise)});
}

Parser::Node Parser::parseBinary(unsigned minPrecedence) {
  Node left = parseUnary();
  while (left) {
    BinaryOp next = binaryOp(peek().kind);
    if (next.op == Op::None || next.precedence < minPrecedence)
      break;
    take();
    if (!enter())
      return {};
    Node right = parseBinary(next.precedence + 1);
    --nesting;
    if (!right)
      return {};
    SourceRange where = join(left.where, right.where);
    left = make(ExprKind::Binary, next.op, where,
                {std::move(left), std::move(right)});
  }
  return left;
}

Parser::Node Parser::parseUnary() {
  const Token &token = peek();
  if (!token.is(Tok::Minus) && !token.is(Tok::Bang))
    return parsePrimary();
  take();
  if (!enter())
    return {};
  Node operand = parseUnary();
  --nesting;
  if (!operand)
    return {};
  SourceRange where = join(token.where, operand.where);
  return make(ExprKind::Unary, token.is(Tok::Minus) ? Op::Neg : Op::Not, where,
              {std::move(operand)});
}

/// The rest of `(a, b)` or `[a, b]` after the opening bracket.
bool Parser::parseList(Tok close, const char *closeText,
                       std::vector<Node> &nodes) {
  while (!peek().is(close)) {
    Node node = parseNested();
    if (!node)
      return false;
    nodes.push_back(std::move(node));
    if (!accept(Tok::Comma))
      break;
  }
  return expect(close, fmt::format("',' or {}", closeText));
}

Parser::Node Parser::parseName() {
  const Token &name = take();
  Node node = leaf(ExprKind::Name, name);
  bool isCall = peek().is(Tok::LParen);
  if (!isCall && !peek().is(Tok::LBracket))
    return node;
  take();
  std::vector<Node> args;
  if (!isCall)
    args.push_back(std::move(node));
  if (!parseList(isCall ? Tok::RParen : Tok::RBracket, isCall ? "')'" : "']'",
                 args))
    return {};
  SourceRange where = join(name.where, tokens[pos - 1].where);
  return make(isCall ? ExprKind::Call : ExprKind::Index, Op::None, where,
              std::move(args), isCall ? std::string(name.text) : "");
}

Parser::Node Parser::parsePrimary() {
  const Token &token = peek();
  Node node;
  switch (token.kind) {
  case Tok::Int:
    node = leaf(ExprKind::Int, take());
    break;
  case Tok::Float:
    node = leaf(ExprKind::Float, take());
    break;
  case Tok::Name:
    if (startsField() || startsAttention(tokens, pos)) {
      unexpected("a value");
      return {};
    }
    if (token.text == "true" || token.text == "false")
      node = leaf(ExprKind::Bool, take());
    else
      node = parseName();
    break;
  case Tok::LParen:
    take();
    node = parseNested();
    if (!node || !expect(Tok::RParen, "')'"))
      return {};
    node.where = join(token.where, tokens[pos - 1].where);
    break;
  case Tok::LBracket: {
    take();
    std::vector<Node> elements;
    if (!parseList(Tok::RBracket, "']'", elements))
      return {};
    SourceRange where = join(token.where, tokens[pos - 1].where);
    node = make(ExprKind::List, Op::None, where, std::move(elements));
    break;
  }
  default:
    unexpected("a value");
    return {};
  }
  if (node && (peek().is(Tok::LBracket) || peek().is(Tok::LParen))) {
    bool isIndex = peek().is(Tok::LBracket);
    errors.add(peek().where,
               isIndex ? "only a name can be indexed"
                       : "only a name can be called",
               isIndex ? "several indices are written as in doc[b, q]" : "");
    return {};
  }
  return node;
}

//===- compiler/Dilation.cpp - Residue classes in a mask ------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Dilation.h"
#include <algorithm>
#include <cstdlib>

namespace attn {
namespace {

/// Classes of all heads together: each is a work item at least.
constexpr int64_t kMostClasses = 65536;

/// The value of an integer expression of constants, h and g, for one head.
class HeadValue {
public:
  HeadValue(const Spec &spec, int64_t head) : spec(spec), head(head) {}

  std::optional<int64_t> operator()(const ExprRef &e) const {
    switch (e->kind) {
    case ExprKind::Int:
    case ExprKind::Bool:
      return e->intValue;
    case ExprKind::Name:
      if (const Let *let = spec.findLet(e->name))
        return (*this)(let->value);
      if (e->name == "h")
        return head;
      if (e->name == "g")
        return spec.kvHeadOf(head);
      return std::nullopt;
    case ExprKind::Index: {
      const Let *let = spec.findLet(e->args[0]->name);
      auto at = e->args.size() == 2 ? (*this)(e->args[1]) : std::nullopt;
      if (!let || !at || *at < 0 || *at >= int64_t(let->value->args.size()))
        return std::nullopt;
      return (*this)(let->value->args[*at]);
    }
    case ExprKind::Unary:
    case ExprKind::Binary:
    case ExprKind::Select:
    case ExprKind::Call:
      return operation(*e);
    default:
      return std::nullopt;
    }
  }

private:
  std::optional<int64_t> operation(const Expr &e) const {
    std::vector<int64_t> x;
    for (const ExprRef &arg : e.args) {
      auto value = (*this)(arg);
      if (!value || arg->type == Type::F32)
        return std::nullopt;
      x.push_back(*value);
    }
    if (e.kind == ExprKind::Select)
      return x[0] ? x[1] : x[2];
    if (e.kind == ExprKind::Call) {
      if (e.name == "min" || e.name == "max")
        return e.name == "min" ? std::min(x[0], x[1]) : std::max(x[0], x[1]);
      return e.name == "abs" ? std::optional(std::abs(x[0])) : std::nullopt;
    }
    switch (e.op) {
    case Op::Neg:
      return -x[0];
    case Op::Add:
      return x[0] + x[1];
    case Op::Sub:
      return x[0] - x[1];
    case Op::Mul:
      return x[0] * x[1];
    case Op::Div:
      return x[1] ? std::optional(x[0] / x[1]) : std::nullopt;
    case Op::Rem:
      return x[1] ? std::optional(x[0] % x[1]) : std::nullopt;
    case Op::Eq:
      return x[0] == x[1];
    case Op::Ne:
      return x[0] != x[1];
    case Op::Lt:
      return x[0] < x[1];
    case Op::Le:
      return x[0] <= x[1];
    case Op::Gt:
      return x[0] > x[1];
    case Op::Ge:
      return x[0] >= x[1];
    default:
      return std::nullopt;
    }
  }

  const Spec &spec;
  int64_t head;
};

bool isName(const ExprRef &e, const char *name) {
  return e->kind == ExprKind::Name && e->name == name;
}
bool isBinary(const ExprRef &e, Op op) {
  return e->kind == ExprKind::Binary && e->op == op;
}

/// The condition's form, or no divisor.
Dilation form(const ExprRef &e) {
  Dilation found;
  found.condition = e.get();
  if (e->kind == ExprKind::Call) {
    if (e->name == "window" && e->args.size() == 3)
      found.divisor = e->args[2];
    if (e->name == "neighborhood" && e->args.size() == 2)
      found.divisor = e->args[1];
    return found;
  }
  if (!isBinary(e, Op::Eq))
    return found;
  for (bool swapped : {false, true}) {
    const ExprRef &x = e->args[swapped], &y = e->args[!swapped];
    if (!isBinary(x, Op::Rem))
      continue;
    const ExprRef &dividend = x->args[0];
    if (y->kind == ExprKind::Int && y->intValue == 0 &&
        isBinary(dividend, Op::Sub) &&
        ((isName(dividend->args[0], "k") && isName(dividend->args[1], "q")) ||
         (isName(dividend->args[0], "q") && isName(dividend->args[1], "k"))))
      found.divisor = x->args[1];
    if (isName(dividend, "k") && isBinary(y, Op::Rem) &&
        isName(y->args[0], "q") && equal(x->args[1], y->args[1])) {
      found.divisor = x->args[1];
      found.ofRemainders = true;
    }
  }
  return found;
}

bool solve(const Spec &spec, Dilation &dilation) {
  int64_t sum = 0, largest = 1;
  for (int64_t head = 0; head < spec.heads; ++head) {
    auto d = HeadValue(spec, head)(dilation.divisor);
    if (!d || *d < 1 || (sum += *d) > kMostClasses)
      return false;
    largest = std::max(largest, *d);
    dilation.ofHead.push_back(*d);
  }
  return largest > 1;
}

/// Whether a condition is false for queries and keys in no list of tokens.
bool needsListed(const ExprRef &e) {
  if (isBinary(e, Op::And))
    return needsListed(e->args[0]) || needsListed(e->args[1]);
  if (isBinary(e, Op::Or))
    return needsListed(e->args[0]) && needsListed(e->args[1]);
  return e->kind == ExprKind::Call && e->name == "global";
}

std::optional<Dilation> find(const Spec &spec, const ExprRef &e) {
  if (isBinary(e, Op::Or)) {
    if (needsListed(e->args[0]))
      return find(spec, e->args[1]);
    return needsListed(e->args[1]) ? find(spec, e->args[0]) : std::nullopt;
  }
  if (isBinary(e, Op::And)) {
    auto found = find(spec, e->args[0]);
    return found ? found : find(spec, e->args[1]);
  }
  Dilation dilation = form(e);
  if (dilation.divisor && solve(spec, dilation))
    return dilation;
  return std::nullopt;
}

} // namespace

std::optional<Dilation> findDilation(const Spec &spec) {
  return spec.mask ? find(spec, spec.mask) : std::nullopt;
}

} // namespace attn

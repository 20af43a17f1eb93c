//===- compiler/RangeCond.cpp - Conditions in symbolic form ---------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/RangeExpr.h"
#include <algorithm>
#include <numeric>

namespace attn::range {

namespace {

constexpr unsigned kMaxPieces = 32;

CondRef constant(bool value) {
  static const CondRef always =
      std::make_shared<const Cond>(Cond{Cond::Kind::True, {}, {}});
  static const CondRef never =
      std::make_shared<const Cond>(Cond{Cond::Kind::False, {}, {}});
  return value ? always : never;
}

/// l <= 0 as it stands, its coefficients without a common factor.
CondRef makeAtom(Linear l) {
  int64_t common = 0;
  for (int64_t n : l.coef)
    common = std::gcd(common, n);
  for (auto &[n, t] : l.terms)
    common = std::gcd(common, n);
  if (common > 1) {
    for (int64_t &n : l.coef)
      n /= common;
    for (auto &[n, t] : l.terms)
      n /= common;
    // g*x <= -c  <=>  x <= floor(-c / g)
    l.constant = -floorDiv(-l.constant, common);
  }
  Cond c{Cond::Kind::Atom, std::move(l), {}};
  c.vars = c.atom.vars();
  c.size = 1 + c.atom.size();
  return std::make_shared<const Cond>(std::move(c));
}

/// And (`isAnd`) or Or of conditions, flattened; bounds on one and the same
/// form are merged, and contradictions and tautologies between two are seen.
CondRef combine(bool isAnd, llvm::ArrayRef<CondRef> parts, bool &exact) {
  auto neutral = isAnd ? Cond::Kind::True : Cond::Kind::False;
  auto kind = isAnd ? Cond::Kind::And : Cond::Kind::Or;
  Cond result{kind, {}, {}};
  llvm::SmallVector<CondRef> flat;
  for (const CondRef &part : parts) {
    if (part->kind == kind)
      flat.append(part->children.begin(), part->children.end());
    else
      flat.push_back(part);
  }
  for (const CondRef &part : flat) {
    if (part->kind == neutral)
      continue;
    if (part->kind == Cond::Kind::True || part->kind == Cond::Kind::False)
      return part;
    bool merged = false;
    for (CondRef &other : result.children) {
      if (part->kind != Cond::Kind::Atom || other->kind != part->kind) {
        merged |= equal(part, other);
        continue;
      }
      if (Linear d = part->atom - other->atom; d.isConstant()) {
        merged = true;
        if ((d.constant > 0) == isAnd)
          other = part;
      } else if (Linear s = part->atom + other->atom; s.isConstant()) {
        // x + c1 <= 0 and -x + c2 <= 0: no x between if c1 + c2 > 0, every
        // integer on one side or the other if c1 + c2 <= 1.
        if (isAnd ? s.constant > 0 : s.constant <= 1)
          return constant(!isAnd);
      }
    }
    if (!merged)
      result.children.push_back(part);
  }
  if (result.children.empty())
    return constant(isAnd);
  if (result.children.size() == 1)
    return result.children.front();
  for (const CondRef &child : result.children) {
    result.vars |= child->vars;
    result.size += child->size;
  }
  if (result.size > kMaxSize) {
    exact = false;
    if (!isAnd)
      return constant(true);
    // Any part of a conjunction over-approximates it: keep the small ones.
    auto biggest =
        std::max_element(result.children.begin(), result.children.end(),
                         [](auto &a, auto &b) { return a->size < b->size; });
    result.children.erase(biggest);
    return combine(true, result.children, exact);
  }
  return std::make_shared<const Cond>(std::move(result));
}

/// Where l <= 0 may hold. Clears `exact` where that is more than holds.
CondRef nonPositive(const Linear &l, bool &exact) {
  if (!l.known || l.pieces() > kMaxPieces) {
    exact = false;
    return constant(true);
  }
  if (auto range = l.bounds()) {
    if (range->hi <= 0)
      return constant(true);
    if (range->lo > 0)
      return constant(false);
  }

  for (auto &[n, t] : l.terms)
    exact &= t->exact;
  constexpr VarSet key = setOf(Var::K), row = setOf(Var::Q);
  VarSet vars = l.vars();
  for (unsigned i = 0; i < l.terms.size(); ++i) {
    auto [n, t] = l.terms[i];
    switch (t->kind) {
    case Term::Kind::Min:
    case Term::Kind::Max: {
      CondRef a = nonPositive(l.replacing(i, t->a), exact);
      CondRef b = nonPositive(l.replacing(i, t->b), exact);
      bool any = (t->kind == Term::Kind::Min) == (n > 0);
      return combine(!any, {a, b}, exact);
    }
    case Term::Kind::Select: {
      if (t->isUniformSelect())
        break;
      CondRef a = nonPositive(l.replacing(i, t->a), exact);
      CondRef b = nonPositive(l.replacing(i, t->b), exact);
      return combine(false,
                     {combine(true, {t->when.yes, a}, exact),
                      combine(true, {t->when.no, b}, exact)},
                     exact);
    }
    case Term::Kind::TruncDiv: {
      if (!(t->vars & key))
        break;
      // Rounds down on one side of zero and up on the other.
      Linear negative = scaled(t->a, -1);
      Linear up = divide(Rounding::Ceil, t->a, Linear::of(t->divisor));
      Linear down = divide(Rounding::Floor, t->a, Linear::of(t->divisor));
      CondRef a = combine(true,
                          {nonPositive(negative, exact),
                           nonPositive(l.replacing(i, down), exact)},
                          exact);
      CondRef b = combine(true,
                          {nonPositive(t->a + Linear::of(1), exact),
                           nonPositive(l.replacing(i, up), exact)},
                          exact);
      return combine(false, {a, b}, exact);
    }
    case Term::Kind::FloorDiv: {
      // n*floor(a/c) + rest <= 0 is linear in `a` if what is solved for does
      // not occur in `rest`, or if n is 1.
      VarSet solved = vars & key ? key : row;
      Linear rest = l.replacing(i, Linear::of(int64_t(0)));
      bool unit = n == 1 || n == -1;
      if (!(t->vars & solved) || !(unit || !(rest.vars() & solved)))
        break;
      int64_t c = t->divisor;
      Linear bound =
          divide(Rounding::Floor, scaled(rest, -1), Linear::of(n > 0 ? n : -n));
      Linear linear = n > 0 ? t->a - scaled(bound, c) - Linear::of(c - 1)
                            : scaled(t->a, -1) - scaled(bound, c);
      if (!linear.known)
        break;
      return nonPositive(linear, exact);
    }
    case Term::Kind::Rem:
    case Term::Kind::Load:
      break;
    }
  }
  return makeAtom(l);
}

} // namespace

bool equal(const CondRef &a, const CondRef &b) {
  if (a == b)
    return true;
  if (a->kind != b->kind || a->vars != b->vars || a->size != b->size ||
      a->children.size() != b->children.size())
    return false;
  if (a->kind == Cond::Kind::Atom)
    return equal(a->atom, b->atom);
  return std::equal(a->children.begin(), a->children.end(), b->children.begin(),
                    [](auto &x, auto &y) { return equal(x, y); });
}

Truth truth(bool value) { return {constant(value), constant(!value), true}; }

Truth undecided() { return {constant(true), constant(true), false}; }

Truth lessEqualZero(const Linear &l) {
  Truth t;
  t.yes = nonPositive(l, t.exact);
  t.no = nonPositive(Linear::of(1) - l, t.exact);
  return t;
}

Truth equalZero(const Linear &l) {
  if (l.known && !l.isConstant()) {
    int64_t common = 0;
    for (int64_t n : l.coef)
      common = std::gcd(common, n);
    for (auto &[n, t] : l.terms)
      common = std::gcd(common, n);
    if (l.constant % common)
      return truth(false);
  }
  return both(lessEqualZero(l), lessEqualZero(scaled(l, -1)));
}

Truth both(const Truth &a, const Truth &b) {
  Truth t{nullptr, nullptr, a.exact && b.exact};
  t.yes = combine(true, {a.yes, b.yes}, t.exact);
  t.no = combine(false, {a.no, b.no}, t.exact);
  return t;
}

Truth negated(const Truth &a) { return {a.no, a.yes, a.exact}; }

Truth either(const Truth &a, const Truth &b) {
  return negated(both(negated(a), negated(b)));
}

Truth exclusive(const Truth &a, const Truth &b) {
  return select(a, negated(b), b);
}

Truth select(const Truth &c, const Truth &a, const Truth &b) {
  auto is = [](const CondRef &x, bool value) {
    return x->kind == (value ? Cond::Kind::True : Cond::Kind::False);
  };
  if (is(a.no, false))
    return either(c, b);
  if (is(a.yes, false))
    return both(negated(c), b);
  if (is(b.no, false))
    return either(negated(c), a);
  if (is(b.yes, false))
    return both(c, a);
  // Both trees as (c and a) or (not c and b): where `c` is open, but `a` and
  // `b` agree, the other form would leave the result open too.
  Truth t{nullptr, nullptr, c.exact && a.exact && b.exact};
  auto cases = [&](const CondRef &x, const CondRef &y) {
    return combine(
        false,
        {combine(true, {c.yes, x}, t.exact), combine(true, {c.no, y}, t.exact)},
        t.exact);
  };
  t.yes = cases(a.yes, b.yes);
  t.no = cases(a.no, b.no);
  return t;
}

} // namespace attn::range

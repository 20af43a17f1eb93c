//===- compiler/RangeExpr.cpp - Mask conditions in symbolic form ----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/RangeExpr.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <numeric>
#include <optional>

namespace attn::range {

namespace {

/// Every form stays below this for all positions. Evaluation may widen a range
/// of rows or keys fourfold (RangeEval.h) and stays far from 64 bits.
constexpr int64_t kMaxMagnitude = int64_t(1) << 59;

Bounds boundsOf(Var v) {
  return {v == Var::Q ? -kMaxPosition : 0, kMaxPosition};
}

/// The form itself, or unknown if it may grow too large.
Linear checked(Linear l) {
  uint64_t sum = 0;
  auto add = [&](int64_t n, uint64_t most) {
    sum = llvm::SaturatingMultiplyAdd(llvm::AbsoluteValue(n), most, sum);
  };
  add(l.constant, 1);
  for (int64_t c : l.coef)
    add(c, kMaxPosition);
  for (auto &[n, t] : l.terms)
    if (auto range = t->bounds)
      add(n, std::max(llvm::AbsoluteValue(range->lo),
                      llvm::AbsoluteValue(range->hi)));
  if (sum > uint64_t(kMaxMagnitude) || l.size() > kMaxSize)
    return Linear::unknown();
  return l;
}

bool equal(const TermRef &a, const TermRef &b) {
  if (a == b)
    return true;
  if (a->kind != b->kind || a->divisor != b->divisor || a->vars != b->vars ||
      a->size != b->size || !a->exact || !b->exact || !equal(a->a, b->a))
    return false;
  switch (a->kind) {
  case Term::Kind::FloorDiv:
  case Term::Kind::TruncDiv:
  case Term::Kind::Rem:
    return true;
  case Term::Kind::Min:
  case Term::Kind::Max:
    return equal(a->b, b->b);
  case Term::Kind::Select:
    return equal(a->b, b->b) && equal(a->when.yes, b->when.yes) &&
           equal(a->when.no, b->when.no);
  case Term::Kind::Load:
    return a->load == b->load;
  }
  return false;
}

bool hasLoads(const Linear &l) {
  return llvm::any_of(l.terms, [](auto &t) { return t.second->hasLoads; });
}

bool hasLoads(const CondRef &c) {
  return c && (hasLoads(c->atom) || llvm::any_of(c->children, [](auto &child) {
                 return hasLoads(child);
               }));
}

Linear fromTerm(Term t) {
  t.vars = t.a.vars() | t.b.vars();
  t.size = 1 + t.a.size() + t.b.size();
  t.hasLoads = t.kind == Term::Kind::Load || hasLoads(t.a) || hasLoads(t.b) ||
               hasLoads(t.when.yes) || hasLoads(t.when.no);
  for (const Linear *part : {&t.a, &t.b})
    t.exact &= part->known && llvm::all_of(part->terms, [](auto &inner) {
                 return inner.second->exact;
               });
  if (t.kind == Term::Kind::Select) {
    t.exact &= t.when.exact;
    t.vars |= t.when.yes->vars | t.when.no->vars;
    t.size += t.when.yes->size + t.when.no->size;
  }
  // Of two alternatives one may be unknown: `min(unknown, 5) <= k` still says
  // something. Such a term has no bounds and is split before it is evaluated.
  auto a = t.a.bounds();
  auto b = t.b.bounds();
  int64_t c = t.divisor;
  switch (t.kind) {
  case Term::Kind::FloorDiv:
  case Term::Kind::TruncDiv:
  case Term::Kind::Rem:
    if (!a)
      return Linear::unknown();
    if (t.kind == Term::Kind::FloorDiv)
      t.bounds = {floorDiv(a->lo, c), floorDiv(a->hi, c)};
    else if (t.kind == Term::Kind::TruncDiv)
      t.bounds = {a->lo / c, a->hi / c};
    else
      t.bounds = {std::max(std::min(a->lo, int64_t(0)), 1 - c),
                  std::min(std::max(a->hi, int64_t(0)), c - 1)};
    if (t.kind != Term::Kind::Rem)
      t.pieces = t.a.pieces() * (t.kind == Term::Kind::TruncDiv ? 2 : 1);
    break;
  case Term::Kind::Min:
  case Term::Kind::Max:
  case Term::Kind::Select:
    t.pieces = t.a.pieces() + t.b.pieces();
    if (!a || !b)
      break;
    if (t.kind == Term::Kind::Min)
      t.bounds = {std::min(a->lo, b->lo), std::min(a->hi, b->hi)};
    else if (t.kind == Term::Kind::Max)
      t.bounds = {std::max(a->lo, b->lo), std::max(a->hi, b->hi)};
    else
      t.bounds = {std::min(a->lo, b->lo), std::max(a->hi, b->hi)};
    break;
  case Term::Kind::Load:
    for (const Linear &index : t.at) {
      if (!index.known)
        return Linear::unknown();
      t.vars |= index.vars();
      t.size += index.size();
      t.exact &= llvm::all_of(index.terms,
                              [](auto &inner) { return inner.second->exact; });
    }
    break;
  }
  Linear l;
  l.terms.push_back({1, std::make_shared<const Term>(std::move(t))});
  return checked(std::move(l));
}

/// If `l` is constant but for one selection: f of both alternatives.
template <typename Fn>
std::optional<Linear> throughSelect(const Linear &l, Fn f) {
  if (!l.known || l.terms.size() != 1 || l.vars() != l.termVars() ||
      l.terms[0].second->kind != Term::Kind::Select)
    return std::nullopt;
  TermRef t = l.terms[0].second;
  return select(t->when, f(l.replacing(0, t->a)), f(l.replacing(0, t->b)));
}

Linear divideBy(Rounding rounding, const Linear &a, int64_t c) {
  if (c < 0) {
    if (rounding == Rounding::Trunc)
      return scaled(divideBy(rounding, a, -c), -1);
    return divideBy(rounding, scaled(a, -1), -c);
  }
  if (!a.known || c == 1)
    return a;
  if (rounding == Rounding::Ceil)
    return scaled(divideBy(Rounding::Floor, scaled(a, -1), c), -1);
  if (auto range = a.bounds(); range && rounding == Rounding::Trunc) {
    if (range->lo >= 0)
      return divideBy(Rounding::Floor, a, c);
    if (range->hi <= 0)
      return divideBy(Rounding::Ceil, a, c);
  }
  bool divides =
      llvm::all_of(a.coef, [&](int64_t n) { return n % c == 0; }) &&
      llvm::all_of(a.terms, [&](auto &t) { return t.first % c == 0; });
  if (divides && rounding == Rounding::Floor) {
    Linear l = a;
    l.constant = floorDiv(l.constant, c);
    for (int64_t &n : l.coef)
      n /= c;
    for (auto &[n, t] : l.terms)
      n /= c;
    return l;
  }
  Term t{rounding == Rounding::Floor ? Term::Kind::FloorDiv
                                     : Term::Kind::TruncDiv};
  t.a = a;
  t.divisor = c;
  return fromTerm(std::move(t));
}

Linear remainderBy(const Linear &a, int64_t c) {
  c = c < 0 ? -c : c;
  if (c == 1)
    return Linear::of(int64_t(0));
  if (!a.known)
    return a;
  if (a.isConstant())
    return Linear::of(a.constant % c);
  if (auto range = a.bounds(); range && range->lo > -c && range->hi < c)
    return a;
  Term t{Term::Kind::Rem};
  t.a = a;
  t.divisor = c;
  return fromTerm(std::move(t));
}

} // namespace

int64_t floorDiv(int64_t a, int64_t c) {
  int64_t d = a / c;
  return d * c > a ? d - 1 : d;
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

bool equal(const Linear &a, const Linear &b) {
  if (!a.known || !b.known)
    return false;
  Linear d = a - b;
  return d.isConstant() && d.constant == 0;
}

Linear Linear::unknown() {
  Linear l;
  l.known = false;
  return l;
}

Linear Linear::of(int64_t value) {
  Linear l;
  l.constant = value;
  return checked(l);
}

Linear Linear::of(Var v) {
  Linear l;
  l[v] = 1;
  return l;
}

// Not the same as reading no argument: what is open reads none that we know.
bool Linear::isConstant() const {
  return known && terms.empty() && vars() == 0;
}

VarSet Linear::termVars() const {
  VarSet set = 0;
  for (auto &[n, t] : terms)
    set |= t->vars;
  return set;
}

VarSet Linear::vars() const {
  VarSet set = termVars();
  for (unsigned v = 0; v < kVars; ++v)
    if (coef[v])
      set |= 1u << v;
  return set;
}

std::optional<Bounds> Linear::bounds() const {
  if (!known)
    return std::nullopt;
  Bounds sum{constant, constant};
  auto add = [&](int64_t n, Bounds x) {
    sum.lo += n * (n > 0 ? x.lo : x.hi);
    sum.hi += n * (n > 0 ? x.hi : x.lo);
  };
  for (unsigned v = 0; v < kVars; ++v)
    add(coef[v], boundsOf(Var(v)));
  for (auto &[n, t] : terms) {
    if (!t->bounds)
      return std::nullopt;
    add(n, *t->bounds);
  }
  return sum;
}

unsigned Linear::pieces() const {
  unsigned product = 1;
  for (auto &[n, t] : terms)
    product = llvm::SaturatingMultiply(product, t->pieces);
  return product;
}

unsigned Linear::size() const {
  unsigned sum = 0;
  for (auto &[n, t] : terms)
    sum += t->size;
  return sum;
}

Linear Linear::replacing(unsigned i, const Linear &instead) const {
  Linear rest = *this;
  int64_t n = rest.terms[i].first;
  rest.terms.erase(rest.terms.begin() + i);
  return rest + scaled(instead, n);
}

Linear operator+(const Linear &a, const Linear &b) {
  if (!a.known || !b.known)
    return Linear::unknown();
  // Each operand is far below 2^63, so no sum of two wraps.
  Linear l = a;
  l.constant += b.constant;
  for (unsigned v = 0; v < kVars; ++v)
    l.coef[v] += b.coef[v];
  for (auto &[n, t] : b.terms) {
    auto same = llvm::find_if(
        l.terms, [&, &t = t](auto &other) { return equal(other.second, t); });
    if (same == l.terms.end())
      l.terms.push_back({n, t});
    else if ((same->first += n) == 0)
      l.terms.erase(same);
  }
  return checked(std::move(l));
}

Linear operator-(const Linear &a, const Linear &b) { return a + scaled(b, -1); }

Linear scaled(const Linear &a, int64_t n) {
  if (n == 0)
    return Linear::of(int64_t(0));
  if (!a.known)
    return a;
  Linear l = a;
  bool overflow = llvm::MulOverflow(l.constant, n, l.constant);
  for (int64_t &c : l.coef)
    overflow |= llvm::MulOverflow(c, n, c) != 0;
  for (auto &[c, t] : l.terms)
    overflow |= llvm::MulOverflow(c, n, c) != 0;
  return overflow ? Linear::unknown() : checked(std::move(l));
}

Linear multiply(const Linear &a, const Linear &b) {
  if (a.isConstant())
    return scaled(b, a.constant);
  if (b.isConstant())
    return scaled(a, b.constant);
  for (auto [x, y] : {std::pair(&a, &b), std::pair(&b, &a)})
    if (auto l = throughSelect(
            *x, [y = y](const Linear &f) { return multiply(f, *y); }))
      return *l;
  return Linear::unknown();
}

Linear divide(Rounding rounding, const Linear &a, const Linear &b) {
  if (b.isConstant())
    return b.constant ? divideBy(rounding, a, b.constant) : Linear::unknown();
  auto l =
      throughSelect(b, [&](const Linear &f) { return divide(rounding, a, f); });
  return l ? *l : Linear::unknown();
}

Linear remainder(const Linear &a, const Linear &b) {
  if (b.isConstant())
    return b.constant ? remainderBy(a, b.constant) : Linear::unknown();
  auto l = throughSelect(b, [&](const Linear &f) { return remainder(a, f); });
  return l ? *l : Linear::unknown();
}

Linear minOf(const Linear &a, const Linear &b) {
  return scaled(maxOf(scaled(a, -1), scaled(b, -1)), -1);
}

Linear maxOf(const Linear &a, const Linear &b) {
  if (!a.known && !b.known)
    return a;
  if (auto range = (a - b).bounds()) {
    if (range->lo >= 0)
      return a;
    if (range->hi <= 0)
      return b;
  }
  Term t{Term::Kind::Max};
  t.a = a;
  t.b = b;
  return fromTerm(std::move(t));
}

Linear select(const Truth &c, const Linear &a, const Linear &b) {
  if (c.yes->kind == Cond::Kind::False)
    return b;
  if (c.no->kind == Cond::Kind::False)
    return a;
  if ((!a.known && !b.known) || equal(a, b))
    return a;
  // "x < y ? x : y" and its kin, `abs` included, whichever way ties go.
  if (Linear d = a - b; d.known && c.exact && c.yes->kind == Cond::Kind::Atom) {
    Linear one = Linear::of(1);
    if (equal(c.yes, lessEqualZero(d).yes) ||
        equal(c.yes, lessEqualZero(d + one).yes))
      return minOf(a, b);
    Linear e = scaled(d, -1);
    if (equal(c.yes, lessEqualZero(e).yes) ||
        equal(c.yes, lessEqualZero(e + one).yes))
      return maxOf(a, b);
  }
  Term t{Term::Kind::Select};
  t.a = a;
  t.b = b;
  t.when = c;
  return fromTerm(std::move(t));
}

Linear load(unsigned number, llvm::ArrayRef<Linear> at, Bounds bounds,
            const std::string &name) {
  Term t{Term::Kind::Load};
  t.load = number;
  t.at.assign(at.begin(), at.end());
  t.bounds = bounds;
  t.text = name;
  for (auto [i, index] : llvm::enumerate(at))
    t.text += (i ? ", " : "[") + print(index);
  if (!at.empty())
    t.text += "]";
  return fromTerm(std::move(t));
}

bool Term::isUniformSelect() const {
  constexpr VarSet pair = setOf(Var::Q) | setOf(Var::K);
  return kind == Kind::Select && when.exact && bounds &&
         ((when.yes->vars | when.no->vars) & pair) == 0 &&
         ((a.vars() | b.vars()) & setOf(Var::K)) == 0;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

namespace {

const char *const kNames[kVars] = {"b", "h", "g", "q", "k", "q_len", "kv_len"};

void append(std::string &text, int64_t n, const std::string &what) {
  if (n == 0)
    return;
  bool first = text.empty();
  text += first ? (n < 0 ? "-" : "") : (n < 0 ? " - " : " + ");
  uint64_t size = llvm::AbsoluteValue(n);
  if (what.empty())
    text += std::to_string(size);
  else
    text += (size == 1 ? "" : std::to_string(size) + "*") + what;
}

std::string print(const Term &t) {
  auto call = [&](const char *name) {
    return std::string(name) + "(" + print(t.a) + ", " + print(t.b) + ")";
  };
  std::string by = std::to_string(t.divisor);
  switch (t.kind) {
  case Term::Kind::FloorDiv:
    return "floor((" + print(t.a) + ") / " + by + ")";
  case Term::Kind::TruncDiv:
    return "trunc((" + print(t.a) + ") / " + by + ")";
  case Term::Kind::Rem:
    return "((" + print(t.a) + ") % " + by + ")";
  case Term::Kind::Min:
    return call("min");
  case Term::Kind::Max:
    return call("max");
  case Term::Kind::Select:
    return call("either");
  case Term::Kind::Load:
    return t.text;
  }
  return {};
}

} // namespace

std::string print(const Linear &l) {
  if (!l.known)
    return "?";
  std::string text;
  for (unsigned v = 0; v < kVars; ++v)
    append(text, l.coef[v], kNames[v]);
  for (auto &[n, t] : l.terms)
    append(text, n, print(*t));
  append(text, l.constant, "");
  return text.empty() ? "0" : text;
}

std::string printAtom(const Linear &l) {
  for (Var v : {Var::K, Var::Q, Var::H, Var::G, Var::B, Var::QLen, Var::KvLen})
    if (int64_t n = l[v]) {
      Linear rest = l;
      rest[v] = 0;
      std::string left;
      append(left, n < 0 ? -n : n, kNames[static_cast<unsigned>(v)]);
      return n > 0 ? left + " <= " + print(scaled(rest, -1))
                   : left + " >= " + print(rest);
    }
  return print(l) + " <= 0";
}

} // namespace attn::range

//===- compiler/RangeEval.h - Evaluation of symbolic conditions -----------===//
//
// Part of attnc. Apache-2.0.
//
// One evaluator for numbers and for IR: `Ops` says what an integer is and how
// two are added. Everything here over-approximates where a condition may hold
// for some row; "every row" is asked of the negated condition. Internal to
// range analysis.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_RANGEEVAL_H
#define ATTNC_COMPILER_RANGEEVAL_H

#include "compiler/RangeExpr.h"
#include "llvm/Support/ErrorHandling.h"
#include <vector>

namespace attn::range {

/// An integer (or bool) element of a parameter that a mask reads.
struct Load {
  int64_t number; ///< of the parameter
  std::string name;
  bool isBool;
  llvm::SmallVector<bool, 4> inside; ///< of each index: never beyond
  llvm::SmallVector<Linear, 4> at;
  VarSet vars = 0;
};

/// What analysis knows of a mask.
struct Mask {
  Truth value;
  VarSet reads = 0;
  std::vector<Load> loads; ///< each once; those that others need come first
  std::vector<std::string> open; ///< what was not understood, and where
};

/// Ops: types Int and Bool; constant(int64_t), add, sub, scale(Int, int64_t),
/// floorDiv(Int, int64_t), truncDiv(Int, int64_t), min, max, le, eq, select,
/// bothOf, eitherOf, notOf, truth(bool).
template <typename Ops> class Evaluator {
public:
  using Int = typename Ops::Int;
  using Bool = typename Ops::Bool;

  /// Rows by the positions of their queries, and a range of keys, inclusive;
  /// without one, all keys there could be.
  struct Box {
    Int qMin, qMax;
    std::optional<std::pair<Int, Int>> keys;
  };
  /// [lo, hi), a missing end is the end of all keys; nothing at all unless
  /// `some`.
  struct Span {
    std::optional<Int> lo, hi;
    std::optional<Bool> some;
    bool isAll() const { return !lo && !hi && !some; }
  };

  /// The smallest and the largest value of a load, where that is known.
  using Range = std::optional<std::pair<Int, Int>>;
  using Ranges = llvm::SmallVector<Range, 4>;

  /// `scalars`: by Var, those of Q and K unused. `loads`: of Mask::loads, over
  /// the rows (and keys) that are asked about.
  Evaluator(Ops &ops, const std::array<Int, kVars> &scalars, Ranges loads)
      : ops(ops), scalars(scalars), loads(std::move(loads)) {}

  /// The loads of a mask over a box, but for those that are known already.
  /// `element(load, at)` reads one, `extremes(load, at, dim, last)` gives the
  /// range of those along a dimension; both may give nothing.
  template <typename Element, typename Extremes>
  Ranges evaluateLoads(const Mask &mask, const Box &box, Element element,
                       Extremes extremes);

  /// Whether the condition may hold for some pair of the box.
  Bool may(const CondRef &cond, const Box &box);
  /// Keys outside this range do not satisfy the condition for any row.
  Span hull(const CondRef &cond, const Box &rows);
  /// Keys inside this range do not satisfy the condition for any row.
  Span clear(const CondRef &cond, const Box &rows);
  /// Looks only at keys [first, second) of [0, kvLen), and clamps to them: a
  /// part of a union that has none there counts for nothing.
  void lookAt(std::pair<Int, Int> keys) { window = keys; }
  /// Clamped to all keys, [0, kvLen]; first == second if empty.
  std::pair<Int, Int> clamped(const Span &span);

private:
  /// plus - minus, both with positive coefficients only.
  struct Sides {
    std::optional<Int> plus, minus;
  };
  Sides sides(const Linear &l, bool upper, const Box &box);
  Int bound(const Linear &l, bool upper, const Box &box);
  Int termBound(const Term &t, bool upper, const Box &box);
  Int variable(Var v, bool upper, const Box &box);
  Bool mayNotExceedZero(const Linear &l, const Box &box);
  Int solve(Linear l, Var v, const Box &box);
  bool isOpen(const Linear &l);
  bool isOpen(const CondRef &c);
  bool narrows(const Cond &cond, Var v);
  bool narrow(Var v, llvm::ArrayRef<CondRef> children, Box &box);

  Int zero() { return ops.constant(0); }
  Int first() { return window ? window->first : zero(); }
  Int end() {
    return window ? window->second : scalars[static_cast<unsigned>(Var::KvLen)];
  }
  void also(std::optional<Bool> &all, Bool b) {
    all = all ? ops.bothOf(*all, b) : b;
  }
  /// Clamped, lo <= hi.
  std::pair<Int, Int> ends(const Span &s);
  Span unite(llvm::ArrayRef<Span> spans);
  Span intersect(llvm::ArrayRef<Span> spans);
  Span longer(const Span &a, const Span &b);

  Ops &ops;
  std::array<Int, kVars> scalars;
  Ranges loads;
  std::optional<std::pair<Int, Int>> window;
};

/// Whether a load in it is not known.
template <typename Ops> bool Evaluator<Ops>::isOpen(const Linear &l) {
  return llvm::any_of(l.terms, [&](auto &term) {
    const Term &t = *term.second;
    if (!t.hasLoads)
      return false;
    if (t.kind == Term::Kind::Load && !loads[t.load])
      return true;
    return isOpen(t.a) || isOpen(t.b) || isOpen(t.when.yes) ||
           isOpen(t.when.no) ||
           llvm::any_of(t.at, [&](const Linear &i) { return isOpen(i); });
  });
}

template <typename Ops> bool Evaluator<Ops>::isOpen(const CondRef &c) {
  return c && (isOpen(c->atom) ||
               llvm::any_of(c->children, [&](const CondRef &child) {
                 return isOpen(child);
               }));
}

template <typename Ops>
template <typename Element, typename Extremes>
auto Evaluator<Ops>::evaluateLoads(const Mask &mask, const Box &box,
                                   Element element, Extremes extremes)
    -> Ranges {
  constexpr VarSet pair = setOf(Var::Q) | setOf(Var::K);
  loads.resize(mask.loads.size());
  for (auto [number, load] : llvm::enumerate(mask.loads)) {
    if (loads[number] || ((load.vars & setOf(Var::K)) && !box.keys) ||
        llvm::any_of(load.at, [&](const Linear &l) { return isOpen(l); }))
      continue;
    llvm::SmallVector<Int, 4> at;
    llvm::SmallVector<unsigned, 4> varying;
    for (auto [dim, index] : llvm::enumerate(load.at)) {
      at.push_back(bound(index, false, box));
      if (index.vars() & pair)
        varying.push_back(dim);
    }
    if (varying.empty()) {
      if (std::optional<Int> value = element(load, at))
        loads[number] = {*value, *value};
    } else if (varying.size() == 1) {
      unsigned dim = varying.front();
      loads[number] = extremes(load, at, dim, bound(load.at[dim], true, box));
    }
  }
  return loads;
}

//===----------------------------------------------------------------------===//
// Ranges of integers
//===----------------------------------------------------------------------===//

template <typename Ops>
auto Evaluator<Ops>::variable(Var v, bool upper, const Box &box) -> Int {
  if (v == Var::Q)
    return upper ? box.qMax : box.qMin;
  if (v == Var::K)
    return upper ? box.keys->second : box.keys->first;
  return scalars[static_cast<unsigned>(v)];
}

template <typename Ops>
auto Evaluator<Ops>::sides(const Linear &l, bool upper, const Box &box)
    -> Sides {
  Sides s;
  auto add = [&](int64_t n, Int x) {
    std::optional<Int> &side = n > 0 ? s.plus : s.minus;
    Int scaled = ops.scale(x, n > 0 ? n : -n);
    side = side ? ops.add(*side, scaled) : scaled;
  };
  for (unsigned v = 0; v < kVars; ++v)
    if (int64_t n = l.coef[v])
      add(n, variable(Var(v), upper == (n > 0), box));
  for (auto &[n, t] : l.terms)
    add(n, termBound(*t, upper == (n > 0), box));
  if (l.constant > 0)
    add(1, ops.constant(l.constant));
  else if (l.constant < 0)
    add(-1, ops.constant(-l.constant));
  return s;
}

template <typename Ops>
auto Evaluator<Ops>::bound(const Linear &l, bool upper, const Box &box) -> Int {
  Sides s = sides(l, upper, box);
  if (!s.minus)
    return s.plus ? *s.plus : zero();
  return ops.sub(s.plus ? *s.plus : zero(), *s.minus);
}

template <typename Ops>
auto Evaluator<Ops>::termBound(const Term &t, bool upper, const Box &box)
    -> Int {
  if (t.kind == Term::Kind::Load) {
    if (t.load < loads.size() && loads[t.load])
      return upper ? loads[t.load]->second : loads[t.load]->first;
    return ops.constant(upper ? t.bounds->hi : t.bounds->lo);
  }
  // Without a range of keys there is nothing to gain from evaluating.
  if ((t.vars & setOf(Var::K)) && !box.keys)
    return ops.constant(upper ? t.bounds->hi : t.bounds->lo);
  switch (t.kind) {
  case Term::Kind::FloorDiv:
    return ops.floorDiv(bound(t.a, upper, box), t.divisor);
  case Term::Kind::TruncDiv:
    return ops.truncDiv(bound(t.a, upper, box), t.divisor);
  case Term::Kind::Min:
    return ops.min(bound(t.a, upper, box), bound(t.b, upper, box));
  case Term::Kind::Max:
    return ops.max(bound(t.a, upper, box), bound(t.b, upper, box));
  case Term::Kind::Select: {
    Int a = bound(t.a, upper, box), b = bound(t.b, upper, box);
    // (What was not loaded may be open.)
    if (t.isUniformSelect() && !t.hasLoads)
      return ops.select(may(t.when.yes, box), a, b);
    Int any = upper ? ops.max(a, b) : ops.min(a, b);
    return ops.select(may(t.when.no, box),
                      ops.select(may(t.when.yes, box), any, b), a);
  }
  case Term::Kind::Load:
    break;
  case Term::Kind::Rem: {
    // While the quotient is one and the same the remainder grows with the
    // dividend; else it may be anything the signs allow.
    Int lo = bound(t.a, false, box), hi = bound(t.a, true, box);
    Int first = ops.truncDiv(lo, t.divisor), last = ops.truncDiv(hi, t.divisor);
    Int straight = ops.sub(upper ? hi : lo, ops.scale(first, t.divisor));
    auto range = t.a.bounds();
    Int any = ops.constant(upper ? t.bounds->hi : t.bounds->lo);
    if (upper && range->lo < 0)
      any = ops.min(ops.max(hi, zero()), any);
    else if (!upper && range->lo < 0)
      any = ops.max(ops.min(lo, zero()), any);
    return ops.select(ops.eq(first, last), straight, any);
  }
  }
  llvm_unreachable("every kind is handled");
}

/// Whether `l <= 0` for some pair, given that `l` is at its smallest for one.
template <typename Ops>
auto Evaluator<Ops>::mayNotExceedZero(const Linear &l, const Box &box) -> Bool {
  Sides s = sides(l, false, box);
  return ops.le(s.plus ? *s.plus : zero(), s.minus ? *s.minus : zero());
}

/// The largest (its coefficient positive) or smallest (negative) v for which
/// l <= 0 may hold for some row. No term depends on v.
template <typename Ops>
auto Evaluator<Ops>::solve(Linear l, Var v, const Box &box) -> Int {
  int64_t n = l[v];
  l[v] = 0;
  Sides s = sides(l, false, box);
  auto difference = [&](std::optional<Int> x, std::optional<Int> y) {
    if (!y)
      return x ? *x : zero();
    return ops.sub(x ? *x : zero(), *y);
  };
  // n*v <= minus - plus
  if (n > 0)
    return ops.floorDiv(difference(s.minus, s.plus), n);
  if (n == -1)
    return difference(s.plus, s.minus);
  return ops.sub(zero(), ops.floorDiv(difference(s.minus, s.plus), -n));
}

/// A condition on v alone, of rows or keys, that never empties the box by more
/// than evaluation can bear.
template <typename Ops> bool Evaluator<Ops>::narrows(const Cond &cond, Var v) {
  constexpr VarSet pair = setOf(Var::Q) | setOf(Var::K);
  if (cond.kind != Cond::Kind::Atom || cond.atom[v] == 0 ||
      (cond.atom.termVars() & pair) || (cond.vars & pair) != setOf(v))
    return false;
  Linear rest = cond.atom;
  rest[v] = 0;
  constexpr int64_t most = 4 * kMaxPosition;
  auto range = rest.bounds();
  int64_t n = cond.atom[v] < 0 ? -cond.atom[v] : cond.atom[v];
  return range->hi / n < most;
}

/// Narrows the box by the conditions on v alone. False if there is none;
/// otherwise the box may have become empty.
template <typename Ops>
bool Evaluator<Ops>::narrow(Var v, llvm::ArrayRef<CondRef> children, Box &box) {
  bool any = false;
  Box original = box;
  Int &lo = v == Var::Q ? box.qMin : box.keys->first;
  Int &hi = v == Var::Q ? box.qMax : box.keys->second;
  for (const CondRef &child : children) {
    if (!narrows(*child, v))
      continue;
    any = true;
    Int end = solve(child->atom, v, original);
    if (child->atom[v] > 0)
      hi = ops.min(hi, end);
    else
      lo = ops.max(lo, end);
  }
  return any;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

template <typename Ops>
auto Evaluator<Ops>::may(const CondRef &cond, const Box &box) -> Bool {
  switch (cond->kind) {
  case Cond::Kind::True:
    return ops.truth(true);
  case Cond::Kind::False:
    return ops.truth(false);
  case Cond::Kind::Atom:
    return mayNotExceedZero(cond->atom, box);
  case Cond::Kind::Or: {
    std::optional<Bool> any;
    for (const CondRef &child : cond->children) {
      Bool b = may(child, box);
      any = any ? ops.eitherOf(*any, b) : b;
    }
    return *any;
  }
  case Cond::Kind::And: {
    // `q < 16 && k <= q`: only rows before 16 matter to the second.
    std::optional<Bool> all;
    Box inside = box;
    if (narrow(Var::Q, cond->children, inside))
      also(all, ops.le(inside.qMin, inside.qMax));
    if (box.keys && narrow(Var::K, cond->children, inside))
      also(all, ops.le(inside.keys->first, inside.keys->second));
    for (const CondRef &child : cond->children)
      if (!narrows(*child, Var::Q) && !(box.keys && narrows(*child, Var::K)))
        also(all, may(child, inside));
    return *all;
  }
  }
  llvm_unreachable("every kind is handled");
}

//===----------------------------------------------------------------------===//
// Ranges of keys
//===----------------------------------------------------------------------===//

template <typename Ops>
auto Evaluator<Ops>::ends(const Span &s) -> std::pair<Int, Int> {
  Int lo = s.lo ? ops.min(ops.max(*s.lo, first()), end()) : first();
  Int hi = s.hi ? ops.max(ops.min(*s.hi, end()), lo) : end();
  return {lo, s.some ? ops.select(*s.some, hi, lo) : hi};
}

template <typename Ops>
auto Evaluator<Ops>::clamped(const Span &span) -> std::pair<Int, Int> {
  return ends(span);
}

template <typename Ops>
auto Evaluator<Ops>::intersect(llvm::ArrayRef<Span> spans) -> Span {
  Span all;
  for (const Span &s : spans) {
    if (s.lo)
      all.lo = all.lo ? ops.max(*all.lo, *s.lo) : *s.lo;
    if (s.hi)
      all.hi = all.hi ? ops.min(*all.hi, *s.hi) : *s.hi;
    if (s.some)
      also(all.some, *s.some);
  }
  return all;
}

template <typename Ops>
auto Evaluator<Ops>::unite(llvm::ArrayRef<Span> spans) -> Span {
  if (llvm::any_of(spans, [](const Span &s) { return s.isAll(); }))
    return {};
  bool noLo = llvm::none_of(spans, [](auto &s) { return s.lo.has_value(); });
  bool noHi = llvm::none_of(spans, [](auto &s) { return s.hi.has_value(); });
  Span all;
  for (const Span &s : spans) {
    // Of an empty part neither end counts. Parts that share one end are empty
    // by the other alone.
    std::optional<Int> lo, hi;
    if (noLo && noHi) {
      all.some = all.some ? ops.eitherOf(*all.some, *s.some) : *s.some;
    } else if (noLo) {
      hi = s.hi ? *s.hi : end();
      hi = s.some ? ops.select(*s.some, *hi, first()) : *hi;
    } else if (noHi) {
      lo = s.lo ? *s.lo : first();
      lo = s.some ? ops.select(*s.some, *lo, end()) : *lo;
    } else {
      auto [from, to] = ends(s);
      Bool empty = ops.eq(from, to);
      lo = ops.select(empty, end(), from);
      hi = ops.select(empty, first(), to);
    }
    if (lo)
      all.lo = all.lo ? ops.min(*all.lo, *lo) : *lo;
    if (hi)
      all.hi = all.hi ? ops.max(*all.hi, *hi) : *hi;
  }
  return all;
}

template <typename Ops>
auto Evaluator<Ops>::hull(const CondRef &cond, const Box &rows) -> Span {
  switch (cond->kind) {
  case Cond::Kind::True:
    return {};
  case Cond::Kind::False:
    return {std::nullopt, std::nullopt, ops.truth(false)};
  case Cond::Kind::Atom: {
    Linear l = cond->atom;
    int64_t n = l[Var::K];
    if (n == 0)
      return {std::nullopt, std::nullopt, mayNotExceedZero(l, rows)};
    if (n < 0)
      return {solve(l, Var::K, rows), std::nullopt, std::nullopt};
    l.constant -= n; // the end is exclusive
    return {std::nullopt, solve(l, Var::K, rows), std::nullopt};
  }
  case Cond::Kind::Or:
  case Cond::Kind::And: {
    bool isAnd = cond->kind == Cond::Kind::And;
    llvm::SmallVector<Span> spans;
    Box inside = rows;
    if (isAnd && narrow(Var::Q, cond->children, inside))
      spans.push_back(
          {std::nullopt, std::nullopt, ops.le(inside.qMin, inside.qMax)});
    for (const CondRef &child : cond->children)
      if (!isAnd || !narrows(*child, Var::Q))
        spans.push_back(hull(child, inside));
    return isAnd ? intersect(spans) : unite(spans);
  }
  }
  llvm_unreachable("every kind is handled");
}

/// The union of two ranges if that is one, else the longer.
template <typename Ops>
auto Evaluator<Ops>::longer(const Span &a, const Span &b) -> Span {
  if (a.isAll() || b.isAll())
    return {};
  if (!a.some && !b.some) {
    if (!a.hi && !b.hi)
      return {ops.min(*a.lo, *b.lo), std::nullopt, std::nullopt};
    if (!a.lo && !b.lo)
      return {std::nullopt, ops.max(*a.hi, *b.hi), std::nullopt};
  }
  auto [aLo, aHi] = ends(a);
  auto [bLo, bHi] = ends(b);
  Bool touch = ops.le(ops.max(aLo, bLo), ops.min(aHi, bHi));
  Bool first = ops.le(ops.sub(bHi, bLo), ops.sub(aHi, aLo));
  Int lo = ops.select(touch, ops.min(aLo, bLo), ops.select(first, aLo, bLo));
  Int hi = ops.select(touch, ops.max(aHi, bHi), ops.select(first, aHi, bHi));
  return {lo, hi, std::nullopt};
}

template <typename Ops>
auto Evaluator<Ops>::clear(const CondRef &cond, const Box &rows) -> Span {
  switch (cond->kind) {
  case Cond::Kind::True:
    return {std::nullopt, std::nullopt, ops.truth(false)};
  case Cond::Kind::False:
    return {};
  case Cond::Kind::Atom: {
    Linear l = cond->atom;
    int64_t n = l[Var::K];
    if (n == 0)
      return {std::nullopt, std::nullopt, ops.notOf(mayNotExceedZero(l, rows))};
    if (n < 0)
      return {std::nullopt, solve(l, Var::K, rows), std::nullopt};
    l.constant -= n;
    return {solve(l, Var::K, rows), std::nullopt, std::nullopt};
  }
  case Cond::Kind::Or: {
    llvm::SmallVector<Span> spans;
    for (const CondRef &child : cond->children)
      spans.push_back(clear(child, rows));
    return intersect(spans);
  }
  case Cond::Kind::And: {
    // One false part is enough, and rows that one part rules out are of no
    // concern to the others.
    Box inside = rows;
    std::optional<Span> best;
    bool narrowed = narrow(Var::Q, cond->children, inside);
    for (const CondRef &child : cond->children)
      if (!narrows(*child, Var::Q)) {
        Span s = clear(child, inside);
        best = best ? longer(*best, s) : s;
      }
    if (!narrowed)
      return *best;
    Bool some = ops.le(inside.qMin, inside.qMax);
    if (!best)
      return {std::nullopt, std::nullopt, ops.notOf(some)};
    if (best->lo)
      best->lo = ops.select(some, *best->lo, first());
    if (best->hi)
      best->hi = ops.select(some, *best->hi, end());
    if (best->some)
      best->some = ops.eitherOf(*best->some, ops.notOf(some));
    return *best;
  }
  }
  llvm_unreachable("every kind is handled");
}

} // namespace attn::range

#endif

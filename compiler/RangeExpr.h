//===- compiler/RangeExpr.h - Mask conditions in symbolic form ------------===//
//
// Part of attnc. Apache-2.0.
//
// The form that range analysis reasons about. Integers are linear combinations
// of the mask's arguments and of non-linear terms; conditions are and/or trees
// of `linear <= 0`. Internal to range analysis.
//
// Every condition is held twice: `yes` is true wherever the condition may be
// true, `no` is true wherever it may be false. Negation swaps the two, what is
// not understood is "true" in both, and so every later step only ever has to
// over-approximate one tree.
//
// Arithmetic is that of the integers: a form that could leave 64 bits for some
// position is "unknown" from the start, so evaluation needs no checks.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_RANGEEXPR_H
#define ATTNC_COMPILER_RANGEEXPR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace attn::range {

/// The arguments of a mask region, in their order.
enum class Var : unsigned { B, H, G, Q, K, QLen, KvLen };
inline constexpr unsigned kVars = 7;

/// A set of arguments, one bit each.
using VarSet = unsigned;
constexpr VarSet setOf(Var v) { return 1u << static_cast<unsigned>(v); }

/// |q| and every other argument stay within this; all but q are >= 0.
inline constexpr int64_t kMaxPosition = (int64_t(1) << 31) - 1;

/// Larger forms are given up: they would cost a kernel more than they save it.
/// This also bounds every recursion.
inline constexpr unsigned kMaxSize = 160;

/// Inclusive.
struct Bounds {
  int64_t lo, hi;
};

struct Term;
struct Cond;
using TermRef = std::shared_ptr<const Term>;
using CondRef = std::shared_ptr<const Cond>;

/// A condition, see the top of the file. `exact`: yes and no are complements.
struct Truth {
  CondRef yes, no;
  bool exact = true;
};

/// constant + sum(coef[v] * v) + sum(n * term); or unknown.
struct Linear {
  bool known = true;
  int64_t constant = 0;
  std::array<int64_t, kVars> coef{};
  llvm::SmallVector<std::pair<int64_t, TermRef>, 1> terms;

  static Linear unknown();
  static Linear of(int64_t value);
  static Linear of(Var v);

  int64_t operator[](Var v) const { return coef[static_cast<unsigned>(v)]; }
  int64_t &operator[](Var v) { return coef[static_cast<unsigned>(v)]; }

  bool isConstant() const;
  /// The arguments it depends on, and those that its terms alone depend on.
  VarSet vars() const;
  VarSet termVars() const;
  /// Over all positions; none where some alternative of a term is unknown.
  std::optional<Bounds> bounds() const;
  /// How many alternatives there are after minima, maxima and selections are
  /// split; saturates.
  unsigned pieces() const;
  unsigned size() const;
  /// Without the i-th term, plus n times `instead`.
  Linear replacing(unsigned i, const Linear &instead) const;
};

/// Known to be the same for every pair of positions.
bool equal(const Linear &a, const Linear &b);
bool equal(const CondRef &a, const CondRef &b);

/// Sums and products; unknown where an operand is, or where some position
/// might leave the range that evaluation relies on.
Linear operator+(const Linear &a, const Linear &b);
Linear operator-(const Linear &a, const Linear &b);
Linear scaled(const Linear &a, int64_t n);
Linear multiply(const Linear &a, const Linear &b);
/// Division by anything that may be zero, or isn't constant, is unknown;
/// selections between constants count as constants.
enum class Rounding { Floor, Ceil, Trunc };
Linear divide(Rounding rounding, const Linear &a, const Linear &b);
/// The sign of `a`, as in C.
Linear remainder(const Linear &a, const Linear &b);
Linear minOf(const Linear &a, const Linear &b);
Linear maxOf(const Linear &a, const Linear &b);
Linear select(const Truth &c, const Linear &a, const Linear &b);
/// An element of a parameter, with the bounds of its type. Unknown where an
/// index is.
Linear load(unsigned number, llvm::ArrayRef<Linear> at, Bounds bounds,
            const std::string &name);

/// A non-linear part of an integer.
struct Term {
  enum class Kind { FloorDiv, TruncDiv, Rem, Min, Max, Select, Load };
  Kind kind;
  Linear a{}, b{};     ///< the dividend; or the two alternatives
  int64_t divisor = 1; ///< > 1
  Truth when{};        ///< of Select: picks `a`
  unsigned load = 0;   ///< of Load: its number in Mask::loads
  /// Of Load: the indices, and how it is printed.
  llvm::SmallVector<Linear, 1> at{};
  std::string text{};
  VarSet vars = 0;
  std::optional<Bounds> bounds{}; ///< always, but of Min, Max and Select
  unsigned pieces = 1, size = 1;
  /// Nothing in it was left open: equal text means equal values.
  bool exact = true;
  bool hasLoads = false; ///< it or a part of it is a Load

  /// A selection that is the same for every pair of a call and whose
  /// alternatives do not depend on the key: a value, not a case to split.
  bool isUniformSelect() const;
};

/// An and/or tree over `atom <= 0`.
struct Cond {
  enum class Kind { True, False, Atom, And, Or };
  Kind kind;
  Linear atom{};
  llvm::SmallVector<CondRef, 2> children{};
  VarSet vars = 0;
  unsigned size = 1;
};

Truth truth(bool value);
Truth undecided();
Truth lessEqualZero(const Linear &l);
Truth equalZero(const Linear &l);
Truth both(const Truth &a, const Truth &b);
Truth either(const Truth &a, const Truth &b);
Truth negated(const Truth &a);
Truth exclusive(const Truth &a, const Truth &b);
Truth select(const Truth &c, const Truth &a, const Truth &b);

/// Division by a positive constant.
int64_t floorDiv(int64_t a, int64_t c);

/// Text for people: "k <= q + 3", "2*k >= q".
std::string print(const Linear &l);
std::string printAtom(const Linear &l);

} // namespace attn::range

#endif

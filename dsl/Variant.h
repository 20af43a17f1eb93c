//===- dsl/Variant.h - Variants described in C++ --------------------------===//
//
// Part of attnc. Apache-2.0.
//
//   using namespace attn::dsl;
//   attn::ParseResult result =
//       attn::Variant("alibi")
//           .param("slope", attn::Type::F32, {heads()})
//           .heads(16)
//           .headDim(80)
//           .score(s + ref("slope")[h] * (k - q))
//           .mask(causal() && sliding(4096))
//           .build();
//
// gives the Spec that the same text gives.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_DSL_VARIANT_H
#define ATTNC_DSL_VARIANT_H

#include "dsl/Spec.h"

#include <initializer_list>
#include <type_traits>

namespace attn {

namespace dsl {

/// A variable of the language. Converts to Ex; exists so that `s`, `q` and so
/// on are constants without code that runs at start-up.
struct Variable {
  const char *name;
};

/// An expression of the language, not yet checked. A cheap value: copies share
/// the tree. Numbers and bools convert to it; the operators below build it.
/// Trees deeper than `kMaxExprDepth` or of more than `kMaxSize` nodes become
/// invalid, which `Variant::build` reports.
class Ex {
public:
  static constexpr uint64_t kMaxSize = 1 << 20;

  template <typename T,
            typename = std::enable_if_t<std::is_arithmetic<T>::value>>
  Ex(T value) {
    if constexpr (std::is_same<T, bool>::value)
      setBool(value);
    else if constexpr (std::is_floating_point<T>::value)
      setFloat(double(value));
    else if constexpr (std::is_signed<T>::value)
      setInt(int64_t(value));
    else // what is beyond i64 is beyond i32 too: refused when it is built
      setInt(value > uint64_t(INT64_MAX) ? INT64_MAX : int64_t(value));
  }
  Ex(Variable variable) : Ex(named(variable.name)) {}

  /// `name[index]` and `name[i, j, ...]`; only of `ref(...)`.
  Ex operator[](const Ex &index) const { return at({index}); }
  Ex at(std::initializer_list<Ex> indices) const;

  /// Null if it is too deep or too large.
  const ExprRef &expr() const { return node; }

  /// Building blocks; the functions below are easier to read.
  static Ex named(std::string name);
  static Ex call(std::string name, std::vector<Ex> args);
  static Ex list(std::vector<Ex> elements);
  static Ex unary(Op op, const Ex &operand);
  static Ex binary(Op op, const Ex &left, const Ex &right);
  static Ex select(const Ex &condition, const Ex &then, const Ex &otherwise);

private:
  Ex() = default;
  static Ex make(Expr expr, const std::vector<Ex> &args);
  void setBool(bool value);
  void setInt(int64_t value);
  void setFloat(double value);

  ExprRef node;
  unsigned depth = 0;
  uint64_t size = 0;
};

constexpr Variable s{"s"}, b{"b"}, h{"h"}, g{"g"}, q{"q"}, k{"k"};
constexpr Variable qLen{"q_len"}, kvLen{"kv_len"};

/// A let or a parameter by its name.
inline Ex ref(std::string name) { return Ex::named(std::move(name)); }
/// A list, for `Variant::let` and `Variant::kvMap`.
inline Ex list(std::vector<Ex> elements) {
  return Ex::list(std::move(elements));
}
/// `condition ? then : otherwise`.
inline Ex select(const Ex &condition, const Ex &then, const Ex &otherwise) {
  return Ex::select(condition, then, otherwise);
}
/// Any function of the language by its name.
inline Ex call(std::string name, std::vector<Ex> args) {
  return Ex::call(std::move(name), std::move(args));
}

inline Ex operator-(const Ex &a) { return Ex::unary(Op::Neg, a); }
inline Ex operator!(const Ex &a) { return Ex::unary(Op::Not, a); }
inline Ex operator||(const Ex &a, const Ex &b) {
  return Ex::binary(Op::Or, a, b);
}
inline Ex operator&&(const Ex &a, const Ex &b) {
  return Ex::binary(Op::And, a, b);
}
inline Ex operator==(const Ex &a, const Ex &b) {
  return Ex::binary(Op::Eq, a, b);
}
inline Ex operator!=(const Ex &a, const Ex &b) {
  return Ex::binary(Op::Ne, a, b);
}
inline Ex operator<(const Ex &a, const Ex &b) {
  return Ex::binary(Op::Lt, a, b);
}
inline Ex operator<=(const Ex &a, const Ex &b) {
  return Ex::binary(Op::Le, a, b);
}
inline Ex operator>(const Ex &a, const Ex &b) {
  return Ex::binary(Op::Gt, a, b);
}
inline Ex operator>=(const Ex &a, const Ex &b) {
  return Ex::binary(Op::Ge, a, b);
}
inline Ex operator+(const Ex &a, const Ex &b) {
  return Ex::binary(Op::Add, a, b);
}
inline Ex operator-(const Ex &a, const Ex &b) {
  return Ex::binary(Op::Sub, a, b);
}
inline Ex operator*(const Ex &a, const Ex &b) {
  return Ex::binary(Op::Mul, a, b);
}
inline Ex operator/(const Ex &a, const Ex &b) {
  return Ex::binary(Op::Div, a, b);
}
inline Ex operator%(const Ex &a, const Ex &b) {
  return Ex::binary(Op::Rem, a, b);
}

inline Ex abs(const Ex &x) { return call("abs", {x}); }
inline Ex min(const Ex &x, const Ex &y) { return call("min", {x, y}); }
inline Ex max(const Ex &x, const Ex &y) { return call("max", {x, y}); }
inline Ex floor(const Ex &x) { return call("floor", {x}); }
inline Ex exp(const Ex &x) { return call("exp", {x}); }
inline Ex exp2(const Ex &x) { return call("exp2", {x}); }
inline Ex log(const Ex &x) { return call("log", {x}); }
inline Ex log2(const Ex &x) { return call("log2", {x}); }
inline Ex sqrt(const Ex &x) { return call("sqrt", {x}); }
inline Ex tanh(const Ex &x) { return call("tanh", {x}); }
inline Ex sigmoid(const Ex &x) { return call("sigmoid", {x}); }
inline Ex causal() { return Ex::named("causal"); }
inline Ex window(const Ex &l) { return call("window", {l}); }
inline Ex window(const Ex &l, const Ex &r) { return call("window", {l, r}); }
inline Ex window(const Ex &l, const Ex &r, const Ex &d) {
  return call("window", {l, r, d});
}
inline Ex sliding(const Ex &n) { return call("sliding", {n}); }
inline Ex neighborhood(const Ex &n) { return call("neighborhood", {n}); }
inline Ex neighborhood(const Ex &n, const Ex &d) {
  return call("neighborhood", {n, d});
}
inline Ex global(const Ex &t) { return call("global", {t}); }
inline Ex prefix(const Ex &n) { return call("prefix", {n}); }
inline Ex softcap(const Ex &x, const Ex &c) { return call("softcap", {x, c}); }
inline Ex alibiSlope(const Ex &head) { return call("alibi_slope", {head}); }

/// The named dimensions of parameters; a constant is given as a number.
inline Ex batch() { return ref("batch"); }
inline Ex heads() { return ref("heads"); }
inline Ex kvHeads() { return ref("kv_heads"); }
inline Ex queries() { return ref("queries"); }
inline Ex keys() { return ref("keys"); }
inline Ex tokens() { return ref("tokens"); }

} // namespace dsl

namespace internal {
struct Draft;
}

/// Describes one variant. A value: copies are independent, so that one can be
/// the start of several. Setting a field again replaces it. Nothing is checked
/// before `build`. Distinct objects may be used from distinct threads.
class Variant {
public:
  explicit Variant(std::string name);
  Variant(const Variant &other);
  Variant(Variant &&other) noexcept;
  Variant &operator=(const Variant &other);
  Variant &operator=(Variant &&other) noexcept;
  ~Variant();

  /// A parameter of each call: a scalar, or an array of `dims` elements.
  Variant &param(std::string name, Type type, std::vector<dsl::Ex> dims = {});
  /// A named constant, scalar or `dsl::list`; may use those before it.
  Variant &let(std::string name, const dsl::Ex &value);

  Variant &heads(const dsl::Ex &count);
  Variant &kvHeads(const dsl::Ex &count);
  /// A `dsl::list`, or a name of one: the kv head of each query head.
  Variant &kvMap(const dsl::Ex &map);
  /// The width of a head, in elements.
  Variant &headDim(const dsl::Ex &width);
  Variant &headDim(const dsl::Ex &qk, const dsl::Ex &value);
  /// With `latent`.
  Variant &headDim(const dsl::Ex &nope, const dsl::Ex &rope,
                   const dsl::Ex &value);
  Variant &latent(const dsl::Ex &width);
  Variant &type(Type all);
  Variant &type(Type q, Type kv, Type out);
  Variant &scale(const dsl::Ex &value);
  Variant &score(const dsl::Ex &value);
  Variant &mask(const dsl::Ex &value);
  Variant &sink(const dsl::Ex &value);
  Variant &align(Align value);
  /// `scalingArgs` as in the text: the last ones may be left out.
  Variant &rope(const Rope &value);

  /// Checks everything, by the rules that texts are checked by. One Spec, or
  /// diagnostics that name the part in place of a line. `options` as for
  /// `parse`.
  ParseResult build(const ParseOptions &options = {}) const;

private:
  Variant &setValue(const char *field, const dsl::Ex &value);
  Variant &
  setRecord(const char *field,
            const std::vector<std::pair<const char *, dsl::Ex>> &entries);

  std::unique_ptr<internal::Draft> draft;
  std::vector<std::string> tooLarge; ///< parts with an invalid expression
};

} // namespace attn

#endif

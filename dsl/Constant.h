//===- dsl/Constant.h - Values known when compiling -----------------------===//
//
// Part of attnc. Apache-2.0.
//
// Integers are i32 with every overflow found; floats are double here and are
// rounded to f32 where they are used.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_DSL_CONSTANT_H
#define ATTNC_DSL_CONSTANT_H

#include "dsl/Spec.h"

#include <unordered_map>

namespace attn::internal {

struct Constant {
  enum Kind : uint8_t { Unknown, Bool, Int, Float } kind = Unknown;
  int64_t integer = 0; ///< Bool, Int
  double real = 0;     ///< Float

  static Constant ofBool(bool value) { return {Bool, value, 0}; }
  static Constant ofInt(int64_t value) { return {Int, value, 0}; }
  static Constant ofFloat(double value) { return {Float, 0, value}; }

  explicit operator bool() const { return kind != Unknown; }
  bool isTrue() const { return kind == Bool && integer; }
  bool isFalse() const { return kind == Bool && !integer; }
  double number() const { return kind == Float ? real : double(integer); }
  std::string text() const;
};

/// Why an operation on known values has no value.
enum class Fault : uint8_t { None, Overflow, DivisionByZero };

/// An i32 as f32 where the type asks for it; any other value as it is.
Constant convert(Constant value, Type type);

Constant foldUnary(Op op, Constant a, Fault &fault);
Constant foldBinary(Op op, Constant a, Constant b, Fault &fault);
/// Functions of numbers only; others are Unknown.
Constant foldCall(std::string_view name, const std::vector<Constant> &args,
                  Fault &fault);

/// The value of a literal.
Constant literal(const Expr &expr);

/// The values of the lets of a variant, by name.
class LetValues {
public:
  /// A checked let; those it names have been added before.
  void add(const Let &let);
  /// Unknown if there is none, it is a list, or it has no value.
  Constant scalar(std::string_view name) const;
  /// The elements of a list; nullptr if there is none.
  const std::vector<Constant> *list(std::string_view name) const;

private:
  struct Value {
    Constant scalar;
    std::vector<Constant> elements;
    bool isList = false;
  };
  std::unordered_map<std::string, Value> values;
};

/// What an evaluation takes `h` and `g` to be.
struct HeadValues {
  Constant head, kvHead;
};

/// The value of a checked expression. `work` counts down by the nodes visited;
/// at 0 everything is Unknown.
Constant evaluate(const Expr &expr, const LetValues &lets,
                  const HeadValues &heads, uint64_t &work);

} // namespace attn::internal

#endif

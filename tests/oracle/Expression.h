//===- tests/oracle/Expression.h - Expressions of the language, evaluated -===//
//
// Part of attnc. Apache-2.0.
//
// Evaluates expressions of a Spec at one point of (batch, head, query, key), as
// language.md defines them. Written from the language's definition alone: it
// shares no code with the compiler and does not trust the types that the parser
// has put into the tree.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_ORACLE_EXPRESSION_H
#define ATTNC_TESTS_ORACLE_EXPRESSION_H

#include "dsl/Spec.h"
#include <memory>
#include <string>
#include <vector>

namespace attn::oracle {

/// The value of one declared parameter: row-major elements (integers are exact
/// in double) and its extents, of which 1 stands for any. A `tokens` list
/// without dimensions has the shape [batch, n]; negative elements of it are
/// padding. A scalar has no extents.
struct ParamValue {
  std::vector<double> values;
  std::vector<int64_t> shape;
};
using Params = std::vector<ParamValue>;

/// One element of a parameter: which of the declared ones, and its row-major
/// number.
struct ParamElement {
  size_t param = 0;
  size_t element = 0;
};

/// Where an expression is evaluated. Positions, not row numbers.
struct Point {
  int64_t b = 0, h = 0, g = 0, q = 0, k = 0;
  int64_t qLen = 0, kvLen = 0;
  double s = 0;
};

/// An integer (bool included) or a floating-point number. C's promotion holds:
/// an operation on two integers is an integer, any other is floating point.
struct Value {
  bool isFloat = false;
  int64_t i = 0;
  double f = 0;

  static Value integer(int64_t v) { return {false, v, 0}; }
  static Value real(double v) { return {true, 0, v}; }
  double asReal() const { return isFloat ? f : static_cast<double>(i); }
  bool truth() const { return isFloat ? f != 0 : i != 0; }
};

/// Floating-point results of masks are rounded to f32 after each operation, so
/// that a comparison decides as it does in f32 arithmetic; those of everything
/// else stay in double.
enum class Precision { F32, F64 };

struct Node; // an expression with its names resolved

/// One expression of a Spec, with its names looked up once. The Spec and the
/// parameters must outlive it. Not to be shared between threads.
class Expression {
public:
  /// On failure `error` is set and the expression must not be evaluated.
  Expression(const Spec &spec, const Params &params, const ExprRef &expr,
             Precision precision, std::string &error);
  ~Expression();
  Expression(const Expression &) = delete;
  Expression &operator=(const Expression &) = delete;

  /// On failure (division by zero) sets `error`, which stays as it is
  /// otherwise. An index outside its list or dimension takes the nearest
  /// element; that into a dimension `queries` counts from the first query. An
  /// array without elements reads as 1, or false.
  Value at(const Point &point, std::string &error) const;

  /// Appends the elements of parameters that the value may depend on, whatever
  /// conditions and operands of && and || are. Scalars and lists of tokens are
  /// left out.
  void readsAt(const Point &point, std::vector<ParamElement> &reads) const;

private:
  Precision precision;
  const Spec &spec;
  std::unique_ptr<Node> root;
};

} // namespace attn::oracle

#endif

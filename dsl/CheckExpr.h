//===- dsl/CheckExpr.h - Names and types of expressions -------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_DSL_CHECKEXPR_H
#define ATTNC_DSL_CHECKEXPR_H

#include "dsl/Constant.h"
#include "dsl/Errors.h"
#include "dsl/Words.h"

namespace attn::internal {

/// Where an expression stands: what it may depend on.
struct Place {
  std::string_view what; ///< "'mask'"
  unsigned allowed = 0;  ///< Dependence bits
  bool onlyIntParams = false;
};

/// A checked expression: its tree with types, and what is known of its value.
/// `expr` is null after an error, which has been reported.
struct Checked {
  ExprRef expr;
  Constant value;
  unsigned dependence = 0;

  explicit operator bool() const { return expr != nullptr; }
  Type type() const { return expr->type; }
  bool isNumber() const {
    return !expr->isList && (type() == Type::I32 || type() == Type::F32);
  }
};

/// Types the expressions of one variant. Names are added first; then the sizes
/// that indices are checked against are set in `spec`.
class ExprChecker {
public:
  /// `work` bounds what is spent on trying values for each head, over the
  /// whole text; it is counted down.
  ExprChecker(Spec &spec, Errors &errors, uint64_t &work, bool incomplete)
      : spec(spec), errors(errors), work(work), incomplete(incomplete) {}

  /// Declares the name of a parameter or let; false, with an error, if it is
  /// reserved or taken.
  bool declare(std::string_view name, SourceRange where);
  /// The declared name stands for this, or (null) for something with an error.
  void define(std::string_view name, const Param *param);
  void define(const Let &let);

  /// Any expression but a list.
  Checked check(const ExprRef &expr, const Place &place);
  /// A list literal: of constants, all of one type after promotion.
  Checked checkList(const ExprRef &expr, const Place &place);

  bool isDeclared(std::string_view name) const { return names.count(name); }
  /// Declared, and without an error.
  bool isUsable(std::string_view name) const {
    auto found = names.find(name);
    return found != names.end() && !found->second.broken;
  }
  /// The name of a list-valued let, or null.
  const Let *findList(std::string_view name) const;
  const LetValues &letValues() const { return lets; }

private:
  struct Entity {
    const Param *param = nullptr;
    const Let *let = nullptr; ///< neither: declared, not usable yet
    bool broken = false;
  };

  Checked checkNode(const ExprRef &expr);
  Checked checkName(const ExprRef &expr);
  Checked checkUnary(const ExprRef &expr);
  Checked checkBinary(const ExprRef &expr);
  Checked checkSelect(const ExprRef &expr);
  Checked checkIndex(const ExprRef &expr);
  Checked checkCall(const ExprRef &expr);
  Checked checkTokensCall(const ExprRef &expr, const Function &function);
  bool checkArguments(const Expr &call, const Function &function,
                      std::vector<Checked> &args);
  bool checkIndexRange(const Checked &index, const std::string &list,
                       std::optional<int64_t> extent);
  std::optional<int64_t> extentOf(const Dim &dim) const;

  /// The type a parameter's elements have in expressions.
  static Type valueType(Type type);
  /// The variables that `place` allows, for a hint.
  std::string variablesHint() const;
  Checked checkParamUse(const ExprRef &expr, const Param &param);
  Checked unknownName(const ExprRef &expr);
  Checked report(SourceRange where, std::string message, std::string hint = {});
  bool wantBool(const Checked &operand, const std::string &what);
  Checked finish(const ExprRef &from, Type type, std::vector<Checked> args,
                 Constant value, Fault fault);

  /// Calls `test` with the value for each head if it depends on nothing else,
  /// until it returns false; with the constant if it is one.
  template <typename Test> void forEachValue(const Checked &of, Test test);

  Spec &spec;
  Errors &errors;
  uint64_t &work;
  const bool incomplete;
  LetValues lets;
  std::unordered_map<std::string_view, Entity> names;
  Words declared; ///< in order, for suggestions

  const Place *place = nullptr;
  bool dead = false;    ///< in what a constant condition leaves out
  bool guarded = false; ///< in what a condition may leave out
};

} // namespace attn::internal

#endif

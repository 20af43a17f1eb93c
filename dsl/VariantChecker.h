//===- dsl/VariantChecker.h - The checker of one variant ------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_DSL_VARIANTCHECKER_H
#define ATTNC_DSL_VARIANTCHECKER_H

#include "dsl/CheckExpr.h"
#include "dsl/Draft.h"

namespace attn::internal {

class VariantChecker {
public:
  VariantChecker(const Draft &draft, Errors &errors, uint64_t &work);

  /// The Spec; of use only if no error was reported.
  Spec run();

private:
  // Names (Check.cpp).
  void checkParams();
  void checkDims();
  void checkLet(const DraftLet &from);
  ExprRef checkLetValue(const ExprRef &value, const std::string &what);

  // Values known when compiling; nullopt or "" after an error (Check.cpp).
  std::optional<Constant> constant(const ExprRef &expr,
                                   const std::string &what);
  std::optional<int64_t> constantInt(const ExprRef &expr,
                                     const std::string &what, int64_t least);
  std::optional<double> constantNumber(const ExprRef &expr,
                                       const std::string &what);
  std::string word(const ExprRef &expr, const std::string &what,
                   const Words &allowed);

  // Expressions (Check.cpp).
  ExprRef numberField(const DraftField *field, const Place &place);
  void checkMask();

  // Fields (CheckFields.cpp).
  void collectFields();
  const DraftField *find(std::string_view name) const;
  const DraftField *require(std::string_view name);
  bool isPlain(const DraftField &field);
  bool checkKeys(const DraftField &field, const Words &keys);
  const DraftEntry *entry(const DraftField &field, std::string_view key) const;
  std::optional<int64_t> sizeEntry(const DraftField &field,
                                   std::string_view key, int64_t least);
  void checkSizes();
  void checkHeadDim();
  void checkKvMap();
  void checkTypes();
  void checkAlign();
  void checkRope();
  void checkScaling(const ExprRef &expr, Rope &rope);

  std::string contextOf(const char *kind, const std::string &name) const;

  const Draft &draft;
  Errors &errors;
  Spec spec;
  ExprChecker exprs;
  std::vector<const DraftParam *> declaredParams; ///< as spec.params
  std::unordered_map<std::string_view, const DraftField *> fields;
};

} // namespace attn::internal

#endif

//===- dsl/Draft.h - A variant as written, before it is checked -----------===//
//
// Part of attnc. Apache-2.0.
//
// What the parser and the C++ builder make, and the checker turns into a Spec.
// Expressions have no types yet: every name is a Name, `causal` too, and types
// and other words are Names. A null expression is one whose error has already
// been reported; the checker does not complain about it again.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_DSL_DRAFT_H
#define ATTNC_DSL_DRAFT_H

#include "dsl/Spec.h"

namespace attn::internal {

struct DraftEntry { ///< `name = value` within braces
  std::string name;
  SourceRange where;
  ExprRef value;
};

struct DraftField {
  std::string name;
  SourceRange where; ///< of the name
  SourceRange valueWhere;
  bool isRecord = false;
  ExprRef value;                   ///< not a record
  std::vector<DraftEntry> entries; ///< a record
  bool broken = false;             ///< its error has been reported
};

struct DraftParam {
  std::string name;
  SourceRange where;
  std::string type;
  SourceRange typeWhere;
  std::vector<ExprRef> dims;
};

struct DraftLet {
  std::string name;
  SourceRange where;
  ExprRef value;
  ExprRef fixed;            ///< by `-D`: takes the place of `value`
  std::string fixedBy;      ///< "-D NAME=VALUE"
  std::string declaredType; ///< of a scalar parameter that `-D` fixes
};

struct Draft {
  std::string name;
  SourceRange where;
  std::vector<DraftParam> params;
  std::vector<DraftLet> lets;
  std::vector<DraftField> fields;
  /// Something was skipped after an error: what is missing or unknown may have
  /// been in it.
  bool incomplete = false;
};

} // namespace attn::internal

#endif

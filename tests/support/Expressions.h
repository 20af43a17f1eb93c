//===- tests/support/Expressions.h - Random masks and scores --------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_EXPRESSIONS_H
#define ATTNC_TESTS_SUPPORT_EXPRESSIONS_H

#include "tests/support/Choices.h"
#include "tests/support/Generate.h"
#include "tests/support/Parameters.h"
#include <string>
#include <vector>

namespace attn::test {

/// A size from 1 to `most`: mostly small, often at the edge of a vector or of a
/// tile. 1 is the simplest.
int64_t randomSize(Choices &choices, int64_t most);

/// The `let`s that the expressions of one variant use, made as they ask.
class ListWriter {
public:
  ListWriter(Choices &choices, int64_t heads, int64_t kvHeads)
      : choices(choices), heads(heads), kvHeads(kvHeads) {}

  /// An element of a new list of integers from low to high, as `l0[h]`.
  std::string integer(int64_t low, int64_t high);
  /// The same of multiples of 1/16, at most `most` in magnitude.
  std::string real(double most);
  /// The same of truth values.
  std::string boolean();
  /// The definitions, a line each.
  const std::string &text() const { return definitions; }

private:
  /// An index by head, and how many elements it needs.
  std::string index(int64_t &extent);
  std::string define(const std::vector<std::string> &elements,
                     const std::string &index);

  Choices &choices;
  int64_t heads, kvHeads;
  int made = 0;
  std::string definitions;
};

/// Random masks.
class MaskWriter {
public:
  MaskWriter(Choices &choices, const Features &features, ListWriter &lists,
             ParamWriter &params)
      : choices(choices), features(features), lists(lists), params(params) {}
  std::string write(int depth);

private:
  std::string built();
  std::string window();
  std::string neighborhood();
  std::string linear();
  std::string comparison();
  std::string ofHeads(int depth);

  Choices &choices;
  const Features &features;
  ListWriter &lists;
  ParamWriter &params;
};

/// Random scores whose value in f32 stays as near to that in double as rule 7
/// of the language needs: for every part of an expression the writer knows a
/// bound of its magnitude, of its f32 error, and of its slope in `s`, and
/// scales down what exceeds the limits. What jumps (`floor`, conditions) is
/// applied to integers only, which are exact.
class ScoreWriter {
public:
  ScoreWriter(Choices &choices, const Features &features, ListWriter &lists,
              ParamWriter &params)
      : choices(choices), features(features), lists(lists), params(params) {}
  std::string write();

private:
  struct Part {
    std::string text;
    double most = 0;  ///< of the magnitude
    double slope = 0; ///< Lipschitz constant in s
    double error = 0; ///< of f32, absolute, given an exact s
  };

  Part part(int depth);
  std::string whole();
  Part leaf();
  Part bias();
  Part ofParameters();
  Part call(int depth);
  Part operation(int depth);
  Part within(Part x) const;
  std::string position();
  std::string condition();

  Choices &choices;
  const Features &features;
  ListWriter &lists;
  ParamWriter &params;
};

} // namespace attn::test

#endif

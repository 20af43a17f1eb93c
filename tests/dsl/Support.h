//===- tests/dsl/Support.h - Short ways to read texts ---------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_DSL_SUPPORT_H
#define ATTNC_TESTS_DSL_SUPPORT_H

#include "dsl/Spec.h"

#include <gtest/gtest.h>

namespace attn {

using Defines = std::vector<std::pair<std::string, std::string>>;

/// One line for each error: `line:column+length: message | hint`.
inline std::string errorsOf(const ParseResult &result) {
  std::string out;
  for (const Diagnostic &d : result.diagnostics) {
    if (d.where.line)
      out += std::to_string(d.where.line) + ":" +
             std::to_string(d.where.column) + "+" +
             std::to_string(d.where.length) + ": ";
    out += d.message;
    if (!d.hint.empty())
      out += " | " + d.hint;
    out += "\n";
  }
  return out;
}

inline std::string errorsOf(const std::string &text,
                            const Defines &defines = {}) {
  return errorsOf(parse(text, {defines}));
}

/// The only variant of a text without errors.
inline Spec parseOne(const std::string &text, const Defines &defines = {}) {
  ParseResult result = parse(text, {defines});
  EXPECT_EQ(errorsOf(result), "") << text;
  EXPECT_EQ(result.specs.size(), 1u) << text;
  return result.specs.empty() ? Spec() : result.specs[0];
}

/// A small variant: `more` is on the first line, `body` on the second.
inline std::string variant(const std::string &body,
                           const std::string &params = "",
                           const std::string &more = "") {
  return "attention x" + (params.empty() ? "" : "(" + params + ")") +
         " { heads = 4 head_dim = 8 " + more + "\n" + body + "\n}";
}

/// The mask of such a variant, in canonical text.
inline std::string maskOf(const std::string &mask,
                          const std::string &params = "") {
  return print(parseOne(variant("mask = " + mask, params)).mask);
}

} // namespace attn

#endif

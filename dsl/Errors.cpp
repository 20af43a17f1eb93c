//===- dsl/Errors.cpp - Where the reader and the checker report to --------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "dsl/Errors.h"

#include <algorithm>
#include <fmt/format.h>

using namespace attn;
using namespace attn::internal;

void Errors::add(SourceRange where, std::string message, std::string hint) {
  if (full())
    return;
  if (where.line == 0 && !context.empty())
    message = context + ": " + message;
  // Few enough that keeping them in order costs nothing.
  auto later =
      std::upper_bound(found.begin(), found.end(), where,
                       [](const SourceRange &a, const Diagnostic &b) {
                         return std::make_pair(a.line, a.column) <
                                std::make_pair(b.where.line, b.where.column);
                       });
  found.insert(later, {where, std::move(message), std::move(hint)});
}

std::vector<Diagnostic> Errors::take() {
  if (full())
    found.push_back(
        {found.back().where,
         fmt::format("too many errors; reading stopped after {}", kLimit), ""});
  return std::move(found);
}

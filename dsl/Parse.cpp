//===- dsl/Parse.cpp - From text to specs ---------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "dsl/Check.h"
#include "dsl/Parser.h"

#include <fmt/format.h>

using namespace attn;
using namespace attn::internal;

ParseResult attn::parse(std::string_view text, const ParseOptions &options) {
  // Memory is a fixed multiple of the text's length, so the length is bounded.
  constexpr size_t kLargest = size_t(16) << 20;
  Errors errors;
  if (text.size() > kLargest) {
    errors.add({1, 1, 0}, fmt::format("the text has {} bytes", text.size()),
               fmt::format("at most {} are read", kLargest));
    return {{}, errors.take()};
  }
  std::vector<Token> tokens = lex(text, errors);
  std::vector<Draft> drafts = Parser(tokens, errors).parseText();
  bool wellFormed = errors.count() == 0;
  return checkAll(std::move(drafts), options, errors, wellFormed);
}

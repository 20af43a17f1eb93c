//===- dsl/Lexer.h - From bytes to tokens ---------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_DSL_LEXER_H
#define ATTNC_DSL_LEXER_H

#include "dsl/Errors.h"

namespace attn::internal {

enum class Tok : uint8_t {
  End,
  Bad, ///< stands where an error has been reported
  Name,
  Int,
  Float,
  LParen,
  RParen,
  LBracket,
  RBracket,
  LBrace,
  RBrace,
  Comma,
  Colon,
  Question,
  Assign,
  OrOr,
  AndAnd,
  EqEq,
  NotEq,
  Less,
  LessEq,
  Greater,
  GreaterEq,
  Plus,
  Minus,
  Star,
  Slash,
  Percent,
  Bang,
};

struct Token {
  Tok kind = Tok::End;
  bool startsLine = false;
  uint32_t depth = 0; ///< brackets open around it
  std::string_view text;
  SourceRange where;
  int64_t intValue = 0;
  double floatValue = 0;

  bool is(Tok k) const { return kind == k; }
  bool isWord(std::string_view word) const {
    return kind == Tok::Name && text == word;
  }
};

/// True where `attention NAME (` or `attention NAME {` starts at token `i`:
/// nothing else looks like that, so it is where reading resumes after errors.
bool startsAttention(const std::vector<Token> &tokens, size_t i);

/// The tokens of a text, `End` last. Without `places` all are at line 0.
/// The tokens refer to `text`.
std::vector<Token> lex(std::string_view text, Errors &errors,
                       bool places = true);

} // namespace attn::internal

#endif

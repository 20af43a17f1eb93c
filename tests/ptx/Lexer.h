//===- tests/ptx/Lexer.h - Words of a PTX text ----------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PTX_LEXER_H
#define ATTNC_TESTS_PTX_LEXER_H

#include <cstdint>
#include <string>
#include <string_view>

namespace attn::ptx {

struct Token {
  enum class Kind : uint8_t {
    Word,     ///< a name, an opcode with its modifiers, or a directive
    Integer,  ///< `bits` holds its value
    Single,   ///< 0f...
    Double,   ///< 0d..., or with a decimal point
    Text,     ///< in quotes, without them
    Mark,     ///< one character of punctuation
    Implicit, ///< a comment that says that a register is undefined on purpose
    End,
  };
  Kind kind = Kind::End;
  std::string text;
  int64_t bits = 0;
  int line = 1;
};

/// Hands out the words of a text one by one. Throws Error.
class Lexer {
public:
  Lexer(std::string_view text, std::string moduleName);

  const Token &peek() const { return ahead; }
  Token take();
  bool takeMark(char mark);
  bool takeWord(std::string_view word);
  void expectMark(char mark);
  std::string expectWord(std::string_view what);
  int64_t expectInteger(std::string_view what);

  [[noreturn]] void fail(int line, const std::string &message) const;

private:
  Token next();
  Token number();
  void skipBlank();
  char at(size_t offset) const {
    return position + offset < text.size() ? text[position + offset] : '\0';
  }

  std::string_view text;
  std::string module;
  size_t position = 0;
  int line = 1;
  std::string implicit; ///< the register of a comment just skipped
  Token ahead;
};

} // namespace attn::ptx

#endif

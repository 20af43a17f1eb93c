//===- tests/ptx/Lexer.cpp - Words of a PTX text --------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Lexer.h"
#include "Interpreter.h"
#include "Numbers.h"
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <fmt/format.h>

namespace attn::ptx {

namespace {

bool startsWord(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' ||
         c == '%' || c == '.';
}
bool continuesWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' ||
         c == '.';
}

} // namespace

Lexer::Lexer(std::string_view source, std::string moduleName)
    : text(source), module(std::move(moduleName)) {
  ahead = next();
}

void Lexer::fail(int atLine, const std::string &message) const {
  throw Error(atLine, fmt::format("{}:{}: {}", module, atLine, message));
}

Token Lexer::take() {
  Token taken = std::move(ahead);
  ahead = next();
  return taken;
}

bool Lexer::takeMark(char mark) {
  if (ahead.kind != Token::Kind::Mark || ahead.text[0] != mark)
    return false;
  take();
  return true;
}

bool Lexer::takeWord(std::string_view word) {
  if (ahead.kind != Token::Kind::Word || ahead.text != word)
    return false;
  take();
  return true;
}

void Lexer::expectMark(char mark) {
  if (!takeMark(mark))
    fail(ahead.line,
         fmt::format("expected '{}', found '{}'", mark, ahead.text));
}

std::string Lexer::expectWord(std::string_view what) {
  if (ahead.kind != Token::Kind::Word)
    fail(ahead.line, fmt::format("expected {}, found '{}'", what, ahead.text));
  return take().text;
}

int64_t Lexer::expectInteger(std::string_view what) {
  bool negative = takeMark('-');
  if (ahead.kind != Token::Kind::Integer)
    fail(ahead.line, fmt::format("expected {}, found '{}'", what, ahead.text));
  uint64_t value = uint64_t(take().bits);
  return int64_t(negative ? 0 - value : value);
}

void Lexer::skipBlank() {
  while (position < text.size()) {
    if (text[position] == '\n') {
      line++;
      position++;
    } else if (std::isspace(static_cast<unsigned char>(text[position]))) {
      position++;
    } else if (at(0) == '/' && at(1) == '/') {
      size_t end = std::min(text.find('\n', position), text.size());
      std::string_view comment = text.substr(position, end - position);
      constexpr std::string_view undefined = "// implicit-def: ";
      position = end;
      if (comment.substr(0, undefined.size()) == undefined) {
        comment.remove_prefix(undefined.size());
        implicit = comment.substr(0, comment.find_first_of(" \t\r"));
        return;
      }
    } else if (at(0) == '/' && at(1) == '*') {
      size_t end = text.find("*/", position + 2);
      if (end == std::string_view::npos)
        fail(line, "a comment does not end");
      for (; position < end + 2; position++)
        line += text[position] == '\n';
    } else {
      return;
    }
  }
}

Token Lexer::next() {
  skipBlank();
  Token token;
  token.line = line;
  if (!implicit.empty()) {
    token.kind = Token::Kind::Implicit;
    token.text = std::move(implicit);
    implicit.clear();
    return token;
  }
  if (position == text.size())
    return token;
  char c = at(0);
  if (std::isdigit(static_cast<unsigned char>(c)))
    return number();
  size_t start = position;
  if (startsWord(c)) {
    position++;
    // A word holds '::' (as in shared::cta), but a label ends before ':'.
    while (continuesWord(at(0)) || (at(0) == ':' && at(1) == ':'))
      position += at(0) == ':' ? 2 : 1;
    token.kind = Token::Kind::Word;
    token.text = text.substr(start, position - start);
    return token;
  }
  if (c == '"') {
    size_t end = text.find('"', position + 1);
    if (end == std::string_view::npos)
      fail(line, "a quoted text does not end");
    token.kind = Token::Kind::Text;
    token.text = text.substr(position + 1, end - position - 1);
    position = end + 1;
    return token;
  }
  token.kind = Token::Kind::Mark;
  token.text = std::string(1, c);
  position++;
  return token;
}

Token Lexer::number() {
  Token token;
  token.line = line;
  size_t start = position;
  while (continuesWord(at(0)) ||
         ((at(0) == '+' || at(0) == '-') && at(1) != '\0' && position > start &&
          std::tolower(text[position - 1]) == 'e' &&
          text.substr(start, 2) != "0x" && text.substr(start, 2) != "0f" &&
          text.substr(start, 2) != "0d"))
    position++;
  token.text = text.substr(start, position - start);
  const char *begin = token.text.c_str();
  char *end = nullptr;
  char second = token.text.size() > 1 ? char(std::tolower(begin[1])) : '\0';
  errno = 0;
  if (begin[0] == '0' && (second == 'f' || second == 'd')) {
    size_t digits = second == 'f' ? 8 : 16;
    token.kind = second == 'f' ? Token::Kind::Single : Token::Kind::Double;
    token.bits = int64_t(std::strtoull(begin + 2, &end, 16));
    if (token.text.size() != digits + 2)
      fail(line, fmt::format("'{}' needs {} digits", token.text, digits));
  } else if (token.text.find('.') != std::string::npos) {
    token.kind = Token::Kind::Double;
    token.bits = bitCast<int64_t>(std::strtod(begin, &end));
  } else {
    token.kind = Token::Kind::Integer;
    bool binary = second == 'b' && begin[0] == '0';
    token.bits = binary ? int64_t(std::strtoull(begin + 2, &end, 2))
                        : int64_t(std::strtoull(begin, &end, 0));
    if (*end == 'U')
      end++;
  }
  if (errno != 0 || end == begin || *end != '\0')
    fail(line, fmt::format("not a number: '{}'", token.text));
  return token;
}

} // namespace attn::ptx

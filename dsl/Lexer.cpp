//===- dsl/Lexer.cpp - From bytes to tokens -------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "dsl/Lexer.h"
#include "dsl/Words.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>

using namespace attn;
using namespace attn::internal;

namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool isNamePart(char c) { return isNameStart(c) || isDigit(c); }

class Lexer {
public:
  Lexer(std::string_view text, Errors &errors, bool places)
      : text(text), errors(errors), places(places) {}

  std::vector<Token> run();

private:
  char at(size_t offset) const {
    return pos + offset < text.size() ? text[pos + offset] : '\0';
  }
  SourceRange range(size_t begin, size_t end) const {
    if (!places)
      return {};
    return {line, uint32_t(begin - lineStart + 1), uint32_t(end - begin)};
  }
  void newLine() {
    ++line;
    lineStart = pos;
    startsLine = true;
  }
  void emit(Tok kind, size_t length);
  bool skipBlockComment();
  void lexName();
  void lexNumber();
  void lexSymbol();
  void lexUnexpected();
  void setDepths();

  std::string_view text;
  Errors &errors;
  bool places;
  size_t pos = 0;
  size_t lineStart = 0;
  uint32_t line = 1;
  bool startsLine = true;
  std::vector<Token> tokens;
};

void Lexer::emit(Tok kind, size_t length) {
  Token token;
  token.kind = kind;
  token.startsLine = startsLine;
  token.text = text.substr(pos, length);
  token.where = range(pos, pos + length);
  tokens.push_back(token);
  startsLine = false;
  pos += length;
}

bool Lexer::skipBlockComment() {
  SourceRange start = range(pos, pos + 2);
  pos += 2;
  while (pos < text.size()) {
    if (at(0) == '*' && at(1) == '/') {
      pos += 2;
      return true;
    }
    if (text[pos++] == '\n')
      newLine();
  }
  errors.add(start, "this comment has no end", "'*/' ends it");
  return false;
}

void Lexer::lexName() {
  size_t end = pos;
  while (end < text.size() && isNamePart(text[end]))
    ++end;
  emit(Tok::Name, end - pos);
}

/// Takes everything that looks like part of a number, so that `0x10` or `1.5f`
/// is one error and not two tokens.
void Lexer::lexNumber() {
  size_t end = pos;
  bool isFloat = false;
  while (end < text.size()) {
    char c = text[end];
    bool isExponent = c == 'e' || c == 'E';
    if (isExponent && end + 1 < text.size() &&
        (text[end + 1] == '+' || text[end + 1] == '-'))
      end += 2;
    else if (isNamePart(c) || c == '.')
      ++end;
    else
      break;
    isFloat |= isExponent || c == '.';
  }
  std::string_view word = text.substr(pos, end - pos);
  SourceRange where = range(pos, end);
  bool leadingZero = !isFloat && word.size() > 1 && word[0] == '0' &&
                     word.find_first_not_of("0123456789") == word.npos;
  int64_t intValue = 0;
  double floatValue = 0;
  std::from_chars_result result{};
  if (isFloat)
    result = std::from_chars(word.data(), word.data() + word.size(), floatValue,
                             std::chars_format::general);
  else
    result = std::from_chars(word.data(), word.data() + word.size(), intValue);

  Tok kind = isFloat ? Tok::Float : Tok::Int;
  if (leadingZero) {
    errors.add(where, fmt::format("number {} starts with a zero", quote(word)),
               "numbers are decimal");
    kind = Tok::Bad;
  } else if (result.ec == std::errc::invalid_argument ||
             result.ptr != word.data() + word.size()) {
    errors.add(where, fmt::format("{} is not a number", quote(word)),
               "numbers are decimal, as 12, 0.5 or 1e-3");
    kind = Tok::Bad;
  } else if (isFloat &&
             (result.ec != std::errc() ||
              std::fabs(floatValue) > std::numeric_limits<float>::max())) {
    errors.add(where, fmt::format("number {} does not fit in f32", quote(word)),
               "the largest is 3.4028234e38");
    kind = Tok::Bad;
  } else if (!isFloat && (result.ec != std::errc() ||
                          intValue > std::numeric_limits<int32_t>::max())) {
    errors.add(where,
               fmt::format("integer {} does not fit in i32", quote(word)),
               "the largest is 2147483647; a float is written with a '.'");
    kind = Tok::Bad;
  }
  emit(kind, end - pos);
  tokens.back().intValue = intValue;
  tokens.back().floatValue = floatValue;
}

void Lexer::lexSymbol() {
  static constexpr struct {
    char first, second;
    Tok kind;
  } kPairs[] = {{'|', '|', Tok::OrOr},   {'&', '&', Tok::AndAnd},
                {'=', '=', Tok::EqEq},   {'!', '=', Tok::NotEq},
                {'<', '=', Tok::LessEq}, {'>', '=', Tok::GreaterEq}};
  for (const auto &pair : kPairs)
    if (at(0) == pair.first && at(1) == pair.second)
      return emit(pair.kind, 2);
  static constexpr struct {
    char symbol;
    Tok kind;
  } kSingles[] = {
      {'(', Tok::LParen},   {')', Tok::RParen},  {'[', Tok::LBracket},
      {']', Tok::RBracket}, {'{', Tok::LBrace},  {'}', Tok::RBrace},
      {',', Tok::Comma},    {':', Tok::Colon},   {'?', Tok::Question},
      {'=', Tok::Assign},   {'<', Tok::Less},    {'>', Tok::Greater},
      {'+', Tok::Plus},     {'-', Tok::Minus},   {'*', Tok::Star},
      {'/', Tok::Slash},    {'%', Tok::Percent}, {'!', Tok::Bang}};
  for (const auto &single : kSingles)
    if (at(0) == single.symbol)
      return emit(single.kind, 1);
  lexUnexpected();
}

void Lexer::lexUnexpected() {
  unsigned char c = static_cast<unsigned char>(text[pos]);
  // A run of foreign bytes (a word in another script) is one error.
  size_t length = 1;
  auto isForeign = [](unsigned char byte) {
    return byte >= 0x7f || (byte < 0x20 && !(byte >= '\t' && byte <= '\r'));
  };
  if (isForeign(c)) {
    while (pos + length < text.size() &&
           isForeign(static_cast<unsigned char>(text[pos + length])))
      ++length;
    errors.add(range(pos, pos + length),
               fmt::format("byte 0x{:02X} is not part of the language", c),
               "texts are ASCII; comments may hold anything");
  } else {
    std::string hint;
    if (c == '&' || c == '|')
      hint = fmt::format("did you mean '{0}{0}'?", text[pos]);
    else if (c == ';')
      hint = "fields are separated by white space";
    else if (c == '#')
      hint = "comments start with '//'";
    errors.add(range(pos, pos + 1),
               fmt::format("unexpected character '{}'", text[pos]), hint);
  }
  emit(Tok::Bad, length);
}

/// Says for each token how many brackets are open around it. A '}' closes what
/// was left open within its braces, so one missing ')' does not lose the rest.
void Lexer::setDepths() {
  std::vector<Tok> open;
  for (size_t i = 0; i < tokens.size(); ++i) {
    Token &token = tokens[i];
    if (startsAttention(tokens, i))
      open.clear();
    switch (token.kind) {
    case Tok::RParen:
    case Tok::RBracket:
      if (!open.empty() &&
          open.back() == (token.is(Tok::RParen) ? Tok::LParen : Tok::LBracket))
        open.pop_back();
      break;
    case Tok::RBrace:
      while (!open.empty() && open.back() != Tok::LBrace)
        open.pop_back();
      if (!open.empty())
        open.pop_back();
      break;
    default:
      break;
    }
    token.depth = uint32_t(open.size());
    if (token.is(Tok::LParen) || token.is(Tok::LBracket) ||
        token.is(Tok::LBrace))
      open.push_back(token.kind);
  }
}

std::vector<Token> Lexer::run() {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") // a byte order mark
    pos = lineStart = 3;
  while (pos < text.size() && !errors.full()) {
    char c = text[pos];
    if (c == '\n') {
      ++pos;
      newLine();
    } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
      ++pos;
    } else if (c == '/' && at(1) == '/') {
      pos = std::min(text.find('\n', pos), text.size());
    } else if (c == '/' && at(1) == '*') {
      skipBlockComment();
    } else if (isNameStart(c)) {
      lexName();
    } else if (isDigit(c) || (c == '.' && isDigit(at(1)))) {
      lexNumber();
    } else {
      lexSymbol();
    }
  }
  emit(Tok::End, 0);
  setDepths();
  return std::move(tokens);
}

} // namespace

bool internal::startsAttention(const std::vector<Token> &tokens, size_t i) {
  return i + 2 < tokens.size() && tokens[i].isWord("attention") &&
         tokens[i + 1].is(Tok::Name) &&
         (tokens[i + 2].is(Tok::LParen) || tokens[i + 2].is(Tok::LBrace));
}

std::vector<Token> internal::lex(std::string_view text, Errors &errors,
                                 bool places) {
  return Lexer(text, errors, places).run();
}

//===- dsl/Parser.cpp - Reading variants ----------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "dsl/Parser.h"
#include "dsl/Words.h"

#include <algorithm>
#include <fmt/format.h>

using namespace attn;
using namespace attn::internal;

const Token &Parser::peek(size_t ahead) const {
  return tokens[std::min(pos + ahead, tokens.size() - 1)];
}

const Token &Parser::take() {
  const Token &token = peek();
  if (!token.is(Tok::End))
    ++pos;
  return token;
}

bool Parser::accept(Tok kind) {
  if (!peek().is(kind))
    return false;
  take();
  return true;
}

bool Parser::expect(Tok kind, const std::string &what) {
  if (accept(kind))
    return true;
  unexpected(what);
  return false;
}

void Parser::unexpected(const std::string &wanted, const std::string &hint) {
  const Token &token = peek();
  if (token.is(Tok::Bad)) // reported by the lexer
    return;
  std::string found =
      token.is(Tok::End) ? "the end of the text" : quote(token.text);
  errors.add(token.where, fmt::format("expected {}, found {}", wanted, found),
             hint);
}

/// True at `heads =` and the like, and at `let x =`.
bool Parser::startsField() const {
  const Words &fields = fieldWords();
  const Token &token = peek();
  if (token.isWord("let"))
    return peek(1).is(Tok::Name) && peek(2).is(Tok::Assign);
  return token.is(Tok::Name) && peek(1).is(Tok::Assign) &&
         std::find(fields.begin(), fields.end(), token.text) != fields.end();
}

/// After an error within a field: to the next field, the end of the attention
/// or the next attention. `depth` is that of the fields.
void Parser::skipToField(Draft &draft, uint32_t depth) {
  for (; !peek().is(Tok::End); take()) {
    const Token &token = peek();
    if (startsAttention(tokens, pos))
      return;
    if (token.depth < depth && token.is(Tok::RBrace))
      return;
    bool isField = token.is(Tok::Name) && peek(1).is(Tok::Assign);
    if (token.depth <= depth && (isField || token.isWord("let")))
      return;
    // Behind a bracket that was never closed: a field's name at the start of a
    // line is taken for a field ('rope' may also be a part of head_dim).
    if (token.startsLine && startsField() && !token.isWord("rope"))
      return;
    draft.incomplete |= isField;
  }
}

void Parser::skipToAttention() {
  while (!peek().is(Tok::End) && !startsAttention(tokens, pos))
    take();
}

std::vector<Draft> Parser::parseText() {
  std::vector<Draft> drafts;
  while (!peek().is(Tok::End) && !errors.full()) {
    const Token &token = peek();
    if (token.isWord("attention")) {
      Draft draft;
      if (parseAttention(draft))
        drafts.push_back(std::move(draft));
      continue;
    }
    unexpected("'attention'", token.is(Tok::Name)
                                  ? suggest(token.text, {"attention"})
                                  : std::string());
    skipToAttention();
  }
  return drafts;
}

ExprRef Parser::parseWhole() {
  Node node = parseExpr();
  if (node && !peek().is(Tok::End)) {
    unexpected("an operator or the end");
    return nullptr;
  }
  return node.expr;
}

/// False if there is no body, so nothing to check.
bool Parser::parseAttention(Draft &draft) {
  take();
  if (!peek().is(Tok::Name)) {
    unexpected("the variant's name");
    skipToAttention();
    return false;
  }
  const Token &name = take();
  draft.name = name.text;
  draft.where = name.where;
  if (accept(Tok::LParen) && !parseParams(draft)) {
    draft.incomplete = true;
    // The body can still be read if it is in sight.
    while (!peek().is(Tok::LBrace) && !peek().is(Tok::End) &&
           !startsAttention(tokens, pos))
      take();
    if (!peek().is(Tok::LBrace))
      return false;
  }
  const Token &open = peek();
  if (!expect(Tok::LBrace, "'{'")) {
    skipToAttention();
    return false;
  }
  parseBody(draft, open);
  return true;
}

bool Parser::parseParams(Draft &draft) {
  while (!peek().is(Tok::RParen)) {
    DraftParam param;
    if (!parseParam(param))
      return false;
    draft.params.push_back(std::move(param));
    if (!accept(Tok::Comma))
      break;
  }
  return expect(Tok::RParen, "',' or ')'");
}

bool Parser::parseParam(DraftParam &param) {
  if (!peek().is(Tok::Name)) {
    unexpected("a parameter's name");
    return false;
  }
  const Token &name = take();
  param.name = name.text;
  param.where = name.where;
  if (!accept(Tok::Colon)) {
    unexpected("':' and a type",
               "a parameter is written as in slope: f32[heads]");
    return false;
  }
  if (!peek().is(Tok::Name)) {
    unexpected("a type", "allowed: " + oneOf(paramTypeWords()));
    return false;
  }
  const Token &type = take();
  param.type = type.text;
  param.typeWhere = type.where;
  if (!peek().is(Tok::LBracket))
    return true;
  const Token &open = take();
  std::vector<Node> dims;
  if (!parseList(Tok::RBracket, "']'", dims))
    return false;
  if (dims.empty()) {
    errors.add(
        join(open.where, tokens[pos - 1].where),
        fmt::format("parameter {} has empty brackets", quote(param.name)),
        "a scalar parameter has no brackets");
    // What it was meant to be is unknown: no more errors about its use.
    param.dims.push_back(nullptr);
  }
  for (Node &dim : dims)
    param.dims.push_back(std::move(dim.expr));
  return true;
}

void Parser::parseBody(Draft &draft, const Token &open) {
  const uint32_t depth = open.depth + 1;
  while (!errors.full()) {
    const Token &token = peek();
    if (accept(Tok::RBrace))
      return;
    if (token.is(Tok::End) || startsAttention(tokens, pos)) {
      errors.add(open.where,
                 fmt::format("the '{{' of {} has no '}}'", quote(draft.name)));
      draft.incomplete = true;
      return;
    }
    bool good;
    if (token.isWord("let")) {
      good = parseLet(draft);
    } else if (token.is(Tok::Name)) {
      good = parseField(draft);
    } else {
      std::string hint;
      if (token.is(Tok::Comma))
        hint = "fields are separated by white space";
      else if (token.is(Tok::Assign))
        hint = "to compare, write '=='";
      unexpected("a field or '}'", hint);
      take();
      good = token.is(Tok::Comma);
    }
    if (!good)
      skipToField(draft, depth);
  }
}

bool Parser::parseLet(Draft &draft) {
  take();
  if (!peek().is(Tok::Name)) {
    unexpected("the name of the constant");
    return false;
  }
  const Token &name = take();
  draft.lets.emplace_back();
  DraftLet &let = draft.lets.back();
  let.name = name.text;
  let.where = name.where;
  if (!expect(Tok::Assign, "'='"))
    return false;
  if (peek().is(Tok::LBrace)) {
    unexpected("a value", "a list is written as in [1, 2, 4]");
    return false;
  }
  let.value = parseExpr().expr;
  return let.value != nullptr;
}

bool Parser::parseField(Draft &draft) {
  const Token &name = take();
  draft.fields.emplace_back();
  DraftField &field = draft.fields.back();
  field.name = name.text;
  field.where = name.where;
  field.broken = true;
  if (!peek().is(Tok::Assign)) {
    std::string hint;
    if (name.text == "and")
      hint = "did you mean '&&'?";
    else if (name.text == "or")
      hint = "did you mean '||'?";
    else if (name.text == "not")
      hint = "did you mean '!'?";
    unexpected(fmt::format("'=' after {}", quote(name.text)), hint);
    return false;
  }
  take();
  field.valueWhere = peek().where;
  if (peek().is(Tok::LBrace)) {
    field.isRecord = true;
    field.broken = !parseRecord(field);
    if (!field.broken)
      field.valueWhere = join(field.valueWhere, tokens[pos - 1].where);
  } else {
    field.value = parseExpr().expr;
    field.broken = !field.value;
    if (field.value)
      field.valueWhere = join(field.valueWhere, tokens[pos - 1].where);
  }
  return !field.broken;
}

bool Parser::parseRecord(DraftField &field) {
  take();
  while (!peek().is(Tok::RBrace)) {
    if (!peek().is(Tok::Name)) {
      unexpected("a name or '}'");
      return false;
    }
    const Token &name = take();
    if (!expect(Tok::Assign, fmt::format("'=' after {}", quote(name.text))))
      return false;
    Node value = parseExpr();
    if (!value)
      return false;
    field.entries.push_back(
        {std::string(name.text), name.where, std::move(value.expr)});
    if (!accept(Tok::Comma))
      break;
  }
  return expect(Tok::RBrace, "',' or '}'");
}

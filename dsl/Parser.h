//===- dsl/Parser.h - From tokens to drafts -------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//   text   := attention*
//   attention := 'attention' NAME [ '(' [param (',' param)*] ')' ] '{' item*
//   '}' param  := NAME ':' NAME [ '[' expr (',' expr)* ']' ] item   := 'let'
//   NAME '=' expr | NAME '=' ( expr | record ) record := '{' NAME '=' expr (','
//   NAME '=' expr)* '}' expr   := binary [ '?' expr ':' expr ] binary := unary
//   (OP unary)*          by C's precedence unary  := ('-' | '!') unary |
//   primary primary := NUMBER | 'true' | 'false' | NAME [ '(' args ')' | '['
//   args ']' ]
//            | '(' expr ')' | '[' args ']'
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_DSL_PARSER_H
#define ATTNC_DSL_PARSER_H

#include "dsl/Draft.h"
#include "dsl/Lexer.h"

namespace attn::internal {

/// Reads drafts. Recursion is bounded, and a chain of operators, which needs
/// none, is refused once its tree is deeper than `kMaxExprDepth`.
class Parser {
public:
  Parser(const std::vector<Token> &tokens, Errors &errors)
      : tokens(tokens), errors(errors) {}

  /// Every attention of the text, in order, also those with errors.
  std::vector<Draft> parseText();
  /// One expression that takes all tokens; null with errors.
  ExprRef parseWhole();

private:
  /// A node with its depth (of a leaf: 1), and its place with the parentheses
  /// around it. Null after an error.
  struct Node {
    ExprRef expr;
    unsigned depth = 0;
    SourceRange where;
    explicit operator bool() const { return expr != nullptr; }
  };

  const Token &peek(size_t ahead = 0) const;
  const Token &take();
  bool accept(Tok kind);
  bool expect(Tok kind, const std::string &what);
  void unexpected(const std::string &wanted, const std::string &hint = {});

  bool startsField() const;
  void skipToField(Draft &draft, uint32_t depth);
  void skipToAttention();

  bool parseAttention(Draft &draft);
  bool parseParams(Draft &draft);
  bool parseParam(DraftParam &param);
  void parseBody(Draft &draft, const Token &open);
  bool parseLet(Draft &draft);
  bool parseField(Draft &draft);
  bool parseRecord(DraftField &field);

  Node parseExpr();
  Node parseBinary(unsigned minPrecedence);
  Node parseUnary();
  Node parsePrimary();
  Node parseName();
  bool parseList(Tok close, const char *closeText, std::vector<Node> &nodes);
  Node parseNested();
  bool enter();

  Node leaf(ExprKind kind, const Token &token);
  Node make(ExprKind kind, Op op, SourceRange where, std::vector<Node> args,
            std::string name = {});

  const std::vector<Token> &tokens;
  Errors &errors;
  size_t pos = 0;
  unsigned nesting = 0;
};

/// From the start of `a` to the end of `b` where both are on one line.
SourceRange join(SourceRange a, SourceRange b);

} // namespace attn::internal

#endif

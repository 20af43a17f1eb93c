//===- dsl/Spec.h - What a text (or the builder) says of a variant --------===//
//
// Part of attnc. Apache-2.0.
//
// The seam between the language and everything else: a plain description of an
// attention variant, checked for types and names, with the places its parts
// were written at. It knows no machine, no pointer and no MLIR.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_DSL_SPEC_H
#define ATTNC_DSL_SPEC_H

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attn {

/// A stretch of one line of a text. Lines and columns count from 1, columns in
/// bytes; line 0 means "built in C++". Never part of equality.
struct SourceRange {
  uint32_t line = 0;
  uint32_t column = 0;
  uint32_t length = 0;
};

/// One error (or note) about a text: where, what is wrong, what is allowed.
struct Diagnostic {
  SourceRange where;
  std::string message; ///< what is wrong, with the offending value
  std::string hint; ///< what is allowed, or "did you mean 'x'?"; may be empty
};

/// Renders a diagnostic as `file:line:column: error: message`, the source line
/// with a caret, and the hint. `text` is the whole source (may be empty).
std::string render(const Diagnostic &diagnostic, std::string_view file,
                   std::string_view text);

enum class Type : uint8_t { Bool, I32, F32, F16, BF16, I8, F8E4M3, Tokens };
const char *name(Type type);

enum class ExprKind : uint8_t {
  Int,    ///< `intValue`
  Float,  ///< `floatValue`
  Bool,   ///< `intValue` is 0 or 1
  Name,   ///< `name`: a variable (s b h g q k q_len kv_len), let or parameter
  List,   ///< `args`: the elements
  Unary,  ///< `op` Neg or Not, `args[0]`
  Binary, ///< `op`, `args[0]`, `args[1]`
  Select, ///< `args[0] ? args[1] : args[2]`
  Index,  ///< `args[0]` (a Name) indexed by `args[1..]`
  Call,   ///< `name`(args...): a function or built-in of the language, with
          ///< the arguments as written (defaults are not filled in)
};

enum class Op : uint8_t {
  None,
  Neg,
  Not,
  Or,
  And,
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  Add,
  Sub,
  Mul,
  Div,
  Rem,
};

struct Expr;
using ExprRef = std::shared_ptr<const Expr>;

/// An immutable expression tree. Its depth is bounded by `kMaxExprDepth`, so
/// walking it by recursion is safe.
struct Expr {
  ExprKind kind = ExprKind::Int;
  Op op = Op::None;
  Type type = Type::I32; ///< of the value; for lists of an element
  bool isList = false;   ///< a List, or a Name of a list-valued let
  int64_t intValue = 0;
  double floatValue = 0;
  std::string name;
  std::vector<ExprRef> args;
  SourceRange where;
};
inline constexpr unsigned kMaxExprDepth = 200;

/// Structural equality, places left out. NaN literals equal each other.
bool equal(const ExprRef &a, const ExprRef &b);

/// A dimension of a parameter: a named extent of the call, or a constant.
struct Dim {
  enum Kind : uint8_t {
    Batch,
    Heads,
    KvHeads,
    Queries,
    Keys,
    Tokens,
    Constant
  };
  Kind kind = Constant;
  int64_t constant = 0;
};

struct Param {
  std::string name;
  Type type = Type::I32;
  /// Empty: a scalar (or, for Tokens, a list per sequence).
  std::vector<Dim> dims;
  SourceRange where;
};

struct Let {
  std::string name;
  /// Constant: literals, earlier lets, arithmetic; may be a List.
  ExprRef value;
  SourceRange where;
};

enum class Align : uint8_t { BottomRight, TopLeft };

struct Rope {
  double theta = 10000;
  int64_t dim = 0; ///< 0: the whole (rotary) width
  enum Layout : uint8_t { Half, Interleaved } layout = Half;
  enum Scaling : uint8_t { None, Linear, Llama3, Yarn } scaling = None;
  std::vector<double> scalingArgs;
};

/// One `attention NAME(...) { ... }`, checked: sizes positive, names resolved,
/// expressions typed. Defaults are filled in, except that `scale`, `score`,
/// `mask` and `sink` are null where the text leaves them out.
struct Spec {
  std::string name;
  std::vector<Param> params;
  std::vector<Let> lets;
  int64_t heads = 0;
  int64_t kvHeads = 0;
  std::vector<int64_t> kvMap; ///< empty: floor(h * kvHeads / heads)
  int64_t qkDim = 0;          ///< with `latent`: nope + rope
  int64_t valueDim = 0;
  int64_t latent = 0;               ///< 0: none
  int64_t nopeDim = 0, ropeDim = 0; ///< only with `latent`
  Type qType = Type::F32, kvType = Type::F32, outType = Type::F32;
  ExprRef scale, score, mask, sink;
  Align align = Align::BottomRight;
  std::optional<Rope> rope;
  SourceRange where;                         ///< of the name
  std::map<std::string, SourceRange> places; ///< field -> its value in the text

  const Let *findLet(std::string_view letName) const;
  const Param *findParam(std::string_view paramName) const;
  /// The place of a field's value, or of the variant's name.
  SourceRange placeOf(const std::string &field) const;
  /// The kv head that serves query head `h`.
  int64_t kvHeadOf(int64_t h) const;
};

/// Equal in every respect but places.
bool operator==(const Spec &a, const Spec &b);
inline bool operator!=(const Spec &a, const Spec &b) { return !(a == b); }

struct ParseOptions {
  /// `-D NAME=VALUE`: fixes a let or a scalar parameter, which then is a let.
  /// VALUE is any constant expression or list of the language.
  std::vector<std::pair<std::string, std::string>> defines;
};

struct ParseResult {
  std::vector<Spec> specs;             ///< in order; empty if there are errors
  std::vector<Diagnostic> diagnostics; ///< every error found, in order
  bool ok() const { return diagnostics.empty(); }
};

/// Reads a whole text. Any bytes are valid input: what is not a program of the
/// language gives diagnostics, in time linear in the text, at bounded depth.
ParseResult parse(std::string_view text, const ParseOptions &options = {});

/// The canonical text: `parse(print(s)).specs[0] == s`.
std::string print(const Spec &spec);
std::string print(const ExprRef &expr);

/// The value of an expression of literals and lets; nullopt if it has others,
/// or is not a scalar. Division by zero gives nullopt for integers.
std::optional<double> evaluateConstant(const Spec &spec, const ExprRef &expr);

} // namespace attn

#endif

//===- dsl/Errors.h - Where the reader and the checker report to ----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_DSL_ERRORS_H
#define ATTNC_DSL_ERRORS_H

#include "dsl/Spec.h"

namespace attn::internal {

/// Collects the errors of one text. A text of garbage would give one error for
/// each of its bytes: after `kLimit` reading stops, and a last error says so.
class Errors {
public:
  static constexpr size_t kLimit = 100;

  void add(SourceRange where, std::string message, std::string hint = {});
  size_t count() const { return found.size(); }
  bool full() const { return found.size() >= kLimit; }

  /// Names what has no place in a text (a `-D`, a part built in C++): put in
  /// front of the message of errors at line 0.
  std::string context;

  /// All errors in the order of their places.
  std::vector<Diagnostic> take();

private:
  std::vector<Diagnostic> found;
};

/// Sets `Errors::context` for a scope.
class Context {
public:
  Context(Errors &errors, std::string text)
      : errors(errors), saved(std::move(errors.context)) {
    errors.context = std::move(text);
  }
  ~Context() { errors.context = std::move(saved); }
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

private:
  Errors &errors;
  std::string saved;
};

} // namespace attn::internal

#endif

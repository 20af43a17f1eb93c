//===- tests/dsl/PropertyTest.cpp - What holds for every variant ----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Random.h"
#include "Support.h"

#include <cmath>
#include <rapidcheck/gtest.h>

using namespace attn;
using namespace attn::dsl;
using namespace attn::random;

/// A random variant may divide a constant by zero or leave the range of i32,
/// which is refused; anything else that is refused is a fault.
static Spec buildOrDiscard(const Variant &variant) {
  ParseResult result = variant.build();
  for (const Diagnostic &d : result.diagnostics)
    RC_ASSERT(d.message.find("this divides by zero") != std::string::npos ||
              d.message.find("does not fit in i32") != std::string::npos ||
              d.message.find("out of range") != std::string::npos);
  RC_PRE(result.ok());
  RC_ASSERT(result.specs.size() == 1u);
  return result.specs[0];
}

RC_GTEST_PROP(Property, PrintedTextParsesBack, ()) {
  const Spec spec = buildOrDiscard(randomVariant());
  const std::string text = print(spec);
  const ParseResult again = parse(text);
  RC_LOG(text);
  RC_LOG(errorsOf(again));
  RC_ASSERT(again.ok());
  RC_ASSERT(again.specs.size() == 1u);
  RC_ASSERT(again.specs[0] == spec);
  // The text is canonical: there is one for each Spec.
  RC_ASSERT(print(again.specs[0]) == text);
  // White space carries no meaning.
  std::string oneLine = text;
  for (char &c : oneLine)
    if (c == '\n')
      c = ' ';
  const ParseResult flat = parse(oneLine);
  RC_ASSERT(flat.ok());
  RC_ASSERT(flat.specs[0] == spec);
}

/// Every place lies within the text, and names what it says.
static void checkPlaces(const ExprRef &expr,
                        const std::vector<std::string> &lines) {
  if (!expr)
    return;
  const SourceRange where = expr->where;
  RC_ASSERT(where.line >= 1u);
  RC_ASSERT(where.line <= lines.size());
  const std::string &line = lines[where.line - 1];
  RC_ASSERT(where.column >= 1u);
  RC_ASSERT(where.length >= 1u);
  RC_ASSERT(where.column - 1 + where.length <= line.size());
  if (expr->kind == ExprKind::Name)
    RC_ASSERT(line.substr(where.column - 1, where.length) == expr->name);
  for (const ExprRef &arg : expr->args)
    checkPlaces(arg, lines);
}

RC_GTEST_PROP(Property, PlacesAreInTheText, ()) {
  const std::string text = print(buildOrDiscard(randomVariant()));
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  const Spec spec = parse(text).specs.at(0);
  for (const ExprRef &expr : {spec.scale, spec.score, spec.mask, spec.sink})
    checkPlaces(expr, lines);
  for (const Let &let : spec.lets)
    checkPlaces(let.value, lines);
  for (const auto &[field, where] : spec.places) {
    RC_ASSERT(where.line >= 1u);
    RC_ASSERT(where.line <= lines.size());
    RC_ASSERT(where.column - 1 + where.length <= lines[where.line - 1].size());
  }
}

RC_GTEST_PROP(Property, DamagedTextsGiveErrorsOrRoundTrip, ()) {
  std::string text = print(buildOrDiscard(randomVariant()));
  const int edits = 1 + below(4);
  for (int i = 0; i < edits && !text.empty(); ++i) {
    size_t at = size_t(below(int(text.size())));
    switch (below(4)) {
    case 0:
      text.erase(at, size_t(1 + below(8)));
      break;
    case 1:
      text[at] = char(below(256));
      break;
    case 2:
      text.insert(at, std::string(size_t(1 + below(3)),
                                  "(){}[]=,:?!-+*/%<>&|\n0.eh"[below(25)]));
      break;
    default:
      text.insert(
          at, text.substr(size_t(below(int(text.size()))), size_t(below(40))));
      break;
    }
  }
  const ParseResult result = parse(text);
  RC_ASSERT(result.ok() || result.specs.empty());
  for (const Diagnostic &d : result.diagnostics) {
    RC_ASSERT(!d.message.empty());
    RC_ASSERT(d.where.line >= 1u);
    RC_ASSERT(!render(d, "f", text).empty());
  }
  for (const Spec &spec : result.specs) {
    const ParseResult again = parse(print(spec));
    RC_ASSERT(again.ok());
    RC_ASSERT(again.specs[0] == spec);
  }
}

/// A constant expression beside its value, computed by C++ itself.
namespace {
struct Known {
  Ex expr;
  double value;
};
} // namespace

static Known known(int depth) {
  if (depth == 0) {
    const double value = below(1000) / 8.0;
    return {value, value};
  }
  Known a = known(depth - 1);
  Known c = known(depth - 1);
  switch (below(8)) {
  case 0:
    return {a.expr + c.expr, a.value + c.value};
  case 1:
    return {a.expr - c.expr, a.value - c.value};
  case 2:
    return {a.expr * c.expr, a.value * c.value};
  case 3:
    return {-a.expr, -a.value};
  case 4:
    return {abs(a.expr), std::fabs(a.value)};
  case 5:
    return {min(a.expr, c.expr), std::fmin(a.value, c.value)};
  case 6:
    return {floor(a.expr), std::floor(a.value)};
  default:
    return {select(a.expr < c.expr && !(c.expr == 3), a.expr, c.expr),
            a.value < c.value && c.value != 3 ? a.value : c.value};
  }
}

RC_GTEST_PROP(Property, ConstantsHaveTheirValue, ()) {
  const Known expected = known(1 + below(5));
  const ParseResult result = Variant("x")
                                 .heads(1)
                                 .headDim(1)
                                 .let("c", expected.expr)
                                 .score(s + ref("c"))
                                 .build();
  RC_ASSERT(result.ok());
  const Spec &spec = result.specs[0];
  RC_ASSERT(evaluateConstant(spec, spec.lets[0].value) == expected.value);
  RC_ASSERT(evaluateConstant(spec, spec.score->args[1]) == expected.value);
  RC_ASSERT(!evaluateConstant(spec, spec.score));
}

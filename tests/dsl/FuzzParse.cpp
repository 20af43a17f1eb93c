//===- tests/dsl/FuzzParse.cpp - What holds for any bytes -----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "FuzzParse.h"

#include "dsl/Spec.h"

#include <cstdio>
#include <cstdlib>

using namespace attn;

static void require(bool holds, const char *what) {
  if (holds)
    return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

static void evaluateAll(const Spec &spec, const ExprRef &expr) {
  if (!expr)
    return;
  evaluateConstant(spec, expr);
  for (const ExprRef &arg : expr->args)
    require(arg != nullptr, "trees have no holes");
}

void attn::checkAnyBytes(std::string_view input) {
  ParseOptions options;
  std::string_view text = input;
  size_t nul = input.find('\0');
  if (nul != input.npos) {
    std::string_view define = input.substr(nul + 1);
    size_t equals = define.find('=');
    if (equals != define.npos) {
      text = input.substr(0, nul);
      options.defines.emplace_back(define.substr(0, equals),
                                   define.substr(equals + 1));
    }
  }
  const ParseResult result = parse(text, options);
  require(result.ok() == !result.specs.empty(),
          "there are specs, or there are errors");
  for (const Diagnostic &d : result.diagnostics) {
    require(!d.message.empty(), "an error has a message");
    require(!render(d, "f.attn", text).empty(), "an error can be shown");
    require(d.where.line != 0 || !options.defines.empty(),
            "an error has a place");
  }
  for (const Spec &spec : result.specs) {
    const std::string printed = print(spec);
    const ParseResult again = parse(printed);
    require(again.ok(), "what is printed can be read");
    require(again.specs.size() == 1 && again.specs[0] == spec,
            "what is printed means the same");
    require(print(again.specs[0]) == printed, "the printed text is canonical");
    for (const ExprRef &expr : {spec.scale, spec.score, spec.mask, spec.sink})
      evaluateAll(spec, expr);
  }
}

#ifdef ATTN_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  checkAnyBytes({reinterpret_cast<const char *>(data), size});
  return 0;
}
#endif

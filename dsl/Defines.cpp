//===- dsl/Defines.cpp - Constants fixed on the command line --------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "dsl/Check.h"
#include "dsl/Parser.h"
#include "dsl/Words.h"

#include <fmt/format.h>
#include <unordered_map>

using namespace attn;
using namespace attn::internal;

namespace {
struct Define {
  std::string text; ///< "-D NAME=VALUE"
  ExprRef value;
  bool used = false;
};
using Defines = std::unordered_map<std::string, Define>;
} // namespace

static Defines readDefines(const ParseOptions &options, Errors &errors) {
  Defines defines;
  for (const auto &[name, value] : options.defines) {
    constexpr size_t kShown = 60;
    Define define;
    define.text = fmt::format("-D {}={}{}", name.substr(0, kShown),
                              value.substr(0, kShown),
                              value.size() > kShown ? "..." : "");
    Context context(errors, define.text);
    if (!isIdentifier(name)) {
      errors.add({}, fmt::format("{} is not a name", quote(name)),
                 "it is written as in -D window=4096");
      continue;
    }
    size_t before = errors.count();
    std::vector<Token> tokens = lex(value, errors, /*places=*/false);
    if (errors.count() == before)
      define.value = Parser(tokens, errors).parseWhole();
    if (!define.value)
      define.used = true; // one error is enough
    if (!defines.emplace(name, std::move(define)).second)
      errors.add({}, fmt::format("{} is given twice", quote(name)));
  }
  return defines;
}

static void applyTo(Draft &draft, Defines &defines, Errors &errors) {
  std::vector<DraftParam> params;
  std::vector<DraftLet> lets;
  for (DraftParam &param : draft.params) {
    auto found = defines.find(param.name);
    if (found == defines.end()) {
      params.push_back(std::move(param));
      continue;
    }
    Define &define = found->second;
    bool scalar = param.dims.empty() && param.type != name(Type::Tokens);
    if (!scalar && define.value) {
      Context context(errors, define.text);
      errors.add({},
                 fmt::format("{} of {} is not a scalar", quote(param.name),
                             quote(draft.name)),
                 "a 'let' or a scalar parameter can be fixed");
    }
    define.used = true;
    if (!scalar) {
      params.push_back(std::move(param));
      continue;
    }
    DraftLet let;
    let.name = param.name;
    let.where = param.where;
    let.fixed = define.value;
    let.fixedBy = define.text;
    let.declaredType = param.type;
    lets.push_back(std::move(let));
  }
  for (DraftLet &let : draft.lets) {
    auto found = defines.find(let.name);
    if (found != defines.end()) {
      let.fixed = found->second.value;
      let.fixedBy = found->second.text;
      found->second.used = true;
    }
    lets.push_back(std::move(let));
  }
  draft.params = std::move(params);
  draft.lets = std::move(lets);
}

void internal::applyDefines(std::vector<Draft> &drafts,
                            const ParseOptions &options, Errors &errors,
                            bool wellFormed) {
  if (options.defines.empty())
    return;
  Defines defines = readDefines(options, errors);
  Words candidates;
  for (Draft &draft : drafts)
    applyTo(draft, defines, errors);
  for (const Draft &draft : drafts) {
    for (const DraftLet &let : draft.lets)
      candidates.push_back(let.name);
    for (const DraftParam &param : draft.params)
      if (param.dims.empty() && param.type != name(Type::Tokens))
        candidates.push_back(param.name);
  }
  if (!wellFormed)
    return;
  // In the order given, not that of the hash table.
  for (const auto &[name, value] : options.defines) {
    auto found = defines.find(name);
    if (found == defines.end() || found->second.used)
      continue;
    found->second.used = true;
    Context context(errors, found->second.text);
    std::string hint = suggest(name, candidates);
    constexpr size_t kMostListed = 12;
    if (candidates.empty())
      hint = "the text has none";
    else if (hint.empty() && candidates.size() <= kMostListed)
      hint = "there is " + oneOf(candidates);
    errors.add(
        {},
        fmt::format("no 'let' or scalar parameter is named {}", quote(name)),
        hint);
  }
}

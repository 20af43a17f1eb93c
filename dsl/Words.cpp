//===- dsl/Words.cpp - The words of the language --------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "dsl/Words.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace attn;
using namespace attn::internal;

static constexpr Variable kVariables[] = {
    {"s", Type::F32, DependsOnScore},
    {"b", Type::I32, DependsOnBatch},
    {"h", Type::I32, DependsOnHead},
    {"g", Type::I32, DependsOnHead},
    {"q", Type::I32, DependsOnQuery},
    {"k", Type::I32, DependsOnKey},
    {"q_len", Type::I32, DependsOnLength},
    {"kv_len", Type::I32, DependsOnLength},
};

static constexpr unsigned kMask = DependsOnQuery | DependsOnKey;

static constexpr Function kFunctions[] = {
    {"abs", 1, 1, Arguments::Numbers, "abs(x)", 0},
    {"min", 2, 2, Arguments::Numbers, "min(x, y)", 0},
    {"max", 2, 2, Arguments::Numbers, "max(x, y)", 0},
    {"floor", 1, 1, Arguments::Floats, "floor(x)", 0},
    {"exp", 1, 1, Arguments::Floats, "exp(x)", 0},
    {"exp2", 1, 1, Arguments::Floats, "exp2(x)", 0},
    {"log", 1, 1, Arguments::Floats, "log(x)", 0},
    {"log2", 1, 1, Arguments::Floats, "log2(x)", 0},
    {"sqrt", 1, 1, Arguments::Floats, "sqrt(x)", 0},
    {"tanh", 1, 1, Arguments::Floats, "tanh(x)", 0},
    {"sigmoid", 1, 1, Arguments::Floats, "sigmoid(x)", 0},
    {"softcap", 2, 2, Arguments::Floats, "softcap(x, c)", 0},
    {"causal", 0, 0, Arguments::Positions, "causal", kMask},
    {"window", 1, 3, Arguments::Positions, "window(l, r = l, d = 1)", kMask},
    {"sliding", 1, 1, Arguments::Positions, "sliding(n)", kMask},
    {"neighborhood", 1, 2, Arguments::Positions, "neighborhood(n, d = 1)",
     kMask | DependsOnLength},
    {"global", 1, 1, Arguments::Tokens, "global(t)", kMask},
    {"prefix", 1, 1, Arguments::Positions, "prefix(n)", DependsOnKey},
    {"alibi_slope", 1, 1, Arguments::Head, "alibi_slope(h)", 0},
};

static constexpr Type kTypes[] = {Type::Bool,   Type::I32,   Type::F32,
                                  Type::F16,    Type::BF16,  Type::I8,
                                  Type::F8E4M3, Type::Tokens};

static constexpr std::string_view kExtents[] = {"batch",   "heads", "kv_heads",
                                                "queries", "keys",  "tokens"};

template <typename Table> static Words namesOf(const Table &table) {
  Words words;
  for (const auto &entry : table)
    words.push_back(entry.name);
  return words;
}

template <typename Table>
static auto findIn(const Table &table, std::string_view name)
    -> decltype(&table[0]) {
  for (const auto &entry : table)
    if (entry.name == name)
      return &entry;
  return nullptr;
}

const Variable *internal::findVariable(std::string_view name) {
  return findIn(kVariables, name);
}

const Function *internal::findFunction(std::string_view name) {
  return findIn(kFunctions, name);
}

const Words &internal::fieldWords() {
  static const Words words = {"heads", "kv_heads", "kv_map", "head_dim",
                              "type",  "scale",    "score",  "mask",
                              "align", "sink",     "rope",   "latent"};
  return words;
}

const Words &internal::variableWords() {
  static const Words words = namesOf(kVariables);
  return words;
}

const Words &internal::functionWords() {
  static const Words words = namesOf(kFunctions);
  return words;
}

const Words &internal::paramTypeWords() {
  static const Words words = {"i32", "f32", "f16", "bf16", "bool", "tokens"};
  return words;
}

const Words &internal::storageTypeWords() {
  static const Words words = {"f32", "f16", "bf16"};
  return words;
}

const Words &internal::extentWords() {
  static const Words words(std::begin(kExtents), std::end(kExtents));
  return words;
}

const char *attn::name(Type type) {
  switch (type) {
  case Type::Bool:
    return "bool";
  case Type::I32:
    return "i32";
  case Type::F32:
    return "f32";
  case Type::F16:
    return "f16";
  case Type::BF16:
    return "bf16";
  case Type::I8:
    return "i8";
  case Type::F8E4M3:
    return "f8e4m3";
  case Type::Tokens:
    return "tokens";
  }
  return "?";
}

std::optional<Type> internal::findType(std::string_view word) {
  for (Type type : kTypes)
    if (word == name(type))
      return type;
  return std::nullopt;
}

std::optional<Dim::Kind> internal::findExtent(std::string_view word) {
  const auto *found = std::find(std::begin(kExtents), std::end(kExtents), word);
  if (found == std::end(kExtents))
    return std::nullopt;
  return Dim::Kind(found - std::begin(kExtents));
}

std::string_view internal::extentName(Dim::Kind kind) {
  return kind < std::size(kExtents) ? kExtents[kind] : "constant";
}

static bool isLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool internal::isIdentifier(std::string_view name) {
  return !name.empty() && isLetter(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return isLetter(c) || (c >= '0' && c <= '9');
         });
}

bool internal::isReserved(std::string_view name) {
  // A function's name is free: `prefix[b]` and `prefix(4)` do not look alike.
  // `causal` is not, for it has no parentheses.
  return name == "let" || name == "true" || name == "false" ||
         name == "causal" || findVariable(name);
}

std::string internal::quote(std::string_view name) {
  constexpr size_t kLongest = 60;
  if (name.size() > kLongest)
    return fmt::format("'{}...'", name.substr(0, kLongest));
  return fmt::format("'{}'", name);
}

std::string internal::oneOf(const Words &words) {
  if (words.size() < 2)
    return words.empty() ? std::string() : std::string(words[0]);
  return fmt::format("{} or {}",
                     fmt::join(words.begin(), words.end() - 1, ", "),
                     words.back());
}

/// Edit distance with transpositions, or `limit + 1` if it is larger.
static unsigned editDistance(std::string_view a, std::string_view b,
                             unsigned limit) {
  if (a.size() > b.size())
    std::swap(a, b);
  if (b.size() - a.size() > limit)
    return limit + 1;
  const size_t width = b.size() + 1;
  std::vector<unsigned> last(width), row(width), beforeLast(width);
  for (size_t j = 0; j < width; ++j)
    row[j] = unsigned(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(beforeLast, last);
    std::swap(last, row);
    row[0] = unsigned(i);
    for (size_t j = 1; j < width; ++j) {
      unsigned change = a[i - 1] != b[j - 1];
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], beforeLast[j - 2] + 1);
    }
  }
  return row.back();
}

std::string internal::suggest(std::string_view wrong, const Words &candidates) {
  // Bounds keep the cost of an error constant, whatever the text declares.
  constexpr size_t kLongest = 64, kMost = 1000;
  if (wrong.size() > kLongest)
    return "";
  unsigned best = std::max<unsigned>(1, unsigned(wrong.size()) / 3) + 1;
  // A single letter is no nearer to one variable than to another.
  if (wrong.size() < 2)
    return "";
  std::string_view nearest;
  for (size_t i = 0; i < candidates.size() && i < kMost; ++i) {
    unsigned distance = editDistance(wrong, candidates[i], best - 1);
    // Two letters that are all different are not a misspelling.
    if (distance < best && distance < candidates[i].size()) {
      best = distance;
      nearest = candidates[i];
    }
  }
  return nearest.empty() ? "" : fmt::format("did you mean {}?", quote(nearest));
}

std::string internal::suggestOrList(std::string_view wrong,
                                    const Words &candidates) {
  std::string hint = suggest(wrong, candidates);
  return hint.empty() ? "allowed: " + oneOf(candidates) : hint;
}

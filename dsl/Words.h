//===- dsl/Words.h - The words of the language ----------------------------===//
//
// Part of attnc. Apache-2.0.
//
// The vocabulary in one place: fields, variables, functions, types, extents;
// and what to propose for a word that is not one of them.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_DSL_WORDS_H
#define ATTNC_DSL_WORDS_H

#include "dsl/Spec.h"

namespace attn::internal {

using Words = std::vector<std::string_view>;

/// What an expression's value may change with; a set of bits.
enum Dependence : unsigned {
  DependsOnScore = 1,
  DependsOnBatch = 2,
  DependsOnHead = 4, ///< h, g: known for each head when compiling
  DependsOnQuery = 8,
  DependsOnKey = 16,
  DependsOnLength = 32,
  DependsOnParam = 64,
};

struct Variable {
  std::string_view name;
  Type type;
  unsigned dependence;
};
const Variable *findVariable(std::string_view name);

/// How the arguments of a function are typed.
enum class Arguments : uint8_t {
  Numbers,   ///< all i32, or all f32 (i32 promoted); the result is of that type
  Floats,    ///< f32 (i32 promoted) to f32
  Positions, ///< i32 to bool: a statement about q and k
  Tokens,    ///< one parameter of type `tokens`, to bool
  Head,      ///< i32 to f32
};

struct Function {
  std::string_view name;
  unsigned minArgs, maxArgs;
  Arguments arguments;
  std::string_view signature;
  unsigned dependence; ///< besides that of the arguments
};
const Function *findFunction(std::string_view name);

const Words &fieldWords();
const Words &variableWords();
/// All that can be called, `causal` (which has no parentheses) included.
const Words &functionWords();
const Words &paramTypeWords();   ///< of parameters
const Words &storageTypeWords(); ///< of `type`
const Words &extentWords();      ///< dimensions of parameters

std::optional<Type> findType(std::string_view name);
std::optional<Dim::Kind> findExtent(std::string_view name);
std::string_view extentName(Dim::Kind kind);

bool isIdentifier(std::string_view name);
/// Words a let or a parameter cannot have as its name.
bool isReserved(std::string_view name);

/// `'name'`, shortened if it is very long.
std::string quote(std::string_view name);
/// "a, b or c".
std::string oneOf(const Words &words);
/// "did you mean 'x'?" for the nearest candidate, if one is near; else empty.
std::string suggest(std::string_view wrong, const Words &candidates);
/// As `suggest`, or else what is allowed.
std::string suggestOrList(std::string_view wrong, const Words &candidates);

} // namespace attn::internal

#endif

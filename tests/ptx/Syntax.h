//===- tests/ptx/Syntax.h - PTX as it is written --------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PTX_SYNTAX_H
#define ATTNC_TESTS_PTX_SYNTAX_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace attn::ptx {

enum class Space : uint8_t { Generic, Global, Shared, Const, Param, Local };

/// One operand of an instruction.
struct OperandText {
  enum class Kind : uint8_t {
    Name,    ///< a register, a variable, a label or a special register
    Integer, ///< `bits` holds it, in two's complement
    Single,  ///< 0f...: `bits` holds an f32
    Double,  ///< 0d... or a decimal fraction: `bits` holds an f64
    Sink,    ///< `_`
    Vector,  ///< `{a, b}`: `parts`
    Address, ///< `[a+n]`: `parts` holds the base, `bits` the offset
    Pair,    ///< `a|b`: `parts`
  };
  Kind kind = Kind::Name;
  std::string name;
  bool negated = false; ///< `!p`
  int64_t bits = 0;     ///< also the offset of a Name: `a+n`
  std::vector<OperandText> parts;
};

struct InstructionText {
  std::string predicate; ///< empty: none
  bool negated = false;
  std::string opcode; ///< with its modifiers
  std::vector<OperandText> operands;
};
struct LabelText {
  std::string name;
};
/// `.reg .b32 %r<5>;`: names %r0 to %r4; count 0: the name itself.
struct RegisterText {
  std::string name;
  uint32_t count = 0;
  unsigned bits = 0; ///< 1 for a predicate
};
/// The list of labels that `brx.idx` goes through.
struct TargetsText {
  std::string name;
  std::vector<std::string> labels;
};
struct OpenScope {};
struct CloseScope {};
/// A comment of the code generator: what the register holds does not matter.
struct ImplicitText {
  std::string name;
};

struct Statement {
  int line = 0;
  std::variant<InstructionText, LabelText, RegisterText, TargetsText, OpenScope,
               CloseScope, ImplicitText>
      what;
};

/// A variable in memory.
struct Variable {
  int line = 0;
  Space space = Space::Global;
  std::string name;
  size_t align = 1;
  size_t bytes = 0; ///< 0 for a dynamic array
  bool dynamic = false;
  std::vector<std::byte> initial; ///< empty, or `bytes` of them
};

struct KernelText {
  int line = 0;
  std::string name;
  std::vector<Variable> parameters;
  std::vector<Variable> variables; ///< of .shared and .local
  std::vector<Statement> body;
  std::optional<std::vector<uint32_t>> maxThreads, requiredThreads;
};

struct ModuleText {
  std::string target;
  std::vector<Variable> variables;
  std::vector<KernelText> kernels;
};

/// Reads a whole module. Throws Error, its message headed by `name`, for what
/// is not PTX or is PTX that no kernel here uses (functions, textures,
/// aliases).
ModuleText parseText(std::string_view text, const std::string &name);

} // namespace attn::ptx

#endif

//===- tests/ptx/Decoder.h - From a statement to an instruction -----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PTX_DECODER_H
#define ATTNC_TESTS_PTX_DECODER_H

#include "Names.h"
#include "Numbers.h"
#include <functional>
#include <set>

namespace attn::ptx {

enum class Type : uint8_t {
  B8,
  B16,
  B32,
  B64,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  Bf16,
  F16x2,
  Bf16x2,
  F32,
  F64,
  Tf32,
  Pred,
};

unsigned bitsOf(Type type); ///< 1 for a predicate
bool isFloat(Type type);
bool isSigned(Type type);
std::optional<Type> typeNamed(std::string_view name);

/// One instruction on its way from text to code. A family's decoder takes the
/// modifiers that it knows and resolves the operands; what it did not take
/// makes the instruction unknown.
class Decoder {
public:
  Decoder(Names &names, const InstructionText &text, int line,
          std::function<void(int, const std::string &)> fail);

  Instruction out;

  const std::string &root() const { return modifiers[0]; }
  /// Whether the modifier is there; it then counts as known.
  bool take(std::string_view modifier);
  /// The first of these that is there, or else the last, which may be empty:
  /// an empty one needs not be there.
  std::string_view takeOneOf(std::initializer_list<std::string_view> choices);
  /// The first modifier left that is a type.
  Type takeType();
  Rounding takeRounding(bool &given);
  [[noreturn]] void fail(const std::string &message) const;
  /// The opcode is not one that the interpreter knows.
  [[noreturn]] void unknown() const;

  size_t operands() const { return text.operands.size(); }
  void expectOperands(size_t count) const;
  void expectOperands(size_t least, size_t most) const;
  const OperandText &operand(size_t index) const {
    return text.operands[index];
  }

  /// A source of the type. `width` receives the register's bits where a wider
  /// register is allowed.
  Slot source(const OperandText &operand, Type type, unsigned *width = nullptr);
  Slot source(size_t index, Type type, unsigned *width = nullptr) {
    return source(operand(index), type, width);
  }
  /// A predicate that may be negated, as `!p`.
  Slot condition(size_t index, bool &negated);
  Slot destination(const OperandText &operand, Type type,
                   unsigned *width = nullptr);
  Slot destination(size_t index, Type type, unsigned *width = nullptr) {
    return destination(operand(index), type, width);
  }
  /// A source that must be a constant.
  int64_t immediate(size_t index) const;
  /// The elements of a vector operand, which must be `count`.
  const std::vector<OperandText> &elements(size_t index, size_t count) const;
  /// A membermask: names the lanes that the instruction waits for.
  void membermask(size_t index);

  /// `[base+offset]`: where the base is in the file and the offset. A variable
  /// must be of the space, or the space be generic, which no variable's is.
  struct Address {
    Slot base;
    bool wide; ///< the base has 64 bits, not 32
    int64_t offset;
  };
  Address address(size_t index, Space space);
  Space takeSpace();

  /// Ends the decoding; what modifiers are left are unknown.
  void done(Handler handler);

  Names &names;

private:
  const InstructionText &text;
  std::vector<std::string> modifiers;
  std::vector<bool> taken;
  int line;
  std::function<void(int, const std::string &)> report;
};

using Decode = void (*)(Decoder &);
using Opcodes = std::map<std::string_view, Decode>;

/// The families of instructions; each adds what it knows.
void addArithmetic(Opcodes &opcodes);
void addBits(Opcodes &opcodes);
void addFunctions(Opcodes &opcodes);
void addConvert(Opcodes &opcodes);
void addCompare(Opcodes &opcodes);
void addMove(Opcodes &opcodes);
void addMemory(Opcodes &opcodes);
void addAsync(Opcodes &opcodes);
void addWarpwide(Opcodes &opcodes);
void addMatrix(Opcodes &opcodes);
void addControl(Opcodes &opcodes);

/// Arithmetic on one kind of type, for opcodes that several kinds share.
void decodeInteger(Decoder &decoder, Type type);
void decodeFloat(Decoder &decoder, Type type);
void decodeHalf(Decoder &decoder, Type type);

} // namespace attn::ptx

#endif

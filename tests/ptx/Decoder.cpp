//===- tests/ptx/Decoder.cpp - From a statement to an instruction ---------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Decoder.h"
#include <fmt/format.h>

namespace attn::ptx {

namespace {

struct TypeInfo {
  std::string_view name;
  unsigned bits;
};
// In the order of Type.
constexpr TypeInfo Types[] = {
    {"b8", 8},      {"b16", 16}, {"b32", 32}, {"b64", 64},  {"u8", 8},
    {"u16", 16},    {"u32", 32}, {"u64", 64}, {"s8", 8},    {"s16", 16},
    {"s32", 32},    {"s64", 64}, {"f16", 16}, {"bf16", 16}, {"f16x2", 32},
    {"bf16x2", 32}, {"f32", 32}, {"f64", 64}, {"tf32", 32}, {"pred", 1},
};

} // namespace

unsigned bitsOf(Type type) { return Types[size_t(type)].bits; }
bool isFloat(Type type) { return type >= Type::F16 && type <= Type::Tf32; }
bool isSigned(Type type) { return type >= Type::S8 && type <= Type::S64; }

std::optional<Type> typeNamed(std::string_view name) {
  for (size_t i = 0; i < std::size(Types); i++)
    if (Types[i].name == name)
      return Type(i);
  return std::nullopt;
}

Decoder::Decoder(Names &known, const InstructionText &instruction, int atLine,
                 std::function<void(int, const std::string &)> failing)
    : names(known), text(instruction), line(atLine),
      report(std::move(failing)) {
  std::string_view rest = text.opcode;
  while (true) {
    size_t dot = rest.find('.');
    modifiers.emplace_back(rest.substr(0, dot));
    if (dot == std::string_view::npos)
      break;
    rest.remove_prefix(dot + 1);
  }
  taken.assign(modifiers.size(), false);
  taken[0] = true;
  out.line = line;
  if (!text.predicate.empty()) {
    const Register *predicate = names.findRegister(text.predicate);
    if (!predicate || predicate->bits != 1)
      fail(fmt::format("'{}' is no predicate", text.predicate));
    out.predicate = predicate->slot;
    out.negated = text.negated;
    out.predicateIndex = predicate->index;
  }
}

void Decoder::fail(const std::string &message) const {
  report(line, message);
  throw std::logic_error("a decoder's report returned");
}

void Decoder::unknown() const {
  fail(fmt::format("unknown instruction '{}'", text.opcode));
}

bool Decoder::take(std::string_view modifier) {
  for (size_t i = 1; i < modifiers.size(); i++)
    if (!taken[i] && modifiers[i] == modifier) {
      taken[i] = true;
      return true;
    }
  return false;
}

std::string_view
Decoder::takeOneOf(std::initializer_list<std::string_view> choices) {
  for (std::string_view choice : choices)
    if (choice.empty() || take(choice))
      return choice;
  unknown();
}

Type Decoder::takeType() {
  for (size_t i = 1; i < modifiers.size(); i++)
    if (!taken[i])
      if (auto type = typeNamed(modifiers[i])) {
        taken[i] = true;
        return *type;
      }
  unknown();
}

Rounding Decoder::takeRounding(bool &given) {
  static constexpr std::pair<std::string_view, Rounding> Known[] = {
      {"rn", Rounding::Nearest},
      {"rz", Rounding::Zero},
      {"rm", Rounding::Down},
      {"rp", Rounding::Up}};
  for (auto [name, rounding] : Known)
    if (take(name)) {
      given = true;
      return rounding;
    }
  given = false;
  return Rounding::Nearest;
}

void Decoder::expectOperands(size_t count) const {
  expectOperands(count, count);
}

void Decoder::expectOperands(size_t least, size_t most) const {
  if (operands() < least || operands() > most)
    fail(fmt::format("'{}' has {} operands", text.opcode, operands()));
}

Slot Decoder::source(const OperandText &operand, Type type, unsigned *width) {
  unsigned bits = bitsOf(type);
  unsigned needed = bits == 8 ? 16 : bits; // no register is narrower
  using Kind = OperandText::Kind;
  if (operand.negated)
    fail(fmt::format("'{}' takes no negated operand here", text.opcode));
  if (width)
    *width = needed;
  switch (operand.kind) {
  case Kind::Integer:
    if (type == Type::Pred)
      fail("a predicate cannot be a number");
    if (type == Type::F32 || type == Type::F64)
      fail("a number with a fraction is needed, as 0f or 0d and its digits");
    return names.constant(needed, uint64_t(operand.bits));
  case Kind::Single:
  case Kind::Double: {
    bool single = operand.kind == Kind::Single;
    double value = single ? bitCast<float>(uint32_t(operand.bits))
                          : bitCast<double>(operand.bits);
    if (bits == 64)
      return names.constant(64, single ? bitCast<uint64_t>(value)
                                       : uint64_t(operand.bits));
    if (bits == 32)
      return names.constant(32, single ? uint64_t(operand.bits)
                                       : bitCast<uint32_t>(float(value)));
    fail("no number can be written for this type");
  }
  case Kind::Name:
    break;
  default:
    fail(fmt::format("'{}' takes a register or a number here", text.opcode));
  }
  if (operand.name == "WARP_SZ")
    return names.constant(needed, Lanes);
  if (const Register *found = names.findRegister(operand.name)) {
    if (operand.bits != 0)
      fail("a register with an offset is no operand");
    if (found->bits != needed &&
        !(width && found->bits > needed && needed != 1))
      fail(fmt::format("'{}' has {} bits, the instruction needs {}",
                       operand.name, found->bits, needed));
    if (width)
      *width = found->bits;
    out.reads.push_back(found->index);
    return found->slot;
  }
  if (auto special = names.findSpecial(operand.name)) {
    if (needed != 32 && !(width && needed < 32))
      fail(fmt::format("'{}' has 32 bits", operand.name));
    if (width)
      *width = 32;
    return names.special(*special);
  }
  if (auto variable = names.findVariable(operand.name)) {
    if (bits != 64 && !(bits == 32 && variable->space == Space::Shared))
      fail(fmt::format("the address of '{}' has 64 bits", operand.name));
    return names.addressSlot(*variable, operand.bits, bits);
  }
  fail(fmt::format("'{}' is not declared", operand.name));
}

Slot Decoder::condition(size_t index, bool &negated) {
  OperandText plain = operand(index);
  negated = plain.negated;
  plain.negated = false;
  return source(plain, Type::Pred);
}

Slot Decoder::destination(const OperandText &operand, Type type,
                          unsigned *width) {
  unsigned bits = bitsOf(type);
  unsigned needed = bits == 8 ? 16 : bits;
  if (width)
    *width = needed;
  if (operand.kind == OperandText::Kind::Sink)
    return names.scratch(needed);
  if (operand.kind != OperandText::Kind::Name || operand.bits != 0)
    fail(fmt::format("'{}' needs a register for its result", text.opcode));
  const Register *found = names.findRegister(operand.name);
  if (!found)
    fail(fmt::format("'{}' is no register", operand.name));
  if (found->bits != needed && !(width && found->bits > needed && needed != 1))
    fail(fmt::format("'{}' has {} bits, the instruction gives {}", operand.name,
                     found->bits, needed));
  if (width)
    *width = found->bits;
  out.writes.push_back(found->index);
  return found->slot;
}

int64_t Decoder::immediate(size_t index) const {
  if (operand(index).kind != OperandText::Kind::Integer)
    fail(fmt::format("operand {} of '{}' must be a number", index + 1,
                     text.opcode));
  return operand(index).bits;
}

const std::vector<OperandText> &Decoder::elements(size_t index,
                                                  size_t count) const {
  const OperandText &vector = operand(index);
  if (vector.kind != OperandText::Kind::Vector || vector.parts.size() != count)
    fail(fmt::format("operand {} of '{}' must be a list of {}", index + 1,
                     text.opcode, count));
  return vector.parts;
}

void Decoder::membermask(size_t index) {
  out.membermask = source(index, Type::B32);
  out.gather = Gather::Named;
}

Space Decoder::takeSpace() {
  if (take("global"))
    return Space::Global;
  if (take("shared") || take("shared::cta"))
    return Space::Shared;
  if (take("const"))
    return Space::Const;
  if (take("param"))
    return Space::Param;
  if (take("local"))
    return Space::Local;
  return Space::Generic;
}

Decoder::Address Decoder::address(size_t index, Space space) {
  const OperandText &text = operand(index);
  if (text.kind != OperandText::Kind::Address)
    fail(fmt::format("operand {} must be an address", index + 1));
  if (text.parts.empty())
    return {names.constant(64, 0), true, text.bits};
  const std::string &base = text.parts[0].name;
  if (const Register *found = names.findRegister(base)) {
    bool narrow = found->bits == 32 && space != Space::Generic &&
                  space != Space::Global && space != Space::Const;
    if (found->bits != 64 && !narrow)
      fail(
          fmt::format("'{}' with {} bits holds no address", base, found->bits));
    out.reads.push_back(found->index);
    return {found->slot, !narrow, text.bits};
  }
  auto variable = names.findVariable(base);
  if (!variable)
    fail(fmt::format("'{}' is not declared", base));
  if (variable->space != space)
    fail(fmt::format("'{}' lies in another state space", base));
  return {names.addressSlot(*variable, text.bits, 64), true, 0};
}

void Decoder::done(Handler handler) {
  for (bool known : taken)
    if (!known)
      unknown();
  out.run = handler;
}

} // namespace attn::ptx

//===- tests/ptx/Names.cpp - What the names in a kernel stand for ---------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Names.h"
#include <algorithm>
#include <cctype>
#include <set>

namespace attn::ptx {

namespace {

/// Between objects in shared or local memory, so that an overrun hits nothing.
constexpr uint64_t RedZone = 256;

/// The next address after `end` that is a multiple of `align` but not of twice
/// as much: code that needs more than was declared then fails.
uint64_t placeAfter(uint64_t end, size_t align) {
  return (end + RedZone + 2 * align - 1) / (2 * align) * (2 * align) + align;
}

void collectNames(const OperandText &operand, std::set<std::string> &into) {
  if (operand.kind == OperandText::Kind::Name)
    into.insert(operand.name);
  for (const OperandText &part : operand.parts)
    collectNames(part, into);
}

std::set<std::string> namesIn(const KernelText &text) {
  std::set<std::string> names;
  for (const Statement &statement : text.body)
    if (auto *instruction = std::get_if<InstructionText>(&statement.what))
      for (const OperandText &operand : instruction->operands)
        collectNames(operand, names);
  return names;
}

} // namespace

Names::Names(Kernel &made, const ModuleText &module, const KernelText &text)
    : kernel(made) {
  scopes.emplace_back();
  uint32_t index = 0;
  for (const Variable &variable : module.variables)
    if (variable.space != Space::Shared)
      variables[variable.name] = {variable.space, 0, index++};
  for (const ParameterInfo &parameter : kernel.info.parameters)
    variables[parameter.name] = {Space::Param, parameter.offset, 0};
  placeShared(module, text);
}

void Names::placeShared(const ModuleText &module, const KernelText &text) {
  std::set<std::string> used = namesIn(text);
  std::vector<const Variable *> dynamic;
  uint64_t sharedEnd = 1024, localEnd = 64;
  size_t dynamicAlign = 1;
  auto place = [&](const Variable &variable) {
    bool local = variable.space == Space::Local;
    if (variable.dynamic) {
      dynamic.push_back(&variable);
      dynamicAlign = std::max(dynamicAlign, variable.align);
      return;
    }
    uint64_t &end = local ? localEnd : sharedEnd;
    uint64_t start = placeAfter(end, variable.align);
    end = start + variable.bytes;
    variables[variable.name] = {variable.space, start, 0};
    (local ? kernel.local : kernel.shared)
        .push_back(
            {variable.name, start, variable.bytes, variable.align, false});
    (local ? kernel.info.localBytes : kernel.info.staticShared) +=
        variable.bytes;
  };
  for (const Variable &variable : module.variables)
    if (variable.space == Space::Shared && used.count(variable.name) != 0)
      place(variable);
  for (const Variable &variable : text.variables)
    place(variable);
  // All dynamic arrays begin at the same address.
  kernel.dynamicStart = placeAfter(sharedEnd, dynamicAlign);
  for (const Variable *variable : dynamic) {
    variables[variable->name] = {Space::Shared, kernel.dynamicStart, 0};
    kernel.shared.push_back(
        {variable->name, kernel.dynamicStart, 0, variable->align, true});
  }
}

void Names::open() { scopes.emplace_back(); }
void Names::close() { scopes.pop_back(); }

bool Names::declare(const RegisterText &text) {
  return scopes.back().declared.emplace(text.name, text).second;
}

Slot Names::allocate(unsigned bits) {
  // Every register begins on a cache line of its own.
  size_t bytes = bits == 1 ? 64 : Lanes * std::max(16U, bits) / 8;
  Slot slot = Slot(kernel.fileBytes);
  kernel.fileBytes += bytes;
  return slot;
}

const Register *Names::findRegister(const std::string &name) {
  size_t digits = name.size();
  while (digits > 0 &&
         std::isdigit(static_cast<unsigned char>(name[digits - 1])))
    digits--;
  std::string prefix = name.substr(0, digits);
  std::string suffix = name.substr(digits);
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
    if (auto made = scope->made.find(name); made != scope->made.end())
      return &made->second;
    const RegisterText *declared = nullptr;
    if (auto exact = scope->declared.find(name);
        exact != scope->declared.end() && exact->second.count == 0)
      declared = &exact->second;
    else if (auto range = scope->declared.find(prefix);
             range != scope->declared.end() && !suffix.empty() &&
             suffix.size() < 10 && std::stoul(suffix) < range->second.count)
      declared = &range->second;
    if (!declared)
      continue;
    Register made{allocate(declared->bits), declared->bits, kernel.registers++};
    kernel.registerNames.push_back(name);
    return &scope->made.emplace(name, made).first->second;
  }
  return nullptr;
}

std::optional<Special> Names::findSpecial(std::string_view name) const {
  static const std::map<std::string_view, Special> Known = {
      {"%tid.x", Special::TidX},
      {"%tid.y", Special::TidY},
      {"%tid.z", Special::TidZ},
      {"%ntid.x", Special::NtidX},
      {"%ntid.y", Special::NtidY},
      {"%ntid.z", Special::NtidZ},
      {"%ctaid.x", Special::CtaidX},
      {"%ctaid.y", Special::CtaidY},
      {"%ctaid.z", Special::CtaidZ},
      {"%nctaid.x", Special::NctaidX},
      {"%nctaid.y", Special::NctaidY},
      {"%nctaid.z", Special::NctaidZ},
      {"%laneid", Special::LaneId},
      {"%warpid", Special::WarpId},
      {"%nwarpid", Special::NwarpId},
      {"%lanemask_eq", Special::LaneMaskEq},
      {"%lanemask_lt", Special::LaneMaskLt},
      {"%lanemask_le", Special::LaneMaskLe},
      {"%lanemask_gt", Special::LaneMaskGt},
      {"%lanemask_ge", Special::LaneMaskGe},
      {"%dynamic_smem_size", Special::DynamicSharedSize},
      {"%total_smem_size", Special::TotalSharedSize}};
  auto found = Known.find(name);
  if (found == Known.end())
    return std::nullopt;
  return found->second;
}

Slot Names::special(Special which) {
  auto found = specials.find(which);
  if (found != specials.end())
    return found->second;
  Slot slot = allocate(32);
  kernel.specials.push_back({slot, which});
  return specials[which] = slot;
}

Slot Names::constant(unsigned bits, uint64_t value) {
  bits = bits == 8 ? 16 : bits;
  if (bits < 64)
    value &= (uint64_t(1) << bits) - 1;
  auto found = constants.find({bits, value});
  if (found != constants.end())
    return found->second;
  Slot slot = allocate(bits);
  kernel.constants.push_back({slot, bits, value});
  return constants[{bits, value}] = slot;
}

Slot Names::scratch(unsigned bits) {
  auto found = scratches.find(bits);
  if (found != scratches.end())
    return found->second;
  return scratches[bits] = allocate(bits);
}

std::optional<Names::Address>
Names::findVariable(const std::string &name) const {
  auto found = variables.find(name);
  if (found == variables.end())
    return std::nullopt;
  return found->second;
}

Slot Names::addressSlot(const Address &address, int64_t offset, unsigned bits) {
  if (address.space != Space::Global && address.space != Space::Const)
    return constant(bits, address.value + uint64_t(offset));
  Slot slot = allocate(64);
  kernel.addresses.push_back({slot, address.variable, offset});
  return slot;
}

void Names::access(Space space, unsigned bytes) {
  bool any = space == Space::Generic;
  if (any || space == Space::Shared)
    kernel.sharedGranule = std::min(kernel.sharedGranule, bytes);
  if (any || space == Space::Global)
    kernel.globalGranule = std::min(kernel.globalGranule, bytes);
}

} // namespace attn::ptx

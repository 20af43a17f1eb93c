//===- tests/ptx/Names.h - What the names in a kernel stand for -----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PTX_NAMES_H
#define ATTNC_TESTS_PTX_NAMES_H

#include "Program.h"
#include <optional>
#include <unordered_map>

namespace attn::ptx {

struct Register {
  Slot slot = NoSlot;
  unsigned bits = 0; ///< 1 for a predicate
  uint32_t index = 0;
};

/// The registers, constants and variables of one kernel, in nested scopes, and
/// the layout of its warps' files. Only what is used gets a place.
class Names {
public:
  Names(Kernel &kernel, const ModuleText &module, const KernelText &text);

  void open();
  void close();
  /// False where the scope has that name already.
  bool declare(const RegisterText &text);

  const Register *findRegister(const std::string &name);
  std::optional<Special> findSpecial(std::string_view name) const;
  Slot special(Special which);
  /// A slot of `bits` (8 counts as 16) whose lanes all hold `value`.
  Slot constant(unsigned bits, uint64_t value);
  /// A slot of `bits` that results nobody wants go to.
  Slot scratch(unsigned bits);

  /// The address of a variable, or of a parameter, in its own space.
  struct Address {
    Space space;
    uint64_t value = 0;    ///< in Shared, Local and Param
    uint32_t variable = 0; ///< in Global and Const: index in the program
  };
  std::optional<Address> findVariable(const std::string &name) const;
  /// A 64-bit slot with the address and an offset; 32 bits hold it cut off.
  Slot addressSlot(const Address &address, int64_t offset, unsigned bits);

  /// Notes that the kernel makes accesses of this width.
  void access(Space space, unsigned bytes);

private:
  struct Scope {
    std::unordered_map<std::string, Register> made;
    std::unordered_map<std::string, RegisterText> declared; ///< by prefix
  };
  Slot allocate(unsigned bits);
  void placeShared(const ModuleText &module, const KernelText &text);

  Kernel &kernel;
  std::vector<Scope> scopes;
  std::map<std::pair<unsigned, uint64_t>, Slot> constants;
  std::map<Special, Slot> specials;
  std::map<unsigned, Slot> scratches;
  std::unordered_map<std::string, Address> variables;
};

} // namespace attn::ptx

#endif

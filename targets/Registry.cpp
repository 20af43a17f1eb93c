//===- targets/Registry.cpp - The targets of this build -------------------===//
//
// Part of attnc. Apache-2.0.
//
// One line a folder.
//
//===----------------------------------------------------------------------===//
#include "compiler/Target.h"
#include "targets/arm/Arm.h"
#include "targets/cuda/Cuda.h"
#include "targets/x86/X86.h"
#include "llvm/Support/Error.h"
#include <algorithm>

namespace attn {

llvm::Expected<std::string> Target::assemble(const std::string &) const {
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 info().name + " is not a device");
}

namespace {

/// Best first.
void sortTargets(std::vector<const Target *> &list) {
  std::sort(list.begin(), list.end(), [](const Target *a, const Target *b) {
    const TargetInfo &x = a->info(), &y = b->info();
    return x.preference != y.preference ? x.preference > y.preference
                                        : x.name < y.name;
  });
}

std::vector<const Target *> &registry() {
  static std::vector<const Target *> all = [] {
    std::vector<const Target *> list;
    addArmTargets(list);
    addCudaTargets(list);
    addX86Targets(list);
    sortTargets(list);
    return list;
  }();
  return all;
}

/// Names become parts of symbols and of lists on the command line.
bool isName(const std::string &name) {
  return !name.empty() && name != "host" && name != "kernels" &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

/// What is wrong with the numbers of a target, or nothing.
std::string faultOf(const TargetInfo &info) {
  const auto is = [](const char *what, uint64_t value, const char *allowed) {
    return std::string(what) + " is " + std::to_string(value) + "; " + allowed;
  };
  if (info.features.empty())
    return "features are empty; a word that tells where its code runs";
  if (info.lanes == 0 || info.lanes > 64 || (info.lanes & (info.lanes - 1)))
    return is("lanes", info.lanes, "a power of two up to 64");
  if (info.registers < 8 || info.registers > 256)
    return is("registers", info.registers, "8 to 256");
  if (info.l1Bytes < 4096)
    return is("l1Bytes", info.l1Bytes, "at least 4096");
  if (info.l2Bytes < info.l1Bytes)
    return is("l2Bytes", info.l2Bytes, "at least l1Bytes");
  return {};
}

} // namespace

const std::vector<const Target *> &targets() { return registry(); }

const Target *findTarget(const std::string &name) {
  for (const Target *target : targets())
    if (name == "host" ? target->runsHere() : target->info().name == name)
      return target;
  return nullptr;
}

std::string registerTargets(const std::vector<const Target *> &more) {
  std::vector<const Target *> all = registry();
  for (const Target *target : more) {
    const TargetInfo &info = target->info();
    if (!isName(info.name))
      return "'" + info.name +
             "' can't be the name of a target; lower-case letters, digits and "
             "'-' can, but not 'host' or 'kernels'";
    for (const Target *other : all)
      if (other->info().name == info.name)
        return "the target name '" + info.name + "' is taken";
    if (std::string fault = faultOf(info); !fault.empty())
      return "target '" + info.name + "': " + fault;
    all.push_back(target);
  }
  sortTargets(all);
  registry() = std::move(all);
  return {};
}

} // namespace attn

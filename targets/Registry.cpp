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
#include <algorithm>

namespace attn {

llvm::Expected<std::string> Target::assemble(const std::string &) const {
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 info().name + " is not a device");
}

const std::vector<const Target *> &targets() {
  static const std::vector<const Target *> all = [] {
    std::vector<const Target *> list;
    addArmTargets(list);
    addCudaTargets(list);
    addX86Targets(list);
    std::sort(list.begin(), list.end(), [](const Target *a, const Target *b) {
      return a->info().preference > b->info().preference;
    });
    return list;
  }();
  return all;
}

const Target *findTarget(const std::string &name) {
  for (const Target *target : targets())
    if (name == "host" ? target->runsHere() : target->info().name == name)
      return target;
  return nullptr;
}

} // namespace attn

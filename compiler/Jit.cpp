//===- compiler/Jit.cpp - Kernels compiled in memory ----------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Codegen.h"
#include "compiler/Compiler.h"
#include "compiler/Loader.h"
#include "compiler/Target.h"
#include <future>
#include <map>
#include <mutex>

namespace attn {
namespace {

/// What makes two requests the same: everything that code depends on. The text
/// has no NUL, so the parts can't run into each other.
std::string keyOf(const Spec &spec, const Target &target,
                  const std::string &plan) {
  std::string key = print(spec);
  key += '\0';
  key += target.info().name;
  key += '\0';
  key += plan;
  return key;
}

const attn_kernel *build(const Spec &spec, const Target &target,
                         const std::string &plan,
                         std::vector<Diagnostic> &diagnostics) {
  // The code of a device is carried by an object for this machine.
  const Target *carrier =
      target.isDevice() ? findTarget("host", diagnostics) : &target;
  if (!carrier)
    return nullptr;
  std::string object = compileKernel(spec, target, *carrier, plan,
                                     CodeKind::Object, diagnostics);
  if (object.empty())
    return nullptr;
  return static_cast<const attn_kernel *>(loadObject(
      object, kernelSymbol(spec.name, target.info().name), diagnostics));
}

/// Kernels by key. Leaked: a kernel lives as long as the process.
struct Kernels {
  std::mutex mutex;
  std::map<std::string, std::shared_future<const attn_kernel *>> byKey;
};
Kernels &kernels() {
  static Kernels *all = new Kernels;
  return *all;
}

} // namespace

const attn_kernel *jit(const Spec &spec, const CompileOptions &options,
                       std::vector<Diagnostic> &diagnostics) {
  const Target *target = findTarget(options.target, diagnostics);
  if (!target)
    return nullptr;
  if (!target->isDevice() && !target->runsHere()) {
    diagnostics.push_back({{},
                           "this machine can't run code for '" +
                               target->info().name + "': it lacks " +
                               target->missingHere(),
                           "'host' is the best target that runs here"});
    return nullptr;
  }
  Kernels &all = kernels();
  const std::string key = keyOf(spec, *target, options.plan);
  for (;;) {
    std::promise<const attn_kernel *> promise;
    std::shared_future<const attn_kernel *> earlier;
    {
      std::lock_guard<std::mutex> lock(all.mutex);
      auto [it, isFirst] = all.byKey.try_emplace(key);
      if (isFirst)
        it->second = promise.get_future().share();
      else
        earlier = it->second;
    }
    if (!earlier.valid()) {
      const attn_kernel *kernel =
          build(spec, *target, options.plan, diagnostics);
      // Failures are not kept: their places are those of one text.
      if (!kernel) {
        std::lock_guard<std::mutex> lock(all.mutex);
        all.byKey.erase(key);
      }
      promise.set_value(kernel);
      return kernel;
    }
    // Somebody else's failure is found again, with the places of this text.
    if (const attn_kernel *kernel = earlier.get())
      return kernel;
  }
}

} // namespace attn

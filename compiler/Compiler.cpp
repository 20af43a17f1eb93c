//===- compiler/Compiler.cpp - From a Spec to code ------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Compiler.h"
#include "compiler/Codegen.h"
#include "compiler/FatalErrors.h"
#include "compiler/Link.h"
#include "compiler/Pipeline.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Target/TargetMachine.h"
#include <set>

namespace attn {

std::string kernelSymbol(const std::string &variant,
                         const std::string &target) {
  std::string symbol = "attn_" + variant + "__" + target;
  for (char &c : symbol)
    if (c == '-' || c == '.')
      c = '_';
  return symbol;
}

std::string tableSymbol(const std::string &variant) {
  return kernelSymbol(variant, "kernels");
}

const Target *findTarget(const std::string &name,
                         std::vector<Diagnostic> &diagnostics) {
  if (const Target *target = findTarget(name))
    return target;
  std::string known = "host";
  for (const Target *target : targets())
    known += ", " + target->info().name;
  diagnostics.push_back({{}, "there is no target '" + name + "'", known});
  return nullptr;
}

/// Text for the device's driver or its assembler, or an object for the CPU that
/// carries both.
static std::string deviceCode(llvm::Module &module, const Spec &spec,
                              const Target &target, const Target &carrier,
                              const KernelFacts &facts, CodeKind kind,
                              std::vector<Diagnostic> &diagnostics) {
  const std::string symbol = kernelSymbol(spec.name, target.info().name);
  llvm::Function *function = module.getFunction(kKernelFunction);
  if (!function) {
    diagnostics.push_back(internalError("the stages left no kernel"));
    return {};
  }
  for (llvm::GlobalValue &value : module.global_values())
    if (!value.isDeclaration())
      value.setLinkage(llvm::GlobalValue::InternalLinkage);
  DeviceCode code;
  code.entry = symbol;
  auto enter = [](llvm::Function &function, const std::string &name) {
    function.setLinkage(llvm::GlobalValue::ExternalLinkage);
    function.setName(name);
  };
  enter(*function, symbol);
  if (llvm::Function *merge = module.getFunction(kMergeFunction)) {
    code.mergeEntry = symbol + "_merge";
    enter(*merge, code.mergeEntry);
  }
  if (kind == CodeKind::LLVM)
    return emitCode(module, target, kind, diagnostics);
  code.text = emitCode(module, target, CodeKind::Assembly, diagnostics);
  if (code.text.empty() || kind == CodeKind::Assembly)
    return code.text;
  if (kind != CodeKind::Unassembled) {
    llvm::Expected<std::string> binary = target.assemble(code.text);
    // The driver takes the text as well; only who asked for it must have it.
    if (binary)
      code.binary = *binary;
    else if (std::string why = llvm::toString(binary.takeError());
             kind == CodeKind::Binary)
      diagnostics.push_back(
          {{},
           "no " + target.info().binaryName + " can be made here: " + why,
           ""});
  }
  if (kind == CodeKind::Binary)
    return code.binary;
  llvm::LLVMContext context;
  collectDiagnostics(context, diagnostics);
  llvm::Module object(spec.name, context);
  if (!addDescriptor(object, spec, target.info(), facts, diagnostics, &code))
    return {};
  return emitCode(object, carrier, CodeKind::Object, diagnostics);
}

static std::string compileInOneContext(const Spec &spec, const Target &target,
                                       const Target &carrier,
                                       const std::string &plan, CodeKind kind,
                                       std::vector<Diagnostic> &diagnostics) {
  size_t before = diagnostics.size();
  llvm::LLVMContext context;
  collectDiagnostics(context, diagnostics);
  KernelFacts facts;
  std::unique_ptr<llvm::Module> module =
      lowerToLLVMIR(spec, target, plan, context, facts, diagnostics);
  if (!module) {
    if (diagnostics.size() == before)
      diagnostics.push_back(internalError("a stage failed without a reason"));
    return {};
  }
  if (target.isDevice())
    return deviceCode(*module, spec, target, carrier, facts, kind, diagnostics);
  if (!addDescriptor(*module, spec, target.info(), facts, diagnostics))
    return {};
  return emitCode(*module, target, kind, diagnostics);
}

std::string compileKernel(const Spec &spec, const Target &target,
                          const Target &carrier, const std::string &plan,
                          CodeKind kind, std::vector<Diagnostic> &diagnostics) {
  std::string code;
  survivingFatalErrors(
      [&] {
        code =
            compileInOneContext(spec, target, carrier, plan, kind, diagnostics);
      },
      diagnostics);
  return code;
}

/// The CPU whose files carry the kernels of these targets: the first that is
/// one, else the best that runs here.
static const Target *carrierOf(const std::vector<const Target *> &chosen,
                               std::vector<Diagnostic> &diagnostics) {
  for (const Target *target : chosen)
    if (!target->isDevice())
      return target;
  return chosen.empty() ? nullptr : findTarget("host", diagnostics);
}

CompileResult compile(const Spec &spec, const std::string &stage,
                      const CompileOptions &options) {
  CompileResult result;
  const Target *target = findTarget(options.target, result.diagnostics);
  const Target *carrier =
      target ? carrierOf({target}, result.diagnostics) : nullptr;
  if (!carrier)
    return result;
  const TargetInfo &info = target->info();
  auto code = [&](CodeKind kind) {
    result.data = compileKernel(spec, *target, *carrier, options.plan, kind,
                                result.diagnostics);
  };
  if (stage == "attn" || stage == "plan" || stage == "tile" ||
      stage == "target")
    result.data =
        emitMLIR(spec, *target, options.plan, stage, result.diagnostics);
  else if (stage == "llvm")
    code(CodeKind::LLVM);
  else if (stage == "asm" || (stage == info.assemblyName && !stage.empty()))
    code(CodeKind::Assembly);
  else if (stage == "obj")
    code(options.assembled || !target->isDevice() ? CodeKind::Object
                                                  : CodeKind::Unassembled);
  else if (stage == info.binaryName && !stage.empty())
    code(CodeKind::Binary);
  else
    result.diagnostics.push_back(
        {{},
         "there is no stage '" + stage + "' of target '" + info.name + "'",
         "attn, plan, tile, target, llvm, asm, obj" +
             (target->isDevice()
                  ? ", " + info.assemblyName + ", " + info.binaryName
                  : std::string())});
  if (result.data.empty() && result.ok())
    result.diagnostics.push_back(
        internalError("stage '" + stage + "' failed without a reason"));
  return result;
}

/// Whether a linker takes the code of all of them into one file.
static bool checkArchitectures(const std::vector<const Target *> &targets,
                               std::vector<Diagnostic> &diagnostics) {
  std::string first;
  const Target *firstTarget = nullptr;
  for (const Target *target : targets) {
    if (target->isDevice())
      continue;
    auto machine = target->createTargetMachine();
    if (!machine) {
      diagnostics.push_back(internalError(llvm::toString(machine.takeError())));
      return false;
    }
    const std::string own = (*machine)->getTargetTriple().getArchName().str();
    if (first.empty()) {
      first = own;
      firstTarget = target;
    }
    if (own == first)
      continue;
    diagnostics.push_back(
        {{},
         "one file can't hold the code of " + firstTarget->info().name + " (" +
             first + ") and of " + target->info().name + " (" + own + ")",
         "targets of one architecture"});
    return false;
  }
  return true;
}

/// The targets of a list without repetition ("host" may be one of the others).
static std::vector<const Target *>
findTargets(const std::vector<std::string> &names,
            std::vector<Diagnostic> &diagnostics) {
  std::vector<const Target *> found;
  std::set<const Target *> seen;
  for (const std::string &name : names)
    if (const Target *target = findTarget(name, diagnostics))
      if (seen.insert(target).second)
        found.push_back(target);
  if (found.empty() && diagnostics.empty())
    diagnostics.push_back({{}, "no target is named", "a list such as 'host'"});
  return found;
}

static bool checkNames(const std::vector<Spec> &specs,
                       std::vector<Diagnostic> &diagnostics) {
  if (specs.empty())
    diagnostics.push_back({{}, "there is no variant to compile", ""});
  std::set<std::string> names;
  for (const Spec &spec : specs)
    if (!names.insert(spec.name).second)
      diagnostics.push_back({spec.where,
                             "two variants are named '" + spec.name + "'",
                             "each kernel of a file has a name of its own"});
  return diagnostics.empty();
}

/// The kernels of one variant for all targets: objects, and their symbols.
struct CompiledVariant {
  std::vector<std::string> objects, symbols;
};

/// One for each variant; not whole if there are diagnostics.
static std::vector<CompiledVariant>
compileAll(const std::vector<Spec> &specs,
           const std::vector<const Target *> &targets, const Target &carrier,
           const std::string &plan, std::vector<Diagnostic> &diagnostics) {
  std::vector<CompiledVariant> variants;
  if (!checkNames(specs, diagnostics) ||
      !checkArchitectures(targets, diagnostics))
    return variants;
  for (const Spec &spec : specs) {
    CompiledVariant &variant = variants.emplace_back();
    for (const Target *target : targets) {
      variant.objects.push_back(compileKernel(spec, *target, carrier, plan,
                                              CodeKind::Object, diagnostics));
      variant.symbols.push_back(kernelSymbol(spec.name, target->info().name));
    }
  }
  return variants;
}

static void append(std::vector<std::string> &list,
                   const std::vector<std::string> &more) {
  list.insert(list.end(), more.begin(), more.end());
}

std::vector<Diagnostic> compileBundle(const std::vector<Spec> &specs,
                                      const std::vector<std::string> &targets,
                                      const std::string &plan,
                                      const std::string &path) {
  std::vector<Diagnostic> diagnostics;
  std::vector<const Target *> chosen = findTargets(targets, diagnostics);
  const Target *carrier = carrierOf(chosen, diagnostics);
  if (!carrier)
    return diagnostics;
  std::vector<std::string> objects, symbols;
  for (const CompiledVariant &variant :
       compileAll(specs, chosen, *carrier, plan, diagnostics)) {
    append(objects, variant.objects);
    append(symbols, variant.symbols);
  }
  if (!diagnostics.empty())
    return diagnostics;
  objects.push_back(
      emitBundleTable(ATTN_BUNDLE_SYMBOL, symbols, *carrier, diagnostics));
  if (diagnostics.empty())
    linkShared(objects, ATTN_BUNDLE_SYMBOL, path, diagnostics);
  return diagnostics;
}

std::vector<Diagnostic> compileObject(const std::vector<Spec> &specs,
                                      const std::vector<std::string> &targets,
                                      const std::string &plan,
                                      const std::string &path) {
  std::vector<Diagnostic> diagnostics;
  std::vector<const Target *> chosen = findTargets(targets, diagnostics);
  const Target *carrier = carrierOf(chosen, diagnostics);
  if (!carrier)
    return diagnostics;
  std::vector<CompiledVariant> variants =
      compileAll(specs, chosen, *carrier, plan, diagnostics);
  if (!diagnostics.empty())
    return diagnostics;
  std::vector<std::string> objects;
  for (size_t i = 0; i < variants.size(); ++i) {
    append(objects, variants[i].objects);
    if (chosen.size() > 1)
      objects.push_back(emitBundleTable(tableSymbol(specs[i].name),
                                        variants[i].symbols, *carrier,
                                        diagnostics));
  }
  if (diagnostics.empty())
    linkRelocatable(objects, path, diagnostics);
  return diagnostics;
}

std::string resolveTarget(const std::string &name,
                          std::vector<Diagnostic> &diagnostics) {
  const Target *target = findTarget(name, diagnostics);
  return target ? target->info().name : std::string();
}

std::vector<TargetState> targetStates() {
  std::vector<TargetState> states;
  for (const Target *target : targets())
    states.push_back({target->info().name, target->info().features,
                      target->runsHere(), target->missingHere()});
  return states;
}

} // namespace attn

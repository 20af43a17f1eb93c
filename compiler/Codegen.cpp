//===- compiler/Codegen.cpp - From an LLVM module to code -----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Codegen.h"
#include "compiler/Descriptor.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/PassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include <memory>
#include <optional>

using namespace llvm;

namespace attn {

/// The one place that says how LLVM IR is optimised. The stages before already
/// chose tiles, registers and vectors, so nothing here unrolls or vectorises,
/// and no pass runs that turns a loop into a call of the C library.
static constexpr const char *kPasses =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,"
    "simplifycfg,loop-mssa(licm),gvn,instcombine<no-verify-fixpoint>,"
    "simplifycfg),globaldce";

Diagnostic internalError(const std::string &what) {
  return {{}, "internal error: " + what, "this is a fault of the compiler"};
}

void collectDiagnostics(LLVMContext &context,
                        std::vector<Diagnostic> &diagnostics) {
  context.setDiagnosticHandlerCallBack(
      [](const DiagnosticInfo *info, void *list) {
        if (info->getSeverity() != DS_Error)
          return;
        std::string text;
        raw_string_ostream os(text);
        DiagnosticPrinterRawOStream printer(os);
        info->print(printer);
        static_cast<std::vector<Diagnostic> *>(list)->push_back(
            internalError("code generation: " + text));
      },
      &diagnostics);
}

static std::unique_ptr<TargetMachine>
createMachine(const Target &target, std::vector<Diagnostic> &diagnostics) {
  Expected<std::unique_ptr<TargetMachine>> machine =
      target.createTargetMachine();
  if (machine)
    return std::move(*machine);
  diagnostics.push_back(internalError("target '" + target.info().name +
                                      "': " + toString(machine.takeError())));
  return nullptr;
}

/// Binds a module to a machine, and says so on each function, so that the
/// printed IR gives the same code elsewhere.
static void setMachine(Module &module, const TargetMachine &machine) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    function.addFnAttr("target-features", machine.getTargetFeatureString());
    function.addFnAttr("frame-pointer", "none");
    function.setDoesNotThrow();
    // Backtraces and profilers walk through kernels.
    function.setUWTableKind(UWTableKind::Async);
  }
}

static bool optimise(Module &module, TargetMachine &machine,
                     std::vector<Diagnostic> &diagnostics) {
  LoopAnalysisManager lam;
  FunctionAnalysisManager fam;
  CGSCCAnalysisManager cgam;
  ModuleAnalysisManager mam;
  // No function of the C library is known, so none is called.
  TargetLibraryInfoImpl library(machine.getTargetTriple());
  library.disableAllFunctions();
  fam.registerPass([&] { return TargetLibraryAnalysis(library); });
  PassBuilder builder(&machine);
  builder.registerModuleAnalyses(mam);
  builder.registerCGSCCAnalyses(cgam);
  builder.registerFunctionAnalyses(fam);
  builder.registerLoopAnalyses(lam);
  builder.crossRegisterProxies(lam, fam, cgam, mam);
  ModulePassManager passes;
  if (Error error = builder.parsePassPipeline(passes, kPasses)) {
    diagnostics.push_back(internalError(toString(std::move(error))));
    return false;
  }
  passes.run(module, mam);
  return true;
}

/// Kernels stand alone: an undefined symbol would bind to whatever the process
/// or the linker happens to have.
static bool checkStandsAlone(StringRef bytes,
                             std::vector<Diagnostic> &diagnostics) {
  Expected<std::unique_ptr<object::ObjectFile>> file =
      object::ObjectFile::createObjectFile(MemoryBufferRef(bytes, "kernel"));
  if (!file) {
    diagnostics.push_back(internalError(toString(file.takeError())));
    return false;
  }
  bool ok = true;
  for (const object::SymbolRef &symbol : (*file)->symbols()) {
    Expected<uint32_t> flags = symbol.getFlags();
    if (!flags) {
      diagnostics.push_back(internalError(toString(flags.takeError())));
      return false;
    }
    if (!(*flags & object::SymbolRef::SF_Undefined) ||
        (*flags & object::SymbolRef::SF_FormatSpecific))
      continue;
    Expected<StringRef> name = symbol.getName();
    if (!name)
      consumeError(name.takeError());
    else if (!name->empty())
      diagnostics.push_back(internalError("the kernel needs the symbol '" +
                                          name->str() + "' from elsewhere"));
    else
      continue;
    ok = false;
  }
  return ok;
}

static std::string emitMachineCode(Module &module, TargetMachine &machine,
                                   CodeGenFileType type,
                                   std::vector<Diagnostic> &diagnostics) {
  SmallString<0> bytes;
  raw_svector_ostream os(bytes);
  legacy::PassManager passes;
  // "true": the caller promises nothing, so the result is not verified twice.
  if (machine.addPassesToEmitFile(passes, os, nullptr, type,
                                  /*DisableVerify=*/true)) {
    diagnostics.push_back(
        internalError("the target emits no code of this kind"));
    return {};
  }
  passes.run(module);
  return bytes.str().str();
}

/// Emits without asking whether the object stands alone.
static std::string emit(Module &module, const Target &target, CodeKind kind,
                        std::vector<Diagnostic> &diagnostics) {
  std::unique_ptr<TargetMachine> machine = createMachine(target, diagnostics);
  if (!machine)
    return {};
  size_t before = diagnostics.size();
  setMachine(module, *machine);
  std::string text;
  raw_string_ostream os(text);
  if (verifyModule(module, &os)) {
    diagnostics.push_back(internalError("broken LLVM IR: " + text));
    return {};
  }
  if (!optimise(module, *machine, diagnostics))
    return {};
  std::string code;
  if (kind == CodeKind::LLVM) {
    raw_string_ostream out(code);
    module.print(out, nullptr);
  } else {
    code = emitMachineCode(module, *machine,
                           kind == CodeKind::Assembly
                               ? CodeGenFileType::AssemblyFile
                               : CodeGenFileType::ObjectFile,
                           diagnostics);
  }
  return diagnostics.size() == before ? code : std::string();
}

std::string emitCode(Module &module, const Target &target, CodeKind kind,
                     std::vector<Diagnostic> &diagnostics) {
  std::string code = emit(module, target, kind, diagnostics);
  if (kind == CodeKind::Object && !code.empty() &&
      !checkStandsAlone(code, diagnostics))
    return {};
  return code;
}

std::string emitBundleTable(const std::string &table,
                            const std::vector<std::string> &symbols,
                            const Target &target,
                            std::vector<Diagnostic> &diagnostics) {
  LLVMContext context;
  collectDiagnostics(context, diagnostics);
  Module module("attn_bundle", context);
  addBundleTable(module, table, symbols);
  return emit(module, target, CodeKind::Object, diagnostics);
}

} // namespace attn

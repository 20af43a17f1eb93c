//===- compiler/Pipeline.cpp - The ordered list of stages -----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Pipeline.h"
#include "compiler/Import.h"
#include "compiler/Specialise.h"
#include "compiler/Tile.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace attn {
namespace {

/// The stages, in order. Each leaves a module that prints and verifies.
enum class Stage { Attn, Plan, Tile, Loops, Llvm };

/// A context, its diagnostics and the module on its way through the stages.
class Pipeline {
public:
  Pipeline(const Target &target, std::vector<Diagnostic> &diagnostics)
      : target(target),
        context(makeRegistry(target), MLIRContext::Threading::DISABLED),
        diagnostics(diagnostics),
        handler(&context, [this](mlir::Diagnostic &d) { report(d); }) {
    context.loadAllAvailableDialects();
  }

  bool run(const Spec &spec, const std::string &plan, Stage last) {
    size_t before = diagnostics.size();
    bool ok = stages(spec, plan, last);
    // A stage that fails without a word would be silent.
    if (!ok && diagnostics.size() == before)
      diagnostics.push_back(
          {spec.where, "internal error: lowering failed", ""});
    return ok;
  }

  ModuleOp module() { return *owned; }
  KernelFacts facts;

private:
  static DialectRegistry makeRegistry(const Target &target) {
    DialectRegistry registry;
    registry.insert<AttnDialect>();
    target.registerDialects(registry);
    return registry;
  }

  void report(mlir::Diagnostic &d) {
    if (d.getSeverity() != DiagnosticSeverity::Error)
      return;
    std::string text = d.str();
    // "what is wrong; what is allowed" in one message: split for the reader.
    auto [message, hint] = StringRef(text).split("; ");
    diagnostics.push_back(
        {toSourceRange(d.getLocation()), message.str(), hint.str()});
  }

  bool stages(const Spec &spec, const std::string &plan, Stage last) {
    owned = importSpec(context, spec, diagnostics);
    if (!owned || failed(verify(*owned)))
      return false;
    for (AttentionOp op : owned->getOps<AttentionOp>())
      if (failed(target.check(op)))
        return false;
    if (last == Stage::Attn)
      return true;
    for (AttentionOp op : owned->getOps<AttentionOp>()) {
      if (failed(setPlan(op, target.info(), plan)))
        return false;
      Plan chosen = toPlan(*op.getPlan());
      facts.itemGroups = itemGroups(op, chosen).size();
      facts.itemHeads = chosen.heads;
      facts.itemRows = chosen.rows;
      facts.splitKeys = chosen.split;
      facts.globals = !listsOf(op.getMask()).empty();
      facts.params.clear();
      if (auto params = op.getParams())
        for (auto param : params->getAsRange<ParameterAttr>())
          facts.params.push_back({param.getFlags(), -1});
    }
    if (last == Stage::Plan)
      return true;
    if (failed(buildTilePrograms(*owned)) || failed(verify(*owned)))
      return false;
    owned->walk([&](ExtremesOp op) {
      if (op.getBlocks())
        facts.params[op.getNumber()].summaryDim = int32_t(op.getDim());
    });
    if (last == Stage::Tile)
      return true;
    if (failed(target.lowerTiles(*owned)))
      return false;
    if (last == Stage::Loops)
      return succeeded(verify(*owned));
    for (Operation &op : *owned->getBody()) {
      auto symbol =
          op.getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName());
      KernelFacts::Block &block =
          symbol && symbol == kMergeFunction ? facts.merge : facts.items;
      for (auto [name, fact] : {std::pair<const char *, int64_t *>{
                                    kScratchAttr, &facts.scratchBytes},
                                {kStateAttr, &facts.stateBytes},
                                {kThreadsAttr, &block.threads},
                                {kSharedAttr, &block.sharedBytes}})
        if (auto value = op.getAttrOfType<IntegerAttr>(name))
          *fact = value.getInt();
    }
    return succeeded(target.lowerToLLVM(*owned));
  }

  const Target &target;
  MLIRContext context;
  std::vector<Diagnostic> &diagnostics;
  ScopedDiagnosticHandler handler;
  OwningOpRef<ModuleOp> owned;
};

} // namespace

std::unique_ptr<llvm::Module>
lowerToLLVMIR(const Spec &spec, const Target &target, const std::string &plan,
              llvm::LLVMContext &context, KernelFacts &facts,
              std::vector<Diagnostic> &diagnostics) {
  Pipeline pipeline(target, diagnostics);
  if (!pipeline.run(spec, plan, Stage::Llvm))
    return nullptr;
  facts = pipeline.facts;
  auto module = translateModuleToLLVMIR(pipeline.module(), context, spec.name,
                                        /*disableVerification=*/true);
  if (!module && diagnostics.empty())
    diagnostics.push_back(
        {spec.where, "internal error: translation failed", ""});
  return module;
}

std::string emitMLIR(const Spec &spec, const Target &target,
                     const std::string &plan, const std::string &stage,
                     std::vector<Diagnostic> &diagnostics) {
  Stage last = stage == "attn"   ? Stage::Attn
               : stage == "plan" ? Stage::Plan
               : stage == "tile" ? Stage::Tile
                                 : Stage::Loops;
  Pipeline pipeline(target, diagnostics);
  std::string text;
  if (!pipeline.run(spec, plan, last))
    return text;
  llvm::raw_string_ostream out(text);
  pipeline.module().print(out);
  return text;
}

} // namespace attn

//===- targets/cuda/Cuda.cpp - NVIDIA GPUs by compute capability ----------===//
//
// Part of attnc. Apache-2.0.
//
// A target is a descriptor: the instruction set, and how much memory a block
// may share. The code is PTX, which `ptxas` or the driver turns into that of a
// GPU.
//
//===----------------------------------------------------------------------===//
#include "targets/cuda/Cuda.h"
#include "compiler/AttnDialect.h"
#include "targets/common/Limits.h"
#include "targets/common/Loops.h"
#include "targets/cuda/Assembler.h"
#include "targets/cuda/FragmentLowering.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include <mutex>

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

using namespace mlir;

namespace attn {
namespace {

struct Descriptor {
  TargetInfo info;
  std::string architecture; ///< as LLVM and ptxas call it
  std::string version;      ///< of PTX, as LLVM calls it
};

class CudaTarget final : public Target {
public:
  explicit CudaTarget(Descriptor descriptor) : d(std::move(descriptor)) {}

  const TargetInfo &info() const override { return d.info; }
  bool runsHere() const override { return false; }
  std::string missingHere() const override { return d.info.features; }
  bool isDevice() const override { return true; }
  void registerDialects(DialectRegistry &registry) const override;
  LogicalResult check(AttentionOp op) const override;
  LogicalResult lowerTiles(ModuleOp module) const override;
  LogicalResult lowerToLLVM(ModuleOp module) const override;
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
  createTargetMachine() const override;
  llvm::Expected<std::string>
  assemble(const std::string &assembly) const override {
    return assemblePtx(assembly, d.architecture);
  }

private:
  Descriptor d;
};

} // namespace

void CudaTarget::registerDialects(DialectRegistry &registry) const {
  registerLoopDialects(registry);
}

LogicalResult CudaTarget::check(AttentionOp op) const {
  return checkTensors(op, d.info.name, kWidestFragmentRow);
}

LogicalResult CudaTarget::lowerTiles(ModuleOp module) const {
  for (KernelOp kernel :
       llvm::make_early_inc_range(module.getOps<KernelOp>())) {
    OpBuilder b(kernel);
    // The call, in the device's memory, and the first item of the launch.
    Type call = LLVM::LLVMPointerType::get(b.getContext(), 1);
    auto function = func::FuncOp::create(
        b, kernel.getLoc(),
        kernel.getMerge() ? kMergeFunction : kKernelFunction,
        b.getFunctionType({call, b.getI64Type()}, {}));
    FragmentLowering lowering(kernel, function, d.info);
    if (failed(lowering.run()))
      return failure();
    if (uint64_t(lowering.sharedBytes()) > d.info.sharedBytes)
      return kernel.emitError()
             << "its tiles take " << lowering.sharedBytes()
             << " bytes of memory that a block shares; at most "
             << d.info.sharedBytes << " are there on " << d.info.name;
    function->setAttr(kThreadsAttr, b.getI64IntegerAttr(lowering.threads()));
    function->setAttr(kSharedAttr, b.getI64IntegerAttr(lowering.sharedBytes()));
    if (!kernel.getMerge() && kernel.getPlan().getSplit())
      function->setAttr(kStateAttr, b.getI64IntegerAttr(lowering.stateBytes()));
    kernel.erase();
  }
  return success();
}

LogicalResult CudaTarget::lowerToLLVM(ModuleOp module) const {
  if (failed(lowerLoopsToLLVM(module)))
    return failure();
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    auto threads = function->getAttrOfType<IntegerAttr>(kThreadsAttr);
    if (!threads)
      continue;
    function.setCConv(LLVM::CConv::PTX_Kernel);
    OpBuilder b(module.getContext());
    function.setPassthroughAttr(b.getArrayAttr({b.getStrArrayAttr(
        {"nvvm.reqntid", std::to_string(threads.getInt())})}));
  }
  return success();
}

static void initialize() {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  // Pointers into shared memory take one register. LLVM has no other way to say
  // so than this option, which only this code generator reads.
  auto &options = llvm::cl::getRegisteredOptions();
  if (auto found = options.find("nvptx-short-ptr"); found != options.end())
    found->second->addOccurrence(0, "nvptx-short-ptr", "true");
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
CudaTarget::createTargetMachine() const {
  static std::once_flag once;
  std::call_once(once, initialize);
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return llvm::createStringError(llvm::inconvertibleErrorCode(), error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, d.architecture, d.version, options, std::nullopt, std::nullopt,
      llvm::CodeGenOptLevel::Default));
}

static Descriptor capability(const char *name, const char *features,
                             int preference, const char *architecture,
                             const char *version, uint64_t sharedBytes) {
  Descriptor d;
  d.info.name = name;
  d.info.features = features;
  d.info.preference = preference;
  d.info.lanes = 1;
  d.info.registers = 255;
  d.info.fusedMultiplyAdd = true;
  d.info.convertsF16 = true;
  d.info.fragmentRows = 16;
  d.info.sharedBytes = sharedBytes;
  d.info.assemblyName = "ptx";
  d.info.binaryName = "cubin";
  d.architecture = architecture;
  d.version = version;
  return d;
}

void addCudaTargets(std::vector<const Target *> &list) {
  // Below the CPUs: a caller with tensors on a device asks for it.
  static const CudaTarget sm80(
      capability("cuda-sm80", "cuda-sm80", -200, "sm_80", "+ptx70", 163 << 10));
  static const CudaTarget sm90(
      capability("cuda-sm90", "cuda-sm90", -100, "sm_90", "+ptx80", 227 << 10));
  list.insert(list.end(), {&sm80, &sm90});
}

} // namespace attn

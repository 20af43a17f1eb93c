//===- compiler/Descriptor.cpp - attn_abi.h's structs as IR ---------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Descriptor.h"
#include "compiler/Codegen.h"
#include "compiler/Compiler.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalVariable.h"

using namespace llvm;

namespace attn {

StructType *kernelStructType(LLVMContext &context) {
  llvm::Type *ptr = PointerType::getUnqual(context);
  llvm::Type *i32 = llvm::Type::getInt32Ty(context);
  llvm::Type *i64 = llvm::Type::getInt64Ty(context);
  return StructType::get(context, {
                                      i32, i32,           // versions
                                      ptr, ptr, ptr, ptr, // texts
                                      ptr,                // run
                                      i64, i64, i64, i64, // heads and widths
                                      i32, i32, i32, i32, // types, preference
                                      i64, i64, i64,      // items
                                      i64,                // scratch_bytes
                                      i32, i32,           // n_params, flags
                                      ptr, ptr,           // params, device
                                      i64, i64,           // split, state
                                  });
}

StructType *bundleTableStructType(LLVMContext &context) {
  llvm::Type *ptr = PointerType::getUnqual(context);
  llvm::Type *i32 = llvm::Type::getInt32Ty(context);
  return StructType::get(context, {i32, i32, i32, i32, ptr, ptr});
}

static Constant *addString(Module &module, StringRef text) {
  Constant *bytes = ConstantDataArray::getString(module.getContext(), text);
  auto *global =
      new GlobalVariable(module, bytes->getType(), true,
                         GlobalValue::PrivateLinkage, bytes, "attn.text");
  global->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
  global->setAlignment(llvm::Align(1));
  return global;
}

static Constant *addBytes(Module &module, StringRef bytes) {
  if (bytes.empty())
    return ConstantPointerNull::get(
        PointerType::getUnqual(module.getContext()));
  Constant *data = ConstantDataArray::getRaw(
      bytes, bytes.size(), llvm::Type::getInt8Ty(module.getContext()));
  auto *global =
      new GlobalVariable(module, data->getType(), true,
                         GlobalValue::PrivateLinkage, data, "attn.code");
  global->setAlignment(llvm::Align(16));
  return global;
}

/// The attn_device_code of a kernel; null for a CPU.
static Constant *addDevice(Module &module, const DeviceCode *code,
                           const KernelFacts &facts) {
  LLVMContext &context = module.getContext();
  llvm::Type *i32 = llvm::Type::getInt32Ty(context);
  llvm::Type *i64 = llvm::Type::getInt64Ty(context);
  auto *ptr = PointerType::getUnqual(context);
  if (!code)
    return ConstantPointerNull::get(ptr);
  StructType *type =
      StructType::get(context, {ptr, ptr, ptr, i64, i32, i32, ptr, i32, i32});
  Constant *fields[] = {addString(module, code->entry),
                        addString(module, code->text),
                        addBytes(module, code->binary),
                        ConstantInt::get(i64, code->binary.size()),
                        ConstantInt::getSigned(i32, facts.items.threads),
                        ConstantInt::getSigned(i32, facts.items.sharedBytes),
                        code->mergeEntry.empty()
                            ? ConstantPointerNull::get(ptr)
                            : addString(module, code->mergeEntry),
                        ConstantInt::getSigned(i32, facts.merge.threads),
                        ConstantInt::getSigned(i32, facts.merge.sharedBytes)};
  auto *device =
      new GlobalVariable(module, type, true, GlobalValue::PrivateLinkage,
                         ConstantStruct::get(type, fields), "attn.device");
  device->setAlignment(llvm::Align(8));
  return device;
}

static std::optional<attn_dtype> dtypeOf(attn::Type type) {
  switch (type) {
  case attn::Type::I32:
    return ATTN_I32;
  case attn::Type::Bool:
    return ATTN_BOOL;
  case attn::Type::Tokens:
    return ATTN_TOKENS;
  case attn::Type::F32:
    return ATTN_F32;
  case attn::Type::F16:
    return ATTN_F16;
  case attn::Type::BF16:
    return ATTN_BF16;
  default:
    return std::nullopt;
  }
}

static attn_dim dimOf(Dim::Kind kind) {
  switch (kind) {
  case Dim::Batch:
    return ATTN_DIM_BATCH;
  case Dim::Heads:
    return ATTN_DIM_HEADS;
  case Dim::KvHeads:
    return ATTN_DIM_KV_HEADS;
  case Dim::Queries:
    return ATTN_DIM_QUERIES;
  case Dim::Keys:
    return ATTN_DIM_KEYS;
  case Dim::Tokens:
    return ATTN_DIM_TOKENS;
  case Dim::Constant:
    return ATTN_DIM_CONSTANT;
  }
  llvm_unreachable("every kind is handled");
}

attn_param_info paramInfo(const Param &param) {
  attn_param_info info = {};
  info.name = param.name.c_str();
  info.type = dtypeOf(param.type).value_or(ATTN_F32);
  std::vector<Dim> declared = param.dims;
  if (param.type == attn::Type::Tokens)
    declared = {{Dim::Batch, 0}, {Dim::Tokens, 0}};
  info.rank = int32_t(declared.size());
  for (auto [d, dim] : enumerate(declared)) {
    info.dims[d] = dimOf(dim.kind);
    info.constants[d] = dim.constant;
  }
  info.summary_dim = -1;
  return info;
}

/// The array of attn_param_info; null where there are no parameters.
static Constant *addParams(Module &module, const Spec &spec,
                           const KernelFacts &facts) {
  LLVMContext &context = module.getContext();
  llvm::Type *ptr = PointerType::getUnqual(context);
  llvm::Type *i32 = llvm::Type::getInt32Ty(context);
  llvm::Type *i64 = llvm::Type::getInt64Ty(context);
  if (spec.params.empty())
    return ConstantPointerNull::get(cast<PointerType>(ptr));
  auto *dimsType = ArrayType::get(i32, ATTN_MAX_DIMS);
  auto *constantsType = ArrayType::get(i64, ATTN_MAX_DIMS);
  StructType *type = StructType::get(
      context, {ptr, i32, i32, dimsType, constantsType, i32, i32});
  SmallVector<Constant *> infos;
  for (auto [i, param] : enumerate(spec.params)) {
    const attn_param_info info = paramInfo(param);
    SmallVector<Constant *> dims, constants;
    for (unsigned d = 0; d < ATTN_MAX_DIMS; ++d) {
      dims.push_back(ConstantInt::getSigned(i32, info.dims[d]));
      constants.push_back(ConstantInt::getSigned(i64, info.constants[d]));
    }
    const ParamFacts own =
        i < facts.params.size() ? facts.params[i] : ParamFacts();
    infos.push_back(ConstantStruct::get(
        type,
        {addString(module, param.name), ConstantInt::getSigned(i32, info.type),
         ConstantInt::getSigned(i32, info.rank),
         ConstantArray::get(dimsType, dims),
         ConstantArray::get(constantsType, constants),
         ConstantInt::getSigned(i32, own.flags),
         ConstantInt::getSigned(i32, own.summaryDim)}));
  }
  auto *listType = ArrayType::get(type, infos.size());
  auto *list =
      new GlobalVariable(module, listType, true, GlobalValue::PrivateLinkage,
                         ConstantArray::get(listType, infos), "attn.params");
  list->setAlignment(llvm::Align(8));
  return list;
}

/// The function that runs the kernel on a CPU, local and with a name that a
/// profiler shows; null where the stages left none of the agreed type.
static Function *namedRun(Module &module, const std::string &symbol) {
  LLVMContext &context = module.getContext();
  llvm::Type *i64 = llvm::Type::getInt64Ty(context);
  llvm::Type *ptr = PointerType::getUnqual(context);
  Function *run = module.getFunction(kKernelFunction);
  auto *runType = FunctionType::get(llvm::Type::getVoidTy(context),
                                    {ptr, i64, i64, ptr}, false);
  if (!run || run->isDeclaration() || run->getFunctionType() != runType)
    return nullptr;
  for (GlobalValue &value : module.global_values())
    if (!value.isDeclaration()) {
      value.setVisibility(GlobalValue::DefaultVisibility);
      value.setLinkage(GlobalValue::InternalLinkage);
    }
  run->setName(symbol + "_run"); // what a profiler shows
  return run;
}

bool addDescriptor(Module &module, const Spec &spec, const TargetInfo &target,
                   const KernelFacts &facts,
                   std::vector<Diagnostic> &diagnostics,
                   const DeviceCode *device) {
  LLVMContext &context = module.getContext();
  llvm::Type *i32 = llvm::Type::getInt32Ty(context);
  llvm::Type *i64 = llvm::Type::getInt64Ty(context);

  const std::string symbol = kernelSymbol(spec.name, target.name);
  Constant *run =
      device ? ConstantPointerNull::get(PointerType::getUnqual(context))
             : static_cast<Constant *>(namedRun(module, symbol));
  if (!run) {
    diagnostics.push_back(internalError(std::string("the stages left no '") +
                                        kKernelFunction +
                                        "' of the agreed type"));
    return false;
  }
  std::optional<attn_dtype> q = dtypeOf(spec.qType), kv = dtypeOf(spec.kvType),
                            out = dtypeOf(spec.outType);
  if (!q || !kv || !out) {
    diagnostics.push_back({spec.placeOf("type"),
                           std::string("a kernel can't take tensors of type ") +
                               name(!q    ? spec.qType
                                    : !kv ? spec.kvType
                                          : spec.outType),
                           "f32, f16 or bf16"});
    return false;
  }

  auto int32 = [&](int64_t value) {
    return ConstantInt::getSigned(i32, value);
  };
  auto int64 = [&](int64_t value) {
    return ConstantInt::getSigned(i64, value);
  };
  auto text = [&](StringRef value) { return addString(module, value); };
  Constant *fields[] = {
      int32(ATTN_ABI_VERSION),
      int32(sizeof(attn_kernel)),
      text(spec.name),
      text(target.name),
      text(target.features),
      text(print(spec)),
      run,
      int64(spec.heads),
      int64(spec.kvHeads),
      int64(spec.qkDim),
      int64(spec.valueDim),
      int32(*q),
      int32(*kv),
      int32(*out),
      int32(target.preference),
      int64(facts.itemGroups),
      int64(facts.itemHeads),
      int64(facts.itemRows),
      int64(facts.scratchBytes),
      int32(int64_t(spec.params.size())),
      int32((spec.align == Align::TopLeft ? ATTN_KERNEL_TOP_LEFT : 0) |
            (facts.globals ? ATTN_KERNEL_GLOBALS : 0)),
      addParams(module, spec, facts),
      addDevice(module, device, facts),
      int64(facts.splitKeys),
      int64(facts.stateBytes),
  };
  StructType *type = kernelStructType(context);
  auto *descriptor = new GlobalVariable(
      module, type, /*isConstant=*/true, GlobalValue::ExternalLinkage,
      ConstantStruct::get(type, fields), symbol);
  descriptor->setAlignment(llvm::Align(8));
  return true;
}

void addBundleTable(Module &module, const std::string &tableSymbol,
                    const std::vector<std::string> &symbols) {
  LLVMContext &context = module.getContext();
  llvm::Type *i32 = llvm::Type::getInt32Ty(context);
  llvm::Type *ptr = PointerType::getUnqual(context);
  StructType *kernel = kernelStructType(context);
  SmallVector<Constant *> kernels;
  for (const std::string &symbol : symbols)
    kernels.push_back(new GlobalVariable(module, kernel, /*isConstant=*/true,
                                         GlobalValue::ExternalLinkage, nullptr,
                                         symbol));
  auto *listType = ArrayType::get(ptr, kernels.size());
  auto *list =
      new GlobalVariable(module, listType, true, GlobalValue::PrivateLinkage,
                         ConstantArray::get(listType, kernels), "attn.kernels");
  auto int32 = [&](uint32_t value) { return ConstantInt::get(i32, value); };
  StructType *type = bundleTableStructType(context);
  Constant *fields[] = {
      int32(ATTN_BUNDLE_MAGIC),
      int32(ATTN_ABI_VERSION),
      int32(sizeof(attn_bundle_table)),
      int32(uint32_t(symbols.size())),
      list,
      addString(module, "attnc " + compilerVersion()),
  };
  auto *table = new GlobalVariable(
      module, type, /*isConstant=*/true, GlobalValue::ExternalLinkage,
      ConstantStruct::get(type, fields), tableSymbol);
  table->setAlignment(llvm::Align(8));
}

} // namespace attn

//===- compiler/Calibrate.cpp - Loops that measure a machine --------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Calibrate.h"
#include "compiler/Codegen.h"
#include "compiler/Loader.h"
#include "compiler/Target.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include <algorithm>
#include <map>
#include <mutex>

using namespace llvm;

namespace attn {
namespace {

constexpr const char *kMultiplyAdd = "attn_calibrate_multiply_add";
constexpr const char *kRead = "attn_calibrate_read";
/// Vectors read by one round of the streaming loop.
constexpr unsigned kReadVectors = 16;

/// void name(i64 rounds, ptr in, ptr sum), whose body is a loop over rounds
/// that carries `count` vectors and stores their sum.
class LoopBuilder {
public:
  LoopBuilder(Module &module, StringRef name, unsigned lanes, unsigned count)
      : builder(module.getContext()) {
    LLVMContext &context = module.getContext();
    llvm::Type *ptr = PointerType::getUnqual(context);
    llvm::Type *i64 = builder.getInt64Ty();
    vector = FixedVectorType::get(builder.getFloatTy(), lanes);
    function = Function::Create(
        FunctionType::get(builder.getVoidTy(), {i64, ptr, ptr}, false),
        GlobalValue::ExternalLinkage, name, module);
    auto *entry = BasicBlock::Create(context, "entry", function);
    body = BasicBlock::Create(context, "body", function);
    exit = BasicBlock::Create(context, "exit", function);
    builder.SetInsertPoint(body);
    round = builder.CreatePHI(i64, 2, "round");
    round->addIncoming(ConstantInt::get(i64, 0), entry);
    builder.SetInsertPoint(entry);
    for (unsigned i = 0; i < count; ++i)
      starts.push_back(ConstantVector::getSplat(
          ElementCount::getFixed(lanes),
          ConstantFP::get(builder.getFloatTy(), double(i))));
    builder.CreateBr(body);
    builder.SetInsertPoint(body);
    for (Value *start : starts) {
      PHINode *phi = builder.CreatePHI(vector, 2);
      phi->addIncoming(start, entry);
      carried.push_back(phi);
    }
  }

  Value *rounds() { return function->getArg(0); }
  Value *in() { return function->getArg(1); }
  Value *out() { return function->getArg(2); }

  void finish(ArrayRef<Value *> next) {
    Value *following =
        builder.CreateAdd(round, builder.getInt64(1), "next", true, true);
    round->addIncoming(following, body);
    for (auto [phi, value] : zip_equal(carried, next))
      phi->addIncoming(value, body);
    builder.CreateCondBr(builder.CreateICmpSLT(following, rounds()), body,
                         exit);
    builder.SetInsertPoint(exit);
    Value *sum = next.front();
    for (Value *value : next.drop_front())
      sum = builder.CreateFAdd(sum, value);
    builder.CreateStore(
        builder.CreateFAddReduce(
            ConstantFP::getNegativeZero(builder.getFloatTy()), sum),
        out());
    builder.CreateRetVoid();
  }

  IRBuilder<> builder;
  FixedVectorType *vector;
  PHINode *round;
  SmallVector<PHINode *> carried;

private:
  Function *function;
  BasicBlock *body, *exit;
  SmallVector<Value *> starts;
};

/// Enough independent chains to hide the latency of two units, in registers.
unsigned chainsOf(const TargetInfo &info) {
  return std::clamp(info.registers - 4, 4u, 24u);
}

void buildMultiplyAdd(Module &module, const TargetInfo &info) {
  LoopBuilder loop(module, kMultiplyAdd, info.lanes, chainsOf(info));
  IRBuilder<> &builder = loop.builder;
  auto load = [&](unsigned index) {
    return builder.CreateVectorSplat(
        info.lanes,
        builder.CreateLoad(builder.getFloatTy(),
                           builder.CreateConstGEP1_64(builder.getFloatTy(),
                                                      loop.in(), index)));
  };
  Value *factor = load(0), *term = load(1);
  SmallVector<Value *> next;
  for (PHINode *sum : loop.carried)
    next.push_back(
        info.fusedMultiplyAdd
            ? builder.CreateIntrinsic(Intrinsic::fma, {loop.vector},
                                      {sum, factor, term})
            : builder.CreateFAdd(builder.CreateFMul(sum, factor), term));
  loop.finish(next);
}

void buildRead(Module &module, const TargetInfo &info) {
  constexpr unsigned sums = 8;
  LoopBuilder loop(module, kRead, info.lanes, sums);
  IRBuilder<> &builder = loop.builder;
  Value *start = builder.CreateGEP(
      builder.getFloatTy(), loop.in(),
      builder.CreateMul(loop.round,
                        builder.getInt64(int64_t(kReadVectors) * info.lanes)));
  SmallVector<Value *> next(loop.carried.begin(), loop.carried.end());
  for (unsigned i = 0; i < kReadVectors; ++i) {
    Value *address = builder.CreateConstGEP1_64(builder.getFloatTy(), start,
                                                uint64_t(i) * info.lanes);
    next[i % sums] = builder.CreateFAdd(
        next[i % sums],
        builder.CreateAlignedLoad(loop.vector, address, llvm::Align(4)));
  }
  loop.finish(next);
}

const void *buildAndLoad(const Target &target, const char *name,
                         void (*build)(Module &, const TargetInfo &),
                         std::vector<Diagnostic> &diagnostics) {
  LLVMContext context;
  collectDiagnostics(context, diagnostics);
  Module module(name, context);
  build(module, target.info());
  std::string object = emitCode(module, target, CodeKind::Object, diagnostics);
  return object.empty() ? nullptr : loadObject(object, name, diagnostics);
}

} // namespace

const Calibration *calibration(const std::string &name,
                               std::vector<Diagnostic> &diagnostics) {
  const Target *target = findTarget(name, diagnostics);
  if (!target)
    return nullptr;
  const TargetInfo &info = target->info();
  if (!target->runsHere()) {
    diagnostics.push_back({{},
                           "this machine can't run code for '" + info.name +
                               "': it lacks " + target->missingHere(),
                           ""});
    return nullptr;
  }
  static std::mutex mutex;
  static auto *made = new std::map<const Target *, Calibration>;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = made->find(target);
  if (found != made->end())
    return &found->second;
  const void *multiplyAdd =
      buildAndLoad(*target, kMultiplyAdd, buildMultiplyAdd, diagnostics);
  const void *read = buildAndLoad(*target, kRead, buildRead, diagnostics);
  if (!multiplyAdd || !read)
    return nullptr;
  Calibration result;
  result.multiplyAdd = reinterpret_cast<decltype(result.multiplyAdd)>(
      reinterpret_cast<uintptr_t>(multiplyAdd));
  result.flopsPerIteration = 2.0 * info.lanes * chainsOf(info);
  result.read = reinterpret_cast<decltype(result.read)>(
      reinterpret_cast<uintptr_t>(read));
  result.bytesPerBlock = int64_t(kReadVectors) * info.lanes * sizeof(float);
  return &made->emplace(target, result).first->second;
}

} // namespace attn

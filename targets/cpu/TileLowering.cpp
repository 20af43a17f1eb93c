//===- targets/cpu/TileLowering.cpp - Tile programs to loops --------------===//
//
// Part of attnc. Apache-2.0.
//
// Tiles become areas of scratch memory, and are updated in place.
//
//===----------------------------------------------------------------------===//
#include "targets/cpu/TileLowering.h"
#include "runtime/attn_abi.h"
#include "targets/cpu/KernelLowering.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cstddef>

using namespace mlir;

namespace attn {

KernelLowering::KernelLowering(KernelOp kernel, func::FuncOp function,
                               const TargetInfo &target)
    : ProgramLowering(kernel, function, target) {}

Value KernelLowering::allocate(int64_t floats) {
  Value area = e.at(scratch, scratchFloats);
  scratchFloats += (floats + 15) / 16 * 16;
  return area;
}

void KernelLowering::callRoutine(StringRef name, ValueRange args,
                                 llvm::function_ref<void(ValueRange)> body) {
  auto module = function->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToEnd(module.getBody());
    auto routine = func::FuncOp::create(
        e.b, name, e.b.getFunctionType(args.getTypes(), {}));
    routine.setPrivate();
    routine->setAttr(
        "llvm.linkage",
        LLVM::LinkageAttr::get(e.b.getContext(), LLVM::Linkage::Internal));
    e.b.setInsertionPointToStart(routine.addEntryBlock());
    body(routine.getArguments());
    func::ReturnOp::create(e.b);
  }
  func::CallOp::create(e.b, name, TypeRange(), args);
}

std::string KernelLowering::suffix(Type element) {
  return element == e.f32 ? "" : element.isF16() ? "_f16" : "_bf16";
}

LogicalResult KernelLowering::run() {
  Block *entry = function.addEntryBlock();
  e.b.setInsertionPointToStart(entry);
  scratch = entry->getArgument(3);
  loadCall(entry->getArgument(0));
  for (Operand which : {Operand::Q, Operand::K, Operand::V, Operand::O})
    call.operands[int(which)] = loadOperand(which);
  scoreArea = allocate(plan.rows * plan.keys);
  peakArea = allocate(plan.rows);
  onesArea = allocate(plan.rows);
  e.loop(e.c(0), e.c(plan.rows), e.lanes, [&](Value r) {
    e.store(e.splat(1), e.at(onesArea, r), Aligned::Vector);
  });
  decayArea = allocate(plan.rows);
  lseArea = allocate(plan.rows);
  valueArea = allocate(plan.keys * panelColumns());
  if (call.operands[int(Operand::V)].element != e.f32)
    narrowArea = allocate(plan.keys * panelColumns());
  keyArea = allocate(plan.keys * qkDim);
  rowPositions = allocate(plan.rows);
  maskArea = allocate(plan.keys * panelRows());

  Block &body = kernel.getBody().front();
  // Areas are handed out inside the loop over items, but their addresses do
  // not change with it.
  LogicalResult result = success();
  e.loop(entry->getArgument(1), entry->getArgument(2), 1, [&](Value number) {
    scalars.map(body.getArgument(0), number);
    result = block(body);
  });
  func::ReturnOp::create(e.b);
  function->setAttr(kScratchAttr, e.b.getI64IntegerAttr(scratchBytes()));
  return result;
}

LogicalResult KernelLowering::sameTiles(Operation *op, OperandRange yielded,
                                        ValueRange state) {
  for (auto [after, before] : llvm::zip(yielded, state))
    if (tiles.lookup(after) != tiles.lookup(before) || !tiles.lookup(before))
      return op->emitOpError("carries a tile that is not updated in place");
  return success();
}

LogicalResult KernelLowering::forLoop(scf::ForOp op) {
  for (auto [arg, result, init] :
       llvm::zip(op.getRegionIterArgs(), op.getResults(), op.getInitArgs())) {
    // One after the other: a map that grows moves what it holds.
    Value area = tiles.lookup(init);
    tiles[arg] = area;
    tiles[result] = area;
  }
  auto step = getConstantIntValue(op.getStep());
  if (!step)
    return op.emitOpError("has a step that is not constant");
  LogicalResult result = success();
  e.loop(scalar(op.getLowerBound()), scalar(op.getUpperBound()), *step,
         [&](Value i) {
           scalars.map(op.getInductionVar(), i);
           result = block(*op.getBody());
         });
  if (failed(result))
    return failure();
  return sameTiles(op, op.getBody()->getTerminator()->getOperands(),
                   op.getInitArgs());
}

LogicalResult KernelLowering::ifBranch(scf::IfOp op) {
  LogicalResult result = success();
  auto side = [&](Block *which) {
    if (which && failed(block(*which)))
      result = failure();
  };
  if (op.elseBlock())
    e.branch(
        scalar(op.getCondition()), [&] { side(op.thenBlock()); },
        [&] { side(op.elseBlock()); });
  else
    e.branch(scalar(op.getCondition()), [&] { side(op.thenBlock()); });
  if (failed(result) || op.getNumResults() == 0)
    return result;
  auto then = op.thenBlock()->getTerminator()->getOperands();
  for (auto [value, from] : llvm::zip(op.getResults(), then))
    tiles[value] = tiles.lookup(from);
  return sameTiles(op, op.elseBlock()->getTerminator()->getOperands(),
                   op.getResults());
}

LogicalResult KernelLowering::tileOp(Operation &op) {
  LogicalResult result = success();
  llvm::TypeSwitch<Operation *>(&op)
      .Case<PickOp>([&](auto o) { pick(o); })
      .Case<SinkOp>([&](auto o) { sink(o); })
      .Case<LoadRowsOp>([&](auto o) { loadRows(o); })
      .Case<LoadKeysOp>([&](auto o) { loadKeys(o); })
      .Case<FillOp>([&](auto o) { fill(o); })
      .Case<ScoresOp>([&](auto o) { scores(o); })
      .Case<SoftmaxOp>([&](auto o) { softmax(o); })
      .Case<AccumulateOp>([&](auto o) { accumulate(o); })
      .Case<FinishOp>([&](auto o) { finish(o); })
      .Case<StoreRowsOp>([&](auto o) { storeRows(o); })
      .Default([&](Operation *o) {
        result = o->emitOpError() << "is not lowered for " << e.target.name;
      });
  return result;
}

LogicalResult lowerTilesToLoops(ModuleOp module, const TargetInfo &target) {
  for (KernelOp kernel :
       llvm::make_early_inc_range(module.getOps<KernelOp>())) {
    if (const int64_t split = kernel.getPlan().getSplit())
      return kernel.emitError() << "plan split is " << split
                                << "; 0 is lowered for " << target.name;
    OpBuilder b(kernel);
    Type ptr = LLVM::LLVMPointerType::get(b.getContext());
    Type i64 = b.getI64Type();
    auto function =
        func::FuncOp::create(b, kernel.getLoc(), kKernelFunction,
                             b.getFunctionType({ptr, i64, i64, ptr}, {}));
    // The caller's scratch memory is nobody else's.
    function.setArgAttr(3, LLVM::LLVMDialect::getNoAliasAttrName(),
                        b.getUnitAttr());
    if (failed(KernelLowering(kernel, function, target).run()))
      return failure();
    kernel.erase();
  }
  return success();
}

} // namespace attn

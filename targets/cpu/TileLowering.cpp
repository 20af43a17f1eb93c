//===- targets/cpu/TileLowering.cpp - Tile programs to loops --------------===//
//
// Part of attnc. Apache-2.0.
//
// Walks a tile program and writes it again as loops. Scalars keep their form
// (index becomes i64), tiles become areas of scratch memory.
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
    : kernel(kernel), function(function),
      e(kernel.getLoc(), OpBuilder(function.getContext()), target),
      plan(toPlan(kernel.getPlan())) {}

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

void KernelLowering::loadCall(Value base) {
  auto field = [&](size_t offset, Type type) {
    return this->field(base, offset, type);
  };
  auto strides = [&](size_t offset, MutableArrayRef<Value> values) {
    for (auto [i, value] : llvm::enumerate(values))
      value = field(offset + 8 * i, e.i64);
  };
  const std::pair<size_t, size_t> tensors[] = {
      {offsetof(attn_call, q), offsetof(attn_call, q_stride)},
      {offsetof(attn_call, k), offsetof(attn_call, k_stride)},
      {offsetof(attn_call, v), offsetof(attn_call, v_stride)},
      {offsetof(attn_call, o), offsetof(attn_call, o_stride)}};
  for (auto [tensor, offsets] : llvm::zip(call.operands, tensors)) {
    tensor.base = field(offsets.first, e.ptr);
    strides(offsets.second, tensor.stride);
    tensor.element = e.f32;
  }
  kernel.walk([&](TensorOp op) {
    call.operands[int(op.getWhich())].element =
        op.getTensor().getType().getElementType();
  });
  call.lse = field(offsetof(attn_call, lse), e.ptr);
  strides(offsetof(attn_call, lse_stride), call.lseStride);
  call.qLens = field(offsetof(attn_call, q_lens), e.ptr);
  call.kvLens = field(offsetof(attn_call, kv_lens), e.ptr);
  call.qLen = field(offsetof(attn_call, q_len), e.i64);
  call.kvLen = field(offsetof(attn_call, kv_len), e.i64);
  loadParams(base);
}

LogicalResult KernelLowering::run() {
  Block *entry = function.addEntryBlock();
  e.b.setInsertionPointToStart(entry);
  scratch = entry->getArgument(3);
  loadCall(entry->getArgument(0));

  // Not from the steps: a mask that rules out every key leaves none.
  kernel.walk([&](LoadRowsOp op) { qkDim = op.getTile().getType().getCols(); });
  kernel.walk([&](FinishOp op) { valueDim = op.getOut().getType().getCols(); });
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

LogicalResult KernelLowering::block(Block &block) {
  for (Operation &op : block)
    if (failed(operation(op)))
      return failure();
  return success();
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
       llvm::zip(op.getRegionIterArgs(), op.getResults(), op.getInitArgs()))
    tiles[arg] = tiles[result] = tiles.lookup(init);
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

void KernelLowering::item(ItemOp op) {
  Value number = scalar(op.getItem());
  int64_t groups = op.getGroups();
  Value rows = e.mul(call.qLen, int64_t(op.getHeads()));
  auto tilesOf = [&](Value rows) {
    return e.div(e.add(rows, int64_t(op.getRows()) - 1), e.c(op.getRows()));
  };
  Value ofQueries = tilesOf(rows), all = ofQueries;
  if (op.getOfGlobals())
    all = e.add(all, tilesOf(e.mul(globals.most, int64_t(op.getHeads()))));
  Value tile = e.rem(number, all);
  Value rest = e.div(number, all);
  Value group = e.rem(rest, e.c(groups));
  if (auto classes = op.getClasses()) {
    // Number `turn` of all tiles of the classes of the same heads.
    SmallVector<int64_t> first(*classes);
    for (int64_t i = 0; i < groups; ++i)
      first[i] =
          i > 0 && i < first[i - 1] + (*classes)[i - 1] ? first[i - 1] : i;
    Value ofFirst = tableElement(first, group);
    Value count = tableElement(*classes, group);
    Value turn = e.add(e.mul(e.sub(group, ofFirst), all), tile);
    group = e.add(ofFirst, e.rem(turn, count));
    tile = e.div(turn, count);
  }
  if (op.getOfGlobals()) {
    Value ofGlobals = e.b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::sge,
                                                      tile, ofQueries);
    tile = e.select(ofGlobals, e.sub(tile, ofQueries), tile);
    scalars.map(op.getOfGlobals(), ofGlobals);
  }
  scalars.map(op.getBatch(), e.div(rest, e.c(groups)));
  scalars.map(op.getGroup(), group);
  scalars.map(op.getRow(), e.mul(tile, int64_t(op.getRows())));
}

Value KernelLowering::tableElement(ArrayRef<int64_t> values, Value at) {
  if (llvm::all_equal(values))
    return e.c(values.front());
  auto module = function->getParentOfType<ModuleOp>();
  auto type = RankedTensorType::get({int64_t(values.size())}, e.i64);
  auto arrayType = LLVM::LLVMArrayType::get(e.i64, values.size());
  std::string name =
      "table_" + std::to_string(std::distance(module.getBody()->begin(),
                                              module.getBody()->end()));
  {
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(e.b, arrayType, /*isConstant=*/true,
                           LLVM::Linkage::Internal, name,
                           DenseElementsAttr::get(type, values));
  }
  Value base = LLVM::AddressOfOp::create(e.b, e.ptr, name);
  return LLVM::LoadOp::create(e.b, e.i64, e.at(base, at, e.i64), 8);
}

void KernelLowering::table(TableOp op) {
  scalars.map(op.getValue(), tableElement(op.getValues(), scalar(op.getAt())));
}

void KernelLowering::length(LengthOp op) {
  bool queries = op.getWhich() == Operand::Q;
  Value lengths = queries ? call.qLens : call.kvLens;
  Value all = queries ? call.qLen : call.kvLen;
  Value none = LLVM::ZeroOp::create(e.b, e.ptr);
  Value given =
      LLVM::ICmpOp::create(e.b, LLVM::ICmpPredicate::ne, lengths, none);
  auto ifOp = scf::IfOp::create(e.b, TypeRange{e.i64}, given, true, true);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointToStart(ifOp.thenBlock());
  Value at = LLVM::GEPOp::create(e.b, e.ptr, e.i64, lengths,
                                 ArrayRef<LLVM::GEPArg>{scalar(op.getBatch())});
  Value own = LLVM::LoadOp::create(e.b, e.i64, at, 8);
  scf::YieldOp::create(e.b, own);
  e.b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(e.b, all);
  scalars.map(op.getTokens(), ifOp.getResult(0));
}

LogicalResult KernelLowering::operation(Operation &op) {
  e.b.setLoc(op.getLoc());
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case<scf::ForOp>([&](auto o) { return forLoop(o); })
      .Case<scf::IfOp>([&](auto o) { return ifBranch(o); })
      .Case<scf::YieldOp, YieldOp>([&](auto) { return success(); })
      .Case<TensorOp>([&](auto) { return success(); })
      .Case<ItemOp>([&](auto o) { return item(o), success(); })
      .Case<TableOp>([&](auto o) { return table(o), success(); })
      .Case<LengthOp>([&](auto o) { return length(o), success(); })
      .Case<ParamOp>([&](auto o) { return param(o), success(); })
      .Case<ExtremesOp>([&](auto o) { return extremes(o), success(); })
      .Case<ListedOp>([&](auto o) { return listed(o), success(); })
      .Case<PickOp>([&](auto o) { return pick(o), success(); })
      .Case<PositionOp>([&](auto o) { return position(o), success(); })
      .Case<SinkOp>([&](auto o) { return sink(o), success(); })
      .Case<LoadRowsOp>([&](auto o) { return loadRows(o), success(); })
      .Case<LoadKeysOp>([&](auto o) { return loadKeys(o), success(); })
      .Case<FillOp>([&](auto o) { return fill(o), success(); })
      .Case<ScoresOp>([&](auto o) { return scores(o), success(); })
      .Case<SoftmaxOp>([&](auto o) { return softmax(o), success(); })
      .Case<AccumulateOp>([&](auto o) { return accumulate(o), success(); })
      .Case<FinishOp>([&](auto o) { return finish(o), success(); })
      .Case<StoreRowsOp>([&](auto o) { return storeRows(o), success(); })
      .Case<arith::ConstantOp>([&](arith::ConstantOp o) -> LogicalResult {
        if (o.getType().isIndex()) {
          scalars.map(o.getResult(),
                      e.c(cast<IntegerAttr>(o.getValue()).getInt()));
          return success();
        }
        e.b.clone(op, scalars);
        return success();
      })
      .Case<arith::IndexCastOp>([&](arith::IndexCastOp o) -> LogicalResult {
        Value in = scalar(o.getIn());
        Type type = o.getType().isIndex() ? e.i64 : o.getType();
        unsigned from = in.getType().getIntOrFloatBitWidth(),
                 to = type.getIntOrFloatBitWidth();
        scalars.map(o.getResult(),
                    from == to ? in
                    : from < to
                        ? arith::ExtSIOp::create(e.b, type, in).getResult()
                        : arith::TruncIOp::create(e.b, type, in).getResult());
        return success();
      })
      .Default([&](Operation *o) -> LogicalResult {
        if (o->getDialect()->getNamespace() != "arith")
          return o->emitOpError("has no lowering for a CPU");
        Operation *copy = e.b.clone(*o, scalars);
        for (Value result : copy->getResults())
          if (result.getType().isIndex())
            result.setType(e.i64);
        return success();
      });
}

LogicalResult lowerTilesToLoops(ModuleOp module, const TargetInfo &target) {
  for (KernelOp kernel :
       llvm::make_early_inc_range(module.getOps<KernelOp>())) {
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

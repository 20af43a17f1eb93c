//===- targets/common/Program.cpp - Walking a tile program -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "runtime/attn_abi.h"
#include "targets/common/ProgramLowering.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cstddef>

using namespace mlir;

namespace attn {

ProgramLowering::ProgramLowering(KernelOp kernel, func::FuncOp function,
                                 const TargetInfo &target, unsigned space)
    : kernel(kernel), function(function),
      e(kernel.getLoc(), OpBuilder(function.getContext()), target, space),
      plan(toPlan(kernel.getPlan())), keepsInputs(space != 0) {
  // Not from the steps: a mask that rules out every key leaves none.
  kernel.walk([&](LoadRowsOp op) { qkDim = op.getTile().getType().getCols(); });
  kernel.walk([&](FinishOp op) { valueDim = op.getOut().getType().getCols(); });
}

CallFields::Tensor ProgramLowering::loadOperand(Operand which) {
  constexpr std::pair<size_t, size_t> kOffsets[] = {
      {offsetof(attn_call, q), offsetof(attn_call, q_stride)},
      {offsetof(attn_call, k), offsetof(attn_call, k_stride)},
      {offsetof(attn_call, v), offsetof(attn_call, v_stride)},
      {offsetof(attn_call, o), offsetof(attn_call, o_stride)}};
  auto [base, strides] = kOffsets[int(which)];
  CallFields::Tensor tensor;
  tensor.element = e.f32;
  kernel.walk([&](TensorOp op) {
    if (op.getWhich() == which)
      tensor.element = op.getTensor().getType().getElementType();
  });
  tensor.base = field(callBase, base, e.ptr);
  for (auto [i, value] : llvm::enumerate(tensor.stride))
    value = field(callBase, strides + 8 * i, e.i64);
  return tensor;
}

void ProgramLowering::loadCall(Value base) {
  callBase = base;
  auto field = [&](size_t offset, Type type) {
    return this->field(base, offset, type);
  };
  call.lse = field(offsetof(attn_call, lse), e.ptr);
  for (auto [i, value] : llvm::enumerate(call.lseStride))
    value = field(offsetof(attn_call, lse_stride) + 8 * i, e.i64);
  call.qLens = field(offsetof(attn_call, q_lens), e.ptr);
  call.kvLens = field(offsetof(attn_call, kv_lens), e.ptr);
  call.qLen = field(offsetof(attn_call, q_len), e.i64);
  call.kvLen = field(offsetof(attn_call, kv_len), e.i64);
  if (plan.split)
    call.states = field(offsetof(attn_call, states), e.ptr);
  loadParams(base);
}

Value ProgramLowering::null() { return LLVM::ZeroOp::create(e.b, e.ptr); }

LogicalResult ProgramLowering::block(Block &block) {
  for (Operation &op : block)
    if (failed(operation(op)))
      return failure();
  return success();
}

void ProgramLowering::item(ItemOp op) {
  Value number = scalar(op.getItem());
  int64_t groups = op.getGroups();
  Value rows = e.mul(call.qLen, int64_t(op.getHeads()));
  auto tilesOf = [&](Value rows) {
    return e.div(e.add(rows, int64_t(op.getRows()) - 1), e.c(op.getRows()));
  };
  Value ofQueries = tilesOf(rows), all = ofQueries;
  if (op.getOfGlobals())
    all = e.add(all, tilesOf(e.mul(globals.most, int64_t(op.getHeads()))));
  Value ofTiles = all;
  if (op.getOfSplit())
    all = e.add(all, splitCount());
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
  auto isFrom = [&](Value first) {
    return e.b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::sge, tile,
                                           first);
  };
  if (op.getOfSplit()) {
    Value ofSplit = isFrom(ofTiles);
    scalars.map(op.getOfSplit(), ofSplit);
    scalars.map(op.getSplit(), e.select(ofSplit, e.sub(tile, ofTiles), e.c(0)));
    tile = e.select(ofSplit, e.c(0), tile);
  }
  if (op.getOfGlobals()) {
    Value ofGlobals = isFrom(ofQueries);
    tile = e.select(ofGlobals, e.sub(tile, ofQueries), tile);
    scalars.map(op.getOfGlobals(), ofGlobals);
  }
  scalars.map(op.getBatch(), e.div(rest, e.c(groups)));
  scalars.map(op.getGroup(), group);
  scalars.map(op.getRow(), e.mul(tile, int64_t(op.getRows())));
}

Value ProgramLowering::tableElement(ArrayRef<int64_t> values, Value at) {
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
    LLVM::GlobalOp::create(
        e.b, arrayType, /*isConstant=*/true, LLVM::Linkage::Internal, name,
        DenseElementsAttr::get(type, values),
        /*alignment=*/8, cast<LLVM::LLVMPointerType>(e.ptr).getAddressSpace());
  }
  Value base = LLVM::AddressOfOp::create(e.b, e.ptr, name);
  return input(e.i64, e.at(base, at, e.i64), 8);
}

void ProgramLowering::table(TableOp op) {
  scalars.map(op.getValue(), tableElement(op.getValues(), scalar(op.getAt())));
}

Value ProgramLowering::splitCount() {
  Value isMore = e.less(e.c(plan.split), call.kvLen);
  Value splits = e.div(e.add(call.kvLen, plan.split - 1), e.c(plan.split));
  return e.select(isMore, splits, e.c(0));
}

Value ProgramLowering::statePlace(Value batch, Value group, Value split,
                                  int64_t bytes) {
  Value groups = e.c(int64_t(kernel.getItemGroups()));
  Value ofGroup = e.mul(e.add(e.mul(batch, groups), group), splitCount());
  return e.at(call.states, e.mul(e.add(ofGroup, split), bytes),
              e.b.getI8Type());
}

void ProgramLowering::length(LengthOp op) {
  bool queries = op.getWhich() == Operand::Q;
  Value lengths = queries ? call.qLens : call.kvLens;
  Value all = queries ? call.qLen : call.kvLen;
  Value given =
      LLVM::ICmpOp::create(e.b, LLVM::ICmpPredicate::ne, lengths, null());
  auto ifOp = scf::IfOp::create(e.b, TypeRange{e.i64}, given, true, true);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointToStart(ifOp.thenBlock());
  Value at = LLVM::GEPOp::create(e.b, e.ptr, e.i64, lengths,
                                 ArrayRef<LLVM::GEPArg>{scalar(op.getBatch())});
  Value own = input(e.i64, at, 8);
  scf::YieldOp::create(e.b, own);
  e.b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(e.b, all);
  scalars.map(op.getTokens(), ifOp.getResult(0));
}

LogicalResult ProgramLowering::operation(Operation &op) {
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
      .Case<PositionOp>([&](auto o) { return position(o), success(); })
      .Case<PickOp, SinkOp, LoadRowsOp, LoadKeysOp, FillOp, ScoresOp, SoftmaxOp,
            AccumulateOp, FinishOp, StoreRowsOp, StoreStateOp, LoadStateOp,
            CombineOp>([&](auto o) { return tileOp(*o.getOperation()); })
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
          return o->emitOpError("is not part of a tile program");
        Operation *copy = e.b.clone(*o, scalars);
        for (Value result : copy->getResults())
          if (result.getType().isIndex())
            result.setType(e.i64);
        return success();
      });
}

Value ProgramLowering::queryOf(const RowPlaces &places, Value r) {
  if (places.listed)
    return e.sub(wide(positionAt(places.listed, r)), places.shift);
  Value query = e.div(e.add(places.row, r), places.heads);
  return places.step ? e.add(places.residue, e.mul(query, places.step)) : query;
}

Value ProgramLowering::rowOffset(const CallFields::Tensor &tensor,
                                 const RowPlaces &places, Value r) {
  Value itsHead = e.add(places.head, e.rem(e.add(places.row, r), places.heads));
  return e.add(e.mul(places.batch, tensor.stride[0]),
               e.add(e.mul(itsHead, tensor.stride[1]),
                     e.mul(queryOf(places, r), tensor.stride[2])));
}

Value ProgramLowering::isOwn(StoreRowsOp op, const RowPlaces &places, Value r) {
  Value own = arith::ConstantOp::create(e.b, e.b.getBoolAttr(true));
  for (int64_t list : op.getButMembersOf().value_or(ArrayRef<int64_t>())) {
    Value is = member(list, places.batch,
                      e.add(queryOf(places, r), places.shift), false);
    own = arith::SelectOp::create(
        e.b, is, arith::ConstantOp::create(e.b, e.b.getBoolAttr(false)), own);
  }
  return own;
}

} // namespace attn

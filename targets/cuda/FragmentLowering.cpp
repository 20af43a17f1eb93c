//===- targets/cuda/FragmentLowering.cpp - One kernel to fragments --------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "targets/cuda/FragmentLowering.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace attn {

/// Of memory: the call's, and a block's own.
static constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;

FragmentLowering::FragmentLowering(KernelOp kernel, func::FuncOp function,
                                   const TargetInfo &target)
    : ProgramLowering(kernel, function, target, kGlobalSpace) {}

LogicalResult FragmentLowering::run() {
  Block *entry = function.addEntryBlock();
  e.b.setInsertionPointToStart(entry);
  auto module = function->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol("attn_shared")) {
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToStart(module.getBody());
    auto none = LLVM::LLVMArrayType::get(e.b.getI8Type(), 0);
    LLVM::GlobalOp::create(e.b, none, /*isConstant=*/false,
                           LLVM::Linkage::External, "attn_shared", Attribute(),
                           /*alignment=*/16, kSharedSpace);
  }
  sharedBase = LLVM::AddressOfOp::create(
      e.b, LLVM::LLVMPointerType::get(e.b.getContext(), kSharedSpace),
      "attn_shared");
  thread = intrinsic("llvm.nvvm.read.ptx.sreg.tid.x", e.i32, {});
  lane = andI(thread, 31);
  warp = shiftRight(thread, 5);
  group = shiftRight(lane, 2);
  inGroup = andI(lane, 3);
  firstRow = addI(mulI(warp, 16), group);
  loadCall(entry->getArgument(0));

  // Areas of the steps; there are none where no row may see any key, and
  // neither queries nor steps where states are merged.
  Type q, kv, out;
  kernel.walk([&](LoadRowsOp op) { q = storage(op.getSource()); });
  kernel.walk([&](LoadKeysOp op) { kv = storage(op.getSource()); });
  kernel.walk([&](StoreRowsOp op) { out = storage(op.getTarget()); });
  usesMma = kv && q == kv && q.getIntOrFloatBitWidth() == 16;
  // Fragments of wider queries take too many registers.
  const bool keepsQueries = q && (!usesMma || qkDim > 128);
  if (keepsQueries)
    queryRows = allocateRows(plan.rows, qkDim, q);
  const int64_t reused = allocated;
  if (kv) {
    keyRows = allocateRows(plan.keys, qkDim, kv);
    valueRows = allocateRows(plan.keys, valueDim, kv);
    weightArea = allocate(plan.rows * weightStride());
  }
  // Rows in and out are there only before and after the steps.
  const int64_t ofSteps = allocated;
  allocated = reused;
  if (q && !keepsQueries)
    queryRows = allocateRows(plan.rows, qkDim, q);
  const int64_t ofQueries = allocated;
  allocated = reused;
  outRows = allocateRows(plan.rows, valueDim, out);
  allocated = std::max({allocated, ofQueries, ofSteps});
  flagArea = allocate(4 * warps());
  rowPositionArea = allocate(4 * plan.rows);
  rowPositions = shared(rowPositionArea);

  Block &body = kernel.getBody().front();
  Value number = intrinsic("llvm.nvvm.read.ptx.sreg.ctaid.x", e.i32, {});
  scalars.map(body.getArgument(0),
              e.add(entry->getArgument(1),
                    arith::ExtUIOp::create(e.b, e.i64, number).getResult()));
  if (failed(block(body)))
    return failure();
  func::ReturnOp::create(e.b);
  return success();
}

Type FragmentLowering::storage(Value tensor) {
  return cast<TensorType>(tensor.getType()).getElementType();
}

/// How many values of a tile a thread holds. (An accumulator of one column has
/// the type of a column of rows: both then take the same room.)
int64_t FragmentLowering::valuesOf(Type type) const {
  const int64_t columns = cast<TileType>(type).getCols();
  return columns == 1 && valueDim > 1 ? 2 : llvm::alignTo(columns, 16) / 8 * 4;
}

void FragmentLowering::setColumn(Value tile, Values ofRows) {
  ofRows.resize(valuesOf(tile.getType()), ofRows.back());
  fragments[tile] = std::move(ofRows);
}

Values FragmentLowering::carried(ValueRange tiles) {
  Values all;
  for (Value tile : tiles) {
    const Values &own = fragments.find(tile)->second;
    all.append(own.begin(), own.end());
  }
  return all;
}

void FragmentLowering::bind(ValueRange tiles, ValueRange values) {
  for (Value tile : tiles) {
    const int64_t count = valuesOf(tile.getType());
    fragments[tile] = Values(values.take_front(count));
    values = values.drop_front(count);
  }
}

LogicalResult FragmentLowering::forLoop(scf::ForOp op) {
  auto step = getConstantIntValue(op.getStep());
  if (!step)
    return op.emitOpError("has a step that is not constant");
  LogicalResult result = success();
  Value from = scalar(op.getLowerBound()), to = scalar(op.getUpperBound());
  stream = streamOf(op);
  if (stream) {
    stream->last = to;
    stream->step = e.c(*step);
    barrier(); // of those who read what was there
    copyAhead(*stream, from);
  }
  Values last =
      e.loop(from, to, *step, carried(op.getInitArgs()),
             [&](Value i, ValueRange state) {
               scalars.map(op.getInductionVar(), i);
               bind(op.getRegionIterArgs(), state);
               result = block(*op.getBody());
               return carried(op.getBody()->getTerminator()->getOperands());
             });
  stream.reset();
  bind(op.getResults(), last);
  return result;
}

Values FragmentLowering::chooseAll(Value condition,
                                   llvm::function_ref<Values()> then,
                                   llvm::function_ref<Values()> otherwise) {
  // The types are known once a side is written.
  auto first = scf::IfOp::create(e.b, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(e.b);
  auto side = [&](Block *block, llvm::function_ref<Values()> body) {
    block->clear();
    e.b.setInsertionPointToStart(block);
    Values values = body();
    scf::YieldOp::create(e.b, values);
    return values;
  };
  Values values = side(first.thenBlock(), then);
  side(first.elseBlock(), otherwise);
  e.b.setInsertionPoint(first);
  auto ifOp = scf::IfOp::create(e.b, ValueRange(values).getTypes(), condition,
                                true, true);
  ifOp.getThenRegion().takeBody(first.getThenRegion());
  ifOp.getElseRegion().takeBody(first.getElseRegion());
  first.erase();
  return Values(ifOp.getResults());
}

LogicalResult FragmentLowering::ifBranch(scf::IfOp op) {
  LogicalResult result = success();
  auto side = [&](Block *which) {
    skipTile(which == op.thenBlock() ? op.elseBlock() : op.thenBlock(), which);
    if (which && failed(block(*which)))
      result = failure();
    return which && op.getNumResults()
               ? carried(which->getTerminator()->getOperands())
               : Values();
  };
  Value condition = scalar(op.getCondition());
  if (op.getNumResults() == 0) {
    if (op.elseBlock())
      e.branch(
          condition, [&] { side(op.thenBlock()); },
          [&] { side(op.elseBlock()); });
    else
      e.branch(condition, [&] { side(op.thenBlock()); });
    return result;
  }
  bind(op.getResults(), chooseAll(
                            condition, [&] { return side(op.thenBlock()); },
                            [&] { return side(op.elseBlock()); }));
  return result;
}

LogicalResult FragmentLowering::tileOp(Operation &op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case<PickOp>([&](auto o) { return pick(o), success(); })
      .Case<SinkOp>([&](auto o) { return sink(o), success(); })
      .Case<LoadRowsOp>([&](auto o) { return loadRows(o), success(); })
      .Case<LoadKeysOp>([&](auto o) { return loadKeys(o), success(); })
      .Case<FillOp>([&](auto o) { return fill(o); })
      .Case<ScoresOp>([&](auto o) { return scores(o), success(); })
      .Case<SoftmaxOp>([&](auto o) { return softmax(o), success(); })
      .Case<AccumulateOp>([&](auto o) { return accumulate(o), success(); })
      .Case<FinishOp>([&](auto o) { return finish(o), success(); })
      .Case<StoreRowsOp>([&](auto o) { return storeRows(o), success(); })
      .Case<StoreStateOp>([&](auto o) { return storeState(o), success(); })
      .Case<LoadStateOp>([&](auto o) { return loadState(o), success(); })
      .Case<CombineOp>([&](auto o) { return combine(o), success(); });
}

/// By the first warp: each of its threads looks at one position, and counts
/// those before it that stay.
void FragmentLowering::pick(PickOp op) {
  const int64_t most = op.getPositions().getType().getMost();
  const int64_t area = allocate(4 * (most + 1));
  tiles[op.getPositions()] = shared(area);
  Value batch = scalar(op.getBatch()), first = scalar(op.getFirst()),
        end = scalar(op.getEnd());
  Values outside;
  for (Value v : op.getOutside())
    outside.push_back(scalar(v));
  barrier(); // of those who read what was there
  Value isFirstWarp =
      arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, warp, i32(0));
  e.branch(isFirstWarp, [&] {
    Value total =
        e.loop(first, end, 32, {i32(0)}, [&](Value from, ValueRange state) {
          Value i = e.add(from, wide(lane));
          Value exists = e.less(i, end);
          Value position = choose(
              exists, e.i64, [&] { return listedPosition(batch, i); },
              [&] { return e.c(0); });
          Value stays = exists;
          if (!outside.empty()) {
            Value distance = e.sub(position, outside[0]);
            Value before = e.less(position, outside[0]);
            Value beyond = e.less(e.sub(outside[1], e.c(1)), position);
            Value apart = arith::CmpIOp::create(
                e.b, arith::CmpIPredicate::ne,
                arith::RemSIOp::create(e.b, distance, outside[2]), e.c(0));
            stays =
                both(exists, arith::OrIOp::create(
                                 e.b, arith::OrIOp::create(e.b, before, beyond),
                                 apart));
          }
          Value staying =
              intrinsic("llvm.nvvm.vote.ballot.sync", e.i32, {i32(-1), stays});
          Value below = arith::SubIOp::create(
              e.b, arith::ShLIOp::create(e.b, i32(1), lane), i32(1));
          auto countOf = [&](Value bits) -> Value {
            return LLVM::CtPopOp::create(e.b, e.i32, bits);
          };
          Value at = addI(state[0],
                          countOf(arith::AndIOp::create(e.b, staying, below)));
          e.branch(stays, [&] {
            LLVM::StoreOp::create(e.b, narrow(position),
                                  shared(addI(mulI(at, 4), area)), 4);
          });
          return Values{addI(state[0], countOf(staying))};
        })[0];
    Value isFirst =
        arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, lane, i32(0));
    e.branch(isFirst, [&] {
      LLVM::StoreOp::create(e.b, total, shared(area + 4 * most), 4);
    });
  });
  barrier();
  Value count = LLVM::LoadOp::create(e.b, e.i32, shared(area + 4 * most), 4);
  scalars.map(op.getCount(), wide(count));
}

} // namespace attn

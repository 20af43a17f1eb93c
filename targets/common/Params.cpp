//===- targets/common/Params.cpp - Parameters and lists of tokens
//------------===//
//
// Part of attnc. Apache-2.0.
//
// Elements are loaded one by one, a lane at a time where their index differs
// between the rows of a vector: no gather instruction of today is faster, and
// what a lane's address needs of its row is worked out once a panel.
//
//===----------------------------------------------------------------------===//
#include "runtime/attn_abi.h"
#include "targets/common/ProgramLowering.h"
#include <cstddef>

using namespace mlir;

namespace attn {

/// Nothing that a kernel does changes its inputs.
Value ProgramLowering::input(Type type, Value from, unsigned alignment) {
  auto load = LLVM::LoadOp::create(e.b, type, from, alignment);
  load.setInvariant(keepsInputs);
  return load;
}

Value ProgramLowering::field(Value base, size_t offset, Type type) {
  Value at = LLVM::GEPOp::create(e.b, e.ptr, e.b.getI8Type(), base,
                                 ArrayRef<LLVM::GEPArg>{int32_t(offset)});
  return input(type, at, 8);
}

void ProgramLowering::loadParams(Value base) {
  // Each with as many dimensions as its uses have indices.
  std::map<int64_t, unsigned> ranks;
  kernel.walk([&](Operation *op) {
    if (auto param = dyn_cast<ParamOp>(op))
      ranks[param.getNumber()] = param.getAt().size();
    else if (auto extremes = dyn_cast<ExtremesOp>(op))
      ranks[extremes.getNumber()] = extremes.getAt().size();
    else if (auto member = dyn_cast<MemberOp>(op))
      ranks[member.getNumber()] = 2;
    else if (auto store = dyn_cast<StoreRowsOp>(op))
      for (int64_t list : store.getButMembersOf().value_or(ArrayRef<int64_t>()))
        ranks[list] = 2;
  });
  if (!ranks.empty()) {
    Value all = field(base, offsetof(attn_call, params), e.ptr);
    for (auto [number, rank] : ranks) {
      ParamFields &param = params[number];
      const size_t at = sizeof(attn_param) * size_t(number);
      param.data = field(all, at + offsetof(attn_param, data), e.ptr);
      param.blocks = field(all, at + offsetof(attn_param, blocks), e.ptr);
      for (unsigned d = 0; d < rank; ++d) {
        auto load = [&](size_t offset) {
          return field(all, at + offset + 8 * d, e.i64);
        };
        param.last.push_back(e.sub(load(offsetof(attn_param, extent)), e.c(1)));
        param.stride.push_back(load(offsetof(attn_param, stride)));
        param.blockStride.push_back(load(offsetof(attn_param, block_stride)));
      }
    }
  }
  bool listed = false;
  kernel.walk([&](ListedOp) { listed = true; });
  if (listed) {
    globals.data = field(base, offsetof(attn_call, globals), e.ptr);
    globals.stride = field(base, offsetof(attn_call, globals_stride), e.i64);
    globals.counts = field(base, offsetof(attn_call, global_counts), e.ptr);
    globals.most = field(base, offsetof(attn_call, max_globals), e.i64);
  }
}

Value ProgramLowering::wide(Value integer) {
  if (integer.getType().isIndex())
    return e.b.createOrFold<arith::IndexCastOp>(e.i64, integer);
  return integer.getType() == e.i64
             ? integer
             : e.b.createOrFold<arith::ExtSIOp>(e.i64, integer);
}

/// The index itself where it is inside, else that of the nearest element.
Value ProgramLowering::clamped(Value index, Value last, bool inside) {
  if (inside)
    return index;
  if (!isa<VectorType>(index.getType()))
    return e.max(e.min(wide(index), last), e.c(0));
  Value end = e.broadcast(arith::TruncIOp::create(e.b, e.i32, last));
  Value zero = arith::ConstantOp::create(e.b, e.b.getZeroAttr(e.vi));
  return arith::MaxSIOp::create(e.b, arith::MinSIOp::create(e.b, index, end),
                                zero);
}

Type ProgramLowering::memoryType(Type stored) {
  return stored.isInteger(1) ? Type(e.b.getI8Type()) : e.rawType(stored);
}

ProgramLowering::Place ProgramLowering::placeOf(int64_t number, Type stored,
                                                ArrayRef<bool> inside,
                                                ValueRange at) {
  const ParamFields &param = params.find(number)->second;
  Place place;
  place.memory = memoryType(stored);
  Value offset = e.c(0);
  SmallVector<std::pair<Value, Value>> ofLanes; // index and stride
  for (auto [d, index] : llvm::enumerate(at)) {
    Value i = clamped(index, param.last[d], inside[d]);
    if (isa<VectorType>(i.getType()))
      ofLanes.push_back({i, param.stride[d]});
    else
      offset = e.add(offset, e.mul(wide(i), param.stride[d]));
  }
  place.base = e.at(param.data, offset, place.memory);
  for (int64_t lane = 0; lane < e.lanes && !ofLanes.empty(); ++lane) {
    Value own = e.c(0);
    for (auto [index, stride] : ofLanes)
      own = e.add(own, e.mul(wide(vector::ExtractOp::create(
                                 e.b, index, ArrayRef<int64_t>{lane})),
                             stride));
    place.lanes.push_back(own);
  }
  return place;
}

Value ProgramLowering::readElement(Type memory, Type stored, Value from) {
  Value raw = input(memory, from, memory.getIntOrFloatBitWidth() / 8);
  return stored.isInteger(1)
             ? arith::ExtUIOp::create(e.b, e.i32, raw).getResult()
             : raw;
}

Value ProgramLowering::converted(Type stored, Value raw) {
  if (stored.isF16() || stored.isBF16())
    return e.widened(raw, stored);
  if (!stored.isInteger(1))
    return raw;
  Value zero = arith::ConstantOp::create(e.b, e.b.getZeroAttr(raw.getType()));
  return arith::CmpIOp::create(e.b, arith::CmpIPredicate::ne, raw, zero);
}

Value ProgramLowering::element(int64_t number, Type stored,
                               ArrayRef<bool> inside, ValueRange at) {
  const Place place = placeOf(number, stored, inside, at);
  if (place.lanes.empty())
    return converted(stored, readElement(place.memory, stored, place.base));
  Values lanes;
  for (Value distance : place.lanes)
    lanes.push_back(readElement(place.memory, stored,
                                e.at(place.base, distance, place.memory)));
  return converted(stored, together(lanes));
}

/// Scalars as the lanes of a vector.
Value ProgramLowering::together(ValueRange scalars) {
  Type type = VectorType::get({e.lanes}, scalars.front().getType());
  Value result = arith::ConstantOp::create(e.b, e.b.getZeroAttr(type));
  for (auto [lane, scalar] : llvm::enumerate(scalars))
    result = vector::InsertOp::create(e.b, scalar, result,
                                      ArrayRef<int64_t>{int64_t(lane)});
  return result;
}

/// No list has a position before the first.
Value ProgramLowering::member(int64_t list, Value batch, Value position,
                              bool inside) {
  Value is = element(list, e.i1, {true, inside}, {batch, position});
  if (inside)
    return is;
  Value zero =
      arith::ConstantOp::create(e.b, e.b.getZeroAttr(position.getType()));
  Value exists =
      arith::CmpIOp::create(e.b, arith::CmpIPredicate::sge, position, zero);
  return arith::AndIOp::create(e.b, is, exists);
}

void ProgramLowering::param(ParamOp op) {
  SmallVector<Value> at;
  for (Value index : op.getAt())
    at.push_back(scalar(index));
  Value value = element(op.getNumber(), op.getStored(), op.getInside(), at);
  if (op.getType().isIndex())
    value = op.getStored().isInteger(1)
                ? arith::ExtUIOp::create(e.b, e.i64, value).getResult()
                : wide(value);
  scalars.map(op.getValue(), value);
}

void ProgramLowering::extremes(ExtremesOp op) {
  const ParamFields &param = params.find(op.getNumber())->second;
  const auto dim = unsigned(op.getDim());
  SmallVector<Value> at;
  for (auto [d, index] : llvm::enumerate(op.getAt()))
    at.push_back(clamped(scalar(index), param.last[d], false));
  Value last = clamped(scalar(op.getLast()), param.last[dim], false);
  const Values none = {e.c(INT32_MAX), e.c(INT32_MIN)};
  auto merge = [&](ValueRange state, Value low, Value high) {
    return Values{e.min(state[0], wide(low)), e.max(state[1], wide(high))};
  };
  Values result;
  if (op.getBlocks()) {
    Value base = e.c(0);
    for (auto [d, index] : llvm::enumerate(at))
      if (d != dim)
        base = e.add(base, e.mul(index, param.blockStride[d]));
    Value block = e.c(ATTN_BLOCK);
    result = e.loop(
        e.div(at[dim], block), e.add(e.div(last, block), 1), 1, none,
        [&](Value i, ValueRange state) {
          Value from =
              e.at(param.blocks, e.add(base, e.mul(i, param.blockStride[dim])),
                   e.i32);
          auto load = [&](Value place) -> Value {
            return input(e.i32, place, 4);
          };
          return merge(state, load(from), load(e.at(from, e.c(1), e.i32)));
        });
  } else {
    SmallVector<bool> inside(at.size(), true);
    result = e.loop(
        at[dim], e.add(last, 1), 1, none, [&](Value i, ValueRange state) {
          SmallVector<Value> place(at);
          place[dim] = i;
          Value x = element(op.getNumber(), op.getStored(), inside, place);
          if (op.getStored().isInteger(1))
            x = arith::ExtUIOp::create(e.b, e.i64, x);
          return merge(state, x, x);
        });
  }
  scalars.map(op.getMin(), result[0]);
  scalars.map(op.getMax(), result[1]);
}

//===----------------------------------------------------------------------===//
// Listed positions
//===----------------------------------------------------------------------===//

/// Number `i` of the listed positions of an entry of the batch, as i64.
Value ProgramLowering::listedPosition(Value batch, Value i) {
  Value from =
      e.at(globals.data, e.add(e.mul(batch, globals.stride), i), e.i32);
  return wide(input(e.i32, from, 4));
}

void ProgramLowering::listed(ListedOp op) {
  Value batch = scalar(op.getBatch());
  Value count = input(e.i64, e.at(globals.counts, batch, e.i64), 8);
  if (op.getLimit()) {
    Value limit = scalar(op.getLimit());
    count = e.loop(e.c(0), count, 1, {e.c(0)}, [&](Value i, ValueRange state) {
      Value below = e.less(listedPosition(batch, i), limit);
      return Values{
          e.add(state[0], e.b.createOrFold<arith::ExtUIOp>(e.i64, below))};
    })[0];
  }
  scalars.map(op.getCount(), count);
}

Value ProgramLowering::positionAt(Value positions, Value i) {
  return LLVM::LoadOp::create(e.b, e.i32, e.at(positions, i, e.i32), 4);
}

void ProgramLowering::position(PositionOp op) {
  scalars.map(op.getPosition(), wide(positionAt(tiles.lookup(op.getPositions()),
                                                scalar(op.getAt()))));
}

} // namespace attn

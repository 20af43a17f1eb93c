//===- targets/cuda/Shared.cpp - Rows of tiles in shared memory -----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "targets/cuda/FragmentLowering.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace attn {

int64_t SharedRows::stride() const {
  return sharedRowBytes(width, elementBytes());
}

int64_t FragmentLowering::allocate(int64_t bytes) {
  const int64_t at = allocated;
  allocated += llvm::alignTo(bytes, 16);
  return at;
}

SharedRows FragmentLowering::allocateRows(int64_t rows, int64_t width,
                                          Type type) {
  SharedRows area;
  area.width = width;
  area.type = type;
  area.chunks = llvm::alignTo(width, 16) / area.perChunk();
  area.offset = allocate(rows * area.stride());
  return area;
}

Value FragmentLowering::shared(Value offset) {
  return LLVM::GEPOp::create(e.b, sharedBase.getType(), e.b.getI8Type(),
                             sharedBase, ArrayRef<LLVM::GEPArg>{offset});
}

Value FragmentLowering::chunkOffset(const SharedRows &rows, Value row,
                                    Value chunk) {
  if (rows.isPermuted())
    chunk = e.b.createOrFold<arith::XOrIOp>(chunk, andI(row, 7));
  return addI(addI(mulI(row, rows.stride()), mulI(chunk, 16)), rows.offset);
}

/// i1: whether every row begins at a multiple of 16 bytes, with its elements
/// side by side.
Value FragmentLowering::isAligned(const CallFields::Tensor &tensor,
                                  int64_t elementBytes) {
  Value all = LLVM::PtrToIntOp::create(e.b, e.i64, tensor.base);
  for (int i = 0; i < 3; ++i)
    all = arith::OrIOp::create(e.b, all, e.mul(tensor.stride[i], elementBytes));
  Value rest = arith::AndIOp::create(e.b, all, e.c(15));
  return both(e.equal(rest, e.c(0)), e.equal(tensor.stride[3], e.c(1)));
}

void FragmentLowering::copyIn(const SharedRows &to, int64_t rowCount,
                              const GlobalRows &from) {
  e.branch(
      isAligned(from.tensor, to.elementBytes()),
      [&] {
        if (!canCopyWhole(to, rowCount, from))
          return copyChunks(to, rowCount, from);
        e.branch(
            e.less(from.count, e.c(rowCount)),
            [&] { copyChunks(to, rowCount, from); },
            [&] { copyWhole(to, rowCount, from); });
      },
      [&] { copyElements(to, rowCount, from); });
}

/// Whether, of a tile that exists as a whole, a thread's chunks lie one column
/// down, all of them full.
bool FragmentLowering::canCopyWhole(const SharedRows &to, int64_t rowCount,
                                    const GlobalRows &from) const {
  return !from.place && threads() % to.chunks == 0 &&
         rowCount * to.chunks % threads() == 0 &&
         to.width == to.chunks * to.perChunk();
}

/// With two addresses that go on by constants, but for what permutes rows.
void FragmentLowering::copyWhole(const SharedRows &to, int64_t rowCount,
                                 const GlobalRows &from) {
  const int64_t rowsARound = threads() / to.chunks;
  const int64_t period =
      to.isPermuted() ? std::max<int64_t>(8 / rowsARound, 1) : 1;
  Value row = arith::DivUIOp::create(e.b, thread, i32(to.chunks));
  Value chunk = arith::RemUIOp::create(e.b, thread, i32(to.chunks));
  Values targets;
  for (int64_t i = 0; i < period; ++i)
    targets.push_back(
        shared(chunkOffset(to, addI(row, i * rowsARound), chunk)));
  Value source = e.at(from.tensor.base,
                      e.add(e.add(from.base, e.mul(wide(row), from.rowStride)),
                            e.mul(wide(chunk), to.perChunk())),
                      to.type);
  Value step = e.mul(from.rowStride, rowsARound);
  for (int64_t round = 0; round * rowsARound < rowCount; ++round) {
    const int64_t rows = round / period * period * rowsARound;
    Value target = LLVM::GEPOp::create(
        e.b, sharedBase.getType(), e.b.getI8Type(), targets[round % period],
        ArrayRef<LLVM::GEPArg>{int32_t(rows * to.stride())});
    intrinsic("llvm.nvvm.cp.async.cg.shared.global.16", {}, {target, source});
    source = e.at(source, step, to.type);
  }
}

/// A thread's chunks are `threads` apart. Elements that do not exist are zero.
void FragmentLowering::copyChunks(const SharedRows &to, int64_t rowCount,
                                  const GlobalRows &from) {
  const int64_t all = rowCount * to.chunks, bytes = to.elementBytes();
  // Where rows divide a round of copies, a thread stays in its column.
  const bool staysInColumn = threads() % to.chunks == 0;
  Value row0, chunk0, base0, stepOffset;
  auto wide = [&](Value v) {
    return arith::ExtUIOp::create(e.b, e.i64, v).getResult();
  };
  auto rowAndChunk = [&](Value number) {
    return std::pair<Value, Value>{
        arith::DivUIOp::create(e.b, number, i32(to.chunks)),
        arith::RemUIOp::create(e.b, number, i32(to.chunks))};
  };
  const int64_t rowsARound = staysInColumn ? threads() / to.chunks : 0;
  if (staysInColumn) {
    std::tie(row0, chunk0) = rowAndChunk(thread);
    if (!from.place) {
      base0 = e.add(from.base, e.mul(wide(row0), from.rowStride));
      stepOffset = e.mul(from.rowStride, rowsARound);
    }
  }
  Value offset = base0;
  for (int64_t round = 0; round * threads() < all; ++round) {
    Value number = addI(thread, round * threads()), row, chunk;
    if (staysInColumn)
      row = addI(row0, round * rowsARound), chunk = chunk0;
    else
      std::tie(row, chunk) = rowAndChunk(number);
    auto copy = [&] {
      Value own;
      if (from.place)
        own = from.place(wide(row));
      else if (staysInColumn)
        own = offset;
      else
        own = e.add(from.base, e.mul(wide(row), from.rowStride));
      Value column = mulI(chunk, to.perChunk());
      Value source = e.at(from.tensor.base, e.add(own, wide(column)), to.type);
      Value left =
          mulI(arith::SubIOp::create(e.b, i32(to.width), column), bytes);
      left = arith::MaxSIOp::create(
          e.b, arith::MinSIOp::create(e.b, left, i32(16)), i32(0));
      Value exists = e.less(wide(row), from.count);
      Value size = e.select(exists, left, i32(0));
      intrinsic("llvm.nvvm.cp.async.cg.shared.global.16.s", {},
                {shared(chunkOffset(to, row, chunk)), source, size});
    };
    if ((round + 1) * threads() <= all)
      copy();
    else
      e.branch(arith::CmpIOp::create(e.b, arith::CmpIPredicate::ult, number,
                                     i32(all)),
               copy);
    if (offset)
      offset = e.add(offset, stepOffset);
  }
}

/// The same for rows that lie anyhow.
void FragmentLowering::copyElements(const SharedRows &to, int64_t rowCount,
                                    const GlobalRows &from) {
  const int64_t per = to.perChunk();
  Type memory = e.b.getIntegerType(to.elementBytes() * 8);
  Value zero = arith::ConstantOp::create(e.b, e.b.getZeroAttr(memory));
  e.loop(
      this->wide(thread), e.c(rowCount * to.chunks), threads(),
      [&](Value number) {
        Value row = e.div(number, e.c(to.chunks));
        Value chunk = e.rem(number, e.c(to.chunks));
        Value offset = from.place
                           ? from.place(row)
                           : e.add(from.base, e.mul(row, from.rowStride));
        Value exists = e.less(row, from.count);
        Value words[4];
        for (int64_t i = 0; i < per; ++i) {
          Value column = e.add(e.mul(chunk, per), i);
          Value inside = both(exists, e.less(column, e.c(to.width)));
          Value element = choose(
              inside, memory,
              [&]() -> Value {
                Value at =
                    e.at(from.tensor.base,
                         e.add(offset, e.mul(column, from.tensor.stride[3])),
                         memory);
                return input(memory, at, to.elementBytes());
              },
              [&] { return zero; });
          Value &word = words[i * 4 / per];
          if (per == 4)
            word = element;
          else if (i % 2 == 0)
            word = arith::ExtUIOp::create(e.b, e.i32, element);
          else
            word = arith::OrIOp::create(
                e.b, word,
                arith::ShLIOp::create(
                    e.b, arith::ExtUIOp::create(e.b, e.i32, element), i32(16)));
        }
        Value vector = LLVM::PoisonOp::create(e.b, VectorType::get({4}, e.i32));
        for (int64_t i = 0; i < 4; ++i)
          vector = vector::InsertOp::create(e.b, words[i], vector,
                                            ArrayRef<int64_t>{i});
        LLVM::StoreOp::create(
            e.b, vector, shared(chunkOffset(to, narrow(row), narrow(chunk))),
            16);
      });
}

Values FragmentLowering::readChunk(const SharedRows &rows, Value row,
                                   Value chunk) {
  Value address = shared(chunkOffset(rows, row, chunk));
  const int64_t per = rows.perChunk();
  Value words = LLVM::LoadOp::create(e.b, VectorType::get({4}, e.i32), address,
                                     /*alignment=*/16);
  Values result;
  for (int64_t i = 0; i < per; ++i) {
    Value word =
        vector::ExtractOp::create(e.b, words, ArrayRef<int64_t>{i * 4 / per});
    if (rows.type.isF32())
      result.push_back(arith::BitcastOp::create(e.b, e.f32, word));
    else
      result.push_back(half(word, i % 2, rows.type));
  }
  return result;
}

Value FragmentLowering::choose(Value condition, Type type,
                               llvm::function_ref<Value()> then,
                               llvm::function_ref<Value()> otherwise) {
  auto ifOp = scf::IfOp::create(e.b, TypeRange{type}, condition, true, true);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointToStart(ifOp.thenBlock());
  scf::YieldOp::create(e.b, then());
  e.b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(e.b, otherwise());
  return ifOp.getResult(0);
}

/// One of the two halves of a word, as f32.
Value FragmentLowering::half(Value word, int64_t which, Type type) {
  if (type.isBF16()) {
    Value high = which ? e.b.createOrFold<arith::AndIOp>(word, i32(0xffff0000))
                       : arith::ShLIOp::create(e.b, word, i32(16)).getResult();
    return arith::BitcastOp::create(e.b, e.f32, high);
  }
  Value bits = arith::TruncIOp::create(e.b, e.b.getI16Type(),
                                       which ? shiftRight(word, 16) : word);
  Value narrow = arith::BitcastOp::create(e.b, e.b.getF16Type(), bits);
  return arith::ExtFOp::create(e.b, e.f32, narrow);
}

/// Goes over the thread's chunks, those that it copied itself.
Values FragmentLowering::eachChunk(
    const SharedRows &rows, int64_t rowCount, Values state,
    llvm::function_ref<Values(Value at, ValueRange words, ValueRange state)>
        body) {
  return e.loop(
      this->wide(thread), e.c(rowCount * rows.chunks), threads(), state,
      [&](Value number, ValueRange before) {
        Value index = narrow(number);
        Value row = arith::DivUIOp::create(e.b, index, i32(rows.chunks));
        Value chunk = arith::RemUIOp::create(e.b, index, i32(rows.chunks));
        Value at = shared(chunkOffset(rows, row, chunk));
        Value all = LLVM::LoadOp::create(e.b, VectorType::get({4}, e.i32), at,
                                         /*alignment=*/16);
        Values words;
        for (int64_t i = 0; i < 4; ++i)
          words.push_back(
              vector::ExtractOp::create(e.b, all, ArrayRef<int64_t>{i}));
        return body(at, words, before);
      });
}

/// A word whose sign bits say which of its elements are not finite: adding one
/// to the lowest bit of an exponent of all ones carries into the sign's place.
Value FragmentLowering::infinite(Value word, Type type) {
  const bool isWide = type.isF32();
  const uint32_t one = isWide          ? 0x00800000
                       : type.isBF16() ? 0x00800080
                                       : 0x04000400;
  return addI(e.b.createOrFold<arith::AndIOp>(
                  word, i32(isWide ? 0x7fffffff : 0x7fff7fff)),
              i32(one));
}

static int64_t signBits(Type type) {
  return type.isF32() ? 0x80000000 : 0x80008000;
}

/// Each thread looks at what it copied itself: it sees that before the others.
void FragmentLowering::noteFinite(const SharedRows &rows, int64_t rowCount) {
  Value zero = i32(0);
  Value seen = eachChunk(
      rows, rowCount, {zero}, [&](Value, ValueRange words, ValueRange state) {
        Value found = state[0];
        for (Value word : words)
          found = arith::OrIOp::create(e.b, found, infinite(word, rows.type));
        return Values{found};
      })[0];
  Value bad = arith::CmpIOp::create(
      e.b, arith::CmpIPredicate::ne,
      e.b.createOrFold<arith::AndIOp>(seen, i32(signBits(rows.type))), zero);
  Value any = intrinsic("llvm.nvvm.vote.ballot.sync", e.i32, {i32(-1), bad});
  Value isFirst =
      arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, lane, zero);
  e.branch(isFirst, [&] {
    LLVM::StoreOp::create(e.b, any, shared(addI(mulI(warp, 4), flagArea)), 4);
  });
}

void FragmentLowering::clearInfinite(const SharedRows &rows, int64_t rowCount) {
  eachChunk(rows, rowCount, {}, [&](Value at, ValueRange words, ValueRange) {
    Value all = LLVM::PoisonOp::create(e.b, VectorType::get({4}, e.i32));
    for (auto [i, word] : llvm::enumerate(words)) {
      // From a half's sign bit, all of its bits.
      Value signs = andI(infinite(word, rows.type), signBits(rows.type));
      Value gone = mulI(shiftRight(signs, 15), 0xffff);
      Value kept = arith::AndIOp::create(
          e.b, word, arith::XOrIOp::create(e.b, gone, i32(-1)));
      all = vector::InsertOp::create(e.b, kept, all,
                                     ArrayRef<int64_t>{int64_t(i)});
    }
    LLVM::StoreOp::create(e.b, all, at, 16);
    return Values{};
  });
}

Value FragmentLowering::notedFinite() {
  Value all = i32(0);
  for (int64_t w = 0; w < warps(); ++w)
    all = arith::OrIOp::create(
        e.b, all,
        LLVM::LoadOp::create(e.b, e.i32, shared(flagArea + 4 * w), 4));
  return arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, all, i32(0));
}

} // namespace attn

//===- targets/cuda/FragmentLowering.h - One kernel to fragments ----------===//
//
// Part of attnc. Apache-2.0.
//
// A block of threads works on one item; each of its warps holds 16 rows of
// every tile. Where tiles live:
//
//   queries        registers, as the first operand of mma; or shared memory,
//                  where they are multiplied without mma or are too wide
//   keys, values   shared memory, one tile each, copied asynchronously
//   scores, acc    registers: thread (g, t) of a warp, g = lane / 4 and
//                  t = lane % 4, holds rows g and g + 8, and of each 8 columns
//                  numbers 2t and 2t + 1: four values in the order (g, 2t),
//                  (g, 2t+1), (g+8, 2t), (g+8, 2t+1)
//   max, decay     registers: of rows g and g + 8, the same in all four threads
//   sum            registers: each thread's share of it; added up in `finish`
//   picked positions, rows on their way out   shared memory
//
// Rows in shared memory are made of chunks of 16 bytes (SharedRows).
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_CUDA_FRAGMENTLOWERING_H
#define ATTNC_TARGETS_CUDA_FRAGMENTLOWERING_H

#include "targets/common/ProgramLowering.h"
#include <optional>

namespace attn {

/// Rows of a tile in shared memory. Eight consecutive rows at one chunk, and a
/// row's consecutive chunks, lie in different banks: chunks are permuted by the
/// row where their number is a multiple of 8, else it is made odd.
struct SharedRows {
  int64_t offset = 0; ///< bytes into the block's shared memory
  int64_t width = 0;  ///< elements of a row that exist
  int64_t chunks = 0; ///< of a row, with elements of zero behind `width`
  mlir::Type type;    ///< of an element

  int64_t elementBytes() const { return type.getIntOrFloatBitWidth() / 8; }
  int64_t perChunk() const { return 16 / elementBytes(); }
  bool isPermuted() const { return chunks % 8 == 0; }
  int64_t stride() const; ///< bytes from row to row
};

/// Rows of the caller's, `rowStride` apart; or anywhere.
struct GlobalRows {
  CallFields::Tensor tensor;
  Value base, rowStride;                  ///< offsets in elements; or
  llvm::function_ref<Value(Value)> place; ///< the offset of a row
  Value count;                            ///< rows beyond are zero
};

class FragmentLowering : public ProgramLowering {
public:
  FragmentLowering(KernelOp kernel, mlir::func::FuncOp function,
                   const TargetInfo &target);

  mlir::LogicalResult run();
  int64_t threads() const { return warps() * 32; }
  int64_t sharedBytes() const { return allocated; }
  /// What an item of a split stores.
  int64_t stateBytes() const { return bytesOfState; }

private:
  // The walk (FragmentLowering.cpp).
  mlir::LogicalResult forLoop(mlir::scf::ForOp op) override;
  mlir::LogicalResult ifBranch(mlir::scf::IfOp op) override;
  mlir::LogicalResult tileOp(mlir::Operation &op) override;
  Values carried(ValueRange tiles);
  void bind(ValueRange tiles, ValueRange values);
  int64_t valuesOf(mlir::Type tile) const;
  /// Values of rows g and g + 8, and of nothing else.
  void setColumn(Value tile, Values ofRows);
  int64_t warps() const { return plan.rows / 16; }
  static mlir::Type storage(Value tensor);
  int64_t allocate(int64_t bytes);
  SharedRows allocateRows(int64_t rows, int64_t width, mlir::Type type);
  void pick(PickOp op);

  // Instructions (Warp.cpp).
  Value intrinsic(llvm::StringRef name, mlir::Type result, ValueRange args);
  void barrier();
  void commitCopies();
  void waitForCopies(int groups);
  /// From the thread whose lane differs in `bits`.
  Value fromNeighbour(Value x, int bits);
  Value exp2(Value x);
  Value larger(Value x, Value y); ///< the number, if one is NaN
  Value packed(Value low, Value high, mlir::Type half); ///< two halves in i32
  Values matrices(Value address, bool transposed);
  Values multiply(mlir::Type half, ValueRange a, Value b0, Value b1,
                  ValueRange c);
  Value i32(int64_t value);
  Value addI(Value x, Value y);
  Value addI(Value x, int64_t y) { return addI(x, i32(y)); }
  Value mulI(Value x, int64_t y);
  Value andI(Value x, int64_t y);
  Value shiftRight(Value x, int64_t by);
  Value addF(Value x, Value y);
  Value mulF(Value x, Value y);
  Value fmaF(Value x, Value y, Value z);
  Value equalF(Value x, float y);
  Value both(Value x, Value y); ///< of two conditions

  // Shared memory (Shared.cpp).
  /// A byte offset into the block's shared memory (i32), as a pointer.
  Value shared(Value offset);
  Value shared(int64_t offset) { return shared(i32(offset)); }
  /// Where chunk `chunk` of row `row` begins, in bytes; both i32.
  Value chunkOffset(const SharedRows &rows, Value row, Value chunk);
  /// Copies `rowCount` rows into shared memory: to be committed, waited for and
  /// published by a barrier.
  void copyIn(const SharedRows &to, int64_t rowCount, const GlobalRows &from);
  bool canCopyWhole(const SharedRows &to, int64_t rowCount,
                    const GlobalRows &from) const;
  void copyWhole(const SharedRows &to, int64_t rowCount,
                 const GlobalRows &from);
  void copyChunks(const SharedRows &to, int64_t rowCount,
                  const GlobalRows &from);
  void copyElements(const SharedRows &to, int64_t rowCount,
                    const GlobalRows &from);
  Value isAligned(const CallFields::Tensor &tensor, int64_t elementBytes);
  /// The elements of a chunk as f32.
  Values readChunk(const SharedRows &rows, Value row, Value chunk);
  Value half(Value word, int64_t which, mlir::Type type);
  /// One of two values, worked out only where it is wanted.
  Value choose(Value condition, mlir::Type type,
               llvm::function_ref<Value()> then,
               llvm::function_ref<Value()> otherwise);
  Values chooseAll(Value condition, llvm::function_ref<Values()> then,
                   llvm::function_ref<Values()> otherwise);
  /// i1 for the block: whether all elements of the rows are finite. Called
  /// before the barrier that publishes them; known after it.
  void noteFinite(const SharedRows &rows, int64_t rowCount);
  Value notedFinite();
  /// Elements of 16 bits that are not finite become zero: each thread's chunks,
  /// between two barriers.
  void clearInfinite(const SharedRows &rows, int64_t rowCount);
  Values eachChunk(
      const SharedRows &rows, int64_t rowCount, Values state,
      llvm::function_ref<Values(Value at, ValueRange words, ValueRange state)>
          body);
  Value infinite(Value word, mlir::Type type);

  // Rows in and out (Rows.cpp).
  void loadRows(LoadRowsOp op);
  Values queryFragment(int64_t block);
  void loadKeys(LoadKeysOp op);
  mlir::LogicalResult fill(FillOp op);
  void sink(SinkOp op);
  void finish(FinishOp op);
  void storeRows(StoreRowsOp op);
  void storeChunk(const SharedRows &from, Value row, Value chunk,
                  const CallFields::Tensor &tensor, Value offset,
                  Value aligned);

  // The loop's steps (Steps.cpp).
  void scores(ScoresOp op);
  Values products(const SharedRows &keys);
  Values productsByMma(const SharedRows &keys);
  void softmax(SoftmaxOp op);
  void accumulate(AccumulateOp op);
  Values accumulateByMma(ValueRange acc, ValueRange weights,
                         const SharedRows &values);
  void storeWeights(ValueRange weights, ValueRange bits);
  int64_t weightStride() const { return sharedWeightBytes(plan.keys); }
  /// Which values are added, where weights come from shared memory.
  enum class OneByOne : uint8_t { All, ThatCount, InfiniteThatCount };
  Values accumulateOneByOne(ValueRange acc, const SharedRows &values,
                            OneByOne which);

  /// Two maxima of a row: the larger, and what scores are weighed against.
  struct Peak {
    Value max, base;
  };
  Peak peakOf(Value before, Value found);
  Value weigh(Value score, const Peak &peak);
  Values faded(ValueRange acc, ValueRange decay);

  // States of splits (States.cpp).
  void storeState(StoreStateOp op);
  void loadState(LoadStateOp op);
  void combine(CombineOp op);
  Value statePair(Value base, int64_t pair);

  /// The keys that a loop's steps read, one tile after the other: the first
  /// tile is copied before the loop, and each next one while the step before it
  /// multiplies its values.
  struct KeyStream {
    Value number;    ///< of the step: the loop's variable
    LoadKeysOp load; ///< one of them: all load the same tile
    llvm::SmallVector<mlir::Operation *> address; ///< what its place needs
    Value last, step;                             ///< of the loop
  };
  std::optional<KeyStream> streamOf(mlir::scf::ForOp loop);
  void copyAhead(const KeyStream &stream, Value number);
  void copyNext();
  void skipTile(mlir::Block *with, mlir::Block *without);
  void copyKeys(LoadKeysOp op);

  /// What a tile of queries is.
  struct Queries {
    SharedRows rows;
    Values fragments; ///< by column block, four each; none: read from `rows`
    Value scale;
  };
  /// A tile of keys or values.
  struct Keys {
    SharedRows rows;
    Value count;
  };

  Value thread, lane, warp, group, inGroup; ///< i32: tid, and parts of it
  Value firstRow;                           ///< i32: of this thread's two
  Value sharedBase;
  int64_t allocated = 0, bytesOfState = 0;
  llvm::DenseMap<Value, Values> fragments;
  llvm::DenseMap<Value, Values> counting; ///< by scores: bits, of pairs that
                                          ///< count; none: all
  Queries queries;
  std::optional<KeyStream> stream; ///< of the loop at work
  LoadKeysOp valuesAwaited;        ///< of the step at work
  llvm::DenseMap<Value, Keys> keyTiles;
  SharedRows queryRows, keyRows, valueRows, outRows;
  int64_t weightArea = 0, rowPositionArea = 0, flagArea = 0;
  Value rowPositions; ///< as a pointer
  bool usesMma = false;
};

/// The widest row of queries, keys or values that is lowered.
inline constexpr int64_t kWidestFragmentRow = 512;

} // namespace attn

#endif

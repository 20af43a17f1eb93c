//===- targets/cpu/KernelLowering.h - One kernel to loops -----------------===//
//
// Part of attnc. Apache-2.0.
//
// How tiles live in scratch memory, all f32 whatever the call's tensors hold,
// all areas 64-byte aligned:
//
//   queries  [panel][column][lane]   transposed: a panel is the rows that one
//                                    register block of scores works on
//   scores   [key][row]              weights replace them in place
//   max, sum, decay, lse, ones  [row]; peak is the maximum so far while the
//   scores
//                                    of a tile without a mask are made
//   acc      [panel][row][lane]      a panel is the value columns of one
//                                    register block of the accumulation
//   values   [key][lane]             one panel of V, copied once a key tile
//   keys     [key][column]           where K's rows are not dense, or not f32
//
// A tile value is updated in place: the tile program uses each state once.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_CPU_KERNELLOWERING_H
#define ATTNC_TARGETS_CPU_KERNELLOWERING_H

#include "targets/common/ProgramLowering.h"
#include "targets/common/VectorMath.h"

namespace attn {

/// Keys or values of a tile as they lie in the caller's memory.
struct KeyRows : Matrix {
  Value count;
};

/// Register blocks of the accumulation, one below the other.
struct ValueBlock {
  int64_t rows = 0;          ///< of a block
  Value count;               ///< of all blocks together
  Value acc, decay, weights; ///< of its first row
  Value values, stride;      ///< a panel of V and the distance of its rows
  mlir::Type element;        ///< as V is stored there
  Value lo, hi;              ///< columns of the tile
  bool masked = false;       ///< some weights may be those of masked pairs
  Value copy; ///< where to leave a dense copy of the panel, f32; or null
};

/// Register blocks of scores: a panel of rows by columns from..to-1 of the
/// tile. Blocks begin at `last` at the latest.
struct ScoreBlocks {
  Value keys, queries, scores, peak, from, to, last;
  Value ahead; ///< i1: read K and V of the columns ahead
  KeyRows k, v;
};

enum class Bound { Hull, Inner };

class KernelLowering : public ProgramLowering {
public:
  KernelLowering(KernelOp kernel, mlir::func::FuncOp function,
                 const TargetInfo &target);

  mlir::LogicalResult run();
  int64_t scratchBytes() const { return scratchFloats * 4; }

private:
  // The walk (TileLowering.cpp).
  mlir::LogicalResult forLoop(mlir::scf::ForOp op) override;
  mlir::LogicalResult ifBranch(mlir::scf::IfOp op) override;
  mlir::LogicalResult tileOp(mlir::Operation &op) override;
  mlir::LogicalResult sameTiles(mlir::Operation *op, mlir::OperandRange yielded,
                                ValueRange state);
  Value allocate(int64_t floats);
  /// Calls a private function of the module; `body` writes it on first use. So
  /// a register block exists once however many tile bodies use it.
  void callRoutine(llvm::StringRef name, ValueRange args,
                   llvm::function_ref<void(ValueRange)> body);
  /// What the name of a routine says of elements that it reads.
  std::string suffix(mlir::Type element);

  // Rows in and out (Rows.cpp).
  void loadRows(LoadRowsOp op);
  void loadKeys(LoadKeysOp op);
  void fill(FillOp op);
  void finish(FinishOp op);
  void storeRows(StoreRowsOp op);
  void sink(SinkOp op);
  void pick(PickOp op);
  Value rowAddress(const CallFields::Tensor &tensor, const RowPlaces &places,
                   Value r);

  // The loop's steps (Scores.cpp, Softmax.cpp, Accumulate.cpp).
  void scores(ScoresOp op);
  void scoreBlocks(int64_t height, const ScoreBlocks &blocks);
  void scoreBody(int64_t keys, Value k, Value q, Value s, Value peak);
  Value denseKeys(const KeyRows &rows);
  void softmax(SoftmaxOp op);
  void softmaxPanel(const PairInfo &pairs, Value panel, Value s, Value max,
                    Value sum);
  void accumulate(AccumulateOp op);
  void accumulateBlocks(const ValueBlock &block);
  void accumulateBody(const ValueBlock &block);
  void accumulateMasked(const PairInfo &pairs, ValueBlock block, Value r,
                        Value finite);
  void accumulateNearNan(const PairInfo &pairs, ValueBlock block, Value r,
                         Value first, Value end);
  void forgetDecayed(Value acc, Value rows);
  Value allFinite(const KeyRows &rows, Value lo, Value hi);
  Matrix valuePanel(const KeyRows &rows, bool ahead, Value tileRows,
                    Value panel, Value lo, Value hi);

  // Pairs (Pairs.cpp).
  /// Made once for the ops of a step, which share a block.
  using ProgramLowering::pairInfo;
  PairInfo pairInfo(ScoresOp op);
  /// Columns [lo, hi) of the tile outside which rows first..last (inclusive)
  /// see nothing, or of which each of them sees all.
  std::pair<Value, Value> bounds(const PairInfo &pairs, Value first, Value last,
                                 Bound bound);
  /// The query positions of `lanes` rows from `first` on, as i32.
  Value positions(const PairInfo &pairs, Value first);
  /// What a panel of rows reads of arrays of pairs, copied: for each load an
  /// area [row][key], from key `from` on; `column` is the one at work, from
  /// there.
  struct Staged {
    llvm::DenseMap<mlir::Operation *, Value> areas;
    Value from, column;
  };
  /// A vector of rows of a panel: their positions, and which it is.
  struct RowVector {
    Value positions;
    int64_t number;
    const Staged *staged;
  };
  /// Whether working a mask out again costs more than keeping it.
  static bool isCostly(mlir::Region &mask);
  /// Whether the rows at `positions` may see column `column`.
  Value allowed(const PairInfo &pairs, const RowVector &rows, Value column);
  /// The score that the variant makes of `score` there.
  Value scored(const PairInfo &pairs, Value score, const RowVector &rows,
               Value column);
  Value evaluated(const PairInfo &pairs, mlir::Region &region, Value score,
                  Value head, Value q, Value k, const RowVector *rows = nullptr,
                  Value column = {});
  Value loadedAhead(ParamOp load) override;
  Staged stage(const PairInfo &pairs, Value first, Value lo, Value hi);
  void copyElements(mlir::Type type, Value from, Value stride, Value to,
                    Value count);
  Value stagedElement(mlir::Type stored, Value area, Value column,
                      int64_t vector);
  /// From row to row of what is staged, in elements: a line more than the keys
  /// of a tile, so that rows lie in different sets of the cache.
  int64_t stagedStride() const { return plan.keys + 16; }
  /// The numbers of the lanes, as i32.
  Value iota();

  int64_t panelRows() const { return plan.scoreVectors * e.lanes; }
  int64_t panelColumns() const { return plan.valueVectors * e.lanes; }

  Value scratch;
  int64_t scratchFloats = 0;
  llvm::DenseMap<Value, KeyRows> views; ///< tiles in the caller's memory
  llvm::DenseMap<mlir::Operation *, PairInfo> pairs;
  Value scoreArea, peakArea, onesArea, decayArea, lseArea, valueArea, keyArea;
  Value narrowArea;   ///< of `values`, where V is not f32
  Value rowPositions; ///< i32, of rows at listed positions
  Value maskArea;     ///< of the panel at work, where masks are kept
  /// While a region is evaluated: whose staged elements, and which column.
  const RowVector *atWork = nullptr;
  Value columnAtWork;
};

} // namespace attn

#endif

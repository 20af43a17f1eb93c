//===- targets/cpu/KernelLowering.h - One kernel to loops -----------------===//
//
// Part of attnc. Apache-2.0.
//
// How tiles live in scratch memory, all f32, all areas 64-byte aligned:
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
//   keys     [key][column]           only where K's rows are not dense
//
// A tile value is updated in place: the tile program uses each state once.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_CPU_KERNELLOWERING_H
#define ATTNC_TARGETS_CPU_KERNELLOWERING_H

#include "compiler/AttnDialect.h"
#include "compiler/Plan.h"
#include "compiler/RangeAnalysis.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "targets/cpu/Emitter.h"
#include "llvm/ADT/DenseMap.h"
#include <memory>

namespace attn {

/// The fields of the call (runtime/attn_abi.h), loaded once.
struct CallFields {
  struct Tensor {
    Value base;
    Value stride[4];
  };
  Tensor operands[4]; ///< by Operand: q, k, v, o
  Value lse, lseStride[3];
  Value qLens, kvLens, qLen, kvLen;
};

/// Keys or values of a tile as they lie in the caller's memory.
struct KeyRows {
  Value base, rowStride, columnStride, count;
};

/// Where the rows and keys of a score tile are, and what the mask says there.
struct PairInfo {
  Value batch, group, head, row, rows, heads, shift, key, count, qLen, kvLen;
  Value step; ///< between the positions of neighbours; 1 unless dilated
  mlir::Region *mask = nullptr;  ///< null: every pair counts
  mlir::Region *score = nullptr; ///< null: the score is the scaled product
  std::shared_ptr<RangeAnalysis> analysis;
};

/// Register blocks of the accumulation, one below the other.
struct ValueBlock {
  int64_t rows = 0;          ///< of a block
  Value count;               ///< of all blocks together
  Value acc, decay, weights; ///< of its first row
  Value values, stride;      ///< a panel of V and the distance of its rows
  Value lo, hi;              ///< columns of the tile
  bool masked = false;       ///< some weights may be those of masked pairs
  Value copy; ///< where to leave a dense copy of the panel; or null
};

/// Register blocks of scores: a panel of rows by columns from..to-1 of the
/// tile. Blocks begin at `last` at the latest.
struct ScoreBlocks {
  Value keys, queries, scores, peak, from, to, last;
  Value ahead; ///< i1: read K and V of the columns ahead
  KeyRows k, v;
};

enum class Bound { Hull, Inner };

class KernelLowering {
public:
  KernelLowering(KernelOp kernel, mlir::func::FuncOp function,
                 const TargetInfo &target);

  mlir::LogicalResult run();
  int64_t scratchBytes() const { return scratchFloats * 4; }

private:
  // The walk (TileLowering.cpp).
  mlir::LogicalResult block(mlir::Block &block);
  mlir::LogicalResult operation(mlir::Operation &op);
  mlir::LogicalResult forLoop(mlir::scf::ForOp op);
  mlir::LogicalResult ifBranch(mlir::scf::IfOp op);
  mlir::LogicalResult sameTiles(mlir::Operation *op, mlir::OperandRange yielded,
                                ValueRange state);
  void loadCall(Value call);
  void item(ItemOp op);
  void table(TableOp op);
  void length(LengthOp op);
  Value scalar(Value v) { return scalars.lookup(v); }
  Value allocate(int64_t floats);
  /// Calls a private function of the module; `body` writes it on first use. So
  /// a register block exists once however many tile bodies use it.
  void callRoutine(llvm::StringRef name, ValueRange args,
                   llvm::function_ref<void(ValueRange)> body);

  // Rows in and out (Rows.cpp).
  void loadRows(LoadRowsOp op);
  void loadKeys(LoadKeysOp op);
  void fill(FillOp op);
  void finish(FinishOp op);
  void storeRows(StoreRowsOp op);
  Value rowAddress(const CallFields::Tensor &tensor, Value batch, Value head,
                   Value row, Value heads, mlir::OperandRange residue);

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
  void accumulateMasked(const PairInfo &pairs, ValueBlock block, Value r);
  void forgetDecayed(Value acc, Value rows);
  std::pair<Value, Value> valuePanel(const KeyRows &rows, bool masked,
                                     Value tileRows, Value panel, Value lo,
                                     Value hi);

  // Pairs (Pairs.cpp).
  /// Made once for the ops of a step, which share a block.
  PairInfo pairInfo(ScoresOp op);
  /// Columns [lo, hi) of the tile outside which rows first..last (inclusive)
  /// see nothing, or of which each of them sees all.
  std::pair<Value, Value> bounds(const PairInfo &pairs, Value first, Value last,
                                 Bound bound);
  /// The query positions of `lanes` rows from `first` on, as i32.
  Value positions(const PairInfo &pairs, Value first);
  /// Whether the rows at `positions` may see column `column`.
  Value allowed(const PairInfo &pairs, Value positions, Value column);
  /// The score that the variant makes of `score` there.
  Value scored(const PairInfo &pairs, Value score, Value positions,
               Value column);
  Value evaluate(const PairInfo &pairs, mlir::Region &region, Value score,
                 Value positions, Value column);

  int64_t panelRows() const { return plan.scoreVectors * e.lanes; }
  int64_t panelColumns() const { return plan.valueVectors * e.lanes; }

  KernelOp kernel;
  mlir::func::FuncOp function;
  Emitter e;
  Plan plan;
  int64_t qkDim = 0, valueDim = 0;
  CallFields call;
  Value scratch;
  int64_t scratchFloats = 0;
  mlir::IRMapping scalars;
  llvm::DenseMap<Value, Value> tiles;   ///< tiles in scratch memory
  llvm::DenseMap<Value, KeyRows> views; ///< tiles in the caller's memory
  llvm::DenseMap<mlir::Operation *, PairInfo> pairs;
  Value scoreArea, peakArea, onesArea, decayArea, lseArea, valueArea, keyArea;
};

/// A function of the math dialect on a vector: exp2 at most 2 ulp off, the
/// others at most 4, where argument and result are normal numbers; sqrt and
/// floor exact. NaN for NaN; exp of large arguments is infinity, log of 0 is
/// -infinity, of less NaN.
Value emitFunction(Emitter &e, mlir::Operation &op, Value x);
/// exp(x) for x <= 0; NaN for NaN, 0 below -88; at most 3.3 ulp for
/// x >= -87 (over a grid of 6 million).
Value emitExpOfNegative(Emitter &e, Value x);
/// ln(x) for finite x >= 2^-126; at most 4 ulp. NaN for NaN.
Value emitLog(Emitter &e, Value x);

} // namespace attn

#endif

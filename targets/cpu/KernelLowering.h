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

#include "compiler/AttnDialect.h"
#include "compiler/Plan.h"
#include "compiler/RangeAnalysis.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "targets/cpu/Emitter.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <memory>

namespace attn {

/// The fields of the call (runtime/attn_abi.h), loaded once.
struct CallFields {
  struct Tensor {
    Value base;
    Value stride[4];
    mlir::Type element;
  };
  Tensor operands[4]; ///< by Operand: q, k, v, o
  Value lse, lseStride[3];
  Value qLens, kvLens, qLen, kvLen;
};

/// A parameter of the call (attn_param), loaded once; by dimension.
struct ParamFields {
  Value data, blocks;
  Values last; ///< the extent less one
  Values stride, blockStride;
};

/// The call's listed positions; null unless the kernel reads them.
struct GlobalFields {
  Value data, stride, counts, most;
};

/// Keys or values of a tile as they lie in the caller's memory.
struct KeyRows : Matrix {
  Value count;
};

/// Where the rows and keys of a score tile are, and what the mask says there.
struct PairInfo {
  Value batch, group, head, row, rows, heads, shift, key, count, qLen, kvLen;
  Value step;       ///< between the positions of neighbours; 1 unless dilated
  Value listedKeys; ///< positions of the columns (i32); null: as above
  Value listedRows; ///< positions of the rows (i32); null: as above
  Values loads;     ///< two values for each of the mask's loads
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

/// Where the rows of a tile lie: `row` is the first; null what does not apply.
struct RowPlaces {
  Value batch, head, row, heads;
  Value residue, step; ///< of a class of queries
  Value listed, shift; ///< positions of the rows, and that of query 0
};

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
  Value field(Value base, size_t offset, mlir::Type type);
  void item(ItemOp op);
  void table(TableOp op);
  Value tableElement(llvm::ArrayRef<int64_t> values, Value at);
  void length(LengthOp op);
  Value scalar(Value v) { return scalars.lookup(v); }
  Value allocate(int64_t floats);
  /// Calls a private function of the module; `body` writes it on first use. So
  /// a register block exists once however many tile bodies use it.
  void callRoutine(llvm::StringRef name, ValueRange args,
                   llvm::function_ref<void(ValueRange)> body);
  /// What the name of a routine says of elements that it reads.
  std::string suffix(mlir::Type element);

  // Parameters and lists of tokens (Params.cpp).
  void loadParams(Value call);
  void param(ParamOp op);
  void extremes(ExtremesOp op);
  void listed(ListedOp op);
  void pick(PickOp op);
  void position(PositionOp op);
  /// An element; a vector where an index is one. Integers i32, bools i1, the
  /// rest f32.
  Value element(int64_t number, mlir::Type stored, llvm::ArrayRef<bool> inside,
                ValueRange at);
  Value member(int64_t list, Value batch, Value position, bool inside);
  Value clamped(Value index, Value last, bool inside);
  /// Where an element lies: an address, and for each lane a distance from it in
  /// elements of type `memory`; no lanes where no index is a vector.
  struct Place {
    mlir::Type memory;
    Value base;
    Values lanes;
  };
  Place placeOf(int64_t number, mlir::Type stored, llvm::ArrayRef<bool> inside,
                ValueRange at);
  /// One element as it lies, but i8 as i32; and what that stands for.
  Value readElement(mlir::Type memory, mlir::Type stored, Value from);
  Value converted(mlir::Type stored, Value raw);
  Value together(ValueRange scalars);
  mlir::Type memoryType(mlir::Type stored);
  Value wide(Value integer); ///< as i64
  Value listedPosition(Value batch, Value i);
  Value positionAt(Value positions, Value i);

  // Rows in and out (Rows.cpp).
  void loadRows(LoadRowsOp op);
  void loadKeys(LoadKeysOp op);
  void fill(FillOp op);
  void finish(FinishOp op);
  void storeRows(StoreRowsOp op);
  void sink(SinkOp op);
  template <typename Op> RowPlaces placesOf(Op op);
  /// The number of the query of row `r` of the tile.
  Value queryOf(const RowPlaces &places, Value r);
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
  /// A region of the variant; `head`, `q` and `k` are i32 or vectors of it.
  Value evaluate(const PairInfo &pairs, mlir::Region &region, Value score,
                 Value head, Value q, Value k, const Staged *staged = nullptr,
                 int64_t vector = 0, Value column = {});
  /// Writes the ops of a region that `wanted` names; `map` knows its arguments.
  void writeOps(mlir::Block &block, mlir::IRMapping &map,
                llvm::function_ref<bool(mlir::Operation &)> wanted,
                const Staged *staged, int64_t vector);
  mlir::IRMapping arguments(const PairInfo &pairs, mlir::Block &block,
                            Value score, Value head, Value q, Value k);
  Staged stage(const PairInfo &pairs, Value first, Value lo, Value hi);
  void copyElements(mlir::Type type, Value from, Value stride, Value to,
                    Value count);
  Value stagedElement(mlir::Type stored, Value area, Value column,
                      int64_t vector);
  /// From row to row of what is staged, in elements: a line more than the keys
  /// of a tile, so that rows lie in different sets of the cache.
  int64_t stagedStride() const { return plan.keys + 16; }
  Value keyPosition(const PairInfo &pairs, Value column);
  /// The numbers of the lanes, as i32.
  Value iota();

  int64_t panelRows() const { return plan.scoreVectors * e.lanes; }
  int64_t panelColumns() const { return plan.valueVectors * e.lanes; }

  KernelOp kernel;
  mlir::func::FuncOp function;
  Emitter e;
  Plan plan;
  int64_t qkDim = 0, valueDim = 0;
  CallFields call;
  std::map<int64_t, ParamFields> params; ///< by number
  GlobalFields globals;
  Value scratch;
  int64_t scratchFloats = 0;
  mlir::IRMapping scalars;
  llvm::DenseMap<Value, Value> tiles;   ///< tiles in scratch memory, positions
  llvm::DenseMap<Value, KeyRows> views; ///< tiles in the caller's memory
  llvm::DenseMap<mlir::Operation *, PairInfo> pairs;
  Value scoreArea, peakArea, onesArea, decayArea, lseArea, valueArea, keyArea;
  Value narrowArea;   ///< of `values`, where V is not f32
  Value rowPositions; ///< i32, of rows at listed positions
  Value maskArea;     ///< of the panel at work, where masks are kept
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

//===- targets/common/ProgramLowering.h - Walking a tile program ----------===//
//
// Part of attnc. Apache-2.0.
//
// What lowering a tile program means whatever the machine: the walk, the call's
// fields, items and tables, parameters and lists of tokens, and the regions of
// a variant on a pair of query and key. Where tiles live, and what the steps of
// the loop are made of, is for the classes derived from this to say.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_COMMON_PROGRAMLOWERING_H
#define ATTNC_TARGETS_COMMON_PROGRAMLOWERING_H

#include "compiler/AttnDialect.h"
#include "compiler/Plan.h"
#include "compiler/RangeAnalysis.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "targets/common/Emitter.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <memory>

namespace attn {

/// The fields of the call (runtime/attn_abi.h).
struct CallFields {
  struct Tensor {
    Value base;
    Value stride[4];
    mlir::Type element;
  };
  Tensor operands[4]; ///< by Operand: q, k, v, o; loaded once where a machine
                      ///< wants that (`loadOperands`)
  Value lse, lseStride[3];
  Value qLens, kvLens, qLen, kvLen;
  Value states; ///< of splits; null unless the plan has them
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

/// Where the rows of a tile lie: `row` is the first; null what does not apply.
struct RowPlaces {
  Value batch, head, row, heads;
  Value residue, step; ///< of a class of queries
  Value listed, shift; ///< positions of the rows, and that of query 0
};

class ProgramLowering {
public:
  virtual ~ProgramLowering() = default;

protected:
  /// Pointers of the call are of address space `space`.
  ProgramLowering(KernelOp kernel, mlir::func::FuncOp function,
                  const TargetInfo &target, unsigned space = 0);

  // The walk and what belongs to an item (Program.cpp).
  mlir::LogicalResult block(mlir::Block &block);
  mlir::LogicalResult operation(mlir::Operation &op);
  virtual mlir::LogicalResult forLoop(mlir::scf::ForOp op) = 0;
  virtual mlir::LogicalResult ifBranch(mlir::scf::IfOp op) = 0;
  /// An op on tiles or on positions that were picked.
  virtual mlir::LogicalResult tileOp(mlir::Operation &op) = 0;
  /// Everything but the operands.
  void loadCall(Value call);
  CallFields::Tensor loadOperand(Operand which);
  Value field(Value base, size_t offset, mlir::Type type);
  Value input(mlir::Type type, Value from, unsigned alignment);
  void item(ItemOp op);
  void table(TableOp op);
  Value tableElement(llvm::ArrayRef<int64_t> values, Value at);
  void length(LengthOp op);
  /// How many splits the keys of the call have; 0 where they are not split.
  Value splitCount();
  /// Where the state of a split lies, of `bytes` each.
  Value statePlace(Value batch, Value group, Value split, int64_t bytes);
  Value scalar(Value v) { return scalars.lookup(v); }
  Value null(); ///< as the call's pointers are

  // Parameters and lists of tokens (Params.cpp).
  void loadParams(Value call);
  void param(ParamOp op);
  void extremes(ExtremesOp op);
  void listed(ListedOp op);
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

  // Rows (Program.cpp).
  template <typename Op> RowPlaces placesOf(Op op, Value listed);
  /// The number of the query of row `r` of the tile.
  Value queryOf(const RowPlaces &places, Value r);
  /// How many elements into a tensor row `r` begins. It is of head
  /// `head + (row + r) % heads`.
  Value rowOffset(const CallFields::Tensor &tensor, const RowPlaces &places,
                  Value r);
  /// i1: whether row `r` is to be stored by this item.
  Value isOwn(StoreRowsOp op, const RowPlaces &places, Value r);

  // Regions (Regions.cpp).
  PairInfo pairInfo(ScoresOp op, Value listedKeys, Value listedRows);
  PairInfo pairInfo(SinkOp op);
  /// A region of the variant; `head`, `q` and `k` are i32 or vectors of it.
  /// The result is a vector where any operand of it was, or a function.
  Value evaluate(const PairInfo &pairs, mlir::Region &region, Value score,
                 Value head, Value q, Value k);
  /// Writes the ops of a region that `wanted` names; `map` knows its arguments.
  void writeOps(mlir::Block &block, mlir::IRMapping &map,
                llvm::function_ref<bool(mlir::Operation &)> wanted);
  mlir::IRMapping arguments(const PairInfo &pairs, mlir::Block &block,
                            Value score, Value head, Value q, Value k);
  /// A load of a region that was done ahead, or null.
  virtual Value loadedAhead(ParamOp) { return {}; }
  /// Of one pair, all scalars: its new score, and whether it counts (null:
  /// always).
  struct Judgement {
    Value score, counts;
  };
  static bool hasRegions(const PairInfo &pairs) {
    return pairs.mask || pairs.score;
  }
  /// Whether its regions read parameters.
  static bool readInputs(const PairInfo &pairs);
  Judgement judge(const PairInfo &pairs, Value score, Value q, Value k);
  /// Of one row: the logit of its sink.
  Value sinkLogit(SinkOp op, Value r);
  /// The query position of row `r` of the tile, and the key position of a
  /// column, as i32.
  Value rowPosition(const PairInfo &pairs, Value r);
  Value keyPosition(const PairInfo &pairs, Value column);
  Value narrow(Value v); ///< as i32

  KernelOp kernel;
  mlir::func::FuncOp function;
  Emitter e;
  Plan plan;
  /// Whether loads of inputs are told to be of what never changes: where that
  /// picks another way through the caches.
  bool keepsInputs;
  int64_t qkDim = 0, valueDim = 0;
  CallFields call;
  Value callBase;
  std::map<int64_t, ParamFields> params; ///< by number
  GlobalFields globals;
  mlir::IRMapping scalars;
  llvm::DenseMap<Value, Value> tiles; ///< where tiles and positions are
};

template <typename Op>
RowPlaces ProgramLowering::placesOf(Op op, Value listed) {
  RowPlaces places;
  places.batch = scalar(op.getBatch());
  places.head = scalar(op.getHead());
  places.row = scalar(op.getRow());
  places.heads = scalar(op.getHeads());
  if (!op.getResidue().empty()) {
    places.residue = scalar(op.getResidue()[0]);
    places.step = scalar(op.getResidue()[1]);
  }
  if (op.getListed())
    places.listed = listed;
  if (op.getShift())
    places.shift = scalar(op.getShift());
  return places;
}

} // namespace attn

#endif

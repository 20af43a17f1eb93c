//===- compiler/TileBuilder.h - Builds one variant's tile program ---------===//
//
// Part of attnc. Apache-2.0.
//
// Internal to Tile.cpp, which says what items there are and what each does, and
// TileLoop.cpp, which has the loop over keys.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TILEBUILDER_H
#define ATTNC_COMPILER_TILEBUILDER_H

#include "compiler/RangeAnalysis.h"
#include "compiler/Specialise.h"
#include "compiler/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace attn {

using mlir::Value;
using mlir::ValueRange;

/// Keys of a tile: `count` from position `key` on, as far apart as the item's
/// dilation; or those at listed positions.
struct KeyTile {
  Value key, count, listed;
};

class TileBuilder {
public:
  explicit TileBuilder(AttentionOp op)
      : op(op), b(op.getLoc(), op), plan(toPlan(*op.getPlan())), parts(op),
        lists(parts.lists), groups(itemGroups(op, plan)) {}

  void run();

private:
  Value constant(int64_t value) {
    return mlir::arith::ConstantIndexOp::create(b, value);
  }
  template <typename OpTy> Value fold(Value x, Value y) {
    return b.createOrFold<OpTy>(x, y);
  }
  TileType tile(int64_t rows, int64_t cols) {
    return TileType::get(b.getContext(), rows, cols, b.getF32Type());
  }
  /// Of K or V: elements as they are stored.
  TileType tileOfKeys(int64_t cols) {
    return TileType::get(b.getContext(), plan.keys, cols, op.getKvType());
  }
  Value operand(Operand which) {
    mlir::Type stored = which == Operand::Q   ? op.getQType()
                        : which == Operand::O ? op.getOutType()
                                              : op.getKvType();
    return TensorOp::create(b, TensorType::get(b.getContext(), stored), which);
  }
  Value fill(float value, TileType type) {
    return FillOp::create(b, type, b.getF32FloatAttr(value));
  }
  Value lookUp(Value group, llvm::function_ref<int64_t(int64_t)> value,
               int64_t groups);
  Value remainder(Value x, Value d);
  Value quotientUp(Value x, Value d);
  KernelOp kernel(const llvm::Twine &name, bool merges,
                  llvm::function_ref<void(Value)> body);
  void item(Value number);
  void mergedItem(Value number);
  void describe();
  void enterClass();
  Value isSplit();
  void whenAny(Value left, llvm::function_ref<void()> body);
  void queries();
  void listedQueries();
  void merge();
  RowValues tileOfClass();
  void loadRows(Value listed);
  llvm::SmallVector<Value> start(Value isPart);
  void store(ValueRange state, Value listed);
  std::pair<Value, Value> splitsOf(Value lo, Value hi);
  /// The position of key number `number` of the item's class.
  Value keyPosition(Value number) {
    return dilation ? fold<mlir::arith::AddIOp>(
                          fold<mlir::arith::MulIOp>(number, dilation), firstKey)
                    : number;
  }
  bool isDilated() const {
    return llvm::any_of(
        groups, [](const ItemGroup &g) { return g.heads.dilation > 1; });
  }
  /// Keys of the item's class.
  Value keyCount() {
    return dilation ? quotientUp(fold<mlir::arith::SubIOp>(kvLen, firstKey),
                                 dilation)
                    : kvLen;
  }
  std::pair<Value, Value> hull(const PartMask &part);
  llvm::SmallVector<Value> dense(ValueRange state, const PartMask &part,
                                 Value first, Value end);
  llvm::SmallVector<Value> gathered(ValueRange state, Value from, Value to);
  llvm::SmallVector<Value> step(ValueRange state, const KeyTile &keys,
                                mlir::Region *mask, ValueRange loads);
  llvm::SmallVector<Value> classified(ValueRange state, const KeyTile &keys,
                                      Value last, const PartMask &part,
                                      const LoadValues &itemLoads);
  llvm::SmallVector<Value>
  conditional(Value condition, mlir::TypeRange types,
              llvm::function_ref<llvm::SmallVector<Value>()> then,
              llvm::function_ref<llvm::SmallVector<Value>()> otherwise);

  AttentionOp op;
  mlir::ImplicitLocOpBuilder b;
  Plan plan;
  MaskParts parts;
  llvm::ArrayRef<int64_t> lists; ///< of tokens, that the mask asks about
  llvm::SmallVector<ItemGroup> groups;
  // Of the work item.
  Value batch, group, row, head, kvHead, heads, qLen, kvLen, count, shift;
  Value queryShift;        ///< the position of query 0
  Value own;               ///< queries of its class
  Value firstListed;       ///< number of its first query at a listed position
  Value residue, dilation; ///< of the item's queries; null unless dilated
  Value firstKey;          ///< the first key of their class
  Value split, ofSplit;    ///< of attn.item; null unless keys are split
  Value q, kOperand, vOperand;
  RowValues positions;
  ScalarValues scalars;
};

} // namespace attn

#endif

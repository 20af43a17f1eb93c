//===- compiler/AttnDialect.cpp - The attn dialect ------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/AttnDialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "compiler/AttnOpsDialect.cpp.inc"
#include "compiler/AttnOpsEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/AttnOpsAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/AttnOpsTypes.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/AttnOps.cpp.inc"
#pragma GCC diagnostic pop

using namespace mlir;

namespace attn {

void AttnDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "compiler/AttnOps.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/AttnOpsTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/AttnOpsAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

Type TileType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  Type element;
  SMLoc place;
  if (parser.parseLess() || parser.getCurrentLocation(&place) ||
      parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
      parser.parseType(element) || parser.parseGreater())
    return {};
  if (shape.size() != 2) {
    parser.emitError(place, "a tile has 2 dimensions, not ") << shape.size();
    return {};
  }
  return parser.getChecked<TileType>(parser.getContext(), shape[0], shape[1],
                                     element);
}

void TileType::print(AsmPrinter &printer) const {
  printer << "<" << getRows() << "x" << getCols() << "x" << getElementType()
          << ">";
}

LogicalResult TileType::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t rows, int64_t cols, Type elementType) {
  if (rows < 1 || cols < 1)
    return emitError() << "a tile has at least one row and column, not " << rows
                       << "x" << cols;
  if (!isa<FloatType>(elementType))
    return emitError() << "the elements of a tile are floats, not "
                       << elementType;
  return success();
}

//===----------------------------------------------------------------------===//
// The variant
//===----------------------------------------------------------------------===//

/// A region is empty, or one block over the seven i32 coordinates of a pair,
/// for scores the score before them, that yields one value.
static LogicalResult verifyPairRegion(Operation *op, StringRef what,
                                      Region &region, bool isScore,
                                      bool yieldsFloat) {
  if (region.empty())
    return success();
  if (!region.hasOneBlock())
    return op->emitOpError() << what << " has " << region.getBlocks().size()
                             << " blocks; one is allowed";
  Block &block = region.front();
  auto types = block.getArgumentTypes();
  bool typed = types.size() == (isScore ? kScoreArgs : kMaskArgs) &&
               (!isScore || types.front().isF32());
  for (size_t i = isScore; typed && i < types.size(); ++i)
    typed = types[i].isInteger(32);
  if (!typed)
    return op->emitOpError() << what << " takes (" << (isScore ? "s, " : "")
                             << "b, h, g, q, k, q_len, kv_len), "
                             << (isScore ? "s f32, the others i32" : "all i32");
  auto yield =
      dyn_cast_or_null<YieldOp>(block.empty() ? nullptr : &block.back());
  if (!yield || yield.getValues().size() != 1 ||
      !(yieldsFloat ? yield.getValues()[0].getType().isF32()
                    : yield.getValues()[0].getType().isInteger(1)))
    return op->emitOpError()
           << what << " must yield one " << (yieldsFloat ? "f32" : "i1");
  return success();
}

static LogicalResult verifyRegions(Operation *op, Region &score, Region &mask) {
  if (failed(verifyPairRegion(op, "score", score, /*isScore=*/true,
                              /*yieldsFloat=*/true)))
    return failure();
  return verifyPairRegion(op, "mask", mask, /*isScore=*/false,
                          /*yieldsFloat=*/false);
}

static LogicalResult verifySink(Operation *op, Region &sink) {
  return verifyPairRegion(op, "sink", sink, /*isScore=*/false,
                          /*yieldsFloat=*/true);
}

LogicalResult ParamOp::verify() {
  if (getAt().size() == getInside().size())
    return success();
  return emitOpError() << "has " << getAt().size() << " indices and tells of "
                       << getInside().size() << " whether they are inside";
}

LogicalResult AttentionOp::verify() {
  auto positive = [&](StringRef what, int64_t value) -> LogicalResult {
    if (value >= 1)
      return success();
    return emitOpError() << what << " is " << value
                         << "; at least 1 is allowed";
  };
  if (failed(positive("heads", getHeads())) ||
      failed(positive("kv_heads", getKvHeads())) ||
      failed(positive("qk_dim", getQkDim())) ||
      failed(positive("value_dim", getValueDim())))
    return failure();
  if (auto map = getKvMap()) {
    if (map->size() != getHeads())
      return emitOpError() << "kv_map has " << map->size() << " entries; "
                           << getHeads() << " (heads) are needed";
    for (int64_t kvHead : *map)
      if (kvHead < 0 || kvHead >= int64_t(getKvHeads()))
        return emitOpError() << "kv_map names kv head " << kvHead << "; 0 to "
                             << getKvHeads() - 1 << " are allowed";
  }
  if (auto dilation = getDilation()) {
    if (dilation->size() != getHeads())
      return emitOpError() << "dilation has " << dilation->size()
                           << " entries; " << getHeads()
                           << " (heads) are needed";
    for (int64_t d : *dilation)
      if (d < 1)
        return emitOpError()
               << "dilation is " << d << "; at least 1 is allowed";
  }
  if (!std::isfinite(getScale().convertToDouble()))
    return emitOpError("scale must be finite");
  return success();
}

Plan toPlan(PlanAttr a) {
  Plan plan;
  plan.rows = a.getRows();
  plan.keys = a.getKeys();
  plan.heads = a.getHeads();
  plan.scoreKeys = a.getScoreKeys();
  plan.scoreVectors = a.getScoreVectors();
  plan.valueRows = a.getValueRows();
  plan.valueVectors = a.getValueVectors();
  plan.unroll = a.getUnroll();
  plan.split = a.getSplit();
  return plan;
}

LogicalResult AttentionOp::verifyRegions() {
  if (failed(verifySink(getOperation(), getSink())))
    return failure();
  return attn::verifyRegions(getOperation(), getScore(), getMask());
}

SmallVector<AttentionOp::Group> AttentionOp::groups() {
  SmallVector<Group> result;
  auto map = getKvMap();
  for (int64_t head = 0, heads = getHeads(); head < heads; ++head) {
    int64_t kvHead = map ? (*map)[head] : head * int64_t(getKvHeads()) / heads;
    int64_t dilation = getDilation() ? (*getDilation())[head] : 1;
    if (!result.empty() && result.back().kvHead == kvHead &&
        result.back().dilation == dilation)
      ++result.back().heads;
    else
      result.push_back({head, 1, kvHead, dilation});
  }
  return result;
}

//===----------------------------------------------------------------------===//
// The tile program
//===----------------------------------------------------------------------===//

static LogicalResult expectShape(Operation *op, StringRef what, TileType tile,
                                 int64_t rows, int64_t cols) {
  if (tile.getRows() == rows && tile.getCols() == cols)
    return success();
  return op->emitOpError() << what << " is " << tile << "; " << rows << "x"
                           << cols << " is needed";
}

static LogicalResult verifyClass(Operation *op, OperandRange residue) {
  if (residue.empty() || residue.size() == 2)
    return success();
  return op->emitOpError() << "class has " << residue.size()
                           << " values; two, [first, step], are needed";
}

LogicalResult LoadRowsOp::verify() { return verifyClass(*this, getResidue()); }
LogicalResult StoreRowsOp::verify() { return verifyClass(*this, getResidue()); }

LogicalResult PickOp::verify() {
  if (getOutside().empty() || getOutside().size() == 3)
    return success();
  return emitOpError() << "outside has " << getOutside().size()
                       << " values; three, [from, to, step], are needed";
}

LogicalResult ItemOp::verify() {
  const bool splits = getSplitKeys().has_value();
  if (splits != bool(getSplit()) || splits != bool(getOfSplit()))
    return emitOpError("has splits_of and split with each other or not at all");
  if (splits && *getSplitKeys() < 1)
    return emitOpError() << "splits_of is " << int64_t(*getSplitKeys())
                         << "; at least 1 is allowed";
  return success();
}

LogicalResult SinkOp::verify() { return verifySink(*this, getLogit()); }

LogicalResult ScoresOp::verify() {
  TileType q = getQ().getType(), k = getK().getType();
  if (q.getCols() != k.getCols())
    return emitOpError() << "rows of " << q.getCols() << " and of "
                         << k.getCols() << " elements have no dot product";
  if (failed(expectShape(*this, "the result", getScores().getType(),
                         q.getRows(), k.getRows())))
    return failure();
  return attn::verifyRegions(getOperation(), getScore(), getMask());
}

LogicalResult SoftmaxOp::verify() {
  TileType scores = getScores().getType();
  int64_t rows = scores.getRows();
  if (getWeights().getType() != scores)
    return emitOpError("weights and scores differ in type");
  for (auto [what, value] : {std::pair<StringRef, Value>{"max", getMax()},
                             {"sum", getSum()},
                             {"new_max", getNewMax()},
                             {"new_sum", getNewSum()},
                             {"decay", getDecay()}})
    if (failed(
            expectShape(*this, what, cast<TileType>(value.getType()), rows, 1)))
      return failure();
  return success();
}

LogicalResult AccumulateOp::verify() {
  TileType acc = getAcc().getType(), weights = getWeights().getType();
  if (getResult().getType() != acc)
    return emitOpError("acc and the result differ in type");
  if (failed(expectShape(*this, "weights", weights, acc.getRows(),
                         getValues().getType().getRows())) ||
      failed(expectShape(*this, "values", getValues().getType(),
                         weights.getCols(), acc.getCols())))
    return failure();
  return expectShape(*this, "decay", getDecay().getType(), acc.getRows(), 1);
}

static LogicalResult verifyState(Operation *op, TileType max, TileType sum,
                                 TileType acc) {
  if (failed(expectShape(op, "max", max, acc.getRows(), 1)))
    return failure();
  return expectShape(op, "sum", sum, acc.getRows(), 1);
}

LogicalResult StoreStateOp::verify() {
  return verifyState(*this, getMax().getType(), getSum().getType(),
                     getAcc().getType());
}

LogicalResult LoadStateOp::verify() {
  return verifyState(*this, getMax().getType(), getSum().getType(),
                     getAcc().getType());
}

LogicalResult CombineOp::verify() {
  for (auto [what, own, other, combined] :
       {std::tuple<StringRef, Value, Value, Value>{"max", getMax(),
                                                   getOtherMax(), getNewMax()},
        {"sum", getSum(), getOtherSum(), getNewSum()},
        {"acc", getAcc(), getOtherAcc(), getNewAcc()}})
    if (own.getType() != other.getType() || own.getType() != combined.getType())
      return emitOpError() << what << " differs in type between the states";
  return verifyState(*this, getMax().getType(), getSum().getType(),
                     getAcc().getType());
}

} // namespace attn

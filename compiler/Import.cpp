//===- compiler/Import.cpp - From a Spec to attn.attention ----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Importer.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;

namespace attn {

Location toLocation(MLIRContext &context, SourceRange where) {
  if (where.line == 0)
    return UnknownLoc::get(&context);
  return FileLineColRange::get(StringAttr::get(&context, "text"), where.line,
                               where.column, where.line,
                               where.column + where.length);
}

SourceRange toSourceRange(Location loc) {
  if (auto range = dyn_cast<FileLineColRange>(loc))
    return {range.getStartLine(), range.getStartColumn(),
            range.getEndColumn() > range.getStartColumn()
                ? range.getEndColumn() - range.getStartColumn()
                : 1};
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (SourceRange where = toSourceRange(part); where.line)
        return where;
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return toSourceRange(call.getCallee());
  if (auto named = dyn_cast<NameLoc>(loc))
    return toSourceRange(named.getChildLoc());
  return {};
}

void Importer::refuseWhatIsNotLowered() {
  for (const Param &p : spec.params)
    if (p.dims.size() > ATTN_MAX_DIMS)
      refuse(p.where,
             "parameter '" + p.name + "' has " + std::to_string(p.dims.size()) +
                 " dimensions",
             "up to " + std::to_string(ATTN_MAX_DIMS) + " are lowered");
  auto field = [&](const char *name, bool used, const char *allowed) {
    if (used)
      refuse(spec.placeOf(name),
             std::string("'") + name + "' is not lowered yet", allowed);
  };
  field("rope", spec.rope.has_value(), "variants without rope are");
  field("latent", spec.latent != 0, "variants without latent are");
  for (auto [what, type] : {std::pair<const char *, Type>{"q", spec.qType},
                            {"kv", spec.kvType},
                            {"out", spec.outType}})
    if (type != Type::F32 && type != Type::F16 && type != Type::BF16) {
      refuse(spec.placeOf("type"),
             std::string("type ") + name(type) + " of " + what +
                 " is not lowered yet",
             "f32, f16 and bf16 are");
      break;
    }
}

static bool readsParams(const Spec &spec, const ExprRef &e) {
  return (e->kind == ExprKind::Name && spec.findParam(e->name)) ||
         llvm::any_of(e->args, [&](const ExprRef &arg) {
           return readsParams(spec, arg);
         });
}

FloatAttr Importer::scale() {
  double value = 1 / std::sqrt(static_cast<double>(spec.qkDim));
  if (spec.scale) {
    auto given = evaluateConstant(spec, spec.scale);
    if (!given && readsParams(spec, spec.scale)) {
      scaledByCall = true;
      return b.getF64FloatAttr(1);
    }
    if (!given || !std::isfinite(static_cast<float>(*given))) {
      refuse(spec.scale->where,
             given ? "scale is not a finite f32" : "scale is not a constant",
             "a finite constant is allowed");
      return {};
    }
    value = *given;
  }
  return b.getF64FloatAttr(value);
}

void Importer::importRegion(Region &target, const ExprRef &e, Part part) {
  OpBuilder::InsertionGuard guard(b);
  block = b.createBlock(&target);
  const bool isScore = part == Part::Score;
  first = isScore;
  score = isScore ? block->addArgument(b.getF32Type(), b.getLoc()) : Value();
  for (unsigned i = 0; i < kMaskArgs; ++i)
    block->addArgument(b.getI32Type(), b.getLoc());
  b.setInsertionPointToStart(block);
  if (isScore && scaledByCall) {
    Value scale = expr(spec.scale);
    if (!scale)
      return;
    score = fold<arith::MulFOp>(toFloat(scale), score);
  }
  Value value = e ? expr(e) : score;
  if (!value)
    return;
  if (e)
    b.setLoc(toLocation(context, e->where));
  YieldOp::create(b, part == Part::Mask ? value : toFloat(value));
}

void Importer::importMask(Region &target) {
  importRegion(target, spec.mask, Part::Mask);
  // A mask that is always true is no mask.
  if (block->mightHaveTerminator() &&
      matchPattern(block->getTerminator()->getOperand(0), m_One()))
    target.getBlocks().clear();
}

/// Integers that are added to or multiplied must not leave 32 bits; those that
/// are compared as they are may be anything.
static bool isComputedWith(ParamOp op) {
  return llvm::any_of(op->getUsers(), [](Operation *user) {
    return !isa<arith::CmpIOp, arith::SIToFPOp, ParamOp>(user);
  });
}

ArrayAttr Importer::parameters(AttentionOp op) {
  op.walk([&](ParamOp param) {
    if (param.getType().isInteger(32) && isComputedWith(param))
      paramFlags[param.getNumber()] |= ATTN_PARAM_BOUNDED;
  });
  SmallVector<Attribute> result;
  for (auto [param, flags] : llvm::zip(spec.params, paramFlags))
    result.push_back(ParameterAttr::get(&context, param.name,
                                        storedType(param.type), flags));
  return b.getArrayAttr(result);
}

mlir::Type Importer::storedType(Type type) {
  switch (type) {
  case Type::I32:
    return b.getI32Type();
  case Type::F16:
    return b.getF16Type();
  case Type::BF16:
    return b.getBF16Type();
  case Type::Bool:
  case Type::Tokens:
    return b.getI1Type();
  default:
    return b.getF32Type();
  }
}

OwningOpRef<ModuleOp> Importer::run() {
  refuseWhatIsNotLowered();
  paramFlags.assign(spec.params.size(), 0);
  FloatAttr scaleAttr = scale();
  dilation = findDilation(spec);
  OwningOpRef<ModuleOp> module(ModuleOp::create(b.getLoc()));
  b.setInsertionPointToEnd(module->getBody());
  b.setLoc(toLocation(context, spec.where));
  auto stored = [&](Type type) { return TypeAttr::get(storedType(type)); };
  auto op = AttentionOp::create(
      b, b.getStringAttr(spec.name), b.getI64IntegerAttr(spec.heads),
      b.getI64IntegerAttr(spec.kvHeads),
      spec.kvMap.empty() ? DenseI64ArrayAttr()
                         : b.getDenseI64ArrayAttr(spec.kvMap),
      dilation ? b.getDenseI64ArrayAttr(dilation->ofHead) : DenseI64ArrayAttr(),
      b.getI64IntegerAttr(spec.qkDim), b.getI64IntegerAttr(spec.valueDim),
      stored(spec.qType), stored(spec.kvType), stored(spec.outType),
      scaleAttr ? scaleAttr : b.getF64FloatAttr(1),
      AlignmentAttr::get(&context, spec.align == Align::TopLeft
                                       ? Alignment::TopLeft
                                       : Alignment::BottomRight),
      ArrayAttr(), PlanAttr());
  // `score = s` is no score expression.
  bool plain = !spec.score ||
               (spec.score->kind == ExprKind::Name && spec.score->name == "s");
  if (!plain || scaledByCall)
    importRegion(op.getScore(), plain ? ExprRef() : spec.score, Part::Score);
  if (spec.sink)
    importRegion(op.getSink(), spec.sink, Part::Sink);
  if (spec.mask)
    importMask(op.getMask());
  if (!spec.params.empty())
    op.setParamsAttr(parameters(op));
  if (!diagnostics.empty())
    return nullptr;
  return module;
}

OwningOpRef<ModuleOp> importSpec(MLIRContext &context, const Spec &spec,
                                 std::vector<Diagnostic> &diagnostics) {
  context.loadDialect<AttnDialect, arith::ArithDialect, math::MathDialect>();
  std::vector<Diagnostic> own;
  auto module = Importer(context, spec, own).run();
  diagnostics.insert(diagnostics.end(), own.begin(), own.end());
  return module;
}

} // namespace attn

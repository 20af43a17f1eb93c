//===- compiler/Importer.h - From a Spec to attn.attention, the parts -----===//
//
// Part of attnc. Apache-2.0.
//
// Internal to the import: Import.cpp makes the op and its regions,
// ImportExpr.cpp writes expressions into them, ImportCalls.cpp the language's
// functions and built-in masks.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_IMPORTER_H
#define ATTNC_COMPILER_IMPORTER_H

#include "compiler/Dilation.h"
#include "compiler/Import.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "runtime/attn_abi.h"

namespace attn {

using mlir::ArrayRef, mlir::Block, mlir::FloatAttr, mlir::ImplicitLocOpBuilder,
    mlir::MLIRContext, mlir::ModuleOp, mlir::OwningOpRef, mlir::Region,
    mlir::SmallVector, mlir::StringRef, mlir::Value, mlir::matchPattern;
namespace arith = mlir::arith;

class Importer {
public:
  Importer(MLIRContext &context, const Spec &spec,
           std::vector<Diagnostic> &diagnostics)
      : context(context), spec(spec), diagnostics(diagnostics),
        b(mlir::UnknownLoc::get(&context), &context) {}

  OwningOpRef<ModuleOp> run();

private:
  void refuse(SourceRange where, std::string message, std::string hint) {
    diagnostics.push_back({where, std::move(message), std::move(hint)});
  }
  void refuseWhatIsNotLowered();
  FloatAttr scale();
  /// Writes an expression into a region over the coordinates of a pair.
  enum class Part { Score, Sink, Mask };
  void importRegion(Region &target, const ExprRef &e, Part part);
  void importMask(Region &target);
  /// The parameters, with what their uses rely on.
  mlir::ArrayAttr parameters(AttentionOp op);

  Value variable(StringRef name);
  Value expr(const ExprRef &e);
  /// Of an element in memory.
  mlir::Type storedType(Type type);
  Value indexed(const Expr &e);
  Value listElement(const Expr &e, const Let &let);
  /// An element of a parameter; `at` are its indices as in the text.
  Value param(const Expr &e, const Param &param, ArrayRef<Value> at);
  Value member(const Expr &e, StringRef position);
  /// Notes what a built-in relies on where its argument is a parameter.
  void rely(Value argument, int32_t flag);
  /// Whether an integer can be divided by: never 0 when a kernel runs.
  bool isDivisor(const ExprRef &e);
  Value choose(Value at, ArrayRef<Value> values);
  Value congruent(const Expr &e, Value step);
  Value steps(Value l, Value d);
  Value neighborhood(const Expr &e, ArrayRef<Value> args);
  Value alibiSlope(Value head);
  Value floatFunction(StringRef name, ArrayRef<Value> args);
  Value call(const Expr &e);
  Value binary(const Expr &e);
  Value failed(const Expr &e, std::string message, std::string hint) {
    refuse(e.where, std::move(message), std::move(hint));
    return {};
  }

  Value constant(int64_t value) {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
  }
  template <typename OpTy, typename... Args> Value fold(Args &&...args) {
    return b.createOrFold<OpTy>(std::forward<Args>(args)...);
  }
  /// A position plus or minus a constant must stay within 32 bits.
  Value bounded(const Expr &e, Value v) {
    llvm::APInt known;
    if (v && v.getType().isInteger(32) &&
        matchPattern(v, mlir::m_ConstantInt(&known)) &&
        known.abs().ugt(ATTN_MAX_TOKENS))
      return failed(e,
                    "constant " + std::to_string(known.getSExtValue()) +
                        " is not lowered in a mask",
                    "magnitudes up to " + std::to_string(ATTN_MAX_TOKENS) +
                        ", the longest sequence, are");
    return v;
  }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return fold<arith::CmpIOp>(predicate, x, y);
  }
  Value toFloat(Value v) {
    return v.getType().isF32() ? v : fold<arith::SIToFPOp>(b.getF32Type(), v);
  }
  /// The value of an integer that is known here, if it is.
  std::optional<int64_t> known(const ExprRef &e) {
    if (auto value = evaluateConstant(spec, e))
      return static_cast<int64_t>(*value);
    return std::nullopt;
  }

  MLIRContext &context;
  const Spec &spec;
  std::vector<Diagnostic> &diagnostics;
  ImplicitLocOpBuilder b;
  Block *block = nullptr; ///< of the region being written
  unsigned first = 0;     ///< its first integer argument
  Value score;            ///< what `s` stands for, in the score's region
  /// A scale that the call decides on; then the op's is 1.
  bool scaledByCall = false;
  std::vector<int32_t> paramFlags; ///< of attn_param_flag, by parameter
  /// The condition that the op's `dilation` stands for.
  std::optional<Dilation> dilation;
  bool isDilation(const Expr &e) const {
    return dilation && dilation->condition == &e;
  }
};

} // namespace attn

#endif

//===- targets/common/Emitter.h - Short names for building loops
//-------------===//
//
// Part of attnc. Apache-2.0.
//
// Integers are i64, memory is `!llvm.ptr` with 64-bit offsets in elements,
// vectors are one register wide. Elements are f32 unless a type is given with
// them: memory may hold f16 and bf16, values never do (Storage.cpp).
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_COMMON_EMITTER_H
#define ATTNC_TARGETS_COMMON_EMITTER_H

#include "compiler/Target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace attn {

using mlir::Value;
using mlir::ValueRange;
using Values = llvm::SmallVector<Value>;

/// How memory is known to be aligned: to one element, or to a vector.
enum class Aligned { Element, Vector };

/// A matrix in memory; strides and offsets count elements.
struct Matrix {
  Value base, rowStride, columnStride;
  mlir::Type element;
};

class Emitter {
public:
  /// `ptr` is a pointer of address space `space`.
  Emitter(mlir::Location loc, mlir::OpBuilder builder, const TargetInfo &target,
          unsigned space = 0);

  mlir::ImplicitLocOpBuilder b;
  const TargetInfo &target;
  const int64_t lanes;
  mlir::Type i64, i32, i1, f32, ptr;
  mlir::VectorType vf, vi, vm; ///< f32, i32 and i1, one register of lanes

  // Scalars.
  Value c(int64_t value);
  Value add(Value x, Value y);
  Value add(Value x, int64_t y) { return add(x, c(y)); }
  Value sub(Value x, Value y);
  Value mul(Value x, Value y);
  Value mul(Value x, int64_t y) { return mul(x, c(y)); }
  Value div(Value x, Value y); ///< of non-negative numbers
  Value rem(Value x, Value y); ///< of non-negative numbers
  Value min(Value x, Value y);
  Value max(Value x, Value y);
  Value roundUp(Value x, int64_t multiple);
  Value less(Value x, Value y);
  Value equal(Value x, Value y);
  Value select(Value condition, Value x, Value y);

  // Floats.
  Value f(float value);
  Value splat(float value);
  /// One element of a vector in all lanes.
  Value broadcastElement(Value vector, int64_t element);
  Value broadcast(Value scalar); ///< f32, i32 or i1 to a vector
  Value fma(Value x, Value y, Value z);
  /// The larger; `x` where the other is NaN (as one maximum instruction).
  Value maxIgnoringNan(Value x, Value other);

  // Memory.
  Value at(Value base, Value offset, mlir::Type element = {});
  Value at(Value base, int64_t offset, mlir::Type element = {});
  Value loadScalar(Value from, mlir::Type element = {});
  void storeScalar(Value value, Value to, mlir::Type element = {});
  Value load(Value from, Aligned aligned, mlir::Type element = {});
  void store(Value value, Value to, Aligned aligned, mlir::Type element = {});
  /// Asks for the lines of `columns` elements from `from` on, to be read soon.
  /// Never faults.
  void prefetch(Value from, int64_t columns, mlir::Type element);

  // Storage.
  /// What an f16 or bf16 is read as and written as: its bits, i16. Any other
  /// type is itself.
  mlir::Type rawType(mlir::Type element);
  /// The bits of f16 or bf16, one or a vector, as f32: exact; NaN stays NaN.
  Value widened(Value raw, mlir::Type element);
  /// The bits of an f32, or a vector of them, as f16 or bf16: to nearest even,
  /// beyond the largest infinite, subnormal where small; NaN stays NaN.
  Value narrowed(Value x, mlir::Type element);

  // Control.
  using Body = llvm::function_ref<void(Value)>;
  using CarriedBody = llvm::function_ref<Values(Value, ValueRange)>;
  void loop(Value from, Value to, int64_t step, Body body);
  Values loop(Value from, Value to, int64_t step, ValueRange init,
              CarriedBody body);
  /// As `loop` with step 1, `unroll` steps written out in a first loop.
  Values unrolled(Value from, Value to, int64_t unroll, ValueRange init,
                  CarriedBody body);
  void branch(Value condition, llvm::function_ref<void()> then,
              llvm::function_ref<void()> otherwise = {});

  /// Copies `rows` rows of `columns` elements, converted where types differ.
  void copyRows(Value rows, Value columns, const Matrix &from,
                const Matrix &to);

private:
  Value loadRaw(Value from, mlir::Type type, Aligned aligned);
  void storeRaw(Value value, Value to, Aligned aligned);
  Value halfAsFloat(Value bits);
  Value floatAsHalf(Value x);
};

} // namespace attn

#endif

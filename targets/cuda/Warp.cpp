//===- targets/cuda/Warp.cpp - Instructions of a warp ---------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "targets/cuda/FragmentLowering.h"

using namespace mlir;

namespace attn {

Value FragmentLowering::intrinsic(StringRef name, Type result,
                                  ValueRange args) {
  auto call =
      result
          ? LLVM::CallIntrinsicOp::create(e.b, result, e.b.getStringAttr(name),
                                          args)
          : LLVM::CallIntrinsicOp::create(e.b, e.b.getStringAttr(name), args);
  return result ? call.getResult(0) : Value();
}

void FragmentLowering::barrier() {
  intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", {}, {i32(0)});
}

void FragmentLowering::commitCopies() {
  intrinsic("llvm.nvvm.cp.async.commit.group", {}, {});
}

void FragmentLowering::waitForCopies(int groups) {
  intrinsic("llvm.nvvm.cp.async.wait.group", {}, {i32(groups)});
}

Value FragmentLowering::fromNeighbour(Value x, int bits) {
  return intrinsic("llvm.nvvm.shfl.sync.bfly.f32", e.f32,
                   {i32(-1), x, i32(bits), i32(31)});
}

Value FragmentLowering::exp2(Value x) {
  return intrinsic("llvm.nvvm.ex2.approx.ftz.f32", e.f32, {x});
}

Value FragmentLowering::larger(Value x, Value y) {
  return LLVM::MaxNumOp::create(e.b, x, y);
}

Value FragmentLowering::packed(Value low, Value high, Type half) {
  auto pair = VectorType::get({2}, half);
  Value halves = intrinsic(half.isBF16() ? "llvm.nvvm.ff2bf16x2.rn"
                                         : "llvm.nvvm.ff2f16x2.rn",
                           pair, {high, low});
  return LLVM::BitcastOp::create(e.b, e.i32, halves);
}

Values FragmentLowering::matrices(Value address, bool transposed) {
  auto four = LLVM::LLVMStructType::getLiteral(e.b.getContext(),
                                               SmallVector<Type>(4, e.i32));
  Value all =
      intrinsic(transposed ? "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16"
                           : "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16",
                four, {address});
  Values result;
  for (int64_t i = 0; i < 4; ++i)
    result.push_back(LLVM::ExtractValueOp::create(e.b, all, i));
  return result;
}

Values FragmentLowering::multiply(Type half, ValueRange a, Value b0, Value b1,
                                  ValueRange c) {
  Values args;
  auto operand = [&](Value word) {
    args.push_back(half.isBF16() ? word
                                 : LLVM::BitcastOp::create(
                                       e.b, VectorType::get({2}, half), word));
  };
  for (Value word : a)
    operand(word);
  operand(b0), operand(b1);
  args.append(c.begin(), c.end());
  auto four = LLVM::LLVMStructType::getLiteral(e.b.getContext(),
                                               SmallVector<Type>(4, e.f32));
  Value all =
      intrinsic(half.isBF16() ? "llvm.nvvm.mma.m16n8k16.row.col.bf16"
                              : "llvm.nvvm.mma.m16n8k16.row.col.f32.f32",
                four, args);
  Values result;
  for (int64_t i = 0; i < 4; ++i)
    result.push_back(LLVM::ExtractValueOp::create(e.b, all, i));
  return result;
}

Value FragmentLowering::i32(int64_t value) {
  return arith::ConstantOp::create(
      e.b, e.b.getI32IntegerAttr(static_cast<int32_t>(value)));
}
Value FragmentLowering::addI(Value x, Value y) {
  return e.b.createOrFold<arith::AddIOp>(x, y);
}
Value FragmentLowering::mulI(Value x, int64_t y) {
  return e.b.createOrFold<arith::MulIOp>(x, i32(y));
}
Value FragmentLowering::andI(Value x, int64_t y) {
  return e.b.createOrFold<arith::AndIOp>(x, i32(y));
}
Value FragmentLowering::shiftRight(Value x, int64_t by) {
  return e.b.createOrFold<arith::ShRUIOp>(x, i32(by));
}
Value FragmentLowering::addF(Value x, Value y) {
  return arith::AddFOp::create(e.b, x, y);
}
Value FragmentLowering::mulF(Value x, Value y) {
  return arith::MulFOp::create(e.b, x, y);
}
Value FragmentLowering::fmaF(Value x, Value y, Value z) {
  return LLVM::FMAOp::create(e.b, x, y, z);
}
Value FragmentLowering::both(Value x, Value y) {
  return e.b.createOrFold<arith::AndIOp>(x, y);
}

} // namespace attn

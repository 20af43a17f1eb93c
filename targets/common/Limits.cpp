//===- targets/common/Limits.cpp - What a variant may be made of
//-----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "targets/common/Limits.h"

using namespace mlir;

namespace attn {

LogicalResult checkTensors(AttentionOp op, const std::string &target,
                           int64_t widest) {
  LogicalResult result = success();
  auto stored = [&](const char *what, Type type) {
    if (type.isF32() || type.isF16() || type.isBF16())
      return;
    op.emitError() << "type " << type << " of " << what
                   << " is not lowered for " << target
                   << "; f32, f16 and bf16 are";
    result = failure();
  };
  stored("q", op.getQType());
  stored("kv", op.getKvType());
  stored("out", op.getOutType());
  auto width = [&](const char *what, int64_t value) {
    if (value <= widest)
      return;
    op.emitError() << what << " is " << value << "; 1 to " << widest
                   << " are lowered for " << target;
    result = failure();
  };
  width("head_dim (qk)", op.getQkDim());
  width("head_dim (value)", op.getValueDim());
  return result;
}

} // namespace attn

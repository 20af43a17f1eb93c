//===- targets/common/Limits.h - What a variant may be made of -----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TARGETS_COMMON_LIMITS_H
#define ATTNC_TARGETS_COMMON_LIMITS_H

#include "compiler/AttnDialect.h"
#include <string>

namespace attn {

/// Emits an error at the variant for each tensor of another type than f32, f16
/// or bf16, and for each width above `widest`; `target` is who refuses.
mlir::LogicalResult checkTensors(AttentionOp op, const std::string &target,
                                 int64_t widest);

} // namespace attn

#endif

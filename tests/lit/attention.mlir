// A variant and its plan print as they are read.
// RUN: attnc-opt %s > %t.1
// RUN: attnc-opt %t.1 | diff %t.1 -
// RUN: attnc-opt --mlir-print-op-generic %s | attnc-opt | diff %t.1 -
// RUN: FileCheck %s < %t.1

// An empty mask region: every key counts.
// CHECK-LABEL: attn.attention @plain
// CHECK-SAME: align = #attn.align<bottom_right>
// CHECK-SAME: heads = 4 : i64
// CHECK-SAME: kv_heads = 2 : i64
// CHECK-SAME: scale = 1.250000e-01 : f64
// CHECK-SAME: mask {
// CHECK-NEXT: }
attn.attention @plain attributes {
  align = #attn.align<bottom_right>, heads = 4 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32,
  qk_dim = 64 : i64, value_dim = 64 : i64, scale = 0.125 : f64} mask {
}

// CHECK-LABEL: attn.attention @everything
// CHECK-SAME: align = #attn.align<top_left>
// CHECK-SAME: kv_map = array<i64: 1, 0, 1>
// CHECK-SAME: kv_type = bf16, out_type = f32
// CHECK-SAME: plan = #attn.plan<rows = 48, keys = 24, heads = 1, score_keys = 6, score_vectors = 2, value_rows = 6, value_vectors = 2, unroll = 4>
// CHECK-SAME: q_type = f16, qk_dim = 192 : i64
// CHECK-SAME: value_dim = 128 : i64
// CHECK-SAME: mask {
// CHECK-NEXT: ^bb0(%[[B:.*]]: i32, %[[H:.*]]: i32, %[[G:.*]]: i32, %[[Q:.*]]: i32, %[[K:.*]]: i32, %[[QLEN:.*]]: i32, %[[KVLEN:.*]]: i32):
// CHECK-NEXT: %[[C:.*]] = arith.cmpi sle, %[[K]], %[[Q]] : i32
// CHECK-NEXT: attn.yield %[[C]] : i1
attn.attention @everything attributes {
  align = #attn.align<top_left>, heads = 3 : i64, kv_heads = 2 : i64,
  kv_map = array<i64: 1, 0, 1>,
  q_type = f16, kv_type = bf16, out_type = f32,
  qk_dim = 192 : i64, value_dim = 128 : i64, scale = -1.0 : f64,
  plan = #attn.plan<rows = 48, keys = 24, heads = 1, score_keys = 6,
    score_vectors = 2, value_rows = 6, value_vectors = 2, unroll = 4>} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %q_len: i32, %kv_len: i32):
  %c = arith.cmpi sle, %k, %q : i32
  attn.yield %c : i1
}

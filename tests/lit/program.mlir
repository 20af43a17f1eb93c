// A tile program prints as it is read, every op of it.
// RUN: attnc-opt %s > %t.1
// RUN: attnc-opt %t.1 | diff %t.1 -
// RUN: attnc-opt --mlir-print-op-generic %s | attnc-opt | diff %t.1 -
// RUN: FileCheck %s < %t.1

// CHECK: attn.kernel @program attributes {item_groups = 3 : i64, item_heads = 2 : i64, plan = #attn.plan<rows = 48,
// CHECK-NEXT: ^bb0(%[[ITEM:.*]]: index):
// CHECK-NEXT: %[[B:.*]], %[[G:.*]], %[[ROW:.*]] = attn.item %[[ITEM]] groups 3 heads 2 rows 48
// CHECK-NEXT: %[[HEAD:.*]] = attn.table [0, 2, 5][%[[G]]]
// CHECK-NEXT: %[[QLEN:.*]] = attn.length {{.*}}q[%[[B]]]
// CHECK-NEXT: %[[KLEN:.*]] = attn.length {{.*}}k[%[[B]]]
// CHECK: %[[QO:.*]] = attn.operand {{.*}}q : !attn.tensor<f32>
// CHECK-NEXT: %[[KO:.*]] = attn.operand {{.*}}k : !attn.tensor<f16>
// CHECK-NEXT: %[[VO:.*]] = attn.operand {{.*}}v : !attn.tensor<bf16>
// CHECK-NEXT: %[[OO:.*]] = attn.operand {{.*}}o : !attn.tensor<f32>
// CHECK-NEXT: %[[MAX:.*]] = attn.fill 0xFF800000 : !attn.tile<48x1xf32>
// CHECK-NEXT: %[[SUM:.*]] = attn.fill 0.000000e+00 : !attn.tile<48x1xf32>
// CHECK-NEXT: %[[ACC:.*]] = attn.fill 0.000000e+00 : !attn.tile<48x80xf32>
// CHECK-NEXT: %[[Q:.*]] = attn.load_rows %[[QO]][%[[B]], %[[HEAD]], %[[ROW]]] count %[[N:.*]] heads %[[HEADS:.*]] scale 1.000000e-01 : !attn.tensor<f32> -> !attn.tile<48x64xf32>
// CHECK-NEXT: %[[K:.*]] = attn.load_keys %[[KO]][%[[B]], %[[G]], %[[KEY:.*]]] count %[[N]] : !attn.tensor<f16> -> !attn.tile<24x64xf16>
// CHECK-NEXT: %[[V:.*]] = attn.load_keys %[[VO]][%[[B]], %[[G]], %[[KEY]]] count %[[N]] : !attn.tensor<bf16> -> !attn.tile<24x80xbf16>
// CHECK-NEXT: %[[S:.*]] = attn.scores %[[Q]], %[[K]] batch %[[B]] group %[[G]] rows_at[%[[ROW]], %[[N]], %[[HEADS]], %[[HEAD]], %[[SHIFT:.*]]] keys_at[%[[KEY]], %[[N]]] lengths[%[[QLEN]], %[[KLEN]]] : !attn.tile<48x64xf32>, !attn.tile<24x64xf16> -> !attn.tile<48x24xf32> mask {
// CHECK-NEXT: ^bb0(
// CHECK: attn.yield %{{.*}} : i1
// CHECK-NEXT: }
// CHECK-NEXT: %[[W:.*]], %[[MAX1:.*]], %[[SUM1:.*]], %[[DECAY:.*]] = attn.softmax %[[S]], %[[MAX]], %[[SUM]] :
// CHECK-NEXT: %[[ACC1:.*]] = attn.accumulate %[[ACC]], %[[DECAY]], %[[W]], %[[V]] :
// CHECK-NEXT: %[[OUT:.*]], %[[LSE:.*]] = attn.finish %[[ACC1]], %[[MAX1]], %[[SUM1]] :
// CHECK-NEXT: attn.store_rows %[[OUT]], %[[LSE]], %[[OO]][%[[B]], %[[HEAD]], %[[ROW]]] count %[[N]] heads %[[HEADS]] : !attn.tile<48x80xf32>, !attn.tile<48x1xf32>, !attn.tensor<f32>
attn.kernel @program attributes {item_groups = 3 : i64, item_heads = 2 : i64,
    plan = #attn.plan<rows = 48, keys = 24, heads = 2, score_keys = 6,
      score_vectors = 2, value_rows = 6, value_vectors = 2, unroll = 4>} {
^bb0(%item: index):
  %b, %g, %row = attn.item %item groups 3 heads 2 rows 48
  %head = attn.table [0, 2, 5][%g]
  %q_len = attn.length q[%b]
  %kv_len = attn.length k[%b]
  %n = arith.constant 24 : index
  %heads = arith.constant 2 : index
  %shift = arith.subi %kv_len, %q_len : index
  %key = arith.constant 0 : index
  %qo = attn.operand q : !attn.tensor<f32>
  %ko = attn.operand k : !attn.tensor<f16>
  %vo = attn.operand v : !attn.tensor<bf16>
  %oo = attn.operand o : !attn.tensor<f32>
  %max = attn.fill 0xFF800000 : !attn.tile<48x1xf32>
  %sum = attn.fill 0.0 : !attn.tile<48x1xf32>
  %acc = attn.fill 0.0 : !attn.tile<48x80xf32>
  %q = attn.load_rows %qo[%b, %head, %row] count %n heads %heads scale 0.1
    : !attn.tensor<f32> -> !attn.tile<48x64xf32>
  %k = attn.load_keys %ko[%b, %g, %key] count %n
    : !attn.tensor<f16> -> !attn.tile<24x64xf16>
  %v = attn.load_keys %vo[%b, %g, %key] count %n
    : !attn.tensor<bf16> -> !attn.tile<24x80xbf16>
  %s = attn.scores %q, %k batch %b group %g
    rows_at[%row, %n, %heads, %head, %shift] keys_at[%key, %n]
    lengths[%q_len, %kv_len]
    : !attn.tile<48x64xf32>, !attn.tile<24x64xf16> -> !attn.tile<48x24xf32>
    mask {
  ^bb0(%mb: i32, %mh: i32, %mg: i32, %mq: i32, %mk: i32, %ml: i32, %mn: i32):
    %c = arith.cmpi sle, %mk, %mq : i32
    attn.yield %c : i1
  }
  %w, %max1, %sum1, %decay = attn.softmax %s, %max, %sum
    : !attn.tile<48x24xf32>, !attn.tile<48x1xf32>, !attn.tile<48x1xf32>
    -> !attn.tile<48x24xf32>, !attn.tile<48x1xf32>, !attn.tile<48x1xf32>,
       !attn.tile<48x1xf32>
  %acc1 = attn.accumulate %acc, %decay, %w, %v
    : !attn.tile<48x80xf32>, !attn.tile<48x1xf32>, !attn.tile<48x24xf32>,
      !attn.tile<24x80xbf16> -> !attn.tile<48x80xf32>
  %out, %lse = attn.finish %acc1, %max1, %sum1
    : !attn.tile<48x80xf32>, !attn.tile<48x1xf32>, !attn.tile<48x1xf32>
    -> !attn.tile<48x80xf32>, !attn.tile<48x1xf32>
  attn.store_rows %out, %lse, %oo[%b, %head, %row] count %n heads %heads
    : !attn.tile<48x80xf32>, !attn.tile<48x1xf32>, !attn.tensor<f32>
}

// The tile programs of a few masks and groupings: which bodies the loop has,
// where it begins and ends, and where heads come from.
// RUN: attnc-opt --attn-plan=target=x86-avx2 --attn-tile %s | FileCheck %s

// Without a mask every tile of keys is the same: one body, no branch around it.
// CHECK-LABEL: attn.kernel @all attributes {item_groups = 2 : i64, item_heads = 1 : i64,
// CHECK: %[[B:.*]], %[[G:.*]], %[[ROW:.*]] = attn.item %{{.*}} groups 2 heads 1 rows 96
// CHECK: attn.length {{.*}}q[%[[B]]]
// CHECK: %[[N:.*]] = attn.length {{.*}}k[%[[B]]]
// CHECK: scf.if
// CHECK: attn.load_rows
// CHECK: scf.for %{{.*}} to %[[N]] step %c96
// CHECK-NOT: scf.if
// CHECK: attn.scores
// CHECK-SAME: mask {
// CHECK-NEXT: }
// CHECK-NOT: attn.scores
// CHECK: attn.finish
// CHECK-NEXT: attn.operand
// CHECK-NEXT: attn.store_rows
attn.attention @all attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
}

// Causal: the last row bounds the loop, tiles of keys left of the diagonal are
// done without the mask, and those right of it not at all.
// CHECK-LABEL: attn.kernel @causal
// CHECK: %[[ROW:.*]] = attn.item
// CHECK: %[[M:.*]] = attn.length {{.*}}q[
// CHECK: %[[N:.*]] = attn.length {{.*}}k[
// CHECK: %[[SHIFT:.*]] = arith.subi %[[N]], %[[M]] : index
// CHECK: %[[FIRST:.*]] = arith.addi %{{.*}}, %[[SHIFT]]
// CHECK: %[[LAST:.*]] = arith.addi %{{.*}}, %[[SHIFT]]
// CHECK: %[[PAST:.*]] = arith.addi %[[LAST]], %c1{{.*}}
// CHECK: %[[MIN:.*]] = arith.minsi %[[PAST]], %[[N]]
// CHECK: %[[HI:.*]] = arith.maxsi %[[MIN]],
// CHECK: scf.for %[[KEY:.*]] = %c0{{.*}} to %[[HI]] step %c96
// CHECK: %[[MAY:.*]] = arith.cmpi sle, %[[KEY]], %[[LAST]]
// CHECK: scf.if %[[MAY]]
// CHECK: scf.if
// CHECK: attn.scores
// CHECK-SAME: rows_at[{{.*}}, %[[SHIFT]]]
// CHECK-SAME: mask {
// CHECK-NEXT: }
// CHECK: } else {
// CHECK: attn.scores
// CHECK-SAME: mask {
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.cmpi sle
// CHECK-NEXT: attn.yield
// CHECK: } else {
// CHECK-NEXT: scf.yield
// CHECK-NOT: attn.scores
// CHECK: attn.finish
attn.attention @causal attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %q_len: i32, %kv_len: i32):
  %c = arith.cmpi sle, %k, %q : i32
  attn.yield %c : i1
}

// Queries at the first keys: no shift, and the loop ends at the rows' own numbers.
// CHECK-LABEL: attn.kernel @top_left
// CHECK: %[[M:.*]] = attn.length {{.*}}q[
// CHECK: %[[N:.*]] = attn.length {{.*}}k[
// CHECK-NOT: arith.subi %[[N]], %[[M]]
// CHECK: scf.for
// CHECK: attn.scores
// CHECK-SAME: rows_at[{{.*}}, %c0{{[_0-9]*}}] keys_at[
// CHECK: attn.finish
attn.attention @top_left attributes {
  align = #attn.align<top_left>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %q_len: i32, %kv_len: i32):
  %c = arith.cmpi sle, %k, %q : i32
  attn.yield %c : i1
}

// A window has a first key too; the loop starts at the tile that holds it.
// CHECK-LABEL: attn.kernel @window
// CHECK: %[[LO:.*]] = arith.divsi %[[FIRST:.*]], %c96{{.*}} : index
// CHECK: %[[FROM:.*]] = arith.muli %[[LO]], %c96{{.*}} : index
// CHECK: scf.for %{{.*}} = %[[FROM]] to %{{.*}} step %c96
// CHECK-COUNT-2: attn.scores
// CHECK-NOT: attn.scores
// CHECK: attn.finish
attn.attention @window attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %q_len: i32, %kv_len: i32):
  %c = arith.cmpi sle, %k, %q : i32
  %n = arith.constant 100 : i32
  %w = arith.subi %q, %n : i32
  %s = arith.cmpi slt, %w, %k : i32
  %a = arith.andi %c, %s : i1
  attn.yield %a : i1
}

// Four heads share the rows of a tile: a row's query is its number over four.
// CHECK-LABEL: attn.kernel @packed attributes {item_groups = 2 : i64, item_heads = 4 : i64,
// CHECK: %[[ITEM:.*]], %[[G:.*]], %[[ROW:.*]] = attn.item %{{.*}} groups 2 heads 4 rows 96
// CHECK: %[[HEAD:.*]] = arith.muli %[[G]], %c4{{.*}} : index
// CHECK-NOT: attn.table
// CHECK: arith.divsi %[[ROW]], %{{.*}} : index
// CHECK: attn.load_rows %{{.*}}, %{{.*}}, %[[ROW]]] count %{{.*}} heads %[[HEADS:.*]] scale
// CHECK: attn.load_keys %{{.*}}, %[[G]],
// CHECK: attn.store_rows {{.*}}, %[[ROW]]] count %{{.*}} heads %[[HEADS]]
attn.attention @packed attributes {
  align = #attn.align<bottom_right>, heads = 8 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %q_len: i32, %kv_len: i32):
  %c = arith.cmpi sle, %k, %q : i32
  attn.yield %c : i1
}

// Groups that are no arithmetic series are looked up: their heads, the first
// of them, and the kv head.
// CHECK-LABEL: attn.kernel @looked_up attributes {item_groups = 3 : i64, item_heads = 3 : i64,
// CHECK: %{{.*}}, %[[G:.*]], %{{.*}} = attn.item
// CHECK: %[[HEADS:.*]] = attn.table [1, 3, 2][%[[G]]]
// CHECK: %[[HEAD:.*]] = attn.table [0, 1, 4][%[[G]]]
// CHECK: %[[KV:.*]] = attn.table [2, 0, 2][%[[G]]]
// CHECK: attn.load_rows %{{.*}}, %[[HEAD]], %{{.*}}] count %{{.*}} heads %[[HEADS]] scale
// CHECK: attn.load_keys %{{.*}}, %[[KV]],
// CHECK: attn.load_keys %{{.*}}, %[[KV]],
// CHECK: attn.store_rows {{.*}}, %[[HEAD]], %{{.*}}] count %{{.*}} heads %[[HEADS]]
attn.attention @looked_up attributes {
  align = #attn.align<bottom_right>, heads = 6 : i64, kv_heads = 3 : i64,
  kv_map = array<i64: 2, 0, 0, 0, 2, 2>,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
}

// Keys split over items: the loop is bounded by the item's split, whose state is
// stored, and another program merges the states.
// RUN: attnc-opt --attn-plan=target=cuda-sm80 --attn-tile %s > %t.1
// RUN: FileCheck %s < %t.1
// RUN: attnc-opt %t.1 | diff %t.1 -
// RUN: attnc-opt --mlir-print-op-generic %t.1 | attnc-opt | diff %t.1 -
// A plan has splits by default; 0 is printed as if there were no such field.
// RUN: attnc-opt --attn-plan=target=cuda-sm80 %s | FileCheck %s --check-prefix=PLANNED
// RUN: attnc-opt --attn-plan="target=cuda-sm80 plan=split=0" %s | FileCheck %s --check-prefix=NEVER
// RUN: not attnc-opt --attn-plan="target=cuda-sm80 plan=keys=32,split=48" %s 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: split.mlir:[[#LINE:]]:1: error: plan split is 48; 0 or a multiple of 32 up to 1073741824 is allowed{{$}}
// PLANNED-LABEL: attn.attention @decode
// PLANNED-SAME: unroll = 1, split = 512>
// NEVER-LABEL: attn.attention @decode
// NEVER-SAME: unroll = 1>
// Without splits there is one program, and nothing of them in it.
// RUN: attnc-opt --attn-plan="target=cuda-sm80 plan=split=0" --attn-tile %s | FileCheck %s --check-prefix=WHOLE --implicit-check-not=split --implicit-check-not=merge --implicit-check-not=state
// Both programs are lowered, each to a function of its own.
// RUN: attnc-opt --attn-lower-tiles=target=cuda-sm80 %t.1 | FileCheck %s --check-prefix=LOWER --implicit-check-not=!attn. --implicit-check-not=attn.kernel
// A target that keeps no states refuses the program, wherever it came from.
// RUN: not attnc-opt --attn-lower-tiles=target=x86-avx2 %t.1 2>&1 | FileCheck %s --check-prefix=LOOPS
// LOOPS: error: plan split is 512; 0 is lowered for x86-avx2{{$}}

// CHECK-LABEL: attn.kernel @decode attributes
// CHECK: %[[B:.*]], %[[G:.*]], %[[ROW:.*]], %[[SPLIT:.*]], %[[OF:.*]] = attn.item %{{.*}} groups 2 heads 4 rows 64 splits_of 512 split index, i1
// CHECK: %[[SHORT:.*]] = arith.andi
// CHECK: arith.cmpi eq, %[[OF]], %[[SHORT]]
// CHECK: %[[BEGIN:.*]] = arith.muli %[[SPLIT]], %c512
// CHECK: %[[END:.*]] = arith.addi %[[BEGIN]], %c512
// CHECK: %[[LATER:.*]] = arith.maxsi {{.*}}%[[BEGIN]]
// CHECK: %[[FROM:.*]] = arith.select %[[OF]], %[[LATER]],
// CHECK: %[[EARLIER:.*]] = arith.minsi {{.*}}%[[END]]
// CHECK: %[[TO:.*]] = arith.select %[[OF]], %[[EARLIER]],
// CHECK: attn.load_rows
// The sink is not part of a state.
// CHECK: scf.if %[[OF]]
// CHECK-NEXT: attn.fill 0xFF800000
// CHECK-NEXT: attn.fill 0.0
// CHECK: } else {
// CHECK-NEXT: attn.sink
// CHECK: %[[STATE:.*]]:3 = scf.for %{{.*}} = %[[FROM]] to %[[TO]] step
// CHECK: scf.if %[[OF]] {
// CHECK-NEXT: attn.store_state %[[STATE]]#0, %[[STATE]]#1, %[[STATE]]#2 to[%[[B]], %[[G]], %[[SPLIT]]] count
// CHECK-NEXT: } else {
// CHECK-NEXT: attn.finish
// CHECK: attn.store_rows
// CHECK-LABEL: attn.kernel @decode.merge attributes
// CHECK-SAME: merge
// CHECK-NOT: attn.item
// CHECK-NOT: attn.load_rows
// CHECK: %[[SINK:.*]], %[[ONE:.*]] = attn.sink
// CHECK: scf.for %[[S:.*]] = %{{.*}} iter_args(%[[M:.*]] = %[[SINK]], %[[L:.*]] = %[[ONE]], %[[A:.*]] = %{{.*}})
// CHECK-NEXT: %[[M1:.*]], %[[L1:.*]], %[[A1:.*]] = attn.load_state[%{{.*}}, %{{.*}}, %[[S]]] count
// CHECK-NEXT: attn.combine %[[M]], %[[L]], %[[A]] with %[[M1]], %[[L1]], %[[A1]]
// CHECK: attn.finish
// CHECK: attn.store_rows

// WHOLE: attn.kernel @decode
// WHOLE: attn.store_rows
// LOWER: func.func @attn_kernel_run(
// LOWER-SAME: attn.state_bytes = {{[1-9][0-9]*}} : i64
// LOWER: func.func @attn_kernel_merge(
attn.attention @decode attributes {
  align = #attn.align<bottom_right>, heads = 8 : i64, kv_heads = 2 : i64,
  q_type = f16, kv_type = f16, out_type = f16, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} sink {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %q_len: i32, %kv_len: i32):
  %s = arith.constant 1.0 : f32
  attn.yield %s : f32
} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %q_len: i32, %kv_len: i32):
  %c = arith.cmpi sle, %k, %q : i32
  attn.yield %c : i1
}

// The plan: chosen from the variant and the target, overridden by name, and
// refused by name, value and what is allowed.
// RUN: attnc-opt --attn-plan=target=x86-avx2 %s | FileCheck %s
// RUN: attnc-opt --attn-plan=target=x86-64 %s | FileCheck %s --check-prefix=PLAIN
// RUN: attnc-opt --attn-plan=target=x86-avx512 %s | FileCheck %s --check-prefix=WIDE
// RUN: attnc-opt --attn-plan=target=arm-neon %s | FileCheck %s --check-prefix=ELEMENT
// Planning again, and in an order of its own, changes nothing.
// RUN: attnc-opt --attn-plan=target=x86-avx2 %s > %t.1
// RUN: attnc-opt --attn-plan=target=x86-avx512 %s | attnc-opt --attn-plan=target=x86-avx2 | diff %t.1 -
// RUN: attnc-opt --attn-plan="target=x86-avx2 plan=keys=48,rows=192,unroll=1" %s | FileCheck %s --check-prefix=OVER
// RUN: attnc-opt --attn-plan="target=x86-avx2 plan=heads=1" %s | FileCheck %s --check-prefix=ALONE

// RUN: not attnc-opt --attn-plan=target=none %s 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: there is no target 'none'

// RUN: not attnc-opt --attn-plan="target=x86-avx2 plan=rows=50" %s 2>&1 | FileCheck %s --check-prefix=BAD0
// BAD0: plan.mlir:[[#GROUPED:]]:1: error: plan rows is 50; a multiple of 16 and of 6 up to 512 is allowed{{$}}
// RUN: not attnc-opt --attn-plan="target=x86-avx2 plan=rows=528" %s 2>&1 | FileCheck %s --check-prefix=BAD1
// BAD1: plan.mlir:[[#GROUPED:]]:1: error: plan rows is 528; a multiple of 16 and of 6 up to 512 is allowed{{$}}
// RUN: not attnc-opt --attn-plan="target=x86-avx2 plan=keys=0" %s 2>&1 | FileCheck %s --check-prefix=BAD2
// BAD2: plan.mlir:[[#GROUPED:]]:1: error: plan keys is 0; a multiple of 6 up to 512 is allowed{{$}}
// RUN: not attnc-opt --attn-plan="target=x86-avx2 plan=keys=100" %s 2>&1 | FileCheck %s --check-prefix=BAD3
// BAD3: plan.mlir:[[#GROUPED:]]:1: error: plan keys is 100; a multiple of 6 up to 512 is allowed{{$}}
// RUN: not attnc-opt --attn-plan="target=x86-avx2 plan=heads=3" %s 2>&1 | FileCheck %s --check-prefix=BAD4
// BAD4: plan.mlir:[[#GROUPED:]]:1: error: plan heads is 3; 1 or 4 is allowed{{$}}
// RUN: not attnc-opt --attn-plan="target=x86-avx2 plan=score_keys=8" %s 2>&1 | FileCheck %s --check-prefix=BAD5
// BAD5: plan.mlir:[[#GROUPED:]]:1: error: plan score_keys is 8; what fits the registers with its vectors is allowed{{$}}
// RUN: not attnc-opt --attn-plan="target=x86-avx2 plan=score_vectors=5" %s 2>&1 | FileCheck %s --check-prefix=BAD6
// BAD6: plan.mlir:[[#GROUPED:]]:1: error: plan score_vectors is 5; 1 to 4 is allowed{{$}}
// RUN: not attnc-opt --attn-plan="target=x86-avx2 plan=value_rows=7" %s 2>&1 | FileCheck %s --check-prefix=BAD7
// BAD7: plan.mlir:[[#GROUPED:]]:1: error: plan value_rows is 7; up to 6 or a multiple of 6 that fits the registers is allowed{{$}}
// RUN: not attnc-opt --attn-plan="target=x86-avx2 plan=value_vectors=0" %s 2>&1 | FileCheck %s --check-prefix=BAD8
// BAD8: plan.mlir:[[#GROUPED:]]:1: error: plan value_vectors is 0; 1 to 4 is allowed{{$}}
// RUN: not attnc-opt --attn-plan="target=x86-avx2 plan=unroll=65" %s 2>&1 | FileCheck %s --check-prefix=BAD9
// BAD9: plan.mlir:[[#GROUPED:]]:1: error: plan unroll is 65; 1 to 64 is allowed{{$}}
// RUN: not attnc-opt --attn-plan="target=x86-avx2 plan=unroll=many" %s 2>&1 | FileCheck %s --check-prefix=BAD10
// BAD10: plan.mlir:[[#GROUPED:]]:1: error: plan unroll is 'many'; a whole number is allowed{{$}}
// RUN: not attnc-opt --attn-plan="target=x86-avx2 plan=keys" %s 2>&1 | FileCheck %s --check-prefix=BAD11
// BAD11: plan.mlir:[[#GROUPED:]]:1: error: plan keys is ''; a whole number is allowed{{$}}
// RUN: not attnc-opt --attn-plan="target=x86-avx2 plan=columns=4" %s 2>&1 | FileCheck %s --check-prefix=BAD12
// BAD12: plan.mlir:[[#GROUPED:]]:1: error: plan has no 'columns'; allowed are rows, keys, heads, score_keys, score_vectors, value_rows, value_vectors, unroll, split{{$}}
// RUN: not attnc-opt --attn-plan="target=x86-avx2 plan=keys=48,rows=1" %s 2>&1 | FileCheck %s --check-prefix=BAD13
// BAD13: plan.mlir:[[#GROUPED:]]:1: error: plan rows is 1; a multiple of 16 and of 6 up to 512 is allowed{{$}}

// CHECK-LABEL: attn.attention @grouped
// CHECK-SAME: plan = #attn.plan<rows = 96, keys = 96, heads = 4, score_keys = 6, score_vectors = 2, value_rows = 6, value_vectors = 2, unroll = {{[1-9]}}>
// PLAIN-LABEL: attn.attention @grouped
// PLAIN-SAME: score_keys = 4, score_vectors = 2, value_rows = 4, value_vectors = 2,
// WIDE-LABEL: attn.attention @grouped
// WIDE-SAME: score_keys = 24, score_vectors = 1, value_rows = 24, value_vectors = 1,
// ELEMENT-LABEL: attn.attention @grouped
// ELEMENT-SAME: score_keys = 8, score_vectors = 2, value_rows = 12, value_vectors = 2,
// OVER-LABEL: attn.attention @grouped
// OVER-SAME: #attn.plan<rows = 192, keys = 48, heads = 4, score_keys = 6, score_vectors = 2, value_rows = 6, value_vectors = 2, unroll = 1>
// ALONE-LABEL: attn.attention @grouped
// ALONE-SAME: #attn.plan<rows = 96, keys = 96, heads = 1,
attn.attention @grouped attributes {
  align = #attn.align<bottom_right>, heads = 8 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %q_len: i32, %kv_len: i32):
  %c = arith.cmpi sle, %k, %q : i32
  attn.yield %c : i1
}

// A mask that reads the head keeps rows of different heads apart.
// CHECK-LABEL: attn.attention @by_head
// CHECK-SAME: heads = 1, score_keys = 6
// ALONE-LABEL: attn.attention @by_head
attn.attention @by_head attributes {
  align = #attn.align<bottom_right>, heads = 8 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %q_len: i32, %kv_len: i32):
  %d = arith.addi %q, %h : i32
  %c = arith.cmpi sle, %k, %d : i32
  attn.yield %c : i1
}

// Wide rows: fewer of them stay close.
// CHECK-LABEL: attn.attention @wide
// CHECK-SAME: plan = #attn.plan<rows = 48, keys = 96, heads = 1,
attn.attention @wide attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 576 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
}

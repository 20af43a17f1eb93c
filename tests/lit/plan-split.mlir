// Keys are split where tiles are in fragments.
// RUN: attnc-opt --attn-plan=target=cuda-sm80 %s | FileCheck %s --check-prefix=SPLIT
// RUN: attnc-opt --attn-plan="target=cuda-sm80 plan=split=0" %s | FileCheck %s --check-prefix=UNSPLIT
// RUN: not attnc-opt --attn-plan="target=x86-avx2 plan=split=96" %s 2>&1 | FileCheck %s --check-prefix=BAD14
// BAD14: plan-split.mlir:{{[0-9]+}}:1: error: plan split is 96; 0 is allowed{{$}}
// RUN: not attnc-opt --attn-plan="target=cuda-sm80 plan=keys=32,split=48" %s 2>&1 | FileCheck %s --check-prefix=BAD15
// BAD15: plan-split.mlir:{{[0-9]+}}:1: error: plan split is 48; 0 or a multiple of 32 up to 1073741824 is allowed{{$}}
// SPLIT-LABEL: attn.attention @grouped
// SPLIT-SAME: unroll = 1, split = 512>
// UNSPLIT-LABEL: attn.attention @grouped
// UNSPLIT-SAME: unroll = 1>

attn.attention @grouped attributes {
  align = #attn.align<bottom_right>, heads = 8 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %q_len: i32, %kv_len: i32):
  %c = arith.cmpi sle, %k, %q : i32
  attn.yield %c : i1
}

// After lowering nothing is left of the tile program, on every target.
// RUN: attnc-opt --attn-plan=target=x86-avx2 --attn-tile --attn-lower-tiles=target=x86-avx2 -split-input-file %s | FileCheck %s --implicit-check-not=" attn." --implicit-check-not=!attn. --check-prefixes=CHECK,EIGHT
// RUN: attnc-opt --attn-plan=target=x86-avx512 --attn-tile --attn-lower-tiles=target=x86-avx512 -split-input-file %s | FileCheck %s --implicit-check-not=" attn." --implicit-check-not=!attn. --check-prefixes=CHECK,SIXTEEN
// RUN: attnc-opt --attn-plan=target=x86-64 --attn-tile --attn-lower-tiles=target=x86-64 -split-input-file %s | FileCheck %s --implicit-check-not=" attn." --implicit-check-not=!attn. --check-prefixes=CHECK,FOUR
// Loops and vectors read again.
// RUN: attnc-opt --attn-plan=target=x86-avx2 --attn-tile --attn-lower-tiles=target=x86-avx2 -split-input-file %s > %t.1
// RUN: attnc-opt -split-input-file %t.1 | diff %t.1 -

// A variant without a plan isn't tiled.
// RUN: not attnc-opt --attn-tile %s 2>&1 | FileCheck %s --check-prefix=UNPLANNED
// UNPLANNED: error: {{.*}}has no plan

// A module holds one kernel then: its function has the same name always.
// CHECK: func.func {{.*}}@attn_kernel_run(
// CHECK-SAME: attn.scratch_bytes = {{[1-9][0-9]*}} : i64
// CHECK: scf.for
// EIGHT: vector<8xf32>
// SIXTEEN: vector<16xf32>
// FOUR: vector<4xf32>
attn.attention @window attributes {
  align = #attn.align<bottom_right>, heads = 8 : i64, kv_heads = 2 : i64,
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

// -----

// CHECK: func.func {{.*}}@attn_kernel_run(
// CHECK: scf.for
attn.attention @looked_up attributes {
  align = #attn.align<bottom_right>, heads = 6 : i64, kv_heads = 3 : i64,
  kv_map = array<i64: 2, 0, 0, 0, 2, 2>,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
}

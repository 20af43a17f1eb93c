// What the verifiers refuse of parameters, sinks and lists of tokens.
// RUN: attnc-opt -verify-diagnostics -split-input-file %s

%i = arith.constant 0 : i32
// expected-error@+1 {{'attn.param' op has 1 indices and tells of 0 whether they are inside}}
%x = attn.param 0 "x" f32[%i] inside [] : (i32) -> f32

// -----

%i = arith.constant 0 : index
// expected-error@+1 {{has 1 indices and tells of 2 whether they are inside}}
%x = attn.param 0 "x" i32[%i] inside [true, true] : (index) -> index

// -----

%i = arith.constant 0 : i64
// expected-error@+1 {{operand #0 must be variadic of 32-bit signless integer or index, but got 'i64'}}
%x = attn.param 0 "x" f32[%i] inside [true] : (i64) -> f32

// -----

%i = arith.constant 0 : i32
// expected-error@+1 {{result #0 must be 32-bit float or 32-bit signless integer or 1-bit signless integer or index, but got 'f16'}}
%x = attn.param 0 "x" f16[%i] inside [true] : (i32) -> f16

// -----

%i = arith.constant 0 : index
// expected-error@+1 {{'attn.pick' op outside has 2 values; three, [from, to, step], are needed}}
%p, %n = attn.pick[%i, %i, %i] outside[%i, %i] : !attn.positions<8>

// -----

%i = arith.constant 0 : index
%q = attn.operand q : !attn.tensor<f32>
// expected-error@+1 {{'attn.load_rows' op class has 1 values; two, [first, step], are needed}}
%t = attn.load_rows %q[%i, %i, %i] count %i heads %i class[%i] scale 1.0
  : !attn.tensor<f32> -> !attn.tile<8x8xf32>

// -----

%i = arith.constant 0 : index
%t = attn.fill 0.0 : !attn.tile<8x8xf32>
%l = attn.fill 0.0 : !attn.tile<8x1xf32>
%o = attn.operand o : !attn.tensor<f32>
// expected-error@+1 {{'attn.store_rows' op class has 3 values; two, [first, step], are needed}}
attn.store_rows %t, %l, %o[%i, %i, %i] count %i heads %i class[%i, %i, %i]
  : !attn.tile<8x8xf32>, !attn.tile<8x1xf32>, !attn.tensor<f32>

// -----

%i = arith.constant 0 : index
// expected-error@+1 {{'attn.sink' op sink must yield one f32}}
%m, %l = attn.sink batch %i group %i rows_at[%i, %i, %i] lengths[%i, %i]
  : !attn.tile<8x1xf32>, !attn.tile<8x1xf32> {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %ql: i32, %kl: i32):
  %c = arith.constant true
  attn.yield %c : i1
}

// -----

%i = arith.constant 0 : index
// expected-error@+1 {{'attn.sink' op sink takes (b, h, g, q, k, q_len, kv_len), all i32}}
%m, %l = attn.sink batch %i group %i rows_at[%i, %i, %i] lengths[%i, %i]
  : !attn.tile<8x1xf32>, !attn.tile<8x1xf32> {
^bb0(%s: f32, %b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %ql: i32, %kl: i32):
  attn.yield %s : f32
}

// -----

%i = arith.constant 0 : index
%q = attn.fill 0.0 : !attn.tile<8x64xf32>
%k = attn.fill 0.0 : !attn.tile<6x64xf32>
// expected-error@+1 {{score takes (s, b, h, g, q, k, q_len, kv_len), s f32, the others i32}}
%s = attn.scores %q, %k batch %i group %i rows_at[%i, %i, %i, %i, %i]
  keys_at[%i, %i] lengths[%i, %i]
  : !attn.tile<8x64xf32>, !attn.tile<6x64xf32> -> !attn.tile<8x6xf32> score {
^bb0(%b: i32, %h: i32, %g: i32, %mq: i32, %mk: i32, %ql: i32, %kl: i32):
  %c = arith.constant 0.0 : f32
  attn.yield %c : f32
} mask {
}

// -----

// expected-error@+1 {{'attn.attention' op sink must yield one f32}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} sink {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %ql: i32, %kl: i32):
  attn.yield %h : i32
} mask {
}

// -----

// expected-error@+1 {{'attn.attention' op score must yield one f32}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} score {
^bb0(%s: f32, %b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %ql: i32, %kl: i32):
  attn.yield %h : i32
} mask {
}

// -----

// expected-error@+1 {{dilation has 1 entries; 2 (heads) are needed}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  dilation = array<i64: 2>,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
}

// -----

// expected-error@+1 {{dilation is 0; at least 1 is allowed}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  dilation = array<i64: 1, 0>,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
}

// -----

// expected-error@+1 {{attribute 'params' failed to satisfy constraint: parameters}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  params = ["w"],
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
}

// -----

attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  // expected-error@+1 {{struct is missing required parameter: type}}
  params = [#attn.parameter<name = "w">],
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
}

// -----

attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  // expected-error@+1 {{unknown struct parameter name: flag}}
  params = [#attn.parameter<name = "w", type = i32, flag = 1>],
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64,
  value_dim = 64 : i64, scale = 0.125 : f64} mask {
}

// What the verifiers of the variant refuse, and in what words.
// RUN: attnc-opt -verify-diagnostics -split-input-file %s

// expected-error@+1 {{'attn.attention' op heads is 0; at least 1 is allowed}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 0 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = 64 : i64,
  scale = 0.125 : f64} mask {
}

// -----

// expected-error@+1 {{kv_heads is 0; at least 1 is allowed}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 0 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = 64 : i64,
  scale = 0.125 : f64} mask {
}

// -----

// expected-error@+1 {{kv_heads is -3; at least 1 is allowed}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = -3 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = 64 : i64,
  scale = 0.125 : f64} mask {
}

// -----

// expected-error@+1 {{qk_dim is 0; at least 1 is allowed}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 0 : i64, value_dim = 64 : i64,
  scale = 0.125 : f64} mask {
}

// -----

// expected-error@+1 {{value_dim is -64; at least 1 is allowed}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = -64 : i64,
  scale = 0.125 : f64} mask {
}

// -----

// expected-error@+1 {{kv_map has 1 entries; 2 (heads) are needed}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64, kv_map = array<i64: 0>,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = 64 : i64,
  scale = 0.125 : f64} mask {
}

// -----

// expected-error@+1 {{kv_map has 3 entries; 2 (heads) are needed}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64, kv_map = array<i64: 0, 1, 1>,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = 64 : i64,
  scale = 0.125 : f64} mask {
}

// -----

// expected-error@+1 {{kv_map names kv head 2; 0 to 1 are allowed}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64, kv_map = array<i64: 0, 2>,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = 64 : i64,
  scale = 0.125 : f64} mask {
}

// -----

// expected-error@+1 {{kv_map names kv head -1; 0 to 1 are allowed}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64, kv_map = array<i64: -1, 0>,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = 64 : i64,
  scale = 0.125 : f64} mask {
}

// -----

// Infinity.
// expected-error@+1 {{scale must be finite}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = 64 : i64,
  scale = 0x7FF0000000000000 : f64} mask {
}

// -----

// Not a number.
// expected-error@+1 {{scale must be finite}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = 64 : i64,
  scale = 0x7FF8000000000000 : f64} mask {
}

// -----

// A coordinate is missing.
// expected-error@+1 {{mask takes (b, h, g, q, k, q_len, kv_len), all i32}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = 64 : i64,
  scale = 0.125 : f64} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %q_len: i32):
  %c = arith.cmpi sle, %k, %q : i32
  attn.yield %c : i1
}

// -----

// A coordinate is too wide.
// expected-error@+1 {{mask takes (b, h, g, q, k, q_len, kv_len), all i32}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = 64 : i64,
  scale = 0.125 : f64} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i64, %k: i64, %q_len: i32, %kv_len: i32):
  %c = arith.cmpi sle, %k, %q : i64
  attn.yield %c : i1
}

// -----

// A number, not a condition.
// expected-error@+1 {{mask must yield one i1}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = 64 : i64,
  scale = 0.125 : f64} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %q_len: i32, %kv_len: i32):
  attn.yield %q : i32
}

// -----

// expected-error@+1 {{mask must yield one i1}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = 64 : i64,
  scale = 0.125 : f64} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %q_len: i32, %kv_len: i32):
  attn.yield
}

// -----

// expected-error@+1 {{mask must yield one i1}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = 64 : i64,
  scale = 0.125 : f64} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %q_len: i32, %kv_len: i32):
  %c = arith.cmpi sle, %k, %q : i32
  attn.yield %c, %c : i1, i1
}

// -----

// expected-error@+1 {{mask has 2 blocks; one is allowed}}
attn.attention @a attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 2 : i64,
  q_type = f32, kv_type = f32, out_type = f32, qk_dim = 64 : i64, value_dim = 64 : i64,
  scale = 0.125 : f64} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %q_len: i32, %kv_len: i32):
  %c = arith.cmpi sle, %k, %q : i32
  attn.yield %c : i1
^bb1(%xb: i32, %xh: i32, %xg: i32, %xq: i32, %xk: i32, %xq_len: i32, %xkv_len: i32):
  %d = arith.cmpi sle, %xk, %xq : i32
  attn.yield %d : i1
}

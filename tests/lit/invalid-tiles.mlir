// What the verifiers of tiles and of the tile program's ops refuse.
// RUN: attnc-opt -verify-diagnostics -split-input-file %s

// expected-error@+1 {{a tile has at least one row and column, not 0x4}}
%0 = attn.fill 0.0 : !attn.tile<0x4xf32>

// -----

// expected-error@+1 {{a tile has at least one row and column, not 4x0}}
%0 = attn.fill 0.0 : !attn.tile<4x0xf32>

// -----

// expected-error@+1 {{a tile has 2 dimensions, not 1}}
%0 = attn.fill 0.0 : !attn.tile<4xf32>

// -----

// expected-error@+1 {{a tile has 2 dimensions, not 3}}
%0 = attn.fill 0.0 : !attn.tile<4x4x4xf32>

// -----

// expected-error@+1 {{expected static shape}}
%0 = attn.fill 0.0 : !attn.tile<?x4xf32>

// -----

// expected-error@+1 {{the elements of a tile are floats, not 'i32'}}
%0 = attn.fill 0.0 : !attn.tile<4x4xi32>

// -----

%i = arith.constant 0 : index
%q = attn.fill 0.0 : !attn.tile<8x64xf32>
%k = attn.fill 0.0 : !attn.tile<6x32xf32>
// expected-error@+1 {{rows of 64 and of 32 elements have no dot product}}
%s = attn.scores %q, %k batch %i group %i rows_at[%i, %i, %i, %i, %i]
  keys_at[%i, %i] lengths[%i, %i]
  : !attn.tile<8x64xf32>, !attn.tile<6x32xf32> -> !attn.tile<8x6xf32> mask {
}

// -----

%i = arith.constant 0 : index
%q = attn.fill 0.0 : !attn.tile<8x64xf32>
%k = attn.fill 0.0 : !attn.tile<6x64xf32>
// expected-error@+1 {{the result is '!attn.tile<6x8xf32>'; 8x6 is needed}}
%s = attn.scores %q, %k batch %i group %i rows_at[%i, %i, %i, %i, %i]
  keys_at[%i, %i] lengths[%i, %i]
  : !attn.tile<8x64xf32>, !attn.tile<6x64xf32> -> !attn.tile<6x8xf32> mask {
}

// -----

%i = arith.constant 0 : index
%q = attn.fill 0.0 : !attn.tile<8x64xf32>
%k = attn.fill 0.0 : !attn.tile<6x64xf32>
// expected-error@+1 {{mask takes (b, h, g, q, k, q_len, kv_len), all i32}}
%s = attn.scores %q, %k batch %i group %i rows_at[%i, %i, %i, %i, %i]
  keys_at[%i, %i] lengths[%i, %i]
  : !attn.tile<8x64xf32>, !attn.tile<6x64xf32> -> !attn.tile<8x6xf32> mask {
^bb0(%a: i32):
  %c = arith.constant true
  attn.yield %c : i1
}

// -----

%i = arith.constant 0 : index
%q = attn.fill 0.0 : !attn.tile<8x64xf32>
%k = attn.fill 0.0 : !attn.tile<6x64xf32>
// expected-error@+1 {{mask must yield one i1}}
%s = attn.scores %q, %k batch %i group %i rows_at[%i, %i, %i, %i, %i]
  keys_at[%i, %i] lengths[%i, %i]
  : !attn.tile<8x64xf32>, !attn.tile<6x64xf32> -> !attn.tile<8x6xf32> mask {
^bb0(%b: i32, %h: i32, %g: i32, %mq: i32, %mk: i32, %q_len: i32, %kv_len: i32):
  attn.yield %mq : i32
}

// -----

%s = attn.fill 0.0 : !attn.tile<8x6xf32>
%m = attn.fill 0.0 : !attn.tile<8x1xf32>
%l = attn.fill 0.0 : !attn.tile<8x1xf32>
// expected-error@+1 {{weights and scores differ in type}}
%r:4 = attn.softmax %s, %m, %l : !attn.tile<8x6xf32>, !attn.tile<8x1xf32>, !attn.tile<8x1xf32>
  -> !attn.tile<8x6xf16>, !attn.tile<8x1xf32>, !attn.tile<8x1xf32>, !attn.tile<8x1xf32>

// -----

%s = attn.fill 0.0 : !attn.tile<8x6xf32>
%m = attn.fill 0.0 : !attn.tile<6x1xf32>
%l = attn.fill 0.0 : !attn.tile<8x1xf32>
// expected-error@+1 {{max is '!attn.tile<6x1xf32>'; 8x1 is needed}}
%r:4 = attn.softmax %s, %m, %l : !attn.tile<8x6xf32>, !attn.tile<6x1xf32>, !attn.tile<8x1xf32>
  -> !attn.tile<8x6xf32>, !attn.tile<8x1xf32>, !attn.tile<8x1xf32>, !attn.tile<8x1xf32>

// -----

%s = attn.fill 0.0 : !attn.tile<8x6xf32>
%m = attn.fill 0.0 : !attn.tile<8x1xf32>
%l = attn.fill 0.0 : !attn.tile<6x1xf32>
// expected-error@+1 {{sum is '!attn.tile<6x1xf32>'; 8x1 is needed}}
%r:4 = attn.softmax %s, %m, %l : !attn.tile<8x6xf32>, !attn.tile<8x1xf32>, !attn.tile<6x1xf32>
  -> !attn.tile<8x6xf32>, !attn.tile<8x1xf32>, !attn.tile<8x1xf32>, !attn.tile<8x1xf32>

// -----

%s = attn.fill 0.0 : !attn.tile<8x6xf32>
%m = attn.fill 0.0 : !attn.tile<8x1xf32>
%l = attn.fill 0.0 : !attn.tile<8x1xf32>
// expected-error@+1 {{new_max is '!attn.tile<6x1xf32>'; 8x1 is needed}}
%r:4 = attn.softmax %s, %m, %l : !attn.tile<8x6xf32>, !attn.tile<8x1xf32>, !attn.tile<8x1xf32>
  -> !attn.tile<8x6xf32>, !attn.tile<6x1xf32>, !attn.tile<8x1xf32>, !attn.tile<8x1xf32>

// -----

%s = attn.fill 0.0 : !attn.tile<8x6xf32>
%m = attn.fill 0.0 : !attn.tile<8x1xf32>
%l = attn.fill 0.0 : !attn.tile<8x1xf32>
// expected-error@+1 {{new_sum is '!attn.tile<6x1xf32>'; 8x1 is needed}}
%r:4 = attn.softmax %s, %m, %l : !attn.tile<8x6xf32>, !attn.tile<8x1xf32>, !attn.tile<8x1xf32>
  -> !attn.tile<8x6xf32>, !attn.tile<8x1xf32>, !attn.tile<6x1xf32>, !attn.tile<8x1xf32>

// -----

%s = attn.fill 0.0 : !attn.tile<8x6xf32>
%m = attn.fill 0.0 : !attn.tile<8x1xf32>
%l = attn.fill 0.0 : !attn.tile<8x1xf32>
// expected-error@+1 {{decay is '!attn.tile<8x2xf32>'; 8x1 is needed}}
%r:4 = attn.softmax %s, %m, %l : !attn.tile<8x6xf32>, !attn.tile<8x1xf32>, !attn.tile<8x1xf32>
  -> !attn.tile<8x6xf32>, !attn.tile<8x1xf32>, !attn.tile<8x1xf32>, !attn.tile<8x2xf32>

// -----

%a = attn.fill 0.0 : !attn.tile<8x80xf32>
%d = attn.fill 0.0 : !attn.tile<8x1xf32>
%w = attn.fill 0.0 : !attn.tile<8x6xf32>
%v = attn.fill 0.0 : !attn.tile<6x80xf32>
// expected-error@+1 {{acc and the result differ in type}}
%r = attn.accumulate %a, %d, %w, %v : !attn.tile<8x80xf32>, !attn.tile<8x1xf32>, !attn.tile<8x6xf32>, !attn.tile<6x80xf32> -> !attn.tile<8x64xf32>

// -----

%a = attn.fill 0.0 : !attn.tile<8x80xf32>
%d = attn.fill 0.0 : !attn.tile<8x1xf32>
%w = attn.fill 0.0 : !attn.tile<6x6xf32>
%v = attn.fill 0.0 : !attn.tile<6x80xf32>
// expected-error@+1 {{weights is '!attn.tile<6x6xf32>'; 8x6 is needed}}
%r = attn.accumulate %a, %d, %w, %v : !attn.tile<8x80xf32>, !attn.tile<8x1xf32>, !attn.tile<6x6xf32>, !attn.tile<6x80xf32> -> !attn.tile<8x80xf32>

// -----

%a = attn.fill 0.0 : !attn.tile<8x80xf32>
%d = attn.fill 0.0 : !attn.tile<8x1xf32>
%w = attn.fill 0.0 : !attn.tile<8x6xf32>
%v = attn.fill 0.0 : !attn.tile<7x80xf32>
// expected-error@+1 {{weights is '!attn.tile<8x6xf32>'; 8x7 is needed}}
%r = attn.accumulate %a, %d, %w, %v : !attn.tile<8x80xf32>, !attn.tile<8x1xf32>, !attn.tile<8x6xf32>, !attn.tile<7x80xf32> -> !attn.tile<8x80xf32>

// -----

%a = attn.fill 0.0 : !attn.tile<8x80xf32>
%d = attn.fill 0.0 : !attn.tile<8x1xf32>
%w = attn.fill 0.0 : !attn.tile<8x6xf32>
%v = attn.fill 0.0 : !attn.tile<6x64xf32>
// expected-error@+1 {{values is '!attn.tile<6x64xf32>'; 6x80 is needed}}
%r = attn.accumulate %a, %d, %w, %v : !attn.tile<8x80xf32>, !attn.tile<8x1xf32>, !attn.tile<8x6xf32>, !attn.tile<6x64xf32> -> !attn.tile<8x80xf32>

// -----

%a = attn.fill 0.0 : !attn.tile<8x80xf32>
%d = attn.fill 0.0 : !attn.tile<1x1xf32>
%w = attn.fill 0.0 : !attn.tile<8x6xf32>
%v = attn.fill 0.0 : !attn.tile<6x80xf32>
// expected-error@+1 {{decay is '!attn.tile<1x1xf32>'; 8x1 is needed}}
%r = attn.accumulate %a, %d, %w, %v : !attn.tile<8x80xf32>, !attn.tile<1x1xf32>, !attn.tile<8x6xf32>, !attn.tile<6x80xf32> -> !attn.tile<8x80xf32>

// -----

%i = arith.constant 0 : index
// expected-error@+1 {{has splits_of and split with each other or not at all}}
%b, %g, %r = attn.item %i groups 1 heads 1 rows 8 splits_of 32

// -----

%i = arith.constant 0 : index
// expected-error@+1 {{has splits_of and split with each other or not at all}}
%b, %g, %r, %s, %p = attn.item %i groups 1 heads 1 rows 8 split index, i1

// -----

%i = arith.constant 0 : index
// expected-error@+1 {{splits_of is 0; at least 1 is allowed}}
%b, %g, %r, %s, %p = attn.item %i groups 1 heads 1 rows 8 splits_of 0 split index, i1

// -----

%i = arith.constant 0 : index
%column = attn.fill 0.0 : !attn.tile<8x1xf32>
%acc = attn.fill 0.0 : !attn.tile<4x64xf32>
// expected-error@+1 {{max is '!attn.tile<8x1xf32>'; 4x1 is needed}}
attn.store_state %column, %column, %acc to[%i, %i, %i] count %i
  : !attn.tile<8x1xf32>, !attn.tile<8x1xf32>, !attn.tile<4x64xf32>

// -----

%i = arith.constant 0 : index
// expected-error@+1 {{sum is '!attn.tile<8x2xf32>'; 8x1 is needed}}
%max, %sum, %acc = attn.load_state[%i, %i, %i] count %i
  : !attn.tile<8x1xf32>, !attn.tile<8x2xf32>, !attn.tile<8x64xf32>

// -----

%column = attn.fill 0.0 : !attn.tile<8x1xf32>
%acc = attn.fill 0.0 : !attn.tile<8x64xf32>
%other = attn.fill 0.0 : !attn.tile<8x32xf32>
// expected-error@+1 {{acc differs in type between the states}}
%max, %sum, %new = attn.combine %column, %column, %acc with %column, %column, %other
  : !attn.tile<8x1xf32>, !attn.tile<8x1xf32>, !attn.tile<8x64xf32>,
    !attn.tile<8x1xf32>, !attn.tile<8x1xf32>, !attn.tile<8x32xf32>
  -> !attn.tile<8x1xf32>, !attn.tile<8x1xf32>, !attn.tile<8x64xf32>

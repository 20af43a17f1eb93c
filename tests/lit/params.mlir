// Parameters, sinks and lists of tokens print as they are read.
// RUN: attnc-opt %s > %t.1
// RUN: attnc-opt %t.1 | diff %t.1 -
// RUN: attnc-opt --mlir-print-op-generic %s | attnc-opt | diff %t.1 -
// RUN: FileCheck %s < %t.1

// What a kernel relies on is written where it is something.
// CHECK-LABEL: attn.attention @parameters
// CHECK-SAME: dilation = array<i64: 1, 3>
// CHECK-SAME: params = [#attn.parameter<name = "w", type = i32, flags = 5>, #attn.parameter<name = "x", type = f16>, #attn.parameter<name = "m", type = i1>, #attn.parameter<name = "t", type = i1>]
// CHECK-SAME: score {
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %{{.*}}: i32, %[[H:.*]]: i32, %{{.*}}: i32, %{{.*}}: i32, %[[K:.*]]: i32, %{{.*}}: i32, %{{.*}}: i32):
// CHECK-NEXT: %[[X:.*]] = attn.param 1 "x" f16[%[[H]], %[[K]]] inside [true, false] : (i32, i32) -> f32
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[S]], %[[X]]
// CHECK-NEXT: attn.yield %[[SUM]] : f32
// CHECK-NEXT: } sink {
// CHECK-NEXT: ^bb0(
// CHECK-NEXT: attn.param 1 "x" f16[%{{.*}}, %{{.*}}] inside [true, false] : (i32, i32) -> f32
// CHECK-NEXT: attn.yield %{{.*}} : f32
// CHECK-NEXT: } mask {
// CHECK-NEXT: ^bb0(%[[B:.*]]: i32, %{{.*}}: i32, %{{.*}}: i32, %[[Q:.*]]: i32, %[[K:.*]]: i32, %{{.*}}: i32, %{{.*}}: i32):
// CHECK-NEXT: %[[W:.*]] = attn.param 0 "w" i32[%{{.*}}] inside [true] : (i32) -> i32
// CHECK-NEXT: %[[M:.*]] = attn.param 2 "m" i1[%[[K]]] inside [true] : (i32) -> i1
// CHECK-NEXT: %[[T:.*]] = attn.member 3 "t"[%[[B]], %[[Q]]]
// CHECK-NEXT: %[[C:.*]] = attn.congruent %[[K]], %[[Q]] by %[[W]]
attn.attention @parameters attributes {
  align = #attn.align<bottom_right>, heads = 2 : i64, kv_heads = 1 : i64,
  dilation = array<i64: 1, 3>,
  params = [#attn.parameter<name = "w", type = i32, flags = 5>,
            #attn.parameter<name = "x", type = f16, flags = 0>,
            #attn.parameter<name = "m", type = i1>,
            #attn.parameter<name = "t", type = i1>],
  q_type = f32, kv_type = f32, out_type = f32,
  qk_dim = 64 : i64, value_dim = 64 : i64, scale = 0.125 : f64} score {
^bb0(%s: f32, %b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %ql: i32, %kl: i32):
  %x = attn.param 1 "x" f16[%h, %k] inside [true, false] : (i32, i32) -> f32
  %y = arith.addf %s, %x : f32
  attn.yield %y : f32
} sink {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %ql: i32, %kl: i32):
  %x = attn.param 1 "x" f16[%h, %h] inside [true, false] : (i32, i32) -> f32
  attn.yield %x : f32
} mask {
^bb0(%b: i32, %h: i32, %g: i32, %q: i32, %k: i32, %ql: i32, %kl: i32):
  %w = attn.param 0 "w" i32[%h] inside [true] : (i32) -> i32
  %m = attn.param 2 "m" i1[%k] inside [true] : (i32) -> i1
  %t = attn.member 3 "t"[%b, %q]
  %c = attn.congruent %k, %q by %w
  %a = arith.andi %m, %t : i1
  %o = arith.ori %a, %c : i1
  attn.yield %o : i1
}

// CHECK-LABEL: attn.kernel @lists
// CHECK: %[[B:.*]], %[[G:.*]], %[[ROW:.*]], %[[OF:.*]] = attn.item %{{.*}} groups 1 heads 1 rows 48 globals i1
// CHECK: %[[N:.*]] = attn.length {{.*}}k[%[[B]]]
// CHECK: %[[ALL:.*]] = attn.listed[%[[B]]]
// CHECK-NEXT: %[[BELOW:.*]] = attn.listed[%[[B]]] below %[[N]]
// CHECK-NEXT: %[[P:.*]], %[[COUNT:.*]] = attn.pick[%[[B]], %[[BELOW]], %[[ALL]]] : !attn.positions<24>
// CHECK-NEXT: %[[P2:.*]], %[[COUNT2:.*]] = attn.pick[%[[B]], %[[BELOW]], %[[ALL]]] outside[%[[ROW]], %[[N]], %[[ONE:.*]]] : !attn.positions<24>
// CHECK-NEXT: %[[AT:.*]] = attn.position %[[P]][%[[ONE]]] : !attn.positions<24>
// CHECK-NEXT: %[[W:.*]] = attn.param 0 "w" i32[%[[B]]] inside [true] : (index) -> index
// CHECK-NEXT: %{{.*}}, %{{.*}} = attn.extremes 1 "doc" i32[%[[B]], %[[AT]]] along 1 to %[[N]]
// CHECK-NEXT: %[[LO:.*]], %[[HI:.*]] = attn.extremes 1 "doc" i32[%[[B]], %[[AT]]] along 1 to %[[N]] blocks
// CHECK: %[[MAX:.*]], %[[SUM:.*]] = attn.sink batch %[[B]] group %[[G]] rows_at[%[[ROW]], %[[ONE]], %[[G]]] lengths[%[[N]], %[[N]]] : !attn.tile<48x1xf32>, !attn.tile<48x1xf32> {
// CHECK-NEXT: ^bb0(
// CHECK: attn.yield %{{.*}} : f32
// CHECK-NEXT: }
// CHECK: %[[Q:.*]] = attn.load_rows %{{.*}}[%[[B]], %[[G]], %[[ROW]]] count %[[ONE]] heads %[[ONE]] listed %[[P]] : !attn.positions<24> shift %[[N]] scale 1.000000e+00 :
// CHECK-NEXT: %[[K:.*]] = attn.load_keys %{{.*}}[%[[B]], %[[G]], %[[AT]]] count %[[COUNT2]] listed %[[P2]] : !attn.positions<24> : !attn.tensor<f32> -> !attn.tile<24x8xf32>
// CHECK-NEXT: %{{.*}} = attn.scores %[[Q]], %[[K]] {{.*}} loads[%[[LO]], %[[HI]]] :
// CHECK: attn.store_rows %{{.*}}, %{{.*}}, %{{.*}}[%[[B]], %[[G]], %[[ROW]]] count %[[ONE]] heads %[[ONE]] class[%[[G]], %[[ONE]]] shift %[[N]] but_members_of [0, 2] :
attn.kernel @lists attributes {item_groups = 1 : i64, item_heads = 1 : i64,
    plan = #attn.plan<rows = 48, keys = 24, heads = 1, score_keys = 6,
      score_vectors = 2, value_rows = 6, value_vectors = 2, unroll = 4>} {
^bb0(%item: index):
  %b, %g, %row, %of = attn.item %item groups 1 heads 1 rows 48 globals i1
  %one = arith.constant 1 : index
  %n = attn.length k[%b]
  %all = attn.listed[%b]
  %below = attn.listed[%b] below %n
  %p, %count = attn.pick[%b, %below, %all] : !attn.positions<24>
  %p2, %count2 = attn.pick[%b, %below, %all] outside[%row, %n, %one]
    : !attn.positions<24>
  %at = attn.position %p[%one] : !attn.positions<24>
  %w = attn.param 0 "w" i32[%b] inside [true] : (index) -> index
  %min, %max = attn.extremes 1 "doc" i32[%b, %at] along 1 to %n
  %lo, %hi = attn.extremes 1 "doc" i32[%b, %at] along 1 to %n blocks
  %m, %l = attn.sink batch %b group %g rows_at[%row, %one, %g] lengths[%n, %n]
    : !attn.tile<48x1xf32>, !attn.tile<48x1xf32> {
  ^bb0(%sb: i32, %sh: i32, %sg: i32, %sq: i32, %sk: i32, %sl: i32, %sn: i32):
    %x = attn.param 2 "sinks" f32[%sh] inside [true] : (i32) -> f32
    attn.yield %x : f32
  }
  %acc = attn.fill 0.0 : !attn.tile<48x8xf32>
  %qo = attn.operand q : !attn.tensor<f32>
  %ko = attn.operand k : !attn.tensor<f32>
  %oo = attn.operand o : !attn.tensor<f32>
  %q = attn.load_rows %qo[%b, %g, %row] count %one heads %one
    listed %p : !attn.positions<24> shift %n scale 1.0
    : !attn.tensor<f32> -> !attn.tile<48x8xf32>
  %k = attn.load_keys %ko[%b, %g, %at] count %count2
    listed %p2 : !attn.positions<24>
    : !attn.tensor<f32> -> !attn.tile<24x8xf32>
  %s = attn.scores %q, %k batch %b group %g
    rows_at[%row, %one, %one, %g, %n] keys_at[%at, %count2] lengths[%n, %n]
    loads[%lo, %hi] : !attn.tile<48x8xf32>, !attn.tile<24x8xf32>
    -> !attn.tile<48x24xf32> mask {
  ^bb0(%mb: i32, %mh: i32, %mg: i32, %mq: i32, %mk: i32, %ml: i32, %mn: i32):
    %d = attn.param 1 "doc" i32[%mb, %mk] inside [true, true] : (i32, i32) -> i32
    %c = arith.cmpi sle, %d, %mq : i32
    attn.yield %c : i1
  }
  attn.store_rows %acc, %l, %oo[%b, %g, %row] count %one heads %one
    class[%g, %one] shift %n but_members_of [0, 2]
    : !attn.tile<48x8xf32>, !attn.tile<48x1xf32>, !attn.tensor<f32>
}

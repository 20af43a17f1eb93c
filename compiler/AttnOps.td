//===- AttnOps.td - The attn dialect --------------------------------------===//
//
// Part of attnc. Apache-2.0.
//
// Three levels in one dialect: `attn.attention`, the variant itself; the plan
// attribute; and the tile program, about ten ops on `!attn.tile` values inside
// `scf`. README.md in this folder shows programs for the cases the ops were
// made for.
//
//===----------------------------------------------------------------------===//
#ifndef ATTN_OPS
#define ATTN_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

def Attn_Dialect : Dialect {
  let name = "attn";
  let cppNamespace = "::attn";
  let summary = "attention variants, their plans and tile programs";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["mlir::arith::ArithDialect"];
}

class Attn_Op<string mnemonic, list<Trait> traits = []>
    : Op<Attn_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

class Attn_Type<string name, string mnem> : TypeDef<Attn_Dialect, name> {
  let mnemonic = mnem;
}

def Attn_Tile : Attn_Type<"Tile", "tile"> {
  let summary = "a small matrix of fixed size, wherever the target keeps it";
  let description = [{
    `!attn.tile<48x128xf32>`: 48 rows of 128 columns. Tiles are values: an op
    that "changes" a tile gives a new one, and a target updates in place where
    the old value is dead. How a tile is laid out, and whether it exists in
    memory at all, is the target's business.
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$cols, "mlir::Type":$elementType);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Attn_Tensor : Attn_Type<"Tensor", "tensor"> {
  let summary = "an operand of the call: [batch, head, token, column], strided";
  let parameters = (ins "mlir::Type":$elementType);
  let assemblyFormat = "`<` $elementType `>`";
}

def Attn_Positions : Attn_Type<"Positions", "positions"> {
  let summary = "up to `most` positions, ascending";
  let parameters = (ins "int64_t":$most);
  let assemblyFormat = "`<` $most `>`";
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

def Attn_PlanAttr : AttrDef<Attn_Dialect, "Plan"> {
  let mnemonic = "plan";
  let summary = "how the variant is cut into tiles (compiler/Plan.h)";
  let parameters = (ins
    "int64_t":$rows, "int64_t":$keys, "int64_t":$heads,
    "int64_t":$score_keys, "int64_t":$score_vectors,
    "int64_t":$value_rows, "int64_t":$value_vectors, "int64_t":$unroll,
    DefaultValuedParameter<"int64_t", "0">:$split);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Attn_AlignEnum : I32EnumAttr<"Alignment", "where the queries sit among the keys", [
    I32EnumAttrCase<"BottomRight", 0, "bottom_right">,
    I32EnumAttrCase<"TopLeft", 1, "top_left">]> {
  let cppNamespace = "::attn";
  let genSpecializedAttr = 0;
}
def Attn_AlignAttr : EnumAttr<Attn_Dialect, Attn_AlignEnum, "align"> {
  let assemblyFormat = "`<` $value `>`";
}

def Attn_OperandEnum : I32EnumAttr<"Operand", "an operand of the call", [
    I32EnumAttrCase<"Q", 0, "q">, I32EnumAttrCase<"K", 1, "k">,
    I32EnumAttrCase<"V", 2, "v">, I32EnumAttrCase<"O", 3, "o">]> {
  let cppNamespace = "::attn";
  let genSpecializedAttr = 0;
}
def Attn_OperandAttr : EnumAttr<Attn_Dialect, Attn_OperandEnum, "operand">;

def Attn_ParameterAttr : AttrDef<Attn_Dialect, "Parameter"> {
  let mnemonic = "parameter";
  let summary = "a declared parameter and what a kernel relies on in its values";
  let parameters = (ins
    StringRefParameter<>:$name, "mlir::Type":$type,
    DefaultValuedParameter<"int32_t", "0">:$flags);
  let assemblyFormat = "`<` struct(params) `>`";
  let description = [{
    `type` is that of an element as it is stored, i1 for bool and for lists of
    tokens; `flags` are those of attn_param_flag (runtime/attn_abi.h).
  }];
}
def Attn_ParametersAttr : TypedArrayAttrBase<Attn_ParameterAttr, "parameters">;

//===----------------------------------------------------------------------===//
// The variant
//===----------------------------------------------------------------------===//

def Attn_AttentionOp : Attn_Op<"attention", [Symbol, IsolatedFromAbove]> {
  let summary = "an attention variant";
  let description = [{
    Sizes and types as attributes; `mask` is a region over
    `(b, h, g, q, k, q_len, kv_len)`, all i32, that yields whether query
    position `q` may attend to key position `k`. An empty region means "all".
    `score` is a region over `(s, b, h, g, q, k, q_len, kv_len)`, `s` f32, that
    yields the new score of the scaled score `s`, before the mask; left out, the
    score is `s`. `sink` is a region like `mask` that yields the f32 logit of a
    row's sink; left out, there is none. `params` are what `attn.param` reads.
    `dilation`, a number for each query head, says that queries and keys that
    are in no list of tokens are a multiple of it apart wherever the mask is
    true: the mask's `attn.congruent` holds for them.
    With `kv_map`, the kv head of each query head; without, the kv head of query
    head `h` is `floor(h * kv_heads / heads)`.
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    I64Attr:$heads, I64Attr:$kv_heads, OptionalAttr<DenseI64ArrayAttr>:$kv_map,
    OptionalAttr<DenseI64ArrayAttr>:$dilation,
    I64Attr:$qk_dim, I64Attr:$value_dim,
    TypeAttr:$q_type, TypeAttr:$kv_type, TypeAttr:$out_type,
    F64Attr:$scale, Attn_AlignAttr:$align,
    OptionalAttr<Attn_ParametersAttr>:$params,
    OptionalAttr<Attn_PlanAttr>:$plan);
  let regions = (region AnyRegion:$score, AnyRegion:$sink, AnyRegion:$mask);
  let assemblyFormat = [{
    $sym_name attr-dict-with-keyword (`score` $score^)? (`sink` $sink^)? `mask` $mask
  }];
  let hasRegionVerifier = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Query heads in runs that share a kv head and a dilation.
    struct Group { int64_t firstHead, heads, kvHead, dilation; };
    llvm::SmallVector<Group> groups();
  }];
}

def Attn_YieldOp : Attn_Op<"yield", [Pure, Terminator]> {
  let summary = "the value of a region, or the end of a kernel";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Attn_ParamOp : Attn_Op<"param", [Pure]> {
  let summary = "an element of a parameter";
  let description = [{
    Parameter `number` of the variant at `at`, one index a dimension. An index
    beyond its dimension takes the nearest element; `inside` tells of each
    whether it never is. `stored` is the type of an element in memory: f16 and
    bf16 are read as f32, i1 is a byte. In a tile program outside of regions
    indices and integers are of type index.
  }];
  let arguments = (ins I64Attr:$number, StrAttr:$name, TypeAttr:$stored,
                       DenseBoolArrayAttr:$inside,
                       Variadic<AnyTypeOf<[I32, Index]>>:$at);
  let results = (outs AnyTypeOf<[F32, I32, I1, Index]>:$value);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $number $name $stored `[` $at `]` `inside` $inside attr-dict `:`
    functional-type($at, $value)
  }];
}

def Attn_MemberOp : Attn_Op<"member", [Pure]> {
  let summary = "whether a position is in a sequence's list of tokens";
  let arguments = (ins I64Attr:$number, StrAttr:$name, I32:$batch, I32:$position);
  let results = (outs I1:$value);
  let assemblyFormat = "$number $name `[` $batch `,` $position `]` attr-dict";
}

def Attn_CongruentOp : Attn_Op<"congruent", [Pure]> {
  let summary = "whether a key and a query are a multiple of `step` apart";
  let description = [{
    `(k - q) % step == 0`: the condition that the variant's `dilation` stands
    for. Where a tile program walks the keys of a query's residue class it is
    true by construction.
  }];
  let arguments = (ins I32:$k, I32:$q, I32:$step);
  let results = (outs I1:$value);
  let assemblyFormat = "$k `,` $q `by` $step attr-dict";
}

//===----------------------------------------------------------------------===//
// The tile program
//===----------------------------------------------------------------------===//

def Attn_KernelOp : Attn_Op<"kernel", [Symbol, IsolatedFromAbove, NoTerminator,
                                       SingleBlock]> {
  let summary = "a tile program: what one work item does";
  let description = [{
    The region's argument is the number of the work item, an index. How items
    are spread over threads or blocks, and how the operands arrive, is the
    target's and the runtime's business. `item_groups`, `item_heads` and the
    plan's rows and split tell how many items a call has (runtime/attn_abi.h).
    With `merge` the program puts together what the items of splits stored: it
    runs after all of them, and its items are those of (batch, group).
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$item_groups,
                       I64Attr:$item_heads, Attn_PlanAttr:$plan,
                       UnitAttr:$merge);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
}

def Attn_TensorOp : Attn_Op<"operand", [Pure]> {
  let summary = "an operand of the call";
  let arguments = (ins Attn_OperandAttr:$which);
  let results = (outs Attn_Tensor:$tensor);
  let assemblyFormat = "$which attr-dict `:` qualified(type($tensor))";
}

def Attn_LengthOp : Attn_Op<"length", [Pure]> {
  let summary = "how many tokens a sequence of the batch has";
  let arguments = (ins Attn_OperandAttr:$which, Index:$batch);
  let results = (outs Index:$tokens);
  let assemblyFormat = "$which `[` $batch `]` attr-dict";
}

def Attn_ItemOp : Attn_Op<"item", [Pure, AttrSizedResultSegments]> {
  let summary = "which batch entry, group of heads and tile of rows an item is";
  let arguments = (ins Index:$item, I64Attr:$groups, I64Attr:$heads,
                       I64Attr:$rows,
                       OptionalAttr<DenseI64ArrayAttr>:$classes,
                       OptionalAttr<I64Attr>:$split_keys);
  let results = (outs Index:$batch, Index:$group, Index:$row,
                      Optional<I1>:$of_globals, Optional<Index>:$split,
                      Optional<I1>:$of_split);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $item `groups` $groups `heads` $heads `rows` $rows
    (`classes` $classes^)? (`splits_of` $split_keys^)? attr-dict
    (`globals` type($of_globals)^)?
    (`split` type($split)^ `,` type($of_split))?
  }];
  let description = [{
    Items are numbered batch first, then group, then tile; `row` is the first
    row of the tile. There are as many tiles as the longest sequence of the
    batch needs: `row` may lie beyond the rows of this one. `classes` tells of
    each group how many groups it is one of that are residue classes of the same
    heads: their tiles take turns, since the keys that they read lie between
    each other. With `of_globals`,
    after the tiles of all queries come those of the queries at listed
    positions, for which that is true and `row` counts listed ones. With
    `splits_of` a number of keys, after those come one item for each so many
    keys of the call, if it has more than that: `of_split` is then true, `split`
    the number of the item among them, and `row` 0.
  }];
}

def Attn_ListedOp : Attn_Op<"listed", [Pure]> {
  let summary = "how many positions below a limit a sequence's lists hold";
  let description = [{
    Lists of tokens taken together, each position counted once. Without a limit
    all of them.
  }];
  let arguments = (ins Index:$batch, Optional<Index>:$limit);
  let results = (outs Index:$count);
  let assemblyFormat = "`[` $batch `]` (`below` $limit^)? attr-dict";
}

def Attn_PickOp : Attn_Op<"pick", [Pure]> {
  let summary = "some of the positions in a sequence's lists";
  let description = [{
    Those numbered `first` to `end - 1` of all listed positions in ascending
    order; with `outside` `[from, to, step]` without those that are a multiple
    of `step` after `from` and before `to`. `count` is how many that are.
  }];
  let arguments = (ins Index:$batch, Index:$first, Index:$end,
                       Variadic<Index>:$outside);
  let results = (outs Attn_Positions:$positions, Index:$count);
  let hasVerifier = 1;
  let assemblyFormat = [{
    `[` $batch `,` $first `,` $end `]` (`outside` `[` $outside^ `]`)? attr-dict
    `:` qualified(type($positions))
  }];
}

def Attn_PositionOp : Attn_Op<"position", [Pure]> {
  let summary = "one of some positions";
  let arguments = (ins Attn_Positions:$positions, Index:$at);
  let results = (outs Index:$position);
  let assemblyFormat = "$positions `[` $at `]` attr-dict `:` qualified(type($positions))";
}

def Attn_ExtremesOp : Attn_Op<"extremes", [Pure]> {
  let summary = "the smallest and largest element along a dimension";
  let description = [{
    Of a parameter of integers (bool as 0 and 1) at `at`, where index `dim` runs
    from its value in `at` to `last`, both inclusive and clamped to the
    dimension. With `blocks`, of the blocks that these elements lie in.
  }];
  let arguments = (ins I64Attr:$number, StrAttr:$name, TypeAttr:$stored,
                       I64Attr:$dim, Variadic<Index>:$at, Index:$last,
                       UnitAttr:$blocks);
  let results = (outs Index:$min, Index:$max);
  let assemblyFormat = [{
    $number $name $stored `[` $at `]` `along` $dim `to` $last
    (`blocks` $blocks^)? attr-dict
  }];
}

def Attn_SinkOp : Attn_Op<"sink", [Pure]> {
  let summary = "the state of the softmax before any key, where there is a sink";
  let description = [{
    `max` is the sink's logit and `sum` 1; where the logit is -inf there is no
    sink and `sum` is 0. Row r is of head `head + (row + r) mod heads`.
  }];
  let arguments = (ins Index:$batch, Index:$group, Index:$head, Index:$row,
                       Index:$heads, Index:$q_len, Index:$kv_len);
  let results = (outs Attn_Tile:$max, Attn_Tile:$sum);
  let regions = (region AnyRegion:$logit);
  let hasVerifier = 1;
  let assemblyFormat = [{
    `batch` $batch `group` $group `rows_at` `[` $row `,` $heads `,` $head `]`
    `lengths` `[` $q_len `,` $kv_len `]` attr-dict `:`
    qualified(type($max)) `,` qualified(type($sum)) $logit
  }];
}

def Attn_TableOp : Attn_Op<"table", [Pure]> {
  let summary = "an element of a constant list";
  let arguments = (ins DenseI64ArrayAttr:$values, Index:$at);
  let results = (outs Index:$value);
  let assemblyFormat = "$values `[` $at `]` attr-dict";
}

def Attn_LoadRowsOp : Attn_Op<"load_rows", [Pure, AttrSizedOperandSegments]> {
  let summary = "rows of queries, each scaled: row r is a (query, head) pair";
  let description = [{
    Row `r` of the tile is query `(row + r) floordiv heads`, head
    `head + (row + r) mod heads`. Rows from `count` on are zero. With `class`
    `[first, step]` that is query number `first + step * (...)`. With `listed`
    the first of those positions is that of the query of row 0. `shift` is the
    position of query 0.
  }];
  let arguments = (ins Attn_Tensor:$source, Index:$batch, Index:$head, Index:$row,
                       Index:$count, Index:$heads,
                       Variadic<Index>:$residue,
                       Optional<Attn_Positions>:$listed, Optional<Index>:$shift,
                       F64Attr:$scale);
  let results = (outs Attn_Tile:$tile);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $source `[` $batch `,` $head `,` $row `]` `count` $count `heads` $heads
    (`class` `[` $residue^ `]`)?
    (`listed` $listed^ `:` qualified(type($listed)))? (`shift` $shift^)?
    `scale` $scale attr-dict `:` qualified(type($source)) `->` qualified(type($tile))
  }];
}

def Attn_LoadKeysOp : Attn_Op<"load_keys", [Pure, AttrSizedOperandSegments]> {
  let summary = "rows of keys or values: consecutive tokens of one kv head";
  let arguments = (ins Attn_Tensor:$source, Index:$batch, Index:$head,
                       Index:$token, Index:$count, Optional<Index>:$step,
                       Optional<Attn_Positions>:$listed);
  let results = (outs Attn_Tile:$tile);
  let description = [{
    Tokens from `count` on do not exist: no op may look at them. With `step` the
    tokens are that far apart; with `listed` they are at those positions.
    Elements are as they are stored; what reads the tile takes them as f32.
  }];
  let assemblyFormat = [{
    $source `[` $batch `,` $head `,` $token `]` `count` $count
    (`step` $step^)? (`listed` $listed^ `:` qualified(type($listed)))? attr-dict
    `:` qualified(type($source)) `->` qualified(type($tile))
  }];
}

def Attn_FillOp : Attn_Op<"fill", [Pure]> {
  let summary = "a tile with one value in every element";
  let arguments = (ins F32Attr:$value);
  let results = (outs Attn_Tile:$tile);
  let assemblyFormat = "$value attr-dict `:` qualified(type($tile))";
}

def Attn_ScoresOp : Attn_Op<"scores", [Pure, AttrSizedOperandSegments]> {
  let summary = "rows by keys: dot products; -inf where the mask is false";
  let description = [{
    `rows_at` and `keys_at` tell the true positions of the tile: query position
    of row r is `(row + r) floordiv heads + shift`, key position of column c is
    `key + c`; with `step`, `step * ((row + r) floordiv heads) + shift` and
    `key + step * c`. Rows and keys that were loaded from listed positions are
    at those. With an empty mask region every pair counts. Columns from `count`
    on do not exist. With a mask, a target may leave out whatever the analysis
    of the region rules out; `loads` are the smallest and the largest value of
    each of the region's loads, by their number there.
  }];
  let arguments = (ins Attn_Tile:$q, Attn_Tile:$k, Index:$batch, Index:$group,
                       Index:$head, Index:$row, Index:$rows, Index:$heads,
                       Index:$shift, Index:$key, Index:$count,
                       Index:$q_len, Index:$kv_len, Optional<Index>:$step,
                       Variadic<Index>:$loads);
  let results = (outs Attn_Tile:$scores);
  let regions = (region AnyRegion:$score, AnyRegion:$mask);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $q `,` $k `batch` $batch `group` $group
    `rows_at` `[` $row `,` $rows `,` $heads `,` $head `,` $shift `]`
    `keys_at` `[` $key `,` $count `]` `lengths` `[` $q_len `,` $kv_len `]`
    (`step` $step^)? (`loads` `[` $loads^ `]`)? attr-dict `:` qualified(type($q)) `,` qualified(type($k)) `->`
    qualified(type($scores)) (`score` $score^)? `mask` $mask
  }];
}

def Attn_SoftmaxOp : Attn_Op<"softmax", [Pure]> {
  let summary = "one step of the online softmax over the keys of a tile";
  let description = [{
    `new_max = max(max, rowmax(scores))`, `weights = exp(scores - new_max)`,
    `decay = exp(max - new_max)`, `new_sum = sum * decay + rowsum(weights)`.
    The weight of a masked pair is 0 and is told apart from a weight that
    underflows, so that `accumulate` never multiplies a masked value.
  }];
  let arguments = (ins Attn_Tile:$scores, Attn_Tile:$max, Attn_Tile:$sum);
  let results = (outs Attn_Tile:$weights, Attn_Tile:$new_max, Attn_Tile:$new_sum,
                      Attn_Tile:$decay);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $scores `,` $max `,` $sum attr-dict `:` qualified(type($scores)) `,`
    qualified(type($max)) `,` qualified(type($sum)) `->` qualified(type($weights)) `,`
    qualified(type($new_max)) `,` qualified(type($new_sum)) `,` qualified(type($decay))
  }];
}

def Attn_AccumulateOp : Attn_Op<"accumulate", [Pure]> {
  let summary = "acc * decay + weights x values";
  let arguments = (ins Attn_Tile:$acc, Attn_Tile:$decay, Attn_Tile:$weights,
                       Attn_Tile:$values);
  let results = (outs Attn_Tile:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $acc `,` $decay `,` $weights `,` $values attr-dict `:` qualified(type($acc)) `,`
    qualified(type($decay)) `,` qualified(type($weights)) `,` qualified(type($values))
    `->` qualified(type($result))
  }];
}

def Attn_FinishOp : Attn_Op<"finish", [Pure]> {
  let summary = "the output and the log of the sum of exponentials";
  let description = [{
    `out = acc / sum`, `lse = max + ln(sum)`; where the sum is zero (no key was
    allowed) `out = 0` and `lse = -inf`.
  }];
  let arguments = (ins Attn_Tile:$acc, Attn_Tile:$max, Attn_Tile:$sum);
  let results = (outs Attn_Tile:$out, Attn_Tile:$lse);
  let assemblyFormat = [{
    $acc `,` $max `,` $sum attr-dict `:` qualified(type($acc)) `,`
    qualified(type($max)) `,` qualified(type($sum)) `->` qualified(type($out)) `,`
    qualified(type($lse))
  }];
}

def Attn_StoreRowsOp : Attn_Op<"store_rows", [AttrSizedOperandSegments]> {
  let summary = "stores `count` rows of the output, and LSE where it is wanted";
  let description = [{
    Rows as in `load_rows`. With `but_members_of`, rows whose queries are at
    positions in one of these lists of tokens (by number) are left alone.
  }];
  let arguments = (ins Attn_Tile:$out, Attn_Tile:$lse, Attn_Tensor:$target,
                       Index:$batch, Index:$head, Index:$row, Index:$count,
                       Index:$heads, Variadic<Index>:$residue,
                       Optional<Attn_Positions>:$listed, Optional<Index>:$shift,
                       OptionalAttr<DenseI64ArrayAttr>:$but_members_of);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $out `,` $lse `,` $target `[` $batch `,` $head `,` $row `]` `count` $count
    `heads` $heads (`class` `[` $residue^ `]`)?
    (`listed` $listed^ `:` qualified(type($listed)))? (`shift` $shift^)? (`but_members_of` $but_members_of^)? attr-dict `:` qualified(type($out)) `,` qualified(type($lse)) `,`
    qualified(type($target))
  }];
}

def Attn_StoreStateOp : Attn_Op<"store_state"> {
  let summary = "stores the state of the softmax after the keys of a split";
  let description = [{
    For `load_state` of the program that merges. Rows from `count` on do not
    exist.
  }];
  let arguments = (ins Attn_Tile:$max, Attn_Tile:$sum, Attn_Tile:$acc,
                       Index:$batch, Index:$group, Index:$split, Index:$count);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $max `,` $sum `,` $acc `to` `[` $batch `,` $group `,` $split `]`
    `count` $count attr-dict `:` qualified(type($max)) `,`
    qualified(type($sum)) `,` qualified(type($acc))
  }];
}

def Attn_LoadStateOp : Attn_Op<"load_state"> {
  let summary = "the state of the softmax that a split's item stored";
  let description = [{
    Rows from `count` on are as before any key.
  }];
  let arguments = (ins Index:$batch, Index:$group, Index:$split, Index:$count);
  let results = (outs Attn_Tile:$max, Attn_Tile:$sum, Attn_Tile:$acc);
  let hasVerifier = 1;
  let assemblyFormat = [{
    `[` $batch `,` $group `,` $split `]` `count` $count attr-dict `:`
    qualified(type($max)) `,` qualified(type($sum)) `,` qualified(type($acc))
  }];
}

def Attn_CombineOp : Attn_Op<"combine", [Pure]> {
  let summary = "the state of the softmax after the keys of two states";
  let description = [{
    `new_max = max(max, other_max)`; both sums and accumulators decay by
    `exp(own max - new_max)`, as in `softmax` and `accumulate`, and are added
    up. A side that has seen no key changes nothing.
  }];
  let arguments = (ins Attn_Tile:$max, Attn_Tile:$sum, Attn_Tile:$acc,
                       Attn_Tile:$other_max, Attn_Tile:$other_sum,
                       Attn_Tile:$other_acc);
  let results = (outs Attn_Tile:$new_max, Attn_Tile:$new_sum,
                      Attn_Tile:$new_acc);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $max `,` $sum `,` $acc `with` $other_max `,` $other_sum `,` $other_acc
    attr-dict `:` qualified(type($max)) `,` qualified(type($sum)) `,`
    qualified(type($acc)) `,` qualified(type($other_max)) `,`
    qualified(type($other_sum)) `,` qualified(type($other_acc)) `->`
    qualified(type($new_max)) `,` qualified(type($new_sum)) `,`
    qualified(type($new_acc))
  }];
}

#endif

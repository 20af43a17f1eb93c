//===- tests/runtime/ParamsTest.cpp - Arguments, by name and shape --------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "ParamsSupport.h"
#include <algorithm>
#include <atomic>

namespace {

/// A call of a variant with one parameter of each kind, all given rightly.
struct Everything {
  Tensor<float> slope{{kHeads}};
  Tensor<int32_t> window{std::vector<int64_t>{}};
  Tensor<int8_t> seen{{2, 7}};
  Tensor<int64_t> marks{{2, 3}, {0, 6, -1, 2, 2, 2}};
  Tensor<float> table{{kKvHeads, 3, 5}};
  ParamCall call{
      {declare("slope", ATTN_F32, {kHead}), declare("window", ATTN_I32, {}),
       declare("seen", ATTN_BOOL, {kBatch, kToken}), declareTokens("marks"),
       declare("table", ATTN_F32, {kKvHead, -3, kQuery})},
      2,
      5,
      7};

  Everything() {
    call.give("table", &table); // not in the order of the declarations
    call.give("slope", &slope);
    call.give("marks", &marks);
    call.give("window", &window);
    call.give("seen", &seen);
  }
  /// The tensor that was given for a name.
  DLTensor &of(const char *name) {
    for (attn_argument &argument : call.arguments)
      if (!strcmp(argument.name, name))
        return *const_cast<DLTensor *>(argument.value);
    abort();
  }
};

struct BadInput {
  const char *what;
  std::function<void(Everything &)> change;
  std::vector<std::string> words;
};

std::vector<BadInput> badInputs() {
  static int64_t strides[3], shape[3];
  return {
      {"missing",
       [](auto &e) { e.call.arguments.pop_back(); },
       {"parameter 'seen' is missing",
        "variant 'demo' has: slope, window, seen, marks, table"}},
      {"unknown",
       [](auto &e) { e.call.give("slop", &e.slope); },
       {"parameter 'slop' is unknown", "has: slope, window"}},
      {"twice",
       [](auto &e) { e.call.give("slope", &e.slope); },
       {"parameter 'slope' is given twice"}},
      {"no name",
       [](auto &e) { e.call.arguments[1].name = nullptr; },
       {"parameter 1 of the call has no name", "has: slope"}},
      {"no tensor",
       [](auto &e) { e.call.arguments[1].value = nullptr; },
       {"parameter 'slope' has no tensor"}},
      {"device",
       [](auto &e) { e.slope.dl.device.device_type = kDLCUDA; },
       {"parameter 'slope' is on CUDA device 0, must be on the CPU"}},
      {"type",
       [](auto &e) { e.slope.dl.dtype = {kDLFloat, 16, 1}; },
       {"parameter 'slope'", "type f16, must be f32"}},
      {"wide",
       [](auto &e) { e.window.dl.dtype.bits = 64; },
       {"parameter 'window'", "type i64, must be i32"}},
      {"not bool",
       [](auto &e) { e.seen.dl.dtype = {kDLFloat, 8, 1}; },
       {"parameter 'seen'", "type f8, must be bool (or u8)"}},
      {"bool of 16 bits",
       [](auto &e) { e.seen.dl.dtype = {6, 16, 1}; },
       {"parameter 'seen'", "type bool16, must be bool (or u8)"}},
      {"list of floats",
       [](auto &e) { e.marks.dl.dtype = {kDLFloat, 64, 1}; },
       {"parameter 'marks'", "type f64, must be i32 or i64"}},
      {"list of vectors",
       [](auto &e) { e.marks.dl.dtype.lanes = 2; },
       {"parameter 'marks'", "type i64x2"}},
      {"scalar of rank 1",
       [](auto &e) {
         shape[0] = 1;
         e.window.dl.ndim = 1;
         e.window.dl.shape = shape;
       },
       {"parameter 'window' has 1 dimensions, must have 0"}},
      {"rank",
       [](auto &e) { e.slope.dl.ndim = 0; },
       {"parameter 'slope' has 0 dimensions, must have 1"}},
      {"rank of a list",
       [](auto &e) { e.marks.dl.ndim = 1; },
       {"parameter 'marks' has 1 dimensions, must have 2"}},
      {"no shape",
       [](auto &e) { e.slope.dl.shape = nullptr; },
       {"parameter 'slope' has no shape"}},
      {"heads",
       [](auto &e) { e.slope.shape[0] = 3; },
       {"parameter 'slope', dimension 0 (heads)",
        "is 3, must be 4 (heads of the variant) or 1"}},
      {"kv_heads",
       [](auto &e) { e.table.shape[0] = 4; },
       {"'table', dimension 0 (kv_heads)",
        "is 4, must be 2 (kv_heads of the variant) or 1"}},
      {"constant",
       [](auto &e) { e.table.shape[1] = 2; },
       {"'table', dimension 1 (constant)", "must be 3 (as declared) or 1"}},
      {"queries",
       [](auto &e) { e.table.shape[2] = 7; },
       {"'table', dimension 2 (queries)", "is 7, must be 5 (as in 'q') or 1"}},
      {"batch",
       [](auto &e) { e.seen.shape[0] = 3; },
       {"'seen', dimension 0 (batch)", "must be 2 (as in 'q') or 1"}},
      {"tokens",
       [](auto &e) { e.seen.shape[1] = 5; },
       {"'seen', dimension 1 (tokens)",
        "must be 7 (as many as keys in 'k') or 1"}},
      {"tokens, queries count",
       [](auto &e) {
         e.call.kernel.flags = ATTN_KERNEL_TOP_LEFT;
         e.call.call.q_len = 9;
         e.table.shape[2] = 1;
       },
       {"'seen', dimension 1 (tokens)", "is 7, must be 9 (the queries"}},
      {"empty",
       [](auto &e) { e.slope.shape[0] = 0; },
       {"'slope', dimension 0 (heads)", "is 0, must be 4"}},
      {"negative",
       [](auto &e) { e.slope.shape[0] = -4; },
       {"'slope', dimension 0", "is -4, must not be negative"}},
      {"batch of lists",
       [](auto &e) { e.marks.shape[0] = 3; },
       {"'marks', dimension 0 (batch)", "is 3, must be 2 (as in 'q') or 1"}},
      {"endless list",
       [](auto &e) {
         strides[0] = strides[1] = 0;
         e.marks.dl.strides = strides;
         e.marks.shape[1] = INT64_C(1) << 31;
       },
       {"'marks', dimension 1 (list)", "is 2147483648, at most 2147483647"}},
      {"endless dimension",
       [](auto &e) { e.call.call.q_len = e.table.shape[2] = INT64_C(1) << 31; },
       {"'table', dimension 2 (queries)", "at most 2147483647"}},
      {"no data",
       [](auto &e) { e.window.dl.data = nullptr; },
       {"parameter 'window' has no data"}},
      {"alignment",
       [](auto &e) { e.window.dl.byte_offset = 2; },
       {"parameter 'window'", "aligned to its elements of 4 bytes"}},
      {"address",
       [](auto &e) { e.slope.dl.byte_offset = UINT64_MAX; },
       {"parameter 'slope': byte_offset", "outside the address space"}},
      {"stride",
       [](auto &e) {
         strides[0] = INT64_MAX / 2;
         e.slope.dl.strides = strides;
       },
       {"parameter 'slope', dimension 0", "reaches outside the address space"}},
      {"position",
       [](auto &e) { e.marks.data[4] = 7; },
       {"parameter 'marks': the value is 7 at [1, 1]",
        "must be below 7, the number of positions of sequence 1"}},
      {"huge position",
       [](auto &e) { e.marks.data[0] = INT64_MAX; },
       {"'marks': the value is 9223372036854775807 at [0, 0]"}},
      {"position past a sequence's own end",
       [](auto &e) { e.call.setLens({}, {6, 7}); },
       {"'marks': the value is 6 at [0, 1]", "must be below 6",
        "of sequence 0"}},
      {"a list for all past the shortest sequence's end",
       [](auto &e) {
         e.marks.shape[0] = 1;
         e.call.setLens({}, {7, 4});
       },
       {"'marks': the value is 6 at [0, 1]", "must be below 4",
        "of sequence 1"}},
  };
}

} // namespace

TEST(Params, BadInputsAreRefusedByName) {
  for (const BadInput &bad : badInputs()) {
    SCOPED_TRACE(bad.what);
    Everything e;
    bad.change(e);
    const attn_call before = e.call.call;
    EXPECT_EQ(e.call.fill(), ATTN_INVALID_ARGUMENT);
    EXPECT_EQ(e.call.error.code, ATTN_INVALID_ARGUMENT);
    expectWords(e.call.error, bad.words);
    EXPECT_EQ(memcmp(&e.call.call, &before, sizeof before), 0);
  }
}

TEST(Params, GoodInputsAreLaidOut) {
  Everything e;
  e.slope.fill(1);
  e.window.data[0] = 4096;
  e.table.fill(2);
  ASSERT_EQ(e.call.fill(), ATTN_OK) << e.call.error.text;
  EXPECT_STREQ(e.call.error.text, "");
  EXPECT_EQ(e.call[0].data, e.slope.data.data());
  EXPECT_EQ(e.call[0].extent[0], kHeads);
  EXPECT_EQ(e.call[0].stride[0], 1);
  EXPECT_EQ(*static_cast<const int32_t *>(e.call[1].data), 4096);
  EXPECT_EQ(e.call[2].stride[0], 7);
  const auto *marks = static_cast<const uint8_t *>(e.call[3].data);
  EXPECT_EQ(e.call[3].extent[1], 7);
  EXPECT_EQ(std::vector<uint8_t>(marks, marks + 14),
            (std::vector<uint8_t>{1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(e.call[4].data, e.table.data.data());
  EXPECT_EQ(e.call[4].extent[1], 3);
  for (size_t i = 0; i < 5; ++i)
    EXPECT_EQ(e.call[i].blocks, nullptr);
  // Nothing asked for them.
  EXPECT_EQ(e.call.call.globals, nullptr);
  EXPECT_EQ(e.call.call.max_globals, 0);
}

// An extent of 1 stands for any, and every type of bool is one.
TEST(Params, Broadcasts) {
  for (DLDataType type : {DLDataType{6, 8, 1}, DLDataType{kDLUInt, 8, 1},
                          DLDataType{kDLInt, 8, 1}}) {
    Everything e;
    e.seen.dl.dtype = type;
    for (DLTensor *t : {&e.seen.dl, &e.table.dl, &e.slope.dl})
      std::fill_n(t->shape, t->ndim, 1);
    ASSERT_EQ(e.call.fill(), ATTN_OK) << e.call.error.text;
    EXPECT_EQ(e.call[2].extent[1], 7);
    for (size_t i : {0, 2, 4})
      for (int64_t stride : e.call[i].stride)
        EXPECT_EQ(stride, 0);
  }
}

TEST(Params, HalvesAreTheirOwnTypes) {
  for (auto [type, code] :
       {std::pair{ATTN_F16, kDLFloat}, {ATTN_BF16, kDLBfloat}}) {
    ParamCall call({declare("x", type, {kHead})}, 1, 1, 1);
    Tensor<int16_t> values({kHeads});
    call.give("x", &values);
    EXPECT_EQ(call.check(), ATTN_INVALID_ARGUMENT);
    values.dl.dtype = {uint8_t(code), 16, 1};
    EXPECT_EQ(call.check(), ATTN_OK) << call.error.text;
    values.dl.byte_offset = 1;
    EXPECT_EQ(call.check(), ATTN_INVALID_ARGUMENT);
    expectWords(call.error, {"elements of 2 bytes"});
  }
}

// Most dimensions that there are, and a scalar whose shape and strides are
// absent.
TEST(Params, Ranks) {
  ParamCall call(
      {declare("all", ATTN_I32,
               {kBatch, kHead, kKvHead, kQuery, kKey, kToken, -2, -3}),
       declare("one", ATTN_F32, {})},
      2, 1, 3);
  Tensor<int32_t> all({2, kHeads, kKvHeads, 1, 3, 3, 2, 3});
  Tensor<float> one(std::vector<int64_t>{});
  one.dl.shape = nullptr;
  call.give("all", &all);
  call.give("one", &one);
  ASSERT_EQ(call.fill(), ATTN_OK) << call.error.text;
  EXPECT_EQ(call[0].stride[0], 4 * 2 * 9 * 6);
  EXPECT_EQ(call[0].stride[3], 0);
  EXPECT_EQ(call[0].stride[7], 1);
}

TEST(Params, NoneAndNull) {
  ParamCall none({}, 1, 2, 3);
  Tensor<float> x({1});
  ASSERT_EQ(none.fill(), ATTN_OK) << none.error.text;
  EXPECT_EQ(none.bytes, 0u);
  EXPECT_EQ(none.call.params, nullptr);
  none.give("x", &x);
  EXPECT_EQ(none.check(), ATTN_INVALID_ARGUMENT);
  EXPECT_STREQ(none.error.text,
               "parameter 'x' is unknown; variant 'demo' has none");
  attn_call &call = none.call;
  size_t bytes = 0;
  attn_kernel &kernel = none.kernel;
  EXPECT_EQ(attn_params_check(&kernel, nullptr, 3, &call, &bytes, nullptr),
            ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(attn_params_check(nullptr, nullptr, 0, &call, &bytes, nullptr),
            ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(attn_params_check(&kernel, nullptr, 0, nullptr, &bytes, nullptr),
            ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(attn_params_check(&kernel, nullptr, 0, &call, nullptr, nullptr),
            ATTN_INVALID_ARGUMENT);
  Everything e;
  EXPECT_EQ(attn_params_fill(&e.call.kernel, e.call.arguments.data(), 5,
                             &e.call.call, nullptr, &e.call.error),
            ATTN_INVALID_ARGUMENT);
  expectWords(e.call.error, {"memory is NULL"});
  e.call.call.q_len = -1;
  EXPECT_EQ(e.call.check(), ATTN_INVALID_ARGUMENT);
  expectWords(e.call.error, {"q_len -1"});
}

// Arrays without elements can be read all the same, and their blocks are empty.
TEST(Params, EmptyArraysHaveSomethingToRead) {
  ParamCall call(
      {declare("doc", ATTN_I32, {kBatch, kToken}, ATTN_PARAM_NONZERO, 1),
       declare("bias", ATTN_F32, {kHead, kKey}, ATTN_PARAM_POSITIVE),
       declareTokens("marks", 1)},
      2, 5, 0);
  Tensor<int32_t> doc({2, 0}), marks({2, 1}, {-1, -1});
  Tensor<float> bias({kHeads, 1}, std::vector<float>(4, -1.f));
  call.kernel.flags = ATTN_KERNEL_GLOBALS;
  doc.dl.data = nullptr;
  call.give("doc", &doc);
  call.give("bias", &bias);
  call.give("marks", &marks);
  ASSERT_EQ(call.fill(), ATTN_OK) << call.error.text;
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_NE(call[i].data, nullptr);
    EXPECT_EQ(call[i].stride[0], 0);
    EXPECT_EQ(call[i].stride[1], 0);
    EXPECT_EQ(call[i].extent[1], 0);
  }
  EXPECT_EQ(*static_cast<const int32_t *>(call[0].data), 1);
  EXPECT_EQ(*static_cast<const float *>(call[1].data), 1);
  EXPECT_EQ(*static_cast<const uint8_t *>(call[2].data), 0);
  for (size_t i : {0, 2}) {
    EXPECT_EQ(call[i].blocks[0], INT32_MAX);
    EXPECT_EQ(call[i].blocks[1], INT32_MIN);
  }
  EXPECT_EQ(call.call.max_globals, 0);
  EXPECT_EQ(call.call.global_counts[1], 0);
}

TEST(Params, MemoryThatCannotBeCounted) {
  ParamCall call({declare("x", ATTN_I32, {kKey, kKey, kKey}, 0, 0)}, 1, 1,
                 ATTN_MAX_TOKENS);
  int64_t n = ATTN_MAX_TOKENS, shape[] = {n, n, n}, strides[] = {1, 1, 1};
  Tensor<int32_t> x({1});
  x.dl.ndim = 3;
  x.dl.shape = shape;
  x.dl.strides = strides;
  call.give("x", &x);
  EXPECT_EQ(call.check(), ATTN_OUT_OF_MEMORY);
  expectWords(call.error, {"parameter 'x'", "more memory than can be counted"});
}

TEST(Params, WorkItems) {
  ParamCall p({}, 3, 10, 100);
  attn_kernel &kernel = p.kernel;
  kernel.item_groups = 2;
  kernel.item_heads = 3;
  kernel.item_rows = 4;
  EXPECT_EQ(attn_count_items(&kernel, &p.call), 3 * 2 * 8);
  p.call.max_globals = 5;
  EXPECT_EQ(attn_count_items(&kernel, &p.call), 3 * 2 * 8);
  kernel.flags = ATTN_KERNEL_GLOBALS;
  EXPECT_EQ(attn_count_items(&kernel, &p.call), 3 * 2 * (8 + 4));
  // Keys of the call (100) are split where they are more than a split.
  for (auto [keys, splits] :
       {std::pair{1, 100}, {33, 4}, {50, 2}, {99, 2}, {100, 0}, {101, 0}}) {
    kernel.split_keys = keys;
    EXPECT_EQ(attn_count_items(&kernel, &p.call), 3 * 2 * (8 + 4 + splits))
        << keys;
  }
  kernel.split_keys = 0;
  p.call.max_globals = 0;
  EXPECT_EQ(attn_count_items(&kernel, &p.call), 3 * 2 * 8);
  p.call.q_len = 0;
  EXPECT_EQ(attn_count_items(&kernel, &p.call), 0);
  p.call.q_len = INT64_MAX / 2;
  EXPECT_EQ(attn_count_items(&kernel, &p.call), -1);
  p.call.q_len = 1;
  p.call.max_globals = INT64_MAX / 2;
  EXPECT_EQ(attn_count_items(&kernel, &p.call), -1);
  p.call.max_globals = 0;
  // The last number that counts, and the next one.
  kernel.item_groups = 1;
  p.call.batch = INT64_MAX / 2;
  EXPECT_EQ(attn_count_items(&kernel, &p.call), INT64_MAX / 2);
  ++p.call.batch;
  EXPECT_EQ(attn_count_items(&kernel, &p.call), -1);
  p.call.batch = 0;
  EXPECT_EQ(attn_count_items(&kernel, &p.call), 0);
  p.call.batch = 1;
  kernel.heads = 0;
  EXPECT_EQ(attn_count_items(&kernel, &p.call), 0);
}

TEST(Params, DamagedDescriptorsAreRefused) {
  using Change = std::function<void(attn_kernel &, attn_param_info *)>;
  const std::vector<std::pair<const char *, Change>> table = {
      {"impossible list of parameters",
       [](auto &k, auto *) { k.params = nullptr; }},
      {"parameter count", [](auto &k, auto *) { k.n_params = -1; }},
      {"impossible set of flags", [](auto &k, auto *) { k.flags = 4; }},
      {"parameter 0 has no name", [](auto &, auto *p) { p->name = nullptr; }},
      {"parameter 0 has no name", [](auto &, auto *p) { p->name = ""; }},
      {"parameter 1 has the name of another",
       [](auto &, auto *p) { p[1].name = p[0].name; }},
      {"parameter 0 has an impossible type",
       [](auto &, auto *p) { p->type = 6; }},
      {"parameter 0 has an impossible type",
       [](auto &, auto *p) { p->type = -1; }},
      {"parameter 0 has an impossible rank",
       [](auto &, auto *p) { p->rank = 9; }},
      {"parameter 0 has an impossible rank",
       [](auto &, auto *p) { p->rank = -1; }},
      {"impossible dimension", [](auto &, auto *p) { p->dims[0] = 7; }},
      {"impossible dimension", [](auto &, auto *p) { p->constants[1] = -1; }},
      {"impossible dimension",
       [](auto &, auto *p) { p->constants[1] = INT64_C(1) << 31; }},
      {"parameter 1 has dimensions that a list of tokens",
       [](auto &, auto *p) { p[1].rank = 1; }},
      {"parameter 1 has dimensions that a list of tokens",
       [](auto &, auto *p) { p[1].dims[1] = ATTN_DIM_KEYS; }},
      {"parameter 0 has flags", [](auto &, auto *p) { p->flags = 8; }},
      {"parameter 1 has flags",
       [](auto &, auto *p) { p[1].flags = ATTN_PARAM_NONZERO; }},
      {"impossible summary", [](auto &, auto *p) { p->summary_dim = 3; }},
      {"impossible summary", [](auto &, auto *p) { p->summary_dim = -2; }},
      {"impossible summary", [](auto &, auto *p) { p->summary_dim = 2; }},
      {"impossible summary",
       [](auto &, auto *p) {
         p->type = ATTN_F32;
         p->summary_dim = 0;
       }},
  };
  for (const auto &[words, change] : table) {
    attn_param_info infos[] = {declare("x", ATTN_I32, {kKey, -3, kBatch}),
                               declareTokens("t")};
    attn_kernel kernel = *plainKernel();
    kernel.params = infos;
    kernel.n_params = 2;
    const attn_kernel *list[] = {&kernel};
    attn_bundle *bundle = nullptr;
    attn_error error;
    ASSERT_EQ(attn_bundle_open_static(list, 1, &bundle, &error), ATTN_OK)
        << error.text;
    attn_bundle_close(bundle);
    change(kernel, infos);
    EXPECT_EQ(attn_bundle_open_static(list, 1, &bundle, &error),
              ATTN_BAD_BUNDLE);
    expectWords(error, {words});
    Call call(1, 2, 3);
    EXPECT_EQ(call.run(&kernel), ATTN_BAD_BUNDLE);
  }
}

/*--- Through attn_run ------------------------------------------------------*/

namespace {

std::atomic<int64_t> itemsRun;
std::atomic<int64_t> sumSeen;

/// Counts items, and looks at what the last parameter's first elements are.
void look(const attn_call *call, int64_t first, int64_t last, void *) {
  itemsRun += last - first;
  if (first)
    return;
  sumSeen = static_cast<const int32_t *>(call->params[0].data)[0];
  for (int64_t b = 0; b < call->batch; ++b)
    for (int64_t i = 0; i < call->global_counts[b]; ++i)
      sumSeen += 100 * call->globals[b * call->globals_stride + i];
}

/// Memory that may fail, and has to come back.
struct Memory {
  std::vector<size_t> open;
  size_t calls = 0, failAt = SIZE_MAX;
  attn_allocator allocator = {
      [](void *context, size_t bytes, size_t alignment) -> void * {
        auto *self = static_cast<Memory *>(context);
        void *p = nullptr;
        if (self->calls++ == self->failAt ||
            posix_memalign(&p, alignment, bytes))
          return nullptr;
        self->open.push_back(bytes);
        return p;
      },
      [](void *context, void *p, size_t bytes) {
        auto *self = static_cast<Memory *>(context);
        ASSERT_EQ(self->open.back(), bytes);
        self->open.pop_back();
        free(p);
      },
      this};
};

} // namespace

TEST(Params, RunGivesThemToTheKernel) {
  ParamCall p(
      {declare("w", ATTN_I32, {}, ATTN_PARAM_NONZERO), declareTokens("marks")},
      2, 0, 0);
  p.kernel.flags = ATTN_KERNEL_GLOBALS;
  p.kernel.run = look;
  Tensor<int32_t> w(std::vector<int64_t>{}),
      marks({2, 3}, {2, 0, 2, -1, 1, -1});
  Tensor<int64_t> kvLens({2}, {3, 2});
  w.data[0] = 5;
  p.give("marks", &marks);
  p.give("w", &w);
  Call call(2, 9, 3);
  call.tensors.params = p.arguments.data();
  call.tensors.n_params = p.arguments.size();
  call.tensors.kv_lens = &kvLens;
  Memory memory;
  call.options.allocator = &memory.allocator;
  itemsRun = sumSeen = 0;
  ASSERT_EQ(call.run(&p.kernel), ATTN_OK) << call.error.text;
  // Three items a head for the queries, one for at most two positions.
  EXPECT_EQ(itemsRun, 2 * kHeads * (3 + 1));
  EXPECT_EQ(sumSeen, 5 + 100 * (0 + 2 + 1));
  EXPECT_EQ(memory.calls, 2u); // parameters, scratch
  EXPECT_TRUE(memory.open.empty());

  // The lengths are the ones that count.
  kvLens.data[0] = 2;
  itemsRun = 0;
  EXPECT_EQ(call.run(&p.kernel), ATTN_INVALID_ARGUMENT);
  expectWords(call.error, {"'marks': the value is 2 at [0, 0]", "below 2"});
  kvLens.data[0] = 3;
  w.data[0] = 0;
  EXPECT_EQ(call.run(&p.kernel), ATTN_INVALID_ARGUMENT);
  EXPECT_STREQ(call.error.text, "parameter 'w': the value is 0, must not be 0 "
                                "(something is divided by it)");
  w.data[0] = 1;
  // Wrong is wrong however empty the call is.
  Call empty(0, 9, 3);
  empty.tensors.params = p.arguments.data();
  empty.tensors.n_params = 1;
  EXPECT_EQ(empty.run(&p.kernel), ATTN_INVALID_ARGUMENT);
  for (size_t failAt = 0; failAt < 2; ++failAt) {
    memory.calls = 0;
    memory.failAt = failAt;
    EXPECT_EQ(call.run(&p.kernel), ATTN_OUT_OF_MEMORY);
    EXPECT_TRUE(memory.open.empty());
  }
  EXPECT_EQ(itemsRun, 0);
}

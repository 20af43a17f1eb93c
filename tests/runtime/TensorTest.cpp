//===- tests/runtime/TensorTest.cpp - What attn_run accepts ---------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Support.h"
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <rapidcheck/gtest.h>

namespace {

/// Runs a call that was made wrong by `change`, expects the refusal to have
/// these words, and nothing to have been written.
void refuse(std::initializer_list<const char *> words,
            const std::function<void(Call &)> &change,
            int status = ATTN_INVALID_ARGUMENT) {
  Call call(2, 3, 5);
  change(call);
  EXPECT_EQ(call.run(plainKernel()), status) << call.error.text;
  for (const char *word : words)
    EXPECT_NE(strstr(call.error.text, word), nullptr)
        << "'" << word << "' is not in: " << call.error.text;
  for (float x : call.o.data)
    EXPECT_TRUE(std::isnan(x));
  for (float x : call.lse.data)
    EXPECT_TRUE(std::isnan(x));
}

DLTensor &tensorOf(Call &call, size_t index) {
  DLTensor *all[] = {&call.q.dl, &call.k.dl, &call.v.dl, &call.o.dl,
                     &call.lse.dl};
  return *all[index];
}
const char *const kNames[] = {"'q'", "'k'", "'v'", "'o'", "'lse'"};

} // namespace

TEST(Tensor, MissingOrForeign) {
  refuse({"'q' is missing"}, [](Call &c) { c.tensors.q = nullptr; });
  refuse({"'o' is missing"}, [](Call &c) { c.tensors.o = nullptr; });
  refuse({"'k'", "CUDA device 0", "the CPU (as 'q')"},
         [](Call &c) { c.k.dl.device.device_type = kDLCUDA; });
  refuse({"'v'", "no data"}, [](Call &c) { c.v.dl.data = nullptr; });
  refuse({"'v'", "no shape"}, [](Call &c) { c.v.dl.shape = nullptr; });
}

TEST(Tensor, TypesAreNamed) {
  refuse({"'q'", "type f64", "must be f32"},
         [](Call &c) { c.q.dl.dtype.bits = 64; });
  refuse({"'k'", "type f16", "must be f32"},
         [](Call &c) { c.k.dl.dtype.bits = 16; });
  refuse({"'v'", "type i32"}, [](Call &c) { c.v.dl.dtype.code = kDLInt; });
  refuse({"'o'", "type bf16"},
         [](Call &c) { c.o.dl.dtype = {kDLBfloat, 16, 1}; });
  refuse({"'lse'", "type f32x4"}, [](Call &c) { c.lse.dl.dtype.lanes = 4; });
  refuse({"'q'", "type code 77"}, [](Call &c) { c.q.dl.dtype.code = 77; });
}

// Any extent of any tensor, changed alone, is refused by name, unless it is one
// of those that define the call.
TEST(Tensor, EveryExtentCounts) {
  for (size_t t = 0; t < 5; ++t)
    for (int dim = 0; dim < (t == 4 ? 3 : 4); ++dim)
      for (int64_t change : {-1, 1, 3}) {
        std::string place = "dimension " + std::to_string(dim);
        // batch and queries are q's, keys are k's to say: the next one that
        // disagrees is named instead.
        if (t == 0 && (dim == 0 || dim == 2))
          refuse({dim == 0 ? "'k'" : "'o'", place.c_str(), "as in 'q'"},
                 [&](Call &c) { c.q.shape[dim] += change; });
        else if (t == 1 && dim == 2)
          refuse({"'v'", place.c_str(), "as in 'k'"},
                 [&](Call &c) { c.k.shape[dim] += change; });
        else
          refuse({kNames[t], place.c_str(), "must be"},
                 [&](Call &c) { tensorOf(c, t).shape[dim] += change; });
      }
  refuse({"'k'", "dimension 1 (kv heads)", "is 3", "must be 2",
          "kv_heads of the variant"},
         [](Call &c) { c.k.shape[1] = 3; });
  refuse({"'v'", "dimension 2", "is -1"}, [](Call &c) { c.v.shape[2] = -1; });
}

TEST(Tensor, Ranks) {
  for (size_t t = 0; t < 5; ++t)
    refuse({kNames[t], "dimensions, must have"},
           [&](Call &c) { --tensorOf(c, t).ndim; });
}

TEST(Tensor, Alignment) {
  for (size_t t = 0; t < 5; ++t)
    refuse({kNames[t], "aligned to its elements of 4 bytes"},
           [&](Call &c) { tensorOf(c, t).byte_offset = 2; });
  refuse({"'q'", "byte_offset", "address space"},
         [](Call &c) { c.q.dl.byte_offset = UINT64_MAX; });
}

TEST(Tensor, OutputNeedsAPlaceForEachElement) {
  for (int dim = 0; dim < 4; ++dim)
    refuse({"'o'", ("dimension " + std::to_string(dim)).c_str(), "stride is 0"},
           [&](Call &c) {
             c.o.strides = {36, 9, 3, 1};
             c.o.strides[size_t(dim)] = 0;
             c.o.dl.strides = c.o.strides.data();
           });
  refuse({"'lse'", "dimension 1 (heads)", "stride is 0"}, [&](Call &c) {
    c.lse.strides = {12, 0, 1};
    c.lse.dl.strides = c.lse.strides.data();
  });
  // Of an extent of 1 the stride does not matter.
  Call call(1, 1, 5);
  call.o.strides = {0, 3, 0, 1};
  call.o.dl.strides = call.o.strides.data();
  EXPECT_EQ(call.run(plainKernel()), 0) << call.error.text;
}

TEST(Tensor, StridesOutsideTheAddressSpace) {
  const int64_t huge[] = {INT64_MAX, INT64_MIN, INT64_MAX / 4, INT64_MIN / 4,
                          INT64_C(1) << 61};
  for (size_t t = 0; t < 5; ++t)
    for (int dim = 0; dim < (t == 4 ? 3 : 4); ++dim)
      for (int64_t stride : huge)
        refuse({kNames[t], ("dimension " + std::to_string(dim)).c_str(),
                "outside the address space"},
               [&](Call &c) {
                 static thread_local int64_t strides[4];
                 for (int64_t &s : strides)
                   s = 1;
                 strides[dim] = stride;
                 tensorOf(c, t).strides = strides;
               });
  // Compact tensors whose size does not fit.
  refuse({"'k'", "more elements than 64 bits"},
         [](Call &c) { c.k.shape[2] = INT64_MAX / 2; });
}

TEST(Tensor, Lengths) {
  Tensor<int32_t> three({3}), two({2}, {1, 2});
  Tensor<int64_t> wide({2}, {3, 3});
  Tensor<float> wrong({2});
  Tensor<int32_t> matrix({2, 1});
  refuse({"'q_lens'", "dimension 0", "is 3, must be 2"},
         [&](Call &c) { c.tensors.q_lens = &three; });
  refuse({"'kv_lens'", "type f32", "i32 or i64"},
         [&](Call &c) { c.tensors.kv_lens = &wrong; });
  refuse({"'kv_lens'", "2 dimensions"},
         [&](Call &c) { c.tensors.kv_lens = &matrix; });
  for (int32_t bad : {-1, 4, INT32_MAX, INT32_MIN}) {
    two.data[1] = bad;
    refuse({"'q_lens'", "entry 1", std::to_string(bad).c_str(), "0 to 3"},
           [&](Call &c) { c.tensors.q_lens = &two; });
  }
  for (int64_t bad :
       {INT64_C(-1), INT64_C(6), INT64_MAX, INT64_MIN, INT64_C(1) << 32}) {
    wide.data[0] = bad;
    refuse({"'kv_lens'", "entry 0", std::to_string(bad).c_str(), "0 to 5"},
           [&](Call &c) { c.tensors.kv_lens = &wide; });
  }
  refuse({"'kv_lens'", "no data"}, [&](Call &c) {
    two.dl.data = nullptr;
    c.tensors.kv_lens = &two;
  });
}

TEST(Tensor, EmptyCallsAreQuiet) {
  for (auto [batch, queries] : {std::pair<int64_t, int64_t>{0, 3}, {2, 0}}) {
    Call call(batch, queries, 5);
    for (size_t t = 0; t < 5; ++t)
      if (tensorOf(call, t).shape[0] == 0)
        tensorOf(call, t).data = nullptr;
    EXPECT_EQ(call.run(plainKernel()), 0) << call.error.text;
    EXPECT_STREQ(call.error.text, "");
  }
  // No keys: the kernel runs and writes.
  Call call(2, 3, 0);
  call.k.dl.data = call.v.dl.data = nullptr;
  ASSERT_EQ(call.run(plainKernel()), 0) << call.error.text;
  for (float x : call.o.data)
    EXPECT_EQ(x, 0);
  for (float x : call.lse.data)
    EXPECT_EQ(x, -INFINITY);
  // A wrong shape is wrong however empty the call is.
  refuse({"'k'", "dimension 3"}, [](Call &c) {
    c.q.shape[0] = c.k.shape[0] = c.v.shape[0] = c.o.shape[0] = c.lse.shape[0] =
        0;
    c.k.shape[3] = 6;
  });
}

TEST(Tensor, OptionsAreChecked) {
  refuse({"layout is 2"}, [](Call &c) { c.options.layout = 2; });
  refuse({"attn_tensors.struct_size is 0"},
         [](Call &c) { c.tensors.struct_size = 0; });
  refuse({"attn_run_options.struct_size is 0"},
         [](Call &c) { c.options.struct_size = 0; });
  static const attn_allocator half = {nullptr, nullptr, nullptr};
  refuse({"no alloc function"}, [](Call &c) { c.options.allocator = &half; });
  // A newer caller: unknown fields must be zero.
  struct {
    attn_run_options known;
    int64_t unknown;
  } newer = {};
  newer.known.struct_size = sizeof newer;
  Call call(1, 2, 3);
  EXPECT_EQ(attn_run(plainKernel(), &call.tensors, &newer.known, &call.error),
            0);
  newer.unknown = 1;
  EXPECT_EQ(attn_run(plainKernel(), &call.tensors, &newer.known, &call.error),
            ATTN_UNSUPPORTED);
  // An older caller's struct is shorter.
  newer.known.struct_size = offsetof(attn_run_options, allocator);
  EXPECT_EQ(attn_run(plainKernel(), &call.tensors, &newer.known, nullptr), 0);
}

// A caller from before there were parameters has a shorter struct.
TEST(Tensor, ParametersAreTheCallersToGive) {
  attn_bundle *bundle = openBundle("two");
  const attn_kernel *kernel = nullptr;
  Call call(1, 2, 3);
  ASSERT_EQ(attn_kernel_pick(bundle, "second", nullptr, &kernel, &call.error),
            0);
  Tensor<float> slope({kHeads});
  attn_argument argument = {"slope", &slope};
  call.tensors.params = &argument;
  call.tensors.n_params = 1;
  EXPECT_EQ(call.run(kernel), ATTN_OK) << call.error.text;
  call.tensors.struct_size = offsetof(attn_tensors, params);
  EXPECT_EQ(call.run(kernel), ATTN_INVALID_ARGUMENT);
  EXPECT_STREQ(call.error.text,
               "parameter 'slope' is missing; variant 'second' has: slope");
  EXPECT_EQ(call.run(plainKernel()), ATTN_OK) << call.error.text;
  attn_bundle_close(bundle);
}

TEST(Tensor, SequencesBeyondThirtyTwoBitPositions) {
  // A stride of zero over the tokens makes any length of K and V valid memory.
  int64_t strides[] = {3 * 4, 4, 0, 1};
  refuse({"'k'", "dimension 2 (tokens)", "1073741825", "at most 1073741824"},
         [&](Call &c) {
           for (DLTensor *t : {&c.k.dl, &c.v.dl}) {
             t->shape[2] = (int64_t{1} << 30) + 1;
             t->strides = strides;
           }
         });
}

TEST(Tensor, WorkThatCannotBeCounted) {
  attn_kernel kernel = *plainKernel();
  kernel.item_groups = INT64_MAX / 2;
  Call call(2, 3, 5);
  EXPECT_EQ(call.run(&kernel), ATTN_INVALID_ARGUMENT);
  EXPECT_NE(strstr(call.error.text, "more work than"), nullptr);
}

namespace {

/// Stores the rank-4 (or 3) compact tensor with other strides: dimensions in a
/// random order, gaps between, some backwards.
struct Scattered {
  std::vector<float> memory;
  std::vector<int64_t> shape, strides;
  DLTensor dl;

  Scattered(const Tensor<float> &from, bool tokensFirst) {
    std::vector<size_t> order(from.shape.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[*rc::gen::inRange<size_t>(0, i)]);
    strides.resize(order.size());
    int64_t stride = *rc::gen::inRange(1, 4), first = 0;
    for (size_t dim : order) {
      strides[dim] = stride;
      stride = stride * from.shape[dim] + *rc::gen::inRange(0, 3);
      if (*rc::gen::arbitrary<bool>()) {
        first += (from.shape[dim] - 1) * strides[dim];
        strides[dim] = -strides[dim];
      }
    }
    first += *rc::gen::inRange(0, 3);
    memory.assign(size_t(stride) + 8, -77.f);
    shape = from.shape;
    dl = from.dl;
    dl.data = memory.data();
    dl.byte_offset = uint64_t(first) * sizeof(float);
    visit([&](int64_t at, size_t i) { memory[size_t(at)] = from.data[i]; });
    if (tokensFirst) {
      std::swap(shape[1], shape[2]);
      std::swap(strides[1], strides[2]);
    }
    dl.shape = shape.data();
    dl.strides = strides.data();
  }

  /// Calls f(place in memory, index in the compact tensor).
  template <typename F> void visit(F f) const {
    size_t n = 1;
    for (int64_t extent : shape)
      n *= size_t(extent);
    for (size_t i = 0; i < n; ++i) {
      int64_t at = int64_t(dl.byte_offset / sizeof(float));
      size_t rest = i;
      for (size_t dim = shape.size(); dim-- > 0;) {
        at += int64_t(rest % size_t(shape[dim])) * strides[dim];
        rest /= size_t(shape[dim]);
      }
      f(at, i);
    }
  }
};

} // namespace

// Any layout of the same values gives the same bits, and what lies between the
// elements of the output stays.
RC_GTEST_PROP(TensorProperty, AnyStridesSameBits, ()) {
  int64_t batch = *rc::gen::inRange(1, 4), queries = *rc::gen::inRange(1, 8);
  int64_t keys = *rc::gen::inRange(1, 10);
  bool tokensFirst = *rc::gen::arbitrary<bool>();
  Call compact(batch, queries, keys);
  RC_ASSERT(compact.run(plainKernel()) == 0);

  Call call(batch, queries, keys);
  Scattered q(call.q, tokensFirst), k(call.k, tokensFirst),
      v(call.v, tokensFirst), o(call.o, tokensFirst),
      lse(call.lse, tokensFirst);
  std::vector<float> before = o.memory;
  call.tensors.q = &q.dl;
  call.tensors.k = &k.dl;
  call.tensors.v = &v.dl;
  call.tensors.o = &o.dl;
  call.tensors.lse = &lse.dl;
  call.options.layout = tokensFirst ? ATTN_BTHD : ATTN_BHTD;
  RC_ASSERT(call.run(plainKernel()) == 0);
  if (tokensFirst) {
    std::swap(o.shape[1], o.shape[2]);
    std::swap(o.strides[1], o.strides[2]);
    std::swap(lse.shape[1], lse.shape[2]);
    std::swap(lse.strides[1], lse.strides[2]);
  }
  o.visit([&](int64_t at, size_t i) {
    RC_ASSERT(o.memory[size_t(at)] == compact.o.data[i]);
    o.memory[size_t(at)] = -77;
  });
  for (float x : o.memory)
    RC_ASSERT(x == -77.f);
  lse.visit([&](int64_t at, size_t i) {
    RC_ASSERT(lse.memory[size_t(at)] == compact.lse.data[i]);
  });
}

// Shapes and types at random: an error that names a tensor, or a success with
// exactly the right shapes; never a crash.
RC_GTEST_PROP(TensorProperty, RandomDescriptorsNeverCrash, ()) {
  Call call(2, 3, 5);
  int64_t strides[5][4];
  bool changed = false;
  for (size_t t = 0; t < 5; ++t) {
    DLTensor &dl = tensorOf(call, t);
    int rank = dl.ndim;
    if (*rc::gen::inRange(0, 3) == 0) {
      int64_t &extent = dl.shape[*rc::gen::inRange(0, rank)];
      int64_t other =
          *rc::gen::element<int64_t>(0, 1, 2, 3, 4, 5, 1 << 20, INT64_MAX, -3);
      changed |= extent != other;
      extent = other;
    }
    if (*rc::gen::inRange(0, 4) == 0) {
      int64_t stride = 1;
      for (int i = rank; i-- > 0;) {
        strides[t][i] = stride;
        stride *= std::min<int64_t>(std::max<int64_t>(dl.shape[i], 1), 8);
      }
      int64_t &one = strides[t][*rc::gen::inRange(0, rank)];
      int64_t other =
          *rc::gen::element<int64_t>(INT64_MAX, INT64_MIN, INT64_C(1) << 62);
      one = other;
      changed = true;
      dl.strides = strides[t];
    }
    if (*rc::gen::inRange(0, 8) == 0) {
      dl.ndim = *rc::gen::inRange(-1, 7);
      changed |= dl.ndim != rank;
      if (dl.ndim > rank)
        dl.ndim = rank - 1;
    }
  }
  // A larger call whose tensors agree would be right, but for the memory.
  RC_PRE(!(call.k.shape[2] == call.v.shape[2] && call.k.shape[2] > 5));
  RC_PRE(!(call.q.shape[2] == call.o.shape[2] && call.q.shape[2] > 3));
  RC_PRE(!(call.q.shape[0] == call.k.shape[0] && call.q.shape[0] > 2));
  int status = call.run(plainKernel());
  if (!changed)
    RC_ASSERT(status == ATTN_OK);
  if (status != ATTN_OK) {
    RC_ASSERT(status == ATTN_INVALID_ARGUMENT);
    RC_ASSERT(strncmp(call.error.text, "tensor '", 8) == 0);
  }
}

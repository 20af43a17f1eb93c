//===- tests/kernels/MemoryTest.cpp - What is read and what is written ----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/kernels/KernelTest.h"
#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace attn::test {
namespace {

class Memory : public KernelTest {};

TEST_P(Memory, UnusedSlotsOfACache) {
  for (const char *mask : {"true", "causal", "causal && sliding(2)"})
    for (int64_t qLen : {1, 3, 20}) {
      Case c = caseOf(variant(4, 2, 64, fmt::format("mask = {}", mask)), 2,
                      qLen, 28);
      c.kvLens = {1, 25};
      Properties kernel = kernelOf(c.spec);
      EXPECT_EQ(kernel.sameForAnyPoison(c), "");
      for (Poison poison : {Poison::Nan, Poison::Infinity, Poison::Huge})
        for (uint64_t seed = 1; seed <= 5; ++seed)
          EXPECT_EQ(kernel.maskedKeysDoNotReach(c, seed, poison, true, true),
                    "");
    }
  Case one = caseOf(variant(4, 2, 64, ""), 2, 1, 8);
  one.kvLens = {1, 5};
  std::unique_ptr<Trial> trial = run(one);
  for (int64_t h = 0; h < 4; ++h)
    for (int64_t n = 0; n < 64; ++n)
      EXPECT_EQ(trial->buffers.o.bits({0, h, 0, n}),
                trial->buffers.v.bits({0, h / 2, 0, n}));
}

TEST_P(Memory, MaskedKeysInsidePartialTiles) {
  for (const char *mask :
       {"causal", "window(3)", "window(2, 2, 3)", "causal && sliding(7)",
        "k != 5 && causal", "k < 10 || q == k", "2 * k - q < 7"})
    for (auto [qLen, kvLen] :
         {std::pair<int64_t, int64_t>{40, 40}, {3, 70}, {100, 100}}) {
      Case c = caseOf(variant(3, 1, 16, fmt::format("mask = {}", mask)), 1,
                      qLen, kvLen);
      Properties kernel = kernelOf(c.spec);
      for (Poison poison : {Poison::Nan, Poison::Infinity, Poison::Huge})
        for (uint64_t seed = 1; seed <= 4; ++seed) {
          EXPECT_EQ(kernel.maskedKeysDoNotReach(c, seed, poison, true, false),
                    "");
          EXPECT_EQ(kernel.maskedKeysDoNotReach(c, seed, poison, false, true),
                    "");
        }
    }
}

/// All tensors but the LSE, whose strides differ in number.
std::vector<Layout *> tensorsOf(Case &c) { return {&c.q, &c.k, &c.v, &c.o}; }

TEST_P(Memory, AnyStrides) {
  Case plain = caseOf(variant(3, 3, 24, "mask = causal"), 2, 37, 41);
  std::vector<uint32_t> bits = run(plain)->buffers.outputBits();
  std::vector<std::pair<std::string, Case>> others;
  const auto add = [&](const std::string &name) -> Case & {
    others.emplace_back(name, plain);
    return others.back().second;
  };
  for (Layout *l : tensorsOf(add("heads inside tokens")))
    l->order = {0, 2, 1, 3};
  add("only V has heads inside tokens").v.order = {0, 2, 1, 3};
  for (Layout *l : tensorsOf(add("a slice of a fused buffer"))) {
    l->order = {0, 2, 1, 3};
    l->gap[1] = 2 * 3 * 24; // the other two tensors of the token
  }
  for (Layout *l : tensorsOf(add("columns outside tokens")))
    l->order = {0, 1, 3, 2};
  add("only K has columns outside tokens").k.order = {0, 1, 3, 2};
  add("only O has columns outside tokens").o.order = {0, 1, 3, 2};
  for (Layout *l : tensorsOf(add("padded rows")))
    l->gap[3] = 3;
  for (Layout *l : tensorsOf(add("every second element")))
    l->step = 2;
  for (size_t d = 0; d < 4; ++d) {
    for (Layout *l : tensorsOf(add(fmt::format("reversed dimension {}", d))))
      l->reversed[d] = true;
    for (Layout *l : tensorsOf(add(fmt::format("outermost dimension {}", d))))
      std::rotate(l->order.begin(), l->order.begin() + static_cast<long>(d),
                  l->order.begin() + static_cast<long>(d) + 1);
  }
  for (const auto &[name, c] : others)
    EXPECT_EQ(run(c)->buffers.outputBits(), bits) << name;

  // One head of K and V for all, as a stride of zero and as copies.
  Case shared = plain;
  shared.values.k = shared.values.v = [](const Index &at) {
    return static_cast<float>((at[2] * 7 + at[3]) % 13) / 13;
  };
  std::vector<uint32_t> copies = run(shared)->buffers.outputBits();
  shared.k.broadcast[1] = shared.v.broadcast[1] = true;
  EXPECT_EQ(run(shared)->buffers.outputBits(), copies);
}

TEST_P(Memory, OffsetsBeyondThirtyTwoBits) {
  // Nine rows (or heads, or entries) 2^28 elements apart: 8 GiB of addresses.
  constexpr int64_t far = int64_t{1} << 28, dim = 8;
  constexpr size_t bytes = (8 * far + dim + 1024) * sizeof(float);
  const auto map = [] {
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    return static_cast<float *>(memory);
  };
  float *k = map(), *v = map();
  for (int64_t n = 0; n < 9; ++n)
    for (int64_t c = 0; c < dim; ++c)
      v[n * far + c] = static_cast<float>(n);
  std::vector<float> q(9 * dim), o(9 * dim);
  for (int dimension = 0; dimension < 3; ++dimension) {
    Spec spec =
        dimension == 1 ? variant(9, 9, dim, "") : variant(1, 1, dim, "");
    std::string error;
    Code code = compileHere(spec, GetParam(), error);
    ASSERT_EQ(error, "");
    Job job;
    job.code = code;
    attn_call &call = job.call;
    call.q = q.data();
    call.k = k;
    call.v = v;
    call.o = o.data();
    call.batch = dimension == 0 ? 9 : 1;
    call.q_len = 1;
    call.kv_len = dimension == 2 ? 9 : 1;
    for (int64_t *stride : {call.k_stride, call.v_stride}) {
      stride[dimension] = far;
      stride[3] = 1;
    }
    for (int64_t *stride : {call.q_stride, call.o_stride}) {
      stride[0] = stride[1] = stride[2] = dim;
      stride[3] = 1;
    }
    ASSERT_EQ(executor->run({job})[0], "");
    for (int64_t n = 0; n < (dimension == 2 ? 1 : 9); ++n)
      for (int64_t c = 0; c < dim; ++c)
        EXPECT_EQ(o[static_cast<size_t>(n * dim + c)],
                  dimension == 2 ? 4.0F : static_cast<float>(n));
  }
  munmap(k, bytes);
  munmap(v, bytes);
}

TEST_P(Memory, SizesOfZero) {
  for (int64_t batch : {0, 2})
    for (int64_t qLen : {0, 3})
      for (int64_t kvLen : {0, 5})
        for (const char *mask : {"true", "causal", "window(1)"})
          expectRight(caseOf(variant(4, 2, 8, fmt::format("mask = {}", mask)),
                             batch, qLen, kvLen));
}

TEST_P(Memory, NothingIsReadPastTheEnds) {
  for (int64_t dim : {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33})
    for (int64_t heads : {1, 3}) {
      Spec spec = variant(heads, 1, dim, "mask = causal");
      Properties kernel = kernelOf(spec);
      for (int64_t qLen : {1, 2, 3, 5, 7, 9, 17})
        for (int64_t kvLen : {1, 2, 3, 5, 7, 9, 17})
          for (Placement placement : {Placement::End, Placement::Start}) {
            Case c = caseOf(spec, 1, qLen, kvLen);
            for (Layout *layout : tensorsOf(c))
              layout->placement = placement;
            c.lseLayout.placement = placement;
            c.kvLens = {kvLen};
            c.qLens = {qLen};
            ASSERT_EQ(kernel.matchesOracle(c), "") << describe(c);
          }
    }
}

TEST_P(Memory, UnequalWidthsArePreciselyBounded) {
  for (auto [qk, value] : {std::pair<int64_t, int64_t>{1, 40},
                           {40, 1},
                           {17, 3},
                           {3, 17},
                           {64, 63},
                           {65, 64},
                           {130, 7}}) {
    Spec spec = parseOne(fmt::format("attention test {{ heads = 2 kv_heads = 1 "
                                     "head_dim = {{ qk = {}, value = {} }} "
                                     "mask = window(9) }}",
                                     qk, value));
    for (int64_t length : {1, 13, 50})
      expectRight(caseOf(spec, 1, length, length));
  }
}

TEST_P(Memory, BasesOfElementAlignment) {
  for (int64_t dim : {46, 64, 66})
    for (int64_t gap : {0, 1}) {
      Case c = caseOf(variant(2, 1, dim, "mask = causal"), 1, 19, 50);
      for (Layout *layout : tensorsOf(c)) {
        layout->placement = Placement::Start; // the start of a page
        layout->gap[3] = gap;
        layout->after = 16;
      }
      std::vector<uint32_t> bits = run(c)->buffers.outputBits();
      for (int64_t before : {1, 2, 5, 9, 15}) {
        for (Layout *layout : tensorsOf(c))
          layout->before = before;
        EXPECT_EQ(run(c)->buffers.outputBits(), bits) << before;
      }
    }
  Case tall = caseOf(variant(1, 1, 46, ""), 1, 2, 7166);
  for (Layout *layout : tensorsOf(tall)) {
    layout->placement = Placement::Start;
    layout->before = 1;
  }
  expectRight(tall);
}

TEST_P(Memory, NothingElseIsWritten) {
  for (int64_t dim : {1, 3, 6, 7, 9, 13, 17, 30, 33})
    for (int64_t qLen : {1, 5, 17, 33}) {
      Case c = caseOf(variant(2, 1, dim, ""), 2, qLen, 20);
      for (Layout *layout : {&c.o, &c.lseLayout}) {
        layout->gap = {3, 2, 1, 5};
        layout->before = layout->after = 16;
      }
      expectRight(c);
      c.qLens = {qLen / 2, qLen};
      expectRight(c);
    }
}

TEST_P(Memory, OutputsInterleavedRowByRow) {
  constexpr int64_t dim = 13, qLen = 21, kvLen = 30;
  Spec spec = variant(1, 1, dim, "mask = causal");
  std::string error;
  Code code = compileHere(spec, GetParam(), error);
  ASSERT_EQ(error, "");
  std::vector<float> both(2 * qLen * dim, 7);
  std::vector<float> kept;
  for (int64_t n = 0; n < 2; ++n) {
    Case c = caseOf(spec, 1, qLen, kvLen);
    c.values.seed = 40 + static_cast<uint32_t>(n);
    c.lse = false;
    Trial trial(c, code, Order::AllAtOnce);
    trial.job.call.o = both.data() + n * dim;
    trial.job.call.o_stride[2] = 2 * dim;
    ASSERT_EQ(executor->run({trial.job})[0], "");
    if (n == 0)
      kept = both;
  }
  for (int64_t i = 0; i < qLen; ++i)
    for (int64_t n = 0; n < dim; ++n) {
      auto first = static_cast<size_t>(2 * i * dim + n);
      EXPECT_EQ(both[first], kept[first]);
      EXPECT_EQ(kept[first + dim], 7)
          << "the first call wrote between its rows";
      EXPECT_NE(both[first + dim], 7);
    }
}

TEST_P(Memory, ValuesThatArePartOfTheKeys) {
  // K and V are one buffer: 576 columns, of which the first 512 are the values.
  constexpr int64_t qk = 576, value = 512, kvLen = 45, heads = 16;
  Spec spec = parseOne("attention test { heads = 16 kv_heads = 1 "
                       "head_dim = { qk = 576, value = 512 } "
                       "scale = 1.0 / sqrt(192.0) }");
  std::string error;
  Code code = compileHere(spec, GetParam(), error);
  ASSERT_EQ(error, "");
  Case c = caseOf(spec, 1, 1, kvLen);
  Trial copied(c, code, Order::AllAtOnce), aliased(c, code, Order::AllAtOnce);
  for (int64_t j = 0; j < kvLen; ++j)
    for (int64_t n = 0; n < value; ++n)
      copied.buffers.v.set({0, 0, j, n}, copied.buffers.k.get({0, 0, j, n}));
  aliased.job.call.v = aliased.job.call.k;
  std::copy_n(aliased.job.call.k_stride, 4, aliased.job.call.v_stride);
  std::vector<std::string> outcomes = executor->run({copied.job, aliased.job});
  EXPECT_EQ(outcomes[0], "");
  EXPECT_EQ(aliased.intact(outcomes[1]), "");
  oracle::Output expected;
  ASSERT_EQ(oracle::evaluate(spec, copied.job.call, {}, expected), "");
  EXPECT_EQ(compare(copied.buffers, c, expected), "");
  EXPECT_EQ(copied.buffers.outputBits(), aliased.buffers.outputBits());
  static_assert(qk > value && heads > 1);
}

TEST_P(Memory, ScratchAndDescriptor) {
  Spec spec = variant(6, 4, 80, "mask = causal");
  std::string error;
  const attn_kernel *kernel = compileHere(spec, GetParam(), error).kernel;
  ASSERT_NE(kernel, nullptr) << error;
  EXPECT_EQ(kernel->abi_version, ATTN_ABI_VERSION);
  EXPECT_EQ(kernel->struct_size, sizeof(attn_kernel));
  EXPECT_STREQ(kernel->variant, "test");
  EXPECT_EQ(kernel->target, GetParam());
  EXPECT_TRUE(parseOne(kernel->text) == spec);
  EXPECT_EQ(kernel->heads, 6);
  EXPECT_EQ(kernel->kv_heads, 4);
  EXPECT_EQ(kernel->qk_dim, 80);
  EXPECT_EQ(kernel->value_dim, 80);
  EXPECT_EQ(kernel->q_type, ATTN_F32);
  EXPECT_EQ(kernel->n_params, 0);
  EXPECT_GT(kernel->item_rows, 0);
  // Every (head, row) belongs to one item.
  EXPECT_GE(kernel->item_groups * kernel->item_heads, 6);
  // Of the order of a tile, whatever the sequence.
  EXPECT_LE(kernel->scratch_bytes, 1 << 20);
}

ATTN_FOR_EACH_TARGET(Memory);

} // namespace
} // namespace attn::test

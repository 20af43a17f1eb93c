//===- tests/cuda/PublicTest.cpp - What went wrong elsewhere --------------===//
//
// Part of attnc. Apache-2.0.
//
// Mistakes that public implementations made on GPUs, with tensors of the types
// that go through mma, and where it matters with f32 as well. The suite of
// `attnc check --all` and tests/kernels have the others.
//
//===----------------------------------------------------------------------===//
#include "tests/cuda/CudaKernel.h"
#include "tests/support/Fill.h"
#include <algorithm>
#include <limits>
#include <sys/mman.h>

namespace attn::test {
namespace {

constexpr const char *kHalves[] = {"f16", "bf16"};
constexpr const char *kTypes[] = {"f16", "bf16", "f32"};

class Public : public testing::TestWithParam<std::string> {
protected:
  Properties kernelOf(const Spec &spec, const std::string &plan = "") {
    return {*executor, objectFor(spec, GetParam(), plan)};
  }
  void expectRight(const Case &c) {
    EXPECT_EQ(kernelOf(c.spec).matchesOracle(c), "") << describe(c);
  }
  /// Runs a case; expects no fault and nothing else written.
  std::unique_ptr<Trial> run(const Case &c, const Code &code,
                             Order order = Order::AllAtOnce) {
    auto trial = std::make_unique<Trial>(c, code, order);
    EXPECT_EQ(trial->intact(executor->run({trial->job})[0]), "") << describe(c);
    return trial;
  }
  std::unique_ptr<Trial> run(const Case &c) {
    return run(c, objectFor(c.spec, GetParam()));
  }

  std::unique_ptr<Executor> executor = makePtxExecutor();
};

/// All of a call's work in one launch, its blocks and warps in either order.
std::vector<uint32_t> bitsOf(const Case &c, const Code &code,
                             ptx::Order order) {
  Trial trial(c, code, Order::AllAtOnce);
  launchPtx(moduleOf(code), trial.job, order);
  EXPECT_EQ(trial.judge(""), "") << describe(c);
  return trial.buffers.outputBits();
}

//===----------------------------------------------------------------------===//
// Barriers around staged tiles; determinism
//===----------------------------------------------------------------------===//

TEST_P(Public, WindowsWhoseLastTileIsMasked) {
  // Grouped heads, windows on either side, every cut of the work.
  for (int64_t width : {64, 128})
    for (const char *mask :
         {"mask = k <= q + 128", "mask = window(64, 64)", "mask = causal"}) {
      const Spec spec = typed("f16", 4, 1, width, mask);
      const Case c = caseOf(spec, 1, 40, 230);
      for (const char *plan : {"rows=64,keys=64", "rows=16,keys=64",
                               "rows=128,keys=32", "rows=32,keys=16,heads=1"}) {
        SCOPED_TRACE(plan);
        const Code code = objectFor(spec, GetParam(), plan);
        EXPECT_EQ(bitsOf(c, code, ptx::Order::Forward),
                  bitsOf(c, code, ptx::Order::Reverse));
      }
    }
}

TEST_P(Public, AnyGroupingOfItemsAndOrderOfBlocks) {
  for (const char *type : kTypes) {
    const Case prefill = caseOf(
        typed(type, 3, 1, 40, "mask = causal && sliding(50)"), 2, 90, 130);
    const Case decode = caseOf(typed(type, 8, 2, 64), 2, 1, 300);
    Case listed = caseOf(
        variant("t: tokens", 2, 2, 24,
                fmt::format("type = {} mask = window(7) || global(t)", type)),
        2, 140, 140);
    listed.params = {argument({2, 3}, {0, 50, 139, 7, -1, 90})};
    for (const Case &c : {prefill, decode, listed}) {
      Properties kernel = kernelOf(c.spec);
      EXPECT_EQ(kernel.sameInAnyOrder(c), "") << describe(c);
      EXPECT_EQ(kernel.sameAloneInBatch(c), "") << describe(c);
      const Code code = objectFor(c.spec, GetParam());
      EXPECT_EQ(bitsOf(c, code, ptx::Order::Forward),
                bitsOf(c, code, ptx::Order::Reverse));
    }
  }
}

//===----------------------------------------------------------------------===//
// What must not reach a row
//===----------------------------------------------------------------------===//

TEST_P(Public, MaskedKeysAndUnusedSlots) {
  for (const char *type : kTypes)
    for (const char *mask :
         {"causal", "window(2, 2, 3)", "causal && sliding(7)",
          "k != 5 && causal", "k < 10 || q == k"}) {
      const Spec spec = typed(type, 3, 1, 24, fmt::format("mask = {}", mask));
      Properties kernel = kernelOf(spec);
      for (auto [qLen, kvLen] :
           {std::pair<int64_t, int64_t>{40, 40}, {3, 70}, {80, 100}}) {
        Case c = caseOf(spec, 2, qLen, kvLen);
        c.kvLens = {kvLen, kvLen - 3};
        EXPECT_EQ(kernel.sameForAnyPoison(c), "") << describe(c);
        for (Poison poison : {Poison::Nan, Poison::Infinity, Poison::Huge})
          for (bool inK : {true, false})
            EXPECT_EQ(kernel.maskedKeysDoNotReach(c, 3, poison, inK, !inK), "")
                << describe(c);
      }
    }
}

TEST_P(Public, InfinitiesThatCountStay) {
  // A value that is infinite reaches the rows that see it, and only those.
  for (const char *type : kTypes) {
    Case c = caseOf(typed(type, 1, 1, 16, "mask = causal"), 1, 90, 90);
    c.values.v = [](const Index &at) {
      return at[2] == 70 && at[3] == 3
                 ? std::numeric_limits<float>::infinity()
                 : fillValue(5, uint64_t(at[2] * 16 + at[3]));
    };
    auto trial = run(c);
    for (int64_t i = 0; i < 90; ++i)
      for (int64_t n = 0; n < 16; ++n)
        ASSERT_EQ(std::isfinite(trial->buffers.o.get({0, 0, i, n})),
                  i < 70 || n != 3)
            << type << " " << i << " " << n;
  }
}

TEST_P(Public, RowsWithNothingToAttendTo) {
  for (const char *type : kTypes)
    for (auto [qLen, kvLen] :
         {std::pair<int64_t, int64_t>{6, 4}, {70, 33}, {3, 0}, {17, 0}})
      for (const char *mask : {"causal", "k < 0", "k > 1000000 || k == q + 1",
                               "q % 64 != 7 && causal"})
        expectRight(caseOf(typed(type, 2, 1, 8, fmt::format("mask = {}", mask)),
                           1, qLen, kvLen));
}

TEST_P(Public, SizesOfZeroAndEmptySegments) {
  for (const char *type : kTypes) {
    const Spec spec = typed(type, 4, 2, 8, "mask = causal");
    for (int64_t batch : {0, 2})
      for (int64_t qLen : {0, 3})
        for (int64_t kvLen : {0, 5})
          expectRight(caseOf(spec, batch, qLen, kvLen));
    for (const char *mask : {"mask = causal", ""}) {
      Case c = caseOf(typed(type, 4, 1, 64, mask), 4, 3, 4);
      c.qLens = {0, 3, 0, 2};
      c.kvLens = {4, 0, 3, 2};
      expectRight(c);
    }
  }
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

TEST_P(Public, AccumulatorsAreWiderThanF16) {
  Case sum = caseOf(typed("f16", 1, 1, 64), 1, 1, 4096);
  sum.values.zeroQuery = true;
  sum.values.v = [](const Index &) { return 60.0F; };
  auto summed = run(sum);
  Case product = caseOf(typed("f16", 1, 1, 64, "scale = 1.0 / 8.0"), 1, 1, 2);
  product.values.q = [](const Index &) { return 32.0F; };
  product.values.k = [](const Index &at) { return at[2] == 0 ? 32.0F : 31.0F; };
  product.values.v = [](const Index &at) { return at[2] == 0 ? 1.0F : 2.0F; };
  auto multiplied = run(product);
  for (int64_t n = 0; n < 64; ++n) {
    EXPECT_EQ(summed->buffers.o.get({0, 0, 0, n}), 60);
    EXPECT_EQ(multiplied->buffers.o.get({0, 0, 0, n}), 1);
  }
  EXPECT_EQ(multiplied->buffers.lse.get({0, 0, 0, 0}), 8192);
}

TEST_P(Public, MaximumOfNegativeLogits) {
  for (const char *type : kTypes)
    for (int64_t length : {1, 3, 5, 8, 13, 16, 17, 65}) {
      Case c = caseOf(typed(type, 1, 1, 1, "scale = 1.0"), 1, 1, length);
      c.values.q = one;
      c.values.k = [](const Index &at) {
        return -200.0F - static_cast<float>(at[2]);
      };
      c.values.v = keyPosition;
      expectRight(c);
    }
}

TEST_P(Public, KeyHeadsAreRepeated) {
  for (const char *type : kHalves)
    for (auto [heads, kvHeads] :
         {std::pair<int64_t, int64_t>{4, 2}, {7, 2}, {8, 1}, {5, 5}})
      for (int64_t qLen : {1, 40}) {
        Case c = caseOf(typed(type, heads, kvHeads, 8), 2, qLen, 1);
        c.values.v = [](const Index &at) {
          return static_cast<float>(10 * (at[1] + 1));
        };
        auto trial = run(c);
        trial->buffers.o.forEach([&, n = heads, m = kvHeads](const Index &at) {
          ASSERT_EQ(trial->buffers.o.get(at),
                    static_cast<float>(10 * (at[1] * m / n + 1)));
        });
      }
}

TEST_P(Public, CausalLimitsOfGroupedRows) {
  for (const char *type : kHalves)
    for (const char *align : {"bottom_right", "top_left"})
      for (int64_t qLen : {1, 3, 70}) {
        const Spec spec = typed(type, 6, 2, 16,
                                fmt::format("mask = causal align = {}", align));
        expectRight(caseOf(spec, 1, qLen, 100));
      }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

std::vector<Layout *> tensorsOf(Case &c) { return {&c.q, &c.k, &c.v, &c.o}; }

TEST_P(Public, BasesAndPitchesOfAnyElement) {
  for (const char *type : kTypes)
    for (int64_t width : {46, 64, 66}) {
      Case c = caseOf(typed(type, 2, 1, width, "mask = causal"), 1, 19, 70);
      const Code code = objectFor(c.spec, GetParam());
      const std::vector<uint32_t> bits = run(c, code)->buffers.outputBits();
      for (int64_t before : {1, 3, 8, 17}) {
        for (Layout *layout : tensorsOf(c)) {
          layout->placement = Placement::Start;
          layout->before = before;
          layout->after = 16;
          layout->gap[3] = before % 2;
        }
        EXPECT_EQ(run(c, code)->buffers.outputBits(), bits)
            << before << describe(c);
      }
    }
}

TEST_P(Public, NothingIsReadOrWrittenPastTheEnds) {
  for (const char *type : kHalves)
    for (int64_t width : {1, 3, 6, 7, 8, 9, 13, 17, 30, 33}) {
      const Spec spec = typed(type, 3, 1, width, "mask = causal");
      Properties kernel = kernelOf(spec);
      for (auto [qLen, kvLen] :
           {std::pair<int64_t, int64_t>{1, 1}, {5, 2}, {17, 17}, {33, 7}})
        for (Placement placement : {Placement::End, Placement::Start}) {
          Case c = caseOf(spec, 1, qLen, kvLen);
          for (Layout *layout : tensorsOf(c))
            layout->placement = placement;
          c.lseLayout.placement = placement;
          ASSERT_EQ(kernel.matchesOracle(c), "") << describe(c);
          c.o.gap[3] = 5;
          ASSERT_EQ(kernel.matchesOracle(c), "") << describe(c);
        }
    }
}

TEST_P(Public, OffsetsBeyondThirtyTwoBits) {
  // Nine rows (or heads, or entries) of K and V 2^28 elements apart.
  constexpr int64_t far = int64_t{1} << 28, dim = 8, count = 9;
  constexpr size_t bytes = ((count - 1) * far + dim) * sizeof(uint16_t);
  const auto map = [] {
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    return static_cast<uint16_t *>(memory);
  };
  uint16_t *k = map(), *v = map();
  for (int64_t n = 0; n < count; ++n)
    for (int64_t c = 0; c < dim; ++c)
      v[n * far + c] = static_cast<uint16_t>(encode(float(n), Type::F16));
  std::vector<uint16_t> q(count * dim), o(count * dim);
  for (int dimension = 0; dimension < 3; ++dimension) {
    const int64_t heads = dimension == 1 ? count : 1;
    Job job;
    job.code = objectFor(typed("f16", heads, heads, dim), GetParam());
    attn_call &call = job.call;
    call.q = q.data(), call.k = k, call.v = v, call.o = o.data();
    call.batch = dimension == 0 ? count : 1;
    call.q_len = 1;
    call.kv_len = dimension == 2 ? count : 1;
    for (int64_t *stride : {call.k_stride, call.v_stride}) {
      stride[dimension] = far;
      stride[3] = 1;
    }
    for (int64_t *stride : {call.q_stride, call.o_stride}) {
      stride[0] = stride[1] = stride[2] = dim;
      stride[3] = 1;
    }
    const auto add = [&](const char *name, void *data, size_t size,
                         bool isOutput) {
      job.regions.push_back({name, static_cast<std::byte *>(data), size,
                             Placement::Start, isOutput});
    };
    add("q", q.data(), q.size() * 2, false);
    // Only the rows themselves may be read.
    for (int64_t n = 0; n < count; ++n) {
      add("k", k + n * far, dim * 2, false);
      add("v", v + n * far, dim * 2, false);
    }
    add("o", o.data(), o.size() * 2, true);
    ASSERT_EQ(executor->run({job})[0], "");
    for (int64_t n = 0; n < (dimension == 2 ? 1 : count); ++n)
      for (int64_t c = 0; c < dim; ++c)
        EXPECT_EQ(decode(o[static_cast<size_t>(n * dim + c)], Type::F16),
                  dimension == 2 ? 4.0F : static_cast<float>(n));
  }
  munmap(k, bytes);
  munmap(v, bytes);
}

INSTANTIATE_TEST_SUITE_P(Targets, Public, testing::ValuesIn(cudaTargets()),
                         suffix);

} // namespace
} // namespace attn::test

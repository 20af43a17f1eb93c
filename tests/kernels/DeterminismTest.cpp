//===- tests/kernels/DeterminismTest.cpp - The same bits every time -------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/kernels/KernelTest.h"
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

namespace attn::test {
namespace {

class Determinism : public KernelTest {
protected:
  static std::vector<Case> cases() {
    return {
        caseOf(variant(8, 2, 64, ""), 1, 1, 1027),
        caseOf(variant(5, 5, 80, "mask = causal"), 3, 129, 129),
        caseOf(variant(6, 4, 33, "mask = causal && sliding(20)"), 2, 70, 90),
        caseOf(variant(3, 1, 16, "mask = window(4, 4, 3)"), 2, 50, 50),
    };
  }
};

TEST_P(Determinism, AnyOrderOfItems) {
  for (const Case &c : cases())
    EXPECT_EQ(kernelOf(c.spec).sameInAnyOrder(c), "") << describe(c);
}

TEST_P(Determinism, AnyBatchAround) {
  for (Case c : cases()) {
    EXPECT_EQ(kernelOf(c.spec).sameAloneInBatch(c), "") << describe(c);
    c.batch = 4;
    c.kvLens = {c.kvLen, 1, c.kvLen / 2, c.kvLen - 1};
    EXPECT_EQ(kernelOf(c.spec).sameAloneInBatch(c), "") << describe(c);
  }
}

TEST_P(Determinism, AnyNumberOfThreads) {
  for (const Case &c : cases()) {
    std::string error;
    Code code = compileHere(c.spec, GetParam(), error);
    ASSERT_EQ(error, "");
    const attn_kernel &kernel = *code.kernel;
    std::vector<uint32_t> bits = run(c)->buffers.outputBits();
    for (int threads : {1, 2, 3, 5, 8, 13})
      for (int round = 0; round < 4; ++round) {
        Trial trial(c, code, Order::AllAtOnce);
        int64_t items = workItems(kernel, trial.job.call);
        std::atomic<int64_t> next{0};
        std::vector<std::thread> pool;
        for (int t = 0; t < threads; ++t)
          pool.emplace_back([&] {
            auto size =
                static_cast<size_t>((kernel.scratch_bytes + 63) / 64 * 64);
            std::unique_ptr<void, decltype(&std::free)> scratch(
                std::aligned_alloc(64, std::max<size_t>(size, 64)), &std::free);
            for (int64_t item; (item = next++) < items;)
              kernel.run(&trial.job.call, item, item + 1, scratch.get());
          });
        for (std::thread &thread : pool)
          thread.join();
        ASSERT_EQ(trial.buffers.outputBits(), bits) << threads << " threads\n"
                                                    << describe(c);
        ASSERT_EQ(trial.buffers.changedBytes(), "");
      }
  }
}

TEST_P(Determinism, EmptyRangesOfItems) {
  Case c = caseOf(variant(2, 1, 16, "mask = causal"), 2, 20, 20);
  std::string error;
  Code code = compileHere(c.spec, GetParam(), error);
  ASSERT_EQ(error, "");
  Trial trial(c, code, Order::AllAtOnce);
  alignas(64) static char scratch[1 << 20];
  ASSERT_LE(code.kernel->scratch_bytes, int64_t{sizeof scratch});
  int64_t items = workItems(*code.kernel, trial.job.call);
  for (int64_t at : {int64_t{0}, int64_t{1}, items})
    code.kernel->run(&trial.job.call, at, at, scratch);
  // Nothing was written at all.
  trial.buffers.o.forEach([&](const Index &at) {
    ASSERT_EQ(trial.buffers.o.bits(at), 0xa5a5a5a5u);
  });
}

ATTN_FOR_EACH_TARGET(Determinism);

} // namespace
} // namespace attn::test

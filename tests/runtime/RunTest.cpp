//===- tests/runtime/RunTest.cpp - Threads, memory, environment -----------===//
//
// Part of attnc. Apache-2.0.
//
// Also run under ThreadSanitizer.
//
//===----------------------------------------------------------------------===//
#include "Support.h"
#include <atomic>
#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <mutex>
#include <rapidcheck/gtest.h>
#include <thread>

// Under a sanitizer too, memory that can't be had is an error value.
extern "C" const char *__asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" const char *__tsan_default_options() {
  return "allocator_may_return_null=1";
}

namespace {

using Pool = std::unique_ptr<attn_pool, decltype(&attn_pool_destroy)>;

Pool makePool(size_t threads) {
  attn_pool *pool = nullptr;
  attn_error error;
  EXPECT_EQ(attn_pool_create(threads, &pool, &error), 0) << error.text;
  return Pool(pool, attn_pool_destroy);
}

/// A parallel_for on threads of its own, backwards.
void threadsFor(void *context, size_t n, void (*body)(void *, size_t),
                void *arg) {
  if (context)
    *static_cast<size_t *>(context) = n;
  std::vector<std::thread> threads;
  for (size_t i = n; i-- > 0;)
    threads.emplace_back(body, arg, i);
  for (std::thread &thread : threads)
    thread.join();
}

void serialFor(void *, size_t n, void (*body)(void *, size_t), void *arg) {
  for (size_t i = n; i-- > 0;)
    body(arg, i);
}

/// Counts what is given out, and fails from allocation number `failAt` on.
struct Memory {
  std::map<void *, size_t> open;
  size_t calls = 0, failAt = SIZE_MAX, largest = 0;
  attn_allocator allocator = {&alloc, &release, this};

  static void *alloc(void *context, size_t bytes, size_t alignment) {
    auto *self = static_cast<Memory *>(context);
    EXPECT_EQ(alignment, 64u);
    EXPECT_GT(bytes, 0u);
    if (self->calls++ >= self->failAt)
      return nullptr;
    void *p = aligned_alloc(alignment, (bytes + 63) / 64 * 64);
    self->open[p] = bytes;
    self->largest = std::max(self->largest, bytes);
    return p;
  }
  static void release(void *context, void *pointer, size_t bytes) {
    auto *self = static_cast<Memory *>(context);
    EXPECT_EQ(self->open.count(pointer), 1u);
    EXPECT_EQ(self->open[pointer], bytes);
    self->open.erase(pointer);
    free(pointer);
  }
};

} // namespace

TEST(Run, MatchesAReference) {
  Call call(3, 7, 11);
  ASSERT_EQ(call.run(plainKernel()), 0) << call.error.text;
  std::vector<double> wanted = reference(call, 3, 7, 11);
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(call.o.data[i], wanted[i], 2e-6);
}

TEST(Run, WithoutOptionsErrorOrLse) {
  Call call(1, 2, 3), other(1, 2, 3);
  ASSERT_EQ(attn_run(plainKernel(), &call.tensors, nullptr, nullptr), 0);
  other.tensors.lse = nullptr;
  ASSERT_EQ(other.run(plainKernel()), 0);
  EXPECT_EQ(call.o.data, other.o.data);
  EXPECT_EQ(attn_run(nullptr, &call.tensors, nullptr, nullptr),
            ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(attn_run(plainKernel(), nullptr, nullptr, nullptr),
            ATTN_INVALID_ARGUMENT);
}

// The same bits whatever runs it.
TEST(Run, ThreadsDoNotChangeTheResult) {
  Call alone(3, 37, 29);
  ASSERT_EQ(alone.run(plainKernel()), 0);
  for (size_t threads : {1, 2, 3, 5, 7, 8, 13, 64}) {
    Pool pool = makePool(threads);
    EXPECT_EQ(attn_pool_threads(pool.get()), threads);
    for (int round = 0; round < 20; ++round) {
      Call call(3, 37, 29);
      call.options.pool = pool.get();
      ASSERT_EQ(call.run(plainKernel()), 0) << call.error.text;
      ASSERT_EQ(call.o.data, alone.o.data) << threads;
      ASSERT_EQ(call.lse.data, alone.lse.data) << threads;
    }
    Call call(3, 37, 29);
    size_t n = 0;
    call.options.parallel_for = threadsFor;
    call.options.parallel_for_context = &n;
    call.options.parallel_for_threads = threads;
    ASSERT_EQ(call.run(plainKernel()), 0) << call.error.text;
    EXPECT_EQ(n, threads);
    ASSERT_EQ(call.o.data, alone.o.data) << threads;
  }
}

RC_GTEST_PROP(RunProperty, AnyShapeAnyThreads, ()) {
  static Pool pool = makePool(3);
  int64_t batch = *rc::gen::inRange(1, 5), queries = *rc::gen::inRange(1, 20);
  int64_t keys = *rc::gen::inRange(0, 12);
  Tensor<int32_t> qLens({batch});
  Tensor<int64_t> kvLens({batch});
  for (int32_t &x : qLens.data)
    x = *rc::gen::inRange(0, int(queries) + 1);
  for (int64_t &x : kvLens.data)
    x = *rc::gen::inRange(0, int(keys) + 1);
  Call alone(batch, queries, keys), together(batch, queries, keys);
  for (Call *call : {&alone, &together}) {
    call->tensors.q_lens = &qLens;
    call->tensors.kv_lens = &kvLens;
  }
  RC_ASSERT(alone.run(plainKernel()) == 0);
  together.options.pool = pool.get();
  RC_ASSERT(together.run(plainKernel()) == 0);
  RC_ASSERT(memcmp(alone.o.data.data(), together.o.data.data(),
                   alone.o.data.size() * sizeof(float)) == 0);
  // Rows past a sequence's end are not written, all others are.
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t i = 0; i < queries; ++i) {
        float lse = alone.lse.data[size_t(((b * kHeads + h) * queries) + i)];
        RC_ASSERT(std::isnan(lse) == (i >= qLens.data[size_t(b)]));
        if (!std::isnan(lse))
          RC_ASSERT(std::isinf(lse) == (kvLens.data[size_t(b)] == 0));
      }
}

TEST(Run, ManyLengthsAreAllocated) {
  Call call(100, 2, 3);
  Tensor<int64_t> lens({100});
  for (int64_t &x : lens.data)
    x = 2;
  Memory memory;
  call.tensors.q_lens = call.tensors.kv_lens = &lens;
  call.options.allocator = &memory.allocator;
  ASSERT_EQ(call.run(plainKernel()), 0) << call.error.text;
  EXPECT_EQ(memory.calls, 2u);
  EXPECT_TRUE(memory.open.empty());
}

// Lengths with strides of their own, 0 and backwards.
TEST(Run, LengthsWithStrides) {
  Tensor<int32_t> lens({4}, {1, 9, 2, 9});
  int64_t two = 2, strides[] = {2, -2, 0};
  int32_t *starts[] = {&lens.data[0], &lens.data[2], &lens.data[2]};
  int64_t expected[3][2] = {{1, 2}, {2, 1}, {2, 2}};
  for (int i = 0; i < 3; ++i) {
    lens.dl.shape = &two;
    lens.dl.strides = &strides[i];
    lens.dl.data = starts[i];
    Call call(2, 1, 3), plain(2, 1, 3);
    Tensor<int64_t> same({2}, {expected[i][0], expected[i][1]});
    call.tensors.kv_lens = &lens;
    plain.tensors.kv_lens = &same;
    ASSERT_EQ(call.run(plainKernel()), 0) << call.error.text;
    ASSERT_EQ(plain.run(plainKernel()), 0);
    EXPECT_EQ(call.o.data, plain.o.data);
  }
}

// Every allocation may fail: an error value, nothing leaks, nothing is written.
TEST(Run, AllocationFailure) {
  Tensor<int64_t> lens({50});
  for (size_t failAt = 0; failAt < 2; ++failAt)
    for (bool pooled : {false, true}) {
      Pool pool = makePool(2);
      Memory memory;
      memory.failAt = failAt;
      Call call(50, 2, 3);
      call.tensors.kv_lens = &lens;
      call.options.allocator = &memory.allocator;
      if (pooled)
        call.options.pool = pool.get();
      EXPECT_EQ(call.run(plainKernel()), ATTN_OUT_OF_MEMORY);
      EXPECT_NE(strstr(call.error.text, "bytes"), nullptr);
      EXPECT_TRUE(memory.open.empty());
      for (float x : call.o.data)
        EXPECT_TRUE(std::isnan(x));
      memory.failAt = SIZE_MAX;
      EXPECT_EQ(call.run(plainKernel()), 0) << call.error.text;
      EXPECT_TRUE(memory.open.empty());
      EXPECT_EQ(memory.largest, std::max<size_t>(800, pooled ? 256 : 128));
    }
  // More than there is: the C library's own refusal.
  attn_kernel greedy = *plainKernel();
  greedy.scratch_bytes = INT64_C(1) << 55;
  Pool pool = makePool(2);
  for (attn_pool *p : {static_cast<attn_pool *>(nullptr), pool.get()}) {
    Call call(2, 9, 3);
    call.options.pool = p;
    EXPECT_EQ(call.run(&greedy), ATTN_OUT_OF_MEMORY);
    greedy.scratch_bytes = INT64_MAX;
    EXPECT_EQ(call.run(&greedy), ATTN_OUT_OF_MEMORY);
    greedy.scratch_bytes = INT64_C(1) << 55;
    EXPECT_EQ(call.run(plainKernel()), 0); // the pool still works
  }
}

TEST(Run, CallersParallelFor) {
  Call alone(2, 9, 5);
  ASSERT_EQ(alone.run(plainKernel()), 0);
  Call call(2, 9, 5);
  call.options.parallel_for = serialFor;
  call.options.parallel_for_threads = 6;
  ASSERT_EQ(call.run(plainKernel()), 0) << call.error.text;
  EXPECT_EQ(call.o.data, alone.o.data);
  // Never more workers than work items (2 x 4 x ceil(9 / 4) here).
  size_t n = 0;
  call.options.parallel_for = threadsFor;
  call.options.parallel_for_context = &n;
  call.options.parallel_for_threads = 1000;
  ASSERT_EQ(call.run(plainKernel()), 0);
  EXPECT_EQ(n, 24u);
  // One that calls nothing is told so.
  call.options.parallel_for = [](void *, size_t, void (*)(void *, size_t),
                                 void *) {};
  EXPECT_EQ(call.run(plainKernel()), ATTN_INVALID_ARGUMENT);
  EXPECT_NE(strstr(call.error.text, "0 of 24 work items"), nullptr);
  Pool pool = makePool(2);
  call.options.pool = pool.get();
  EXPECT_EQ(call.run(plainKernel()), ATTN_INVALID_ARGUMENT);
  EXPECT_NE(strstr(call.error.text, "both a pool and a parallel_for"), nullptr);
}

// One pool, many callers, of different sizes.
TEST(Run, ConcurrentCallsOnOnePool) {
  Pool pool = makePool(3);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      int64_t batch = 1 + t % 3, queries = 1 + 5 * t, keys = 3 + t;
      Call alone(batch, queries, keys);
      wrong += alone.run(plainKernel()) != 0;
      for (int round = 0; round < 30; ++round) {
        Call call(batch, queries, keys);
        call.options.pool = pool.get();
        wrong += call.run(plainKernel()) != 0;
        wrong += call.o.data != alone.o.data;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

// Pools come and go while others work.
TEST(Run, PoolsAreIndependent) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int round = 0; round < 10; ++round) {
        Pool pool = makePool(2);
        Call call(1, 9, 4);
        call.options.pool = pool.get();
        EXPECT_EQ(call.run(plainKernel()), 0);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(Run, PoolSizes) {
  attn_pool *pool = nullptr;
  attn_error error;
  EXPECT_EQ(attn_pool_create(ATTN_MAX_THREADS + 1, &pool, &error),
            ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(attn_pool_create(SIZE_MAX, &pool, &error), ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(attn_pool_create(1, nullptr, &error), ATTN_INVALID_ARGUMENT);
  ASSERT_EQ(attn_pool_create(0, &pool, &error), 0);
  EXPECT_GE(attn_pool_threads(pool), 1u);
  attn_pool_destroy(pool);
  attn_pool_destroy(nullptr);
}

// The caller's rounding mode and flushing of small numbers have no influence,
// and are there afterwards.
TEST(Run, FloatingPointEnvironmentIsTheKernelsOwn) {
  Call alone(2, 9, 5);
  // Values that are subnormal, and sums that round.
  for (float &x : alone.v.data)
    x *= 1e-39f;
  ASSERT_EQ(alone.run(plainKernel()), 0);
  Pool pool = makePool(2);
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO})
    for (attn_pool *p : {static_cast<attn_pool *>(nullptr), pool.get()}) {
      Call call(2, 9, 5);
      call.v.data = alone.v.data;
      call.options.pool = p;
      fesetround(mode);
#if defined(__x86_64__)
      unsigned before = __builtin_ia32_stmxcsr();
      __builtin_ia32_ldmxcsr(before | 0x8040); // flush to zero, both ways
#endif
      int status = call.run(plainKernel());
#if defined(__x86_64__)
      EXPECT_EQ(__builtin_ia32_stmxcsr() & 0x8040, 0x8040u);
      __builtin_ia32_ldmxcsr(before);
#endif
      EXPECT_EQ(fegetround(), mode);
      fesetround(FE_TONEAREST);
      ASSERT_EQ(status, 0);
      EXPECT_EQ(call.o.data, alone.o.data);
    }
}

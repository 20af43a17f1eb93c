//===- tests/support/MachineryTest.cpp - The checks check -----------------===//
//
// Part of attnc. Apache-2.0.
//
// A right kernel passes every property on random cases; a kernel with any one
// of the known faults is caught.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Fill.h"
#include "tests/support/Generate.h"
#include "tests/support/Properties.h"
#include "tests/support/ReferenceKernel.h"
#include <csignal>
#include <cstring>
#include <gtest/gtest.h>
#include <set>

namespace attn::test {
namespace {

TEST(Fill, PublishedStart) {
  const double wanted[] = {0.5270306, 0.5172195, -0.2539294, -0.5730408};
  for (uint64_t i = 0; i < 4; ++i)
    EXPECT_NEAR(fillValue(1, i), wanted[i], 5.1e-8);
  for (uint64_t i = 0; i < 10000; ++i) {
    EXPECT_GE(fillValue(7, i), -1);
    EXPECT_LT(fillValue(7, i), 1);
  }
}

TEST(Encode, RoundsToNearestEven) {
  EXPECT_EQ(encode(1.0F, Type::F16), 0x3c00u);
  EXPECT_EQ(encode(-2.5F, Type::F16), 0xc100u);
  EXPECT_EQ(encode(65519.0F, Type::F16), 0x7bffu);
  EXPECT_EQ(encode(65520.0F, Type::F16), 0x7c00u);
  EXPECT_EQ(encode(1.0F + 0x1p-11F, Type::F16), 0x3c00u);     // a tie: down
  EXPECT_EQ(encode(1.0F + 3 * 0x1p-11F, Type::F16), 0x3c02u); // a tie: up
  EXPECT_EQ(encode(0x1p-25F, Type::F16), 0u);
  EXPECT_EQ(encode(0x1.8p-25F, Type::F16), 1u);
  EXPECT_EQ(encode(1.0F + 0x1p-8F, Type::BF16), 0x3f80u);
  EXPECT_EQ(encode(1.0F + 3 * 0x1p-8F, Type::BF16), 0x3f82u);
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    for (Type type : {Type::F16, Type::BF16}) {
      float value = decode(bits, type);
      if (value == value)
        EXPECT_EQ(encode(value, type), bits);
    }
}

TEST(Tensor, RandomLayoutsOfOutputsDoNotOverlap) {
  Choices choices(1);
  for (int n = 0; n < 300; ++n) {
    Layout layout = randomLayout(choices, true);
    Tensor tensor({2, 3, 4, 5}, layout, Type::F32);
    tensor.poisonAll(Poison::Nan);
    float next = 0;
    tensor.forEach([&](const Index &at) { tensor.set(at, next++); });
    next = 0;
    tensor.forEach([&](const Index &at) {
      EXPECT_EQ(tensor.get(at), next++) << describe(layout);
    });
    // All storage but the elements is still poison.
    Tensor other({2, 3, 4, 5}, layout, Type::F32);
    other.poisonAll(Poison::Nan);
    std::vector<std::byte> before = other.snapshot();
    std::memcpy(other.buffer().data(), tensor.buffer().data(),
                tensor.buffer().size());
    EXPECT_EQ(other.changedOutside(before, [](auto &) { return true; }), "");
    EXPECT_NE(other.changedOutside(before, [](auto &at) { return at[3] != 2; }),
              "");
  }
}

TEST(Native, FaultsAreLocated) {
  Case c;
  c.spec = parseOne("attention a { heads = 1 head_dim = 5 }");
  c.kvLen = 3;
  CallBuffers buffers(c);
  attn_kernel kernel{};
  kernel.heads = kernel.item_groups = kernel.item_heads = kernel.item_rows = 1;
  Job job;
  job.code.kernel = &kernel;
  job.call = buffers.call();
  job.regions = buffers.regions();
  auto executor = makeNativeExecutor();

  kernel.run = [](const attn_call *call, int64_t, int64_t, void *) {
    static_cast<void>(static_cast<const volatile float *>(call->k)[15]);
  };
  EXPECT_EQ(executor->run({job})[0],
            "Segmentation fault in items 0..0 at 0 bytes past the end of K (60 "
            "bytes long)");
  kernel.run = [](const attn_call *call, int64_t, int64_t, void *scratch) {
    static_cast<volatile float *>(call->o)[4] = 1;
    static_cast<volatile char *>(scratch)[127] = 1;
  };
  kernel.scratch_bytes = 128;
  EXPECT_EQ(executor->run({job})[0], "");
  kernel.scratch_bytes = 64;
  EXPECT_EQ(executor->run({job})[0],
            "Segmentation fault in items 0..0 at 63 bytes past the end of "
            "scratch (64 bytes long)");
  kernel.run = [](const attn_call *, int64_t, int64_t, void *) {
    raise(SIGILL);
  };
  EXPECT_EQ(executor->run({job})[0].substr(0, 19), "Illegal instruction");
  job.code.kernel = nullptr;
  EXPECT_NE(executor->run({job})[0], "");
}

TEST(Native, OrdersCoverEachItemOnce) {
  for (Order order :
       {Order::AllAtOnce, Order::OneByOne, Order::Reversed, Order::Uneven})
    for (int64_t items : {0, 1, 2, 7, 30}) {
      std::multiset<int64_t> seen;
      for (auto [first, last] : pieces(items, order))
        for (int64_t i = first; i < last; ++i)
          seen.insert(i);
      EXPECT_EQ(seen.size(), static_cast<size_t>(items));
      for (int64_t i = 0; i < items; ++i)
        EXPECT_EQ(seen.count(i), 1u);
    }
}

/// Small, so that many of them run quickly.
Features small(Features f) {
  f.maxDim = 20;
  f.maxLength = 40;
  f.maxHeads = 4;
  f.maxWork = 400000;
  return f;
}

/// Runs random cases; the first that a property catches, or an empty text.
std::string firstCaught(const Features &features, Fault fault, int cases,
                        int &tried) {
  auto executor = makeNativeExecutor();
  for (tried = 1; tried <= cases; ++tried) {
    Choices choices(static_cast<uint64_t>(tried) * 1000003);
    Case c = randomVariantCase(choices, small(features), "random");
    ReferenceKernel kernel(c.spec, fault);
    Properties properties(*executor, {kernel.kernel(), "", ""});
    std::string text = properties.all(c, static_cast<uint64_t>(tried));
    if (!text.empty())
      return text + "\n" + describe(c);
  }
  return {};
}

TEST(Machinery, PassesWhatIsRight) {
  int tried = 0;
  EXPECT_EQ(firstCaught(Features::level1(), Fault::None, 150, tried), "");
}

TEST(Machinery, PassesWhatIsRightWithParameters) {
  int tried = 0;
  EXPECT_EQ(firstCaught(Features::level3(), Fault::None, 150, tried), "");
}

TEST(Machinery, CatchesWhatIsWrong) {
  const std::pair<Fault, const char *> faults[] = {
      {Fault::ReadPastEnd, "reads past the end"},
      {Fault::ReadBeforeStart, "reads before the start"},
      {Fault::WritePastEnd, "writes past the end"},
      {Fault::WriteUnusedRows, "writes rows past a sequence's length"},
      {Fault::WriteInput, "writes an input"},
      {Fault::LeakMaskedValue, "leaks masked values"},
      {Fault::LeakMaskedKey, "leaks masked keys"},
      {Fault::LowSentinel, "has a finite minus infinity"},
      {Fault::WindowOffByOne, "is off by one in the mask"},
      {Fault::TopLeft, "ignores the alignment"},
      {Fault::TiledHeads, "tiles kv heads"},
      {Fault::IgnoreKvLens, "ignores kv_lens"},
      {Fault::EmptyRowsNan, "divides zero by zero"},
      {Fault::DirtyScratch, "depends on scratch contents"},
      {Fault::ItemOrder, "depends on the order of items"},
      {Fault::BatchSize, "depends on the batch size"},
      {Fault::AlignedLoad, "needs alignment"},
      {Fault::UnitStride, "assumes adjacent columns"},
      {Fault::NarrowLse, "gives LSE in another base"},
      {Fault::LostScale, "ignores the scale"},
  };
  for (auto [fault, name] : faults) {
    if (fault == Fault::LowSentinel)
      continue; // logits of random cases are never that low; see below
    int tried = 0;
    EXPECT_NE(firstCaught(Features::level1(), fault, 80, tried), "")
        << "a kernel that " << name;
    std::printf("caught after %2d cases: a kernel that %s\n", tried, name);
  }
}

TEST(Machinery, CatchesWhatIsWrongWithParameters) {
  const std::pair<Fault, const char *> faults[] = {
      {Fault::LostSink, "forgets the sink"},
      {Fault::ScaledSink, "scales the sink"},
      {Fault::LeakMaskedScore, "leaks scores of masked keys"},
      {Fault::FirstEntry, "takes parameters of the first entry"},
      {Fault::ParamStrides, "ignores strides of parameters"},
      {Fault::ParamPastEnd, "reads past the end of parameters"},
      {Fault::ParamPadding, "reads parameters past a sequence's length"},
      {Fault::FromPositions, "indexes queries by position"},
      {Fault::GlobalTwice, "counts global keys twice"},
      {Fault::LostGlobalRows, "leaves out global rows"},
      {Fault::OneByteTrue, "takes 1 only for true"},
  };
  for (auto [fault, name] : faults) {
    int tried = 0;
    EXPECT_NE(firstCaught(Features::level3(), fault, 120, tried), "")
        << "a kernel that " << name;
    std::printf("caught after %2d cases: a kernel that %s\n", tried, name);
  }
}

TEST(Machinery, CatchesALowSentinel) {
  Case c;
  c.spec = parseOne("attention a { heads = 1 head_dim = 1 scale = 1.0 }");
  c.kvLen = 2;
  c.values.q = [](const Index &) { return 1.0F; };
  c.values.k = [](const Index &at) {
    return -100000.0F - static_cast<float>(at[2]);
  };
  auto executor = makeNativeExecutor();
  for (Fault fault : {Fault::None, Fault::LowSentinel}) {
    ReferenceKernel kernel(c.spec, fault);
    Properties properties(*executor, {kernel.kernel(), "", ""});
    EXPECT_EQ(properties.matchesOracle(c).empty(), fault == Fault::None);
  }
}

TEST(Machinery, ReportsTheWorstError) {
  Choices choices(5);
  Case c = randomVariantCase(choices, small(Features::level1()), "random");
  ReferenceKernel kernel(c.spec);
  auto executor = makeNativeExecutor();
  double worst = 0;
  EXPECT_EQ(
      Properties(*executor, {kernel.kernel(), "", ""}).matchesOracle(c, &worst),
      "");
  EXPECT_LE(worst, 1);
}

} // namespace
} // namespace attn::test

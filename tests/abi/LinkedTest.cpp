//===- tests/abi/LinkedTest.cpp - Picking among kernels that are linked in ===//
//
// Part of attnc. Apache-2.0.
//
// Hand-made tables, so that there are kernels for machines that do not exist.
//
//===----------------------------------------------------------------------===//
#include "runtime/attn.h"
#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

namespace {

void run(const attn_call *, int64_t, int64_t, void *) {}

attn_kernel makeKernel(const char *target, const char *features,
                       int32_t preference) {
  attn_kernel kernel = {};
  kernel.abi_version = ATTN_ABI_VERSION;
  kernel.struct_size = sizeof kernel;
  kernel.variant = "demo";
  kernel.target = target;
  kernel.features = features;
  kernel.text = "";
  kernel.run = run;
  kernel.heads = kernel.kv_heads = kernel.qk_dim = kernel.value_dim = 1;
  kernel.item_groups = kernel.item_heads = kernel.item_rows = 1;
  kernel.preference = preference;
  return kernel;
}

const attn_kernel kPlain = makeKernel("plain", "", 1);
const attn_kernel kBetter = makeKernel("better", "", 2);
const attn_kernel kExotic = makeKernel("exotic", "warp-drive", 3);

struct Table {
  Table(std::vector<const attn_kernel *> list) : kernels(std::move(list)) {
    table = {ATTN_BUNDLE_MAGIC,        ATTN_ABI_VERSION, sizeof table,
             uint32_t(kernels.size()), kernels.data(),   "test"};
  }
  int pick() { return attn_kernel_pick_linked(&table, &kept, &kernel, &error); }
  std::string text() const { return error.text; }

  std::vector<const attn_kernel *> kernels;
  attn_bundle_table table;
  const attn_kernel *kept = nullptr, *kernel = nullptr;
  attn_error error = {};
};

struct Linked : ::testing::Test {
  void SetUp() override { ::unsetenv("ATTN_TARGET"); }
  void TearDown() override { ::unsetenv("ATTN_TARGET"); }
};

TEST_F(Linked, TheBestThatRunsIsPickedAndKept) {
  Table table({&kPlain, &kExotic, &kBetter});
  ASSERT_EQ(table.pick(), ATTN_OK) << table.text();
  EXPECT_EQ(table.kernel, &kBetter);
  EXPECT_EQ(table.kept, &kBetter);
  ::setenv("ATTN_TARGET", "plain", 1);
  table.kernel = nullptr;
  table.error.code = ATTN_INTERNAL;
  table.error.text[0] = '?';
  ASSERT_EQ(table.pick(), ATTN_OK);
  EXPECT_EQ(table.kernel, &kBetter);
  EXPECT_EQ(table.error.code, ATTN_OK);
  EXPECT_EQ(table.text(), "");
  EXPECT_EQ(attn_kernel_pick_linked(&table.table, &table.kept, &table.kernel,
                                    nullptr),
            ATTN_OK);
}

TEST_F(Linked, TheEnvironmentAsksByName) {
  ::setenv("ATTN_TARGET", "plain", 1);
  Table table({&kPlain, &kExotic, &kBetter});
  ASSERT_EQ(table.pick(), ATTN_OK) << table.text();
  EXPECT_EQ(table.kernel, &kPlain);
}

TEST_F(Linked, ARefusalSaysWhatThereIsAndIsNotKept) {
  Table table({&kExotic});
  table.kernel = &kPlain;
  EXPECT_EQ(table.pick(), ATTN_UNSUPPORTED_CPU);
  EXPECT_EQ(table.kernel, nullptr);
  EXPECT_EQ(table.kept, nullptr);
  const std::string has = attn_machine_features();
  EXPECT_EQ(table.text(),
            "variant 'demo' for target 'exotic' needs warp-drive; this machine "
            "lacks warp-drive and has " +
                (has.empty() ? "none" : has) +
                "; the bundle holds: exotic (needs warp-drive)");
  ::setenv("ATTN_TARGET", "missing", 1);
  Table other({&kPlain});
  EXPECT_EQ(other.pick(), ATTN_NOT_FOUND);
  EXPECT_NE(other.text().find("'missing' (asked for by ATTN_TARGET)"),
            std::string::npos);
  ::unsetenv("ATTN_TARGET");
  ASSERT_EQ(other.pick(), ATTN_OK);
  EXPECT_EQ(other.kernel, &kPlain);
}

TEST_F(Linked, ATableIsCheckedFirst) {
  Table newer({&kPlain});
  newer.table.abi_version = ATTN_ABI_VERSION + 1;
  EXPECT_EQ(newer.pick(), ATTN_BAD_BUNDLE);
  EXPECT_NE(newer.text().find("newer than this runtime"), std::string::npos);
  attn_kernel old = kPlain;
  old.abi_version = 0;
  Table older({&kBetter, &old});
  EXPECT_EQ(older.pick(), ATTN_BAD_BUNDLE);
  EXPECT_NE(older.text().find("older than this runtime"), std::string::npos);
  Table null({nullptr});
  EXPECT_EQ(null.pick(), ATTN_BAD_BUNDLE);
  Table empty({});
  EXPECT_EQ(empty.pick(), ATTN_BAD_BUNDLE);

  Table good({&kPlain});
  attn_error error;
  EXPECT_EQ(attn_kernel_pick_linked(nullptr, &good.kept, &good.kernel, &error),
            ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(attn_kernel_pick_linked(&good.table, nullptr, &good.kernel, &error),
            ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(attn_kernel_pick_linked(&good.table, &good.kept, nullptr, &error),
            ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(good.kept, nullptr);
}

TEST_F(Linked, ManyThreadsGetOneKernel) {
  for (int round = 0; round < 50; ++round) {
    Table table({&kPlain, &kBetter});
    std::atomic<int> waiting{4};
    std::vector<const attn_kernel *> got(4);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < got.size(); ++i)
      threads.emplace_back([&, i] {
        --waiting;
        while (waiting)
          std::this_thread::yield();
        attn_kernel_pick_linked(&table.table, &table.kept, &got[i], nullptr);
      });
    for (std::thread &thread : threads)
      thread.join();
    for (const attn_kernel *kernel : got)
      EXPECT_EQ(kernel, &kBetter);
    EXPECT_EQ(table.kept, &kBetter);
  }
}

} // namespace

//===- tests/ptx/FlashTest.cpp - A real kernel, whole and damaged ---------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "FlashKernel.h"
#include "TestSupport.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sstream>

using namespace attn::ptx;

namespace {

constexpr unsigned Length = 256, Heads = 2;

FlashRun runText(const std::string &text, const FlashOptions &options,
                 Order order = Order::Forward) {
  return runFlash(Module::parse(text, "flash"), options, Length, Heads, true,
                  order);
}

/// Parses, and lets the assembler have a look at the end.
std::string checkedText(const FlashOptions &options) {
  std::string text = flashKernel(options), renamed = text;
  for (size_t at = renamed.find("flash"); at != std::string::npos;
       at = renamed.find("flash", at))
    renamed.replace(at, 5, "KERNEL");
  test::assemble(renamed);
  return text;
}

TEST(Flash, Results) {
  for (unsigned head : {64, 128})
    for (bool bf16 : {false, true})
      for (bool causal : {false, true}) {
        FlashOptions options;
        options.head = head;
        options.bf16 = bf16;
        options.causal = causal;
        FlashRun result = runText(checkedText(options), options);
        EXPECT_LE(result.error, bf16 ? 1e-2 : 1.5e-3)
            << head << (bf16 ? " bf16" : " f16") << (causal ? " causal" : "");
        // Tiles of 64 by 64, each multiplied twice.
        uint64_t tiles = Heads * (causal ? 10 : 16);
        EXPECT_EQ(result.counts.mmaFlops, tiles * 2 * 2 * 64 * 64 * head);
        EXPECT_EQ(result.counts.mma, result.counts.mmaFlops / 4096);
        EXPECT_EQ(result.counts.matrixConflicts, 0U);
        EXPECT_EQ(result.counts.asyncConflicts, 0U);
        // Q once, and K and V once for each tile.
        uint64_t tileBytes = 64 * head * 2;
        EXPECT_EQ(result.counts.globalRead,
                  (Heads * 4 + 2 * tiles) * tileBytes);
        EXPECT_EQ(result.counts.globalReadSectors, result.counts.globalRead);
        EXPECT_EQ(result.counts.globalWritten, Heads * Length * head * 4);
        EXPECT_EQ(result.counts.barriers, 2 * tiles);
      }
}

TEST(Flash, OrderOfBlocksAndWarpsDoesNotMatter) {
  FlashOptions options;
  std::string text = flashKernel(options);
  EXPECT_EQ(runText(text, options).output,
            runText(text, options, Order::Reverse).output);
}

TEST(Flash, ChecksChangeNothing) {
  FlashOptions options;
  Module module = Module::parse(flashKernel(options), "flash");
  FlashRun checked = runFlash(module, options, Length, Heads, true);
  FlashRun unchecked = runFlash(module, options, Length, Heads, false);
  EXPECT_EQ(checked.output, unchecked.output);
  EXPECT_EQ(checked.counts.byOpcode, unchecked.counts.byOpcode);
}

TEST(Flash, WithoutSwizzleBanksConflict) {
  FlashOptions options;
  options.swizzle = false;
  FlashRun result = runText(checkedText(options), options);
  EXPECT_LE(result.error, 1.5e-3);
  EXPECT_GT(result.counts.matrixConflicts, 0U);
}

/// Runs the kernel without one line and returns what is found wrong.
std::string faultWithout(const std::string &text, size_t begin, size_t end,
                         const FlashOptions &options, Order order) {
  std::string damaged = text;
  damaged.erase(begin, end - begin);
  try {
    runText(damaged, options, order);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(Flash, EveryBarrierAndWaitIsNeeded) {
  FlashOptions options;
  std::string text = flashKernel(options);
  unsigned removed = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    std::string line = text.substr(begin, end - begin);
    if (line.find("bar.sync") != std::string::npos ||
        line.find("cp.async.") != std::string::npos) {
      removed++;
      for (Order order : {Order::Forward, Order::Reverse})
        EXPECT_NE(faultWithout(text, begin, end, options, order), "") << line;
    }
    begin = end;
  }
  // Two barriers, the wait, two commits and 4 copies of Q and 8 + 8 of K and V.
  EXPECT_EQ(removed, 5U + 4 * 5);
}

TEST(Flash, WaitingForLess) {
  FlashOptions options;
  std::string text = flashKernel(options);
  const std::string wait = "wait_group 1";
  text.replace(text.find(wait), wait.size(), "wait_group 2");
  EXPECT_THROW(runText(text, options), Error);
}

TEST(Flash, MisplacedAddresses) {
  FlashOptions options;
  std::string text = flashKernel(options);
  // The last store of O, or the last copy, a little too far.
  for (const char *what :
       {"st.global.v2.f32 [", "cp.async.cg.shared.global ["}) {
    std::string damaged = text;
    size_t at = damaged.find(']', damaged.rfind(what));
    damaged.insert(at, "0");
    EXPECT_THROW(runText(damaged, options), Error) << what;
  }
}

} // namespace

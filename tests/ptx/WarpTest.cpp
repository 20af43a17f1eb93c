//===- tests/ptx/WarpTest.cpp - Lanes together and apart ------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "TestSupport.h"
#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>

using namespace attn::ptx;
using namespace attn::ptx::test;

namespace {

constexpr uint32_t Lanes = 32;

std::vector<uint32_t> results(const std::string &body,
                              uint32_t threads = Lanes) {
  Scene scene;
  scene.block = {threads, 1, 1};
  scene.body = body;
  SCOPED_TRACE(body);
  Outcome outcome = play(scene);
  EXPECT_EQ(outcome.error, "");
  outcome.out.resize(threads);
  return outcome.out;
}

using ByLane = std::function<uint32_t(uint32_t)>;
void expectLanes(const std::string &body, const ByLane &expected) {
  std::vector<uint32_t> found = results(body + "\nst.global.b32 [%d3], %r8;");
  for (uint32_t lane = 0; lane < Lanes; lane++)
    EXPECT_EQ(found[lane], expected(lane)) << body << "\nlane " << lane;
}

TEST(Warpwide, Shuffles) {
  // The manual's pseudo code, for segments of several widths.
  struct Mode {
    const char *name;
    std::function<int(int lane, int b, int least, int segment)> source;
    bool up;
  };
  const Mode modes[] = {
      {"up", [](int lane, int b, int, int) { return lane - b; }, true},
      {"down", [](int lane, int b, int, int) { return lane + b; }, false},
      {"bfly", [](int lane, int b, int, int) { return lane ^ b; }, false},
      {"idx",
       [](int, int b, int least, int segment) {
         return least | (b & ~segment);
       },
       false}};
  for (const Mode &mode : modes)
    for (int width : {4, 8, 32})
      for (int b : {0, 1, 2, 5, 17, 31}) {
        int segment = (Lanes - width) & 31;
        int c = segment << 8 | (mode.up ? 0 : 31);
        auto source = [&](uint32_t at, bool &inRange) {
          int lane = int(at), last = (lane & segment) | (c & 31 & ~segment);
          int j = mode.source(lane, b, lane & segment, segment);
          inRange = mode.up ? j >= last : j <= last;
          return uint32_t(inRange ? j : lane);
        };
        std::string text =
            fmt::format("mul.lo.u32 %r9, %r0, 3;\n"
                        "shfl.sync.{}.b32 %r8|%p0, %r9, {}, {}, -1;",
                        mode.name, b, c);
        bool ignored = false;
        expectLanes(text,
                    [&](uint32_t lane) { return 3 * source(lane, ignored); });
        expectLanes(text + "\nselp.b32 %r8, 1, 0, %p0;", [&](uint32_t lane) {
          bool inRange = false;
          source(lane, inRange);
          return uint32_t(inRange);
        });
      }
  expectLanes("shfl.sync.bfly.b32 %r8, %r0, 16, 31, 0xffffffff;",
              [](uint32_t lane) { return lane ^ 16; });
  // Lanes may ask for different things, and half a warp alone.
  expectLanes("sub.u32 %r9, 31, %r0;\nshfl.sync.idx.b32 %r8, %r0, %r9, 31, -1;",
              [](uint32_t lane) { return 31 - lane; });
  expectLanes("mov.b32 %r8, 99;\nsetp.lt.u32 %p0, %r0, 16;\n"
              "@%p0 shfl.sync.bfly.b32 %r8, %r0, 1, 31, 0xffff;",
              [](uint32_t lane) { return lane < 16 ? lane ^ 1 : 99; });
}

TEST(Warpwide, Votes) {
  auto vote = [](const char *how, const char *condition, const char *source) {
    return fmt::format("setp.{} %p0, %r0, 7;\nvote.sync.{}.pred %p1, {}, -1;\n"
                       "selp.b32 %r8, 1, 0, %p1;",
                       condition, how, source);
  };
  auto constant = [](uint32_t value) {
    return [value](uint32_t) { return value; };
  };
  expectLanes(vote("all", "ge.u32", "%p0"), constant(0));
  expectLanes(vote("all", "le.u32", "!%p0"), constant(0));
  expectLanes(vote("any", "eq.u32", "%p0"), constant(1));
  expectLanes(vote("uni", "eq.u32", "%p0"), constant(0));
  expectLanes("setp.lt.u32 %p0, %r0, 40;\nvote.sync.all.pred %p1, %p0, -1;\n"
              "selp.b32 %r8, 1, 0, %p1;",
              constant(1));
  expectLanes("setp.gt.u32 %p0, %r0, 40;\nvote.sync.any.pred %p1, %p0, -1;\n"
              "selp.b32 %r8, 1, 0, %p1;",
              constant(0));
  expectLanes("setp.gt.u32 %p0, %r0, 40;\nvote.sync.uni.pred %p1, %p0, -1;\n"
              "selp.b32 %r8, 1, 0, %p1;",
              constant(1));
  expectLanes("setp.lt.u32 %p0, %r0, 5;\nvote.sync.ballot.b32 %r8, %p0, -1;",
              constant(31));
  expectLanes("setp.lt.u32 %p0, %r0, 5;\nvote.sync.ballot.b32 %r8, !%p0, -1;",
              constant(~31U));
  // Of a part of the warp, only that part counts.
  expectLanes(
      "mov.b32 %r8, 7;\nsetp.lt.u32 %p0, %r0, 4;\nsetp.lt.u32 %p1, %r0, 2;\n"
      "@%p0 vote.sync.ballot.b32 %r8, %p1, 15;",
      [](uint32_t lane) { return lane < 4 ? 3 : 7; });
  expectLanes(
      "mov.b32 %r8, 7;\nsetp.lt.u32 %p0, %r0, 4;\n@%p0 activemask.b32 %r8;",
      [](uint32_t lane) { return lane < 4 ? 15 : 7; });
}

TEST(Warpwide, Reductions) {
  auto reduce = [](const char *how, const char *type, auto fold) {
    uint32_t all = 0;
    for (uint32_t lane = 0; lane < Lanes; lane++) {
      uint32_t value = lane * 7 - 50;
      all = lane == 0 ? value : fold(all, value);
    }
    expectLanes(fmt::format("mad.lo.s32 %r9, %r0, 7, -50;\n"
                            "redux.sync.{}.{} %r8, %r9, -1;",
                            how, type),
                [all](uint32_t) { return all; });
  };
  using U = uint32_t;
  using S = int32_t;
  reduce("add", "u32", [](U a, U b) { return a + b; });
  reduce("add", "s32", [](U a, U b) { return a + b; });
  reduce("min", "u32", [](U a, U b) { return std::min(a, b); });
  reduce("max", "u32", [](U a, U b) { return std::max(a, b); });
  reduce("min", "s32", [](U a, U b) { return U(std::min(S(a), S(b))); });
  reduce("max", "s32", [](U a, U b) { return U(std::max(S(a), S(b))); });
  reduce("and", "b32", [](U a, U b) { return a & b; });
  reduce("or", "b32", [](U a, U b) { return a | b; });
  reduce("xor", "b32", [](U a, U b) { return a ^ b; });
  expectLanes("mov.b32 %r8, 0;\nsetp.lt.u32 %p0, %r0, 4;\n"
              "@%p0 redux.sync.add.u32 %r8, %r0, 15;",
              [](uint32_t lane) { return lane < 4 ? 6 : 0; });
}

// --- Control flow
// -------------------------------------------------------------

TEST(Control, Branches) {
  expectLanes("setp.lt.u32 %p0, %r0, 10;\n@%p0 bra $low;\nmov.b32 %r8, "
              "2;\nbra.uni $end;\n"
              "$low:\nmov.b32 %r8, 1;\n$end:",
              [](uint32_t lane) { return lane < 10 ? 1 : 2; });
  expectLanes("setp.lt.u32 %p0, %r0, 10;\nmov.b32 %r8, 2;\n@!%p0 bra $end;\n"
              "mov.b32 %r8, 1;\n$end:",
              [](uint32_t lane) { return lane < 10 ? 1 : 2; });
}

TEST(Control, LoopsOfDifferentLength) {
  // Lanes leave one by one and meet again behind the loop.
  expectLanes(
      "mov.b32 %r8, 0;\nmov.b32 %r9, 0;\n$again:\nadd.s32 %r8, %r8, %r9;\n"
      "add.s32 %r9, %r9, 1;\nsetp.le.u32 %p0, %r9, %r0;\n@%p0 bra $again;\n"
      "shfl.sync.bfly.b32 %r8, %r8, 31, 31, -1;",
      [](uint32_t lane) { return (31 - lane) * (32 - lane) / 2; });
}

TEST(Control, ColdCodeBehindTheEnd) {
  // The join comes before the branch in the text; nobody may run past it alone.
  expectLanes(
      "setp.eq.u32 %p0, %r0, 3;\nmov.b32 %r9, 0;\n@%p0 bra $cold;\n$join:\n"
      "add.u32 %r10, %r0, %r9;\nshfl.sync.bfly.b32 %r8, %r10, 1, 31, -1;\n"
      "bra $end;\n$cold:\nmov.b32 %r9, 100;\nbra $join;\n$end:",
      [](uint32_t lane) { return (lane ^ 1) + (lane == 2 ? 100 : 0); });
}

TEST(Control, NestedBranches) {
  expectLanes(
      "mov.b32 %r8, 0;\nand.b32 %r9, %r0, 1;\nsetp.eq.u32 %p0, %r9, 0;\n"
      "and.b32 %r10, %r0, 2;\nsetp.eq.u32 %p1, %r10, 0;\n@%p0 bra $even;\n"
      "@%p1 bra $a;\nadd.s32 %r8, %r8, 1;\n$a:\nadd.s32 %r8, %r8, 2;\nbra "
      "$join;\n"
      "$even:\n@%p1 bra $b;\nadd.s32 %r8, %r8, 4;\n$b:\nadd.s32 %r8, %r8, 8;\n"
      "$join:\nadd.s32 %r8, %r8, 16;",
      [](uint32_t lane) {
        bool second = (lane & 2) != 0;
        return (lane & 1) != 0 ? 18U + second : 24U + 4 * second;
      });
}

TEST(Control, IndexedBranches) {
  expectLanes(
      "and.b32 %r9, %r0, 3;\n$table: .branchtargets $c0, $c1, $c2, $c1;\n"
      "brx.idx %r9, $table;\n$c0:\nmov.b32 %r8, 10;\nbra $end;\n"
      "$c1:\nmov.b32 %r8, 11;\nbra $end;\n$c2:\nmov.b32 %r8, 12;\n$end:",
      [](uint32_t lane) {
        return std::array<uint32_t, 4>{10, 11, 12, 11}[lane & 3];
      });
  Scene scene;
  scene.body =
      "$table: .branchtargets $c0;\nbrx.idx %r0, $table; // here\n$c0:";
  Outcome outcome = play(scene);
  EXPECT_NE(outcome.error.find("index 1 into 1 targets"), std::string::npos)
      << outcome.error;
}

TEST(Control, LanesThatExit) {
  std::vector<uint32_t> found = results("setp.ge.u32 %p0, %r0, 5;\n@%p0 ret;\n"
                                        "st.global.b32 [%d3], %r0;\nexit;");
  EXPECT_EQ(found[4], 4U);
  EXPECT_EQ(found[5], ~0U);
}

TEST(Control, PartOfAWarp) {
  // A block of 40 threads: its second warp has 8 lanes.
  std::vector<uint32_t> found =
      results("bar.sync 0;\nbar.warp.sync -1;\nsetp.lt.u32 %p0, %r1, 20;\n"
              "vote.sync.ballot.b32 %r8, %p0, -1;\nst.global.b32 [%d3], %r8;",
              40);
  EXPECT_EQ(found[0], 0xfffffU);
  EXPECT_EQ(found[39], 0xffU);
}

TEST(Control, BarriersExchange) {
  // Eight warps rotate a word by one warp, many times over two buffers.
  std::vector<uint32_t> found = results(
      ".shared .align 4 .b8 s[2048];\nmov.b64 %d8, s;\nmul.wide.u32 %d9, %r0, "
      "4;\n"
      "add.s64 %d9, %d8, %d9;\nadd.u32 %r9, %r0, 32;\nand.b32 %r9, %r9, 255;\n"
      "mul.wide.u32 %d10, %r9, 4;\nadd.s64 %d10, %d8, %d10;\nmov.b32 %r8, "
      "%r0;\n"
      "mov.b32 %r10, 0;\n$again:\nst.shared.b32 [%d9], %r8;\nbar.sync 0;\n"
      "ld.shared.b32 %r8, [%d10];\nadd.s64 %d9, %d9, 1024;\nadd.s64 %d10, "
      "%d10, 1024;\n"
      "and.b32 %r11, %r10, 1;\nsetp.eq.u32 %p0, %r11, 0;\n@%p0 bra $next;\n"
      "sub.s64 %d9, %d9, 2048;\nsub.s64 %d10, %d10, 2048;\n$next:\n"
      "add.s32 %r10, %r10, 1;\nsetp.lt.u32 %p0, %r10, 5;\n@%p0 bra $again;\n"
      "st.global.b32 [%d3], %r8;",
      256);
  for (uint32_t n = 0; n < 256; n++)
    EXPECT_EQ(found[n], (n + 5 * 32) % 256);
}

TEST(Control, NamedBarriers) {
  // Warps 0 and 1 meet at one barrier, 2 and 3 at another, which all share
  // code.
  std::vector<uint32_t> found =
      results(".shared .align 4 .b8 s[512];\nmov.b64 %d8, s;\nmul.wide.u32 "
              "%d9, %r0, 4;\n"
              "add.s64 %d9, %d8, %d9;\nxor.b32 %r9, %r0, 32;\nmul.wide.u32 "
              "%d10, %r9, 4;\n"
              "add.s64 %d10, %d8, %d10;\nst.shared.b32 [%d9], %r0;\nshr.u32 "
              "%r10, %r2, 1;\n"
              "add.u32 %r10, %r10, 1;\nbarrier.sync %r10, 64;\nld.shared.b32 "
              "%r8, [%d10];\n"
              "st.global.b32 [%d3], %r8;",
              128);
  for (uint32_t n = 0; n < 128; n++)
    EXPECT_EQ(found[n], n ^ 32);
}

TEST(Control, FencesChangeNothing) {
  for (const char *fence : {"membar.cta;", "membar.gl;", "membar.sys;",
                            "fence.acq_rel.gpu;", "fence.sc.cta;"})
    expectLanes(fmt::format("mov.b32 %r8, %r0;\n{}", fence),
                [](uint32_t lane) { return lane; });
}

} // namespace

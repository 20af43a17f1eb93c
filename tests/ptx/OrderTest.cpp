//===- tests/ptx/OrderTest.cpp - What barriers and waits must order -------===//
//
// Part of attnc. Apache-2.0.
//
// Each kernel comes twice: as it should be, and with one fragment changed.
//
//===----------------------------------------------------------------------===//
#include "TestSupport.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace attn::ptx;
using namespace attn::ptx::test;

namespace {

/// Runs the scene with `good` and with `bad` in place of `@@`, both with warps
/// and blocks in their order and in the reverse: the verdict is the same.
void expectFault(Scene scene, const std::string &good, const std::string &bad,
                 const std::string &message) {
  SCOPED_TRACE(scene.body);
  size_t at = scene.body.find("@@");
  ASSERT_NE(at, std::string::npos);
  std::string body = scene.body;
  for (Order order : {Order::Forward, Order::Reverse}) {
    scene.order = order;
    scene.body = std::string(body).replace(at, 2, good);
    Outcome fine = play(scene);
    EXPECT_EQ(fine.error, "") << fine.line;
    scene.body = std::string(body).replace(at, 2, bad);
    Outcome broken = play(scene);
    EXPECT_NE(broken.error.find(message), std::string::npos)
        << "found: '" << broken.error << "'";
  }
}

/// Every thread has a word of shared memory at %d8, written before a barrier;
/// %d9 is another's, that of thread `tid xor distance`.
Scene exchange(const std::string &body, unsigned threads, unsigned distance) {
  Scene made;
  made.block = {threads, 1, 1};
  made.body = fmt::format(".shared .align 16 .b8 s[{}];\nmov.b64 %d10, s;\n"
                          "mul.wide.u32 %d8, %r0, 4;\nadd.s64 %d8, %d10, %d8;\n"
                          "xor.b32 %r8, %r0, {};\nmul.wide.u32 %d9, %r8, 4;\n"
                          "add.s64 %d9, %d10, %d9;\n"
                          "st.shared.b32 [%d8], %r0;\nbar.sync 0;\n",
                          threads * 4, distance) +
              body;
  return made;
}

TEST(Order, ReadAfterWriteOfAnotherWarp) {
  expectFault(exchange("st.shared.b32 [%d8], %r0;\n@@\n"
                       "ld.shared.b32 %r9, [%d9];\nst.global.b32 [%d3], %r9;",
                       64, 32),
              "bar.sync 0;", "bar.warp.sync -1;", "race");
  // A fence is no barrier.
  expectFault(exchange("st.shared.b32 [%d8], %r0;\n@@\n"
                       "ld.shared.b32 %r9, [%d9];\nst.global.b32 [%d3], %r9;",
                       64, 32),
              "barrier.cta.sync.aligned 0;", "fence.acq_rel.cta;", "race");
}

TEST(Order, WriteAfterReadOfAnotherWarp) {
  expectFault(exchange("st.shared.b32 [%d8], %r0;\nbar.sync 0;\n"
                       "ld.shared.b32 %r9, [%d9];\n@@\n"
                       "st.shared.b32 [%d8], %r9;",
                       64, 32),
              "bar.sync 0;", "", "race");
}

TEST(Order, WriteAfterWriteOfAnotherWarp) {
  expectFault(
      exchange("st.shared.b32 [%d8], %r0;\n@@\nst.shared.b32 [%d9], %r0;", 64,
               32),
      "bar.sync 0;", "", "race");
}

TEST(Order, LanesOfAWarp) {
  expectFault(
      exchange("st.shared.b32 [%d8], %r0;\n@@\nld.shared.b32 %r9, [%d9];", 32,
               1),
      "bar.warp.sync -1;", "", "race");
  expectFault(exchange("st.shared.b32 [%d8], %r0;\nbar.warp.sync -1;\n"
                       "ld.shared.b32 %r9, [%d9];\n@@\n"
                       "st.shared.b32 [%d8], %r9;",
                       32, 1),
              "bar.warp.sync -1;", "", "race");
  expectFault(
      exchange("st.shared.b32 [%d8], %r0;\n@@\nst.shared.b32 [%d9], %r0;", 32,
               1),
      "bar.warp.sync 0xffffffff;", "", "race");
  expectFault(
      exchange("st.shared.b32 [%d8], %r0;\n@@\nld.shared.b32 %r9, [%d9];", 32,
               1),
      "bar.sync 0;", "", "race");
}

TEST(Order, LanesOfOneStore) {
  expectFault(
      exchange("setp.lt.u32 %p0, %r0, @@;\n@%p0 st.shared.b32 [s], %r0;", 32,
               1),
      "1", "2", "race");
}

TEST(Order, MatrixReads) {
  // Rows of 16 bytes: lanes 0 to 7 write what all lanes then read.
  Scene rows;
  rows.body = ".shared .align 16 .b8 s[128];\nmov.b64 %d10, s;\n"
              "and.b32 %r8, %r0, 7;\nmul.wide.u32 %d8, %r8, 16;\n"
              "add.s64 %d8, %d10, %d8;\nsetp.lt.u32 %p0, %r0, 8;\n"
              "@%p0 st.shared.v4.b32 [%d8], {%r0, %r0, %r0, %r0};\n@@\n"
              "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%d8];\n"
              "bar.warp.sync -1;\n"
              "@%p0 st.shared.v4.b32 [%d8], {%r0, %r0, %r0, %r0};\n";
  expectFault(rows, "bar.warp.sync -1;", "", "race");
  rows.body.replace(rows.body.find("@@"), 2, "bar.warp.sync -1;");
  size_t last = rows.body.rfind("bar.warp.sync -1;");
  rows.body.replace(last, 17, "@@");
  expectFault(rows, "bar.warp.sync -1;", "", "race");
}

TEST(Order, BarrierChains) {
  // Warp 0 publishes to warp 1, and that one to warp 2, each pair at a barrier
  // of its own: what warp 2 reads was ordered through warp 1.
  const char *Chain = "setp.eq.u32 %p0, %r2, 0;\nsetp.eq.u32 %p1, %r2, 1;\n"
                      "setp.eq.u32 %p2, %r2, 2;\nand.b32 %r9, %r0, 31;\n"
                      "mul.wide.u32 %d11, %r9, 4;\nadd.s64 %d11, %d10, %d11;\n"
                      "@%p0 st.shared.b32 [%d11], %r0;\n"
                      "@%p0 bar.sync 1, 64;\n@%p1 bar.sync 1, 64;\n"
                      "@%p1 bar.sync 2, 64;\n@%p2 bar.sync 2, 64;\n"
                      "@%p2 ld.shared.b32 %r10, [%d11];\n"
                      "@%p{} ld.shared.b32 %r11, [%d11];\n@@";
  std::string body = Chain;
  body.replace(body.find("{}"), 2, "2");
  expectFault(exchange(body, 96, 0), "",
              "bar.sync 3;\n@%p0 st.shared.b32 [%d11], %r0;\n"
              "@%p2 ld.shared.b32 %r10, [%d11];",
              "race");
}

TEST(Order, ArriveDoesNotWait) {
  // A producer arrives; only who waits may read.
  expectFault(exchange("setp.eq.u32 %p0, %r2, 0;\n"
                       "@%p0 st.shared.b32 [%d8], %r0;\n"
                       "@%p0 bar.arrive 1, 64;\n@!%p0 bar.sync 1, 64;\n"
                       "@!%p0 ld.shared.b32 %r9, [%d9];\n@@",
                       64, 32),
              "",
              "@!%p0 st.shared.b32 [%d8], %r0;\n@%p0 ld.shared.b32 %r9, [%d9];",
              "race");
}

TEST(Order, GlobalMemory) {
  Scene two;
  two.block = {64, 1, 1};
  two.body = "xor.b32 %r8, %r0, 32;\nmul.wide.u32 %d8, %r8, 4;\n"
             "add.s64 %d8, %d1, %d8;\nst.global.b32 [%d3], %r0;\n@@\n"
             "ld.global.b32 %r9, [%d8];";
  expectFault(two, "bar.sync 0;", "", "race");
  Scene one;
  one.body = "st.global.b32 [@@], %r0;";
  expectFault(one, "%d3", "%d1", "race");
  // Nothing orders blocks.
  Scene blocks;
  blocks.grid = {2, 1, 1};
  blocks.body = "mul.wide.u32 %d8, %r0, 4;\nadd.s64 %d8, %d1, %d8;\n"
                "st.global.b32 [@@], %r0;";
  expectFault(blocks, "%d3", "%d8", "race");
  blocks.body = "st.global.b32 [%d3], %r0;\nbar.sync 0;\n"
                "ld.global.b32 %r8, [@@];";
  expectFault(blocks, "%d3", "%d1", "race");
}

// --- Asynchronous copies
// ------------------------------------------------------

/// Every thread copies 16 bytes of `in` from %d11 to %d8, written before a
/// barrier; %d9 is another thread's place.
Scene copies(const std::string &body, unsigned threads, unsigned distance) {
  Scene made;
  made.block = {threads, 1, 1};
  made.body =
      fmt::format(".shared .align 16 .b8 s[{}];\nmov.b64 %d10, s;\n"
                  "mul.wide.u32 %d8, %r0, 16;\nadd.s64 %d11, %d0, %d8;\n"
                  "add.s64 %d8, %d10, %d8;\nxor.b32 %r8, %r0, {};\n"
                  "mul.wide.u32 %d9, %r8, 16;\nadd.s64 %d9, %d10, %d9;\n"
                  "st.shared.v4.b32 [%d8], {{%r0, %r0, %r0, %r0}};\n"
                  "bar.sync 0;\n",
                  threads * 16, distance) +
      body;
  return made;
}

constexpr const char *Copy = "cp.async.cg.shared.global [%d8], [%d11], 16;\n";
constexpr const char *Commit = "cp.async.commit_group;\n";
constexpr const char *Wait = "cp.async.wait_group 0;\n";

TEST(Order, CopyReadBeforeItsWait) {
  expectFault(copies(std::string(Copy) + Commit +
                         "@@\nld.shared.b32 %r9, [%d8];\n" + Wait,
                     32, 0),
              Wait, "", "under way");
  expectFault(
      copies(std::string(Copy) + Commit + Commit +
                 "cp.async.wait_group @@;\nld.shared.b32 %r9, [%d8];\n" + Wait,
             32, 0),
      "1", "2", "under way");
  expectFault(copies(std::string(Copy) + "@@\n" + Wait +
                         "ld.shared.b32 %r9, [%d8];\ncp.async.wait_all;",
                     32, 0),
              Commit, "", "under way");
}

TEST(Order, CopyReadByOthers) {
  // The wait is the copying thread's own; others need a barrier too.
  expectFault(copies(std::string(Copy) + Commit + Wait +
                         "@@\nld.shared.b32 %r9, [%d9];",
                     32, 1),
              "bar.warp.sync -1;", "", "race");
  expectFault(copies(std::string(Copy) + Commit + Wait +
                         "@@\nld.shared.b32 %r9, [%d9];",
                     64, 32),
              "bar.sync 0;", "bar.warp.sync -1;", "race");
  // A barrier before the wait publishes nothing.
  expectFault(
      copies(std::string(Copy) + Commit + "@@\nld.shared.b32 %r9, [%d9];", 64,
             32),
      std::string(Wait) + "bar.sync 0;", std::string("bar.sync 0;\n") + Wait,
      "under way");
}

TEST(Order, CopyOverWhatIsRead) {
  // The next copy begins while another warp may still read the last one.
  std::string round = std::string(Copy) + Commit + Wait;
  expectFault(
      copies(round + "bar.sync 0;\nld.shared.b32 %r9, [%d9];\n@@\n" + round, 64,
             32),
      "bar.sync 0;", "", "race");
  expectFault(
      copies(round + "bar.sync 0;\nld.shared.b32 %r9, [%d9];\n@@\n" + round, 32,
             1),
      "bar.warp.sync -1;", "", "race");
}

TEST(Order, CopyOverwritten) {
  expectFault(copies(std::string(Copy) + Commit +
                         "@@\nst.shared.b32 [%d8], %r0;\n" + Wait,
                     32, 0),
              Wait, "", "under way");
  expectFault(
      copies(std::string(Copy) + Commit + "@@\n" + Copy + Commit + Wait, 32, 0),
      Wait, "", "under way");
}

TEST(Order, CopySourceOverwritten) {
  Scene source =
      copies("mul.wide.u32 %d12, %r0, 16;\nadd.s64 %d12, %d1, %d12;\n"
             "st.global.b32 [%d12], %r0;\n"
             "cp.async.ca.shared.global [%d8], [%d12], 4;\n"
             "cp.async.commit_group;\n@@\n"
             "add.s32 %r9, %r0, 7;\nst.global.b32 [%d12], %r9;\n"
             "cp.async.wait_group 0;\n",
             32, 0);
  expectFault(source, Wait, "", "overwritten while the copy was under way");
}

TEST(Order, CopyNeverWaitedFor) {
  expectFault(copies(std::string(Copy) + Commit + "@@", 32, 0), Wait, "",
              "never waited for");
  expectFault(copies(std::string(Copy) + "@@", 32, 0), "cp.async.wait_all;", "",
              "never committed");
}

TEST(Order, CopyBoundsAndAlignment) {
  expectFault(
      copies(std::string("cp.async.cg.shared.global [%d8+@@], [%d11], 16;\n") +
                 "cp.async.wait_all;",
             32, 0),
      "0", "16", "out of bounds");
  expectFault(
      copies(std::string("cp.async.ca.shared.global [%d8+@@], [%d11], 8;\n") +
                 "cp.async.wait_all;",
             32, 0),
      "8", "4", "misaligned");
  expectFault(
      copies(std::string("cp.async.cg.shared.global [%d8], [%d11+@@], 16;\n") +
                 "cp.async.wait_all;",
             32, 0),
      "3584", "3600", "out of bounds");
  expectFault(
      copies(std::string("cp.async.cg.shared.global [%d8], [%d11+@@], 16;\n") +
                 "cp.async.wait_all;",
             32, 0),
      "16", "8", "misaligned");
  // Only the bytes that are read need to be there.
  expectFault(copies("mov.b32 %r10, @@;\n"
                     "cp.async.cg.shared.global [%d8], [%d11+4096], 16, %r10;\n"
                     "cp.async.wait_all;",
                     32, 0),
              "0", "1", "out of bounds");
  expectFault(copies("mov.b32 %r10, @@;\n"
                     "cp.async.cg.shared.global [%d8], [%d11], 16, %r10;\n"
                     "cp.async.wait_all;",
                     32, 0),
              "16", "17", "reads 17");
}

// --- Who must be there
// --------------------------------------------------------

TEST(Order, BarriersInBranches) {
  Scene lanes;
  lanes.body = "setp.lt.u32 %p0, %r1, @@;\n@%p0 bar.sync 0;";
  expectFault(lanes, "32", "16", "divergent");
  lanes.body = "setp.lt.u32 %p0, %r1, @@;\n@%p0 bra $left;\nbar.sync 0;\n"
               "bra $join;\n$left:\nbar.sync 0;\n$join:";
  expectFault(lanes, "32", "16", "divergent");
  lanes.body = "setp.lt.u32 %p0, %r1, @@;\n@%p0 exit;\nbar.sync 0;";
  expectFault(lanes, "0", "16", "divergent");
}

TEST(Order, BarriersThatWarpsMiss) {
  Scene warps;
  warps.block = {64, 1, 1};
  warps.body = "setp.lt.u32 %p0, %r2, @@;\n@%p0 bar.sync 0;";
  expectFault(warps, "2", "1", "deadlock");
  warps.body = "setp.eq.u32 %p0, %r2, 0;\n@%p0 bar.sync 0;\n@!%p0 bar.sync @@;";
  expectFault(warps, "0", "1", "deadlock");
  warps.body = "setp.eq.u32 %p0, %r2, 0;\n@%p0 bar.sync 0, 64;\n"
               "@!%p0 bar.sync 0, @@;";
  expectFault(warps, "64", "32", "bar.sync");
  warps.body = "mov.b32 %r8, @@;\nbar.sync 0, %r8;";
  expectFault(warps, "64", "48", "whole warps");
  expectFault(warps, "64", "128", "in a block of 64");
  warps.body = "mov.b32 %r8, @@;\nbar.sync %r8;";
  expectFault(warps, "15", "16", "there are 0 to 15");
  expectFault(warps, "15", "%r1", "differ about a barrier");
}

TEST(Order, ShufflesInBranches) {
  Scene lanes;
  lanes.body = "setp.lt.u32 %p0, %r1, @@;\nmov.b32 %r8, 0;\n"
               "@%p0 shfl.sync.bfly.b32 %r8, %r0, 1, 31, -1;";
  expectFault(lanes, "32", "16", "divergent");
  lanes.body = "setp.ge.u32 %p0, %r1, @@;\n@%p0 exit;\n"
               "shfl.sync.bfly.b32 %r8, %r0, 1, 31, -1;";
  expectFault(lanes, "32", "16", "divergent");
  lanes.body = "shfl.sync.bfly.b32 %r8, %r0, 1, 31, @@;";
  expectFault(lanes, "0xffffffff", "0xfffffffe",
              "does not name the lane itself");
  lanes.body = "setp.lt.u32 %p0, %r1, 16;\nmov.b32 %r8, 0;\n"
               "@%p0 shfl.sync.bfly.b32 %r8, %r0, @@, 31, 0xffff;";
  expectFault(lanes, "8", "16", "takes no part");
  lanes.body = "setp.lt.u32 %p0, %r1, @@;\n@%p0 bar.warp.sync -1;";
  expectFault(lanes, "32", "31", "divergent");
  lanes.body = "setp.lt.u32 %p0, %r1, @@;\nsetp.eq.u32 %p1, %r0, 0;\n"
               "@%p0 vote.sync.any.pred %p1, %p1, -1;";
  expectFault(lanes, "32", "31", "divergent");
  lanes.body = "setp.lt.u32 %p0, %r1, @@;\n"
               "@%p0 redux.sync.add.u32 %r8, %r0, -1;";
  expectFault(lanes, "32", "31", "divergent");
}

TEST(Order, MatricesInBranches) {
  Scene lanes;
  lanes.body = "mov.b32 %r8, 0;\nsetp.lt.u32 %p0, %r1, @@;\n"
               "mov.f32 %r10, 0f00000000;\n"
               "@%p0 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%r20, %r21, %r22, %r23}, {%r8, %r8, %r8, %r8}, {%r8, %r8}, "
               "{%r10, %r10, %r10, %r10};";
  expectFault(lanes, "32", "16", "divergent");
  lanes.body = ".shared .align 16 .b8 s[512];\nmov.b64 %d8, s;\n"
               "mul.wide.u32 %d9, %r0, 16;\nadd.s64 %d8, %d8, %d9;\n"
               "st.shared.v4.b32 [%d8], {%r0, %r0, %r0, %r0};\n"
               "bar.warp.sync -1;\nsetp.lt.u32 %p0, %r1, @@;\n"
               "@%p0 ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
               "{%r20, %r21, %r22, %r23}, [%d8];";
  expectFault(lanes, "32", "16", "divergent");
}

} // namespace

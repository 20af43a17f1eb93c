//===- tests/ptx/MemoryTest.cpp - Moves, loads, stores and their counts ---===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "TestSupport.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace attn::ptx;
using namespace attn::ptx::test;

namespace {

using Row = std::vector<uint64_t>;

Outcome fine(const Scene &scene) {
  SCOPED_TRACE(scene.body);
  Outcome outcome = play(scene);
  EXPECT_EQ(outcome.error, "");
  return outcome;
}
Outcome fine(const std::string &body) {
  Scene scene;
  scene.body = body;
  return fine(scene);
}

TEST(Move, Registers) {
  EXPECT_EQ(evaluate("mov.b16 $d, $a", 16, {16}, {{0xabcd}})[0], 0xabcdU);
  EXPECT_EQ(evaluate("mov.u32 $d, $a", 32, {32}, {{0x89abcdef}})[0],
            0x89abcdefU);
  EXPECT_EQ(evaluate("mov.f64 $d, $a", 64, {64}, {{~uint64_t(1)}})[0],
            ~uint64_t(1));
  EXPECT_EQ(evaluate("mov.f32 $d, 0f3F800000", 32, {}, {})[0], 0x3f800000U);
  EXPECT_EQ(evaluate("mov.f64 $d, 0d3FF0000000000000", 64, {}, {})[0],
            0x3ff0000000000000U);
  EXPECT_EQ(evaluate("mov.f32 $d, 1.5", 32, {}, {})[0], 0x3fc00000U);
  EXPECT_EQ(evaluate("mov.b32 $d, -2", 32, {}, {})[0], 0xfffffffeU);
  EXPECT_EQ(evaluate("mov.b32 $d, 0b101", 32, {}, {})[0], 5U);
  EXPECT_EQ(evaluate("mov.b32 $d, 4294967295U", 32, {}, {})[0], 0xffffffffU);
  EXPECT_EQ(evaluate("mov.b32 $d, WARP_SZ", 32, {}, {})[0], 32U);
}

TEST(Move, Parts) {
  EXPECT_EQ(
      evaluate("mov.b32 $d, {$a, $b}", 32, {16, 16}, {{0x1111}, {0x2222}})[0],
      0x22221111U);
  EXPECT_EQ(evaluate("mov.b64 $d, {$a, $b}", 64, {32, 32}, {{1}, {2}})[0],
            0x200000001U);
  EXPECT_EQ(evaluate("mov.b64 $d, {$a, $b, $c, $e}", 64, {16, 16, 16, 16},
                     {{1}, {2}, {3}, {4}})[0],
            0x0004000300020001U);
  EXPECT_EQ(evaluate("mov.b32 {$d, %h8}, $a", 16, {32}, {{0x22221111}})[0],
            0x1111U);
  EXPECT_EQ(evaluate("mov.b32 {_, $d}, $a", 16, {32}, {{0x22221111}})[0],
            0x2222U);
  EXPECT_EQ(evaluate("mov.b64 {%r8, $d}, $a", 32, {64}, {{0x200000001}})[0],
            2U);
  EXPECT_EQ(evaluate("mov.b64 {%h6, %h7, $d, %h8}, $a", 16, {64},
                     {{0x0004000300020001}})[0],
            3U);
}

TEST(Move, SpecialRegisters) {
  Scene scene;
  scene.block = {8, 4, 2};
  scene.grid = {2, 3, 2};
  scene.declarations = ".extern .shared .align 4 .b8 KERNEL_s[];\n";
  scene.dynamicShared = 48;
  // The last thread of the last block writes all it knows.
  const std::pair<const char *, uint32_t> expected[] = {
      {"%tid.x", 7},
      {"%tid.y", 3},
      {"%tid.z", 1},
      {"%ntid.x", 8},
      {"%ntid.y", 4},
      {"%ntid.z", 2},
      {"%ctaid.x", 1},
      {"%ctaid.y", 2},
      {"%ctaid.z", 1},
      {"%nctaid.x", 2},
      {"%nctaid.y", 3},
      {"%nctaid.z", 2},
      {"%laneid", 31},
      {"%warpid", 1},
      {"%nwarpid", 2},
      {"%lanemask_eq", 1U << 31},
      {"%lanemask_lt", ~0U >> 1},
      {"%lanemask_le", ~0U},
      {"%lanemask_gt", 0},
      {"%lanemask_ge", 1U << 31},
      {"%dynamic_smem_size", 48}};
  scene.body =
      "mov.b64 %d8, KERNEL_s;\n"
      "mov.u32 %r8, %tid.x;\nmov.u32 %r9, %tid.y;\nmov.u32 %r10, %tid.z;\n"
      "mov.u32 %r11, %ctaid.x;\nmov.u32 %r12, %ctaid.y;\n"
      "mov.u32 %r13, %ctaid.z;\n"
      "setp.eq.u32 %p0, %r8, 7;\nsetp.eq.and.u32 %p0, %r9, 3, %p0;\n"
      "setp.eq.and.u32 %p0, %r10, 1, %p0;\n"
      "setp.eq.and.u32 %p0, %r11, 1, %p0;\n"
      "setp.eq.and.u32 %p0, %r12, 2, %p0;\n"
      "setp.eq.and.u32 %p0, %r13, 1, %p0;\n";
  unsigned at = 0;
  for (auto [name, value] : expected)
    scene.body +=
        fmt::format("mov.u32 %r14, {};\n@%p0 st.global.b32 [%d1+{}], %r14;\n",
                    name, 4 * at++);
  Outcome outcome = fine(scene);
  at = 0;
  for (auto [name, value] : expected)
    EXPECT_EQ(outcome.out[at++], value) << name;
}

TEST(Memory, Widths) {
  // `in` holds 0, 1, 2, ...: the word 0x1ff at 4 * 0x1ff.
  const std::tuple<const char *, Bits, uint64_t> loads[] = {
      {"b8", 16, 0xff},   {"u8", 16, 0xff},       {"s8", 16, 0xffff},
      {"u8", 32, 0xff},   {"s8", 32, 0xffffffff}, {"s8", 64, ~uint64_t(0)},
      {"b16", 16, 0x1ff}, {"u16", 32, 0x1ff},     {"s16", 64, 0x1ff},
      {"b32", 32, 0x1ff}, {"f32", 32, 0x1ff},     {"u32", 64, 0x1ff},
      {"s32", 64, 0x1ff}};
  for (auto [type, bits, expected] : loads) {
    const char *reg = bits == 16 ? "%h8" : bits == 32 ? "%r8" : "%d8";
    Scene scene;
    scene.block = {1, 1, 1};
    scene.body = fmt::format("ld.global.{} {}, [%d0+2044];\n"
                             "st.global.b{} [%d1], {};",
                             type, reg, bits, reg);
    Outcome outcome = fine(scene);
    uint64_t found = 0;
    std::memcpy(&found, outcome.out.data(), bits / 8);
    EXPECT_EQ(found, expected) << type << " to " << bits;
  }
  Scene wide;
  wide.block = {1, 1, 1};
  wide.body = "ld.global.b64 %d8, [%d0+8];\nst.global.f64 [%d1], %d8;\n"
              "mov.b32 %r8, 0x12345678;\nst.global.b8 [%d1+8], %r8;\n"
              "st.global.u16 [%d1+12], %r8;\nmov.b64 %d9, 0x1122334455667788;\n"
              "st.global.u32 [%d1+16], %d9;\nst.global.s8 [%d1+20], %d9;";
  Outcome outcome = fine(wide);
  EXPECT_EQ(outcome.out[0], 2U);
  EXPECT_EQ(outcome.out[1], 3U);
  EXPECT_EQ(outcome.out[2], 0xffffff78U);
  EXPECT_EQ(outcome.out[3], 0xffff5678U);
  EXPECT_EQ(outcome.out[4], 0x55667788U);
  EXPECT_EQ(outcome.out[5], 0xffffff88U);
}

TEST(Memory, SignOfNarrowLoads) {
  Scene scene;
  scene.block = {1, 1, 1};
  scene.body = "mov.b32 %r8, 0x8180;\nst.global.b32 [%d1], %r8;\n"
               "ld.global.s8 %r9, [%d1];\nst.global.b32 [%d1+4], %r9;\n"
               "ld.global.s16 %r9, [%d1];\nst.global.b32 [%d1+8], %r9;\n"
               "ld.global.u16 %r9, [%d1];\nst.global.b32 [%d1+12], %r9;";
  Outcome outcome = fine(scene);
  EXPECT_EQ(outcome.out[1], 0xffffff80U);
  EXPECT_EQ(outcome.out[2], 0xffff8180U);
  EXPECT_EQ(outcome.out[3], 0x8180U);
}

TEST(Memory, Vectors) {
  Scene scene;
  scene.block = {1, 1, 1};
  scene.body = "ld.global.v4.b32 {%r8, %r9, _, %r11}, [%d0+16];\n"
               "st.global.v2.b32 [%d1], {%r11, %r8};\n"
               "ld.global.v2.b64 {%d8, %d9}, [%d0+32];\n"
               "st.global.v2.b64 [%d1+16], {%d9, %d8};\n"
               "ld.global.v4.u8 {%h8, %h9, %h10, %h11}, [%d0+1024];\n"
               "st.global.v4.b16 [%d1+32], {%h8, %h9, %h8, %h9};\n"
               "st.global.v4.f32 [%d1+48], {%r9, %r9, %r9, %r9};";
  Outcome outcome = fine(scene);
  const uint32_t expected[] = {7,       4,       ~0U, ~0U, 10, 11, 8, 9,
                               0x10000, 0x10000, ~0U, ~0U, 5,  5,  5, 5};
  for (size_t n = 0; n < std::size(expected); n++)
    EXPECT_EQ(outcome.out[n], expected[n]) << n;
}

TEST(Memory, HarmlessModifiers) {
  for (const char *modifiers :
       {"ld.volatile.global.b32", "ld.relaxed.gpu.global.b32",
        "ld.weak.global.b32", "ld.global.nc.b32", "ld.global.ca.b32",
        "ld.global.cg.b32", "ld.global.cs.b32", "ld.global.cv.b32",
        "ld.global.lu.b32", "ld.global.nc.L1::no_allocate.b32",
        "ld.global.L1::evict_last.b32", "ld.global.L2::128B.b32"})
    EXPECT_EQ(fine(fmt::format("{} %r8, [%d2];\nst.global.b32 [%d3], %r8;",
                               modifiers))
                  .out[5],
              5U);
  for (const char *modifiers :
       {"st.volatile.global.b32", "st.relaxed.cta.global.b32",
        "st.weak.global.b32", "st.global.wb.b32", "st.global.cg.b32",
        "st.global.cs.b32", "st.global.wt.b32",
        "st.global.L1::no_allocate.b32"})
    EXPECT_EQ(fine(fmt::format("{} [%d3], %r0;", modifiers)).out[5], 5U);
}

TEST(Memory, Spaces) {
  Scene scene;
  scene.declarations =
      ".const .align 4 .b32 KERNEL_c[4] = {10, 20, -1, 0x40};\n"
      ".global .align 2 .b8 KERNEL_g[6] = {1, 2, 3};\n"
      ".global .align 4 .f32 KERNEL_f = 0f3F800000;\n"
      ".const .align 8 .f64 KERNEL_d[2] = {1.0, 0d4000000000000000};\n"
      ".shared .align 4 .b8 KERNEL_s[8];\n";
  scene.block = {1, 1, 1};
  scene.body =
      ".local .align 8 .b8 l[16];\n"
      "ld.const.u32 %r8, [KERNEL_c+4];\nst.global.b32 [%d1], %r8;\n"
      "mov.u64 %d8, KERNEL_c;\nld.const.s32 %r8, [%d8+8];\n"
      "st.global.b32 [%d1+4], %r8;\n"
      "cvta.const.u64 %d8, %d8;\nld.u32 %r8, [%d8+12];\n"
      "st.global.b32 [%d1+8], %r8;\n"
      "ld.global.u8 %r8, [KERNEL_g+2];\nst.global.b32 [%d1+12], %r8;\n"
      "ld.global.b16 %h8, [KERNEL_g+4];\nst.global.b16 [%d1+16], %h8;\n"
      "ld.global.f32 %r8, [KERNEL_f];\nst.global.b32 [%d1+20], %r8;\n"
      "mov.b32 %r9, 77;\nst.global.b32 [KERNEL_f], %r9;\n"
      "mov.u64 %d9, KERNEL_f;\ncvta.global.u64 %d9, %d9;\nld.b32 %r8, [%d9];\n"
      "st.global.b32 [%d1+24], %r8;\n"
      "st.shared.b32 [KERNEL_s+4], %r9;\nmov.u64 %d10, KERNEL_s;\n"
      "cvta.shared.u64 %d11, %d10;\nld.b32 %r8, [%d11+4];\n"
      "st.global.b32 [%d1+28], %r8;\n"
      "cvta.to.shared.u64 %d12, %d11;\nld.shared::cta.b32 %r8, [%d12+4];\n"
      "st.global.b32 [%d1+32], %r8;\n"
      "mov.u32 %r10, KERNEL_s;\nld.shared.b32 %r8, [%r10+4];\n"
      "st.global.b32 [%d1+36], %r8;\n"
      "mov.u64 %d13, l;\nst.local.v2.b32 [%d13+8], {%r9, %r0};\n"
      "cvta.local.u64 %d14, %d13;\nld.b32 %r8, [%d14+8];\n"
      "st.global.b32 [%d1+40], %r8;\nst.b32 [%d14], %r9;\n"
      "cvta.to.local.u64 %d15, %d14;\nld.local.b32 %r8, [%d15];\n"
      "st.global.b32 [%d1+44], %r8;\n"
      "mov.b64 %d16, KERNEL_in;\ncvta.param.u64 %d16, %d16;\n"
      "ld.b64 %d17, [%d16];\nsub.s64 %d17, %d17, %d0;\n"
      "st.global.b32 [%d1+48], %d17;\n"
      "ld.const.f64 %d18, [KERNEL_d+8];\nst.global.b64 [%d1+56], %d18;\n"
      "mov.u64 %d19, KERNEL_c+12;\nld.const.b32 %r8, [%d19];\n"
      "st.global.b32 [%d1+64], %r8;\n";
  scene.target = "sm_90";
  Outcome outcome = fine(scene);
  const uint32_t expected[] = {
      20, ~0U, 0x40, 3, 0xffff0000, 0x3f800000, 77,         77,  77,
      77, 77,  77,   0, ~0U,        0,          0x40000000, 0x40};
  for (size_t n = 0; n < std::size(expected); n++)
    EXPECT_EQ(outcome.out[n], expected[n]) << n;
}

TEST(Memory, LocalIsEachThreadsOwn) {
  Scene scene;
  scene.block = {64, 1, 1};
  scene.body = ".local .align 4 .b8 l[8];\nmov.u64 %d8, l;\n"
               "st.local.b32 [%d8+4], %r0;\nbar.sync 0;\n"
               "ld.local.b32 %r8, [%d8+4];\nst.global.b32 [%d3], %r8;";
  Outcome outcome = fine(scene);
  for (uint32_t n = 0; n < 64; n++)
    EXPECT_EQ(outcome.out[n], n);
}

TEST(Memory, PredicatedAccesses) {
  Outcome outcome = fine("setp.lt.u32 %p0, %r0, 3;\nmov.b32 %r8, 100;\n"
                         "@%p0 ld.global.b32 %r8, [%d2];\n"
                         "@!%p0 st.global.b32 [%d3], %r8;");
  EXPECT_EQ(outcome.out[0], ~0U);
  EXPECT_EQ(outcome.out[2], ~0U);
  EXPECT_EQ(outcome.out[3], 100U);
}

// --- Counts
// -------------------------------------------------------------------

TEST(Counts, GlobalBytesAndSectors) {
  Counts together =
      fine("ld.global.b32 %r8, [%d2];\nst.global.b32 [%d3], %r8;").counts;
  EXPECT_EQ(together.globalRead, 128U);
  EXPECT_EQ(together.globalReadSectors, 128U);
  EXPECT_EQ(together.globalWritten, 128U);
  EXPECT_EQ(together.globalWrittenSectors, 128U);
  // Words 64 bytes apart lie in a sector each.
  Counts apart = fine("mul.wide.u32 %d8, %r0, 64;\nadd.s64 %d8, %d0, %d8;\n"
                      "ld.global.b32 %r8, [%d8];")
                     .counts;
  EXPECT_EQ(apart.globalRead, 128U);
  EXPECT_EQ(apart.globalReadSectors, 32U * 32);
  Counts same = fine("ld.global.b32 %r8, [%d0];").counts;
  EXPECT_EQ(same.globalReadSectors, 32U);
  // Lanes in reverse touch no more.
  Counts reverse = fine("sub.u32 %r8, 31, %r0;\nmul.wide.u32 %d8, %r8, 4;\n"
                        "add.s64 %d8, %d0, %d8;\nld.global.b32 %r8, [%d8];")
                       .counts;
  EXPECT_EQ(reverse.globalReadSectors, 128U);
  // Accesses through generic addresses count as what they are.
  EXPECT_EQ(fine("ld.b32 %r8, [%d2];").counts.globalRead, 128U);
}

TEST(Counts, Instructions) {
  Scene scene;
  scene.block = {64, 1, 1};
  scene.grid = {3, 1, 1};
  scene.body =
      "bar.sync 0;\nsetp.lt.u32 %p0, %r2, 1;\n@%p0 mul.lo.s32 %r8, %r0, 3;";
  Counts counts = fine(scene).counts;
  EXPECT_EQ(counts.byOpcode["bar.sync"], 6U);
  EXPECT_EQ(counts.byOpcode["mul.lo.s32"], 3U); // of one warp in each block
  EXPECT_EQ(counts.byOpcode["ret"], 6U);
  EXPECT_EQ(counts.barriers, 3U);
  uint64_t sum = 0;
  for (auto &[opcode, count] : counts.byOpcode)
    sum += count;
  EXPECT_EQ(sum, counts.warpInstructions);
}

uint64_t sharedConflicts(const char *access, unsigned stride) {
  Scene scene;
  scene.body =
      fmt::format(".shared .align 16 .b8 s[8192];\nmov.b64 %d8, s;\n"
                  "mul.wide.u32 %d9, %r0, {};\nadd.s64 %d8, %d8, %d9;\n{}",
                  stride, access);
  Outcome outcome = fine(scene);
  EXPECT_EQ(outcome.counts.sharedAccesses, 1U);
  return outcome.counts.sharedConflicts;
}

TEST(Counts, SharedConflicts) {
  const char *word = "st.shared.b32 [%d8], %r0;";
  EXPECT_EQ(sharedConflicts(word, 4), 0U);
  EXPECT_EQ(sharedConflicts(word, 8), 1U);    // two words in every other bank
  EXPECT_EQ(sharedConflicts(word, 128), 31U); // all in one bank
  EXPECT_EQ(sharedConflicts(word, 132), 0U);
  const char *pair = "st.shared.b64 [%d8], %d0;";
  EXPECT_EQ(sharedConflicts(pair, 8), 0U); // two wavefronts are needed anyway
  EXPECT_EQ(sharedConflicts(pair, 128), 30U);
  const char *four = "st.shared.v4.b32 [%d8], {%r0, %r0, %r0, %r0};";
  EXPECT_EQ(sharedConflicts(four, 16), 0U);
  EXPECT_EQ(sharedConflicts(four, 128), 28U);
  EXPECT_EQ(sharedConflicts("st.shared.b16 [%d8], %r0;", 2), 0U);
  // One word for all is no conflict.
  Scene broadcast;
  broadcast.body = ".shared .align 4 .b8 s[4];\nsetp.eq.u32 %p0, %r0, 0;\n"
                   "@%p0 st.shared.b32 [s], %r0;\nbar.warp.sync -1;\n"
                   "ld.shared.b32 %r8, [s];";
  EXPECT_EQ(fine(broadcast).counts.sharedConflicts, 0U);
}

} // namespace

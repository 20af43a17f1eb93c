//===- tests/ptx/CheckTest.cpp - Every check trips, and only then ---------===//
//
// Part of attnc. Apache-2.0.
//
// Each kernel comes twice: as it should be, and with one fragment changed. The
// first must run, the second must fail with the right words at the line that
// says `// here`.
//
//===----------------------------------------------------------------------===//
#include "TestSupport.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace attn::ptx;
using namespace attn::ptx::test;

namespace {

Scene with(Scene scene, const std::string &fragment) {
  size_t at = scene.body.find("@@");
  EXPECT_NE(at, std::string::npos);
  scene.body.replace(at, 2, fragment);
  return scene;
}

/// Runs the scene with `good` and with `bad` in place of `@@`.
void expectFault(const Scene &scene, const std::string &good,
                 const std::string &bad, const std::string &message) {
  SCOPED_TRACE(scene.body);
  Outcome fine = play(with(scene, good));
  EXPECT_EQ(fine.error, "") << fine.line;
  Outcome broken = play(with(scene, bad));
  EXPECT_NE(broken.error.find(message), std::string::npos)
      << "found: '" << broken.error << "'";
  EXPECT_NE(broken.line.find("// here"), std::string::npos)
      << "names the line '" << broken.line << "': " << broken.error;
}

Scene scene(std::string body, uint32_t threads = 32) {
  Scene made;
  made.body = std::move(body);
  made.block = {threads, 1, 1};
  return made;
}

// --- Bounds and alignment
// -----------------------------------------------------

TEST(Check, SharedBounds) {
  Scene each = scene(".shared .align 4 .b8 one[128];\n"
                     ".shared .align 4 .b8 two[128];\n"
                     "mov.b64 %d8, one;\nmov.b64 %d10, two;\n"
                     "mul.wide.u32 %d9, %r0, 4;\nadd.s64 %d8, %d8, %d9;\n"
                     "st.shared.b32 [%d8+@@], %r0; // here\n"
                     "st.shared.b32 [two], %r0;",
                     1);
  each.block = {1, 1, 1};
  expectFault(each, "124", "128", "out of bounds");
  expectFault(each, "0", "-4", "out of bounds");
  expectFault(each, "64", "126", "out of bounds");
  // The neighbour is no part of the object.
  expectFault(each, "0", "256", "out of bounds");
}

TEST(Check, DynamicSharedBounds) {
  Scene each = scene("mov.b64 %d8, KERNEL_dynamic;\n"
                     "mul.wide.u32 %d9, %r0, 4;\nadd.s64 %d8, %d8, %d9;\n"
                     "st.shared.b32 [%d8+@@], %r0; // here\n");
  each.declarations = ".extern .shared .align 4 .b8 KERNEL_dynamic[];\n";
  each.dynamicShared = 256;
  expectFault(each, "128", "132", "out of bounds");
  each.dynamicShared = 128;
  expectFault(each, "0", "128", "out of bounds");
}

TEST(Check, GenericSharedBounds) {
  expectFault(scene(".shared .align 4 .b8 s[128];\n"
                    "mov.b64 %d8, s;\ncvta.shared.u64 %d8, %d8;\n"
                    "mul.wide.u32 %d9, %r0, 4;\nadd.s64 %d8, %d8, %d9;\n"
                    "st.b32 [%d8+@@], %r0; // here\n"),
              "0", "4", "out of bounds");
}

TEST(Check, SharedAddressIsNoGenericOne) {
  expectFault(scene(".shared .align 4 .b8 s[128];\n"
                    "mov.b64 %d8, s;\n@@\n"
                    "mul.wide.u32 %d9, %r0, 4;\nadd.s64 %d8, %d8, %d9;\n"
                    "st.b32 [%d8], %r0; // here\n"),
              "cvta.shared.u64 %d8, %d8;", "", "out of bounds");
}

TEST(Check, GlobalBounds) {
  // 1024 words; thread 31 reads the last one.
  Scene reads = scene("ld.global.b32 %r8, [%d2+@@]; // here\n"
                      "st.global.b32 [%d3], %r8;");
  expectFault(reads, "3968", "3972", "out of bounds");
  expectFault(reads, "0", "-4", "out of bounds");
  expectFault(scene("st.global.b32 [%d3+@@], %r0; // here"), "3968", "3972",
              "out of bounds");
  expectFault(scene("st.global.b32 [%d3+@@], %r0; // here"), "0", "-4",
              "out of bounds");
}

TEST(Check, ConstantBounds) {
  Scene each = scene("mul.wide.u32 %d9, %r0, 4;\nmov.b64 %d8, KERNEL_table;\n"
                     "add.s64 %d8, %d8, %d9;\n"
                     "ld.const.b32 %r8, [%d8+@@]; // here\n"
                     "st.global.b32 [%d3], %r8;");
  each.declarations = ".const .align 4 .b32 KERNEL_table[33] = {7};\n";
  expectFault(each, "4", "8", "out of bounds");
}

TEST(Check, ParameterBounds) {
  expectFault(scene("mov.b64 %d8, KERNEL_in;\n"
                    "ld.param.u32 %r8, [KERNEL_out+@@]; // here"),
              "4", "8", "out of bounds");
}

TEST(Check, LocalBoundsAndContent) {
  Scene bounds = scene(".local .align 4 .b8 l[16];\nmov.b64 %d8, l;\n"
                       "st.local.b32 [%d8+@@], %r0; // here");
  expectFault(bounds, "12", "16", "out of bounds");
  expectFault(scene(".local .align 4 .b8 l[16];\nmov.b64 %d8, l;\n"
                    "st.local.b32 [%d8+@@], %r0;\n"
                    "ld.local.b32 %r8, [%d8+4]; // here"),
              "4", "8", "never written");
}

TEST(Check, Alignment) {
  // Whatever an object's address happens to be, its declaration counts.
  for (const char *access :
       {"st.shared.b64 [s], %d0", "st.shared.v2.b32 [s], {%r0, %r1}"})
    expectFault(scene(fmt::format("@@ .b8 s[64];\nsetp.eq.u32 %p0, %r0, 0;\n"
                                  "@%p0 {}; // here",
                                  access)),
                ".shared .align 8", ".shared .align 4", "misaligned");
  expectFault(scene("@@ .b8 s[64];\nsetp.eq.u32 %p0, %r0, 0;\n"
                    "@%p0 st.shared.v4.b32 [s], {%r0, %r0, %r0, %r0}; // here"),
              ".shared .align 16", ".shared .align 8", "misaligned");
  expectFault(scene("ld.global.b32 %r8, [%d2+@@]; // here"), "4", "2",
              "misaligned");
  expectFault(scene("ld.global.v2.b32 {%r8, %r9}, [%d0+@@]; // here"), "8", "4",
              "misaligned");
  expectFault(scene("ld.param.b32 %r8, [KERNEL_in+@@]; // here"), "4", "2",
              "misaligned");
  Scene dynamic = scene("setp.eq.u32 %p0, %r0, 0;\n"
                        "@%p0 st.shared.b32 [KERNEL_s+@@], %r0; // here");
  dynamic.declarations = ".extern .shared .align 4 .b8 KERNEL_s[];\n";
  dynamic.dynamicShared = 64;
  expectFault(dynamic, "4", "6", "misaligned");
}

TEST(Check, DeclaredAlignmentOfRegions) {
  Assembled kernel = assemble(
      ".version 7.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry KERNEL(.param .u64 KERNEL_p)\n{\n\t.reg .b64 %d<3>;\n"
      "\tld.param.u64 %d0, [KERNEL_p];\n\tld.global.b64 %d1, "
      "[%d0];\n\tret;\n}\n");
  alignas(64) uint64_t word = 0;
  uint64_t address = reinterpret_cast<uint64_t>(&word);
  Launch launch;
  launch.kernel = kernel.kernel;
  launch.params.resize(8);
  std::memcpy(launch.params.data(), &address, 8);
  launch.memory = {{&word, 8, false, "word"}};
  for (size_t align : {0, 8, 64}) {
    launch.memory[0].align = align;
    EXPECT_NO_THROW(run(kernel.module, launch)) << align;
  }
  launch.memory[0].align = 4; // the address alone would do
  EXPECT_THROW(run(kernel.module, launch), Error);
  launch.memory[0].align = 3;
  EXPECT_THROW(run(kernel.module, launch), Error);
  launch.memory[0].data = reinterpret_cast<std::byte *>(&word) + 4;
  launch.memory[0].bytes = 4;
  launch.memory[0].align = 8;
  EXPECT_THROW(run(kernel.module, launch), Error);
}

TEST(Check, MatrixAlignment) {
  expectFault(
      scene("@@ .b8 s[512];\nmov.b64 %d8, s;\n"
            "mul.wide.u32 %d9, %r0, 16;\nadd.s64 %d8, %d8, %d9;\n"
            "st.shared.b32 [%d8], %r0;\nst.shared.b32 [%d8+4], %r0;\n"
            "st.shared.b32 [%d8+8], %r0;\nst.shared.b32 [%d8+12], %r0;\n"
            "bar.warp.sync -1;\n"
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%d8]; // here"),
      ".shared .align 16", ".shared .align 8", "misaligned");
}

// --- What was never written
// ---------------------------------------------------

TEST(Check, UninitialisedShared) {
  expectFault(scene(".shared .align 4 .b8 s[128];\n"
                    "mul.wide.u32 %d9, %r0, 4;\nmov.b64 %d8, s;\n"
                    "add.s64 %d8, %d8, %d9;\nsetp.ne.u32 %p0, %r0, @@;\n"
                    "@%p0 st.shared.b32 [%d8], %r0;\n"
                    "ld.shared.b32 %r8, [%d8]; // here"),
              "32", "5", "nobody has written");
}

TEST(Check, UndefinedRegisters) {
  expectFault(scene("mov.b32 %r8, 1;\nadd.s32 %r9, %r8, @@; // here"), "%r0",
              "%r10", "'%r10' is read before it is written");
  // Written in some lanes only.
  expectFault(scene("setp.lt.u32 %p0, %r0, @@;\n@%p0 mov.b32 %r8, 1;\n"
                    "add.s32 %r9, %r8, 1; // here"),
              "32", "31", "'%r8' is read before it is written");
  expectFault(scene("@@\nselp.b32 %r8, 1, 0, %p0; // here"),
              "setp.eq.u32 %p0, %r0, 0;", "", "'%p0' is read before");
  expectFault(scene("@@\n@%p0 mov.b32 %r8, 0; // here"),
              "setp.eq.u32 %p0, %r0, 0;", "", "'%p0' is read before");
  expectFault(scene("@@\nst.global.b32 [%d8], %r0; // here"),
              "mov.b64 %d8, %d3;", "", "'%d8' is read before");
  // What the code generator says is undefined on purpose is no fault.
  expectFault(scene("@@\nadd.s32 %r9, %r8, 1; // here"),
              "\n// implicit-def: %r8\n", "", "'%r8' is read before");
}

// --- Limits and launches
// ------------------------------------------------------

TEST(Check, SharedLimits) {
  auto static_ = [](size_t bytes) {
    return scene(
        fmt::format(".shared .align 4 .b8 s[{}];\nmov.b64 %d8, s;", bytes));
  };
  EXPECT_EQ(play(static_(48 * 1024)).error, "");
  Scene more = static_(48 * 1024 + 1);
  more.assembles = false;
  EXPECT_NE(play(more).error.find("at most 49152"), std::string::npos);
  auto dynamic = [](const char *target, size_t bytes) {
    Scene made = scene("mov.b64 %d8, KERNEL_s;");
    made.declarations = ".extern .shared .align 4 .b8 KERNEL_s[];\n";
    made.dynamicShared = bytes;
    made.target = target;
    return made;
  };
  EXPECT_EQ(play(dynamic("sm_80", 163 * 1024)).error, "");
  EXPECT_NE(
      play(dynamic("sm_80", 163 * 1024 + 1)).error.find("sm_80 has at most"),
      std::string::npos);
  EXPECT_EQ(play(dynamic("sm_90", 227 * 1024)).error, "");
  EXPECT_NE(
      play(dynamic("sm_90", 227 * 1024 + 1)).error.find("sm_90 has at most"),
      std::string::npos);
  Scene none = scene("mov.b32 %r8, 0;");
  none.dynamicShared = 16;
  EXPECT_NE(play(none).error.find("declares none"), std::string::npos);
}

TEST(Check, LaunchShape) {
  Scene limited = scene("mov.b32 %r8, 0;", 64);
  limited.directives = ".maxntid 64, 1, 1";
  EXPECT_EQ(play(limited).error, "");
  limited.block = {65, 1, 1};
  EXPECT_NE(play(limited).error.find(".maxntid allows 64"), std::string::npos);
  Scene required = scene("mov.b32 %r8, 0;", 64);
  required.directives = ".reqntid 64, 1, 1";
  EXPECT_EQ(play(required).error, "");
  required.block = {32, 2, 1};
  EXPECT_NE(play(required).error.find(".reqntid wants (64, 1, 1)"),
            std::string::npos);
  Scene large = scene("mov.b32 %r8, 0;", 1024);
  EXPECT_EQ(play(large).error, "");
  large.block = {1024, 2, 1};
  EXPECT_NE(play(large).error.find("1 to 1024"), std::string::npos);
  large.block = {0, 1, 1};
  EXPECT_NE(play(large).error.find("1 to 1024"), std::string::npos);
  large.block = {32, 1, 1};
  large.grid = {1, 65536, 1};
  EXPECT_NE(play(large).error.find("a grid of (1, 65536, 1)"),
            std::string::npos);
}

TEST(Check, LaunchArguments) {
  Assembled kernel = assemble(".version 7.0\n.target sm_80\n.address_size 64\n"
                              ".visible .entry KERNEL(.param .u32 KERNEL_p)\n"
                              "{\n\tret;\n}\n");
  std::vector<uint32_t> words(8);
  Launch launch;
  launch.kernel = kernel.kernel;
  launch.params.resize(4);
  EXPECT_NO_THROW(run(kernel.module, launch));
  launch.params.resize(8);
  EXPECT_THROW(run(kernel.module, launch), Error);
  launch.params.resize(4);
  launch.kernel = "absent";
  EXPECT_THROW(run(kernel.module, launch), Error);
  launch.kernel = kernel.kernel;
  launch.memory = {{words.data(), 16, false, "a"},
                   {words.data() + 2, 8, false, "b"}};
  EXPECT_NO_THROW(run(kernel.module, launch));
  launch.memory[1].writable = true;
  EXPECT_THROW(run(kernel.module, launch), Error);
}

TEST(Check, WritesToInputs) {
  expectFault(scene("st.global.b32 [@@], %r0; // here"), "%d3", "%d2",
              "read-only");
  expectFault(scene("mov.b64 %d8, @@;\nst.b32 [%d8], %r0; // here", 1), "%d1",
              "%d0", "read-only");
}

// --- Ends that never come
// -----------------------------------------------------

TEST(Check, InstructionLimit) {
  Scene loop = scene("mov.b32 %r8, 0;\n$again:\nadd.s32 %r8, %r8, 1;\n"
                     "setp.ne.s32 %p0, %r8, @@; // here\n@%p0 bra $again;");
  loop.instructionLimit = 1000;
  SCOPED_TRACE(loop.body);
  EXPECT_EQ(play(with(loop, "10")).error, "");
  EXPECT_NE(play(with(loop, "-1")).error.find("has executed 1000"),
            std::string::npos);
}

TEST(Check, Trap) {
  expectFault(scene("setp.eq.u32 %p0, %r0, @@;\n@%p0 trap; // here"), "32", "3",
              "gives up");
}

TEST(Check, DivisionByZero) {
  expectFault(scene("add.u32 %r8, %r0, @@;\ndiv.u32 %r9, 5, %r8; // here"), "1",
              "0", "division by zero");
  expectFault(scene("add.u32 %r8, %r0, @@;\nrem.s32 %r9, 5, %r8; // here"), "1",
              "0", "division by zero");
}

TEST(Check, ErrorsNameTheThread) {
  Scene late = scene("setp.eq.u32 %p0, %r5, 75;\n"
                     "@%p0 st.global.b32 [%d3+2], %r0;",
                     64);
  late.grid = {2, 1, 1};
  Outcome outcome = play(late);
  EXPECT_NE(outcome.error.find("block (1, 0, 0), thread (11, 0, 0)"),
            std::string::npos)
      << outcome.error;
  EXPECT_NE(outcome.error.find("st.global.b32"), std::string::npos);
}

TEST(Check, WithoutChecksOnlyHarmIsRefused) {
  Scene unordered = scene(".shared .align 4 .b8 s[128];\n"
                          "ld.shared.b32 %r8, [s];\nadd.s32 %r9, %r8, %r10;");
  EXPECT_NE(play(unordered).error, "");
  unordered.checks = false;
  EXPECT_EQ(play(unordered).error, "");
  Scene outside = scene("st.global.b32 [%d3+4096], %r0;");
  outside.checks = false;
  EXPECT_NE(play(outside).error, "");
}

} // namespace

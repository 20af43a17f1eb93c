//===- tests/ptx/ParseTest.cpp - What is read and what is refused ---------===//
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

constexpr const char *Header =
    ".version 7.0\n.target sm_80\n.address_size 64\n";

std::string kernel(const std::string &body) {
  return fmt::format("{}.visible .entry k(.param .u64 k_p)\n{{\n"
                     ".reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<8>;\n"
                     ".reg .b64 %d<8>;\n{}\n}}\n",
                     Header, body);
}
constexpr int BodyLine = 10; ///< of kernel(): where its body begins

void expectRefused(const std::string &text, int line,
                   const std::string &message) {
  SCOPED_TRACE(text);
  try {
    Module::parse(text, "text");
    ADD_FAILURE() << "accepted, but should say: " << message;
  } catch (const Error &error) {
    EXPECT_EQ(error.line, line);
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find(fmt::format("text:{}:", line)),
              std::string::npos)
        << error.what();
  }
}

void expectBodyRefused(const std::string &body, const std::string &message) {
  expectRefused(kernel(body), BodyLine, message);
}

TEST(Parse, UnknownInstructions) {
  for (const char *text :
       {"frobnicate.u32 %r0, %r1;",
        "add.q32 %r0, %r1, %r2;",
        "add.wide.s32 %r0, %r1, %r2;",
        "atom.global.add.u32 %r0, [%d0], %r1;",
        "red.shared.add.u32 [%d0], %r1;",
        "ld.acquire.gpu.global.u32 %r0, [%d0];",
        "add.u8 %h0, %h1, %h2;",
        "mul.u32 %r0, %r1, %r2;",
        "setp.foo.u32 %p0, %r1, %r2;",
        "setp.lo.s32 %p0, %r1, %r2;",
        "setp.ltu.u32 %p0, %r1, %r2;",
        "fma.f32 %r0, %r1, %r2, %r3;",
        "ex2.f32 %r0, %r1;",
        "cvt.f16.f32 %h0, %r1;",
        "cvt.rn.f32.f16 %r0, %h1;",
        "cvt.u32.f32 %r0, %r1;",
        "cvt.rzi.u32.u16 %r0, %h1;",
        "shfl.bfly.b32 %r0, %r1, 1, 31, -1;",
        "cp.async.bulk.commit_group;",
        "bar.red.popc.u32 %r0, 0, %p0;",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 %r0;",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 %r0;",
        "st.param.b32 [k_p], %r0;",
        "mbarrier.init.shared.b64 [%d0], 1;"})
    expectBodyRefused(text, "unknown instruction '");
}

TEST(Parse, Operands) {
  expectBodyRefused("add.s32 %r0, %r1;", "has 2 operands");
  expectBodyRefused("add.s32 %r0, %d1, %r2;", "'%d1' has 64 bits");
  expectBodyRefused("add.s64 %r0, %d1, %d2;", "'%r0' has 32 bits");
  expectBodyRefused("add.s32 %r0, %x1, %r2;", "'%x1' is not declared");
  expectBodyRefused("add.s32 %r0, %r8, %r2;", "'%r8' is not declared");
  expectBodyRefused("add.s32 5, %r1, %r2;", "needs a register");
  expectBodyRefused("add.s32 %r0, !%r1, %r2;", "no negated operand");
  expectBodyRefused("add.f32 %r0, %r1, 1;", "with a fraction");
  expectBodyRefused("add.s32 %r0, {%r1, %r2}, %r2;", "a register or a number");
  expectBodyRefused("ld.global.b32 %r0, %d0;", "must be an address");
  expectBodyRefused("ld.global.b32 %r0, [%r1];", "holds no address");
  expectBodyRefused("ld.global.b32 %r0, [k_p];", "another state space");
  expectBodyRefused("ld.global.v2.b32 %r0, [%d0];", "a list of 2");
  expectBodyRefused("ld.global.v2.b32 {%r0, %d0}, [%d0];", "differ in width");
  expectBodyRefused("lop3.b32 %r0, %r1, %r2, %r3, 256;", "8 bits");
  expectBodyRefused("cp.async.cg.shared.global [%d0], [%d1], 8;",
                    "no asynchronous copy has 8 bytes");
  expectBodyRefused("cp.async.wait_group %r0;", "must be a number");
  expectBodyRefused("bra $nowhere;", "no label '$nowhere'");
  expectBodyRefused("@%r1 bra $l;", "is no predicate");
  expectBodyRefused("mov.b32 %r0, 0x1g;", "not a number");
  expectBodyRefused("mov.b32 %r0, 0f3F80;", "needs 8 digits");
  expectBodyRefused("mov.b32 %r0, k_p;", "has 64 bits");
}

TEST(Parse, Statements) {
  expectBodyRefused(".foo;", "not known here: '.foo'");
  expectBodyRefused(".reg .b8 %x<2>;", "not a register's type");
  expectBodyRefused(".reg .b32 %r<2>;", "declared again");
  expectBodyRefused("call k, (%r0);", "not known here: '('");
  expectBodyRefused("call k;", "unknown instruction 'call'");
  expectRefused(kernel("add.s32 %r0, %r1, %r2"), BodyLine + 1, "expected ';'");
  expectBodyRefused("$a: $a:", "label '$a' again");
  expectRefused(kernel("{"), BodyLine + 2, "does not end");
}

TEST(Parse, Modules) {
  expectRefused(".version 7.0\n", 2, "no .target");
  expectRefused(".version 7.0\n.target sm_80\n.address_size 32\n", 3,
                "64 bits");
  expectRefused(".version 7.0\n.target compute_80\n", 2, "no such target");
  auto more = [](const std::string &text) { return Header + text; };
  expectRefused(more(".visible .func f()\n"), 4, "not known here: '.func'");
  expectRefused(more(".extern .global .b32 g;\n"), 4, "defined in no module");
  expectRefused(more(".shared .b32 s[];\n"), 4, "has no size");
  expectRefused(more(".global .align 3 .b32 g;\n"), 4, "a power of two");
  expectRefused(more(".global .b32 g[0];\n"), 4, "extent 0");
  expectRefused(more(".global .b32 g[1] = {1, 2};\n"), 4, "more values than");
  expectRefused(more(".global .b32 g[1] = {h};\n"), 4, "not a number: 'h'");
  expectRefused(more(".shared .b32 s = 1;\n"), 4, "may not have a value");
  expectRefused(more(".entry k() .foo {}\n"), 4, "not known here: '.foo'");
  expectRefused(more(".entry k() {}\n.entry k() {}\n"), 5, "kernel 'k' again");
  expectRefused(more("/* open"), 4, "a comment does not end");
}

TEST(Parse, CutOffAnywhere) {
  // Wherever the text is cut off there is an error, not a crash.
  std::string text = kernel("$l: @!%p0 add.s32 %r0, %r1, -7; // comment\n"
                            "/* more */ .pragma \"nounroll\";\n"
                            "ld.global.v2.b32 {%r1, _}, [%d0+-8];\n"
                            "{ .reg .b32 t; mov.b32 t, 0x7; }");
  EXPECT_NO_THROW(Module::parse(text));
  for (size_t length = std::strlen(Header) + 1; length < text.size() - 1;
       length++)
    EXPECT_THROW(Module::parse(text.substr(0, length)), Error) << length;
}

TEST(Parse, KernelInfo) {
  Module module = Module::parse(
      std::string(Header) +
          "// Generated\n.file 1 \"a.cu\"\n"
          ".extern .shared .align 16 .b8 dynamic[];\n"
          ".shared .align 4 .b8 unused[64];\n.shared .align 4 .b8 used[32];\n"
          ".visible .entry first(\n .param .u8 a,\n .param .u64 .ptr .global "
          ".align 16 b,\n .param .align 8 .b8 c[12],\n .param .f32 d\n)\n"
          ".maxntid 32, 4, 1\n.minnctapersm 2\n{\n.shared .align 8 .b8 "
          "own[8];\n"
          ".local .align 4 .b8 l[20];\n.reg .b64 %d<4>;\n.loc 1 2 3\n"
          "mov.u64 %d0, used;\nmov.u64 %d1, dynamic;\nret;\n}\n"
          ".weak .entry second()\n.reqntid 64, 1, 1\n{\n}\n",
      "info");
  EXPECT_EQ(module.name(), "info");
  EXPECT_EQ(module.target(), "sm_80");
  ASSERT_EQ(module.kernels().size(), 2U);
  const KernelInfo &first = module.kernel("first");
  EXPECT_EQ(first.staticShared, 40U);
  EXPECT_EQ(first.localBytes, 20U);
  EXPECT_EQ(first.maxThreads, 128U);
  EXPECT_EQ(first.requiredThreads.x, 0U);
  ASSERT_EQ(first.parameters.size(), 4U);
  const size_t offsets[] = {0, 8, 16, 28}, bytes[] = {1, 8, 12, 4},
               aligns[] = {1, 8, 8, 4};
  for (size_t n = 0; n < 4; n++) {
    EXPECT_EQ(first.parameters[n].name, std::string(1, char('a' + n)));
    EXPECT_EQ(first.parameters[n].offset, offsets[n]);
    EXPECT_EQ(first.parameters[n].bytes, bytes[n]);
    EXPECT_EQ(first.parameters[n].align, aligns[n]);
  }
  EXPECT_EQ(first.parameterBytes, 32U);
  EXPECT_EQ(module.kernel("second").requiredThreads.x, 64U);
  EXPECT_EQ(module.kernel("second").parameterBytes, 0U);
  EXPECT_THROW(module.kernel("third"), Error);
}

TEST(Parse, Scopes) {
  // What inline assembly declares hides what is around it, names and labels.
  Scene scene;
  scene.body = "mov.b32 %r8, 1;\nmov.b32 %r9, 0;\n"
               "{ .reg .b32 %r8; .reg .pred p;\n"
               "mov.b32 %r8, 5;\nsetp.eq.u32 p, %r8, 5;\n"
               "@p bra l;\nmov.b32 %r9, 100;\nl: add.s32 %r9, %r9, %r8; }\n"
               "{ .reg .b32 t; mov.b32 t, 7;\nbra l;\nmov.b32 %r9, 100;\n"
               "l: add.s32 %r9, %r9, t; }\n"
               "add.s32 %r9, %r9, %r8;\nst.global.b32 [%d3], %r9;";
  Outcome outcome = play(scene);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.out[0], 13U);
}

} // namespace

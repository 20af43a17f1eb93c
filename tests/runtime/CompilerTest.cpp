//===- tests/runtime/CompilerTest.cpp - With the real compiler library ----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "JitSupport.h"
#include <gtest/gtest.h>

namespace {

constexpr const char *kText = "attention demo {\n"
                              "  heads = 4  kv_heads = 2\n"
                              "  head_dim = { qk = 5, value = 3 }\n"
                              "}\n";

/// A request to the library that was built with the tests.
struct RealJit : Jit {
  explicit RealJit(const std::string &cacheDir) : Jit(unused, cacheDir) {
    options.compiler_library = ATTNC_LIBRARY_FILE;
    text = kText;
  }
  /// Runs the best kernel; true if it computes attention.
  void expectRight() {
    const attn_kernel *kernel = nullptr;
    ASSERT_EQ(attn_kernel_pick(bundle, "demo", nullptr, &kernel, &error), 0)
        << error.text;
    Call call(2, 37, 19);
    ASSERT_EQ(call.run(kernel), 0) << call.error.text;
    std::vector<double> wanted = reference(call, 2, 37, 19);
    for (size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NEAR(call.o.data[i], wanted[i], 2e-5);
  }

private:
  static FakeCompiler unused;
};
FakeCompiler RealJit::unused;

} // namespace

TEST(Compiler, ThroughDiskAndMemory) {
  TempDir dir;
  for (int expected : {ATTN_JIT_COMPILED, ATTN_JIT_FROM_DISK}) {
    RealJit jit(dir / "cache");
    ASSERT_EQ(jit.run(), 0) << jit.error.text;
    EXPECT_EQ(jit.info.source, expected);
    EXPECT_STREQ(jit.info.warning, "");
    jit.expectRight();
  }
  EXPECT_EQ(listDir(dir / "cache").size(), 1u);
  for (const char *place : {"", "/proc/no/cache"}) {
    RealJit jit(place);
    ASSERT_EQ(jit.run(), 0) << jit.error.text;
    EXPECT_EQ(jit.info.source, ATTN_JIT_COMPILED);
    jit.expectRight();
  }
}

TEST(Compiler, ErrorsHavePlaces) {
  RealJit jit("");
  jit.text =
      "attention demo {\n  heads = 4\n  head_dim = 8\n  mask = casual\n}";
  ASSERT_EQ(jit.run(), ATTN_COMPILE_FAILED);
  EXPECT_NE(strstr(jit.error.text, "t.attn:4:10: error: "), nullptr)
      << jit.error.text;
  EXPECT_NE(strstr(jit.error.text, "causal"), nullptr) << jit.error.text;
  jit.text = kText;
  ASSERT_EQ(jit.run(), 0) << jit.error.text;
  jit.expectRight();
}

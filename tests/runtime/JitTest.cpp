//===- tests/runtime/JitTest.cpp - Texts, keys and threads ----------------===//
//
// Part of attnc. Apache-2.0.
//
// With a stand-in for the compiler. Also run under ThreadSanitizer.
//
//===----------------------------------------------------------------------===//
#include "JitSupport.h"
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <thread>

namespace fs = std::filesystem;

TEST(Jit, CompilesOnceThenReadsTheDisk) {
  FakeCompiler compiler;
  TempDir dir;
  Jit jit(compiler, dir / "deep/cache");
  ASSERT_EQ(jit.run(), 0) << jit.error.text;
  EXPECT_EQ(jit.info.source, ATTN_JIT_COMPILED);
  EXPECT_STREQ(jit.info.warning, "");
  EXPECT_EQ(jit.kernelText(), jit.text + "|host|-|-");
  Call call(1, 2, 3);
  EXPECT_EQ(call.run(attn_bundle_kernel(jit.bundle, 0)), 0);
  {
    Jit other(compiler, dir / "deep/cache");
    ASSERT_EQ(other.run(), 0);
    EXPECT_EQ(other.info.source, ATTN_JIT_FROM_PROCESS);
    EXPECT_EQ(other.bundle, jit.bundle);
  }
  ASSERT_EQ(jit.run(), 0);
  EXPECT_EQ(jit.info.source, ATTN_JIT_FROM_DISK);
  EXPECT_EQ(jit.kernelText(), jit.text + "|host|-|-");
  EXPECT_EQ(compiler.compilations(), 1u);
}

// A change of anything that changes code changes the key; a name for messages
// does not.
TEST(Jit, KeyHoldsEverythingThatChangesCode) {
  FakeCompiler compiler;
  TempDir dir;
  std::set<std::string> keys;
  std::vector<std::string> texts;
  auto add = [&](std::function<void(Jit &)> change) {
    Jit jit(compiler, dir / "cache");
    change(jit);
    ASSERT_EQ(jit.run(), 0) << jit.error.text;
    EXPECT_TRUE(keys.insert(jit.info.key).second) << jit.kernelText();
    texts.push_back(jit.kernelText());
    // Again: from the disk, and its own code.
    ASSERT_EQ(jit.run(), 0);
    EXPECT_EQ(jit.info.source, ATTN_JIT_FROM_DISK);
    EXPECT_EQ(jit.kernelText(), texts.back());
  };
  static const char *ab[] = {"a=1", "b=2"}, *ba[] = {"b=2", "a=1"};
  static const char *joined[] = {"a=1b=2"}, *one[] = {"a=1"};
  add([](Jit &) {});
  add([](Jit &j) { j.text += " "; });
  add([](Jit &j) { j.text[0] = 'A'; });
  add([](Jit &j) { j.text = ""; });
  add([](Jit &j) { j.text += '\0'; });
  add([](Jit &j) { j.options.targets = "t1"; });
  add([](Jit &j) { j.options.targets = "t1,t2"; });
  add([](Jit &j) { j.options.targets = "t1,host"; });
  add([](Jit &j) { j.options.variant = "a"; });
  add([](Jit &j) { j.options.variant = ""; });
  add([](Jit &j) { j.options.plan = "a"; });
  add([](Jit &j) { j.options.plan = "rows=8"; });
  add([](Jit &j) { j.options.defines = one, j.options.n_defines = 1; });
  add([](Jit &j) { j.options.defines = ab, j.options.n_defines = 2; });
  add([](Jit &j) { j.options.defines = ba, j.options.n_defines = 2; });
  add([](Jit &j) { j.options.defines = joined, j.options.n_defines = 1; });
  EXPECT_EQ(compiler.compilations(), keys.size());

  Jit jit(compiler, dir / "cache");
  attn_bundle *bundle = nullptr;
  ASSERT_EQ(attn_jit(jit.text.data(), jit.text.size(), "another name",
                     &jit.options, &bundle, &jit.info, &jit.error),
            0);
  EXPECT_EQ(keys.count(jit.info.key), 1u);
  attn_bundle_close(bundle);
}

// Interleaved calls of kernels with the same name, all open at once.
TEST(Jit, InterleavedKernelsKeepTheirCode) {
  FakeCompiler compiler;
  TempDir dir;
  std::vector<std::unique_ptr<Jit>> open;
  for (int round = 0; round < 3; ++round)
    for (const char *plan : {"rows=1", "rows=2", "rows=3"}) {
      open.push_back(std::make_unique<Jit>(compiler, dir / "cache"));
      open.back()->options.plan = plan;
      ASSERT_EQ(open.back()->run(), 0);
      EXPECT_EQ(open.back()->kernelText(),
                open.back()->text + "|host|-|" + plan);
    }
  EXPECT_EQ(compiler.compilations(), 3u);
}

TEST(Jit, AnotherCompilerCompilesAnew) {
  FakeCompiler compiler;
  TempDir dir;
  std::string key;
  {
    Client first({"jit", compiler.library, dir / "cache", "1", "a"});
    ASSERT_EQ(first.wait(), 0) << first.output;
    EXPECT_EQ(compiler.compilations(), 1u);
  }
  // The same file: a hit, without loading the compiler.
  {
    Client second({"jit", compiler.library, dir / "cache", "1", "a"});
    ASSERT_EQ(second.wait(), 0) << second.output;
    EXPECT_EQ(second.output, "source=1 compiler=0 warning=\n");
    EXPECT_EQ(compiler.compilations(), 1u);
  }
  // The same bytes, newer.
  fs::last_write_time(compiler.library, fs::last_write_time(compiler.library) +
                                            std::chrono::nanoseconds(1000));
  {
    Client third({"jit", compiler.library, dir / "cache", "1", "a"});
    ASSERT_EQ(third.wait(), 0) << third.output;
    EXPECT_EQ(compiler.compilations(), 2u);
  }
  // A library that is loaded and calls itself something else: its entries are
  // not those of the one that filled the cache.
  Client fourth({"jit", compiler.library, dir / "cache", "1", "b", "a"});
  ASSERT_EQ(fourth.wait(), 0) << fourth.output;
  EXPECT_EQ(compiler.compilations(), 3u); // b
  ScopedEnv version("FAKE_VERSION", "fake 2");
  Client fifth({"jit", compiler.library, dir / "cache", "1", "c", "a"});
  ASSERT_EQ(fifth.wait(), 0) << fifth.output;
  EXPECT_EQ(compiler.compilations(), 5u); // c, and a again
}

TEST(Jit, ErrorsOfTheTextAreTheCompilers) {
  FakeCompiler compiler;
  TempDir dir;
  Jit jit(compiler, dir / "cache");
  jit.text = "an error";
  EXPECT_EQ(jit.run(), ATTN_COMPILE_FAILED);
  EXPECT_EQ(jit.bundle, nullptr);
  EXPECT_STREQ(jit.error.text, "t.attn:1:1: error: as asked for");
  EXPECT_TRUE(listDir(dir / "cache").empty());
  // It is not remembered, and nothing else is the worse for it.
  EXPECT_EQ(jit.run(), ATTN_COMPILE_FAILED);
  EXPECT_EQ(compiler.compilations(), 2u);
  jit.text = "fine";
  EXPECT_EQ(jit.run(), 0);
}

TEST(Jit, MissingOrForeignCompiler) {
  TempDir dir;
  FakeCompiler compiler;
  Jit jit(compiler, dir / "cache");
  jit.options.compiler_library = "/nonexistent/lib.so";
  EXPECT_EQ(jit.run(), ATTN_NO_COMPILER);
  EXPECT_NE(strstr(jit.error.text, "no compiler library at "
                                   "'/nonexistent/lib.so'"),
            nullptr);
  {
    ScopedEnv env("ATTNC_LIBRARY", "/nonexistent/other.so");
    jit.options.compiler_library = nullptr;
    EXPECT_EQ(jit.run(), ATTN_NO_COMPILER);
    EXPECT_NE(strstr(jit.error.text, "other.so' (named by ATTNC_LIBRARY)"),
              nullptr);
  }
  {
    ScopedEnv env("ATTNC_LIBRARY", compiler.library);
    EXPECT_EQ(jit.run(), 0) << jit.error.text;
  }
  std::string plain = bundlePath("plain");
  jit.options.compiler_library = plain.c_str();
  jit.text = "other";
  EXPECT_EQ(jit.run(), ATTN_NO_COMPILER);
  EXPECT_NE(strstr(jit.error.text, "no symbol 'attnc_compile'"), nullptr);
  writeFile(dir / "junk.so", "junk");
  std::string junk = dir / "junk.so";
  jit.options.compiler_library = junk.c_str();
  EXPECT_EQ(jit.run(), ATTN_NO_COMPILER);
  EXPECT_NE(strstr(jit.error.text, "can't load the compiler library"), nullptr);
}

TEST(Jit, BadArguments) {
  FakeCompiler compiler;
  TempDir dir;
  Jit jit(compiler, dir / "cache");
  attn_bundle *bundle;
  EXPECT_EQ(
      attn_jit(nullptr, 3, nullptr, &jit.options, &bundle, nullptr, &jit.error),
      ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(attn_jit("a", 1, nullptr, &jit.options, nullptr, nullptr, nullptr),
            ATTN_INVALID_ARGUMENT);
  jit.options.n_defines = 1;
  EXPECT_EQ(jit.run(), ATTN_INVALID_ARGUMENT);
  const char *none[] = {nullptr};
  jit.options.defines = none;
  EXPECT_EQ(jit.run(), ATTN_INVALID_ARGUMENT);
  EXPECT_NE(strstr(jit.error.text, "defines[0] is NULL"), nullptr);
  jit.options.struct_size = 1;
  EXPECT_EQ(jit.run(), ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(compiler.compilations(), 0u);
}

TEST(JitThreads, OneKeyIsCompiledOnce) {
  FakeCompiler compiler;
  TempDir dir;
  ScopedEnv delay("FAKE_DELAY_MS", "20");
  for (const std::string &cache : {dir / "cache", std::string()}) {
    size_t before = compiler.compilations();
    std::vector<std::unique_ptr<Jit>> jits(32);
    std::vector<std::thread> threads;
    std::atomic<bool> go{false};
    std::atomic<int> wrong{0};
    for (auto &jit : jits) {
      jit = std::make_unique<Jit>(compiler, cache);
      jit->text = "with cache '" + cache + "'";
      threads.emplace_back([&, jit = jit.get()] {
        while (!go)
          std::this_thread::yield();
        wrong += jit->run() != 0;
        Call call(1, 3, 4);
        wrong += call.run(attn_bundle_kernel(jit->bundle, 0)) != 0;
      });
    }
    go = true;
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(compiler.compilations(), before + 1);
    for (auto &jit : jits)
      EXPECT_EQ(jit->bundle, jits[0]->bundle);
  }
}

TEST(JitThreads, DifferentKeysAndFailuresAtOnce) {
  FakeCompiler compiler;
  TempDir dir;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 32; ++t)
    threads.emplace_back([&, t] {
      Jit jit(compiler, dir / "cache");
      jit.text = (t % 8 == 7 ? "error " : "text ") + std::to_string(t / 16 * t);
      int status = jit.run();
      if (t % 8 == 7)
        wrong += status != ATTN_COMPILE_FAILED ||
                 !strstr(jit.error.text, "as asked for");
      else
        wrong += status != 0 || jit.kernelText() != jit.text + "|host|-|-";
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

// Opened, run and closed over and over by many threads; the last one out ends
// the bundle while others ask for it.
TEST(JitThreads, OpenAndCloseAtOnce) {
  FakeCompiler compiler;
  TempDir dir;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 40; ++round) {
        Jit jit(compiler, round % 2 ? "" : dir / "cache");
        jit.text = "text " + std::to_string((t + round) % 3);
        if (jit.run() != 0) {
          ++wrong;
          continue;
        }
        wrong += jit.kernelText() != jit.text + "|host|-|-";
        Call call(1, 3, 4);
        wrong += call.run(attn_bundle_kernel(jit.bundle, 0)) != 0;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

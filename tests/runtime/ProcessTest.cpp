//===- tests/runtime/ProcessTest.cpp - Many processes, one cache ----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Support.h"
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <thread>

namespace {

std::vector<std::string> jitArguments(const FakeCompiler &compiler,
                                      const std::string &cache, int threads,
                                      int texts) {
  std::vector<std::string> arguments = {"jit", compiler.library, cache,
                                        std::to_string(threads)};
  for (int i = 0; i < texts; ++i)
    arguments.push_back("kernel " + std::to_string(i));
  return arguments;
}

size_t countEnding(const std::string &dir, const std::string &ending) {
  size_t n = 0;
  for (const std::string &name : listDir(dir))
    n += name.size() >= ending.size() &&
         name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
  return n;
}

} // namespace

// 16 processes start together on an empty directory and want the same kernels:
// none fails, each kernel is compiled once, nothing but entries is left.
TEST(Processes, FillOneCacheTogether) {
  for (int round = 0; round < 50; ++round) {
    FakeCompiler compiler;
    TempDir dir;
    std::string cache = dir / "cache";
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 16; ++i)
      clients.push_back(
          std::make_unique<Client>(jitArguments(compiler, cache, 1, 8)));
    for (auto &client : clients)
      client->release();
    for (auto &client : clients) {
      ASSERT_EQ(client->wait(), 0) << client->output;
      EXPECT_EQ(client->output.find("memory"), std::string::npos)
          << client->output;
    }
    EXPECT_EQ(compiler.compilations(), 8u);
    EXPECT_EQ(countEnding(cache, ".so"), 8u);
    EXPECT_EQ(listDir(cache).size(), 8u);
  }
}

// Killed at random moments of compiling and writing: the next one does the
// work, and nothing piles up.
TEST(Processes, KilledWhileCompiling) {
  FakeCompiler compiler;
  TempDir dir;
  std::string cache = dir / "cache";
  ScopedEnv delay("FAKE_DELAY_MS", "30");
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::string> arguments =
        jitArguments(compiler, cache, 1, round + 1);
    arguments.erase(arguments.begin() + 4, arguments.end() - 1);
    Client victim(arguments);
    victim.release();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
    victim.kill();
    victim.wait();
    EXPECT_LE(countEnding(cache, ".tmp"), 1u);
    Client heir(arguments);
    ASSERT_EQ(heir.wait(), 0) << heir.output;
    EXPECT_EQ(heir.output.find("memory"), std::string::npos) << heir.output;
  }
  EXPECT_EQ(countEnding(cache, ".so"), 20u);
  EXPECT_EQ(listDir(cache).size(), 20u);
}

// A process that is killed leaves another's key behind; the next writer of
// anything removes it.
TEST(Processes, LeftoversOfOtherKeysAreRemoved) {
  FakeCompiler compiler;
  TempDir dir;
  std::string cache = dir / "cache";
  {
    ScopedEnv delay("FAKE_DELAY_MS", "10000");
    std::vector<std::unique_ptr<Client>> victims;
    for (int i = 0; i < 4; ++i) {
      victims.push_back(std::make_unique<Client>(std::vector<std::string>{
          "jit", compiler.library, cache, "1", "victim " + std::to_string(i)}));
      victims.back()->release();
    }
    for (int i = 0; i < 3000 && countEnding(cache, ".tmp") < 4; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_EQ(countEnding(cache, ".tmp"), 4u);
    // The locks of living processes are respected.
    ScopedEnv none("FAKE_DELAY_MS", "0");
    Client other({"jit", compiler.library, cache, "1", "other"});
    ASSERT_EQ(other.wait(), 0) << other.output;
    EXPECT_EQ(countEnding(cache, ".tmp"), 4u);
    for (auto &victim : victims)
      victim->kill();
    for (auto &victim : victims)
      victim->wait();
  }
  Client last({"jit", compiler.library, cache, "1", "last"});
  ASSERT_EQ(last.wait(), 0) << last.output;
  EXPECT_EQ(countEnding(cache, ".tmp"), 0u);
  EXPECT_EQ(countEnding(cache, ".so"), 2u);
}

// First calls from 32 threads at once, in fresh processes.
TEST(Processes, FirstCallFromManyThreads) {
  for (int round = 0; round < 200; ++round) {
    FakeCompiler compiler;
    TempDir dir;
    Client client(jitArguments(compiler, dir / "cache", 32, 2));
    ASSERT_EQ(client.wait(), 0) << client.output;
    EXPECT_EQ(compiler.compilations(), 2u);
  }
}

#ifdef LIMIT_ADDRESS_SPACE
TEST(Processes, ThreadsThatTheSystemDoesNotGive) {
  Client client({"pool-limit"});
  ASSERT_EQ(client.wait(), 0) << client.output;
  EXPECT_NE(client.output.find("does not give 500 threads"), std::string::npos)
      << client.output;
}
#endif

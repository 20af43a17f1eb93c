//===- tests/runtime/CacheTest.cpp - The disk cache and its failures ------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "JitSupport.h"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <rapidcheck/gtest.h>
#include <unistd.h>

namespace fs = std::filesystem;

// The linker sends the runtime's writes here: a disk that becomes full.
namespace {
std::atomic<long> gBytesLeft{-1}; // -1: no limit
} // namespace
extern "C" ssize_t __real_write(int fd, const void *data, size_t size);
extern "C" ssize_t __wrap_write(int fd, const void *data, size_t size) {
  if (gBytesLeft >= 0) {
    if (gBytesLeft == 0) {
      errno = ENOSPC;
      return -1;
    }
    size = std::min(size, size_t(gBytesLeft));
    gBytesLeft -= long(size);
  }
  return __real_write(fd, data, size);
}

namespace {

std::vector<attn_cache_entry> listCache(const std::string &dir) {
  std::vector<attn_cache_entry> entries;
  attn_error error;
  EXPECT_EQ(
      attn_cache_list(
          dir.c_str(),
          [](void *context, const attn_cache_entry *entry) {
            static_cast<std::vector<attn_cache_entry> *>(context)->push_back(
                *entry);
          },
          &entries, &error),
      0)
      << error.text;
  return entries;
}

std::string onlyEntry(const std::string &dir) {
  std::vector<std::string> names = listDir(dir);
  EXPECT_EQ(names.size(), 1u);
  return names.empty() ? "" : dir + "/" + names[0];
}

} // namespace

// Where the directory can't be used the result is the same, with a warning.
TEST(Cache, UnusableDirectories) {
  FakeCompiler compiler;
  TempDir dir;
  writeFile(dir / "file", "x");
  for (const std::string &place :
       {dir / "file/cache", dir / "file", std::string("/proc/no/cache"),
        std::string("/proc/self"), std::string(5000, 'x')}) {
    Jit jit(compiler, place);
    ASSERT_EQ(jit.run(), 0) << place << ": " << jit.error.text;
    EXPECT_EQ(jit.info.source, ATTN_JIT_COMPILED);
    EXPECT_NE(strstr(jit.info.warning, "compiled in memory"), nullptr)
        << jit.info.warning;
    EXPECT_NE(strstr(jit.info.warning, "cache directory"), nullptr);
    EXPECT_EQ(jit.kernelText(), jit.text + "|host|-|-");
    Call call(1, 2, 3);
    EXPECT_EQ(call.run(attn_bundle_kernel(jit.bundle, 0)), 0);
  }
  ScopedEnv one("ATTN_CACHE_DIR", nullptr), two("XDG_CACHE_HOME", nullptr),
      three("HOME", nullptr);
  Jit jit(compiler, "");
  jit.options.cache_dir = nullptr;
  ASSERT_EQ(jit.run(), 0);
  EXPECT_NE(strstr(jit.info.warning, "XDG_CACHE_HOME"), nullptr);
  // Turned off: as asked for, so no warning.
  jit.options.cache_dir = "";
  ASSERT_EQ(jit.run(), 0);
  EXPECT_STREQ(jit.info.warning, "");
  EXPECT_EQ(jit.info.source, ATTN_JIT_COMPILED);
}

// Two bundles in memory have descriptors for names; neither is taken for the
// other, also when a number is used again.
TEST(Cache, BundlesInMemoryAreKeptApart) {
  FakeCompiler compiler;
  std::vector<std::unique_ptr<Jit>> open;
  for (int round = 0; round < 20; ++round) {
    auto jit = std::make_unique<Jit>(compiler, "");
    jit->text = "text " + std::to_string(round);
    ASSERT_EQ(jit->run(), 0);
    open.push_back(std::move(jit));
    if (round % 3 == 2)
      open.erase(open.begin() + round % long(open.size()));
    for (auto &each : open)
      ASSERT_EQ(each->kernelText(), each->text + "|host|-|-");
  }
}

TEST(Cache, FullDisk) {
  FakeCompiler compiler;
  TempDir dir;
  Jit jit(compiler, dir / "cache");
  long entry = long(fs::file_size(bundlePath("plain")));
  for (long left : {0L, 1L, 5000L, entry, entry + 60}) {
    gBytesLeft = left;
    int status = jit.run();
    gBytesLeft = -1;
    ASSERT_EQ(status, 0) << jit.error.text;
    EXPECT_NE(strstr(jit.info.warning, "No space left"), nullptr)
        << jit.info.warning;
    EXPECT_EQ(jit.kernelText(), jit.text + "|host|-|-");
    EXPECT_TRUE(listDir(dir / "cache").empty()) << left;
  }
  ASSERT_EQ(jit.run(), 0);
  EXPECT_STREQ(jit.info.warning, "");
  EXPECT_EQ(listDir(dir / "cache").size(), 1u);
}

// A limit on the size of files between that of the bundle and that of the
// entry: the system's signal ends nothing.
TEST(Cache, FileSizeLimit) {
  FakeCompiler compiler;
  TempDir dir;
  std::string limit = std::to_string(fs::file_size(bundlePath("plain")) + 10);
  Client client(
      {"file-limit", limit, compiler.library, dir / "cache", "1", "a"});
  ASSERT_EQ(client.wait(), 0) << client.output;
  EXPECT_NE(client.output.find("File too large; compiled in memory"),
            std::string::npos)
      << client.output;
  EXPECT_TRUE(listDir(dir / "cache").empty());
}

// Any damage to an entry is noticed, and the entry made anew.
RC_GTEST_PROP(CacheProperty, DamageIsRepaired, ()) {
  FakeCompiler compiler;
  TempDir dir;
  Jit jit(compiler, dir / "cache");
  RC_ASSERT(jit.run() == 0);
  jit.close();
  std::string path = onlyEntry(dir / "cache");
  const std::string good = readFile(path);
  std::string bad = good;
  switch (*rc::gen::inRange(0, 5)) {
  case 0: // one bit
    bad[*rc::gen::inRange<size_t>(0, bad.size())] ^=
        char(1 << *rc::gen::inRange(0, 8));
    break;
  case 1: // cut
    bad.resize(*rc::gen::inRange<size_t>(0, bad.size()));
    break;
  case 2: // zeroed from somewhere on, same size
    for (size_t i = *rc::gen::inRange<size_t>(0, bad.size()); i < bad.size();
         ++i)
      bad[i] = 0;
    break;
  case 3: // longer
    bad += std::string(*rc::gen::inRange<size_t>(1, 300), 'x');
    break;
  case 4: // a footer that is right at the end of something else
    bad.erase(*rc::gen::inRange<size_t>(0, 1000), 1);
    break;
  }
  RC_PRE(bad != good);
  writeFile(path, bad);
  RC_ASSERT(listCache(dir / "cache").size() == 1u);
  RC_ASSERT(!listCache(dir / "cache")[0].intact);
  RC_ASSERT(jit.run() == 0);
  RC_ASSERT(jit.info.source == int(ATTN_JIT_COMPILED));
  RC_ASSERT(std::string(jit.info.warning).empty());
  RC_ASSERT(readFile(path) == good);
  RC_ASSERT(jit.kernelText() == jit.text + "|host|-|-");
}

// An entry under another key's name, or one that others may write to.
TEST(Cache, ForeignEntriesAreNotTrusted) {
  FakeCompiler compiler;
  TempDir dir;
  Jit jit(compiler, dir / "cache"), other(compiler, dir / "cache");
  ASSERT_EQ(jit.run(), 0);
  jit.close();
  std::string path = onlyEntry(dir / "cache");
  other.text = "other";
  ASSERT_EQ(other.run(), 0);
  std::string otherPath = dir / "cache/" + std::string(other.info.key) + ".so";
  other.close();
  fs::copy_file(path, otherPath, fs::copy_options::overwrite_existing);
  ASSERT_EQ(other.run(), 0);
  EXPECT_EQ(other.info.source, ATTN_JIT_COMPILED);
  EXPECT_EQ(other.kernelText(), "other|host|-|-");

  fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
  ASSERT_EQ(jit.run(), 0);
  EXPECT_EQ(jit.info.source, ATTN_JIT_COMPILED);
  EXPECT_EQ(fs::status(path).permissions() & fs::perms::mask,
            fs::perms::owner_read | fs::perms::owner_write);
  // A link is no entry.
  jit.close();
  fs::rename(path, dir / "elsewhere");
  fs::create_symlink(dir / "elsewhere", path);
  ASSERT_EQ(jit.run(), 0);
  EXPECT_EQ(jit.info.source, ATTN_JIT_COMPILED);
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path)));
}

TEST(Cache, ListAndClear) {
  FakeCompiler compiler;
  TempDir dir;
  std::string cache = dir / "cache";
  EXPECT_TRUE(listCache(cache).empty());
  Jit jit(compiler, cache);
  jit.options.targets = "t1,t2";
  jit.options.variant = "v";
  ASSERT_EQ(jit.run(), 0);
  struct Seen {
    std::string path, key, description;
    uint64_t bytes = 0;
    int64_t created = 0;
    int intact = -1;
  } seen;
  ASSERT_EQ(attn_cache_list(
                cache.c_str(),
                [](void *context, const attn_cache_entry *e) {
                  *static_cast<Seen *>(context) = {e->path,        e->key,
                                                   e->description, e->bytes,
                                                   e->created,     e->intact};
                },
                &seen, &jit.error),
            0);
  EXPECT_EQ(seen.path, onlyEntry(cache));
  EXPECT_EQ(seen.key, jit.info.key);
  EXPECT_EQ(seen.description, "t.attn --variant v --target t1,t2");
  EXPECT_EQ(seen.bytes, fs::file_size(seen.path));
  EXPECT_LE(std::abs(seen.created - int64_t(time(nullptr))), 60);
  EXPECT_EQ(seen.intact, 1);

  writeFile(cache + "/notes.txt", "mine");
  writeFile(cache + "/" + std::string(64, 'a') + ".tmp", "leftover");
  writeFile(cache + "/" + std::string(63, 'a') + ".so", "not an entry");
  size_t entries = 0;
  uint64_t bytes = 0;
  ASSERT_EQ(attn_cache_clear(cache.c_str(), &entries, &bytes, &jit.error), 0);
  EXPECT_EQ(entries, 1u);
  EXPECT_EQ(bytes, seen.bytes);
  EXPECT_EQ(listDir(cache), (std::vector<std::string>{
                                std::string(63, 'a') + ".so", "notes.txt"}));
  // What is open stays usable.
  Call call(1, 2, 3);
  EXPECT_EQ(call.run(attn_bundle_kernel(jit.bundle, 0)), 0);
  EXPECT_EQ(
      attn_cache_clear((dir / "none").c_str(), nullptr, nullptr, &jit.error),
      0);
  EXPECT_EQ(attn_cache_list((dir / "cache/notes.txt").c_str(),
                            [](void *, const attn_cache_entry *) {}, nullptr,
                            &jit.error),
            ATTN_IO_ERROR);
}

TEST(Cache, DefaultDirectory) {
  char buffer[64];
  attn_error error;
  ScopedEnv home("HOME", "/h"), xdg("XDG_CACHE_HOME", "/x"),
      own("ATTN_CACHE_DIR", "/own");
  ASSERT_EQ(attn_cache_dir(buffer, sizeof buffer, &error), 0);
  EXPECT_STREQ(buffer, "/own");
  ScopedEnv none("ATTN_CACHE_DIR", "");
  ASSERT_EQ(attn_cache_dir(buffer, sizeof buffer, &error), 0);
  EXPECT_STREQ(buffer, "/x/attnc");
  ScopedEnv noXdg("XDG_CACHE_HOME", nullptr);
  ASSERT_EQ(attn_cache_dir(buffer, sizeof buffer, &error), 0);
  EXPECT_STREQ(buffer, "/h/.cache/attnc");
  EXPECT_EQ(attn_cache_dir(buffer, 5, &error), ATTN_INVALID_ARGUMENT);
}

// A hit is quick: finding the key, reading all of the entry, and loading it.
TEST(Cache, HitTakesLittleTime) {
  FakeCompiler compiler;
  TempDir dir;
  // An entry of the size of a large kernel: what is behind a library's last
  // segment does not matter to the loader.
  writeFile(dir / "large.so",
            readFile(bundlePath("plain")) + std::string(256 << 10, 'x'));
  ScopedEnv large("FAKE_BUNDLE", dir / "large.so");
  Jit jit(compiler, dir / "cache");
  ASSERT_EQ(jit.run(), 0);
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    jit.close();
    auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(jit.run(), 0);
    std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - start;
    EXPECT_EQ(jit.info.source, ATTN_JIT_FROM_DISK);
    best = std::min(best, took.count());
  }
  printf("a hit of %zu KiB takes %.2f ms\n",
         size_t(fs::file_size(dir / "large.so") >> 10), best);
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
  EXPECT_LT(best, 5);
#endif
}

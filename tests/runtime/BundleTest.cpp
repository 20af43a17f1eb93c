//===- tests/runtime/BundleTest.cpp - Opening bundles, picking kernels ----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Support.h"
#include <elf.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace fs = std::filesystem;

namespace {

/// Opens a file that must be refused; returns the message.
std::string refuse(const std::string &path, int status) {
  attn_bundle *bundle = reinterpret_cast<attn_bundle *>(1);
  attn_error error;
  EXPECT_EQ(attn_bundle_open(path.c_str(), &bundle, &error), status)
      << error.text;
  EXPECT_EQ(bundle, nullptr);
  EXPECT_EQ(error.code, status);
  attn_bundle_close(bundle);
  return error.text;
}

#define EXPECT_TEXT(text, part)                                                \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << text

} // namespace

TEST(Version, HeaderAndLibraryAgree) {
  EXPECT_EQ(attn_version(), uint32_t(ATTN_VERSION));
  EXPECT_STREQ(attn_version_string(), "0.1.0");
}

TEST(Bundle, ListsItsKernels) {
  attn_bundle *bundle = openBundle("good");
  ASSERT_NE(bundle, nullptr);
  ASSERT_EQ(attn_bundle_kernel_count(bundle), 3u);
  EXPECT_STREQ(attn_bundle_kernel(bundle, 0)->target, "plain");
  EXPECT_STREQ(attn_bundle_kernel(bundle, 1)->target, "exotic");
  EXPECT_STREQ(attn_bundle_kernel(bundle, 2)->target, "better");
  EXPECT_EQ(attn_bundle_kernel(bundle, 3), nullptr);
  EXPECT_STREQ(attn_bundle_producer(bundle), "by hand");
  attn_bundle_close(bundle);
  attn_bundle_close(nullptr);
}

TEST(Bundle, RefusesOtherVersionsByName) {
  std::string text = refuse(bundlePath("newer"), ATTN_BAD_BUNDLE);
  EXPECT_TEXT(text, "runtime_bundle_newer.so");
  EXPECT_TEXT(text, "ABI version 7, newer than this runtime");
  EXPECT_TEXT(text, "reads version 2");
  text = refuse(bundlePath("older"), ATTN_BAD_BUNDLE);
  EXPECT_TEXT(text, "ABI version 0, older than");
  text = refuse(bundlePath("kernel_newer"), ATTN_BAD_BUNDLE);
  EXPECT_TEXT(text, "a kernel of");
  EXPECT_TEXT(text, "ABI version 8, newer");
  text = refuse(bundlePath("short_table"), ATTN_BAD_BUNDLE);
  EXPECT_TEXT(text, "has a table of 8 bytes");
}

TEST(Bundle, RefusesWhatIsNoBundle) {
  EXPECT_TEXT(refuse(bundlePath("magic"), ATTN_BAD_BUNDLE),
              "magic number is 12345678");
  EXPECT_TEXT(refuse(bundlePath("no_table"), ATTN_BAD_BUNDLE),
              "without the symbol 'attn_bundle'");
  EXPECT_TEXT(refuse(bundlePath("small_table"), ATTN_BAD_BUNDLE),
              "is no bundle table");
  EXPECT_TEXT(refuse(bundlePath("no_rows"), ATTN_BAD_BUNDLE),
              "impossible division into work items");
  EXPECT_TEXT(refuse("/nonexistent/x.so", ATTN_NOT_FOUND), "/nonexistent/x.so");
  EXPECT_TEXT(refuse("/tmp", ATTN_BAD_BUNDLE), "not a regular file");
  EXPECT_TEXT(refuse("/dev/null", ATTN_BAD_BUNDLE), "not a regular file");
  TempDir dir;
  writeFile(dir / "text", "attention x { heads = 1 }\n");
  EXPECT_TEXT(refuse(dir / "text", ATTN_BAD_BUNDLE), "not a shared library");
  writeFile(dir / "empty", "");
  EXPECT_TEXT(refuse(dir / "empty", ATTN_BAD_BUNDLE), "not a shared library");
  writeFile(dir / "zero", std::string(20000, '\0'));
  refuse(dir / "zero", ATTN_BAD_BUNDLE);
  EXPECT_TEXT(refuse(CLIENT_PROGRAM, ATTN_BAD_BUNDLE), "");
  attn_error error;
  EXPECT_EQ(attn_bundle_open(nullptr, nullptr, &error), ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(attn_bundle_open("x", nullptr, nullptr), ATTN_INVALID_ARGUMENT);
}

TEST(Bundle, RefusesAnotherMachine) {
  std::string bytes = readFile(bundlePath("good"));
  Elf64_Ehdr header;
  memcpy(&header, bytes.data(), sizeof header);
  header.e_machine ^= 0x55;
  memcpy(bytes.data(), &header, sizeof header);
  TempDir dir;
  writeFile(dir / "other.so", bytes);
  EXPECT_TEXT(refuse(dir / "other.so", ATTN_BAD_BUNDLE), "another machine");
}

// Every shorter file is refused, none ends the process.
TEST(Bundle, RefusesEveryTruncation) {
  const std::string bytes = readFile(bundlePath("good"));
  TempDir dir;
  std::string path = dir / "cut.so";
  writeFile(path, bytes);
  for (size_t size = bytes.size(); size-- > 0;) {
    if (size % 97 && size > 200 && size + 200 < bytes.size())
      continue;
    fs::resize_file(path, size);
    EXPECT_TEXT(refuse(path, ATTN_BAD_BUNDLE),
                size < 4 ? "not a shared library" : "is truncated");
  }
}

// Any header of any content: an error or a bundle, never a crash before the
// file is loaded. Only bytes that the check itself reads are changed, since
// the rest is the dynamic loader's to trust.
RC_GTEST_PROP(BundleProperty, DamagedHeadersAreRefused, ()) {
  static const std::string good = readFile(bundlePath("good"));
  std::string bytes = good;
  Elf64_Ehdr header;
  memcpy(&header, bytes.data(), sizeof header);
  Elf64_Phdr segment;
  size_t at = header.e_phoff +
              sizeof segment * size_t(*rc::gen::inRange(0, +header.e_phnum));
  memcpy(&segment, bytes.data() + at, sizeof segment);
  // Where a segment's end is moved past the file's.
  uint64_t past = bytes.size() + 1 + *rc::gen::arbitrary<uint32_t>();
  if (*rc::gen::arbitrary<bool>())
    segment.p_offset = *rc::gen::element(past, UINT64_MAX, UINT64_MAX - 7);
  else
    segment.p_filesz = *rc::gen::element(past, UINT64_MAX, UINT64_MAX - 7);
  RC_PRE(segment.p_filesz > 0);
  memcpy(bytes.data() + at, &segment, sizeof segment);
  TempDir dir;
  writeFile(dir / "damaged.so", bytes);
  attn_bundle *bundle = nullptr;
  attn_error error;
  RC_ASSERT(attn_bundle_open((dir / "damaged.so").c_str(), &bundle, &error) ==
            ATTN_BAD_BUNDLE);
}

// The dynamic loader knows libraries by name; a new file under an old name must
// not give the old kernels.
TEST(Bundle, ReplacedFileGivesTheNewKernels) {
  TempDir dir;
  std::string path = dir / "b.so";
  fs::copy_file(bundlePath("plain"), path);
  attn_bundle *first = nullptr, *second = nullptr, *again = nullptr;
  attn_error error;
  ASSERT_EQ(attn_bundle_open(path.c_str(), &first, &error), 0) << error.text;
  fs::copy_file(bundlePath("good"), dir / "new.so");
  fs::rename(dir / "new.so", path);
  ASSERT_EQ(attn_bundle_open(path.c_str(), &second, &error), 0) << error.text;
  EXPECT_EQ(attn_bundle_kernel_count(first), 1u);
  EXPECT_EQ(attn_bundle_kernel_count(second), 3u);
  attn_bundle_close(first);
  ASSERT_EQ(attn_bundle_open(path.c_str(), &again, &error), 0) << error.text;
  EXPECT_EQ(attn_bundle_kernel_count(again), 3u);
  attn_bundle_close(second);
  EXPECT_STREQ(attn_bundle_kernel(again, 0)->variant, "demo");
  attn_bundle_close(again);
}

TEST(Bundle, NameWithoutSlashIsAFile) {
  TempDir dir;
  fs::copy_file(bundlePath("plain"), dir / "here.so");
  fs::path before = fs::current_path();
  fs::current_path(dir.path);
  attn_bundle *bundle = nullptr;
  attn_error error;
  EXPECT_EQ(attn_bundle_open("here.so", &bundle, &error), 0) << error.text;
  attn_bundle_close(bundle);
  fs::current_path(before);
}

TEST(Bundle, StaticKernels) {
  const attn_kernel *kernel = plainKernel();
  attn_bundle *bundle = nullptr;
  attn_error error;
  ASSERT_EQ(attn_bundle_open_static(&kernel, 1, &bundle, &error), 0);
  EXPECT_EQ(attn_bundle_kernel(bundle, 0), kernel);
  const attn_kernel *picked = nullptr;
  EXPECT_EQ(attn_kernel_pick(bundle, "demo", nullptr, &picked, &error), 0);
  EXPECT_EQ(picked, kernel);
  attn_bundle_close(bundle);

  attn_kernel wrong = *kernel;
  wrong.abi_version = 3;
  const attn_kernel *list[] = {kernel, &wrong};
  EXPECT_EQ(attn_bundle_open_static(list, 2, &bundle, &error), ATTN_BAD_BUNDLE);
  EXPECT_TEXT(error.text, "version 3");
  list[1] = nullptr;
  EXPECT_EQ(attn_bundle_open_static(list, 2, &bundle, &error), ATTN_BAD_BUNDLE);
  EXPECT_EQ(attn_bundle_open_static(list, 0, &bundle, &error),
            ATTN_INVALID_ARGUMENT);
}

TEST(Pick, TakesTheBestThatRunsHere) {
  attn_bundle *bundle = openBundle("good");
  const attn_kernel *kernel = nullptr;
  attn_error error;
  ASSERT_EQ(attn_kernel_pick(bundle, nullptr, nullptr, &kernel, &error), 0);
  EXPECT_STREQ(kernel->target, "better"); // exotic is preferred, but can't run
  ASSERT_EQ(attn_kernel_pick(bundle, "demo", "plain", &kernel, &error), 0);
  EXPECT_STREQ(kernel->target, "plain");
  attn_bundle_close(bundle);
}

TEST(Pick, RefusalsSayWhatIsMissing) {
  attn_bundle *bundle = openBundle("good");
  const attn_kernel *kernel = nullptr;
  attn_error error;
  EXPECT_EQ(attn_kernel_pick(bundle, nullptr, "exotic", &kernel, &error),
            ATTN_UNSUPPORTED_CPU);
  EXPECT_EQ(kernel, nullptr);
  EXPECT_TEXT(error.text, "variant 'demo' for target 'exotic' needs "
                          "warp-drive,flux; this machine lacks "
                          "warp-drive,flux");
  EXPECT_TEXT(error.text,
              "holds: plain, exotic (needs warp-drive,flux), better");
  EXPECT_EQ(attn_kernel_pick(bundle, nullptr, "odd", &kernel, &error),
            ATTN_NOT_FOUND);
  EXPECT_TEXT(error.text, "not compiled for target 'odd'; the bundle holds: "
                          "plain, exotic");
  EXPECT_EQ(attn_kernel_pick(bundle, "demon", nullptr, &kernel, &error),
            ATTN_NOT_FOUND);
  EXPECT_TEXT(error.text, "no variant 'demon'; it has: demo");
  attn_bundle_close(bundle);

  bundle = openBundle("two");
  EXPECT_EQ(attn_kernel_pick(bundle, nullptr, nullptr, &kernel, &error),
            ATTN_INVALID_ARGUMENT);
  EXPECT_TEXT(error.text, "name one of: demo, second");
  EXPECT_EQ(attn_kernel_pick(bundle, "second", nullptr, &kernel, &error), 0);
  attn_bundle_close(bundle);
}

TEST(Pick, EnvironmentAsksForATarget) {
  attn_bundle *bundle = openBundle("good");
  const attn_kernel *kernel = nullptr;
  attn_error error;
  {
    ScopedEnv env("ATTN_TARGET", "plain");
    ASSERT_EQ(attn_kernel_pick(bundle, nullptr, nullptr, &kernel, &error), 0);
    EXPECT_STREQ(kernel->target, "plain");
    ASSERT_EQ(attn_kernel_pick(bundle, nullptr, "better", &kernel, &error), 0);
    EXPECT_STREQ(kernel->target, "better");
  }
  ScopedEnv env("ATTN_TARGET", "exotic");
  EXPECT_EQ(attn_kernel_pick(bundle, nullptr, nullptr, &kernel, &error),
            ATTN_UNSUPPORTED_CPU);
  EXPECT_TEXT(error.text, "(asked for by ATTN_TARGET)");
  attn_bundle_close(bundle);
}

// A kernel taken from the list, past attn_kernel_pick, is not run either.
TEST(Pick, RunRefusesAKernelThatTheMachineLacks) {
  attn_bundle *bundle = openBundle("good");
  Call call(1, 2, 3);
  EXPECT_EQ(call.run(attn_bundle_kernel(bundle, 1)), ATTN_UNSUPPORTED_CPU);
  EXPECT_TEXT(call.error.text, "this machine lacks warp-drive,flux");
  attn_bundle_close(bundle);
}

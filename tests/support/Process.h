//===- tests/support/Process.h - Running programs, temporary files --------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_PROCESS_H
#define ATTNC_TESTS_SUPPORT_PROCESS_H

#include <filesystem>
#include <string>
#include <vector>

namespace attn::test {

/// Runs a program (looked up in PATH). `output` receives standard output and
/// error together. Returns the exit status, 128 + N after signal N, or -1 where
/// it could not be started.
int runProgram(const std::vector<std::string> &arguments, std::string &output);

/// Whole files; throw std::runtime_error.
std::string readFile(const std::filesystem::path &path);
void writeFile(const std::filesystem::path &path, const std::string &bytes);

/// A directory of its own that goes away with its contents.
class TemporaryDirectory {
public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory &) = delete;
  TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;
  const std::filesystem::path &path() const { return where; }

private:
  std::filesystem::path where;
};

} // namespace attn::test

#endif

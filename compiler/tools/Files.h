//===- tools/Files.h - Reading and writing whole files --------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TOOLS_FILES_H
#define ATTNC_COMPILER_TOOLS_FILES_H

#include <stdexcept>
#include <string>
#include <string_view>

namespace attn {

/// Bad usage or input: ends the command with exit code 2 and this message.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// All bytes of a file; "-" is standard input. Throws Failure.
std::string readFile(const std::string &path);

/// Writes `bytes` to `path` whole or not at all; "-" is standard output.
/// Throws Failure.
void writeFile(const std::string &path, std::string_view bytes);

} // namespace attn

#endif

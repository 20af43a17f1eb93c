//===- tests/dsl/ReplayCorpus.cpp - The fuzzer's corpus without a fuzzer --===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "FuzzParse.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

/// replay DIRECTORY: every file, in order of names, whole and cut off at each
/// of its bytes.
int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto &entry : std::filesystem::directory_iterator(argv[1]))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  size_t texts = 0;
  for (const auto &path : files) {
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file) {
      std::fprintf(stderr, "cannot read %s\n", path.c_str());
      return 1;
    }
    // Named first, so that a crash says where it was.
    std::printf("%s: %zu bytes\n", path.filename().c_str(), text.size());
    std::fflush(stdout);
    attn::checkAnyBytes(text);
    size_t cuts = std::min<size_t>(text.size(), 4096);
    for (size_t length = 0; length < cuts; ++length)
      attn::checkAnyBytes(std::string_view(text).substr(0, length));
    texts += 1 + cuts;
  }
  std::printf("%zu files, %zu texts\n", files.size(), texts);
  return files.size() < 20 ? 1 : 0; // a lost corpus must not pass
}

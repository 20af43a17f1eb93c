//===- tests/ptx/Main.cpp - ptx-run ---------------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "FlashKernel.h"
#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <limits>

using namespace attn::ptx;

namespace {

constexpr const char *Usage =
    "usage: ptx-run FILE      reads PTX and lists its kernels\n"
    "       ptx-run --bench   runs attention and prints how fast that was\n";

int list(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fmt::print(stderr, "ptx-run: cannot read {}\n", path);
    return 1;
  }
  std::string text{std::istreambuf_iterator<char>(file), {}};
  Module module = Module::parse(text, path);
  for (const KernelInfo &kernel : module.kernels()) {
    fmt::print("{}: {} bytes of static shared memory, {} of local\n",
               kernel.name, kernel.staticShared, kernel.localBytes);
    for (const ParameterInfo &parameter : kernel.parameters)
      fmt::print("  {} at {}: {} bytes, alignment {}\n", parameter.name,
                 parameter.offset, parameter.bytes, parameter.align);
  }
  return 0;
}

/// The best of some runs, since the machine has other things to do.
int bench() {
  constexpr unsigned Runs = 10, Length = 256, Heads = 2;
  fmt::print("head  checks  GFLOP/s of mma  warp instructions\n");
  for (unsigned head : {64, 128}) {
    FlashOptions options;
    options.head = head;
    Module module = Module::parse(flashKernel(options), "flash");
    for (bool checks : {true, false}) {
      double best = std::numeric_limits<double>::infinity();
      FlashRun last;
      for (unsigned n = 0; n < Runs; n++) {
        last = runFlash(module, options, Length, Heads, checks);
        best = std::min(best, last.seconds);
      }
      fmt::print("{:4}  {:6}  {:14.2f}  {:17}\n", head, checks ? "all" : "few",
                 double(last.counts.mmaFlops) / best * 1e-9,
                 last.counts.warpInstructions);
    }
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  try {
    std::string first = argc == 2 ? argv[1] : "";
    if (first == "--bench")
      return bench();
    if (!first.empty() && first[0] != '-')
      return list(first);
  } catch (const Error &error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  fmt::print(stderr, "{}", Usage);
  return 2;
}

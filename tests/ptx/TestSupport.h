//===- tests/ptx/TestSupport.h - Small kernels to test with ---------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PTX_TESTSUPPORT_H
#define ATTNC_TESTS_PTX_TESTSUPPORT_H

#include "Interpreter.h"
#include <array>
#include <cstring>
#include <random>

namespace attn::ptx::test {

/// Parses a text, in which `KERNEL` becomes a name of its own. At the end of
/// the program the assembler, where there is one, sees all these texts too:
/// what the tests are about is real PTX. The header must name the target.
struct Assembled {
  Module module;
  std::string kernel; ///< what KERNEL became
  std::string text;
};
Assembled assemble(std::string text, bool alsoAssembler = true);

/// Bits of operands and of results: 1 stands for a predicate.
using Bits = unsigned;

/// Runs an instruction on many values, each in a lane. In it `$d` is the result
/// and `$a`, `$b`, ... are the operands, whose registers have the given widths.
std::vector<uint64_t>
evaluate(const std::string &instruction, Bits result,
         const std::vector<Bits> &operands,
         const std::vector<std::vector<uint64_t>> &values);

/// Numbers of the width, the awkward ones among them, as many as `count`.
std::vector<uint64_t> awkward(Bits bits, size_t count, std::mt19937_64 &random);
/// Encodings of f32 (or f64) numbers, likewise.
std::vector<uint64_t> awkwardFloats(Bits bits, size_t count,
                                    std::mt19937_64 &random);

/// A kernel around a body. It may use, besides registers of its own choice
/// from %p0-15, %h0-15, %r8-63 and %d8-31:
///   %d0, %d1  addresses of the regions `in` (read only) and `out`
///   %d2, %d3  the thread's own word of them
///   %r0       the thread's number in the block; %r1 its lane, %r2 its warp
///   %r3       the block's number
struct Scene {
  std::string body;
  std::string declarations; ///< before the kernel
  Dim block{32, 1, 1}, grid{1, 1, 1};
  size_t dynamicShared = 0;
  std::string target = "sm_80";
  std::string directives; ///< between parameters and body
  bool checks = true;
  Order order = Order::Forward;
  uint64_t instructionLimit = 0;
  bool assembles = true; ///< whether the assembler takes it, too
};

constexpr size_t RegionWords = 1024;

struct Outcome {
  std::string error; ///< empty: none
  std::string line;  ///< the text of the line that the error names
  Counts counts;
  std::vector<uint32_t> out; ///< what the kernel left in `out`
};
/// Runs it; `in` holds the words 0, 1, 2, ..., `out` holds ~0.
Outcome play(const Scene &scene);

} // namespace attn::ptx::test

#endif

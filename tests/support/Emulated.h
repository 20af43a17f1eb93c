//===- tests/support/Emulated.h - Running kernels through an emulator -----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_EMULATED_H
#define ATTNC_TESTS_SUPPORT_EMULATED_H

#include "tests/support/Executor.h"
#include <memory>
#include <string>

namespace attn::test {

/// The program that runs static executables of another machine:
///   COMMAND --file HOST:GUEST --get GUEST:HOST PROGRAM ARGS...
/// (puts a file there, brings one back, passes output and exit status on).
struct Emulator {
  std::string name;    ///< the command's last component; empty if there is none
  std::string command; ///< empty if there is none
  std::string missing; ///< why not, and what to install or to set; else empty
};

/// The emulator for a `--target`. For x86-avx512 it is named by the environment
/// variable ATTN_AVX512_RUNNER, else by the CMake setting of the same name.
Emulator emulatorFor(const std::string &target);

/// A kernel as an object file, with what it says of itself. Throws
/// std::runtime_error where that can't be read. Needs what linking needs.
Code emulatedCode(std::string object, std::string symbol);

/// Runs `Code::object`: links all kernels of the jobs with a harness into one
/// static executable and runs that once. Needs clang (the environment variable
/// or CMake setting ATTN_CLANG) and lld. Symbols of distinct objects must
/// differ.
std::unique_ptr<Executor> makeEmulatedExecutor(Emulator emulator);

} // namespace attn::test

#endif

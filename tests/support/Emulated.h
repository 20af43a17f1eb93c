//===- tests/support/Emulated.h - Running kernels through an emulator -----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_EMULATED_H
#define ATTNC_TESTS_SUPPORT_EMULATED_H

#include "compiler/Target.h"
#include "tests/support/Executor.h"
#include <memory>
#include <string>
#include <vector>

namespace attn::test {

/// What runs static executables of another machine, and what makes them.
struct Emulator {
  std::string name;    ///< of the program, as people know it; or empty
  std::string command; ///< the program; empty if there is none
  std::string missing; ///< why not, and what to install or to set; else empty
  std::vector<std::string> options; ///< of the program, first of all
  /// It sees no file of this system, but is told which ones to put there and
  /// which to bring back:
  ///   COMMAND --file HOST:GUEST --get GUEST:HOST PROGRAM ARGS...
  bool hasOwnFiles = false;
  std::vector<std::string> compiler; ///< clang, and the machine to compile for
  std::string linksWith; ///< packages without which it can't link, maybe
};

/// Finds what a target names: in PATH, or by an environment variable, for which
/// the CMake setting of the same name is the default.
Emulator findEmulator(const Emulation &emulation);

/// The same for a registered target by its name. Needs the compiler.
Emulator emulatorFor(const std::string &target);

/// A kernel as an object file, with what it says of itself. Throws
/// std::runtime_error where that can't be read.
Code emulatedCode(std::string object, std::string symbol);

/// Runs `Code::object`: links all kernels of the jobs with a harness into one
/// static executable and runs that once. Needs clang (the environment variable
/// or CMake setting ATTN_CLANG) and lld. Symbols of distinct objects must
/// differ.
std::unique_ptr<Executor> makeEmulatedExecutor(Emulator emulator);

} // namespace attn::test

#endif

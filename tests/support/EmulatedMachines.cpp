//===- tests/support/EmulatedMachines.cpp - Emulators and their tools -----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Emulated.h"
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace attn::test {

namespace {

/// An environment variable, or else a setting of the build.
std::string setting(const char *name, const char *built) {
  const char *given = std::getenv(name);
  return given && *given != 0 ? given : built;
}

/// Where a program is in PATH, or nothing.
std::string findProgram(const std::string &name) {
  const char *path = std::getenv("PATH");
  std::string rest = path ? path : "";
  while (!rest.empty()) {
    const std::string folder = rest.substr(0, rest.find(':'));
    rest.erase(0, folder.size() + 1);
    std::string file = (folder.empty() ? "." : folder) + "/" + name;
    std::error_code error;
    if (std::filesystem::is_regular_file(file, error) &&
        access(file.c_str(), X_OK) == 0)
      return file;
  }
  return {};
}

/// What runs single programs of another machine on this system. The CPU is one
/// that has what the target may use, and little more.
struct UserMode {
  const char *target;
  const char *program;
  const char *cpu;
  const char *triple;
  const char *packages; ///< of Debian, that linking needs on other machines
};

constexpr const char *kLinkArm = "gcc-aarch64-linux-gnu, libc6-dev-arm64-cross";
constexpr const char *kLinkX86 = "gcc-x86-64-linux-gnu, libc6-dev-amd64-cross";
constexpr UserMode kUserModes[] = {
    {"arm-neon", "qemu-aarch64", "cortex-a57", "aarch64-linux-gnu", kLinkArm},
    {"x86-64", "qemu-x86_64", "qemu64", "x86_64-linux-gnu", kLinkX86},
    {"x86-avx2", "qemu-x86_64", "Haswell", "x86_64-linux-gnu", kLinkX86},
};

Emulator userModeEmulator(const UserMode &mode, const std::string &clang) {
  Emulator emulator;
  // The second is the name of the statically linked one.
  for (const char *ending : {"", "-static"})
    if (emulator.command.empty())
      emulator.command = findProgram(std::string(mode.program) + ending);
  if (emulator.command.empty()) {
    emulator.missing = fmt::format(
        "there is no {} in PATH; Debian's package qemu-user brings it",
        mode.program);
    return emulator;
  }
  emulator.name = mode.program;
  emulator.options = {"-cpu", mode.cpu};
  emulator.compiler = {clang, fmt::format("--target={}", mode.triple)};
  emulator.linksWith = mode.packages;
  return emulator;
}

Emulator avx512Runner(const std::string &clang) {
  Emulator emulator;
  std::string command = setting("ATTN_AVX512_RUNNER", ATTN_AVX512_RUNNER);
  if (command.empty()) {
    emulator.missing =
        "no emulator is named: set ATTN_AVX512_RUNNER, in the environment or "
        "when configuring, to a program that runs static AVX-512 executables";
    return emulator;
  }
  if (access(command.c_str(), X_OK) != 0) {
    emulator.missing = fmt::format(
        "ATTN_AVX512_RUNNER is '{}', which is not an executable file", command);
    return emulator;
  }
  emulator.name = std::filesystem::path(command).filename();
  emulator.command = command;
  emulator.hasOwnFiles = true;
  emulator.compiler = {clang, "--target=x86_64-linux-gnu"};
  emulator.linksWith = kLinkX86;
  return emulator;
}

} // namespace

Emulator emulatorFor(const std::string &target) {
  const std::string clang = setting("ATTN_CLANG", ATTN_CLANG);
  if (target == "x86-avx512")
    return avx512Runner(clang);
  for (const UserMode &mode : kUserModes)
    if (target == mode.target)
      return userModeEmulator(mode, clang);
  Emulator emulator;
  emulator.missing = "there is no emulator for " + target;
  return emulator;
}

} // namespace attn::test

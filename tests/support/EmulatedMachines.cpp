//===- tests/support/EmulatedMachines.cpp - Emulators of this system ------===//
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

/// The settings of the build that stand in for environment variables.
std::string builtSetting(const std::string &variable) {
  return variable == "ATTN_AVX512_RUNNER" ? ATTN_AVX512_RUNNER : "";
}

/// Sets the emulator's program, or what is missing.
void findNamed(Emulator &emulator, const std::string &variable) {
  const std::string command =
      setting(variable.c_str(), builtSetting(variable).c_str());
  if (command.empty())
    emulator.missing = fmt::format(
        "no emulator is named: set {}, in the environment or when configuring, "
        "to a program that runs static executables of this target",
        variable);
  else if (access(command.c_str(), X_OK) != 0)
    emulator.missing = fmt::format(
        "{} is '{}', which is not an executable file", variable, command);
  else
    emulator.command = command;
  emulator.name = std::filesystem::path(emulator.command).filename();
}

void findInPath(Emulator &emulator, const Emulation &emulation) {
  // The second is the name of the statically linked one.
  for (const char *ending : {"", "-static"})
    if (emulator.command.empty())
      emulator.command = findProgram(emulation.program + ending);
  if (emulator.command.empty())
    emulator.missing =
        fmt::format("there is no {} in PATH; Debian's package {} brings it",
                    emulation.program, emulation.package);
  else
    emulator.name = emulation.program;
}

} // namespace

Emulator findEmulator(const Emulation &emulation) {
  Emulator emulator;
  if (emulation.variable.empty())
    findInPath(emulator, emulation);
  else
    findNamed(emulator, emulation.variable);
  if (emulator.command.empty())
    return emulator;
  emulator.options = emulation.options;
  emulator.hasOwnFiles = emulation.hasOwnFiles;
  emulator.compiler = {setting("ATTN_CLANG", ATTN_CLANG),
                       "--target=" + emulation.triple};
  emulator.linksWith = emulation.linkPackages;
  return emulator;
}

} // namespace attn::test

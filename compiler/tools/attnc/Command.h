//===- tools/attnc/Command.h - The commands of attnc ----------------------===//
//
// Part of attnc. Apache-2.0.
//
// Each command adds its options to the command line and gives back what to do.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TOOLS_ATTNC_COMMAND_H
#define ATTNC_COMPILER_TOOLS_ATTNC_COMMAND_H

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>

namespace attn {

/// Runs a command once its options are read; the result is the exit code.
/// Throws Failure for exit code 2.
using Action = std::function<int()>;

Action addCompile(CLI::App &command);
Action addRun(CLI::App &command);
Action addCheck(CLI::App &command);
Action addBench(CLI::App &command);
Action addExplain(CLI::App &command);
Action addPlot(CLI::App &command);
Action addTargets(CLI::App &command);
Action addCache(CLI::App &command);

} // namespace attn

#endif

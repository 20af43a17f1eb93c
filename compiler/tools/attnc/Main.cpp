//===- tools/attnc/Main.cpp - The command line ----------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Compiler.h"
#include "compiler/tools/Files.h"
#include "compiler/tools/attnc/Command.h"
#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <new>

using namespace attn;

namespace {

constexpr int kBadUsage = 2;

/// One message on standard error; those about texts bring their place along.
int complain(const std::string &message) {
  const bool placed = message.find(": error: ") != std::string::npos;
  fmt::print(stderr, "{}{}\n", placed ? "" : "attnc: error: ", message);
  return kBadUsage;
}

struct CommandEntry {
  const char *name;
  const char *help;
  Action (*add)(CLI::App &);
};

/// Opens the libraries of targets that ATTN_LOAD_TARGET and the options name.
void loadAllTargets(const std::vector<std::string> &paths) {
  const char *given = std::getenv("ATTN_LOAD_TARGET");
  std::string rest = given ? given : "";
  std::vector<std::string> all;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    if (end != 0)
      all.push_back(rest.substr(0, end));
    rest.erase(0, end + 1);
  }
  all.insert(all.end(), paths.begin(), paths.end());
  for (const std::string &path : all)
    if (std::string error = loadTargets(path); !error.empty())
      throw Failure("--load-target " + error);
}

constexpr CommandEntry kCommands[] = {
    {"compile", "compile a text to a bundle, an object, or a stage's text",
     addCompile},
    {"run", "run a variant on NumPy arrays", addRun},
    {"check", "compare kernels with a double-precision evaluation", addCheck},
    {"bench", "measure a kernel against what the machine can do", addBench},
    {"explain", "say what a kernel will do, and why", addExplain},
    {"plot", "draw the mask and the tiles that a kernel visits", addPlot},
    {"targets", "list the targets", addTargets},
    {"cache", "list or clear the cache on disk", addCache},
};

int runCommandLine(int argc, char **argv) {
  CLI::App app("attnc compiles attention variants to fast kernels", "attnc");
  app.set_version_flag("--version",
                       [] { return "attnc " + compilerVersion(); });
  std::vector<std::string> libraries;
  app.add_option("--load-target", libraries,
                 "a library of targets; again for more, or ATTN_LOAD_TARGET, "
                 "with ':' between them")
      ->allow_extra_args(false);
  app.fallthrough(); // also after the command
  std::map<CLI::App *, Action> actions;
  std::string names;
  bool isKnown = argc < 2 || argv[1][0] == '-';
  for (const CommandEntry &entry : kCommands) {
    CLI::App *command = app.add_subcommand(entry.name, entry.help);
    actions[command] = entry.add(*command);
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
    isKnown = isKnown || std::string(entry.name) == argv[1];
  }
  if (!isKnown)
    return complain(
        fmt::format("there is no command '{}'; there are: {}", argv[1], names));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &request) {
    return app.exit(request); // --help, --version
  } catch (const CLI::ParseError &error) {
    return complain(fmt::format(
        "{} (see 'attnc{} --help')", error.what(),
        argc > 1 && argv[1][0] != '-' ? " " + std::string(argv[1]) : ""));
  }
  if (app.get_subcommands().empty())
    return complain("a command is required; there are: " + names);
  loadAllTargets(libraries);
  return actions.at(app.get_subcommands().front())();
}

} // namespace

int main(int argc, char **argv) {
  try {
    return runCommandLine(argc, argv);
  } catch (const Failure &failure) {
    return complain(failure.what());
  } catch (const std::bad_alloc &) {
    return complain("out of memory");
  } catch (const std::exception &exception) {
    return complain(exception.what());
  }
}

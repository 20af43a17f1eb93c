//===- tools/attnc/Check.cpp - attnc check --------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Check.h"
#include "compiler/Compiler.h"
#include "compiler/tools/Files.h"
#include "compiler/tools/attnc/Command.h"
#include "compiler/tools/attnc/Input.h"
#include "tests/support/Conformance.h"
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace attn {
namespace {

constexpr int kMismatch = 1;

struct Options : TextOptions {
  std::string target = "host";
  int64_t cases = 100;
  uint64_t seed = 1;
  bool all = false;
  std::string report; ///< file
};

/// Shown on a terminal only, and wiped when done.
class Progress {
public:
  Progress(const std::string &name, int64_t cases)
      : name(name), cases(cases), isShown(::isatty(STDERR_FILENO)) {}
  ~Progress() {
    if (isShown)
      fmt::print(stderr, "\r\033[K");
  }
  void show(int64_t done) const {
    if (isShown)
      fmt::print(stderr, "\r{}: {} of {}", name, done, cases);
  }
  void show(const std::string &part, int64_t done) const {
    if (isShown)
      fmt::print(stderr, "\r\033[K{}: {}, {}", name, part, done);
  }

private:
  const std::string &name;
  int64_t cases;
  bool isShown;
};

int checkVariants(const Options &options) {
  const Text text = options.read();
  std::vector<Diagnostic> diagnostics;
  const std::string target = resolveTarget(options.target, diagnostics);
  text.require(diagnostics);
  int result = 0;
  for (const Spec &spec : text.specs()) {
    CheckReport report;
    {
      Progress progress(spec.name, options.cases);
      report = checkSpec(spec, target, options.cases, options.seed,
                         [&](int64_t done) { progress.show(done); });
    }
    text.require(report.diagnostics);
    if (!report.error.empty())
      throw Failure(fmt::format("{}: {}", spec.name, report.error));
    fmt::print("{} for {} ({}), seed {}: {} cases, {} wrong; largest error "
               "{:.2g} of what is allowed\n",
               spec.name, target, report.through, options.seed, report.cases,
               report.failures, report.worst);
    if (report.failures) {
      fmt::print("  {}\n", report.firstFailure);
      result = kMismatch;
    }
  }
  return result;
}

/// What the suite ran and found, for programs.
std::string reportText(const ConformanceReport &report,
                       const Options &options) {
  int64_t variants = 0, cases = 0, wrong = 0;
  for (const ConformanceGroup &group : report.groups) {
    variants += group.variants;
    cases += group.cases;
    wrong += group.failures;
  }
  nlohmann::ordered_json refused = nlohmann::ordered_json::array();
  for (const auto &[what, why] : report.refused)
    refused.push_back({{"what", what}, {"why", why}});
  const nlohmann::ordered_json json = {
      {"target", report.target}, {"through", report.through},
      {"seed", options.seed},    {"variants", variants},
      {"cases", cases},          {"wrong", wrong},
      {"worst", report.worst},   {"refused", refused}};
  return json.dump(2) + "\n";
}

/// The suite that every target has to pass.
int checkWholeTarget(const Options &options) {
  if (!options.file.empty())
    throw Failure("--all: the suite brings its own variants; no FILE is taken");
  std::vector<Diagnostic> diagnostics;
  const std::string target = resolveTarget(options.target, diagnostics);
  if (!diagnostics.empty())
    throw Failure(fmt::format("--target {}: {}; {}", options.target,
                              diagnostics.front().message,
                              diagnostics.front().hint));
  ConformanceReport report;
  {
    std::string name = target;
    Progress progress(name, options.cases);
    report = checkTarget(target, options.cases, options.seed,
                         [&](const std::string &group, int64_t done) {
                           progress.show(group, done);
                         });
  }
  if (!report.error.empty())
    throw Failure(report.error);
  fmt::print("{} ({}), seed {}\n", report.target, report.through, options.seed);
  for (const ConformanceGroup &group : report.groups) {
    fmt::print("  {:<24} {:>4} variants {:>5} cases {:>3} wrong\n", group.name,
               group.variants, group.cases, group.failures);
    if (group.failures)
      fmt::print("    {}\n", group.firstFailure);
  }
  fmt::print("  largest error {:.2g} of what is allowed\n", report.worst);
  for (const auto &[what, why] : report.refused)
    fmt::print("  refused: {}: {}\n", what, why);
  if (!options.report.empty())
    writeFile(options.report, reportText(report, options));
  return report.ok() ? 0 : kMismatch;
}

} // namespace

Action addCheck(CLI::App &command) {
  auto options = std::make_shared<Options>();
  options->add(command);
  command.add_option("--target", options->target);
  command.add_option("--cases", options->cases, "random calls for a variant")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  command.add_option("--seed", options->seed, "equal seeds give equal calls");
  command.add_flag(
      "--all", options->all,
      "the conformance suite of the target, without FILE; --cases "
      "is then the number of random variants a level (default 25)");
  command.add_option("--report", options->report,
                     "with --all: a file for what was run, as JSON");
  command.get_option("FILE")->required(false);
  CLI::Option *cases = command.get_option("--cases");
  return [options, cases] {
    if (!options->all) {
      if (options->file.empty())
        throw Failure("FILE is required; or --all");
      if (!options->report.empty())
        throw Failure("--report: only the suite makes one; --all is missing");
      return checkVariants(*options);
    }
    if (cases->empty())
      options->cases = 25;
    return checkWholeTarget(*options);
  };
}

} // namespace attn

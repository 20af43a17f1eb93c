//===- tools/attnc/Explain.cpp - attnc explain ----------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Explain.h"
#include "compiler/tools/Files.h"
#include "compiler/tools/attnc/Command.h"
#include "compiler/tools/attnc/Input.h"
#include "compiler/tools/attnc/Params.h"
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

namespace attn {
namespace {

struct Options : TextOptions {
  std::string target = "host";
  std::string plan;
  int64_t qLen = 4096;
  int64_t kvLen = -1; ///< -1: as many as queries
  bool json = false;
  ParamOptions params;
};

int explainVariant(const Options &options) {
  const Text text = options.read();
  const Spec &spec = text.spec();
  std::vector<Diagnostic> diagnostics;
  const std::string target = resolveTarget(options.target, diagnostics);
  text.require(diagnostics);
  const int64_t kvLen = options.kvLen < 0 ? options.qLen : options.kvLen;
  ParamValues params(spec, options.params, /*allRequired=*/false);
  params.makeRandom(/*batch=*/1, options.qLen, kvLen);
  const attn_call values = params.valuesOfSequence(options.qLen, kvLen);
  const Explanation e =
      explain(spec, {target, options.plan}, options.qLen, kvLen, &values);
  text.require(e.diagnostics);
  if (options.json) {
    nlohmann::ordered_json json;
    json["variant"] = spec.name;
    json["target"] = target;
    json["q_len"] = options.qLen;
    json["kv_len"] = kvLen;
    json["visited_pairs"] = e.visitedPairs;
    json["allowed_pairs"] = e.allowedPairs;
    json["open_pairs"] = e.openPairs;
    json["tiles"] = {{"full", e.fullTiles},
                     {"partial", e.partialTiles},
                     {"skipped", e.skippedTiles}};
    json["undecided"] = {{"tiles", e.undecidedTiles},
                         {"pairs", e.undecidedPairs}};
    json["flops"] = e.flops;
    json["bytes"] = e.bytes;
    json["plan"] = e.plan;
    // What the plan, the mask and the counts follow from.
    json["reasons"] = e.reasons;
    for (const std::string &line : e.mask)
      json["reasons"].push_back("mask: " + line);
    for (const std::string &note : e.notes)
      json["reasons"].push_back(note);
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  fmt::print("{} for {}, {} queries x {} keys\n", spec.name, target,
             options.qLen, kvLen);
  fmt::print("  pairs    {} visited for {} allowed", e.visitedPairs,
             e.allowedPairs);
  if (e.openPairs)
    fmt::print(" and {} open", e.openPairs);
  else if (e.allowedPairs)
    fmt::print(" ({:.3f})", double(e.visitedPairs) / double(e.allowedPairs));
  fmt::print(", per head\n  tiles    {} full, {} partial, {} skipped\n",
             e.fullTiles, e.partialTiles, e.skippedTiles);
  fmt::print("  work     {:.4g} GFLOP, at least {:.4g} MB\n", e.flops / 1e9,
             e.bytes / 1e6);
  fmt::print("  plan     {}\n", e.plan);
  auto list = [](const char *title, const std::vector<std::string> &lines) {
    for (const std::string &line : lines)
      fmt::print("  {:<8} {}\n", &line == lines.data() ? title : "", line);
  };
  list("", e.reasons);
  list("mask", e.mask);
  list("note", e.notes);
  return 0;
}

} // namespace

Action addExplain(CLI::App &command) {
  auto options = std::make_shared<Options>();
  options->add(command);
  options->params.canBeRandom = true;
  options->params.add(command);
  command.add_option("--target", options->target);
  command.add_option("--plan", options->plan,
                     "KEY=VALUE,...: overrides the planner");
  command.add_option("--q-len", options->qLen)
      ->check(CLI::Range(int64_t(0), int64_t(INT32_MAX)));
  command.add_option("--kv-len", options->kvLen, "default: as --q-len")
      ->check(CLI::Range(int64_t(0), int64_t(INT32_MAX)));
  command.add_flag("--json", options->json, "one object on standard output");
  return [options] { return explainVariant(*options); };
}

} // namespace attn

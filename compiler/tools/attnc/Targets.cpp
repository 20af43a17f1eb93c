//===- tools/attnc/Targets.cpp - attnc targets, attnc cache ---------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Compiler.h"
#include "compiler/tools/Files.h"
#include "compiler/tools/attnc/Command.h"
#include "runtime/attn.h"
#include "tests/support/Check.h"
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

namespace attn {
namespace {

int listTargets(bool json) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TargetState &state : targetStates()) {
    std::string missing;
    const std::string through =
        state.runsHere ? "native" : emulatorOf(state.name, missing);
    if (json) {
      nlohmann::ordered_json entry;
      entry["name"] = state.name;
      entry["runs_here"] = state.runsHere;
      entry["through"] = through.empty() ? nlohmann::ordered_json(nullptr)
                                         : nlohmann::ordered_json(through);
      entry["features"] = state.features;
      list.push_back(std::move(entry));
    } else if (state.runsHere) {
      fmt::print("{:<14} runs here\n", state.name);
    } else if (!through.empty()) {
      fmt::print("{:<14} is checked through {}: this machine lacks {}\n",
                 state.name, through, state.missing);
    } else {
      fmt::print("{:<14} compiles only: this machine lacks {}; {}\n",
                 state.name, state.missing, missing);
    }
  }
  if (json)
    fmt::print("{}\n", list.dump(2));
  return 0;
}

void printEntry(void *, const attn_cache_entry *entry) {
  fmt::print("{:.16}  {:%Y-%m-%d %H:%M}  {:>8} KiB  {}\n", entry->key,
             fmt::localtime(time_t(entry->created)),
             (entry->bytes + 1023) / 1024,
             entry->intact ? entry->description : "(damaged)");
}

int listCache() {
  attn_error error = {};
  if (attn_cache_list(nullptr, printEntry, nullptr, &error) != ATTN_OK)
    throw Failure(error.text);
  return 0;
}

int clearCache() {
  attn_error error = {};
  size_t entries = 0;
  uint64_t bytes = 0;
  if (attn_cache_clear(nullptr, &entries, &bytes, &error) != ATTN_OK)
    throw Failure(error.text);
  fmt::print("removed {} {}, {} KiB\n", entries,
             entries == 1 ? "entry" : "entries", (bytes + 1023) / 1024);
  return 0;
}

} // namespace

Action addTargets(CLI::App &command) {
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "one list on standard output");
  return [json] { return listTargets(*json); };
}

Action addCache(CLI::App &command) {
  auto what = std::make_shared<std::string>("list");
  command.add_option("ACTION", *what, "list (default) or clear");
  return [what] {
    if (*what == "list")
      return listCache();
    if (*what == "clear")
      return clearCache();
    throw Failure(
        fmt::format("cache {}: 'list' or 'clear' is expected", *what));
  };
}

} // namespace attn

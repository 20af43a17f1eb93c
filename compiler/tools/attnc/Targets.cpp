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
#include <filesystem>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

namespace attn {
namespace {

using Json = nlohmann::ordered_json;

/// The file of conformance records: beside the folder of this program, in the
/// build tree as where it is installed.
std::filesystem::path recordFile() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return program.parent_path().parent_path() / "share/attnc/conformance.json";
}

struct Record {
  Json json; ///< null without a record
  std::string text = "no record of conformance";
};

std::string commitText(const Json &state) {
  return state.at("commit").get<std::string>().substr(0, 12) +
         (state.at("changed").get<bool>() ? " with changes" : "");
}

Record readRecord(const Json &json) {
  return {json,
          fmt::format("conformance passed since {}, last at {}: {} variants, "
                      "{} cases, seed {}, {}",
                      commitText(json.at("since")), commitText(json.at("last")),
                      json.at("variants").get<int64_t>(),
                      json.at("cases").get<int64_t>(),
                      json.at("seed").get<uint64_t>(),
                      json.at("through").get<std::string>())};
}

/// What is on record of each target, by name; empty without a file.
std::map<std::string, Record> readRecords() {
  std::map<std::string, Record> records;
  const std::filesystem::path file = recordFile();
  if (!std::filesystem::exists(file))
    return records;
  try {
    for (const Json &json : Json::parse(readFile(file)))
      records[json.at("target")] = readRecord(json);
  } catch (const Json::exception &error) {
    throw Failure(fmt::format("{}: not a list of conformance records: {}",
                              file.string(), error.what()));
  }
  return records;
}

int listTargets(bool json) {
  std::map<std::string, Record> records = readRecords();
  Json list = Json::array();
  for (const TargetState &state : targetStates()) {
    std::string missing;
    const std::string through =
        state.runsHere ? "native" : emulatorOf(state.name, missing);
    const Record &record = records[state.name];
    if (json) {
      Json entry;
      entry["name"] = state.name;
      entry["runs_here"] = state.runsHere;
      entry["through"] = through.empty() ? Json(nullptr) : Json(through);
      entry["features"] = state.features;
      entry["conformance"] = record.json;
      list.push_back(std::move(entry));
      continue;
    }
    std::string how = "runs here";
    if (!state.runsHere && !through.empty())
      how = fmt::format("is checked through {}: this machine lacks {}", through,
                        state.missing);
    else if (!state.runsHere)
      how = fmt::format("compiles only: this machine lacks {}; {}",
                        state.missing, missing);
    fmt::print("{:<14} {}; needs {}; {}\n", state.name, how, state.features,
               record.text);
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

//===- compiler/Planner.cpp - How a variant is cut into tiles -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Plan.h"
#include "runtime/attn_abi.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <numeric>

namespace attn {
namespace {

struct Field {
  const char *name;
  int64_t Plan::*member;
};
constexpr Field kFields[] = {
    {"rows", &Plan::rows},
    {"keys", &Plan::keys},
    {"heads", &Plan::heads},
    {"score_keys", &Plan::scoreKeys},
    {"score_vectors", &Plan::scoreVectors},
    {"value_rows", &Plan::valueRows},
    {"value_vectors", &Plan::valueVectors},
    {"unroll", &Plan::unroll},
    {"split", &Plan::split},
};

llvm::Error refuse(const llvm::Twine &text) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), text);
}

std::string format(const char *text, int64_t a, int64_t b = 0, int64_t c = 0) {
  return llvm::formatv(text, a, b, c).str();
}

int64_t largestGroupOf(const Problem &problem) {
  int64_t largest = 1;
  for (int64_t size : problem.groupSizes)
    largest = std::max(largest, size);
  return largest;
}

/// The heads of a group that share the rows of a tile.
void planHeads(PlanWithReasons &result, const Problem &problem) {
  Plan &plan = result.plan;
  const int64_t largest = largestGroupOf(problem);
  plan.heads = problem.readsHead ? 1 : largest;
  if (plan.heads > 1)
    result.reasons.push_back(
        format("{0} query heads share the rows of a tile: they read the "
               "same keys",
               plan.heads));
  else if (largest > 1)
    result.reasons.push_back(
        "the mask or the score reads the head: rows of different heads "
        "share no tile");
}

/// Tiles in fragments: the largest of which two fit the memory that the threads
/// of an item share, so that one item waits while another works; else the
/// largest that fits.
PlanWithReasons planFragments(const Problem &problem,
                              const TargetInfo &target) {
  PlanWithReasons result;
  Plan &plan = result.plan;
  const int64_t step = target.fragmentRows;
  plan.scoreKeys = 8, plan.scoreVectors = 1;
  plan.valueRows = step, plan.valueVectors = 1;
  plan.unroll = 1;
  planHeads(result, problem);
  const auto limit = static_cast<int64_t>(target.sharedBytes);
  auto choose = [&](int64_t most) {
    for (int64_t rows = 4 * step; rows >= step; rows /= 2)
      for (int64_t keys = 64; keys >= 16; keys /= 2) {
        // Rows read each key again: narrow tiles only where rows are few.
        if (keys < 32 && rows > step)
          continue;
        plan.rows = rows, plan.keys = keys;
        if (sharedTileBytes(plan, problem) <= most)
          return true;
      }
    return false;
  };
  const bool two = choose(limit / 2);
  if (!two)
    choose(limit);
  result.reasons.push_back(
      format("tiles of {0} rows by {1} keys take {2} bytes of shared memory, ",
             plan.rows, plan.keys, sharedTileBytes(plan, problem)) +
      format(two ? "so that two items fit the {0} bytes"
                 : "of the {0} bytes: two items do not fit",
             limit));
  // Eight tiles or more outweigh what an item loads and stores beside its keys.
  plan.split = 512;
  result.reasons.push_back(
      format("where the rows of a sequence are one tile, each {0} keys are an "
             "item: a few rows alone would leave the device idle",
             plan.split));
  return result;
}

llvm::Error need(const char *key, int64_t value, bool ok,
                 const llvm::Twine &allowed) {
  if (ok)
    return llvm::Error::success();
  return refuse(llvm::Twine("plan ") + key + " is " + llvm::Twine(value) +
                "; " + allowed + " is allowed");
}

llvm::Error checkHeads(const Plan &plan, const Problem &problem) {
  const int64_t heads = problem.readsHead ? 1 : largestGroupOf(problem);
  return need("heads", plan.heads, plan.heads == heads || plan.heads == 1,
              heads == 1 ? llvm::Twine("1") : "1 or " + llvm::Twine(heads));
}

llvm::Error checkFragments(const Plan &plan, const Problem &problem,
                           const TargetInfo &target) {
  const int64_t step = target.fragmentRows;
  auto power = [](int64_t n) { return n >= 1 && (n & (n - 1)) == 0; };
  if (auto e = need("rows", plan.rows,
                    plan.rows >= step && plan.rows <= 8 * step &&
                        plan.rows % step == 0 && power(plan.rows / step),
                    llvm::Twine(step) + " times 1, 2, 4 or 8"))
    return e;
  if (auto e = need("keys", plan.keys,
                    plan.keys >= 16 && plan.keys <= 128 && plan.keys % 16 == 0,
                    "a multiple of 16 up to 128"))
    return e;
  for (auto [key, value, only] : {std::tuple<const char *, int64_t, int64_t>{
                                      "score_keys", plan.scoreKeys, 8},
                                  {"score_vectors", plan.scoreVectors, 1},
                                  {"value_rows", plan.valueRows, step},
                                  {"value_vectors", plan.valueVectors, 1},
                                  {"unroll", plan.unroll, 1}})
    if (auto e = need(key, value, value == only, llvm::Twine(only)))
      return e;
  const int64_t bytes = sharedTileBytes(plan, problem);
  if (bytes > int64_t(target.sharedBytes))
    return refuse(llvm::Twine("tiles of ") + llvm::Twine(plan.rows) +
                  " rows by " + llvm::Twine(plan.keys) + " keys take " +
                  llvm::Twine(bytes) + " bytes of shared memory; " +
                  llvm::Twine(target.sharedBytes) + " are there");
  if (auto e = need("split", plan.split,
                    plan.split >= 0 && plan.split <= ATTN_MAX_TOKENS &&
                        plan.split % plan.keys == 0,
                    "0 or a multiple of " + llvm::Twine(plan.keys) + " up to " +
                        llvm::Twine(ATTN_MAX_TOKENS)))
    return e;
  return checkHeads(plan, problem);
}

} // namespace

int64_t sharedRowBytes(int64_t width, int64_t elementBytes) {
  const int64_t pieces =
      static_cast<int64_t>(llvm::alignTo(width, 16)) * elementBytes / 16;
  return (pieces % 8 == 0 ? pieces : pieces | 1) * 16;
}

int64_t sharedTileBytes(const Plan &plan, const Problem &problem) {
  const int64_t queries =
      plan.rows * sharedRowBytes(problem.qkDim, problem.qBytes);
  const int64_t steps =
      plan.keys * (sharedRowBytes(problem.qkDim, problem.kvBytes) +
                   sharedRowBytes(problem.valueDim, problem.kvBytes)) +
      plan.rows * sharedWeightBytes(plan.keys);
  const int64_t out =
      plan.rows * sharedRowBytes(problem.valueDim, problem.outBytes);
  // Positions of rows and keys that were picked, and the rest.
  const int64_t positions = 4 * (2 * plan.rows + plan.keys) + 256;
  return queries + std::max(steps, out) + positions;
}

PlanWithReasons makePlan(const Problem &problem, const TargetInfo &target) {
  if (target.fragmentRows)
    return planFragments(problem, target);
  PlanWithReasons result;
  Plan &plan = result.plan;
  auto because = [&](std::string reason) {
    result.reasons.push_back(std::move(reason));
  };

  // Register blocks. Accumulators wait some eight fused operations deep, the
  // rest holds the two streamed vectors and one broadcast.
  if (target.registers >= 32 && target.multipliesByElement) {
    plan.scoreKeys = 8, plan.scoreVectors = 2;
    plan.valueRows = 12, plan.valueVectors = 2;
    because(format("register blocks of 8 x 2 and 12 x 2: {0} registers hold "
                   "16 accumulators and a vector of each of 8 keys, whose "
                   "elements multiply as they lie, or 24 accumulators and the "
                   "weights of 12 rows",
                   target.registers));
  } else if (target.registers >= 32) {
    plan.scoreKeys = 24, plan.scoreVectors = 1;
    plan.valueRows = 24, plan.valueVectors = 1;
    because(format("register blocks of 24 x 1: {0} registers hold 24 "
                   "accumulators, and a broadcast operand is used once, so it "
                   "folds into the multiply-add",
                   target.registers));
  } else if (!target.fusedMultiplyAdd) {
    plan.scoreKeys = 4, plan.scoreVectors = 2;
    plan.valueRows = 4, plan.valueVectors = 2;
    because(format("register blocks of 4 x 2: 8 accumulators of {0} registers, "
                   "two streamed vectors, a broadcast, and products that are "
                   "not fused and take registers of their own",
                   target.registers));
  } else {
    plan.scoreKeys = 6, plan.scoreVectors = 2;
    plan.valueRows = 6, plan.valueVectors = 2;
    because(format("register blocks of 6 x 2: 12 accumulators of {0} "
                   "registers, two streamed vectors and one broadcast",
                   target.registers));
  }
  // Some 24 multiply-adds hide the counting of a loop.
  plan.unroll = std::max<int64_t>(24 / (plan.scoreKeys * plan.scoreVectors), 1);

  planHeads(result, problem);

  // Tiles. Every block of the accumulation loads and stores its accumulators
  // once a key tile, and every key is read once a tile of rows: larger is
  // better, as long as the weights and a panel of each operand stay close.
  const int64_t step =
      std::lcm<int64_t>(target.lanes * plan.scoreVectors, plan.valueRows);
  const int64_t largest = 96;
  plan.keys = largest / plan.scoreKeys * plan.scoreKeys;
  const int64_t widest = std::max(problem.qkDim, problem.valueDim);
  // A quarter of the second-level cache each for queries and accumulators.
  const int64_t fitting =
      static_cast<int64_t>(target.l2Bytes) / 4 / (4 * widest);
  plan.rows = std::max<int64_t>(std::min(fitting, largest) / step, 1) * step;
  because(format("tiles of {0} rows by {1} keys: rows of {2} elements take at "
                 "most a quarter of the second-level cache",
                 plan.rows, plan.keys, widest));
  return result;
}

llvm::Error overridePlan(PlanWithReasons &result, llvm::StringRef overrides) {
  while (!overrides.empty()) {
    auto [item, rest] = overrides.split(',');
    overrides = rest;
    llvm::StringRef key = item.split('=').first, text = item.split('=').second;
    const Field *field =
        llvm::find_if(kFields, [&](const Field &f) { return key == f.name; });
    if (field == std::end(kFields)) {
      std::string names;
      for (const Field &f : kFields)
        names += (names.empty() ? "" : ", ") + std::string(f.name);
      return refuse("plan has no '" + key + "'; allowed are " + names);
    }
    int64_t value;
    if (text.getAsInteger(10, value))
      return refuse("plan " + key + " is '" + text +
                    "'; a whole number is allowed");
    result.plan.*field->member = value;
    result.reasons.push_back((key + " = " + text + ": asked for").str());
  }
  return llvm::Error::success();
}

llvm::Error checkPlan(const Plan &plan, const Problem &problem,
                      const TargetInfo &target) {
  if (target.fragmentRows)
    return checkFragments(plan, problem, target);
  const int64_t lanes = target.lanes;
  auto blockFits = [&](int64_t rows, int64_t vectors) {
    return rows >= 1 && rows <= int64_t(target.registers) && vectors >= 1 &&
           rows * vectors + vectors <= int64_t(target.registers);
  };
  const int64_t panel = lanes * plan.scoreVectors;
  const char *fits = "what fits the registers with its vectors";
  if (auto e = need("score_vectors", plan.scoreVectors,
                    plan.scoreVectors >= 1 && plan.scoreVectors <= 4, "1 to 4"))
    return e;
  if (auto e = need("value_vectors", plan.valueVectors,
                    plan.valueVectors >= 1 && plan.valueVectors <= 4, "1 to 4"))
    return e;
  if (auto e = need("score_keys", plan.scoreKeys,
                    blockFits(plan.scoreKeys, plan.scoreVectors), fits))
    return e;
  if (auto e = need("value_rows", plan.valueRows,
                    blockFits(plan.valueRows, plan.valueVectors) &&
                        plan.valueRows % endBlock(plan.valueRows) == 0,
                    "up to 6 or a multiple of 6 that fits the registers"))
    return e;
  if (auto e =
          need("rows", plan.rows,
               plan.rows >= panel && plan.rows <= 512 &&
                   plan.rows % panel == 0 && plan.rows % plan.valueRows == 0,
               "a multiple of " + llvm::Twine(panel) + " and of " +
                   llvm::Twine(plan.valueRows) + " up to 512"))
    return e;
  if (auto e =
          need("keys", plan.keys,
               plan.keys >= plan.scoreKeys && plan.keys <= 512 &&
                   plan.keys % plan.scoreKeys == 0,
               "a multiple of " + llvm::Twine(plan.scoreKeys) + " up to 512"))
    return e;
  if (auto e = need("unroll", plan.unroll,
                    plan.unroll >= 1 && plan.unroll <= 64, "1 to 64"))
    return e;
  if (auto e = need("split", plan.split, plan.split == 0, "0"))
    return e;
  return checkHeads(plan, problem);
}

std::vector<std::pair<std::string, int64_t>> fields(const Plan &plan) {
  std::vector<std::pair<std::string, int64_t>> result;
  for (const Field &field : kFields)
    result.emplace_back(field.name, plan.*field.member);
  return result;
}

} // namespace attn

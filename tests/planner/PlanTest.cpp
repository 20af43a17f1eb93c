//===- tests/planner/PlanTest.cpp ----------------------------------------===//
//
// Part of attnc. Apache-2.0.
//
// Choices of the planner that have a name.
//
//===----------------------------------------------------------------------===//
#include "PlanSupport.h"

using namespace attn;
using namespace attn::test;

namespace {

TEST(Plan, HeadsOfAGroupShareATile) {
  EXPECT_EQ(makePlan(problem(64, 64), machine(8, 16)).plan.heads, 1);
  EXPECT_EQ(makePlan(problem(64, 64, {4, 4}), machine(8, 16)).plan.heads, 4);
  EXPECT_EQ(makePlan(problem(64, 64, {1, 7, 3}), machine(8, 16)).plan.heads, 7);
}

TEST(Plan, AMaskThatReadsTheHeadKeepsHeadsApart) {
  Problem p = problem(64, 64, {4, 4});
  p.readsHead = true;
  PlanWithReasons made = makePlan(p, machine(8, 16));
  EXPECT_EQ(made.plan.heads, 1);
  bool said = false;
  for (const std::string &reason : made.reasons)
    said |= reason.find("reads the head") != std::string::npos;
  EXPECT_TRUE(said);
}

TEST(Plan, RegisterBlocksLeaveRoomForWhatStreams) {
  for (unsigned registers : {16u, 32u})
    for (unsigned lanes : {4u, 8u, 16u})
      for (bool fused : {false, true}) {
        const Plan plan = makePlan(problem(128, 128),
                                   machine(lanes, registers, 1 << 20, fused))
                              .plan;
        // Accumulators and one vector of each streamed column.
        for (auto [rows, vectors] :
             {std::pair(plan.scoreKeys, plan.scoreVectors),
              std::pair(plan.valueRows, plan.valueVectors)}) {
          EXPECT_LE(rows * vectors + vectors, registers);
          // Enough of them to hide four cycles of latency on two units.
          EXPECT_GE(rows * vectors, 8);
        }
      }
}

// The vectors whose elements multiply are loaded for the whole block.
TEST(Plan, VectorsOfElementsTakeRegisters) {
  TargetInfo info = machine(4, 32);
  info.multipliesByElement = true;
  const Plan plan = makePlan(problem(64, 64), info).plan;
  EXPECT_LE((plan.scoreKeys + 1) * plan.scoreVectors + plan.scoreKeys, 32);
  EXPECT_LE((plan.valueRows + 1) * plan.valueVectors + (plan.valueRows + 3) / 4,
            32);
  EXPECT_GE(plan.scoreKeys * plan.scoreVectors, 16);
  EXPECT_GE(plan.valueRows * plan.valueVectors, 24);
}

// A product that isn't fused lives in a register of its own.
TEST(Plan, ProductsThatAreNotFusedTakeRegisters) {
  const Plan plan =
      makePlan(problem(64, 64), machine(4, 16, 512 << 10, false)).plan;
  EXPECT_LE(plan.scoreKeys * plan.scoreVectors + plan.scoreVectors + 2 * 2, 16);
  EXPECT_LE(plan.valueRows * plan.valueVectors + plan.valueVectors + 2 * 2, 16);
}

TEST(Plan, WideRowsMakeSmallTiles) {
  const TargetInfo info = machine(8, 16, 256 << 10);
  int64_t before = makePlan(problem(1, 1), info).plan.rows;
  for (int64_t width = 2; width <= 4096; width *= 2) {
    int64_t rows = makePlan(problem(width, width), info).plan.rows;
    EXPECT_LE(rows, before) << width;
    before = rows;
  }
  EXPECT_LT(before, makePlan(problem(64, 64), info).plan.rows);
}

TEST(Plan, LargerCachesNeverMakeSmallerTiles) {
  for (int64_t width : {64, 128, 256, 576}) {
    int64_t before = 0;
    for (uint64_t l2 = 16 << 10; l2 <= 8 << 20; l2 *= 2) {
      int64_t rows =
          makePlan(problem(width, width), machine(16, 32, l2)).plan.rows;
      EXPECT_GE(rows, before) << width << " with " << l2;
      before = rows;
    }
  }
}

// Only where tiles are in fragments, and never within a tile.
TEST(Plan, KeysAreSplit) {
  EXPECT_EQ(makePlan(problem(64, 64), machine(8, 16)).plan.split, 0);
  TargetInfo info = machine(1, 255);
  info.fragmentRows = 16;
  info.sharedBytes = 160 << 10;
  for (int64_t width : {16, 64, 128, 256, 512}) {
    PlanWithReasons made = makePlan(problem(width, width), info);
    EXPECT_EQ(made.plan.split, 512);
    EXPECT_EQ(made.plan.split % made.plan.keys, 0) << width;
    EXPECT_NE(made.reasons.back().find("each 512 keys are an item"),
              std::string::npos);
    EXPECT_EQ(words(checkPlan(made.plan, problem(width, width), info)), "");
  }
}

TEST(Plan, SplitsThatAreAllowed) {
  auto refusal = [](TargetInfo info, int64_t keys, int64_t split) {
    Plan plan = makePlan(problem(64, 64), info).plan;
    if (info.fragmentRows)
      plan.keys = keys;
    plan.split = split;
    return words(checkPlan(plan, problem(64, 64), info));
  };
  const TargetInfo loops = machine(8, 16);
  EXPECT_EQ(refusal(loops, 0, 96), "plan split is 96; 0 is allowed");
  EXPECT_EQ(refusal(loops, 0, -1), "plan split is -1; 0 is allowed");
  TargetInfo fragments = machine(1, 255);
  fragments.fragmentRows = 16;
  fragments.sharedBytes = 160 << 10;
  for (int64_t split : {0, 48, 96, 48 * 100})
    EXPECT_EQ(refusal(fragments, 48, split), "");
  EXPECT_EQ(refusal(fragments, 64, int64_t{1} << 30), "");
  const std::string allowed =
      "; 0 or a multiple of 48 up to 1073741824 is allowed";
  for (int64_t split :
       {int64_t{-48}, int64_t{1}, int64_t{64}, int64_t{512}, int64_t{48} << 30})
    EXPECT_EQ(refusal(fragments, 48, split),
              "plan split is " + std::to_string(split) + allowed);
}

TEST(Plan, PrintsEveryFieldOnce) {
  Plan plan;
  plan.rows = 1, plan.keys = 2, plan.heads = 3, plan.scoreKeys = 4;
  plan.scoreVectors = 5, plan.valueRows = 6, plan.valueVectors = 7;
  plan.unroll = 8, plan.split = 9;
  EXPECT_EQ(text(plan), "rows=1,keys=2,heads=3,score_keys=4,score_vectors=5,"
                        "value_rows=6,value_vectors=7,unroll=8,split=9");
}

} // namespace

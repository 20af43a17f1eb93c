//===- tests/planner/PlanPropertyTest.cpp --------------------------------===//
//
// Part of attnc. Apache-2.0.
//
// What holds for every plan, over random problems and machines.
//
//===----------------------------------------------------------------------===//
#include "PlanSupport.h"
#include <cstdlib>
#include <numeric>

using namespace attn;
using namespace attn::test;

namespace {

// Unless the environment says otherwise.
const int configured = setenv("RC_PARAMS", "max_success=3000", 0);

void property(const std::function<void()> &body) {
  EXPECT_TRUE(rc::check(body));
}

int64_t rowStep(const Plan &plan, const TargetInfo &info) {
  return std::lcm(int64_t(info.lanes) * plan.scoreVectors, plan.valueRows);
}

TEST(PlanProperty, EveryPlanMadeIsLegal) {
  property([] {
    Problem p = anyProblem();
    TargetInfo info = anyMachine();
    PlanWithReasons made = makePlan(p, info);
    RC_LOG() << text(made.plan) << "\n";
    RC_ASSERT(words(checkPlan(made.plan, p, info)) == "");
    RC_ASSERT(made.plan.rows % rowStep(made.plan, info) == 0);
    RC_ASSERT(made.plan.keys % made.plan.scoreKeys == 0);
    RC_ASSERT(made.plan.heads == (p.readsHead ? 1 : largestGroup(p)));
    RC_ASSERT(!made.reasons.empty());
    for (const std::string &reason : made.reasons)
      RC_ASSERT(!reason.empty() && reason.find('{') == std::string::npos);
  });
}

TEST(PlanProperty, TheSameInputGivesTheSamePlan) {
  property([] {
    const Problem p = anyProblem();
    const TargetInfo info = anyMachine();
    PlanWithReasons first = makePlan(p, info);
    // Something else in between leaves no trace.
    makePlan(anyProblem(), anyMachine());
    PlanWithReasons second = makePlan(p, info);
    RC_ASSERT(text(first.plan) == text(second.plan));
    RC_ASSERT(first.reasons == second.reasons);
    // A machine's name decides nothing.
    TargetInfo renamed = info;
    renamed.name = "another", renamed.features = "none";
    renamed.preference = info.preference + 1;
    RC_ASSERT(text(makePlan(p, renamed).plan) == text(first.plan));
  });
}

TEST(PlanProperty, QueriesAndAccumulatorsStayInTheSecondLevelCache) {
  property([] {
    Problem p = anyProblem(512);
    TargetInfo info = anyMachine(512 << 10);
    Plan plan = makePlan(p, info).plan;
    RC_LOG() << text(plan) << "\n";
    RC_ASSERT(uint64_t(plan.rows * (p.qkDim + p.valueDim) * 4) <= info.l2Bytes);
  });
}

TEST(PlanProperty, OnlyTheLeastTileOutgrowsItsShare) {
  property([] {
    Problem p = anyProblem();
    TargetInfo info = anyMachine();
    Plan plan = makePlan(p, info).plan;
    RC_LOG() << text(plan) << "\n";
    if (plan.rows > rowStep(plan, info))
      RC_ASSERT(uint64_t(plan.rows * (p.qkDim + p.valueDim) * 4) <=
                info.l2Bytes / 2);
  });
}

/// The rules of a legal plan, written down on their own.
bool legal(const Plan &p, const Problem &problem, const TargetInfo &info) {
  auto in = [](int64_t value, int64_t lo, int64_t hi) {
    return lo <= value && value <= hi;
  };
  auto block = [&](int64_t rows, int64_t vectors) {
    return in(vectors, 1, 4) && in(rows, 1, info.registers) &&
           (rows + 1) * vectors <= int64_t(info.registers);
  };
  return block(p.scoreKeys, p.scoreVectors) &&
         block(p.valueRows, p.valueVectors) &&
         (p.valueRows <= 6 || p.valueRows % 6 == 0) && in(p.rows, 1, 512) &&
         p.rows % (info.lanes * p.scoreVectors) == 0 &&
         p.rows % p.valueRows == 0 && in(p.keys, 1, 512) &&
         p.keys % p.scoreKeys == 0 && in(p.unroll, 1, 64) &&
         (p.heads == 1 ||
          (!problem.readsHead && p.heads == largestGroup(problem)));
}

TEST(PlanProperty, CheckAllowsExactlyTheLegal) {
  int legals = 0, illegals = 0;
  property([&] {
    Problem p = anyProblem();
    TargetInfo info = anyMachine();
    Plan plan = makePlan(p, info).plan;
    auto change = [](int64_t &field, int64_t lo, int64_t hi) {
      if (*rc::gen::inRange(0, 3) == 0)
        field = *rc::gen::inRange(lo, hi);
    };
    change(plan.scoreKeys, -1, 34);
    change(plan.scoreVectors, -1, 7);
    change(plan.valueRows, -1, 34);
    change(plan.valueVectors, -1, 7);
    change(plan.unroll, -1, 70);
    change(plan.heads, -1, 6);
    // Mostly multiples of something: others are refused at once.
    plan.rows = *rc::gen::inRange<int64_t>(0, 20) *
                *rc::gen::element<int64_t>(
                    rowStep(makePlan(p, info).plan, info), info.lanes, 7);
    plan.keys = *rc::gen::inRange<int64_t>(0, 25) *
                *rc::gen::element<int64_t>(
                    int64_t(std::max<int64_t>(plan.scoreKeys, 1)), 24);
    RC_LOG() << text(plan) << "\n";
    std::string error = words(checkPlan(plan, p, info));
    RC_ASSERT((error == "") == legal(plan, p, info));
    ++(error.empty() ? legals : illegals);
    if (error.empty())
      return;
    // It names one field, with the value that it has, and what is allowed.
    bool named = false;
    for (const auto &[key, value] : fields(plan))
      named |= error.find("plan " + key + " is " + std::to_string(value) +
                          "; ") == 0;
    RC_ASSERT(named);
    RC_ASSERT(error.find("allowed") != std::string::npos);
  });
  // Neither side goes untested.
  EXPECT_GT(legals, 100);
  EXPECT_GT(illegals, 100);
}

TEST(PlanProperty, AnyPlanCanBeAskedForByName) {
  property([] {
    Problem p = anyProblem();
    TargetInfo info = anyMachine();
    Plan wanted;
    for (int64_t Plan::*member :
         {&Plan::rows, &Plan::keys, &Plan::heads, &Plan::scoreKeys,
          &Plan::scoreVectors, &Plan::valueRows, &Plan::valueVectors,
          &Plan::unroll})
      wanted.*member = *rc::gen::arbitrary<int64_t>();
    PlanWithReasons made = makePlan(p, info);
    size_t reasons = made.reasons.size();
    RC_ASSERT(words(overridePlan(made, text(wanted))) == "");
    RC_ASSERT(text(made.plan) == text(wanted));
    RC_ASSERT(made.reasons.size() == reasons + fields(wanted).size());
  });
}

} // namespace

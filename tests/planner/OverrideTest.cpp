//===- tests/planner/OverrideTest.cpp ------------------------------------===//
//
// Part of attnc. Apache-2.0.
//
// Overrides by name, and what is refused in what words.
//
//===----------------------------------------------------------------------===//
#include "PlanSupport.h"

using namespace attn;
using namespace attn::test;

namespace {

struct Override : testing::Test {
  const Problem p = problem(64, 64, {4, 4});
  const TargetInfo info = machine(8, 16);
  PlanWithReasons made = makePlan(p, info);

  /// What is said of `overrides` in either step.
  std::string refusal(const std::string &overrides) {
    PlanWithReasons changed = made;
    std::string error = words(overridePlan(changed, overrides));
    return error.empty() ? words(checkPlan(changed.plan, p, info)) : error;
  }
};

TEST_F(Override, NothingChangesNothing) {
  PlanWithReasons changed = made;
  ASSERT_EQ(words(overridePlan(changed, "")), "");
  EXPECT_EQ(text(changed.plan), text(made.plan));
  EXPECT_EQ(changed.reasons, made.reasons);
}

TEST_F(Override, OneFieldAndItsReason) {
  PlanWithReasons changed = made;
  ASSERT_EQ(words(overridePlan(changed, "keys=48")), "");
  Plan expected = made.plan;
  expected.keys = 48;
  EXPECT_EQ(text(changed.plan), text(expected));
  ASSERT_EQ(changed.reasons.size(), made.reasons.size() + 1);
  EXPECT_EQ(changed.reasons.back(), "keys = 48: asked for");
}

TEST_F(Override, TheLastOfTwoCounts) {
  PlanWithReasons changed = made;
  ASSERT_EQ(words(overridePlan(changed, "keys=48,unroll=1,keys=24")), "");
  EXPECT_EQ(changed.plan.keys, 24);
  EXPECT_EQ(changed.plan.unroll, 1);
}

TEST_F(Override, UnknownKeys) {
  const std::string allowed =
      "'; allowed are rows, keys, heads, score_keys, score_vectors, "
      "value_rows, value_vectors, unroll, split";
  for (std::string key : {"columns", "Rows", "rows ", "scoreKeys", ""})
    EXPECT_EQ(refusal(key + "=48"), "plan has no '" + key + allowed);
  EXPECT_EQ(refusal("keys=48,,unroll=1"), "plan has no '" + allowed);
  EXPECT_EQ(refusal("keys=48,tiles=1"), "plan has no 'tiles" + allowed);
}

TEST_F(Override, ValuesThatAreNoNumbers) {
  for (std::string value : {"", "many", "4.5", "48 ", " 48", "0x30", "4=8",
                            "9223372036854775808", "1e2"})
    EXPECT_EQ(refusal("rows=" + value),
              "plan rows is '" + value + "'; a whole number is allowed");
  EXPECT_EQ(refusal("rows"), "plan rows is ''; a whole number is allowed");
}

struct Illegal {
  const char *overrides, *words;
};

TEST_F(Override, IllegalValuesNameWhatIsAllowed) {
  const Illegal cases[] = {
      {"rows=0", "plan rows is 0; a multiple of 16 and of 6 up to 512"},
      {"rows=-48", "plan rows is -48; a multiple of 16 and of 6 up to 512"},
      {"rows=64", "plan rows is 64; a multiple of 16 and of 6 up to 512"},
      {"rows=528", "plan rows is 528; a multiple of 16 and of 6 up to 512"},
      {"keys=0", "plan keys is 0; a multiple of 6 up to 512"},
      {"keys=95", "plan keys is 95; a multiple of 6 up to 512"},
      {"keys=516", "plan keys is 516; a multiple of 6 up to 512"},
      {"heads=0", "plan heads is 0; 1 or 4"},
      {"heads=2", "plan heads is 2; 1 or 4"},
      {"heads=8", "plan heads is 8; 1 or 4"},
      {"score_keys=0", "plan score_keys is 0; what fits the registers"},
      {"score_keys=8", "plan score_keys is 8; what fits the registers"},
      {"score_vectors=0", "plan score_vectors is 0; 1 to 4"},
      {"score_vectors=5", "plan score_vectors is 5; 1 to 4"},
      {"value_rows=0", "plan value_rows is 0; up to 6 or a multiple of 6"},
      {"value_rows=8,value_vectors=1",
       "plan value_rows is 8; up to 6 or a multiple of 6"},
      {"value_rows=18,value_vectors=1",
       "plan value_rows is 18; up to 6 or a multiple of 6"},
      {"value_vectors=0", "plan value_vectors is 0; 1 to 4"},
      {"unroll=0", "plan unroll is 0; 1 to 64"},
      {"unroll=65", "plan unroll is 65; 1 to 64"},
  };
  for (const Illegal &c : cases) {
    std::string said = refusal(c.overrides);
    EXPECT_EQ(said.find(c.words), 0u) << c.overrides << ": " << said;
    EXPECT_EQ(said.rfind(" is allowed"), said.size() - 11) << said;
  }
}

// Numbers so large that arithmetic on them could wrap around to small ones.
TEST_F(Override, HugeValuesAreRefusedByTheirOwnName) {
  auto refusedByName = [&](const std::string &key, const std::string &rest) {
    for (std::string huge :
         {"9223372036854775807", "-9223372036854775808", "4611686018427387904",
          "4611686018427387906", "4611686018427387908"}) {
      std::string said = refusal(key + "=" + huge + rest);
      EXPECT_EQ(said.find("plan " + key + " is " + huge + "; "), 0u)
          << key << "=" << huge << rest << ": " << said;
    }
  };
  for (const auto &[key, value] : fields(made.plan))
    refusedByName(key, "");
  refusedByName("score_keys", ",score_vectors=4");
  refusedByName("value_rows", ",value_vectors=4");
}

TEST_F(Override, LegalOnesPass) {
  for (const char *overrides :
       {"rows=48", "rows=480", "keys=6", "keys=510", "heads=1", "heads=4",
        "score_keys=4,keys=64", "score_vectors=1",
        "score_vectors=4,score_keys=3", "value_rows=3,value_vectors=4",
        "value_rows=12,value_vectors=1", "value_vectors=1", "unroll=1",
        "unroll=64"})
    EXPECT_EQ(refusal(overrides), "") << overrides;
}

TEST_F(Override, HeadsStayApartWhereTheMaskReadsThem) {
  Problem apart = p;
  apart.readsHead = true;
  PlanWithReasons changed = makePlan(apart, info);
  ASSERT_EQ(words(overridePlan(changed, "heads=4")), "");
  EXPECT_EQ(words(checkPlan(changed.plan, apart, info)),
            "plan heads is 4; 1 is allowed");
}

} // namespace

//===- tests/cuda/BarriersTest.cpp - Nothing waits in vain ----------------===//
//
// Part of attnc. Apache-2.0.
//
// Takes each barrier and each wait for copies out of a kernel's PTX, one at a
// time, and expects the interpreter to object: it sees what is missing, and the
// kernel has none that it could do without but those listed.
//
//===----------------------------------------------------------------------===//
#include "tests/cuda/CudaKernel.h"
#include "tests/support/Fill.h"
#include <limits>
#include <regex>
#include <sstream>

namespace attn::test {
namespace {

/// A kernel, and calls that together go through all of it. Of its waits: why
/// it has each of those that it could do without, and why no call gets to each
/// of those that none does.
struct Subject {
  std::string name;
  Spec spec;
  std::vector<Case> cases;
  std::vector<std::string> spare = {}, unreached = {};
  std::string plan = "split=0";
};

/// A key with a value that must not be multiplied where it does not count.
Case withInfinity(Case c, int64_t key) {
  c.values.v = [key](const Index &at) {
    return at[2] == key ? std::numeric_limits<float>::infinity()
                        : fillValue(7, uint64_t(at[2] * 512 + at[3]));
  };
  return c;
}

constexpr const char *kKept =
    "queries that stay in shared memory are first read in a step, which waits "
    "for all that was copied";
constexpr const char *kOut =
    "rows go out where the keys were, which nobody reads after the last step's "
    "barriers";
constexpr const char *kMerged =
    "rows that are put together from states go out where nothing was";
constexpr const char *kFirst = "nobody has read positions yet";
constexpr const char *kPicked =
    "picking has barriers after whatever read the keys before";
constexpr const char *kNoSkip = "the loop's bounds leave no tile to skip";

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  Spec causal = typed("f16", 1, 1, 64, "mask = causal");
  all.push_back({"causal",
                 causal,
                 {caseOf(causal, 1, 150, 210),
                  withInfinity(caseOf(causal, 1, 150, 210), 209)},
                 {kOut},
                 {kNoSkip}});
  Spec dense = typed("f32", 1, 1, 64);
  all.push_back({"dense_f32",
                 dense,
                 {caseOf(dense, 1, 70, 150)},
                 {kKept, kKept, kKept, kOut}});
  Spec wide = typed("bf16", 1, 1, 256);
  all.push_back(
      {"wide", wide, {caseOf(wide, 1, 70, 200)}, {kKept, kKept, kKept}});
  // Calls of few rows, whose keys are split, and of many.
  Spec grouped = typed("f16", 4, 1, 64);
  all.push_back({"grouped",
                 grouped,
                 {caseOf(grouped, 1, 1, 300), caseOf(grouped, 1, 20, 150)},
                 {kOut, kMerged},
                 {},
                 "split=128"});
  for (const char *type : {"f16", "f32"}) {
    Spec hole = typed(type, 1, 1, 64, "mask = causal && k != 70");
    const Case c = caseOf(hole, 1, 90, 200);
    Subject subject{
        fmt::format("hole_{}", type), hole, {c, withInfinity(c, 70)}};
    subject.spare = {kOut};
    if (hole.qType == Type::F32)
      subject.spare.insert(subject.spare.end(), 3, kKept);
    subject.unreached = {kNoSkip};
    all.push_back(std::move(subject));
  }
  for (const char *type : {"f16", "f32"}) {
    Spec globals =
        variant("t: tokens", 1, 1, 64,
                fmt::format("type = {} mask = window(9) || global(t)", type));
    // A tile of keys and a tile of the list within each other; and a list
    // with few that the window has.
    Case close = caseOf(globals, 1, 150, 300), apart = close;
    close.params = {argumentOf({1, 100}, [](int64_t n) { return n + 192; })};
    apart.params = {argumentOf({1, 100}, [](int64_t n) { return n * 3; })};
    Subject subject{fmt::format("globals_{}", type),
                    globals,
                    {close, apart, withInfinity(apart, 298)}};
    // Of items of all queries, and of those of listed ones.
    subject.spare = {kFirst, kPicked, kOut, kOut};
    if (globals.qType == Type::F32)
      subject.spare.insert(subject.spare.end(), 6, kKept);
    subject.unreached = {kNoSkip};
    all.push_back(std::move(subject));
  }
  // Tiles in the middle of the loop that nobody looks at.
  Spec documents = variant("doc: i32[batch, tokens]", 1, 1, 64,
                           "type = f16 mask = doc[b, q] == doc[b, k]");
  Case packed = caseOf(documents, 1, 400, 400);
  packed.params = {argumentOf({1, 400}, [](int64_t n) { return n / 100 % 2; })};
  all.push_back({"documents", documents, {packed, withInfinity(packed, 130)}});
  return all;
}

/// Lines that wait, in the text's order; counted from 0.
std::vector<size_t> waitsOf(const std::vector<std::string> &lines) {
  static const std::regex wait(
      R"(^\s*(@!?%\w+\s+)?(bar\.|barrier\.|cp\.async\.wait).*;)");
  std::vector<size_t> found;
  for (size_t n = 0; n < lines.size(); ++n)
    if (std::regex_search(lines[n], wait))
      found.push_back(n);
  return found;
}

std::vector<std::string> linesOf(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

class Barriers : public testing::TestWithParam<std::string> {
protected:
  /// What the interpreter says of a text, or nothing if no call goes wrong.
  static std::string objection(const std::vector<std::string> &lines,
                               const Subject &subject, const Code &code) {
    const ptx::Module module =
        ptx::Module::parse(fmt::format("{}\n", fmt::join(lines, "\n")));
    for (const Case &c : subject.cases) {
      Trial trial(c, code, Order::AllAtOnce);
      try {
        launchPtx(module, trial.job);
      } catch (const ptx::Error &error) {
        return error.what();
      }
    }
    return {};
  }
};

TEST_P(Barriers, EachIsMissedWhereItIsGone) {
  for (const Subject &subject : subjects()) {
    SCOPED_TRACE(subject.name);
    const Code code = objectFor(subject.spec, GetParam(), subject.plan);
    const auto lines = linesOf(code.descriptor()->device->text);
    ASSERT_EQ(objection(lines, subject, code), "");
    for (const Case &c : subject.cases)
      if (!c.values.v)
        launchesOf(c, code);
    const std::vector<size_t> waits = waitsOf(lines);
    // Queries, a step with its two tiles, and rows on their way out.
    EXPECT_GE(waits.size(), 6);
    std::vector<std::string> spare, unreached;
    for (size_t at : waits) {
      const std::string place = fmt::format("line {}: {}", at + 1, lines[at]);
      const auto with = [&](const std::string &instead) {
        std::vector<std::string> changed = lines;
        changed[at] = instead;
        return objection(changed, subject, code);
      };
      if (with("trap;").empty()) {
        unreached.push_back(place);
        continue;
      }
      if (with("").empty()) {
        spare.push_back(place);
        continue;
      }
      static const std::regex groups(R"((cp\.async\.wait_group\s+)(\d+))");
      std::smatch match;
      if (std::regex_search(lines[at], match, groups))
        EXPECT_NE(
            with(fmt::format("{}{};", match[1].str(), stoi(match[2]) + 1)), "")
            << "it may wait for less: " << place;
    }
    EXPECT_EQ(spare.size(), subject.spare.size())
        << "not missed:\n"
        << fmt::format("{}\nknown:\n{}", fmt::join(spare, "\n"),
                       fmt::join(subject.spare, "\n"));
    EXPECT_EQ(unreached.size(), subject.unreached.size())
        << "no call gets to:\n"
        << fmt::format("{}\nknown:\n{}", fmt::join(unreached, "\n"),
                       fmt::join(subject.unreached, "\n"));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Barriers, testing::ValuesIn(cudaTargets()),
                         suffix);

} // namespace
} // namespace attn::test

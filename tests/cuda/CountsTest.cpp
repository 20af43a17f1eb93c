//===- tests/cuda/CountsTest.cpp - What launches cost ---------------------===//
//
// Part of attnc. Apache-2.0.
//
// Counted by the interpreter over whole launches: bank conflicts, bytes of
// global memory, products, and the instructions of a step.
//
//===----------------------------------------------------------------------===//
#include "tests/cuda/CudaKernel.h"
#include <algorithm>
#include <cstdio>
#include <map>

namespace attn::test {
namespace {

int64_t up(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

/// How the kernels below are cut. The plan is said, so that the counts are
/// those of one plan whatever the planner comes to prefer.
constexpr int64_t kRows = 64, kKeys = 64, kWarps = kRows / 16;
constexpr const char *kPlan = "rows=64,keys=64,split=0";

class Counted : public testing::TestWithParam<std::string> {
protected:
  static Code planned(const Spec &spec) {
    return objectFor(spec, GetParam(), kPlan);
  }
};

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

TEST_P(Counted, MatricesAreLoadedWithoutBankConflicts) {
  std::vector<int64_t> widths = {1, 7, 17, 33, 67, 72, 100, 130, 250};
  for (int64_t width = 16; width <= 256; width += 16)
    widths.push_back(width);
  for (const char *type : {"f16", "bf16"})
    for (int64_t width : widths) {
      SCOPED_TRACE(fmt::format("{} {}", type, width));
      const Spec spec = typed(type, 1, 1, width);
      const ptx::Counts counts =
          countsOf(caseOf(spec, 1, 65, 100), objectFor(spec, GetParam()));
      EXPECT_GT(counts.mma, 0);
      EXPECT_EQ(counts.matrixConflicts, 0);
      if (width % 64 == 0)
        EXPECT_EQ(counts.asyncConflicts, 0);
    }
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

/// Bytes that the plan can't do without: rows of Q and O and their LSE once,
/// K and V once for each tile of rows.
double leastBytes(const Case &c) {
  const int64_t group = c.spec.heads / c.spec.kvHeads;
  const int64_t rows = c.qLen * c.spec.heads;
  const int64_t tiles = up(c.qLen * group, kRows) / kRows * c.spec.kvHeads;
  return double(c.batch * (rows * (2 * 2 * c.spec.qkDim + 4) +
                           tiles * c.kvLen * 2 * 2 * c.spec.qkDim));
}

TEST_P(Counted, GlobalMemoryIsReadAndWrittenOnce) {
  for (int64_t width : {64, 128})
    for (int64_t group : {1, 4}) {
      const Spec spec = typed("f16", group, 1, width);
      const Code code = planned(spec);
      for (int64_t length : {512, 777, 1024}) {
        const Case c = caseOf(spec, 1, 128, length);
        const ptx::Counts counts = countsOf(c, code);
        const double ratio =
            double(counts.globalReadSectors + counts.globalWrittenSectors) /
            leastBytes(c);
        std::printf("%s D=%ld heads=%ld kv=%ld: %.3f of the least bytes\n",
                    GetParam().c_str(), long(width), long(group), long(length),
                    ratio);
        EXPECT_LE(ratio, 1.1);
        EXPECT_GE(ratio, 1.0);
      }
    }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Of one step: both products, over columns and keys in sixteens.
uint64_t productsOfStep(int64_t qkDim, int64_t valueDim) {
  const int64_t blocks = kKeys / 16;
  return uint64_t(kWarps * blocks * 2 *
                  (up(qkDim, 16) / 16 + up(valueDim, 16) / 16));
}

TEST_P(Counted, ProductsAreThoseOfTheVisitedTiles) {
  for (auto [width, qLen, kvLen] :
       {std::tuple<int64_t, int64_t, int64_t>{64, 200, 300},
        {40, 64, 64},
        {128, 65, 129},
        {256, 30, 100}}) {
    // All tiles of keys for all tiles of rows.
    const Spec dense = typed("f16", 1, 1, width);
    const auto rowTiles = uint64_t(up(qLen, kRows) / kRows);
    const auto keyTiles = uint64_t(up(kvLen, kKeys) / kKeys);
    EXPECT_EQ(countsOf(caseOf(dense, 1, qLen, kvLen), planned(dense)).mma,
              rowTiles * keyTiles * productsOfStep(width, width));
    // Those up to a tile's last query; the last query is at the last key.
    const Spec causal = typed("f16", 1, 1, width, "mask = causal");
    uint64_t steps = 0;
    for (int64_t row = 0; row < qLen; row += kRows) {
      const int64_t last = std::min(row + kRows, qLen) - 1 + kvLen - qLen;
      steps += uint64_t(up(last + 1, kKeys) / kKeys);
    }
    EXPECT_EQ(countsOf(caseOf(causal, 1, qLen, kvLen), planned(causal)).mma,
              steps * productsOfStep(width, width));
    // Those that the window's 20 keys touch.
    const Spec window =
        typed("f16", 1, 1, width, "mask = causal && sliding(20)");
    steps = 0;
    for (int64_t row = 0; row < qLen; row += kRows) {
      const int64_t first = std::max<int64_t>(row + kvLen - qLen - 19, 0);
      const int64_t last = std::min(row + kRows, qLen) - 1 + kvLen - qLen;
      steps += uint64_t(last / kKeys - first / kKeys + 1);
    }
    EXPECT_EQ(countsOf(caseOf(window, 1, qLen, kvLen), planned(window)).mma,
              steps * productsOfStep(width, width));
  }
}

//===----------------------------------------------------------------------===//
// Instructions of a step
//===----------------------------------------------------------------------===//

/// Logits that never rise above the first, or do with each tile.
enum class Maximum : uint8_t { Stays, Rises };

/// What a warp does in one step of the dense loop: two launches differ by as
/// many steps, and by nothing else.
std::map<std::string, double> stepOf(const Spec &spec, const Code &code,
                                     Maximum maximum) {
  constexpr int64_t few = 2, many = 6;
  const auto counted = [&](int64_t steps) {
    Case c = caseOf(spec, 1, kRows, steps * kKeys);
    c.values.zeroQuery = maximum == Maximum::Stays;
    if (maximum == Maximum::Rises) {
      c.values.q = one;
      c.values.k = [](const Index &at) { return float(at[2] / kKeys) / 8; };
    }
    return countsOf(c, code);
  };
  const ptx::Counts less = counted(few), more = counted(many);
  std::map<std::string, double> step;
  for (const auto &[opcode, count] : more.byOpcode) {
    const auto before = less.byOpcode.find(opcode);
    const uint64_t fewer = before == less.byOpcode.end() ? 0 : before->second;
    if (count != fewer)
      step[opcode] = double(count - fewer) / double((many - few) * kWarps);
  }
  return step;
}

/// Groups of opcodes, by how they begin; the first that fits.
struct Kind {
  const char *name;
  std::vector<const char *> begins;
};
const std::vector<Kind> &kinds() {
  static const std::vector<Kind> all = {
      {"mma", {"mma."}},
      {"ldmatrix", {"ldmatrix."}},
      {"copies", {"cp.async", "bar."}},
      {"softmax",
       {"ex2.", "max.f32", "shfl.", "sub.rn.f32", "add.rn.f32", "mul.rn.f32",
        "fma.rn.f32", "setp.eq.f32", "setp.neu.f32", "setp.gt.f32",
        "setp.equ.f32", "setp.leu.f32", "setp.lt.f32", "setp.nan.f32",
        "selp.f32", "cvt.rn.f16x2", "cvt.rn.bf16x2"}},
      {"moves", {"mov.", "cvt."}},
      {"other", {""}},
  };
  return all;
}

const Kind &kindOf(const std::string &opcode) {
  return *std::find_if(kinds().begin(), kinds().end(), [&](const Kind &kind) {
    return std::any_of(
        kind.begins.begin(), kind.begins.end(),
        [&](const char *begin) { return opcode.rfind(begin, 0) == 0; });
  });
}

/// What the kinds were when these bounds were last drawn, by the width of
/// heads: with a maximum that stays, and how much more with one that rises.
struct Known {
  int64_t width;
  double ldmatrix, copies, softmax, moves, other, rising;
};
constexpr Known kKnown[] = {
    {64, 32, 14, 238, 11, 70, 66},
    {128, 64, 22, 238, 11, 78, 130},
};

TEST_P(Counted, InstructionsOfAStep) {
  for (const char *type : {"f16", "bf16"})
    for (const Known &known : kKnown) {
      const Spec spec = typed(type, 1, 1, known.width);
      const Code code = planned(spec);
      double totals[2] = {};
      std::map<std::string, double> sums[2];
      for (Maximum maximum : {Maximum::Stays, Maximum::Rises}) {
        const bool rises = maximum == Maximum::Rises;
        std::printf("%s %s D=%ld, a warp's step, the maximum %s:\n",
                    GetParam().c_str(), type, long(known.width),
                    rises ? "rises" : "stays");
        for (const auto &[opcode, count] : stepOf(spec, code, maximum)) {
          const Kind &kind = kindOf(opcode);
          sums[rises][kind.name] += count;
          totals[rises] += count;
          if (!rises)
            std::printf("  %-50s %8.2f  %s\n", opcode.c_str(), count,
                        kind.name);
        }
        std::printf("  %.1f in all", totals[rises]);
        for (const Kind &kind : kinds())
          std::printf(", %s %.1f", kind.name, sums[rises][kind.name]);
        std::printf("; mma is %.1f %% of what is not softmax\n",
                    100 * sums[rises]["mma"] /
                        (totals[rises] - sums[rises]["softmax"]));
        EXPECT_EQ(sums[rises]["mma"],
                  double(productsOfStep(known.width, known.width)) / kWarps);
      }
      EXPECT_EQ(sums[0]["ldmatrix"], known.ldmatrix);
      const double more = 1.05;
      EXPECT_LE(sums[0]["copies"], known.copies * more);
      EXPECT_LE(sums[0]["softmax"], known.softmax * more);
      EXPECT_LE(sums[0]["moves"], known.moves * more);
      EXPECT_LE(sums[0]["other"], known.other * more);
      EXPECT_LE(totals[1] - totals[0], known.rising * more);
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, Counted, testing::ValuesIn(cudaTargets()),
                         suffix);

} // namespace
} // namespace attn::test

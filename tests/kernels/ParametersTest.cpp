//===- tests/kernels/ParametersTest.cpp - Scores and masks by parameters --===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Parameters.h"
#include "tests/kernels/KernelTest.h"
#include "tests/support/Fill.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace attn::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Lengths = std::vector<std::pair<int64_t, int64_t>>;

class Parameters : public KernelTest {
protected:
  /// Row i of every head of entry b is the mean that `mean(b, i)` gives.
  template <typename Mean> void expectMeans(const Case &c, Mean &&mean) {
    std::unique_ptr<Trial> trial = run(c);
    trial->buffers.o.forEach([&](const Index &at) {
      ASSERT_NEAR(trial->buffers.o.get(at), mean(at[0], at[2]), 1e-4)
          << "entry " << at[0] << " row " << at[2] << "\n"
          << describe(c);
    });
  }

  /// All properties, on calls with random values of the parameters.
  void expectAll(const Spec &spec, int64_t batch, const Lengths &lengths) {
    Code code = compiled(spec);
    Properties kernel(*executor, code);
    uint64_t seed = 1;
    for (auto [qLen, kvLen] : lengths) {
      Case c = caseOf(spec, batch, qLen, kvLen);
      if (batch > 1) {
        c.qLens.assign(static_cast<size_t>(batch), qLen);
        c.kvLens.assign(static_cast<size_t>(batch), kvLen);
        c.qLens.front() = qLen / 2;
        c.kvLens.back() = kvLen - kvLen / 3;
      }
      Choices choices(seed);
      drawParameters(choices, c, code.descriptor());
      EXPECT_EQ(kernel.all(c, seed++), "") << describe(c);
    }
  }
};

double fillFrom(uint32_t seed, int64_t n) {
  return static_cast<double>(fillValue(seed, static_cast<uint64_t>(n)));
}

//===----------------------------------------------------------------------===//
// Numbers added to scores
//===----------------------------------------------------------------------===//

TEST_P(Parameters, BiasInFullAndEveryBroadcastOfIt) {
  for (const char *type : {"f32", "f16", "bf16"}) {
    Spec spec = variant(
        fmt::format("bias: {}[batch, heads, queries, keys]", type), 6, 2, 16,
        "scale = 1.0 mask = causal score = s + bias[b, h, q, k]");
    Properties kernel = kernelOf(spec);
    for (auto [qLen, kvLen] :
         {std::pair<int64_t, int64_t>{1, 100}, {70, 131}, {7, 40}}) {
      if (qLen == 70 && type != std::string("f32"))
        continue;
      for (int ones = 0; ones < 16; ++ones) {
        Case c = caseOf(spec, 2, qLen, kvLen);
        c.kvLens = {kvLen - 30, kvLen};
        std::vector<int64_t> shape = {2, 6, qLen, kvLen};
        for (size_t d = 0; d < 4; ++d)
          if (ones >> d & 1)
            shape[d] = 1;
        c.params = {
            argumentOf(shape, [](int64_t n) { return 4 * fillFrom(9, n); })};
        EXPECT_EQ(kernel.matchesOracle(c), "") << describe(c);
        // Given in full it is the same to the last bit.
        if (qLen == 7)
          EXPECT_EQ(kernel.sameInAnyLayout(c), "") << describe(c);
      }
    }
  }
}

TEST_P(Parameters, BiasOfAnyDimensionsAndIndices) {
  const std::pair<const char *, const char *> table[] = {
      {"x: f32[keys]", "s + x[k]"},
      {"x: f16[keys, queries]", "s + x[k, q]"},
      {"x: bf16[kv_heads, tokens]", "s + x[g, q] - x[g, k]"},
      {"x: bf16[heads, tokens]", "s + x[h, q] * x[h, k]"},
      {"x: f32[heads]", "s - x[h] * abs(q - k)"},
      {"x: f32[batch, 3, keys]", "s + x[b, k % 3, k - 2]"},
      {"x: f32[2, heads, 33]", "s + x[k > q ? 1 : 0, h, abs(k - q)]"},
      {"x: i32[batch, tokens], y: f32", "s + (x[b, k] > q ? y : -y)"},
      {"x: i32[heads], y: f16[7, keys]", "s + 0.125 * y[x[h], k]"},
      {"x: bool[queries, keys], y: f32[heads]", "x[q, k] ? s : y[h]"},
      {"x: f32[heads, queries], y: f32[heads, keys]",
       "s * x[h, q] + y[h, k] * 0.5"},
  };
  for (const auto &[declared, score] : table)
    // Every other one from the first key on.
    expectAll(variant(declared, 4, 2, 20,
                      fmt::format("score = {} mask = k <= q + 5 {}", score,
                                  (&declared - &table[0].first) % 4 == 0
                                      ? "align = top_left"
                                      : "")),
              2, {{40, 66}, {3, 99}, {33, 20}});
}

TEST_P(Parameters, HalfPrecisionIsReadExactly) {
  // One key, Q = 0: the LSE is the score. Every finite pattern, subnormal ones
  // scaled to whole numbers.
  struct {
    Type type;
    const char *name, *scale;
    double factor;
    uint32_t subnormals, infinity, sign;
  } const types[] = {
      {Type::F16, "f16", "16777216.0", 0x1p24, 1u << 10, 0x7c00, 0x8000},
      {Type::BF16, "bf16", "1.0e38 * 1.0e2", 1e40, 1u << 7, 0x7f80, 0x8000}};
  for (const auto &t : types) {
    Spec whole = variant(fmt::format("x: {}[queries]", t.name), 1, 1, 1,
                         "score = x[q] align = top_left");
    Spec scaled =
        variant(fmt::format("x: {}[queries]", t.name), 1, 1, 1,
                fmt::format("score = x[q] * {} align = top_left", t.scale));
    for (bool subnormal : {true, false}) {
      std::vector<double> values;
      for (uint32_t sign : {0u, t.sign})
        for (uint32_t bits = subnormal ? 0 : t.subnormals;
             bits < (subnormal ? t.subnormals : t.infinity); ++bits)
          values.push_back(static_cast<double>(decode(bits | sign, t.type)));
      const auto count = static_cast<int64_t>(values.size());
      Case c = caseOf(subnormal ? scaled : whole, 1, count, 1);
      c.values.zeroQuery = true;
      c.params = {argument({count}, values)};
      std::unique_ptr<Trial> trial = run(c);
      for (int64_t i = 0; i < count; ++i) {
        double want =
            values[static_cast<size_t>(i)] * (subnormal ? t.factor : 1);
        ASSERT_NEAR(trial->buffers.lse.get({0, 0, i, 0}), want,
                    4e-7 * std::fabs(want))
            << t.name << " " << values[static_cast<size_t>(i)];
        ASSERT_EQ(trial->buffers.o.bits({0, 0, i, 0}),
                  trial->buffers.v.bits({0, 0, 0, 0}));
      }
    }
  }
}

TEST_P(Parameters, ValuesWithoutAMiddle) {
  // Minus infinity takes a key away, in part of a row or all of it; NaN and
  // infinity spoil the rows that read them and no other.
  for (const char *type : {"f32", "f16", "bf16"})
    for (const char *score : {"s + x[q, k]", "softcap(s, 20.0) + x[q, k]"}) {
      if (type != std::string("f32") && score[1] != ' ')
        continue;
      Spec spec = variant(fmt::format("x: {}[queries, keys]", type), 2, 1, 8,
                          fmt::format("score = {} mask = k <= q + 8", score));
      Properties kernel = kernelOf(spec);
      constexpr int64_t length = 70;
      for (double value : {-kInfinity, kNan, kInfinity}) {
        Case c = caseOf(spec, 1, length, length);
        c.params = {argumentOf({length, length}, [&](int64_t n) {
          int64_t q = n / length, k = n % length;
          bool hit = q % 10 == 3 || (q % 10 == 5 && k % 3 == 0) ||
                     (q % 10 == 7 && k == q) || k == 64 || k > q + 8;
          return hit ? value : fillFrom(5, n);
        })};
        EXPECT_EQ(kernel.matchesOracle(c), "") << describe(c);
      }
    }
}

TEST_P(Parameters, MaximumOfNegativeNumbers) {
  // Scores of -200 - j and lower, some keys taken away by the mask, others by
  // minus infinity.
  Spec spec = variant("x: f32[keys], m: bool[keys]", 1, 1, 1,
                      "score = s + x[k] mask = m[k]");
  Properties kernel = kernelOf(spec);
  for (int64_t length : {1, 3, 5, 8, 13, 16, 17, 49, 97, 200})
    for (double lower : {200.0, 100000.0, 1e30}) {
      Case c = caseOf(spec, 1, 3, length);
      c.values.zeroQuery = true;
      c.params = {argumentOf({length},
                             [&](int64_t n) {
                               return n % 7 == 6   ? -kInfinity
                                      : n % 5 == 4 ? 100
                                                   : -lower - double(n);
                             }),
                  argumentOf({length}, [](int64_t n) { return n % 5 != 4; })};
      EXPECT_EQ(kernel.matchesOracle(c), "") << describe(c);
    }
}

TEST_P(Parameters, SlopesOfSomeHeads) {
  // The slopes of heads 4 to 9 of 12, for a process that holds those.
  const double root = std::sqrt(0.5);
  const std::vector<double> slopes = {1.0 / 32,  1.0 / 64, 1.0 / 128,
                                      1.0 / 256, root,     root / 2};
  for (const char *type : {"f32", "f16", "bf16"}) {
    Spec slice = variant(fmt::format("slope: {}[heads]", type), 6, 3, 16,
                         "mask = causal score = s - slope[h] * abs(q - k)");
    Properties kernel = kernelOf(slice);
    for (auto [qLen, kvLen] :
         {std::pair<int64_t, int64_t>{70, 90}, {1, 90}, {2, 2}}) {
      Case c = caseOf(slice, 2, qLen, kvLen);
      c.params = {argument({6}, slopes)};
      EXPECT_EQ(kernel.matchesOracle(c), "") << describe(c);
    }
  }
  // As computed for all of them.
  Spec whole = variant(12, 12, 16,
                       "mask = causal "
                       "score = s - alibi_slope(h) * abs(q - k)");
  Spec part = variant("slope: f32[heads]", 6, 6, 16,
                      "mask = causal score = s - slope[h] * abs(q - k)");
  std::unique_ptr<Trial> all = run(caseOf(whole, 1, 33, 50));
  Case c = caseOf(part, 1, 33, 50);
  const auto from = [&](const Tensor &tensor) {
    return [&tensor](const Index &at) {
      return tensor.get({at[0], at[1] + 4, at[2], at[3]});
    };
  };
  c.values.q = from(all->buffers.q);
  c.values.k = from(all->buffers.k);
  c.values.v = from(all->buffers.v);
  c.params = {argument({6}, slopes)};
  std::unique_ptr<Trial> own = run(c);
  own->buffers.o.forEach([&](const Index &at) {
    ASSERT_NEAR(own->buffers.o.get(at),
                all->buffers.o.get({at[0], at[1] + 4, at[2], at[3]}), 4e-6);
  });
}

TEST_P(Parameters, SoftcapIsAValueOfTheCall) {
  Case c = caseOf(variant("c: f32", 1, 1, 1,
                          "scale = 1.0 score = softcap(s, c) mask = causal"),
                  1, 2, 2);
  c.values.q = one;
  c.values.k = [](const Index &at) { return at[2] == 0 ? 0.0F : 0.5F; };
  c.values.v = [](const Index &at) { return at[2] == 0 ? 0.0F : 1000.0F; };
  c.params = {scalar(1)};
  std::unique_ptr<Trial> trial = run(c);
  EXPECT_EQ(trial->buffers.o.get({0, 0, 0, 0}), 0);
  EXPECT_NEAR(trial->buffers.o.get({0, 0, 1, 0}), 613.5163, 2e-4);
  EXPECT_NEAR(trial->buffers.lse.get({0, 0, 1, 0}), 0.9506656, 2e-7);

  // After minus infinity a cap gives a finite number: here it comes before.
  Spec capped =
      variant("c: f32[heads], x: f32[keys]", 4, 2, 64,
              "scale = 4.0 mask = causal score = softcap(s, c[h]) + x[k]");
  Properties kernel = kernelOf(capped);
  for (auto [qLen, kvLen] :
       {std::pair<int64_t, int64_t>{70, 70}, {1, 130}, {5, 33}}) {
    Case large = caseOf(capped, 1, qLen, kvLen);
    large.params = {argument({4}, {50, 1, 1e-30, 3e38}),
                    argumentOf({kvLen}, [](int64_t k) {
                      return k % 4 == 1 ? -kInfinity : 0.0;
                    })};
    EXPECT_EQ(kernel.matchesOracle(large), "") << describe(large);
    EXPECT_EQ(kernel.maskedKeysDoNotReach(large, 3, Poison::Nan, true, true),
              "");
  }
}

TEST_P(Parameters, ScaleIsAValueOfTheCall) {
  Spec spec =
      variant("n: i32", 4, 2, 24, "scale = 1.0 / sqrt(n) mask = causal");
  Properties kernel = kernelOf(spec);
  for (int64_t n : {1, 24, 64, 192, 576, 1000000})
    for (auto [qLen, kvLen] :
         {std::pair<int64_t, int64_t>{33, 65}, {1, 40}, {70, 70}}) {
      Case c = caseOf(spec, 1, qLen, kvLen);
      c.params = {scalar(static_cast<double>(n))};
      EXPECT_EQ(kernel.matchesOracle(c), "") << describe(c);
      EXPECT_EQ(kernel.sameInAnyOrder(c), "");
    }
}

//===----------------------------------------------------------------------===//
// Which keys
//===----------------------------------------------------------------------===//

TEST_P(Parameters, FlagsOfPairs) {
  for (const char *mask : {"m[b, h, q, k]", "!m[b, h, q, k] && causal"}) {
    Spec spec = variant("m: bool[batch, heads, queries, keys]", 4, 2, 8,
                        fmt::format("mask = {}", mask));
    Properties kernel = kernelOf(spec);
    const std::vector<double> bytes = {0, 1, 0, 2, 128, 255};
    for (auto [qLen, kvLen] :
         {std::pair<int64_t, int64_t>{70, 131}, {1, 100}, {9, 40}})
      for (int ones = 0; ones < 16; ++ones) {
        Case c = caseOf(spec, 2, qLen, kvLen);
        c.kvLens = {kvLen - 33, kvLen};
        std::vector<int64_t> shape = {2, 4, qLen, kvLen};
        for (size_t d = 0; d < 4; ++d)
          if (ones >> d & 1)
            shape[d] = 1;
        // A row without keys among the others, and stretches of keys without
        // rows.
        c.params = {argumentOf(shape, [&](int64_t n) {
          int64_t k = n % shape[3], q = n / shape[3] % shape[2];
          return q % 9 == 4 || k / 50 == 1
                     ? 0.0
                     : bytes[static_cast<size_t>(fillFrom(3, n) * 3 + 3)];
        })};
        c.params[0].otherType = (ones & 1) != 0;
        EXPECT_EQ(kernel.matchesOracle(c), "") << describe(c);
        if (qLen == 9)
          EXPECT_EQ(kernel.maskedKeysDoNotReach(c, 7, Poison::Nan, true, true),
                    "")
              << describe(c);
      }
  }
}

TEST_P(Parameters, FlagsOfPositions) {
  for (auto [declared, mask] :
       {std::pair<const char *, const char *>{"m: bool[batch, keys]",
                                              "causal && !m[b, k]"},
        {"m: bool[batch, tokens]", "m[b, q] && m[b, k]"},
        {"m: bool[queries]", "m[q] ? causal : window(3)"},
        {"m: bool[heads]", "m[h] || causal"},
        {"m: bool", "m == causal"},
        {"m: bool[4, 4]", "m[q % 4, k % 4]"}})
    expectAll(variant(declared, 4, 2, 8, fmt::format("mask = {}", mask)), 2,
              {{40, 66}, {3, 129}, {70, 33}});
}

TEST_P(Parameters, Prefixes) {
  // Row i sees the prefix, or what comes before it if that is more.
  const std::vector<double> prefixes = {0,  -5, 1,          40,
                                        69, 70, 2147483647, -2147483648.0};
  const auto batch = static_cast<int64_t>(prefixes.size());
  for (const char *mask :
       {"causal || prefix(n[b])", "k <= q || k < n[b]", "k < max(q + 1, n[b])"})
    for (auto [qLen, kvLen] :
         {std::pair<int64_t, int64_t>{70, 70}, {5, 70}, {1, 70}, {130, 130}}) {
      Case c = meanCase(
          variant("n: i32[batch]", 2, 1, 8, fmt::format("mask = {}", mask)),
          batch, qLen, kvLen);
      c.params = {argument({batch}, prefixes)};
      if (std::string(mask).find("max") != std::string::npos)
        for (double &n : c.params[0].value.values)
          n = std::clamp(n, -1e9, 1e9); // what is computed with is bounded
      expectMeans(c, [&, m = qLen, n = kvLen](int64_t b, int64_t i) {
        double seen = std::max(static_cast<double>(i + n - m + 1),
                               prefixes[static_cast<size_t>(b)]);
        return (std::min(seen, static_cast<double>(n)) - 1) / 2;
      });
    }
}

TEST_P(Parameters, PackedDocuments) {
  // Documents of these lengths, one after the other, called by any numbers.
  const std::vector<int64_t> lengths = {1, 63, 2, 64, 30, 200, 1, 39};
  constexpr int64_t total = 400;
  std::vector<int64_t> starts;
  std::vector<double> ascending, any;
  for (size_t n = 0; n < lengths.size(); ++n)
    for (int64_t i = 0; i < lengths[n]; ++i) {
      starts.push_back(static_cast<int64_t>(ascending.size()) - i);
      ascending.push_back(static_cast<double>(n));
      any.push_back(n % 3 == 0   ? 2147483647 - static_cast<double>(n)
                    : n % 3 == 1 ? -2147483648.0 + static_cast<double>(n)
                                 : static_cast<double>(n * 7 % 5) + 10);
    }
  ASSERT_EQ(ascending.size(), size_t{total});
  for (const std::vector<double> &numbers : {ascending, any})
    for (int64_t qLen : {total, int64_t{90}, int64_t{1}}) {
      Case c = meanCase(variant("doc: i32[batch, tokens]", 2, 1, 8,
                                "mask = causal && doc[b, q] == doc[b, k]"),
                        1, qLen, total);
      c.params = {argument({1, total}, numbers)};
      expectMeans(c, [&](int64_t, int64_t i) {
        int64_t q = i + total - qLen;
        return static_cast<double>(starts[static_cast<size_t>(q)] + q) / 2;
      });
    }
}

TEST_P(Parameters, DocumentsInAnyOrder) {
  for (const char *mask :
       {"doc[b, q] == doc[b, k]", "causal && doc[b, q] == doc[b, k]",
        "doc[b, q] == doc[b, k] && window(20)", "doc[b, q] >= doc[b, k]",
        "doc[b, q] != doc[b, k]", "doc[b, k] == 2 || doc[b, q] == doc[b, k]"})
    for (const char *align : {"", "align = top_left"}) {
      if (*align && mask[0] != 'd')
        continue;
      Spec spec = variant("doc: i32[batch, tokens]", 2, 1, 8,
                          fmt::format("mask = {} {}", mask, align));
      Properties kernel = kernelOf(spec);
      for (auto [qLen, kvLen] :
           {std::pair<int64_t, int64_t>{130, 130}, {7, 220}, {100, 40}})
        for (int order = 0; order < 4; ++order) {
          Case c = caseOf(spec, 2, qLen, kvLen);
          c.kvLens = {kvLen, kvLen / 2};
          int64_t positions = c.positions();
          c.params = {argumentOf({2, positions}, [&](int64_t n) -> double {
            int64_t p = n % positions;
            switch (order) {
            case 0: // blocks that come back
              return double(p / 40 % 3);
            case 1:
              return double(p * 7919 % 3);
            case 2: // descending
              return double((positions - p) / 25);
            default: // one for all
              return 2;
            }
          })};
          EXPECT_EQ(kernel.matchesOracle(c), "") << describe(c);
        }
    }
}

TEST_P(Parameters, WindowsAndDilationsOfTheCall) {
  Spec spec = variant("w: i32, d: i32", 2, 1, 8, "mask = window(w, w, d)");
  Properties kernel = kernelOf(spec);
  Spec plain = variant("w: i32", 2, 1, 8, "mask = window(w)");
  for (int64_t w : {0, 1, 3, 16, 64, -1, 500, 1 << 30})
    for (int64_t d : {1, 2, 3, 7, 100, 1 << 30})
      for (auto [qLen, kvLen] :
           {std::pair<int64_t, int64_t>{131, 131}, {3, 97}}) {
        Case c = caseOf(spec, 1, qLen, kvLen);
        c.params = {scalar(double(w)), scalar(double(d))};
        EXPECT_EQ(kernel.matchesOracle(c), "") << describe(c);
        if (d != 1)
          continue;
        // Steps of 1 are the plain window, to the last bit.
        Case same = caseOf(plain, 1, qLen, kvLen);
        same.params = {scalar(double(w))};
        EXPECT_EQ(run(c)->buffers.outputBits(),
                  run(same)->buffers.outputBits());
      }
}

TEST_P(Parameters, DilationWiderThanTheSequence) {
  // V_j = 2^j: the mean names the set of keys.
  struct {
    const char *mask;
    int64_t w, d, length;
    std::vector<double> want;
  } const table[] = {
      {"window(w, w, d)", 1, 3, 7, {4.5, 9, 18, 73.0 / 3, 9, 18, 36}},
      {"window(w, w, d)", 2, 4, 5, {8.5, 2, 4, 8, 8.5}},
      {"causal && window(w, w, d)",
       2,
       3,
       8,
       {1, 2, 4, 4.5, 9, 18, 73.0 / 3, 146.0 / 3}},
      {"window(w, w, d)", 3, 5, 1, {1}},
  };
  for (const auto &line : table) {
    Case c = meanCase(
        variant("w: i32, d: i32", 1, 1, 4, fmt::format("mask = {}", line.mask)),
        1, line.length, line.length);
    c.values.v = [](const Index &at) {
      return std::ldexp(1.0F, static_cast<int>(at[2]));
    };
    c.params = {scalar(double(line.w)), scalar(double(line.d))};
    for (Poison poison : {Poison::Nan, Poison::Infinity, Poison::Huge}) {
      c.poison = poison;
      expectMeans(c, [&](int64_t, int64_t i) {
        return line.want[static_cast<size_t>(i)];
      });
    }
  }
}

TEST_P(Parameters, SlidingCountsItself) {
  Spec spec = variant("w: i32[batch, heads]", 2, 1, 8,
                      "mask = causal && sliding(w[b, h])");
  for (int64_t w : {1, 3, 8, 9, 64, 65, 1 << 30})
    for (auto [qLen, kvLen] :
         {std::pair<int64_t, int64_t>{8, 8}, {130, 130}, {1, 8}, {1, 130}}) {
      Case c = meanCase(spec, 1, qLen, kvLen);
      c.params = {argument({1, 2}, {double(w), double(w)})};
      expectMeans(c, [&, m = qLen, n = kvLen](int64_t, int64_t i) {
        int64_t q = i + n - m;
        return static_cast<double>(std::max<int64_t>(0, q - w + 1) + q) / 2;
      });
    }
  // No keys: rows of zeros.
  for (int64_t w : {0, -4, -(1 << 30)}) {
    Case c = meanCase(spec, 1, 40, 70);
    c.params = {argument({1, 2}, {double(w), 2})};
    std::unique_ptr<Trial> trial = run(c);
    for (int64_t i = 0; i < 40; ++i) {
      EXPECT_EQ(trial->buffers.o.get({0, 0, i, 0}), 0);
      EXPECT_EQ(trial->buffers.lse.get({0, 0, i, 0}), -INFINITY);
      EXPECT_NEAR(trial->buffers.o.get({0, 1, i, 0}), double(i) + 29.5, 1e-4);
    }
  }
}

TEST_P(Parameters, NeighborhoodsOfTheCall) {
  for (const char *mask : {"neighborhood(n[h])", "neighborhood(n[h], 3)",
                           "neighborhood(n[h]) && causal"})
    for (const char *align : {"", "align = top_left"}) {
      Spec spec = variant("n: i32[heads]", 4, 2, 8,
                          fmt::format("mask = {} {}", mask, align));
      Properties kernel = kernelOf(spec);
      for (auto [qLen, kvLen] :
           {std::pair<int64_t, int64_t>{70, 70}, {1, 50}, {9, 131}, {50, 20}})
        for (const std::vector<double> &sizes :
             {std::vector<double>{1, 2, 3, 8}, {13, 33, 64, 200}}) {
          Case c = caseOf(spec, 1, qLen, kvLen);
          c.params = {argument({4}, sizes)};
          EXPECT_EQ(kernel.matchesOracle(c), "") << describe(c);
        }
    }
}

TEST_P(Parameters, GroupedHeadsKeepTheirRows) {
  // A ratio of 7: rows are told apart by position, not by number.
  for (int64_t qLen : {150, 3, 7, 1}) {
    Case c = meanCase(variant("n: i32, w: i32[batch]", 14, 2, 64,
                              "mask = k <= q + n && sliding(w[b])"),
                      1, qLen, 150);
    c.params = {scalar(0), argument({1}, {1000})};
    std::unique_ptr<Trial> trial = run(c);
    trial->buffers.o.forEach([&](const Index &at) {
      ASSERT_NEAR(trial->buffers.o.get(at), double(150 - qLen + at[2]) / 2,
                  1e-4);
      ASSERT_EQ(trial->buffers.o.bits(at),
                trial->buffers.o.bits({at[0], at[1] / 7 * 7, at[2], at[3]}));
    });
  }
}

TEST_P(Parameters, NothingIsReadPastTheEnds) {
  // Arrays end at inaccessible pages, and so do K and V.
  Spec spec = variant("x: f16[batch, heads, queries, keys], y: f32[tokens], "
                      "m: bool[keys], i: i32[batch, queries], t: tokens",
                      3, 1, 7,
                      "score = s + x[b, h, q, k] + y[k] "
                      "mask = (m[k] && k < i[b, q] + 4) || global(t)");
  Code code = compiled(spec);
  Properties kernel(*executor, code);
  uint64_t seed = 1;
  for (int64_t qLen : {1, 2, 3, 9, 17})
    for (int64_t kvLen : {1, 2, 5, 8, 17, 33}) {
      Case c = caseOf(spec, 2, qLen, kvLen);
      Choices choices(seed++);
      drawParameters(choices, c, code.descriptor());
      for (Placement placement : {Placement::End, Placement::Start}) {
        for (Argument &given : c.params) {
          given.layout = {};
          given.layout.placement = placement;
        }
        EXPECT_EQ(kernel.matchesOracle(c), "") << describe(c);
      }
    }
}

ATTN_FOR_EACH_TARGET(Parameters);

} // namespace
} // namespace attn::test

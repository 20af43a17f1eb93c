//===- tests/kernels/NumbersTest.cpp - Softmax at its extremes ------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/kernels/KernelTest.h"
#include <cmath>
#include <cstring>
#include <limits>

namespace attn::test {
namespace {

class Numbers : public KernelTest {};

/// Queries of 1, width 1, scale 1: the logits are the keys.
Case logits(const std::string &mask, int64_t qLen, std::vector<float> keys,
            std::vector<float> values) {
  Case c = caseOf(variant(1, 1, 1, "scale = 1.0 " + mask), 1, qLen,
                  static_cast<int64_t>(keys.size()));
  c.values.q = one;
  c.values.k = [keys](const Index &at) {
    return keys[static_cast<size_t>(at[2])];
  };
  c.values.v = [values](const Index &at) {
    return values[static_cast<size_t>(at[2])];
  };
  return c;
}

TEST_P(Numbers, RowsWithNothingToAttendTo) {
  for (bool lse : {true, false})
    for (auto [qLen, kvLen] : {std::pair<int64_t, int64_t>{6, 4},
                               {40, 3},
                               {70, 33},
                               {3, 0},
                               {17, 0},
                               {5, 1}}) {
      Case c = caseOf(variant(2, 2, 8, "mask = causal"), 1, qLen, kvLen);
      c.lse = lse;
      expectRight(c);
      // Every row empty, every row of a window past the last key.
      c.spec = variant(2, 1, 8, "mask = k < 0");
      expectRight(c);
      c.spec = variant(2, 1, 8, "mask = causal && sliding(2) align = top_left");
      expectRight(c);
      c.spec = variant(3, 1, 8, "mask = k > 1000000 || k == q + 1");
      expectRight(c);
    }
  Case padded =
      caseOf(variant(1, 1, 8, "mask = causal && sliding(2) align = top_left"),
             1, 10, 10);
  padded.kvLens = {3};
  std::unique_ptr<Trial> trial = run(padded);
  for (int64_t n = 0; n < 8; ++n)
    EXPECT_EQ(trial->buffers.o.bits({0, 0, 3, n}),
              trial->buffers.v.bits({0, 0, 2, n}));
}

TEST_P(Numbers, EmptyRowsBesideOthersInOneTile) {
  // A row in the middle, at the start and at the end of every tile.
  for (int64_t hole : {0, 1, 7, 15, 16, 31, 47, 63}) {
    Case c = caseOf(
        variant(1, 1, 16, fmt::format("mask = q % 64 != {} && causal", hole)),
        1, 130, 130);
    expectRight(c);
  }
}

TEST_P(Numbers, VeryNegativeLogits) {
  for (float lower : {0.0F, 900000.0F})
    for (int64_t length : {3, 17, 50, 97}) {
      std::vector<float> keys, values;
      for (int64_t j = 0; j < length; ++j) {
        keys.push_back(-100000.0F - lower - static_cast<float>(j));
        values.push_back(static_cast<float>(j % 5));
      }
      expectRight(logits("mask = causal", length, keys, values));
    }
}

TEST_P(Numbers, MaximumOfNegativeLogits) {
  for (int64_t length : {1, 3, 5, 8, 13, 16, 17, 31, 49, 64, 65}) {
    std::vector<float> keys, values;
    for (int64_t j = 0; j < length; ++j) {
      keys.push_back(-200.0F - static_cast<float>(j));
      values.push_back(static_cast<float>(j));
    }
    expectRight(logits("", 1, keys, values));
    // The mask hides larger ones.
    keys.push_back(100);
    values.push_back(1);
    expectRight(logits(fmt::format("mask = k < {}", length), 1, keys, values));
  }
}

TEST_P(Numbers, WeightsThatVanishAreZero) {
  // One logit of 0 among others far below it; a weight of 1e-38 times 3e38
  // would show.
  for (size_t length : {3, 17, 33, 64, 100})
    for (size_t top : {size_t{0}, length / 2, length - 1}) {
      for (float low : {-1000.0F, -3e38F, -104.0F, -200.0F}) {
        std::vector<float> keys(length, low), values(length, 3e38F);
        keys[top] = 0;
        values[top] = 0;
        if (length > 3)
          keys[(top + 1) % length] = -3e38F;
        Case c = logits("", 1, keys, values);
        EXPECT_EQ(run(c)->buffers.o.get({0, 0, 0, 0}), 0) << describe(c);
      }
    }
}

TEST_P(Numbers, ExponentialIsAccurateAndMonotonic) {
  // Two keys, logits x and 0 and values 1 and 0: O = e^x / (1 + e^x).
  float previous = -1;
  for (float x = -87.25F; x <= 0; x += 0.25F) {
    Case c = logits("", 1, {x, 0}, {1, 0});
    float got = run(c)->buffers.o.get({0, 0, 0, 0});
    double want = std::exp(static_cast<double>(x)) /
                  (1 + std::exp(static_cast<double>(x)));
    EXPECT_NEAR(got / want, 1, 2e-6) << "at " << x;
    EXPECT_GE(got, previous) << "at " << x;
    previous = got;
  }
}

TEST_P(Numbers, AllOnesStayOnes) {
  for (int64_t length :
       {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 256, 257, 300})
    for (int64_t qLen : {1, 5, 64}) {
      Case c = caseOf(variant(8, 2, 128, ""), 1, qLen, length);
      c.values.zeroQuery = true;
      c.values.v = one;
      std::unique_ptr<Trial> trial = run(c);
      trial->buffers.o.forEach([&](const Index &at) {
        ASSERT_NEAR(trial->buffers.o.get(at), 1, 1e-6) << describe(c);
      });
      if (length < 130)
        expectRight(caseOf(c.spec, 1, qLen, length));
    }
}

TEST_P(Numbers, OneKeyGivesItsValue) {
  for (auto [qk, value] : {std::pair<int64_t, int64_t>{24, 16},
                           {16, 24},
                           {192, 128},
                           {7, 5},
                           {1, 1},
                           {1, 33}}) {
    Spec spec = parseOne(fmt::format("attention test {{ heads = 3 kv_heads = 1 "
                                     "head_dim = {{ qk = {}, value = {} }} }}",
                                     qk, value));
    std::unique_ptr<Trial> trial = run(caseOf(spec, 2, 3, 1));
    trial->buffers.o.forEach([&](const Index &at) {
      ASSERT_EQ(trial->buffers.o.bits(at),
                trial->buffers.v.bits({at[0], 0, 0, at[3]}));
    });
    spec.mask = variant(1, 1, 1, "mask = causal").mask;
    expectRight(caseOf(spec, 1, 19, 19));
  }
}

TEST_P(Numbers, UnequalLogitsOfUnequalSizes) {
  for (const char *scale :
       {"1.0 / sqrt(192.0)", "0.0", "-0.3", "1.0", "1e-20", "2.0 * 0.1"}) {
    Case c =
        caseOf(variant(2, 1, 24, fmt::format("scale = {}", scale)), 1, 33, 65);
    expectRight(c);
  }
}

TEST_P(Numbers, LseJoinsHalves) {
  // Attention over the first and the last keys, joined by their LSE, is
  // attention over all.
  for (int64_t cut : {1, 16, 40, 63}) {
    constexpr int64_t length = 64, dim = 16;
    std::unique_ptr<Trial> parts[3];
    const std::string masks[] = {"", fmt::format("mask = k < {}", cut),
                                 fmt::format("mask = k >= {}", cut)};
    for (int n = 0; n < 3; ++n)
      parts[n] = run(caseOf(variant(1, 1, dim, masks[n]), 1, 5, length));
    for (int64_t i = 0; i < 5; ++i) {
      double lse[3];
      for (int n = 0; n < 3; ++n)
        lse[n] = parts[n]->buffers.lse.get({0, 0, i, 0});
      double first = std::exp(lse[1] - lse[0]),
             last = std::exp(lse[2] - lse[0]);
      EXPECT_NEAR(first + last, 1, 1e-5);
      for (int64_t c = 0; c < dim; ++c)
        EXPECT_NEAR(parts[0]->buffers.o.get({0, 0, i, c}),
                    first * parts[1]->buffers.o.get({0, 0, i, c}) +
                        last * parts[2]->buffers.o.get({0, 0, i, c}),
                    2e-5);
    }
  }
}

ATTN_FOR_EACH_TARGET(Numbers);

} // namespace
} // namespace attn::test

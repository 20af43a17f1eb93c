//===- tests/compiler/RangeAnalysisTest.cpp ------------------------------===//
//
// Part of attnc. Apache-2.0.
//
// Range analysis of masks with a name, and of what goes beyond it.
//
//===----------------------------------------------------------------------===//
#include "RangeSupport.h"
#include <chrono>

using namespace mlir;
using namespace attn;
using namespace attn::test;

namespace {

const Scalars kLong{0, 0, 0, 4096, 4096};

struct Named {
  const char *name;
  TreeRef mask;
  Rows rows;
  KeyRange hull, inner;
};

TEST(RangeAnalysis, KnownMasks) {
  TreeRef causal = le(k, q), sliding = lt(q - n(300), k);
  TreeRef half = le(-256 * n(1), k - q) && le(k - q, n(256));
  const Named cases[] = {
      {"causal", causal, {1000, 1047}, {0, 1048}, {0, 1001}},
      {"before the first key", causal, {-48, -1}, {0, 0}, {0, 0}},
      {"not causal", !causal, {1000, 1047}, {1001, 4096}, {1048, 4096}},
      {"sliding", causal && sliding, {1000, 1047}, {701, 1048}, {748, 1001}},
      {"wider than the window",
       causal && sliding,
       {1000, 1499},
       {701, 1500},
       {0, 0}},
      {"window", half, {1000, 1047}, {744, 1304}, {791, 1257}},
      {"window, beyond the end", half, {4300, 4400}, {4044, 4096}, {0, 0}},
      {"by abs",
       le(distance(q, k), n(256)),
       {1000, 1047},
       {744, 1304},
       {791, 1257}},
      {"by max",
       le(make(Node::Max, {k - q, n(7)}), n(9)),
       {10, 20},
       {0, 30},
       {0, 20}},
      {"sliding or prefix",
       (causal && sliding) || lt(k, n(16)),
       {1000, 1047},
       {0, 1048},
       {748, 1001}},
      {"not that",
       !((causal && sliding) || lt(k, n(16))),
       {1000, 1047},
       {16, 4096},
       {1048, 4096}},
      {"prefix rows",
       causal || lt(q, n(1016)),
       {1000, 1047},
       {0, 4096},
       {0, 1017}},
      {"prefix rows only",
       causal || lt(q, n(1016)),
       {900, 999},
       {0, 4096},
       {0, 4096}},
      {"late rows only",
       !causal || lt(n(800), q),
       {900, 999},
       {0, 4096},
       {0, 4096}},
      {"rows that see nothing",
       causal && lt(q, n(1016)),
       {1000, 1047},
       {0, 1016},
       {0, 0}},
      {"double speed", le(2 * k, q + n(3)), {100, 109}, {0, 57}, {0, 52}},
      {"far away", lt(n(-100), k - q), {1000, 1009}, {901, 4096}, {910, 4096}},
      {"diagonal", eq(k, q), {1000, 1009}, {1000, 1010}, {0, 0}},
      {"one row of it", eq(k, q), {1000, 1000}, {1000, 1001}, {1000, 1001}},
      {"all but the diagonal",
       !eq(k, q),
       {1000, 1009},
       {0, 4096},
       {1010, 4096}},
      {"chunks",
       eq(quotient(q, 128), quotient(k, 128)),
       {140, 200},
       {128, 256},
       {128, 256}},
      {"causal by block",
       le(quotient(k, 64), quotient(q, 64)),
       {100, 140},
       {0, 192},
       {0, 128}},
      {"rounded down",
       le(64 * quotient(k, 64), q),
       {100, 140},
       {0, 192},
       {0, 128}},
      {"dilated",
       half && eq(rem(k - q, 4), n(0)),
       {1000, 1047},
       {744, 1304},
       {0, 0}},
      {"dilation one",
       half && eq(rem(k - q, 1), n(0)),
       {1000, 1047},
       {744, 1304},
       {791, 1257}},
      {"from the end",
       lt(kvLen - n(10), k),
       {0, 9},
       {4087, 4096},
       {4087, 4096}},
      {"for another head",
       make(Node::PickBit, {eq(h, n(3)), causal, make(Node::True)}),
       {10, 19},
       {0, 4096},
       {0, 4096}},
      {"window by head",
       le(q - make(Node::Pick, {eq(h, n(3)), n(7), n(5)}), k),
       {10, 19},
       {5, 4096},
       {14, 4096}},
      {"never", lt(k, n(-3)), {0, 9}, {0, 0}, {0, 0}},
      {"contradiction", lt(k, q) && lt(q, k), {0, 9}, {0, 0}, {0, 0}},
      {"open",
       causal && make(Node::FloatLess, {k}, 8),
       {10, 19},
       {0, 20},
       {0, 0}},
      {"open or",
       causal || make(Node::FloatLess, {k}, 8),
       {10, 19},
       {0, 4096},
       {0, 11}},
      {"largest constant",
       lt(q - n(2147483647), k),
       {0, 9},
       {0, 4096},
       {0, 4096}},
      {"smallest constant", le(q - n(-2147483648), k), {0, 9}, {0, 0}, {0, 0}},
  };
  for (const Named &c : cases) {
    RangeAnalysis a = analyse(c.mask);
    KeyRange hull = a.hull(c.rows, kLong), inner = a.inner(c.rows, kLong);
    EXPECT_TRUE(same(hull, c.hull))
        << c.name << " hull " << hull.lo << ".." << hull.hi << "\n"
        << a.describe();
    EXPECT_TRUE(same(inner, c.inner))
        << c.name << " inner " << inner.lo << ".." << inner.hi << "\n"
        << a.describe();
  }
}

TEST(RangeAnalysis, GapInsideAHullIsSkippedByTile) {
  RangeAnalysis a = analyse((le(k, q) && lt(q - k, n(300))) || lt(k, n(16)));
  Rows rows{1000, 1047};
  EXPECT_EQ(a.classify(rows, {0, 16}, kLong), TileClass::Full);
  EXPECT_EQ(a.classify(rows, {0, 48}, kLong), TileClass::Partial);
  EXPECT_EQ(a.classify(rows, {48, 96}, kLong), TileClass::Skip);
  EXPECT_EQ(a.classify(rows, {653, 701}, kLong), TileClass::Skip);
  EXPECT_EQ(a.classify(rows, {654, 702}, kLong), TileClass::Partial);
  EXPECT_EQ(a.classify(rows, {748, 1001}, kLong), TileClass::Full);
  EXPECT_EQ(a.classify(rows, {1048, 1096}, kLong), TileClass::Skip);
  EXPECT_EQ(a.classify(rows, {4096, 5000}, kLong), TileClass::Skip);
}

TEST(RangeAnalysis, BlockPatternsAreDecidedByTile) {
  // Every other block of 64 keys.
  RangeAnalysis a = analyse(eq(rem(quotient(k, 64), 2), n(0)));
  EXPECT_EQ(a.classify({0, 47}, {0, 64}, kLong), TileClass::Full);
  EXPECT_EQ(a.classify({0, 47}, {64, 128}, kLong), TileClass::Skip);
  EXPECT_EQ(a.classify({0, 47}, {100, 140}, kLong), TileClass::Partial);
}

TEST(RangeAnalysis, TrivialMasks) {
  Region empty;
  RangeAnalysis all = RangeAnalysis::analyse(empty);
  EXPECT_TRUE(all.alwaysTrue() && !all.alwaysFalse() && all.exact());
  EXPECT_TRUE(analyse(le(k, q) || lt(q, k)).alwaysTrue());
  EXPECT_TRUE(analyse(le(n(0), k)).alwaysTrue());
  EXPECT_TRUE(analyse(lt(k, n(0))).alwaysFalse());
  EXPECT_TRUE(analyse(eq(2 * k - 2 * q, n(1))).alwaysFalse());
  Emitted e(all, {5, 9}, {0, 8}, kLong, false);
  EXPECT_TRUE(matchPattern(e.hull.first, m_Zero()));
  EXPECT_TRUE(isa<BlockArgument>(e.hull.second));
  EXPECT_TRUE(matchPattern(e.inner.first, m_Zero()));
  EXPECT_TRUE(isa<BlockArgument>(e.inner.second));
  EXPECT_TRUE(matchPattern(e.may, m_One()));
  EXPECT_TRUE(matchPattern(e.must, m_One()));
}

TEST(RangeAnalysis, OpenPartsAreNotTakenForEqual) {
  auto choice = [](TreeRef x) {
    return make(Node::Pick, {make(Node::FloatLess, {x}, 8), n(1), n(2)});
  };
  for (const TreeRef &mask :
       {eq(choice(k), choice(q)), le(choice(k), choice(q)),
        eq(rem(7 * choice(k), 5), rem(7 * choice(q), 5)),
        lt(7 * choice(k), n(14))}) {
    RangeAnalysis a = analyse(mask);
    EXPECT_FALSE(a.alwaysTrue() || a.alwaysFalse() || a.exact());
    EXPECT_EQ(a.classify({0, 9}, {0, 16}, kLong), TileClass::Partial);
  }
}

TEST(RangeAnalysis, WhatIsRead) {
  using Arg = RangeAnalysis::Arg;
  RangeAnalysis a = analyse(le(k, q) && lt(b, n(2)));
  for (Arg arg : {Arg::B, Arg::Q, Arg::K})
    EXPECT_TRUE(a.reads(arg));
  for (Arg arg : {Arg::H, Arg::G, Arg::QLen, Arg::KvLen})
    EXPECT_FALSE(a.reads(arg));
  // Through what is not understood, too; but not by what has no effect.
  EXPECT_TRUE(analyse(make(Node::FloatLess, {h}, 3)).reads(Arg::H));
  OpBuilder builder(&context());
  MaskRegion mask(context(), le(k, q));
  builder.setInsertionPointToStart(&mask.region().front());
  Value unused = mask.region().getArgument(1);
  arith::AddIOp::create(builder, builder.getUnknownLoc(), unused, unused);
  EXPECT_FALSE(RangeAnalysis::analyse(mask.region()).reads(Arg::H));
}

TEST(RangeAnalysis, CodeIsSmall) {
  struct {
    const char *name;
    TreeRef mask;
    size_t hull, inner, may, must;
  } const cases[] = {
      {"causal", le(k, q), 4, 4, 1, 3},
      {"sliding", le(k, q) && lt(q - n(300), k), 6, 6, 5, 7},
      {"sliding or prefix", (le(k, q) && lt(q - n(300), k)) || lt(k, n(16)), 19,
       23, 7, 10},
      {"dilated", le(distance(q, k), n(256)) && eq(rem(k - q, 4), n(0)), 6, 6,
       30, 32},
  };
  for (auto &c : cases) {
    Emitted e(analyse(c.mask), {1000, 1047}, {748, 796}, kLong, false);
    size_t hull = cost({e.hull.first, e.hull.second});
    size_t inner = cost({e.inner.first, e.inner.second});
    std::printf("%s: hull %zu, inner %zu, may %zu, must %zu operations\n",
                c.name, hull, inner, cost(e.may), cost(e.must));
    EXPECT_LE(hull, c.hull) << c.name;
    EXPECT_LE(inner, c.inner) << c.name;
    EXPECT_LE(cost(e.may), c.may) << c.name;
    EXPECT_LE(cost(e.must), c.must) << c.name;
  }
}

TEST(RangeAnalysis, NothingWrapsAtTheLargestSizes) {
  constexpr int64_t most = 2147483647;
  TreeRef large = n(most);
  const TreeRef masks[] = {
      le(q + 200000000 * kvLen, n(0)) && le(k, 200000000 * q),
      le(n(0), q - 200000000 * kvLen) && le(200000000 * q, k),
      le(most * k, q) || le(most * q, most * kvLen),
      le(most * (k + q) - most * kvLen, n(7)),
      lt(q - large, k) && le(k, q + large),
      eq(rem(k - q, most), n(1)) || le(quotient(q, most), k - large),
      le(distance(most * k, most * q), large),
  };
  for (const TreeRef &mask : masks)
    for (int64_t at : {-most, -most / 2, int64_t(0), most / 2, most - 9})
      for (int64_t key : {int64_t(0), most / 2, most - 9}) {
        Scalars s{most, most, most, most, most};
        Rows rows{at, at + 8};
        KeyRange tile{key, key + 8};
        RangeAnalysis a = analyse(mask);
        Emitted e(a, rows, tile, s, false);
        KeyRange hull = a.hull(rows, s), inner = a.inner(rows, s);
        TileClass c = a.classify(rows, tile, s);
        EXPECT_EQ(e[e.hull.first], hull.lo);
        EXPECT_EQ(e[e.hull.second], hull.hi);
        EXPECT_EQ(e[e.inner.first], inner.lo);
        EXPECT_EQ(e[e.inner.second], inner.hi);
        EXPECT_EQ(e[e.may] != 0, c != TileClass::Skip);
        for (int64_t y = at; y <= at + 8; y += 4)
          for (int64_t x = key; x < key + 8; ++x) {
            bool allowed =
                evaluate(mask, {s.b, s.h, s.g, y, x, s.qLen, s.kvLen}) != 0;
            EXPECT_TRUE(c == TileClass::Partial ||
                        allowed == (c == TileClass::Full))
                << print(mask) << " at " << y << ", " << x;
            EXPECT_TRUE(!allowed || (hull.lo <= x && x < hull.hi));
            EXPECT_TRUE(allowed || x < inner.lo || x >= inner.hi);
          }
      }
}

TEST(RangeAnalysis, HugeMasksAreGivenUpQuickly) {
  auto start = std::chrono::steady_clock::now();
  // Nested deeply: one alternative more at each level.
  TreeRef nested = k;
  TreeRef chain = le(k, q);
  TreeRef parity = le(k, n(5));
  for (int i = 0; i < 300; ++i) {
    nested = make(Node::Max, {n(i) - nested, q});
    chain = i % 2 ? chain && le(n(i), k + i * q) : chain || le(i * k, q);
    parity = make(Node::Xor, {parity, le(n(i), k)});
  }
  Rows rows{10, 20};
  for (const TreeRef &mask : {le(nested, n(3)), chain, parity}) {
    RangeAnalysis a = analyse(mask);
    Brute brute(mask, rows, {0, 0, 0, 32, 32});
    for (int64_t x = 0; x < 32; x += 4) {
      TileClass c = a.classify(rows, {x, x + 4}, {0, 0, 0, 32, 32});
      if (c != TileClass::Partial)
        EXPECT_EQ(c, brute.classify({x, x + 4}));
    }
    Emitted e(a, rows, {0, 4}, {0, 0, 0, 32, 32}, false);
    EXPECT_LT(cost({e.hull.first, e.hull.second}), 1500u);
    EXPECT_LT(cost(e.may), 1500u);
  }
  auto spent = std::chrono::steady_clock::now() - start;
  EXPECT_LT(std::chrono::duration<double>(spent).count(), 5.0);
}

TEST(RangeAnalysis, SaysWhatItDecidedAndWhatNot) {
  RangeAnalysis a =
      analyse(le(k, q) && le(q - n(299), k) && make(Node::FloatLess, {k}, 8));
  EXPECT_EQ(a.describe(), "keys visited\n"
                          "  all of\n"
                          "    k <= q  (where the keys end)\n"
                          "    k >= q - 299  (where the keys begin)\n"
                          "left open: arith.cmpf\n");
  EXPECT_FALSE(a.exact());
}

} // namespace

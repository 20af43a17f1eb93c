//===- tests/compiler/LoadsPropertyTest.cpp -------------------------------===//
//
// Part of attnc. Apache-2.0.
//
// Range analysis of masks that ask what parameters hold, against brute force
// over all pairs.
//
//===----------------------------------------------------------------------===//
#include "RangeSupport.h"
#include <random>
#include <rapidcheck.h>

using namespace mlir;
using namespace attn;
using namespace attn::test;

namespace {

// The tables of random masks, by number.
enum : int64_t {
  kScalar,
  kByHead,
  kByEntry,
  kByEntryAndToken,
  kSmall,
  kPairs,
  kByKey,
  kList,
};

struct Case {
  Rows rows;
  Scalars s;
  int64_t tileWidth;
  Tables tables;
};

Table table(std::mt19937 &random, bool isBool, std::vector<int64_t> shape,
            unsigned kind) {
  Table result{isBool, std::move(shape), {}};
  int64_t count = 1, row = 1;
  for (int64_t extent : result.shape)
    count *= row = extent;
  auto below = [&](unsigned n) { return int64_t(random() % n); };
  int64_t last = 0;
  for (int64_t n = 0; n < count; ++n) {
    if (isBool) {
      // Mostly false, mostly true, or in long runs.
      last = kind == 0       ? below(8) == 0
             : kind == 1     ? below(8) != 0
             : below(9) == 0 ? 1 - last
                             : last;
    } else if (kind < 2) {
      // Ascending along each row, as numbers of documents often are.
      last = n % row == 0 ? below(3) : last + (below(5) == 0) * (1 + below(3));
    } else if (kind == 2) {
      last = below(24) - 8;
    } else {
      static const int64_t extremes[] = {INT32_MIN, INT32_MAX, 1 << 30, 0, 7};
      last = extremes[below(5)];
    }
    result.values.push_back(last);
  }
  return result;
}

Case randomCase(Tape &tape) {
  Case c;
  c.rows.qMin = tape.between(-9, 26);
  c.rows.qMax = c.rows.qMin + tape.draw(7);
  c.s = {tape.between(0, 3), tape.between(0, 5), tape.between(0, 2),
         tape.between(0, 26), tape.between(0, 26)};
  c.tileWidth = tape.between(1, 7);
  std::mt19937 random(tape.draw(5040));
  const std::pair<bool, std::vector<int64_t>> shapes[] = {
      {false, {}},     {false, {6}},     {false, {4}}, {false, {4, 30}},
      {false, {3, 5}}, {false, {9, 30}}, {true, {30}}, {true, {4, 40}}};
  for (const auto &[isBool, shape] : shapes)
    c.tables.push_back(table(random, isBool, shape, tape.draw(4)));
  return c;
}

using Numbers = std::vector<unsigned>;
rc::Gen<Numbers> tapes() {
  return rc::gen::container<Numbers>(rc::gen::inRange(0u, 5040u));
}

void log(const TreeRef &mask, const Case &c, const RangeAnalysis &a) {
  RC_LOG() << print(mask) << "\nrows " << c.rows.qMin << ".." << c.rows.qMax
           << " kvLen " << c.s.kvLen << " qLen " << c.s.qLen << " b " << c.s.b
           << " h " << c.s.h << " g " << c.s.g << " tile " << c.tileWidth
           << "\n"
           << a.describe();
  for (const Table &t : c.tables) {
    for (int64_t value : t.values)
      RC_LOG() << value << " ";
    RC_LOG() << "\n";
  }
}

/// The scalars with what an item's rows, or a tile's keys as well, leave open
/// of the loads.
Scalars known(const RangeAnalysis &a, const Case &c, const ParamReader &reader,
              std::optional<KeyRange> tile = {}) {
  Scalars s = c.s;
  s.loads = a.loads(c.rows, {}, s, reader);
  if (tile)
    s.loads = a.loads(c.rows, tile, s, reader);
  return s;
}

bool isWithin(const LoadRanges &inner, const LoadRanges &outer) {
  if (inner.size() != outer.size())
    return false;
  for (auto [i, o] : llvm::zip(inner, outer))
    if (o && (!i || i->first < o->first || i->second > o->second))
      return false;
  return true;
}

/// Numbers and IR agree; with blocks, what is known is less.
void checkEmitted(const RangeAnalysis &a, const Case &c, KeyRange tile,
                  const Brute &brute) {
  TableReader reader(c.tables);
  for (int64_t blockSize : {1, 4}) {
    Emitted e(a, c.rows, tile, c.s, false, c.tables, blockSize);
    Scalars item = c.s, inTile = c.s;
    item.loads = e.numbers(e.itemLoads);
    inTile.loads = e.numbers(e.tileLoads);
    RC_ASSERT(isWithin(known(a, c, reader).loads, item.loads));
    RC_ASSERT(isWithin(known(a, c, reader, tile).loads, inTile.loads));
    if (blockSize == 1 || !e.hasBlocks) {
      RC_ASSERT(item.loads == known(a, c, reader).loads);
      RC_ASSERT(inTile.loads == known(a, c, reader, tile).loads);
    }
    KeyRange hull = a.hull(c.rows, item), inner = a.inner(c.rows, item);
    KeyRange within = a.hullWithin(c.rows, tile, inTile);
    TileClass kind = a.classify(c.rows, tile, inTile);
    RC_ASSERT(e[e.hull.first] == hull.lo);
    RC_ASSERT(e[e.hull.second] == hull.hi);
    RC_ASSERT(e[e.inner.first] == inner.lo);
    RC_ASSERT(e[e.inner.second] == inner.hi);
    RC_ASSERT(e[e.within.first] == within.lo);
    RC_ASSERT(e[e.within.second] == within.hi);
    RC_ASSERT((e[e.may] != 0) == (kind != TileClass::Skip));
    RC_ASSERT(e[e.may] == e[e.mayOfFlat]);
    if (kind != TileClass::Skip)
      RC_ASSERT((e[e.must] != 0) == (kind == TileClass::Full));
    if (kind != TileClass::Partial)
      RC_ASSERT(kind == brute.classify(tile));
  }
}

void checkSound(const TreeRef &mask, const Case &c, unsigned open) {
  RangeAnalysis a = analyse(mask);
  log(mask, c, a);
  Brute brute(mask, c.rows, c.s, c.tables);
  TableReader reader(c.tables, open);
  Scalars s = known(a, c, reader);
  KeyRange hull = a.hull(c.rows, s), inner = a.inner(c.rows, s);
  for (KeyRange r : {hull, inner})
    RC_ASSERT(0 <= r.lo && r.lo <= r.hi && r.hi <= c.s.kvLen);
  for (int64_t x = 0; x < c.s.kvLen; ++x) {
    if (brute.any(x))
      RC_ASSERT(hull.lo <= x && x < hull.hi);
    if (inner.lo <= x && x < inner.hi)
      RC_ASSERT(brute.all(x));
    RC_ASSERT(!a.alwaysTrue() || brute.all(x));
    RC_ASSERT(!a.alwaysFalse() || !brute.any(x));
  }
  for (int64_t x = 0; x < c.s.kvLen; x += c.tileWidth) {
    KeyRange tile{x, std::min(x + c.tileWidth, c.s.kvLen)};
    Scalars t = known(a, c, reader, tile);
    TileClass got = a.classify(c.rows, tile, t);
    if (got != TileClass::Partial)
      RC_ASSERT(got == brute.classify(tile));
    KeyRange within = a.hullWithin(c.rows, tile, t);
    RC_ASSERT(tile.lo <= within.lo && within.lo <= within.hi &&
              within.hi <= tile.hi);
    for (int64_t key = tile.lo; key < tile.hi; ++key)
      RC_ASSERT(!brute.any(key) || (within.lo <= key && key < within.hi));
    if (open == 0)
      checkEmitted(a, c, tile, brute);
  }
}

TEST(RangeLoads, NeverSkipOrFillWrongly) {
  EXPECT_TRUE(rc::check("any mask of any values", [] {
    Numbers numbers = *tapes();
    Tape tape(numbers);
    Case c = randomCase(tape);
    // Some values may not be known, for people who ask before a call.
    unsigned open = tape.draw(4) == 3 ? tape.draw(256) : 0;
    TreeRef mask = randomCondition(tape, 3, true, &c.tables);
    try {
      checkSound(mask, c, open);
    } catch (TooLarge) {
      RC_DISCARD("beyond the oracle");
    }
  }));
}

/// How many tiles are left to the masked loop without need. A fixed seed: the
/// figures are printed and bounded.
TEST(RangeLoads, FewTilesStayUndecided) {
  std::mt19937 random(20240301); // NOLINT(bugprone-random-generator-seed)
  size_t uniform = 0, undecided = 0, asked = 0;
  for (int i = 0; i < 4000; ++i) {
    Numbers numbers(160);
    for (unsigned &x : numbers)
      x = random() % 5040;
    Tape tape(numbers);
    Case c = randomCase(tape);
    TreeRef mask = randomCondition(tape, 2, false, &c.tables);
    try {
      Brute brute(mask, c.rows, c.s, c.tables);
      RangeAnalysis a = analyse(mask);
      TableReader reader(c.tables);
      asked += !known(a, c, reader).loads.empty();
      for (int64_t x = 0; x < c.s.kvLen; x += c.tileWidth) {
        KeyRange tile{x, x + c.tileWidth};
        if (brute.classify(tile) == TileClass::Partial)
          continue;
        ++uniform;
        Scalars s =
            known(a, c, reader, KeyRange{x, std::min(tile.hi, c.s.kvLen)});
        undecided += a.classify(c.rows, tile, s) == TileClass::Partial;
      }
    } catch (TooLarge) {
      continue;
    }
  }
  double share = 100.0 * undecided / uniform;
  std::printf("masks that read parameters: %zu; tiles that are all or nothing: "
              "%zu, undecided %zu (%.1f %%)\n",
              asked, uniform, undecided, share);
  EXPECT_GT(asked, 2000u);
  EXPECT_GT(uniform, 5000u);
  EXPECT_LT(share, 30.0);
}

/// What every pair shares, as masks index it.
TreeRef uniform(Tape &tape) {
  switch (tape.draw(4)) {
  case 0:
    return element(kScalar, {});
  case 1:
    return element(kByHead, {h});
  case 2:
    return element(kByEntry, {b});
  default:
    return element(kSmall, {n(tape.between(0, 2)), n(tape.between(0, 4))});
  }
}

void checkExact(const TreeRef &mask, const Case &c) {
  RangeAnalysis a = analyse(mask);
  log(mask, c, a);
  Brute brute(mask, c.rows, c.s, c.tables);
  TableReader reader(c.tables);
  Scalars s = known(a, c, reader);
  RC_ASSERT(same(a.hull(c.rows, s), brute.hull()));
  KeyRange inner = a.inner(c.rows, s);
  RC_ASSERT(inner.hi - inner.lo == brute.longestInner());
  for (int64_t x = 0; x < c.s.kvLen; ++x) {
    KeyRange tile{x, std::min(x + c.tileWidth, c.s.kvLen)};
    Scalars t = known(a, c, reader, tile);
    RC_ASSERT(a.classify(c.rows, tile, t) == brute.classify(tile));
    checkEmitted(a, c, tile, brute);
  }
}

TEST(RangeLoads, BoundsThatACallDecidesOnAreExact) {
  EXPECT_TRUE(rc::check("windows, prefixes, limits of the call", [] {
    Numbers numbers = *tapes();
    Tape tape(numbers);
    Case c = randomCase(tape);
    TreeRef mask;
    static const Node nodes[] = {Node::Le, Node::Lt, Node::Ge, Node::Gt};
    for (unsigned i = 0, count = 1 + tape.draw(4); i < count; ++i) {
      TreeRef bound = uniform(tape);
      if (tape.draw(4) == 3)
        bound = bound + n(tape.between(-3, 3));
      unsigned kind = tape.draw(4);
      TreeRef left = kind == 1 ? q : k;
      TreeRef right = kind < 2 ? bound : kind == 2 ? q + bound : q - bound;
      TreeRef part = make(nodes[tape.draw(4)], {left, right});
      mask = mask ? mask && part : part;
    }
    // Only a call shows that a window has no width at all, and that costs a
    // tile or two.
    bool isSomething = false;
    for (int64_t y = c.rows.qMin; y <= c.rows.qMax; ++y)
      for (int64_t x = -100; x < 200; ++x)
        isSomething |=
            evaluate(mask, {c.s.b, c.s.h, c.s.g, y, x, c.s.qLen, c.s.kvLen},
                     c.tables) != 0;
    if (isSomething)
      checkExact(mask, c);
    else
      checkSound(mask, c, 0);
  }));
}

TEST(RangeLoads, PrefixesAreExact) {
  EXPECT_TRUE(rc::check("causal, or before an entry's prefix", [] {
    Numbers numbers = *tapes();
    Tape tape(numbers);
    Case c = randomCase(tape);
    TreeRef mask = le(k, q) || lt(k, element(kByEntry, {b}));
    RangeAnalysis a = analyse(mask);
    log(mask, c, a);
    Brute brute(mask, c.rows, c.s, c.tables);
    TableReader reader(c.tables);
    RC_ASSERT(same(a.hull(c.rows, known(a, c, reader)), brute.hull()));
    for (int64_t x = 0; x < c.s.kvLen; ++x) {
      KeyRange tile{x, std::min(x + c.tileWidth, c.s.kvLen)};
      TileClass got = a.classify(c.rows, tile, known(a, c, reader, tile));
      // (A tile of which each key is allowed for a reason of its own may be
      // left to the masked loop.)
      if (brute.classify(tile) != TileClass::Full)
        RC_ASSERT(got == brute.classify(tile));
      checkEmitted(a, c, tile, brute);
    }
  }));
}

TEST(RangeLoads, PackedDocumentsAreDecidedByTile) {
  EXPECT_TRUE(rc::check("documents in ascending order", [] {
    Numbers numbers = *tapes();
    Tape tape(numbers);
    Case c = randomCase(tape);
    // Rows of the sequence, which negative positions are not.
    c.rows.qMin = std::max<int64_t>(c.rows.qMin, 0);
    c.rows.qMax = std::max(c.rows.qMax, c.rows.qMin);
    std::mt19937 random(tape.draw(5040));
    c.tables[kByEntryAndToken] = table(random, false, {4, 40}, 0);
    TreeRef mask = eq(element(kByEntryAndToken, {b, q}),
                      element(kByEntryAndToken, {b, k}));
    RangeAnalysis a = analyse(mask);
    log(mask, c, a);
    Brute brute(mask, c.rows, c.s, c.tables);
    TableReader reader(c.tables);
    for (int64_t x = 0; x < c.s.kvLen; ++x) {
      KeyRange tile{x, std::min(x + c.tileWidth, c.s.kvLen)};
      RC_ASSERT(a.classify(c.rows, tile, known(a, c, reader, tile)) ==
                brute.classify(tile));
      checkEmitted(a, c, tile, brute);
    }
  }));
}

TEST(RangeLoads, ListsAreDecidedByTile) {
  EXPECT_TRUE(rc::check("key or query in a list", [] {
    Numbers numbers = *tapes();
    Tape tape(numbers);
    Case c = randomCase(tape);
    auto member = [](TreeRef position) {
      return make(Node::Member, {position}, kList);
    };
    TreeRef mask = member(k);
    if (tape.draw(2))
      mask = mask || member(q);
    if (tape.draw(2))
      mask = !mask;
    RangeAnalysis a = analyse(mask);
    log(mask, c, a);
    Brute brute(mask, c.rows, c.s, c.tables);
    TableReader reader(c.tables);
    bool rowsAgree = true;
    for (int64_t y = c.rows.qMin; y <= c.rows.qMax; ++y)
      rowsAgree &= (y < 0) == (c.rows.qMin < 0);
    for (int64_t x = 0; x < c.s.kvLen; ++x) {
      KeyRange tile{x, std::min(x + c.tileWidth, c.s.kvLen)};
      TileClass got = a.classify(c.rows, tile, known(a, c, reader, tile));
      // Rows on both sides of the first position are looked at together.
      if (rowsAgree)
        RC_ASSERT(got == brute.classify(tile));
      checkEmitted(a, c, tile, brute);
    }
  }));
}

TEST(RangeLoads, SumsAreAskedForAlongKeys) {
  auto dims = [](const TreeRef &mask) { return analyse(mask).summedDims(); };
  using Dims = llvm::SmallVector<std::pair<int64_t, unsigned>>;
  EXPECT_EQ(dims(eq(element(kByEntryAndToken, {b, q}),
                    element(kByEntryAndToken, {b, k}))),
            (Dims{{kByEntryAndToken, 1}}));
  EXPECT_EQ(dims(flag(kByKey, {k}) && make(Node::Member, {k}, kList)),
            (Dims{{kByKey, 0}, {kList, 1}}));
  // Along queries, and in two directions at once, elements are read.
  EXPECT_EQ(dims(make(Node::Member, {q}, kList)), Dims());
  EXPECT_EQ(dims(lt(element(kPairs, {q, k}), n(3))), Dims());
  EXPECT_EQ(dims(lt(element(kByHead, {h}), k)), Dims());
}

TEST(RangeLoads, OneElementIsReadOnce) {
  TreeRef width = element(kByHead, {h});
  RangeAnalysis a =
      analyse(le(q - width, k) && le(k, q + width) && lt(k, width));
  std::mt19937 random(1); // NOLINT(bugprone-random-generator-seed)
  Tables tables;
  for (int64_t n = 0; n <= kByHead; ++n)
    tables.push_back(table(
        random, false,
        n == kByHead ? std::vector<int64_t>{6} : std::vector<int64_t>{}, 2));
  Emitted e(a, {3, 9}, {0, 4}, {0, 2, 0, 20, 20}, false, tables);
  size_t reads = 0;
  for (Operation &op : e.body.front()) {
    reads += isa<ParamOp>(op);
    EXPECT_FALSE(isa<ExtremesOp>(op));
  }
  EXPECT_EQ(reads, 1u);
  EXPECT_EQ(a.describe(), "keys visited\n"
                          "  all of\n"
                          "    k >= q - p1[h]  (where the keys begin)\n"
                          "    k <= q + p1[h]  (where the keys end)\n"
                          "    k <= p1[h] - 1  (where the keys end)\n");
}

} // namespace

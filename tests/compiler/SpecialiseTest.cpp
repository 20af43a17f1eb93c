//===- tests/compiler/SpecialiseTest.cpp ----------------------------------===//
//
// Part of attnc. Apache-2.0.
//
// Masks where more is known of their pairs: the same truth, with less to ask.
//
//===----------------------------------------------------------------------===//
#include "compiler/Specialise.h"
#include "RangeSupport.h"
#include "compiler/Import.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cstdlib>
#include <random>
#include <rapidcheck.h>

using namespace mlir;
using namespace attn;
using namespace attn::test;

namespace {

// Unless the environment says otherwise.
const int configured = setenv("RC_PARAMS", "max_success=2500 max_size=120", 0);

//===----------------------------------------------------------------------===//
// Random masks
//===----------------------------------------------------------------------===//

/// The value of a mask region at a point, by folding each of its operations;
/// nothing where one has no value. An empty region is true.
std::optional<bool> valueAt(Region &mask, const Point &at,
                            const Tables &tables) {
  if (mask.empty())
    return true;
  DenseMap<Value, Attribute> values;
  Builder b(&context());
  for (BlockArgument arg : mask.getArguments())
    values[arg] = b.getI32IntegerAttr(int32_t(at[arg.getArgNumber()]));
  auto integer = [&](Value v) {
    return cast<IntegerAttr>(values[v]).getValue().getSExtValue();
  };
  for (Operation &op : mask.front().without_terminator()) {
    std::optional<int64_t> asked;
    if (auto param = dyn_cast<ParamOp>(op)) {
      std::vector<int64_t> index;
      for (Value i : param.getAt())
        index.push_back(integer(i));
      asked = tables[param.getNumber()].at(index);
    } else if (auto member = dyn_cast<MemberOp>(op)) {
      int64_t position = integer(member.getPosition());
      asked = position >= 0 && tables[member.getNumber()].at(
                                   {integer(member.getBatch()), position});
    } else if (auto congruent = dyn_cast<CongruentOp>(op)) {
      asked = (integer(congruent.getK()) - integer(congruent.getQ())) %
                  integer(congruent.getStep()) ==
              0;
    }
    Value result = op.getResult(0);
    if (asked) {
      values[result] = b.getIntegerAttr(result.getType(), *asked);
      continue;
    }
    llvm::SmallVector<Attribute> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values[operand]);
    llvm::SmallVector<OpFoldResult> folded;
    // (An operation may be folded to one of its operands.)
    if (failed(op.fold(operands, folded)))
      return std::nullopt;
    if (folded.empty())
      return std::nullopt;
    values[result] = isa<Value>(folded[0]) ? values[cast<Value>(folded[0])]
                                           : cast<Attribute>(folded[0]);
    if (!isa_and_nonnull<IntegerAttr, FloatAttr>(values[result]))
      return std::nullopt;
  }
  Value yielded = mask.front().getTerminator()->getOperand(0);
  return !cast<IntegerAttr>(values[yielded]).getValue().isZero();
}

/// Whether what is taken for known is so at a point.
bool hold(const PairFacts &facts, Region &mask, const Point &at,
          const Tables &tables) {
  bool all = true;
  mask.walk([&](Operation *op) {
    if (auto member = dyn_cast<MemberOp>(op)) {
      bool isQuery = member.getPosition() == mask.getArgument(MaskQ);
      int64_t position = at[isQuery ? MaskQ : MaskK];
      bool listed = position >= 0 &&
                    tables[member.getNumber()].at({at[MaskB], position}) != 0;
      all &= (isQuery ? facts.listedQuery : facts.listedKey).value_or(listed) ==
             listed;
    }
    if (auto congruent = dyn_cast<CongruentOp>(op);
        congruent && facts.congruent) {
      APInt step;
      all &= matchPattern(congruent.getStep(), m_ConstantInt(&step)) &&
             (at[MaskK] - at[MaskQ]) % step.getSExtValue() == 0;
    }
  });
  return all;
}

/// The mask of an op, as passes meet it.
class MaskOfOp {
public:
  explicit MaskOfOp(const TreeRef &tree) {
    MaskRegion mask(context(), tree);
    OperationState state(UnknownLoc::get(&context()),
                         AttentionOp::getOperationName());
    for (int n = 0; n < 3; ++n)
      state.addRegion();
    op = Operation::create(state);
    region().takeBody(mask.region());
  }
  Region &region() { return cast<AttentionOp>(op.get()).getMask(); }

private:
  OwningOpRef<Operation *> op;
};

size_t countOps(Region &region) {
  size_t count = 0;
  region.walk([&](Operation *) { ++count; });
  return count;
}

TEST(Specialise, IsTheMaskWhereWhatIsKnownHolds) {
  size_t compared = 0, smaller = 0;
  EXPECT_TRUE(rc::check("any mask, anything known", [&] {
    auto numbers =
        *rc::gen::container<std::vector<unsigned>>(rc::gen::inRange(0u, 5040u));
    Tape tape(numbers);
    std::mt19937 random(tape.draw(5040));
    Tables tables = {
        {false, {6}, {}}, {false, {4, 30}, {}}, {true, {4, 30}, {}}};
    for (Table &table : tables)
      for (int64_t n = 0, count = table.shape.size() == 1 ? 6 : 120; n < count;
           ++n)
        table.values.push_back(int64_t(random() % (table.isBool ? 2 : 9)));
    auto fact = [&]() -> std::optional<bool> {
      unsigned which = tape.draw(3);
      return which == 0 ? std::nullopt : std::optional(which == 1);
    };
    PairFacts facts;
    facts.listedQuery = fact();
    facts.listedKey = fact();
    facts.congruent = tape.draw(2) != 0;
    // Conditions about lists and classes among others.
    TreeRef tree = randomCondition(tape, 2, false, &tables);
    for (unsigned n = 0, count = tape.draw(4); n < count; ++n) {
      TreeRef part = tape.draw(3) == 2
                         ? make(Node::Congruent, {number(tape.between(1, 4))})
                         : make(Node::Member, {tape.draw(2) ? k : q}, 2);
      if (tape.draw(4) == 3)
        part = !part;
      tree = tape.draw(2) ? tree && part : part || tree;
    }
    RC_LOG() << print(tree) << "\n";
    MaskOfOp mask(tree);
    std::unique_ptr<Region> region = specialised(mask.region(), facts);
    // Nothing that is known is asked, and nothing is left over.
    region->walk([&](Operation *op) {
      RC_ASSERT(!isa<CongruentOp>(op) || !facts.congruent);
      if (auto member = dyn_cast<MemberOp>(op)) {
        bool isQuery = member.getPosition() == region->getArgument(MaskQ);
        RC_ASSERT(!(isQuery ? facts.listedQuery : facts.listedKey));
      }
      RC_ASSERT(isa<YieldOp>(op) || !op->use_empty());
    });
    RC_ASSERT(countOps(*region) <= countOps(mask.region()));
    smaller += countOps(*region) < countOps(mask.region());
    for (int n = 0; n < 60; ++n) {
      Point at = {int64_t(random() % 4),
                  int64_t(random() % 6),
                  int64_t(random() % 3),
                  int64_t(random() % 36) - 6,
                  int64_t(random() % 30),
                  int64_t(random() % 30),
                  30};
      if (!hold(facts, mask.region(), at, tables))
        continue;
      auto want = valueAt(mask.region(), at, tables);
      if (!want) // beyond 32 bits
        continue;
      ++compared;
      RC_ASSERT(valueAt(*region, at, tables) == want);
    }
  }));
  std::printf("%zu pairs compared, %zu masks became smaller\n", compared,
              smaller);
  EXPECT_GT(compared, 50000u);
  EXPECT_GT(smaller, 1000u);
}

//===----------------------------------------------------------------------===//
// The parts of a tile program
//===----------------------------------------------------------------------===//

/// What the parts of a variant's mask are, as analysis prints them.
struct Parts {
  MLIRContext own;
  OwningOpRef<ModuleOp> module;
  std::unique_ptr<MaskParts> parts;

  explicit Parts(const std::string &rest) {
    attn::ParseResult parsed = attn::parse(
        "attention a(t: tokens, u: tokens) { heads = 2 head_dim = 8 " + rest +
        " }");
    EXPECT_EQ(parsed.specs.size(), 1u) << rest;
    std::vector<attn::Diagnostic> diagnostics;
    module = importSpec(own, parsed.specs.at(0), diagnostics);
    EXPECT_TRUE(module && diagnostics.empty()) << rest;
    parts = std::make_unique<MaskParts>(*module->getOps<AttentionOp>().begin());
  }
};

/// The lines of a part that say what is visited.
std::string visited(const PartMask &part) {
  std::string text = part.analysis.describe();
  return text.substr(text.find('\n') + 1);
}

TEST(Specialise, PartsOfAWindowAndGlobalTokens) {
  Parts p("mask = window(8) || global(t)");
  EXPECT_EQ(p.parts->lists, (llvm::SmallVector<int64_t>{0}));
  // Other rows: the window, and any listed key; the window alone says where.
  EXPECT_EQ(visited(p.parts->denseHull),
            "  all of\n"
            "    k >= q - 8  (where the keys begin)\n"
            "    k <= q + 8  (where the keys end)\n");
  EXPECT_FALSE(p.parts->dense.analysis.alwaysTrue());
  size_t asked = 0;
  p.parts->dense.region->walk([&](MemberOp member) {
    EXPECT_EQ(member.getPosition(), p.parts->dense.region->getArgument(MaskK));
    ++asked;
  });
  EXPECT_EQ(asked, 1u);
  // Listed keys, and all keys of listed rows, need no mask.
  EXPECT_TRUE(p.parts->gathered.region->empty());
  EXPECT_TRUE(p.parts->listed.region->empty());
}

TEST(Specialise, PartsOfRestrictedGlobalTokens) {
  Parts p("mask = causal && global(t)");
  EXPECT_TRUE(p.parts->denseHull.analysis.alwaysFalse());
  for (PartMask *part : {&p.parts->gathered, &p.parts->listed})
    EXPECT_EQ(visited(*part), "  k <= q  (where the keys end)\n");

  Parts none("mask = !global(t)");
  EXPECT_TRUE(none.parts->denseHull.region->empty());
  EXPECT_TRUE(none.parts->gathered.analysis.alwaysFalse());
  EXPECT_TRUE(none.parts->listed.analysis.alwaysFalse());
}

TEST(Specialise, BeingInOneOfTwoListsSaysNothingOfTheOther) {
  Parts p("mask = window(8) || global(t) && global(u)");
  EXPECT_EQ(p.parts->lists, (llvm::SmallVector<int64_t>{0, 1}));
  // In none of them: the window.
  EXPECT_EQ(countOps(*p.parts->denseHull.region),
            countOps(*Parts("mask = window(8)").parts->dense.region));
  // In one of them: both are asked.
  for (PartMask *part : {&p.parts->gathered, &p.parts->listed}) {
    size_t asked = 0;
    part->region->walk([&](MemberOp) { ++asked; });
    EXPECT_GE(asked, 2u);
  }
}

TEST(Specialise, AResidueClassIsTakenForGrantedOnlyAmongItsOwnKeys) {
  Parts p("mask = window(8, 8, 3) || global(t)");
  auto asks = [](const PartMask &part) {
    bool any = false;
    part.region->walk([&](CongruentOp) { any = true; });
    return any;
  };
  EXPECT_FALSE(asks(p.parts->dense));
  EXPECT_FALSE(asks(p.parts->denseHull));
  EXPECT_TRUE(p.parts->gathered.region->empty());

  Parts both("mask = window(8, 8, 3) && causal || global(t) && k % 2 == 0");
  EXPECT_FALSE(asks(both.parts->dense));
  EXPECT_TRUE(asks(both.parts->gathered));
  EXPECT_TRUE(asks(both.parts->listed));
}

TEST(Specialise, WithoutListsThereIsOnePart) {
  Parts p("mask = causal && sliding(9)");
  EXPECT_TRUE(p.parts->lists.empty());
  for (PartMask *part :
       {&p.parts->dense, &p.parts->denseHull, &p.parts->listed})
    EXPECT_EQ(visited(*part), "  all of\n"
                              "    k <= q  (where the keys end)\n"
                              "    k >= q - 8  (where the keys begin)\n");
}

} // namespace

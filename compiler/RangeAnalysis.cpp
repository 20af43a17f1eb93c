//===- compiler/RangeAnalysis.cpp - Which keys a mask lets rows see -------===//
//
// Part of attnc. Apache-2.0.
//
// From a mask region to the symbolic form, and its evaluation in numbers.
//
//===----------------------------------------------------------------------===//
#include "compiler/RangeAnalysis.h"
#include "compiler/AttnDialect.h"
#include "compiler/RangeEval.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace attn {

using namespace range;

namespace {

//===----------------------------------------------------------------------===//
// Reading the region
//===----------------------------------------------------------------------===//

constexpr bool isAt(Var v, MaskArg at) { return unsigned(v) == at; }
static_assert(kVars == kMaskArgs && isAt(Var::B, MaskB) &&
              isAt(Var::H, MaskH) && isAt(Var::G, MaskG) &&
              isAt(Var::Q, MaskQ) && isAt(Var::K, MaskK) &&
              isAt(Var::QLen, MaskQLen) && isAt(Var::KvLen, MaskKvLen));

/// Integers that are wide enough not to wrap for the sizes there are.
bool isInteger(Type type) {
  return type.isIndex() || type.isInteger(32) || type.isInteger(64);
}

void printPlace(llvm::raw_ostream &os, Location loc) {
  if (auto place = loc->findInstanceOf<FileLineColRange>())
    os << " at " << place.getStartLine() << ":" << place.getStartColumn();
}

class Reader {
public:
  Mask read(Region &region);

private:
  void visit(Operation *op);
  std::optional<Linear> integer(Operation *op);
  std::optional<Truth> condition(Operation *op);
  std::optional<Truth> compare(arith::CmpIOp op);
  Linear element(int64_t number, StringRef name, bool isBool,
                 ArrayRef<bool> inside, ValueRange at);

  Linear number(Value v) {
    auto it = numbers.find(v);
    return it == numbers.end() ? Linear::unknown() : it->second;
  }
  Truth truthOf(Value v) {
    auto it = truths.find(v);
    return it == truths.end() ? undecided() : it->second;
  }
  void leaveOpen(Operation *op) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << op->getName();
    printPlace(os, op->getLoc());
    mask.open.push_back(std::move(text));
  }

  DenseMap<Value, Linear> numbers;
  DenseMap<Value, Truth> truths;
  Mask mask;
};

Mask Reader::read(Region &region) {
  mask.value = truth(true);
  if (region.empty())
    return std::move(mask);
  Block &block = region.front();
  assert(block.getNumArguments() == kVars && "see RangeAnalysis::analyse");

  // Only what the result depends on counts, whatever else there may be.
  DenseSet<Operation *> live;
  Operation *terminator = block.getTerminator();
  for (Operation &op : llvm::reverse(block)) {
    bool used = &op == terminator || llvm::any_of(op.getUsers(), [&](auto *u) {
      return live.contains(block.findAncestorOpInBlock(*u));
    });
    if (used)
      live.insert(&op);
  }
  for (BlockArgument arg : block.getArguments()) {
    Var v = Var(arg.getArgNumber());
    numbers[arg] = Linear::of(v);
    if (llvm::any_of(arg.getUsers(), [&](auto *u) {
          return live.contains(block.findAncestorOpInBlock(*u));
        }))
      mask.reads |= setOf(v);
  }
  for (Operation &op : block.without_terminator())
    if (live.contains(&op))
      visit(&op);
  mask.value = truthOf(terminator->getOperand(0));
  return std::move(mask);
}

void Reader::visit(Operation *op) {
  if (op->getNumResults() != 1)
    return leaveOpen(op);
  Value result = op->getResult(0);
  auto exact = [&](Value v) {
    auto it = truths.find(v);
    return it != truths.end() && it->second.exact;
  };
  // A place is named where something is lost, not where the loss arrives.
  bool clean = llvm::all_of(op->getOperands(), [&](Value v) {
    return isInteger(v.getType()) ? number(v).known : exact(v);
  });
  if (result.getType().isInteger(1)) {
    Truth t = condition(op).value_or(undecided());
    bool lost = !t.exact;
    truths[result] = std::move(t);
    if (lost && (clean || !condition(op)))
      leaveOpen(op);
  } else if (isInteger(result.getType())) {
    auto l = integer(op);
    if (!l || (!l->known && clean))
      leaveOpen(op);
    numbers[result] = l ? std::move(*l) : Linear::unknown();
  }
}

/// An element of a parameter: one load, however often it is written.
Linear Reader::element(int64_t param, StringRef name, bool isBool,
                       ArrayRef<bool> inside, ValueRange at) {
  Load load{param, name.str(), isBool, {}, {}};
  load.inside.assign(inside.begin(), inside.end());
  for (Value index : at) {
    load.at.push_back(number(index));
    load.vars |= load.at.back().vars();
  }
  auto same = llvm::find_if(mask.loads, [&](const Load &other) {
    return other.number == param &&
           llvm::equal(other.at, load.at,
                       [](auto &a, auto &b) { return range::equal(a, b); });
  });
  const auto place = unsigned(same - mask.loads.begin());
  const Bounds bounds = isBool ? Bounds{0, 1} : Bounds{INT32_MIN, INT32_MAX};
  Linear l = range::load(place, load.at, bounds, load.name);
  if (l.known && same == mask.loads.end())
    mask.loads.push_back(std::move(load));
  return l;
}

std::optional<Linear> Reader::integer(Operation *op) {
  auto operand = [&](unsigned i) { return number(op->getOperand(i)); };
  APInt value;
  if (matchPattern(op, m_ConstantInt(&value)))
    return Linear::of(value.getSExtValue());
  return TypeSwitch<Operation *, std::optional<Linear>>(op)
      .Case([&](ParamOp param) {
        return element(param.getNumber(), param.getName(), false,
                       param.getInside(), param.getAt());
      })
      .Case([&](arith::AddIOp) { return operand(0) + operand(1); })
      .Case([&](arith::SubIOp) { return operand(0) - operand(1); })
      .Case([&](arith::MulIOp) { return multiply(operand(0), operand(1)); })
      .Case([&](arith::DivSIOp) {
        return divide(Rounding::Trunc, operand(0), operand(1));
      })
      .Case([&](arith::FloorDivSIOp) {
        return divide(Rounding::Floor, operand(0), operand(1));
      })
      .Case([&](arith::CeilDivSIOp) {
        return divide(Rounding::Ceil, operand(0), operand(1));
      })
      .Case([&](arith::RemSIOp) { return remainder(operand(0), operand(1)); })
      .Case([&](arith::MinSIOp) { return minOf(operand(0), operand(1)); })
      .Case([&](arith::MaxSIOp) { return maxOf(operand(0), operand(1)); })
      .Case([&](math::AbsIOp) {
        return maxOf(operand(0), scaled(operand(0), -1));
      })
      .Case([&](arith::SelectOp) {
        return select(truthOf(op->getOperand(0)), operand(1), operand(2));
      })
      .Case<arith::ExtUIOp, arith::ExtSIOp>([&](Operation *) {
        bool isSigned = isa<arith::ExtSIOp>(op);
        Value from = op->getOperand(0);
        if (from.getType().isInteger(1))
          return std::optional(select(truthOf(from),
                                      Linear::of(isSigned ? -1 : 1),
                                      Linear::of(int64_t(0))));
        Linear l = number(from);
        auto range = l.bounds();
        if (!isSigned && range && range->lo < 0)
          return std::optional<Linear>();
        return std::optional(l);
      })
      .Case<arith::IndexCastOp, arith::TruncIOp>(
          [&](Operation *) -> std::optional<Linear> {
            auto range = operand(0).bounds();
            if (range && op->getResult(0).getType().isInteger(32) &&
                !(llvm::isInt<32>(range->lo) && llvm::isInt<32>(range->hi)))
              return std::nullopt;
            return operand(0);
          })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<Truth> Reader::condition(Operation *op) {
  auto isOne = [](const Linear &l) { return lessEqualZero(Linear::of(1) - l); };
  auto operand = [&](unsigned i) { return truthOf(op->getOperand(i)); };
  APInt value;
  if (matchPattern(op, m_ConstantInt(&value)))
    return truth(!value.isZero());
  return TypeSwitch<Operation *, std::optional<Truth>>(op)
      .Case([&](ParamOp param) {
        return std::optional(
            isOne(element(param.getNumber(), param.getName(), true,
                          param.getInside(), param.getAt())));
      })
      .Case([&](MemberOp member) {
        // No list has a position before the first.
        return std::optional(
            both(isOne(element(member.getNumber(), member.getName(), true,
                               {true, false},
                               {member.getBatch(), member.getPosition()})),
                 lessEqualZero(scaled(number(member.getPosition()), -1))));
      })
      .Case([&](CongruentOp congruent) {
        return equalZero(
            remainder(number(congruent.getK()) - number(congruent.getQ()),
                      number(congruent.getStep())));
      })
      .Case([&](arith::AndIOp) { return both(operand(0), operand(1)); })
      .Case([&](arith::OrIOp) { return either(operand(0), operand(1)); })
      .Case([&](arith::XOrIOp) { return exclusive(operand(0), operand(1)); })
      .Case([&](arith::SelectOp) {
        return select(operand(0), operand(1), operand(2));
      })
      .Case([&](arith::CmpIOp cmp) { return compare(cmp); })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<Truth> Reader::compare(arith::CmpIOp op) {
  using Predicate = arith::CmpIPredicate;
  Predicate p = op.getPredicate();
  if (op.getLhs().getType().isInteger(1)) {
    Truth differ = exclusive(truthOf(op.getLhs()), truthOf(op.getRhs()));
    if (p == Predicate::eq)
      return negated(differ);
    if (p == Predicate::ne)
      return differ;
    return std::nullopt;
  }
  if (!isInteger(op.getLhs().getType()))
    return std::nullopt;
  Linear a = number(op.getLhs()), b = number(op.getRhs());
  auto less = [](const Linear &x, const Linear &y) {
    return lessEqualZero(x - y + Linear::of(1));
  };
  // Unsigned, every negative number is larger than any other.
  auto below = [&](const Linear &x, const Linear &y) {
    Linear zero = Linear::of(int64_t(0));
    return select(less(x, zero), both(less(y, zero), less(x, y)),
                  either(less(y, zero), less(x, y)));
  };
  switch (p) {
  case Predicate::eq:
    return equalZero(a - b);
  case Predicate::ne:
    return negated(equalZero(a - b));
  case Predicate::slt:
    return less(a, b);
  case Predicate::sle:
    return negated(less(b, a));
  case Predicate::sgt:
    return less(b, a);
  case Predicate::sge:
    return negated(less(a, b));
  case Predicate::ult:
    return below(a, b);
  case Predicate::ule:
    return negated(below(b, a));
  case Predicate::ugt:
    return below(b, a);
  case Predicate::uge:
    return negated(below(a, b));
  }
  llvm_unreachable("every predicate is handled");
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

struct NumberOps {
  using Int = int64_t;
  using Bool = bool;
  Int constant(int64_t value) { return value; }
  Int add(Int a, Int b) { return a + b; }
  Int sub(Int a, Int b) { return a - b; }
  Int scale(Int a, int64_t n) { return a * n; }
  Int floorDiv(Int a, int64_t c) { return range::floorDiv(a, c); }
  Int truncDiv(Int a, int64_t c) { return a / c; }
  Int min(Int a, Int b) { return std::min(a, b); }
  Int max(Int a, Int b) { return std::max(a, b); }
  Int select(Bool c, Int a, Int b) { return c ? a : b; }
  Bool le(Int a, Int b) { return a <= b; }
  Bool eq(Int a, Int b) { return a == b; }
  Bool bothOf(Bool a, Bool b) { return a && b; }
  Bool eitherOf(Bool a, Bool b) { return a || b; }
  Bool notOf(Bool a) { return !a; }
  Bool truth(bool value) { return value; }
};

std::array<int64_t, kVars> byVar(const Scalars &s) {
  return {s.b, s.h, s.g, 0, 0, s.qLen, s.kvLen};
}

} // namespace

RangeAnalysis RangeAnalysis::analyse(Region &region) {
  RangeAnalysis analysis;
  analysis.mask = std::make_shared<const Mask>(Reader().read(region));
  return analysis;
}

KeyRange RangeAnalysis::hull(Rows rows, Scalars scalars) const {
  return hullWithin(rows, {0, scalars.kvLen}, scalars);
}

KeyRange RangeAnalysis::hullWithin(Rows rows, KeyRange keys,
                                   Scalars scalars) const {
  NumberOps ops;
  Evaluator<NumberOps> e(ops, byVar(scalars), scalars.loads);
  e.lookAt({keys.lo, keys.hi});
  auto [lo, hi] =
      e.clamped(e.hull(mask->value.yes, {rows.qMin, rows.qMax, std::nullopt}));
  return {lo, hi};
}

KeyRange RangeAnalysis::inner(Rows rows, Scalars scalars) const {
  NumberOps ops;
  Evaluator<NumberOps> e(ops, byVar(scalars), scalars.loads);
  auto [lo, hi] =
      e.clamped(e.clear(mask->value.no, {rows.qMin, rows.qMax, std::nullopt}));
  return {lo, hi};
}

TileClass RangeAnalysis::classify(Rows rows, KeyRange tile,
                                  Scalars scalars) const {
  int64_t first = std::max(tile.lo, int64_t(0));
  int64_t last = std::min(tile.hi, scalars.kvLen) - 1;
  if (first > last)
    return TileClass::Skip;
  NumberOps ops;
  Evaluator<NumberOps> e(ops, byVar(scalars), scalars.loads);
  Evaluator<NumberOps>::Box box{rows.qMin, rows.qMax, {{first, last}}};
  if (!e.may(mask->value.yes, box))
    return TileClass::Skip;
  return e.may(mask->value.no, box) ? TileClass::Partial : TileClass::Full;
}

LoadRanges RangeAnalysis::loads(Rows rows, std::optional<KeyRange> keys,
                                const Scalars &scalars,
                                const ParamReader &reader) const {
  NumberOps ops;
  Evaluator<NumberOps> e(ops, byVar(scalars), scalars.loads);
  Evaluator<NumberOps>::Box box{rows.qMin, rows.qMax, std::nullopt};
  if (keys)
    box.keys = {{keys->lo, keys->hi - 1}};
  return e.evaluateLoads(
      *mask, box,
      [&](const Load &load, ArrayRef<int64_t> at) {
        return reader.element(load.number, at);
      },
      [&](const Load &load, ArrayRef<int64_t> at, unsigned dim, int64_t last) {
        return reader.extremes(load.number, at, dim, last);
      });
}

SmallVector<std::pair<int64_t, unsigned>> RangeAnalysis::summedDims() const {
  SmallVector<std::pair<int64_t, unsigned>> result;
  constexpr VarSet pair = setOf(Var::Q) | setOf(Var::K);
  for (const Load &load : mask->loads) {
    auto varies = [&](const Linear &l) { return (l.vars() & pair) != 0; };
    if ((load.vars & setOf(Var::K)) && llvm::count_if(load.at, varies) == 1)
      result.push_back({load.number, unsigned(llvm::find_if(load.at, varies) -
                                              load.at.begin())});
  }
  return result;
}

bool RangeAnalysis::alwaysTrue() const {
  return mask->value.no->kind == Cond::Kind::False;
}

bool RangeAnalysis::alwaysFalse() const {
  return mask->value.yes->kind == Cond::Kind::False;
}

bool RangeAnalysis::exact() const { return mask->value.exact; }

bool RangeAnalysis::reads(Arg arg) const {
  return mask->reads & (1u << static_cast<unsigned>(arg));
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static const char *effect(const Linear &l) {
  bool residue = l.termVars() & setOf(Var::K);
  if (int64_t n = l[Var::K])
    return residue ? "tiles only, and loosely an end of the keys"
           : n > 0 ? "where the keys end"
                   : "where the keys begin";
  if (residue)
    return "tiles only: bounds no range of keys";
  return l.vars() & setOf(Var::Q) ? "which rows" : "which calls";
}

static void describe(llvm::raw_ostream &os, const CondRef &cond,
                     unsigned indent) {
  os.indent(indent);
  switch (cond->kind) {
  case Cond::Kind::True:
    os << "every key\n";
    return;
  case Cond::Kind::False:
    os << "no key\n";
    return;
  case Cond::Kind::Atom:
    os << printAtom(cond->atom) << "  (" << effect(cond->atom) << ")\n";
    return;
  case Cond::Kind::And:
  case Cond::Kind::Or:
    os << (cond->kind == Cond::Kind::And ? "all of\n" : "any of\n");
    for (const CondRef &child : cond->children)
      describe(os, child, indent + 2);
    return;
  }
}

std::string RangeAnalysis::describe() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "keys visited\n";
  attn::describe(os, mask->value.yes, 2);
  for (const std::string &what : mask->open)
    os << "left open: " << what << "\n";
  return text;
}

static void summarise(const CondRef &cond, bool isInner,
                      RangeAnalysis::Summary &out) {
  switch (cond->kind) {
  case Cond::Kind::True:
    out.condition += "every key";
    return;
  case Cond::Kind::False:
    out.condition += "no key";
    return;
  case Cond::Kind::Atom:
    out.condition += printAtom(cond->atom);
    if (!llvm::is_contained(out.effects, effect(cond->atom)))
      out.effects.push_back(effect(cond->atom));
    return;
  case Cond::Kind::And:
  case Cond::Kind::Or:
    out.condition += isInner ? "(" : "";
    for (const CondRef &child : cond->children) {
      if (child != cond->children.front())
        out.condition += cond->kind == Cond::Kind::And ? " and " : " or ";
      summarise(child, /*isInner=*/true, out);
    }
    out.condition += isInner ? ")" : "";
    return;
  }
}

RangeAnalysis::Summary RangeAnalysis::summary() const {
  Summary result;
  summarise(mask->value.yes, /*isInner=*/false, result);
  result.open = mask->open;
  return result;
}

} // namespace attn

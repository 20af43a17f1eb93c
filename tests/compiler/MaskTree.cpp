//===- tests/compiler/MaskTree.cpp - Random masks with a meaning ----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "MaskTree.h"
#include "compiler/AttnDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace attn::test {

static __int128 floorOf(__int128 a, __int128 c) {
  __int128 d = a / c;
  return a % c != 0 && (a < 0) != (c < 0) ? d - 1 : d;
}

int64_t Table::at(const std::vector<int64_t> &index) const {
  int64_t place = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    place = place * shape[d] + std::clamp(index[d], int64_t(0), shape[d] - 1);
  return values[place];
}

__int128 evaluate(const TreeRef &tree, const Point &at, const Tables &tables) {
  auto x = [&](unsigned i) { return evaluate(tree->args[i], at, tables); };
  auto held = [](__int128 v) {
    constexpr __int128 limit = __int128(1) << 90;
    if (v > limit || v < -limit)
      throw TooLarge();
    return v;
  };
  switch (tree->node) {
  case Node::Const:
    return tree->value;
  case Node::Arg:
    return at[tree->value];
  case Node::Add:
    return held(x(0) + x(1));
  case Node::Sub:
    return held(x(0) - x(1));
  case Node::Mul: {
    // One factor is a constant of 32 bits, or a choice between such.
    return held(x(0) * x(1));
  }
  case Node::Div:
    return x(0) / x(1);
  case Node::FloorDiv:
    return floorOf(x(0), x(1));
  case Node::CeilDiv:
    return -floorOf(-x(0), x(1));
  case Node::Rem:
    return x(0) % x(1);
  case Node::Min:
    return std::min(x(0), x(1));
  case Node::Max:
    return std::max(x(0), x(1));
  case Node::Abs:
    return x(0) < 0 ? -x(0) : x(0);
  case Node::Pick:
  case Node::PickBit:
    return x(0) ? x(1) : x(2);
  case Node::FromBit:
    return x(0);
  case Node::BitAnd:
    return x(0) & x(1);
  case Node::Element:
  case Node::Flag: {
    std::vector<int64_t> index;
    for (unsigned i = 0; i < tree->args.size(); ++i) {
      constexpr __int128 most = INT32_MAX;
      index.push_back(int64_t(std::clamp(x(i), -most, most)));
    }
    return tables[tree->value].at(index);
  }
  case Node::Member: {
    __int128 position = x(0);
    return position >= 0 && position < tables[tree->value].shape[1] &&
           tables[tree->value].at({at[0], int64_t(position)});
  }
  case Node::Congruent:
    return (at[4] - at[3]) % x(0) == 0;
  case Node::True:
    return 1;
  case Node::False:
    return 0;
  case Node::Eq:
  case Node::Same:
    return x(0) == x(1);
  case Node::Ne:
    return x(0) != x(1);
  case Node::Lt:
    return x(0) < x(1);
  case Node::Le:
    return x(0) <= x(1);
  case Node::Gt:
    return x(0) > x(1);
  case Node::Ge:
    return x(0) >= x(1);
  case Node::ULt:
    return static_cast<unsigned __int128>(x(0)) <
           static_cast<unsigned __int128>(x(1));
  case Node::And:
    return x(0) && x(1);
  case Node::Or:
    return x(0) || x(1);
  case Node::Xor:
    return x(0) != x(1);
  case Node::Not:
    return !x(0);
  case Node::FloatLess:
    return static_cast<double>(x(0)) < static_cast<double>(tree->value);
  }
  llvm_unreachable("every node is handled");
}

std::string print(const TreeRef &tree) {
  static const char *const args[] = {"b", "h",     "g",     "q",
                                     "k", "q_len", "kv_len"};
  static const char *const names[] = {
      "const",   "arg",     "+",    "-",     "*",      "/",         "floordiv",
      "ceildiv", "%",       "min",  "max",   "abs",    "?:",        "int",
      "&",       "element", "true", "false", "==",     "!=",        "<",
      "<=",      ">",       ">=",   "u<",    "&&",     "||",        "^",
      "<=>",     "!",       "?:",   "flag",  "member", "congruent", "f<"};
  if (tree->node == Node::Const)
    return std::to_string(tree->value);
  if (tree->node == Node::Arg)
    return args[tree->value];
  std::string text = std::string("(") + names[static_cast<int>(tree->node)];
  for (const TreeRef &a : tree->args)
    text += " " + print(a);
  if (tree->node == Node::FloatLess || tree->node == Node::Element ||
      tree->node == Node::Flag || tree->node == Node::Member)
    text += " " + std::to_string(tree->value);
  return text + ")";
}

//===----------------------------------------------------------------------===//
// As IR
//===----------------------------------------------------------------------===//

MaskRegion::MaskRegion(MLIRContext &context, const TreeRef &tree) {
  OpBuilder b(&context);
  Block *block = b.createBlock(&body);
  for (int i = 0; i < 7; ++i)
    block->addArgument(b.getI32Type(), b.getUnknownLoc());
  Value value = build(b, tree);
  YieldOp::create(b, b.getUnknownLoc(), value);
}

Value MaskRegion::build(OpBuilder &b, const TreeRef &tree) {
  Location loc = b.getUnknownLoc();
  llvm::SmallVector<Value> x;
  for (const TreeRef &a : tree->args)
    x.push_back(build(b, a));
  auto compare = [&](arith::CmpIPredicate p) -> Value {
    return arith::CmpIOp::create(b, loc, p, x[0], x[1]);
  };
  auto constant = [&](int64_t v) -> Value {
    return arith::ConstantOp::create(
        b, loc, b.getI32IntegerAttr(static_cast<int32_t>(v)));
  };
  auto bit = [&](bool v) -> Value {
    return arith::ConstantOp::create(b, loc, b.getBoolAttr(v));
  };
  switch (tree->node) {
  case Node::Const:
    return constant(tree->value);
  case Node::Arg:
    return body.getArgument(tree->value);
  case Node::Add:
    return arith::AddIOp::create(b, loc, x[0], x[1]);
  case Node::Sub:
    return arith::SubIOp::create(b, loc, x[0], x[1]);
  case Node::Mul:
    return arith::MulIOp::create(b, loc, x[0], x[1]);
  case Node::Div:
    return arith::DivSIOp::create(b, loc, x[0], x[1]);
  case Node::FloorDiv:
    return arith::FloorDivSIOp::create(b, loc, x[0], x[1]);
  case Node::CeilDiv:
    return arith::CeilDivSIOp::create(b, loc, x[0], x[1]);
  case Node::Rem:
    return arith::RemSIOp::create(b, loc, x[0], x[1]);
  case Node::Min:
    return arith::MinSIOp::create(b, loc, x[0], x[1]);
  case Node::Max:
    return arith::MaxSIOp::create(b, loc, x[0], x[1]);
  case Node::Abs: {
    // As people write it: x < 0 ? -x : x.
    Value zero = constant(0);
    Value negative = arith::SubIOp::create(b, loc, zero, x[0]);
    Value below =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x[0], zero);
    return arith::SelectOp::create(b, loc, below, negative, x[0]);
  }
  case Node::Pick:
  case Node::PickBit:
    return arith::SelectOp::create(b, loc, x[0], x[1], x[2]);
  case Node::FromBit:
    return arith::ExtUIOp::create(b, loc, b.getI32Type(), x[0]);
  case Node::Element:
  case Node::Flag: {
    bool isBool = tree->node == Node::Flag;
    mlir::Type type = isBool ? b.getI1Type() : b.getI32Type();
    return ParamOp::create(
        b, loc, type, b.getI64IntegerAttr(tree->value),
        b.getStringAttr("p" + std::to_string(tree->value)), TypeAttr::get(type),
        b.getDenseBoolArrayAttr(llvm::SmallVector<bool>(x.size(), false)), x);
  }
  case Node::Member:
    return MemberOp::create(b, loc, b.getI64IntegerAttr(tree->value),
                            b.getStringAttr("p" + std::to_string(tree->value)),
                            body.getArgument(0), x[0]);
  case Node::Congruent:
    return CongruentOp::create(b, loc, body.getArgument(4), body.getArgument(3),
                               x[0]);
  case Node::BitAnd:
  case Node::And:
    return arith::AndIOp::create(b, loc, x[0], x[1]);
  case Node::True:
    return bit(true);
  case Node::False:
    return bit(false);
  case Node::Eq:
  case Node::Same:
    return compare(arith::CmpIPredicate::eq);
  case Node::Ne:
    return compare(arith::CmpIPredicate::ne);
  case Node::Lt:
    return compare(arith::CmpIPredicate::slt);
  case Node::Le:
    return compare(arith::CmpIPredicate::sle);
  case Node::Gt:
    return compare(arith::CmpIPredicate::sgt);
  case Node::Ge:
    return compare(arith::CmpIPredicate::sge);
  case Node::ULt:
    return compare(arith::CmpIPredicate::ult);
  case Node::Or:
    return arith::OrIOp::create(b, loc, x[0], x[1]);
  case Node::Xor:
    return arith::XOrIOp::create(b, loc, x[0], x[1]);
  case Node::Not:
    return arith::XOrIOp::create(b, loc, x[0], bit(true));
  case Node::FloatLess: {
    Value f = arith::SIToFPOp::create(b, loc, b.getF64Type(), x[0]);
    Value c = arith::ConstantOp::create(
        b, loc, b.getF64FloatAttr(static_cast<double>(tree->value)));
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, f, c);
  }
  }
  llvm_unreachable("every node is handled");
}

//===----------------------------------------------------------------------===//
// At random
//===----------------------------------------------------------------------===//

static TreeRef randomConstant(Tape &tape) {
  static const int64_t extremes[] = {2147483647,  -2147483647 - 1, 2147483646,
                                     -2147483647, 1000000,         65536};
  if (tape.draw(24) == 23)
    return number(extremes[tape.draw(6)]);
  return number(tape.between(-12, 12));
}

static TreeRef randomInteger(Tape &tape, unsigned depth, bool open,
                             const Tables *tables);

/// An element of one of the tables that are bools, or are not; mostly at the
/// indices that its dimensions are for.
static TreeRef randomElement(Tape &tape, bool isBool, bool open,
                             const Tables &tables) {
  std::vector<int64_t> which;
  for (size_t n = 0; n < tables.size(); ++n)
    if (tables[n].isBool == isBool)
      which.push_back(int64_t(n));
  int64_t number = which[tape.draw(unsigned(which.size()))];
  std::vector<TreeRef> at;
  for (int64_t extent : tables[number].shape) {
    if (tape.draw(8) == 7)
      at.push_back(randomInteger(tape, tape.draw(2), open, &tables));
    else if (extent == 4 || extent == 6)
      at.push_back(arg(extent == 4 ? 0 : 1)); // b, h
    else
      at.push_back(arg(tape.draw(3) ? 4 : 3)); // k, q
  }
  return make(isBool ? Node::Flag : Node::Element, std::move(at), number);
}

static TreeRef randomInteger(Tape &tape, unsigned depth, bool open,
                             const Tables *tables) {
  auto sub = [&] { return randomInteger(tape, depth - 1, open, tables); };
  if (tables && tape.draw(3) == 2)
    return randomElement(tape, false, open, *tables);
  auto divisor = [&] {
    auto one = [&] {
      int64_t d = tape.between(1, 9);
      return number(tape.draw(5) == 4 ? -d : d);
    };
    if (tape.draw(8) == 7)
      return make(Node::Pick,
                  {randomCondition(tape, depth > 2 ? 1 : 0, open, tables),
                   one(), one()});
    return one();
  };
  switch (tape.draw(depth == 0 ? 7 : 24)) {
  case 0:
  case 1:
    return arg(4); // k
  case 2:
  case 3:
    return arg(3); // q
  case 4:
    return arg(tape.draw(7));
  case 5:
  case 6:
    return randomConstant(tape);
  case 7:
  case 8:
  case 9:
    return sub() - sub();
  case 10:
  case 11:
    return sub() + sub();
  case 12:
    return make(Node::Mul, {number(tape.between(-4, 4)), sub()});
  case 13:
    return make(Node::Mul, {sub(), divisor()});
  case 14:
    return make(Node::Div, {sub(), divisor()});
  case 15:
    return make(Node::FloorDiv, {sub(), divisor()});
  case 16:
    return make(Node::CeilDiv, {sub(), divisor()});
  case 17:
    return make(Node::Rem, {sub(), divisor()});
  case 18:
    return make(Node::Min, {sub(), sub()});
  case 19:
    return make(Node::Max, {sub(), sub()});
  case 20:
    return make(Node::Abs, {sub()});
  case 21:
    return make(Node::Pick,
                {randomCondition(tape, depth - 1, open, tables), sub(), sub()});
  case 22:
    return make(Node::FromBit,
                {randomCondition(tape, depth - 1, open, tables)});
  default:
    return open ? make(Node::BitAnd, {sub(), sub()}) : sub() + sub();
  }
}

/// A condition that asks about tables in one of the ways masks do.
static TreeRef randomQuestion(Tape &tape, bool open, const Tables &tables) {
  switch (tape.draw(4)) {
  case 0:
    return randomElement(tape, true, open, tables);
  case 1: { // the same at another place, as documents are compared
    TreeRef one = randomElement(tape, false, open, tables);
    std::vector<TreeRef> at;
    for (const TreeRef &index : one->args)
      at.push_back(index->node == Node::Arg && index->value == 4   ? arg(3)
                   : index->node == Node::Arg && index->value == 3 ? arg(4)
                                                                   : index);
    return make(tape.draw(3) ? Node::Eq : Node::Le,
                {one, element(one->value, at)});
  }
  case 2: {
    TreeRef position = arg(tape.draw(2) ? 4 : 3);
    for (size_t n = 0; n < tables.size(); ++n)
      if (tables[n].isBool && tables[n].shape.size() == 2 &&
          tables[n].shape[0] == 4)
        return make(Node::Member, {position}, int64_t(n));
    return make(Node::True);
  }
  default:
    return make(Node::Congruent, {number(tape.between(1, 5))});
  }
}

TreeRef randomCondition(Tape &tape, unsigned depth, bool open,
                        const Tables *tables) {
  if (tables && tape.draw(5) == 4)
    return randomQuestion(tape, open, *tables);
  auto sub = [&] { return randomCondition(tape, depth - 1, open, tables); };
  if (depth == 0 || tape.draw(3) == 0) {
    static const Node predicates[] = {Node::Le, Node::Lt, Node::Ge, Node::Gt,
                                      Node::Le, Node::Lt, Node::Ge, Node::Gt,
                                      Node::Eq, Node::Ne, Node::ULt};
    Node p = predicates[tape.draw(11)];
    unsigned inside = tape.draw(3);
    if (open && tape.draw(10) == 9)
      return make(Node::FloatLess, {randomInteger(tape, inside, open, tables)},
                  tape.between(-8, 16));
    return make(p, {randomInteger(tape, inside, open, tables),
                    randomInteger(tape, inside, open, tables)});
  }
  switch (tape.draw(14)) {
  case 0:
  case 1:
  case 2:
  case 3:
    return sub() && sub();
  case 4:
  case 5:
  case 6:
  case 7:
    return sub() || sub();
  case 8:
  case 9:
    return !sub();
  case 10:
    return make(Node::Xor, {sub(), sub()});
  case 11:
    return make(Node::Same, {sub(), sub()});
  case 12:
    return make(Node::PickBit, {sub(), sub(), sub()});
  default:
    return make(tape.draw(2) ? Node::True : Node::False);
  }
}

} // namespace attn::test

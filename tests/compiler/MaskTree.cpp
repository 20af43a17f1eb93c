//===- tests/compiler/MaskTree.cpp - Random masks with a meaning ----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "MaskTree.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace attn::test {

static __int128 floorOf(__int128 a, __int128 c) {
  __int128 d = a / c;
  return a % c != 0 && (a < 0) != (c < 0) ? d - 1 : d;
}

__int128 evaluate(const TreeRef &tree, const Point &at) {
  auto x = [&](unsigned i) { return evaluate(tree->args[i], at); };
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
      "const", "arg", "+",   "-",   "*",  "/",   "floordiv", "ceildiv",
      "%",     "min", "max", "abs", "?:", "int", "&",        "true",
      "false", "==",  "!=",  "<",   "<=", ">",   ">=",       "u<",
      "&&",    "||",  "^",   "<=>", "!",  "?:",  "f<"};
  if (tree->node == Node::Const)
    return std::to_string(tree->value);
  if (tree->node == Node::Arg)
    return args[tree->value];
  std::string text = std::string("(") + names[static_cast<int>(tree->node)];
  for (const TreeRef &a : tree->args)
    text += " " + print(a);
  if (tree->node == Node::FloatLess)
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
  func::ReturnOp::create(b, b.getUnknownLoc(), value);
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

static TreeRef randomInteger(Tape &tape, unsigned depth, bool open) {
  auto sub = [&] { return randomInteger(tape, depth - 1, open); };
  auto divisor = [&] {
    auto one = [&] {
      int64_t d = tape.between(1, 9);
      return number(tape.draw(5) == 4 ? -d : d);
    };
    if (tape.draw(8) == 7)
      return make(Node::Pick, {randomCondition(tape, depth > 2 ? 1 : 0, open),
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
                {randomCondition(tape, depth - 1, open), sub(), sub()});
  case 22:
    return make(Node::FromBit, {randomCondition(tape, depth - 1, open)});
  default:
    return open ? make(Node::BitAnd, {sub(), sub()}) : sub() + sub();
  }
}

TreeRef randomCondition(Tape &tape, unsigned depth, bool open) {
  auto sub = [&] { return randomCondition(tape, depth - 1, open); };
  if (depth == 0 || tape.draw(3) == 0) {
    static const Node predicates[] = {Node::Le, Node::Lt, Node::Ge, Node::Gt,
                                      Node::Le, Node::Lt, Node::Ge, Node::Gt,
                                      Node::Eq, Node::Ne, Node::ULt};
    Node p = predicates[tape.draw(11)];
    unsigned inside = tape.draw(3);
    if (open && tape.draw(10) == 9)
      return make(Node::FloatLess, {randomInteger(tape, inside, open)},
                  tape.between(-8, 16));
    return make(p, {randomInteger(tape, inside, open),
                    randomInteger(tape, inside, open)});
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

//===- compiler/ImportExpr.cpp - Expressions in a region -----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Importer.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace attn {

Value Importer::variable(StringRef name) {
  if (name == "s")
    return score;
  int at = llvm::StringSwitch<int>(name)
               .Case("b", MaskB)
               .Case("h", MaskH)
               .Case("g", MaskG)
               .Case("q", MaskQ)
               .Case("k", MaskK)
               .Case("q_len", MaskQLen)
               .Case("kv_len", MaskKvLen)
               .Default(-1);
  return at < 0 ? Value() : block->getArgument(first + at);
}

/// Whether an expression has one value for a whole work item.
static bool ofTheHead(const Spec &spec, const ExprRef &e) {
  if (e->kind == ExprKind::Name && !e->isList) {
    const Let *let = spec.findLet(e->name);
    return let ? true : e->name == "h" || e->name == "g";
  }
  if (e->kind == ExprKind::Call && e->args.empty())
    return false;
  return llvm::all_of(e->args, [&](const ExprRef &arg) {
    return arg->isList || ofTheHead(spec, arg);
  });
}

/// One of `values` by its number: a chain of selects, which the range analysis
/// sees through and which is worked out once a work item.
Value Importer::choose(Value at, ArrayRef<Value> values) {
  Value result = values.front();
  for (size_t i = 1; i < values.size(); ++i)
    if (values[i] != values[i - 1]) {
      // From here on, until another condition overrides it.
      Value reached = compare(arith::CmpIPredicate::sge, at, constant(i));
      result = fold<arith::SelectOp>(reached, values[i], result);
    }
  return result;
}

Value Importer::listElement(const Expr &e, const Let &let) {
  // One that depends on positions is looked up for each pair.
  const int64_t most = ofTheHead(spec, e.args[1]) ? 512 : 64;
  if (e.args.size() != 2 || int64_t(let.value->args.size()) > most)
    return failed(
        e, "'" + print(std::make_shared<Expr>(e)) + "' is not lowered yet",
        "a list of up to 512 constants indexed by an expression of h and g is, "
        "and of up to 64 by any other; longer ones can be parameters");
  Value at = expr(e.args[1]);
  SmallVector<Value> values;
  for (const ExprRef &element : let.value->args) {
    // The same constant is the same value, so that runs of it merge.
    size_t i = values.size();
    bool repeated = i > 0 && equal(element, let.value->args[i - 1]);
    values.push_back(repeated ? values.back() : expr(element));
    if (!values.back())
      return {};
  }
  b.setLoc(toLocation(context, e.where));
  // One float makes all of a list floats.
  if (llvm::any_of(values, [](Value v) { return v.getType().isF32(); }))
    for (Value &v : values)
      v = toFloat(v);
  return at ? choose(at, values) : Value();
}

Value Importer::indexed(const Expr &e) {
  const std::string &name = e.args[0]->name;
  if (const Let *let = spec.findLet(name))
    return listElement(e, *let);
  const Param *of = spec.findParam(name);
  if (!of)
    return failed(e, "'" + name + "' has no elements here",
                  "lists and parameters have");
  SmallVector<Value> at;
  for (const ExprRef &index : llvm::drop_begin(e.args)) {
    at.push_back(expr(index));
    if (!at.back())
      return {};
  }
  return param(e, *of, at);
}

Value Importer::param(const Expr &e, const Param &of, ArrayRef<Value> given) {
  b.setLoc(toLocation(context, e.where));
  if (given.size() != of.dims.size())
    return failed(e,
                  "'" + of.name + "' has " + std::to_string(of.dims.size()) +
                      " dimensions, but " + std::to_string(given.size()) +
                      " indices are given",
                  "one index a dimension");
  auto isArgument = [&](Value v, MaskArg which) {
    return v == block->getArgument(first + which);
  };
  SmallVector<Value> at(given);
  SmallVector<bool> inside;
  for (size_t d = 0; d < at.size(); ++d) {
    Value &index = at[d];
    const Dim &dim = of.dims[d];
    int64_t extent = 0;
    bool is = false;
    // What lies past a sequence's own length is padding, whoever asks.
    auto within = [&](Value length) {
      Value end = fold<arith::SubIOp>(length, constant(1));
      index = fold<arith::MinSIOp>(index, end);
    };
    switch (dim.kind) {
    case Dim::Batch:
      is = isArgument(index, MaskB);
      break;
    case Dim::Heads:
      is = isArgument(index, MaskH);
      extent = spec.heads;
      break;
    case Dim::KvHeads:
      is = isArgument(index, MaskG);
      extent = spec.kvHeads;
      break;
    case Dim::Keys:
    case Dim::Tokens:
      is = isArgument(index, MaskK);
      if (is || (dim.kind == Dim::Tokens && isArgument(index, MaskQ)))
        break;
      within(dim.kind == Dim::Tokens && spec.align == Align::TopLeft
                 ? fold<arith::MaxSIOp>(variable("q_len"), variable("kv_len"))
                 : variable("kv_len"));
      break;
    case Dim::Queries: {
      // Counted from the first query, wherever that is.
      const bool isOwn = isArgument(index, MaskQ);
      if (spec.align == Align::BottomRight)
        index = fold<arith::SubIOp>(
            index, fold<arith::SubIOp>(variable("kv_len"), variable("q_len")));
      if (!isOwn)
        within(variable("q_len"));
      break;
    }
    case Dim::Constant:
      extent = dim.constant;
      break;
    }
    llvm::APInt known;
    if (matchPattern(index, m_ConstantInt(&known)))
      is |= !known.isNegative() && known.slt(extent);
    inside.push_back(is);
  }
  const bool isFloat =
      of.type == Type::F32 || of.type == Type::F16 || of.type == Type::BF16;
  mlir::Type type = isFloat                ? mlir::Type(b.getF32Type())
                    : of.type == Type::I32 ? mlir::Type(b.getI32Type())
                                           : mlir::Type(b.getI1Type());
  return ParamOp::create(b, type, b.getI64IntegerAttr(&of - spec.params.data()),
                         b.getStringAttr(of.name),
                         TypeAttr::get(storedType(of.type)),
                         b.getDenseBoolArrayAttr(inside), at);
}

void Importer::rely(Value argument, int32_t flag) {
  if (auto op = argument ? argument.getDefiningOp<ParamOp>() : ParamOp())
    paramFlags[op.getNumber()] |= flag;
}

/// Whether an expression may differ between the pairs of a call's head.
static bool readsPair(const Spec &spec, const ExprRef &e) {
  if (e->kind == ExprKind::Name)
    return e->name == "q" || e->name == "k" || e->name == "s";
  if (e->kind == ExprKind::Call && e->type == Type::Bool)
    return true;
  return llvm::any_of(e->args,
                      [&](const ExprRef &arg) { return readsPair(spec, arg); });
}

bool Importer::isDivisor(const ExprRef &e) {
  if (auto value = known(e))
    return *value != 0;
  // The language has tried what depends on the head for every head; the
  // runtime looks at what a parameter holds.
  if (ofTheHead(spec, e))
    return true;
  const bool isParam =
      (e->kind == ExprKind::Name && spec.findParam(e->name)) ||
      (e->kind == ExprKind::Index && spec.findParam(e->args[0]->name));
  return isParam && !readsPair(spec, e);
}

Value Importer::expr(const ExprRef &ref) {
  const Expr &e = *ref;
  b.setLoc(toLocation(context, e.where));
  switch (e.kind) {
  case ExprKind::Int:
    return bounded(e, constant(e.intValue));
  case ExprKind::Float:
    return arith::ConstantOp::create(
        b, b.getF32FloatAttr(static_cast<float>(e.floatValue)));
  case ExprKind::Bool:
    return arith::ConstantOp::create(b, b.getBoolAttr(e.intValue != 0));
  case ExprKind::Name: {
    if (const Let *let = spec.findLet(e.name); let && !e.isList)
      return expr(let->value);
    if (const Param *of = spec.findParam(e.name))
      return param(e, *of, {});
    if (Value v = variable(e.name))
      return v;
    return failed(e, "'" + e.name + "' is not lowered yet here",
                  "s, b, h, g, q, k, q_len, kv_len, constants and parameters "
                  "are");
  }
  case ExprKind::Unary: {
    Value x = expr(e.args[0]);
    if (!x)
      return {};
    if (e.op == Op::Not)
      return fold<arith::XOrIOp>(
          x, arith::ConstantOp::create(b, b.getBoolAttr(true)));
    return x.getType().isF32() ? fold<arith::NegFOp>(x)
                               : fold<arith::SubIOp>(constant(0), x);
  }
  case ExprKind::Binary:
    return bounded(e, binary(e));
  case ExprKind::Select: {
    Value c = expr(e.args[0]), x = expr(e.args[1]), y = expr(e.args[2]);
    if (!c || !x || !y)
      return {};
    if (x.getType() != y.getType())
      x = toFloat(x), y = toFloat(y);
    return fold<arith::SelectOp>(c, x, y);
  }
  case ExprKind::Call:
    return call(e);
  case ExprKind::Index:
    return indexed(e);
  case ExprKind::List:
    return failed(e, "a list is not a value here", "index it");
  }
  llvm_unreachable("every kind is handled");
}

Value Importer::binary(const Expr &e) {
  if (isDilation(e)) {
    Value q = variable("q"), d = expr(dilation->divisor);
    Value congruent = CongruentOp::create(b, variable("k"), q, d);
    if (!dilation->ofRemainders)
      return congruent;
    // Remainders have the sign of the dividend: that of a position before the
    // first equals that of a key only if both are 0.
    Value both =
        fold<arith::OrIOp>(compare(arith::CmpIPredicate::sge, q, constant(0)),
                           compare(arith::CmpIPredicate::eq,
                                   fold<arith::RemSIOp>(q, d), constant(0)));
    return fold<arith::AndIOp>(congruent, both);
  }
  Value x = expr(e.args[0]), y = expr(e.args[1]);
  if (!x || !y)
    return {};
  b.setLoc(toLocation(context, e.where));
  bool isFloat = x.getType().isF32() || y.getType().isF32();
  if (isFloat)
    x = toFloat(x), y = toFloat(y);
  auto cmp = [&](arith::CmpIPredicate i, arith::CmpFPredicate f) -> Value {
    return isFloat ? fold<arith::CmpFOp>(f, x, y) : compare(i, x, y);
  };
  switch (e.op) {
  case Op::Or:
    return fold<arith::OrIOp>(x, y);
  case Op::And:
    return fold<arith::AndIOp>(x, y);
  case Op::Eq:
    return cmp(arith::CmpIPredicate::eq, arith::CmpFPredicate::OEQ);
  case Op::Ne:
    return cmp(arith::CmpIPredicate::ne, arith::CmpFPredicate::UNE);
  case Op::Lt:
    return cmp(arith::CmpIPredicate::slt, arith::CmpFPredicate::OLT);
  case Op::Le:
    return cmp(arith::CmpIPredicate::sle, arith::CmpFPredicate::OLE);
  case Op::Gt:
    return cmp(arith::CmpIPredicate::sgt, arith::CmpFPredicate::OGT);
  case Op::Ge:
    return cmp(arith::CmpIPredicate::sge, arith::CmpFPredicate::OGE);
  case Op::Add:
    return isFloat ? fold<arith::AddFOp>(x, y) : fold<arith::AddIOp>(x, y);
  case Op::Sub:
    return isFloat ? fold<arith::SubFOp>(x, y) : fold<arith::SubIOp>(x, y);
  case Op::Mul:
    return isFloat ? fold<arith::MulFOp>(x, y) : fold<arith::MulIOp>(x, y);
  case Op::Div:
  case Op::Rem: {
    if (isFloat && e.op == Op::Div)
      return fold<arith::DivFOp>(x, y);
    // An integer division by zero would be a trap in the middle of a kernel.
    if (isFloat || !isDivisor(e.args[1]))
      return failed(e, "divisor '" + print(e.args[1]) + "' is not lowered yet",
                    "an integer of constants, h and g other than 0 is, and a "
                    "parameter that does not depend on q or k");
    rely(y, ATTN_PARAM_NONZERO);
    return e.op == Op::Div ? fold<arith::DivSIOp>(x, y)
                           : fold<arith::RemSIOp>(x, y);
  }
  default:
    llvm_unreachable("not a binary operator");
  }
}

} // namespace attn

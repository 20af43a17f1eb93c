//===- compiler/Import.cpp - From a Spec to attn.attention ----------------===//
//
// Part of attnc. Apache-2.0.
//
// The one place that gives the language's built-in masks their meaning in IR:
// from here on a mask is an expression over positions, whoever wrote it.
//
//===----------------------------------------------------------------------===//
#include "compiler/Import.h"
#include "compiler/Dilation.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "runtime/attn_abi.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/bit.h"
#include <cmath>

using namespace mlir;

namespace attn {

Location toLocation(MLIRContext &context, SourceRange where) {
  if (where.line == 0)
    return UnknownLoc::get(&context);
  return FileLineColRange::get(StringAttr::get(&context, "text"), where.line,
                               where.column, where.line,
                               where.column + where.length);
}

SourceRange toSourceRange(Location loc) {
  if (auto range = dyn_cast<FileLineColRange>(loc))
    return {range.getStartLine(), range.getStartColumn(),
            range.getEndColumn() > range.getStartColumn()
                ? range.getEndColumn() - range.getStartColumn()
                : 1};
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (SourceRange where = toSourceRange(part); where.line)
        return where;
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return toSourceRange(call.getCallee());
  if (auto named = dyn_cast<NameLoc>(loc))
    return toSourceRange(named.getChildLoc());
  return {};
}

namespace {

class Importer {
public:
  Importer(MLIRContext &context, const Spec &spec,
           std::vector<Diagnostic> &diagnostics)
      : context(context), spec(spec), diagnostics(diagnostics),
        b(UnknownLoc::get(&context), &context) {}

  OwningOpRef<ModuleOp> run();

private:
  void refuse(SourceRange where, std::string message, std::string hint) {
    diagnostics.push_back({where, std::move(message), std::move(hint)});
  }
  void refuseWhatIsNotLowered();
  FloatAttr scale();
  /// Writes an expression into a region over the coordinates of a pair.
  void importRegion(Region &target, const ExprRef &e, bool isScore);
  void importMask(Region &target);

  Value variable(StringRef name);
  Value expr(const ExprRef &e);
  Value listElement(const Expr &e);
  Value choose(Value at, ArrayRef<Value> values);
  Value neighborhood(const Expr &e, ArrayRef<Value> args);
  Value alibiSlope(Value head);
  Value floatFunction(StringRef name, ArrayRef<Value> args);
  Value call(const Expr &e);
  Value binary(const Expr &e);
  Value failed(const Expr &e, std::string message, std::string hint) {
    refuse(e.where, std::move(message), std::move(hint));
    return {};
  }

  Value constant(int64_t value) {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
  }
  template <typename OpTy, typename... Args> Value fold(Args &&...args) {
    return b.createOrFold<OpTy>(std::forward<Args>(args)...);
  }
  /// A position plus or minus a constant must stay within 32 bits.
  Value bounded(const Expr &e, Value v) {
    llvm::APInt known;
    if (v && v.getType().isInteger(32) &&
        matchPattern(v, m_ConstantInt(&known)) &&
        known.abs().ugt(ATTN_MAX_TOKENS))
      return failed(e,
                    "constant " + std::to_string(known.getSExtValue()) +
                        " is not lowered in a mask",
                    "magnitudes up to " + std::to_string(ATTN_MAX_TOKENS) +
                        ", the longest sequence, are");
    return v;
  }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return fold<arith::CmpIOp>(predicate, x, y);
  }
  Value toFloat(Value v) {
    return v.getType().isF32() ? v : fold<arith::SIToFPOp>(b.getF32Type(), v);
  }
  /// The value of an integer that is known here, if it is.
  std::optional<int64_t> known(const ExprRef &e) {
    if (auto value = evaluateConstant(spec, e))
      return static_cast<int64_t>(*value);
    return std::nullopt;
  }

  MLIRContext &context;
  const Spec &spec;
  std::vector<Diagnostic> &diagnostics;
  ImplicitLocOpBuilder b;
  Block *block = nullptr; ///< of the region being written
  unsigned first = 0;     ///< its first integer argument
  /// The condition that the op's `dilation` stands for.
  std::optional<Dilation> dilation;
  bool isDilation(const Expr &e) const {
    return dilation && dilation->condition == &e;
  }
};

void Importer::refuseWhatIsNotLowered() {
  for (const Param &p : spec.params)
    refuse(p.where, "parameter '" + p.name + "' is not lowered yet",
           "variants without parameters are; fix a scalar with -D " + p.name +
               "=VALUE");
  auto field = [&](const char *name, bool used, const char *allowed) {
    if (used)
      refuse(spec.placeOf(name),
             std::string("'") + name + "' is not lowered yet", allowed);
  };
  field("sink", spec.sink != nullptr, "variants without a sink are");
  field("rope", spec.rope.has_value(), "variants without rope are");
  field("latent", spec.latent != 0, "variants without latent are");
  for (auto [what, type] : {std::pair<const char *, Type>{"q", spec.qType},
                            {"kv", spec.kvType},
                            {"out", spec.outType}})
    if (type != Type::F32) {
      refuse(spec.placeOf("type"),
             std::string("type ") + name(type) + " of " + what +
                 " is not lowered yet",
             "f32 is");
      break;
    }
}

FloatAttr Importer::scale() {
  double value = 1 / std::sqrt(static_cast<double>(spec.qkDim));
  if (spec.scale) {
    auto given = evaluateConstant(spec, spec.scale);
    if (!given || !std::isfinite(static_cast<float>(*given))) {
      refuse(spec.scale->where,
             given ? "scale is not a finite f32" : "scale is not a constant",
             "a finite constant is allowed");
      return {};
    }
    value = *given;
  }
  return b.getF64FloatAttr(value);
}

Value Importer::variable(StringRef name) {
  if (name == "s")
    return first == 1 ? block->getArgument(0) : Value();
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

Value Importer::listElement(const Expr &e) {
  const Let *let = spec.findLet(e.args[0]->name);
  const int64_t most = 512;
  if (!let || e.args.size() != 2 || !ofTheHead(spec, e.args[1]) ||
      int64_t(let->value->args.size()) > most)
    return failed(
        e, "'" + print(std::make_shared<Expr>(e)) + "' is not lowered yet",
        "a list of up to " + std::to_string(most) +
            " constants indexed by an expression of h and g is");
  Value at = expr(e.args[1]);
  SmallVector<Value> values;
  for (const ExprRef &element : let->value->args) {
    // The same constant is the same value, so that runs of it merge.
    size_t i = values.size();
    bool repeated = i > 0 && equal(element, let->value->args[i - 1]);
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
    if (Value v = variable(e.name))
      return v;
    return failed(e, "'" + e.name + "' is not lowered yet here",
                  "s, b, h, g, q, k, q_len, kv_len and constants are");
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
    return listElement(e);
  case ExprKind::List:
    return failed(e, "a list is not a value here", "index it");
  }
  llvm_unreachable("every kind is handled");
}

Value Importer::binary(const Expr &e) {
  if (isDilation(e)) {
    if (!dilation->ofRemainders)
      return arith::ConstantOp::create(b, b.getBoolAttr(true));
    // Remainders have the sign of the dividend: that of a position before the
    // first equals that of a key only if both are 0.
    Value q = variable("q"), d = expr(dilation->divisor);
    return fold<arith::OrIOp>(
        compare(arith::CmpIPredicate::sge, q, constant(0)),
        compare(arith::CmpIPredicate::eq, fold<arith::RemSIOp>(q, d),
                constant(0)));
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
    // The language has tried what depends on the head for every head.
    auto divisor = known(e.args[1]);
    if (isFloat || (divisor ? *divisor == 0 : !ofTheHead(spec, e.args[1])))
      return failed(e, "divisor '" + print(e.args[1]) + "' is not lowered yet",
                    "an integer of constants, h and g other than 0 is");
    return e.op == Op::Div ? fold<arith::DivSIOp>(x, y)
                           : fold<arith::RemSIOp>(x, y);
  }
  default:
    llvm_unreachable("not a binary operator");
  }
}

Value Importer::neighborhood(const Expr &e, ArrayRef<Value> args) {
  // Exactly n keys of the query's residue class modulo d, n/2 to the left,
  // shifted inwards at the ends; the whole class where it is shorter. In units
  // of d: the query is number i of its class, which has `length` keys.
  auto n = known(e.args[0]);
  auto d = e.args.size() > 1 ? known(e.args[1]) : std::optional<int64_t>(1);
  if (!n || !d || *n < 1 || *d < 1)
    return failed(
        e, "'" + print(std::make_shared<Expr>(e)) + "' is not lowered yet",
        "a neighborhood of constant size and dilation is");
  Value q = variable("q"), k = variable("k"), length = variable("kv_len");
  Value residue = constant(0), number = q, zero = constant(0),
        dilation = args.size() > 1 ? args[1] : constant(1);
  Value sameClass;
  if (*d > 1) {
    // The remainder of a negative position is made positive.
    residue = fold<arith::RemSIOp>(
        fold<arith::AddIOp>(fold<arith::RemSIOp>(q, dilation), dilation),
        dilation);
    number = fold<arith::DivSIOp>(fold<arith::SubIOp>(q, residue), dilation);
    length = fold<arith::DivSIOp>(
        fold<arith::AddIOp>(fold<arith::SubIOp>(length, residue),
                            constant(*d - 1)),
        dilation);
    if (!isDilation(e))
      sameClass = compare(
          arith::CmpIPredicate::eq,
          fold<arith::RemSIOp>(fold<arith::SubIOp>(k, q), dilation), zero);
  }
  Value start = fold<arith::MaxSIOp>(
      fold<arith::MinSIOp>(fold<arith::SubIOp>(number, constant(*n / 2)),
                           fold<arith::SubIOp>(length, args[0])),
      zero);
  auto place = [&](Value i) -> Value {
    return *d > 1
               ? fold<arith::AddIOp>(fold<arith::MulIOp>(i, dilation), residue)
               : i;
  };
  Value within =
      fold<arith::AndIOp>(compare(arith::CmpIPredicate::sge, k, place(start)),
                          compare(arith::CmpIPredicate::slt, k,
                                  place(fold<arith::AddIOp>(start, args[0]))));
  return sameClass ? fold<arith::AndIOp>(sameClass, within) : within;
}

/// The slope that the ALiBi paper (Press et al., 2022) publishes for a head: a
/// geometric series for a power of two of heads; else that of the next lower
/// power, then every other one of the next higher.
Value Importer::alibiSlope(Value head) {
  int64_t lower = llvm::bit_floor(uint64_t(spec.heads));
  SmallVector<Value> slopes;
  for (int64_t h = 0; h < spec.heads; ++h) {
    double exponent = h < lower ? 8.0 * (h + 1) / lower
                                : 8.0 * (2 * (h - lower) + 1) / (2 * lower);
    slopes.push_back(arith::ConstantOp::create(
        b, b.getF32FloatAttr(static_cast<float>(std::exp2(-exponent)))));
  }
  return choose(head, slopes);
}

Value Importer::floatFunction(StringRef name, ArrayRef<Value> args) {
  auto one = [&] { return arith::ConstantOp::create(b, b.getF32FloatAttr(1)); };
  auto unary = [&](auto tag) -> Value {
    return decltype(tag)::create(b, toFloat(args[0]));
  };
  if (name == "exp")
    return unary(math::ExpOp());
  if (name == "exp2")
    return unary(math::Exp2Op());
  if (name == "log")
    return unary(math::LogOp());
  if (name == "log2")
    return unary(math::Log2Op());
  if (name == "sqrt")
    return unary(math::SqrtOp());
  if (name == "tanh")
    return unary(math::TanhOp());
  if (name == "floor")
    return unary(math::FloorOp());
  if (name == "sigmoid") { // 1 / (1 + exp(-x))
    Value e = math::ExpOp::create(b, fold<arith::NegFOp>(toFloat(args[0])));
    return fold<arith::DivFOp>(one(), fold<arith::AddFOp>(one(), e));
  }
  if (name == "softcap") { // c * tanh(x / c)
    Value c = toFloat(args[1]);
    llvm::APFloat known(0.0f);
    Value x = toFloat(args[0]), inverse = fold<arith::DivFOp>(one(), c);
    // A product is cheaper than a quotient, where the inverse is a number.
    x = matchPattern(inverse, m_ConstantFloat(&known)) && known.isNormal()
            ? fold<arith::MulFOp>(x, inverse)
            : fold<arith::DivFOp>(x, c);
    Value t = math::TanhOp::create(b, x);
    return fold<arith::MulFOp>(c, t);
  }
  return {};
}

Value Importer::call(const Expr &e) {
  Value q = variable("q"), k = variable("k");
  if (e.name == "causal")
    return compare(arith::CmpIPredicate::sle, k, q);
  SmallVector<Value> args;
  if (e.name == "global")
    return failed(e, "'global' is not lowered yet",
                  "causal, window, sliding, neighborhood and prefix are");
  for (const ExprRef &arg : e.args) {
    args.push_back(expr(arg));
    if (!args.back())
      return {};
  }
  b.setLoc(toLocation(context, e.where));
  if (e.name == "sliding") // q - n < k
    return compare(arith::CmpIPredicate::slt, fold<arith::SubIOp>(q, args[0]),
                   k);
  if (e.name == "prefix") // k < n
    return compare(arith::CmpIPredicate::slt, k, args[0]);
  if (e.name == "window") {
    // (k - q) % d == 0 && -l*d <= k - q && k - q <= r*d
    Value left = args[0], right = args.size() > 1 ? args[1] : args[0];
    Value distance = fold<arith::SubIOp>(k, q);
    Value residue;
    if (args.size() > 2) {
      auto d = known(e.args[2]);
      if (!d && !ofTheHead(spec, e.args[2]))
        return failed(e,
                      "dilation '" + print(e.args[2]) + "' is not lowered yet",
                      "an expression of constants, h and g is");
      left = bounded(e, fold<arith::MulIOp>(left, args[2]));
      right = bounded(e, fold<arith::MulIOp>(right, args[2]));
      if (!left || !right)
        return {};
      if (!isDilation(e) && (!d || *d > 1))
        residue = compare(arith::CmpIPredicate::eq,
                          fold<arith::RemSIOp>(distance, args[2]), constant(0));
    }
    Value lower = compare(arith::CmpIPredicate::sle,
                          fold<arith::SubIOp>(constant(0), left), distance);
    Value both = fold<arith::AndIOp>(
        lower, compare(arith::CmpIPredicate::sle, distance, right));
    return residue ? fold<arith::AndIOp>(both, residue) : both;
  }
  if (e.name == "neighborhood")
    return neighborhood(e, args);
  if (e.name == "alibi_slope")
    return alibiSlope(args[0]);
  if (Value value = floatFunction(e.name, args))
    return value;
  bool isFloat =
      llvm::any_of(args, [](Value v) { return v.getType().isF32(); });
  auto less = [&](Value x, Value y) -> Value {
    return isFloat ? fold<arith::CmpFOp>(arith::CmpFPredicate::OLT, x, y)
                   : compare(arith::CmpIPredicate::slt, x, y);
  };
  if (isFloat)
    for (Value &v : args)
      v = toFloat(v);
  if (e.name == "abs") {
    Value negative = isFloat ? fold<arith::NegFOp>(args[0])
                             : fold<arith::SubIOp>(constant(0), args[0]);
    return fold<arith::SelectOp>(less(args[0], negative), negative, args[0]);
  }
  if (!isFloat)
    return e.name == "min" ? fold<arith::MinSIOp>(args[0], args[1])
                           : fold<arith::MaxSIOp>(args[0], args[1]);
  Value first =
      e.name == "min" ? less(args[0], args[1]) : less(args[1], args[0]);
  return fold<arith::SelectOp>(first, args[0], args[1]);
}

void Importer::importRegion(Region &target, const ExprRef &e, bool isScore) {
  OpBuilder::InsertionGuard guard(b);
  block = b.createBlock(&target);
  first = isScore;
  if (isScore)
    block->addArgument(b.getF32Type(), b.getLoc());
  for (unsigned i = 0; i < kMaskArgs; ++i)
    block->addArgument(b.getI32Type(), b.getLoc());
  b.setInsertionPointToStart(block);
  Value value = expr(e);
  if (!value)
    return;
  b.setLoc(toLocation(context, e->where));
  YieldOp::create(b, isScore ? toFloat(value) : value);
}

void Importer::importMask(Region &target) {
  importRegion(target, spec.mask, /*isScore=*/false);
  // A mask that is always true is no mask.
  if (block->mightHaveTerminator() &&
      matchPattern(block->getTerminator()->getOperand(0), m_One()))
    target.getBlocks().clear();
}

OwningOpRef<ModuleOp> Importer::run() {
  refuseWhatIsNotLowered();
  FloatAttr scaleAttr = scale();
  dilation = findDilation(spec);
  OwningOpRef<ModuleOp> module(ModuleOp::create(b.getLoc()));
  b.setInsertionPointToEnd(module->getBody());
  b.setLoc(toLocation(context, spec.where));
  auto f32 = TypeAttr::get(b.getF32Type());
  auto op = AttentionOp::create(
      b, b.getStringAttr(spec.name), b.getI64IntegerAttr(spec.heads),
      b.getI64IntegerAttr(spec.kvHeads),
      spec.kvMap.empty() ? DenseI64ArrayAttr()
                         : b.getDenseI64ArrayAttr(spec.kvMap),
      dilation ? b.getDenseI64ArrayAttr(dilation->ofHead) : DenseI64ArrayAttr(),
      b.getI64IntegerAttr(spec.qkDim), b.getI64IntegerAttr(spec.valueDim), f32,
      f32, f32, scaleAttr ? scaleAttr : b.getF64FloatAttr(1),
      AlignmentAttr::get(&context, spec.align == Align::TopLeft
                                       ? Alignment::TopLeft
                                       : Alignment::BottomRight),
      PlanAttr());
  // `score = s` is no score expression.
  bool plain = !spec.score ||
               (spec.score->kind == ExprKind::Name && spec.score->name == "s");
  if (!plain)
    importRegion(op.getScore(), spec.score, /*isScore=*/true);
  if (spec.mask)
    importMask(op.getMask());
  if (!diagnostics.empty())
    return nullptr;
  return module;
}

} // namespace

OwningOpRef<ModuleOp> importSpec(MLIRContext &context, const Spec &spec,
                                 std::vector<Diagnostic> &diagnostics) {
  context.loadDialect<AttnDialect, arith::ArithDialect, math::MathDialect>();
  std::vector<Diagnostic> own;
  auto module = Importer(context, spec, own).run();
  diagnostics.insert(diagnostics.end(), own.begin(), own.end());
  return module;
}

} // namespace attn

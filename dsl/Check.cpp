//===- dsl/Check.cpp - The rules of a variant -----------------------------===//
//
// Part of attnc. Apache-2.0.
//
// Names first (parameters, then lets in order), then the sizes, then the
// expressions, whose indices are checked against the sizes.
//
//===----------------------------------------------------------------------===//
#include "dsl/Check.h"
#include "dsl/CheckExpr.h"
#include "dsl/VariantChecker.h"

#include <cmath>
#include <fmt/format.h>
#include <unordered_set>

using namespace attn;
using namespace attn::internal;

static constexpr unsigned kEverywhere = DependsOnBatch | DependsOnHead |
                                        DependsOnQuery | DependsOnKey |
                                        DependsOnLength | DependsOnParam;

static const Place kScale = {"'scale'", DependsOnParam, true};
static const Place kScore = {"'score'", kEverywhere | DependsOnScore, false};
static const Place kMask = {"'mask'", kEverywhere, false};
static const Place kSink = {"'sink'", DependsOnHead | DependsOnParam, false};

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

void VariantChecker::checkParams() {
  spec.params.reserve(draft.params.size()); // names refer to the elements
  declaredParams.reserve(draft.params.size());
  for (const DraftParam &from : draft.params) {
    Context context(errors, contextOf("parameter", from.name));
    if (!exprs.declare(from.name, from.where))
      continue;
    std::optional<Type> type = findType(from.type);
    bool allowed = false;
    for (std::string_view word : paramTypeWords())
      allowed |= word == from.type;
    if (!allowed) {
      errors.add(
          from.typeWhere,
          fmt::format("{} is not a type of parameters", quote(from.type)),
          suggestOrList(from.type, paramTypeWords()));
      exprs.define(from.name, static_cast<const Param *>(nullptr));
      continue;
    }
    Param param;
    param.name = from.name;
    param.type = *type;
    param.where = from.where;
    // Uses are checked against the number of dimensions; what they are follows
    // when the lets are known.
    param.dims.resize(from.dims.size());
    spec.params.push_back(std::move(param));
    declaredParams.push_back(&from);
    if (*type == Type::Tokens && !from.dims.empty()) {
      errors.add(
          from.typeWhere,
          fmt::format("{} of type tokens has dimensions", quote(from.name)),
          "'tokens' alone is a list of positions for each sequence");
      exprs.define(from.name, static_cast<const Param *>(nullptr));
      continue;
    }
    exprs.define(from.name, &spec.params.back());
  }
}

void VariantChecker::checkDims() {
  for (size_t i = 0; i < spec.params.size(); ++i) {
    const DraftParam &from = *declaredParams[i];
    Param &param = spec.params[i];
    Context context(errors, contextOf("parameter", from.name));
    for (size_t d = 0; d < from.dims.size(); ++d) {
      const ExprRef &dim = from.dims[d];
      Dim &to = param.dims[d];
      if (!dim)
        continue;
      if (dim->kind == ExprKind::Name) {
        if (std::optional<Dim::Kind> extent = findExtent(dim->name)) {
          to.kind = *extent;
          continue;
        }
        if (!exprs.isDeclared(dim->name)) {
          errors.add(dim->where,
                     fmt::format("unknown dimension {}", quote(dim->name)),
                     suggestOrList(dim->name, extentWords()));
          continue;
        }
      }
      std::string what = fmt::format("dimension {} of {}", d, quote(from.name));
      if (auto value = constantInt(dim, what, 1))
        to.constant = *value;
    }
  }
}

/// `from` (constant, checked, i32) as f32 literals.
static ExprRef toFloat(const ExprRef &from, const LetValues &lets) {
  auto expr = std::make_shared<Expr>();
  expr->type = Type::F32;
  expr->where = from->where;
  if (from->kind == ExprKind::List) {
    expr->kind = ExprKind::List;
    expr->isList = true;
    for (const ExprRef &element : from->args)
      expr->args.push_back(toFloat(element, lets));
    return expr;
  }
  uint64_t work = std::numeric_limits<uint64_t>::max();
  const double value = evaluate(*from, lets, {}, work).number();
  expr->kind = ExprKind::Float;
  expr->floatValue = std::fabs(value);
  if (value >= 0)
    return expr;
  auto negative = std::make_shared<Expr>();
  negative->kind = ExprKind::Unary;
  negative->op = Op::Neg;
  negative->type = Type::F32;
  negative->where = from->where;
  negative->args.push_back(std::move(expr));
  return negative;
}

ExprRef VariantChecker::checkLetValue(const ExprRef &value,
                                      const std::string &what) {
  if (!value)
    return nullptr;
  const Place place = {what};
  if (value->kind == ExprKind::List)
    return exprs.checkList(value, place).expr;
  return exprs.check(value, place).expr;
}

void VariantChecker::checkLet(const DraftLet &from) {
  Context context(errors, contextOf("let", from.name));
  if (!exprs.declare(from.name, from.where))
    return;
  const std::string what = quote(from.name);
  Let let;
  let.name = from.name;
  let.where = from.where;
  if (from.fixedBy.empty()) {
    let.value = checkLetValue(from.value, what);
  } else {
    // The type stays what the text says, so that -D c=30 does not turn
    // `let c = 30.5` and a division by it into integers.
    std::optional<Type> type;
    bool isList = false;
    bool known = true;
    if (!from.declaredType.empty()) {
      type = findType(from.declaredType);
      if (type == Type::F16 || type == Type::BF16)
        type = Type::F32;
      known = type == Type::Bool || type == Type::I32 || type == Type::F32;
      if (!known)
        errors.add(from.where,
                   fmt::format("{} is not a type of parameters",
                               quote(from.declaredType)),
                   suggestOrList(from.declaredType, paramTypeWords()));
    } else if (ExprRef original = checkLetValue(from.value, what)) {
      type = original->type;
      isList = original->isList;
    } else {
      known = false; // reported above
    }
    Context fixed(errors, from.fixedBy);
    ExprRef value = checkLetValue(from.fixed, what);
    if (value && known) {
      bool promoted = type == Type::F32 && value->type == Type::I32;
      if (value->isList != isList || (value->type != type && !promoted)) {
        errors.add({}, fmt::format("{} is {}{}, this is {}{}", quote(from.name),
                                   isList ? "a list of " : "", name(*type),
                                   value->isList ? "a list of " : "",
                                   name(value->type)));
        value = nullptr;
      } else if (promoted) {
        value = toFloat(value, exprs.letValues());
      }
    }
    let.value = known ? value : nullptr;
  }
  if (!let.value) {
    exprs.define(from.name, static_cast<const Param *>(nullptr));
    return;
  }
  spec.lets.push_back(std::move(let));
  exprs.define(spec.lets.back());
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

std::optional<Constant> VariantChecker::constant(const ExprRef &expr,
                                                 const std::string &what) {
  const Place place = {what};
  Checked checked = exprs.check(expr, place);
  if (!checked)
    return std::nullopt;
  if (!checked.value) {
    errors.add(expr->where, fmt::format("{} has no constant value", what));
    return std::nullopt;
  }
  return checked.value;
}

std::optional<int64_t> VariantChecker::constantInt(const ExprRef &expr,
                                                   const std::string &what,
                                                   int64_t least) {
  std::optional<Constant> value = constant(expr, what);
  if (!value)
    return std::nullopt;
  if (value->kind != Constant::Int) {
    errors.add(expr->where,
               fmt::format("{} is {}, not an integer", what, value->text()),
               fmt::format("it must be an integer of at least {}", least));
    return std::nullopt;
  }
  if (value->integer < least) {
    errors.add(expr->where, fmt::format("{} is {}", what, value->integer),
               fmt::format("it must be at least {}", least));
    return std::nullopt;
  }
  return value->integer;
}

std::optional<double> VariantChecker::constantNumber(const ExprRef &expr,
                                                     const std::string &what) {
  std::optional<Constant> value = constant(expr, what);
  if (!value)
    return std::nullopt;
  if (value->kind == Constant::Bool || !std::isfinite(value->number())) {
    errors.add(expr->where, fmt::format("{} is {}", what, value->text()),
               "it must be a finite number");
    return std::nullopt;
  }
  return value->number();
}

std::string VariantChecker::word(const ExprRef &expr, const std::string &what,
                                 const Words &allowed) {
  if (expr->kind == ExprKind::Name)
    for (std::string_view candidate : allowed)
      if (candidate == expr->name)
        return expr->name;
  if (expr->kind == ExprKind::Name || expr->kind == ExprKind::Call)
    errors.add(expr->where,
               fmt::format("{} cannot be {}", what, quote(expr->name)),
               suggestOrList(expr->name, allowed));
  else
    errors.add(expr->where, fmt::format("{} must be a word", what),
               "allowed: " + oneOf(allowed));
  return "";
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

ExprRef VariantChecker::numberField(const DraftField *field,
                                    const Place &place) {
  if (!field)
    return nullptr;
  Context context(errors, contextOf("field", field->name));
  if (!isPlain(*field))
    return nullptr;
  Checked checked = exprs.check(field->value, place);
  if (!checked)
    return nullptr;
  if (!checked.isNumber()) {
    errors.add(field->valueWhere,
               fmt::format("{} must be f32, this is {}", place.what,
                           name(checked.type())));
    return nullptr;
  }
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (&place == &kScale && checked.value &&
      !(std::fabs(checked.value.number()) <= kLargest)) {
    errors.add(field->valueWhere,
               fmt::format("'scale' is {}", checked.value.text()),
               "it must be finite in f32");
    return nullptr;
  }
  return checked.expr;
}

void VariantChecker::checkMask() {
  const DraftField *field = find("mask");
  if (!field)
    return;
  Context context(errors, contextOf("field", field->name));
  if (!isPlain(*field))
    return;
  Checked checked = exprs.check(field->value, kMask);
  if (!checked)
    return;
  if (checked.type() != Type::Bool) {
    errors.add(
        field->valueWhere,
        fmt::format("'mask' must be bool, this is {}", name(checked.type())),
        "a mask says which keys are allowed, as in k <= q");
    return;
  }
  spec.mask = checked.expr;
}

//===----------------------------------------------------------------------===//
// The whole
//===----------------------------------------------------------------------===//

VariantChecker::VariantChecker(const Draft &draft, Errors &errors,
                               uint64_t &work)
    : draft(draft), errors(errors),
      exprs(spec, errors, work, draft.incomplete) {}

std::string VariantChecker::contextOf(const char *kind,
                                      const std::string &name) const {
  return fmt::format("{} {} of {}", kind, quote(name), quote(draft.name));
}

Spec VariantChecker::run() {
  Context context(errors, "variant " + quote(draft.name));
  spec.name = draft.name;
  spec.where = draft.where;
  if (!isIdentifier(draft.name))
    errors.add(draft.where, fmt::format("{} is not a name", quote(draft.name)),
               "names are letters, digits and '_', a letter first");
  checkParams();
  spec.lets.reserve(draft.lets.size()); // names refer to the elements
  for (const DraftLet &let : draft.lets)
    if (!errors.full())
      checkLet(let);
  checkDims();
  collectFields();
  checkSizes();
  checkTypes();
  checkAlign();
  checkRope();
  spec.scale = numberField(find("scale"), kScale);
  spec.score = numberField(find("score"), kScore);
  checkMask();
  spec.sink = numberField(find("sink"), kSink);
  return std::move(spec);
}

std::optional<Spec> internal::checkDraft(const Draft &draft, Errors &errors,
                                         uint64_t &work) {
  size_t before = errors.count();
  Spec spec = VariantChecker(draft, errors, work).run();
  if (errors.count() != before || errors.full())
    return std::nullopt;
  return spec;
}

ParseResult internal::checkAll(std::vector<Draft> drafts,
                               const ParseOptions &options, Errors &errors,
                               bool wellFormed) {
  applyDefines(drafts, options, errors, wellFormed);
  ParseResult result;
  std::unordered_set<std::string_view> names;
  uint64_t work = 1 << 20; // of the whole text, so that reading stays linear
  for (const Draft &draft : drafts) {
    if (errors.full())
      break;
    if (!names.insert(draft.name).second) {
      Context context(errors, "variant " + quote(draft.name));
      errors.add(draft.where,
                 fmt::format("{} is declared twice", quote(draft.name)),
                 "each variant of a text has its own name");
    }
    if (std::optional<Spec> spec = checkDraft(draft, errors, work))
      result.specs.push_back(std::move(*spec));
  }
  if (drafts.empty() && wellFormed)
    errors.add({1, 1, 0}, "the text has no 'attention'",
               "a variant is written as in attention x { heads = 8 head_dim = "
               "64 }");
  result.diagnostics = errors.take();
  if (!result.ok())
    result.specs.clear();
  return result;
}

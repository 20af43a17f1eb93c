//===- dsl/CheckExpr.cpp - Names and types of expressions -----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "dsl/CheckExpr.h"

#include <fmt/format.h>

using namespace attn;
using namespace attn::internal;

namespace {
/// Sets a flag for a scope.
class Scoped {
public:
  Scoped(bool &flag, bool value) : flag(flag), saved(flag) { flag = value; }
  ~Scoped() { flag = saved; }
  Scoped(const Scoped &) = delete;
  Scoped &operator=(const Scoped &) = delete;

private:
  bool &flag;
  bool saved;
};
} // namespace

bool ExprChecker::declare(std::string_view name, SourceRange where) {
  if (!isIdentifier(name)) {
    report(where, fmt::format("{} is not a name", quote(name)),
           "names are letters, digits and '_', a letter first");
    return false;
  }
  if (isReserved(name)) {
    report(where, fmt::format("{} is a word of the language", quote(name)),
           "choose another name");
    return false;
  }
  if (!names.emplace(name, Entity()).second) {
    report(where, fmt::format("{} is declared twice", quote(name)));
    return false;
  }
  declared.push_back(name);
  return true;
}

void ExprChecker::define(std::string_view name, const Param *param) {
  names[name] = {param, nullptr, param == nullptr};
}

void ExprChecker::define(const Let &let) {
  names[let.name] = {nullptr, &let, false};
  lets.add(let);
}

const Let *ExprChecker::findList(std::string_view name) const {
  auto found = names.find(name);
  if (found == names.end() || !found->second.let ||
      !found->second.let->value->isList)
    return nullptr;
  return found->second.let;
}

Checked ExprChecker::report(SourceRange where, std::string message,
                            std::string hint) {
  errors.add(where, std::move(message), std::move(hint));
  return {};
}

Checked ExprChecker::check(const ExprRef &expr, const Place &where) {
  place = &where;
  dead = guarded = false;
  return expr ? checkNode(expr) : Checked();
}

Checked ExprChecker::checkList(const ExprRef &expr, const Place &where) {
  place = &where;
  dead = guarded = false;
  if (expr->args.empty())
    return report(expr->where, "the list is empty", "a list has an element");
  std::vector<Checked> elements;
  Type type = Type::Bool;
  bool good = true;
  for (const ExprRef &arg : expr->args) {
    Checked element = checkNode(arg);
    if (element && elements.empty()) {
      type = element.type();
    } else if (element && element.type() != type) {
      bool numbers = element.isNumber() && type != Type::Bool;
      if (!numbers) {
        element = report(arg->where,
                         fmt::format("this element is {}, those before it {}",
                                     name(element.type()), name(type)),
                         "the elements of a list have one type");
      }
      type = Type::F32;
    }
    good &= bool(element);
    if (!good)
      type = Type::F32;
    elements.push_back(std::move(element));
    if (errors.full())
      break;
  }
  if (!good)
    return {};
  Checked list = finish(expr, type, std::move(elements), {}, Fault::None);
  if (list) {
    auto copy = std::make_shared<Expr>(*list.expr);
    copy->isList = true;
    list.expr = std::move(copy);
  }
  return list;
}

/// The node with its type and checked arguments. Reports what makes a value
/// known when compiling impossible.
Checked ExprChecker::finish(const ExprRef &from, Type type,
                            std::vector<Checked> args, Constant value,
                            Fault fault) {
  if (fault != Fault::None && !dead)
    return report(from->where,
                  fault == Fault::Overflow ? "this integer does not fit in i32"
                                           : "this divides by zero",
                  fault == Fault::Overflow
                      ? "the range is -2147483648 to 2147483647"
                      : "the divisor of integers must not be 0");
  Checked result;
  auto expr = std::make_shared<Expr>();
  expr->kind = from->kind;
  expr->op = from->op;
  expr->type = type;
  expr->name = from->name;
  expr->where = from->where;
  expr->args.reserve(args.size());
  for (Checked &arg : args) {
    result.dependence |= arg.dependence;
    expr->args.push_back(std::move(arg.expr));
  }
  result.expr = std::move(expr);
  result.value = convert(value, type);
  return result;
}

Checked ExprChecker::checkNode(const ExprRef &expr) {
  switch (expr->kind) {
  case ExprKind::Int:
    if (expr->intValue < 0 || expr->intValue > INT32_MAX)
      return report(
          expr->where,
          fmt::format("integer {} does not fit in i32", expr->intValue),
          "the largest is 2147483647");
    return {expr, literal(*expr), 0};
  case ExprKind::Float:
    // Also false for a NaN. The parser makes no such literal, a builder may.
    if (!(expr->floatValue >= 0 &&
          expr->floatValue <= std::numeric_limits<float>::max()))
      return report(
          expr->where,
          fmt::format("number {} does not fit in f32", expr->floatValue),
          "numbers are finite, at most 3.4028234e38");
    return {expr, literal(*expr), 0};
  case ExprKind::Bool:
    return {expr, literal(*expr), 0};
  case ExprKind::Name:
    return checkName(expr);
  case ExprKind::List:
    return report(expr->where, "a list stands here",
                  "a list is the value of a 'let' or of 'kv_map'");
  case ExprKind::Unary:
    return checkUnary(expr);
  case ExprKind::Binary:
    return checkBinary(expr);
  case ExprKind::Select:
    return checkSelect(expr);
  case ExprKind::Index:
    return checkIndex(expr);
  case ExprKind::Call:
    return checkCall(expr);
  }
  return {};
}

Checked ExprChecker::unknownName(const ExprRef &expr) {
  // It may have been in what was skipped; or nobody will see the suggestion.
  if (incomplete || errors.full())
    return {};
  if (const Function *function = findFunction(expr->name))
    return report(expr->where,
                  fmt::format("{} is a function", quote(expr->name)),
                  fmt::format("write {}", function->signature));
  for (std::string_view field : fieldWords())
    if (expr->name == field)
      return report(expr->where,
                    fmt::format("{} is a field, not a value", quote(field)),
                    "a 'let' gives a constant a name that both can use");
  Words candidates = variableWords();
  candidates.insert(candidates.end(), {"causal", "true", "false"});
  candidates.insert(candidates.end(), declared.begin(), declared.end());
  return report(expr->where, fmt::format("unknown name {}", quote(expr->name)),
                suggest(expr->name, candidates));
}

/// Whether a parameter may be used in this place.
Checked ExprChecker::checkParamUse(const ExprRef &expr, const Param &param) {
  if (!(place->allowed & DependsOnParam))
    return report(expr->where,
                  fmt::format("{} is a parameter, but {} must be constant",
                              quote(param.name), place->what),
                  "constants are literals, 'let's and arithmetic");
  if (place->onlyIntParams && param.type != Type::I32)
    return report(
        expr->where,
        fmt::format("{} is of type {}", quote(param.name), name(param.type)),
        fmt::format("{} may use constants and i32 parameters", place->what));
  if (param.type == Type::Tokens)
    return report(expr->where,
                  fmt::format("{} is of type tokens", quote(param.name)),
                  fmt::format("write global({})", param.name));
  Checked result;
  result.expr = expr;
  result.dependence = DependsOnParam;
  return result;
}

Type ExprChecker::valueType(Type type) {
  return type == Type::F16 || type == Type::BF16 ? Type::F32 : type;
}

std::string ExprChecker::variablesHint() const {
  Words words;
  for (std::string_view word : variableWords())
    if (findVariable(word)->dependence & place->allowed)
      words.push_back(word);
  if (words.empty())
    return fmt::format("{} must be constant", place->what);
  return fmt::format("{} may use {}", place->what, oneOf(words));
}

Checked ExprChecker::checkName(const ExprRef &expr) {
  if (expr->name == "causal") {
    const Function &causal = *findFunction("causal");
    if (causal.dependence & ~place->allowed)
      return report(expr->where,
                    fmt::format("'causal' is not allowed in {}", place->what),
                    variablesHint());
    Expr call = *expr;
    call.kind = ExprKind::Call;
    call.type = Type::Bool;
    return {std::make_shared<Expr>(std::move(call)), {}, causal.dependence};
  }
  if (const Variable *variable = findVariable(expr->name)) {
    if (variable->dependence & ~place->allowed)
      return report(expr->where,
                    fmt::format("{} is not allowed in {}", quote(expr->name),
                                place->what),
                    variablesHint());
    Checked result = finish(expr, variable->type, {}, {}, Fault::None);
    result.dependence = variable->dependence;
    return result;
  }
  auto found = names.find(expr->name);
  if (found == names.end())
    return unknownName(expr);
  const Entity &entity = found->second;
  if (const Param *param = entity.param) {
    Checked use = checkParamUse(expr, *param);
    if (!use)
      return {};
    if (!param->dims.empty())
      return report(expr->where,
                    fmt::format("{} has {} dimension{}", quote(param->name),
                                param->dims.size(),
                                param->dims.size() == 1 ? "" : "s"),
                    fmt::format("index it, as in {}[h]", param->name));
    Checked result = finish(expr, valueType(param->type), {}, {}, Fault::None);
    result.dependence = DependsOnParam;
    return result;
  }
  if (const Let *let = entity.let) {
    if (let->value->isList)
      return report(expr->where, fmt::format("{} is a list", quote(let->name)),
                    fmt::format("index it, as in {}[h]", let->name));
    return finish(expr, let->value->type, {}, lets.scalar(let->name),
                  Fault::None);
  }
  if (!entity.broken)
    return report(expr->where,
                  fmt::format("{} is not known yet here", quote(expr->name)),
                  "a 'let' may use those before it");
  return {};
}

bool ExprChecker::wantBool(const Checked &operand, const std::string &what) {
  if (operand.type() == Type::Bool)
    return true;
  report(operand.expr->where,
         fmt::format("{} must be bool, this is {}", what, name(operand.type())),
         "compare it, as in x != 0");
  return false;
}

static std::string_view spelling(Op op) {
  static constexpr std::string_view kSpellings[] = {
      "?",  "-", "!",  "||", "&&", "==", "!=", "<",
      "<=", ">", ">=", "+",  "-",  "*",  "/",  "%"};
  return kSpellings[unsigned(op)];
}

Checked ExprChecker::checkUnary(const ExprRef &expr) {
  Checked operand = checkNode(expr->args[0]);
  if (!operand)
    return {};
  if (expr->op == Op::Not) {
    if (!wantBool(operand, "the operand of '!'"))
      return {};
  } else if (!operand.isNumber()) {
    return report(operand.expr->where,
                  fmt::format("the operand of '-' must be i32 or f32, this is "
                              "{}",
                              name(operand.type())));
  }
  Fault fault = Fault::None;
  Constant value = foldUnary(expr->op, operand.value, fault);
  Type type = operand.type();
  std::vector<Checked> args;
  args.push_back(std::move(operand));
  return finish(expr, type, std::move(args), value, fault);
}

Checked ExprChecker::checkBinary(const ExprRef &expr) {
  const Op op = expr->op;
  const bool isLogic = op == Op::And || op == Op::Or;
  const bool isEquality = op == Op::Eq || op == Op::Ne;
  const bool isComparison = op >= Op::Eq && op <= Op::Ge;
  Checked left = checkNode(expr->args[0]);
  Checked right;
  {
    bool known = isLogic && left && left.value;
    bool skipped =
        known && (op == Op::And ? left.value.isFalse() : left.value.isTrue());
    Scoped inDead(dead, dead || skipped);
    Scoped inGuarded(guarded, guarded || (isLogic && !known));
    right = checkNode(expr->args[1]);
  }
  if (!left || !right)
    return {};
  const std::string what = fmt::format("an operand of '{}'", spelling(op));
  if (isLogic) {
    bool good = wantBool(left, what);
    if (!wantBool(right, what) || !good)
      return {};
  } else {
    bool bothBool = left.type() == Type::Bool && right.type() == Type::Bool;
    for (const Checked *side : {&left, &right})
      if (!side->isNumber() && !(isEquality && bothBool))
        return report(side->expr->where,
                      fmt::format("{} must be i32 or f32, this is {}", what,
                                  name(side->type())),
                      isComparison
                          ? "a < b < c is written a < b && b < c"
                          : "a condition becomes a number by c ? 1 : 0");
    if (op == Op::Rem)
      for (const Checked *side : {&left, &right})
        if (side->type() != Type::I32)
          return report(side->expr->where,
                        fmt::format("{} must be i32, this is f32", what));
  }
  Type type = Type::Bool;
  if (!isLogic && !isComparison)
    type = left.type() == Type::F32 || right.type() == Type::F32 ? Type::F32
                                                                 : Type::I32;
  Fault fault = Fault::None;
  Constant value = foldBinary(op, left.value, right.value, fault);
  // A divisor known to be 0 is wrong whatever is divided.
  if ((op == Op::Div || op == Op::Rem) && type == Type::I32 &&
      right.value.kind == Constant::Int && right.value.integer == 0)
    fault = Fault::DivisionByZero;
  std::vector<Checked> args;
  args.push_back(std::move(left));
  args.push_back(std::move(right));
  return finish(expr, type, std::move(args), value, fault);
}

Checked ExprChecker::checkSelect(const ExprRef &expr) {
  Checked condition = checkNode(expr->args[0]);
  Checked arms[2];
  for (unsigned i = 0; i < 2; ++i) {
    bool known = condition && condition.value;
    bool skipped = known && condition.value.isTrue() == (i == 1);
    Scoped inDead(dead, dead || skipped);
    Scoped inGuarded(guarded, guarded || !known);
    arms[i] = checkNode(expr->args[1 + i]);
  }
  if (!condition || !arms[0] || !arms[1])
    return {};
  if (!wantBool(condition, "the condition of '?:'"))
    return {};
  Type type = arms[0].type();
  if (arms[0].type() != arms[1].type()) {
    if (!arms[0].isNumber() || !arms[1].isNumber())
      return report(expr->args[2]->where,
                    fmt::format("the two values of '?:' are {} and {}",
                                name(arms[0].type()), name(arms[1].type())),
                    "both are bool, or both are numbers");
    type = Type::F32;
  }
  Constant value;
  if (condition.value)
    value = arms[condition.value.isTrue() ? 0 : 1].value;
  std::vector<Checked> args;
  args.push_back(std::move(condition));
  args.push_back(std::move(arms[0]));
  args.push_back(std::move(arms[1]));
  return finish(expr, type, std::move(args), value, Fault::None);
}

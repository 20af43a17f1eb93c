//===- dsl/CheckCall.cpp - Calls and indices ------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "dsl/CheckExpr.h"

#include <cmath>
#include <fmt/format.h>

using namespace attn;
using namespace attn::internal;

namespace {
/// What the value of a built-in's argument must be.
struct Limit {
  std::string_view function;
  unsigned argument;
  std::string_view name;
  int64_t least;
};
} // namespace

static constexpr Limit kLimits[] = {
    {"window", 0, "l", 0},       {"window", 1, "r", 0},
    {"window", 2, "d", 1},       {"sliding", 0, "n", 1},
    {"neighborhood", 0, "n", 1}, {"neighborhood", 1, "d", 1},
    {"prefix", 0, "n", 0},
};

template <typename Test>
void ExprChecker::forEachValue(const Checked &of, Test test) {
  if (dead)
    return;
  if (of.value) {
    test(of.value, std::string());
    return;
  }
  // A condition may keep a head from using the value it would have.
  if (guarded || of.dependence != DependsOnHead)
    return;
  for (int64_t h = 0; h < spec.heads && work > 0; ++h) {
    int64_t g = spec.kvHeadOf(h);
    Constant value = evaluate(*of.expr, lets,
                              {Constant::ofInt(h), Constant::ofInt(g)}, work);
    if (value && !test(value, fmt::format(" for h = {}", h)))
      return;
  }
}

std::optional<int64_t> ExprChecker::extentOf(const Dim &dim) const {
  int64_t extent = dim.kind == Dim::Constant  ? dim.constant
                   : dim.kind == Dim::Heads   ? spec.heads
                   : dim.kind == Dim::KvHeads ? spec.kvHeads
                                              : 0;
  if (extent <= 0) // of the call, or in error
    return std::nullopt;
  return extent;
}

bool ExprChecker::checkIndexRange(const Checked &index, const std::string &list,
                                  std::optional<int64_t> extent) {
  bool good = true;
  forEachValue(index, [&](Constant value, const std::string &forHead) {
    if (value.integer >= 0 && (!extent || value.integer < *extent))
      return true;
    report(index.expr->where,
           fmt::format("index {} of {} is out of range{}", value.integer, list,
                       forHead),
           extent ? fmt::format("it has {} elements, counted from 0", *extent)
                  : "indices count from 0");
    return good = false;
  });
  return good;
}

Checked ExprChecker::checkIndex(const ExprRef &expr) {
  const ExprRef &base = expr->args[0];
  // The parser makes no others, a builder may.
  if (base->kind != ExprKind::Name)
    return report(base->where, "only a name can be indexed");
  if (expr->args.size() == 1)
    return report(expr->where,
                  fmt::format("{} has no index", quote(base->name)),
                  "an index is written as in list[h]");
  const std::string &baseName = base->name;
  auto found = names.find(baseName);
  if (found == names.end()) {
    if (findVariable(baseName))
      return report(base->where, fmt::format("{} is a number and has no index",
                                             quote(baseName)));
    return unknownName(base);
  }
  const Param *param = found->second.param;
  const Let *let = found->second.let;
  if (!param && !let)
    return checkName(base);
  size_t rank = 1;
  if (param) {
    if (!checkParamUse(base, *param))
      return {};
    rank = param->dims.size();
  } else if (!let->value->isList) {
    rank = 0;
  }
  if (rank == 0)
    return report(base->where, fmt::format("{} is a scalar and has no index",
                                           quote(baseName)));
  size_t given = expr->args.size() - 1;
  if (given != rank)
    return report(expr->where,
                  fmt::format("{} has {} dimension{}, but {} {} given",
                              quote(baseName), rank, rank == 1 ? "" : "s",
                              given, given == 1 ? "index is" : "indices are"));

  std::vector<Checked> args(1);
  Type type = param ? valueType(param->type) : let->value->type;
  Expr typedBase = *base;
  typedBase.type = type;
  typedBase.isList = let != nullptr;
  args[0].expr = std::make_shared<Expr>(std::move(typedBase));
  if (param)
    args[0].dependence = DependsOnParam;
  bool good = true;
  for (size_t i = 0; i < rank; ++i) {
    Checked index = checkNode(expr->args[1 + i]);
    if (index && index.type() != Type::I32) {
      index = report(
          index.expr->where,
          fmt::format("an index must be i32, this is {}", name(index.type())));
    } else if (index) {
      std::optional<int64_t> extent =
          param ? extentOf(param->dims[i])
                : std::optional<int64_t>(let->value->args.size());
      if (!checkIndexRange(index, quote(baseName), extent))
        index = {};
    }
    good &= bool(index);
    args.push_back(std::move(index));
  }
  if (!good)
    return {};
  Constant value;
  const Constant index = args[1].value;
  if (let && index.kind == Constant::Int)
    if (const std::vector<Constant> *list = lets.list(baseName))
      if (index.integer >= 0 && uint64_t(index.integer) < list->size())
        value = (*list)[index.integer];
  return finish(expr, type, std::move(args), value, Fault::None);
}

Checked ExprChecker::checkTokensCall(const ExprRef &expr,
                                     const Function &function) {
  const ExprRef &arg = expr->args[0];
  auto found =
      arg->kind == ExprKind::Name ? names.find(arg->name) : names.end();
  const std::string hint = "it is declared as in attention x(t: tokens)";
  if (found == names.end()) {
    if (arg->kind == ExprKind::Name && !findVariable(arg->name))
      return unknownName(arg);
    return report(arg->where, "'global' takes a parameter of type tokens",
                  hint);
  }
  const Entity &entity = found->second;
  if (entity.broken)
    return {};
  if (!entity.param || entity.param->type != Type::Tokens)
    return report(arg->where,
                  fmt::format("'global' takes a parameter of type tokens, "
                              "{} is none",
                              quote(arg->name)),
                  hint);
  std::vector<Checked> args(1);
  Expr tokens = *arg;
  tokens.type = Type::Tokens;
  args[0].expr = std::make_shared<Expr>(std::move(tokens));
  args[0].dependence = DependsOnParam | function.dependence;
  return finish(expr, Type::Bool, std::move(args), {}, Fault::None);
}

/// Types of the arguments by the kind of function, and limits of their values.
bool ExprChecker::checkArguments(const Expr &call, const Function &function,
                                 std::vector<Checked> &args) {
  bool good = true;
  for (size_t i = 0; i < args.size(); ++i) {
    const Checked &arg = args[i];
    const SourceRange where = arg.expr->where;
    bool wantsInt = function.arguments == Arguments::Positions ||
                    function.arguments == Arguments::Head;
    if (wantsInt ? arg.type() != Type::I32 : !arg.isNumber()) {
      report(where,
             fmt::format("{} takes {}, this is {}", quote(call.name),
                         wantsInt ? "i32" : "numbers", name(arg.type())),
             fmt::format("{}", function.signature));
      good = false;
      continue;
    }
    for (const Limit &limit : kLimits) {
      if (limit.function != call.name || limit.argument != i)
        continue;
      forEachValue(arg, [&](Constant value, const std::string &forHead) {
        if (value.integer >= limit.least)
          return true;
        report(where,
               fmt::format("{} of {} is {}{}", quote(limit.name),
                           function.signature, value.integer, forHead),
               fmt::format("it must be at least {}", limit.least));
        return good = false;
      });
    }
  }
  if (!good)
    return false;
  if (call.name == "softcap")
    forEachValue(args[1], [&](Constant value, const std::string &forHead) {
      if (value.number() > 0 && std::isfinite(value.number()))
        return true;
      report(args[1].expr->where,
             fmt::format("'c' of softcap(x, c) is {}{}", value.text(), forHead),
             "it must be positive and finite");
      return good = false;
    });
  if (function.arguments == Arguments::Head)
    forEachValue(args[0], [&](Constant value, const std::string &forHead) {
      if (value.integer >= 0 && (spec.heads == 0 || value.integer < spec.heads))
        return true;
      report(
          args[0].expr->where,
          fmt::format("'h' of alibi_slope(h) is {}{}", value.integer, forHead),
          spec.heads ? fmt::format("heads count from 0 to {}", spec.heads - 1)
                     : "heads count from 0");
      return good = false;
    });
  if (call.name == "neighborhood")
    for (const Checked &arg : args)
      if (arg.dependence & DependsOnKey) {
        report(arg.expr->where,
               "the neighborhood of a query cannot depend on the key");
        good = false;
      }
  return good;
}

Checked ExprChecker::checkCall(const ExprRef &expr) {
  const Function *function = findFunction(expr->name);
  if (!function) {
    bool isName = names.count(expr->name) || findVariable(expr->name);
    return report(expr->where,
                  isName
                      ? fmt::format("{} is not a function", quote(expr->name))
                      : fmt::format("unknown function {}", quote(expr->name)),
                  isName ? "" : suggest(expr->name, functionWords()));
  }
  const size_t given = expr->args.size();
  if (function->maxArgs == 0)
    return report(expr->where,
                  fmt::format("{} takes no arguments", quote(expr->name)),
                  "it is written without parentheses");
  if (given < function->minArgs || given > function->maxArgs)
    return report(expr->where,
                  fmt::format("{} takes {}{} argument{}, but {} {} given",
                              quote(expr->name),
                              function->minArgs == function->maxArgs
                                  ? ""
                                  : fmt::format("{} to ", function->minArgs),
                              function->maxArgs,
                              function->maxArgs == 1 ? "" : "s", given,
                              given == 1 ? "is" : "are"),
                  fmt::format("{}", function->signature));
  if (function->dependence & ~place->allowed)
    return report(
        expr->where,
        fmt::format("{} is not allowed in {}", quote(expr->name), place->what),
        variablesHint());
  // The slopes follow from the number of heads, which a constant does not know.
  if (function->arguments == Arguments::Head &&
      !(place->allowed & DependsOnHead))
    return report(
        expr->where,
        fmt::format("{} is not allowed in {}", quote(expr->name), place->what),
        variablesHint());
  if (function->arguments == Arguments::Tokens)
    return checkTokensCall(expr, *function);

  std::vector<Checked> args;
  bool good = true;
  for (const ExprRef &arg : expr->args) {
    args.push_back(checkNode(arg));
    good &= bool(args.back());
  }
  if (!good || !checkArguments(*expr, *function, args))
    return {};
  Type type = Type::F32;
  if (function->arguments == Arguments::Positions)
    type = Type::Bool;
  else if (function->arguments == Arguments::Numbers) {
    type = Type::I32;
    for (const Checked &arg : args)
      if (arg.type() == Type::F32)
        type = Type::F32;
  }
  std::vector<Constant> values;
  for (const Checked &arg : args)
    values.push_back(arg.value);
  Fault fault = Fault::None;
  Constant value = foldCall(expr->name, values, fault);
  unsigned dependence = function->dependence;
  Checked result = finish(expr, type, std::move(args), value, fault);
  if (result)
    result.dependence |= dependence;
  return result;
}

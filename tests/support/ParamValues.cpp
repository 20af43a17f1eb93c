//===- tests/support/ParamValues.cpp - Random values of parameters --------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Parameters.h"
#include "tests/support/Tensor.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace attn::test {

namespace {

/// Larger arrays are given with an extent of 1 somewhere.
constexpr size_t kMostElements = size_t{1} << 17;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Collects how parameters are used, by walking the expressions.
class UseFinder {
public:
  UseFinder(const Spec &spec, std::vector<ParamUse> &uses)
      : spec(spec), uses(uses) {}

  /// What stands around a part of an expression.
  struct Around {
    bool positive = false; ///< the part itself must be
    bool compared = false; ///< the part is compared, and no more
    bool scale = false;
    enum Value : uint8_t {
      None,   ///< only conditions, indices and the like depend on it
      Score,  ///< the value of a score does
      Added,  ///< it is added to a score
      AsSink, ///< it is the sink
    } value = None;
  };

  void visit(const ExprRef &expr, const Around &around) {
    if (!expr)
      return;
    switch (expr->kind) {
    case ExprKind::Name:
      use(expr->name, around);
      break;
    case ExprKind::Index:
      use(expr->args[0]->name, around);
      for (size_t n = 1; n < expr->args.size(); ++n)
        visit(expr->args[n], {});
      break;
    case ExprKind::Select: {
      visit(expr->args[0], {});
      Around arm = around;
      arm.compared = false;
      visit(expr->args[1], arm);
      visit(expr->args[2], arm);
      break;
    }
    case ExprKind::Binary:
      binary(*expr, around);
      break;
    case ExprKind::Call:
      call(*expr, around);
      break;
    default:
      for (const ExprRef &arg : expr->args)
        visit(arg, inner(around));
    }
  }

private:
  static Around inner(const Around &around) {
    Around result;
    result.scale = around.scale;
    result.value = around.value == Around::None ? Around::None : Around::Score;
    return result;
  }

  void use(const std::string &name, const Around &around) {
    for (size_t n = 0; n < spec.params.size(); ++n) {
      if (spec.params[n].name != name)
        continue;
      ParamUse &use = uses[n];
      use.positive |= around.positive;
      use.inScale |= around.scale;
      use.arithmetic |= !around.compared;
      use.score |= around.value == Around::Score;
      use.added |= around.value == Around::Added;
      use.sink |= around.value == Around::AsSink;
    }
  }

  void binary(const Expr &expr, const Around &around) {
    const ExprRef &a = expr.args[0], &b = expr.args[1];
    if (expr.op >= Op::Eq && expr.op <= Op::Ge) {
      bool self = a->kind == ExprKind::Index && b->kind == ExprKind::Index &&
                  a->args[0]->name == b->args[0]->name;
      for (size_t n = 0; self && n < spec.params.size(); ++n)
        uses[n].document |= spec.params[n].name == a->args[0]->name;
      Around compared;
      compared.compared = true;
      visit(a, compared);
      visit(b, compared);
      return;
    }
    if (expr.op == Op::And || expr.op == Op::Or) {
      visit(a, {});
      visit(b, {});
      return;
    }
    Around left = inner(around), right = left;
    if (expr.op == Op::Add && around.value == Around::Added)
      left.value = right.value = Around::Added;
    if (expr.op == Op::Sub && around.value == Around::Added)
      left.value = Around::Added;
    right.positive = expr.op == Op::Div || expr.op == Op::Rem;
    visit(a, left);
    visit(b, right);
  }

  void call(const Expr &expr, const Around &around) {
    const std::string &f = expr.name;
    for (size_t n = 0; n < expr.args.size(); ++n) {
      Around arg = inner(around);
      arg.positive = (f == "window" && n == 2) || f == "neighborhood" ||
                     (f == "softcap" && n == 1) || f == "sqrt" || f == "log" ||
                     f == "log2";
      arg.compared = f == "prefix" || f == "sliding";
      visit(expr.args[n], arg);
    }
  }

  const Spec &spec;
  std::vector<ParamUse> &uses;
};

/// Draws the values of one array: all from one number of the case's own, so
/// that a case takes no more numbers where arrays are large.
class ValueWriter {
public:
  ValueWriter(uint32_t seed, const Case &c, const ParamUse &use, Type type)
      : choices(seed), use(use), type(type),
        positions(std::max<int64_t>(c.positions(), 1)) {}

  std::vector<double> draw(size_t n, int64_t row) {
    std::vector<double> values;
    values.reserve(n);
    if (type == Type::Bool) {
      int percent = choices.oneOf<int>({85, 50, 97, 10, 100});
      for (size_t e = 0; e < n; ++e)
        values.push_back(choices.chance(percent)
                             ? choices.oneOf<double>({1, 1, 2, 128, 255})
                             : 0);
      return values;
    }
    if (type == Type::I32 && use.document && !use.positive) {
      drawDocuments(values, n, row);
      return values;
    }
    int64_t kind = choices.between(0, 3);
    for (size_t e = 0; e < n; ++e)
      values.push_back(type == Type::I32 ? integer(kind) : real(kind));
    return values;
  }

private:
  /// Packed one after the other along each row, or in any order.
  void drawDocuments(std::vector<double> &values, size_t n, int64_t row) {
    int64_t kind = choices.between(0, 4);
    auto last = static_cast<double>(choices.between(0, 3));
    int percent = static_cast<int>(choices.between(1, 30));
    for (size_t e = 0; e < n; ++e) {
      bool isStart = row > 0 && static_cast<int64_t>(e) % row == 0;
      if (isStart && choices.chance(50))
        last = static_cast<double>(choices.between(0, 3));
      if (kind == 3)
        last = static_cast<double>(choices.between(0, 2));
      else if (kind != 4 && choices.chance(percent))
        last += kind == 2 ? -1 : static_cast<double>(choices.between(1, 3));
      // Numbers of documents may be as large as they like.
      bool large = kind == 2 && !use.arithmetic;
      values.push_back(last + (large ? 1000000000 : 0));
    }
  }

  double integer(int64_t kind) {
    if (use.positive || use.nonzero) {
      auto value = static_cast<double>(choices.between(1, use.inScale ? 4 : 8));
      return use.positive || choices.chance(60) ? value : -value;
    }
    if (use.inScale)
      return static_cast<double>(choices.between(1, 4));
    if (use.score)
      return static_cast<double>(choices.between(-8, 8));
    if (kind == 2 && !use.arithmetic && choices.chance(30))
      return choices.oneOf<double>({-1073741824, 1073741824, 1000003});
    if (kind == 1)
      return static_cast<double>(choices.between(-5, positions + 5));
    return static_cast<double>(choices.between(kind == 3 ? 0 : -4, 40));
  }

  double real(int64_t kind) {
    // As exact in bf16 as in f32.
    double tame = static_cast<double>(choices.between(-64, 64)) / 64;
    if (use.positive)
      return static_cast<double>(choices.between(4, 200)) / 4;
    if (use.nonzero && tame == 0)
      return 1;
    if (use.score || (use.arithmetic && !use.added && !use.sink))
      return tame;
    if (use.sink) {
      if (kind == 3 && choices.chance(40))
        return choices.oneOf<double>({-kInfinity, -30, 20, 100});
      return 4 * tame;
    }
    if (!use.added)
      return tame;
    // So large that the score no longer matters, in f32 as in double.
    if (kind >= 2 && choices.chance(kind == 3 ? 90 : 25))
      return type == Type::F16
                 ? -kInfinity
                 : choices.oneOf<double>({-kInfinity, -kInfinity, -1e30, 1e30});
    return 4 * tame;
  }

  Choices choices;
  const ParamUse &use;
  Type type;
  int64_t positions;
};

void drawTokens(Choices &choices, const Case &c, Argument &argument) {
  bool forAll = choices.chance(25);
  int64_t rows = forAll ? 1 : c.batch;
  int64_t n = choices.between(0, choices.chance(20) ? 40 : 6);
  argument.value.shape = {rows, n};
  argument.otherType = choices.chance(40);
  for (int64_t b = 0; b < rows; ++b) {
    int64_t most = c.batch == 0 ? 0 : c.positionsOf(b);
    for (int64_t other = 0; forAll && other < c.batch; ++other)
      most = std::min(most, c.positionsOf(other));
    bool empty = choices.chance(15);
    for (int64_t e = 0; e < n; ++e)
      argument.value.values.push_back(
          most == 0 || empty || choices.chance(20)
              ? static_cast<double>(-choices.between(1, 9))
              : static_cast<double>(choices.between(0, most - 1)));
  }
}

ArgumentLayout randomArgumentLayout(Choices &choices,
                                    const std::vector<int64_t> &shape) {
  ArgumentLayout layout;
  for (int64_t extent : shape)
    layout.stretched.push_back(extent == 1 && choices.chance(30));
  if (choices.chance(40))
    return layout;
  for (size_t d = 0; d < shape.size(); ++d) {
    layout.order.push_back(static_cast<uint8_t>(d));
    layout.gap.push_back(choices.chance(30) ? choices.between(0, 7) : 0);
    layout.reversed.push_back(choices.chance(15));
  }
  for (size_t n = shape.size(); n-- > 1;)
    if (choices.chance(30))
      std::swap(layout.order[n],
                layout.order[static_cast<size_t>(
                    choices.between(0, static_cast<int64_t>(n)))]);
  if (choices.chance(20))
    layout.step = choices.between(1, 3);
  if (choices.chance(50)) {
    layout.placement = Placement::Start;
    layout.before = choices.chance(50) ? choices.between(0, 15) : 0;
    layout.after = choices.between(0, 15);
  }
  return layout;
}

size_t elementsOf(const std::vector<int64_t> &shape) {
  size_t elements = 1;
  for (int64_t extent : shape)
    elements *= static_cast<size_t>(extent);
  return elements;
}

} // namespace

std::vector<ParamUse> parameterUses(const Spec &spec,
                                    const attn_kernel *kernel) {
  std::vector<ParamUse> uses(spec.params.size());
  UseFinder finder(spec, uses);
  UseFinder::Around score, sink, scale;
  score.value = UseFinder::Around::Added;
  sink.value = UseFinder::Around::AsSink;
  scale.scale = true;
  finder.visit(spec.mask, {});
  finder.visit(spec.score, score);
  finder.visit(spec.sink, sink);
  finder.visit(spec.scale, scale);
  for (size_t n = 0; kernel && n < uses.size(); ++n) {
    uses[n].positive |= (kernel->params[n].flags & ATTN_PARAM_POSITIVE) != 0;
    uses[n].nonzero |= (kernel->params[n].flags & ATTN_PARAM_NONZERO) != 0;
  }
  return uses;
}

void drawParameters(Choices &choices, Case &c, const attn_kernel *kernel) {
  const std::vector<ParamUse> uses = parameterUses(c.spec, kernel);
  c.params.assign(c.spec.params.size(), {});
  for (size_t n = 0; n < c.params.size(); ++n) {
    const Param &param = c.spec.params[n];
    Argument &argument = c.params[n];
    std::vector<int64_t> &shape = argument.value.shape;
    if (param.type == Type::Tokens) {
      drawTokens(choices, c, argument);
    } else {
      for (const Dim &dim : param.dims)
        shape.push_back(choices.chance(12) ? 1 : c.extentOf(dim));
      for (size_t d = 0; elementsOf(shape) > kMostElements; ++d)
        shape[d] = 1;
      argument.otherType = param.type == Type::Bool && choices.chance(40);
      ValueWriter writer(choices.next(), c, uses[n], param.type);
      argument.value.values =
          writer.draw(elementsOf(shape), shape.empty() ? 0 : shape.back());
    }
    argument.layout = randomArgumentLayout(choices, shape);
  }
}

} // namespace attn::test

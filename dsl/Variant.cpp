//===- dsl/Variant.cpp - Variants described in C++ ------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "dsl/Variant.h"
#include "dsl/Check.h"
#include "dsl/Words.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

using namespace attn;
using namespace attn::dsl;
using namespace attn::internal;

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

Ex Ex::make(Expr expr, const std::vector<Ex> &args) {
  Ex result;
  result.size = 1;
  expr.args.reserve(args.size());
  bool good = true;
  for (const Ex &arg : args) {
    result.depth = std::max(result.depth, arg.depth);
    result.size = std::min(result.size + arg.size, kMaxSize + 1);
    good &= arg.node != nullptr;
    expr.args.push_back(arg.node);
  }
  ++result.depth;
  // A tree that is too deep is dropped at once: even freeing it would recurse.
  if (good && result.depth <= kMaxExprDepth && result.size <= kMaxSize)
    result.node = std::make_shared<Expr>(std::move(expr));
  return result;
}

void Ex::setBool(bool value) {
  Expr expr;
  expr.kind = ExprKind::Bool;
  expr.type = Type::Bool;
  expr.intValue = value;
  *this = make(std::move(expr), {});
}

/// Literals have no sign, in texts as here: -5 is the negation of 5, and the
/// least i32, whose positive is none, is -2147483647 - 1.
void Ex::setInt(int64_t value) {
  if (value == INT32_MIN) {
    *this = Ex(-INT32_MAX) - Ex(1);
    return;
  }
  if (value < 0) {
    *this = -Ex(value == INT64_MIN ? INT64_MAX : -value);
    return;
  }
  Expr expr;
  expr.kind = ExprKind::Int;
  expr.type = Type::I32;
  expr.intValue = value;
  *this = make(std::move(expr), {});
}

void Ex::setFloat(double value) {
  if (std::signbit(value) && !std::isnan(value)) {
    *this = -Ex(-value);
    return;
  }
  Expr expr;
  expr.kind = ExprKind::Float;
  expr.type = Type::F32;
  expr.floatValue = value;
  *this = make(std::move(expr), {});
}

Ex Ex::named(std::string name) {
  Expr expr;
  expr.kind = ExprKind::Name;
  expr.name = std::move(name);
  return make(std::move(expr), {});
}

Ex Ex::call(std::string name, std::vector<Ex> args) {
  Expr expr;
  expr.kind = ExprKind::Call;
  expr.name = std::move(name);
  return make(std::move(expr), args);
}

Ex Ex::list(std::vector<Ex> elements) {
  Expr expr;
  expr.kind = ExprKind::List;
  return make(std::move(expr), elements);
}

Ex Ex::unary(Op op, const Ex &operand) {
  Expr expr;
  expr.kind = ExprKind::Unary;
  expr.op = op;
  return make(std::move(expr), {operand});
}

Ex Ex::binary(Op op, const Ex &left, const Ex &right) {
  Expr expr;
  expr.kind = ExprKind::Binary;
  expr.op = op;
  return make(std::move(expr), {left, right});
}

Ex Ex::select(const Ex &condition, const Ex &then, const Ex &otherwise) {
  Expr expr;
  expr.kind = ExprKind::Select;
  return make(std::move(expr), {condition, then, otherwise});
}

Ex Ex::at(std::initializer_list<Ex> indices) const {
  Expr expr;
  expr.kind = ExprKind::Index;
  std::vector<Ex> args = {*this};
  args.insert(args.end(), indices.begin(), indices.end());
  return make(std::move(expr), args);
}

//===----------------------------------------------------------------------===//
// Variants
//===----------------------------------------------------------------------===//

Variant::Variant(std::string name) : draft(std::make_unique<Draft>()) {
  draft->name = std::move(name);
}
Variant::Variant(const Variant &other)
    : draft(std::make_unique<Draft>(*other.draft)), tooLarge(other.tooLarge) {}
Variant &Variant::operator=(const Variant &other) {
  return *this = Variant(other);
}
Variant::Variant(Variant &&other) noexcept = default;
Variant &Variant::operator=(Variant &&other) noexcept = default;
Variant::~Variant() = default;

/// The field of that name, empty.
static DraftField &renew(Draft &draft, std::string_view name) {
  auto same = [&](const DraftField &field) { return field.name == name; };
  auto found = std::find_if(draft.fields.begin(), draft.fields.end(), same);
  if (found == draft.fields.end())
    found = draft.fields.emplace(draft.fields.end());
  *found = DraftField();
  found->name = name;
  return *found;
}

Variant &Variant::setValue(const char *name, const Ex &value) {
  DraftField &field = renew(*draft, name);
  field.value = value.expr();
  field.broken = !field.value;
  return *this;
}

Variant &
Variant::setRecord(const char *name,
                   const std::vector<std::pair<const char *, Ex>> &entries) {
  DraftField &field = renew(*draft, name);
  field.isRecord = true;
  for (const auto &[key, value] : entries) {
    field.entries.push_back({key, {}, value.expr()});
    field.broken |= !value.expr();
  }
  return *this;
}

Variant &Variant::param(std::string name, Type type, std::vector<Ex> dims) {
  DraftParam param;
  for (const Ex &dim : dims) {
    param.dims.push_back(dim.expr());
    if (!dim.expr())
      tooLarge.push_back("parameter " + quote(name));
  }
  param.name = std::move(name);
  param.type = attn::name(type);
  draft->params.push_back(std::move(param));
  return *this;
}

Variant &Variant::let(std::string name, const Ex &value) {
  if (!value.expr())
    tooLarge.push_back("let " + quote(name));
  DraftLet let;
  let.name = std::move(name);
  let.value = value.expr();
  draft->lets.push_back(std::move(let));
  return *this;
}

Variant &Variant::heads(const Ex &count) { return setValue("heads", count); }
Variant &Variant::kvHeads(const Ex &count) {
  return setValue("kv_heads", count);
}
Variant &Variant::kvMap(const Ex &map) { return setValue("kv_map", map); }
Variant &Variant::headDim(const Ex &width) {
  return setValue("head_dim", width);
}
Variant &Variant::headDim(const Ex &qk, const Ex &value) {
  return setRecord("head_dim", {{"qk", qk}, {"value", value}});
}
Variant &Variant::headDim(const Ex &nope, const Ex &rope, const Ex &value) {
  return setRecord("head_dim",
                   {{"nope", nope}, {"rope", rope}, {"value", value}});
}
Variant &Variant::latent(const Ex &width) { return setValue("latent", width); }
Variant &Variant::scale(const Ex &value) { return setValue("scale", value); }
Variant &Variant::score(const Ex &value) { return setValue("score", value); }
Variant &Variant::mask(const Ex &value) { return setValue("mask", value); }
Variant &Variant::sink(const Ex &value) { return setValue("sink", value); }

Variant &Variant::type(Type all) { return setValue("type", ref(name(all))); }
Variant &Variant::type(Type q, Type kv, Type out) {
  return setRecord(
      "type",
      {{"q", ref(name(q))}, {"kv", ref(name(kv))}, {"out", ref(name(out))}});
}

Variant &Variant::align(Align value) {
  return setValue("align",
                  ref(value == Align::TopLeft ? "top_left" : "bottom_right"));
}

Variant &Variant::rope(const Rope &value) {
  static constexpr const char *kScalings[] = {"none", "linear", "llama3",
                                              "yarn"};
  std::vector<std::pair<const char *, Ex>> entries = {
      {"theta", value.theta},
      {"layout",
       ref(value.layout == Rope::Interleaved ? "interleaved" : "half")}};
  if (value.dim != 0)
    entries.push_back({"dim", value.dim});
  if (value.scaling != Rope::None)
    entries.push_back(
        {"scaling", call(kScalings[value.scaling], {value.scalingArgs.begin(),
                                                    value.scalingArgs.end()})});
  return setRecord("rope", entries);
}

ParseResult Variant::build(const ParseOptions &options) const {
  Errors errors;
  std::vector<std::string> parts = tooLarge;
  for (const DraftField &field : draft->fields)
    if (field.broken)
      parts.push_back(quote(field.name));
  for (const std::string &part : parts)
    errors.add({},
               fmt::format("{} of {} is too large", part, quote(draft->name)),
               fmt::format("expressions have at most {} levels and {} parts",
                           kMaxExprDepth, Ex::kMaxSize));
  // Through `checkAll` as texts are, so that the rules are the same.
  std::vector<Draft> drafts;
  drafts.push_back(*draft);
  return checkAll(std::move(drafts), options, errors,
                  /*wellFormed=*/errors.count() == 0);
}

//===- dsl/CheckFields.cpp - Sizes, types and the other fields ------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "dsl/VariantChecker.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

using namespace attn;
using namespace attn::internal;

void VariantChecker::collectFields() {
  const Words &known = fieldWords();
  for (const DraftField &field : draft.fields) {
    Context context(errors, contextOf("field", field.name));
    if (std::find(known.begin(), known.end(), field.name) == known.end()) {
      // Without its '=' it may not have been meant as a field at all.
      if (!field.broken)
        errors.add(field.where,
                   fmt::format("unknown field {}", quote(field.name)),
                   suggestOrList(field.name, known));
      continue;
    }
    auto [at, added] = fields.emplace(field.name, &field);
    if (!added) {
      if (!field.broken && !at->second->broken)
        errors.add(field.where,
                   fmt::format("{} is given twice", quote(field.name)),
                   at->second->where.line
                       ? fmt::format("first on line {}", at->second->where.line)
                       : "");
      continue;
    }
    if (field.valueWhere.line)
      spec.places[field.name] = field.valueWhere;
    for (const DraftEntry &part : field.entries)
      if (part.value && part.value->where.line)
        spec.places[field.name + "." + part.name] = part.value->where;
  }
}

const DraftField *VariantChecker::find(std::string_view name) const {
  auto found = fields.find(name);
  return found == fields.end() || found->second->broken ? nullptr
                                                        : found->second;
}

const DraftField *VariantChecker::require(std::string_view name) {
  const DraftField *field = find(name);
  if (!field && !fields.count(name) && !draft.incomplete)
    errors.add(draft.where,
               fmt::format("{} has no {}", quote(draft.name), quote(name)),
               fmt::format("{} is required", quote(name)));
  return field;
}

/// Reports a field that has braces but is one value.
bool VariantChecker::isPlain(const DraftField &field) {
  if (field.isRecord)
    errors.add(field.valueWhere, fmt::format("{} is one value, without braces",
                                             quote(field.name)));
  return !field.isRecord;
}

bool VariantChecker::checkKeys(const DraftField &field, const Words &keys) {
  bool good = true;
  for (size_t i = 0; i < field.entries.size() && !errors.full(); ++i) {
    const DraftEntry &part = field.entries[i];
    if (std::find(keys.begin(), keys.end(), part.name) == keys.end()) {
      errors.add(
          part.where,
          fmt::format("{} has no part {}", quote(field.name), quote(part.name)),
          suggestOrList(part.name, keys));
      good = false;
    } else if (entry(field, part.name) != &part) {
      errors.add(part.where,
                 fmt::format("{} is given twice", quote(part.name)));
      good = false;
    }
  }
  return good;
}

const DraftEntry *VariantChecker::entry(const DraftField &field,
                                        std::string_view key) const {
  for (const DraftEntry &part : field.entries)
    if (part.name == key)
      return &part;
  return nullptr;
}

std::optional<int64_t> VariantChecker::sizeEntry(const DraftField &field,
                                                 std::string_view key,
                                                 int64_t least) {
  const DraftEntry *part = entry(field, key);
  if (part)
    return constantInt(part->value, fmt::format("'{}.{}'", field.name, key),
                       least);
  errors.add(field.valueWhere,
             fmt::format("{} has no {}", quote(field.name), quote(key)));
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

void VariantChecker::checkSizes() {
  auto size = [&](const DraftField *field) -> int64_t {
    if (!field)
      return 0;
    Context context(errors, contextOf("field", field->name));
    if (!isPlain(*field))
      return 0;
    return constantInt(field->value, quote(field->name), 1).value_or(0);
  };
  spec.heads = size(require("heads"));
  spec.kvHeads = fields.count("kv_heads") ? size(find("kv_heads")) : spec.heads;
  if (spec.heads > 0 && spec.kvHeads > 0)
    checkKvMap();
  spec.latent = size(find("latent"));
  checkHeadDim();
}

void VariantChecker::checkKvMap() {
  const DraftField *field = find("kv_map");
  if (!field)
    return;
  Context context(errors, contextOf("field", field->name));
  if (!isPlain(*field))
    return;
  // The elements with their places, of a list written here or of a let.
  const Expr *list = nullptr;
  Checked literalList;
  if (field->value->kind == ExprKind::List) {
    literalList = exprs.checkList(field->value, Place{"'kv_map'"});
    list = literalList.expr.get();
    if (!list)
      return;
  } else if (field->value->kind == ExprKind::Name) {
    if (const Let *let = exprs.findList(field->value->name))
      list = let->value.get();
  }
  if (!list) {
    // A let with an error of its own has been reported.
    if (field->value->kind == ExprKind::Name &&
        exprs.isDeclared(field->value->name) &&
        !exprs.isUsable(field->value->name))
      return;
    errors.add(field->valueWhere, "'kv_map' must be a list",
               "the kv head of each query head, as in [0, 0, 1, 1]");
    return;
  }
  if (list->type != Type::I32) {
    errors.add(field->valueWhere,
               fmt::format("'kv_map' is a list of {}", name(list->type)),
               "its elements are integers");
    return;
  }
  if (int64_t(list->args.size()) != spec.heads) {
    errors.add(field->valueWhere,
               fmt::format("'kv_map' has {} element{}, 'heads' is {}",
                           list->args.size(), list->args.size() == 1 ? "" : "s",
                           spec.heads),
               "it has one element for each query head");
    return;
  }
  std::vector<int64_t> map;
  map.reserve(list->args.size());
  uint64_t work = std::numeric_limits<uint64_t>::max();
  for (const ExprRef &element : list->args) {
    Constant value = evaluate(*element, exprs.letValues(), {}, work);
    if (value.integer < 0 || value.integer >= spec.kvHeads) {
      errors.add(field->value->kind == ExprKind::List ? element->where
                                                      : field->valueWhere,
                 fmt::format("'kv_map' names kv head {}", value.integer),
                 fmt::format("'kv_heads' is {}, so they count from 0 to {}",
                             spec.kvHeads, spec.kvHeads - 1));
      return;
    }
    map.push_back(value.integer);
  }
  spec.kvMap = std::move(map);
}

void VariantChecker::checkHeadDim() {
  const DraftField *field = require("head_dim");
  if (!field)
    return;
  Context context(errors, contextOf("field", field->name));
  const bool isLatent = fields.count("latent");
  const std::string latentHint =
      "with 'latent' it is { nope = ..., rope = ..., value = ... }";
  if (!field->isRecord) {
    if (isLatent) {
      errors.add(field->valueWhere, "'head_dim' is one number", latentHint);
      return;
    }
    spec.qkDim = constantInt(field->value, "'head_dim'", 1).value_or(0);
    spec.valueDim = spec.qkDim;
    return;
  }
  const bool hasParts = entry(*field, "nope") || entry(*field, "rope");
  if (hasParts && !isLatent && !draft.incomplete) {
    errors.add(field->valueWhere, "'nope' and 'rope' need 'latent'",
               "without it, 'head_dim' is a number or { qk = ..., value = ... "
               "}");
    return;
  }
  if (isLatent && entry(*field, "qk")) {
    errors.add(entry(*field, "qk")->where,
               "'qk' and 'latent' exclude each other", latentHint);
    return;
  }
  if (!checkKeys(*field, isLatent || hasParts ? Words{"nope", "rope", "value"}
                                              : Words{"qk", "value"}))
    return;
  std::optional<int64_t> value = sizeEntry(*field, "value", 1);
  spec.valueDim = value.value_or(0);
  if (!isLatent) {
    spec.qkDim = sizeEntry(*field, "qk", 1).value_or(0);
    return;
  }
  std::optional<int64_t> nope = sizeEntry(*field, "nope", 1);
  std::optional<int64_t> rope = sizeEntry(*field, "rope", 1);
  if (!nope || !rope)
    return;
  if (*rope % 2 != 0) {
    errors.add(entry(*field, "rope")->value->where,
               fmt::format("'head_dim.rope' is {}", *rope),
               "a rotary width is even");
    return;
  }
  if (*nope + *rope > std::numeric_limits<int32_t>::max()) {
    errors.add(field->valueWhere,
               fmt::format("'nope' and 'rope' add up to {}", *nope + *rope),
               "the sum is at most 2147483647");
    return;
  }
  spec.nopeDim = *nope;
  spec.ropeDim = *rope;
  spec.qkDim = *nope + *rope;
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

void VariantChecker::checkTypes() {
  const DraftField *field = find("type");
  if (!field)
    return;
  Context context(errors, contextOf("field", field->name));
  const Words &storage = storageTypeWords();
  auto typeOf = [&](const ExprRef &expr, const std::string &what,
                    const Words &allowed) {
    return findType(word(expr, what, allowed)).value_or(Type::F32);
  };
  if (!field->isRecord) {
    spec.qType = typeOf(field->value, "'type'", storage);
    spec.kvType = spec.outType = spec.qType;
    return;
  }
  if (!checkKeys(*field, {"q", "kv", "out"}))
    return;
  Words compressed = storage;
  compressed.insert(compressed.end(), {"i8", "f8e4m3"});
  if (const DraftEntry *q = entry(*field, "q"))
    spec.qType = typeOf(q->value, "'type.q'", storage);
  spec.kvType = spec.outType = spec.qType;
  if (const DraftEntry *kv = entry(*field, "kv"))
    spec.kvType = typeOf(kv->value, "'type.kv'", compressed);
  if (const DraftEntry *out = entry(*field, "out"))
    spec.outType = typeOf(out->value, "'type.out'", storage);
}

void VariantChecker::checkAlign() {
  const DraftField *field = find("align");
  if (!field)
    return;
  Context context(errors, contextOf("field", field->name));
  if (!isPlain(*field))
    return;
  if (word(field->value, "'align'", {"bottom_right", "top_left"}) == "top_left")
    spec.align = Align::TopLeft;
}

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

void VariantChecker::checkRope() {
  const DraftField *field = find("rope");
  if (!field)
    return;
  Context context(errors, contextOf("field", field->name));
  if (!field->isRecord) {
    errors.add(field->valueWhere, "'rope' has parts",
               "as in { theta = 10000, layout = half }");
    return;
  }
  if (!checkKeys(*field, {"theta", "dim", "layout", "scaling"}))
    return;
  Rope rope;
  if (const DraftEntry *theta = entry(*field, "theta"))
    if (auto value = constantNumber(theta->value, "'rope.theta'")) {
      rope.theta = *value;
      if (*value <= 0)
        errors.add(theta->value->where,
                   fmt::format("'rope.theta' is {}", *value),
                   "it must be positive");
    }
  const bool isLatent = spec.latent > 0;
  const int64_t width = isLatent ? spec.ropeDim : spec.qkDim;
  if (const DraftEntry *dim = entry(*field, "dim")) {
    auto value = constantInt(dim->value, "'rope.dim'", 1);
    rope.dim = value.value_or(0);
    if (value && *value % 2 != 0)
      errors.add(dim->value->where, fmt::format("'rope.dim' is {}", *value),
                 "a rotary width is even");
    else if (value && width > 0 && *value > width)
      errors.add(dim->value->where, fmt::format("'rope.dim' is {}", *value),
                 fmt::format("the {} is {} wide",
                             isLatent ? "rotary part" : "head", width));
  } else if (width % 2 != 0) {
    errors.add(field->valueWhere,
               fmt::format("'rope' over a head of width {}", width),
               "a rotary width is even; 'dim' rotates a part of the head");
  }
  if (const DraftEntry *layout = entry(*field, "layout"))
    if (word(layout->value, "'rope.layout'", {"half", "interleaved"}) ==
        "interleaved")
      rope.layout = Rope::Interleaved;
  if (const DraftEntry *scaling = entry(*field, "scaling"))
    checkScaling(scaling->value, rope);
  spec.rope = std::move(rope);
}

namespace {
/// The numbers of a kind of scaling, with the defaults of the last ones.
struct Scaling {
  Rope::Scaling kind;
  std::string_view name, signature;
  size_t minArgs;
  std::vector<std::string_view> args;
  std::vector<double> defaults; ///< of the args from `minArgs` on
};
} // namespace

static const std::vector<Scaling> &scalings() {
  static const std::vector<Scaling> kinds = {
      {Rope::Linear, "linear", "linear(factor)", 1, {"factor"}, {}},
      {Rope::Llama3,
       "llama3",
       "llama3(factor, low = 1, high = 4, length = 8192)",
       1,
       {"factor", "low", "high", "length"},
       {1, 4, 8192}},
      {Rope::Yarn,
       "yarn",
       "yarn(factor, length, fast = 32, slow = 1, attention = 0.1 * ln(factor) "
       "+ 1)",
       2,
       {"factor", "length", "fast", "slow", "attention"},
       {32, 1}}};
  return kinds;
}

void VariantChecker::checkScaling(const ExprRef &expr, Rope &rope) {
  if (expr->kind == ExprKind::Name && expr->name == "none")
    return;
  const Scaling *kind = nullptr;
  for (const Scaling &candidate : scalings())
    if (expr->name == candidate.name)
      kind = &candidate;
  if (!kind) {
    word(expr, "'rope.scaling'", {"none", "linear", "llama3", "yarn"});
    return;
  }
  if (expr->kind != ExprKind::Call || expr->args.size() < kind->minArgs ||
      expr->args.size() > kind->args.size()) {
    errors.add(expr->where,
               fmt::format("{} takes {}{} number{}", quote(kind->name),
                           kind->minArgs == kind->args.size()
                               ? ""
                               : fmt::format("{} to ", kind->minArgs),
                           kind->args.size(),
                           kind->args.size() == 1 ? "" : "s"),
               std::string(kind->signature));
    return;
  }
  std::vector<double> values;
  for (size_t i = 0; i < expr->args.size(); ++i) {
    std::string what = fmt::format("'{}' of {}", kind->args[i], kind->name);
    auto value = constantNumber(expr->args[i], what);
    if (!value)
      return;
    values.push_back(*value);
  }
  for (size_t i = values.size(); i < kind->args.size(); ++i) {
    size_t fromEnd = i - kind->minArgs;
    values.push_back(fromEnd < kind->defaults.size()
                         ? kind->defaults[fromEnd]
                         : 0.1 * std::log(values[0]) + 1);
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (!(values[i] > 0)) {
      bool isWritten = i < expr->args.size();
      errors.add(
          isWritten ? expr->args[i]->where : expr->where,
          fmt::format("'{}' of {} is {}", kind->args[i], kind->name, values[i]),
          "it must be positive");
      return;
    }
  // Both have a pair of bounds that a ramp runs between.
  auto ordered = [&](size_t small, size_t large) {
    if (values[small] < values[large])
      return;
    errors.add(expr->where,
               fmt::format("'{}' of {} is {}, '{}' is {}", kind->args[small],
                           kind->name, values[small], kind->args[large],
                           values[large]),
               fmt::format("'{}' must be below '{}'", kind->args[small],
                           kind->args[large]));
  };
  if (kind->kind == Rope::Llama3)
    ordered(1, 2);
  if (kind->kind == Rope::Yarn)
    ordered(3, 2);
  rope.scaling = kind->kind;
  rope.scalingArgs = std::move(values);
}

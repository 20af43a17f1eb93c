//===- tests/support/Properties.cpp - What holds for every kernel ---------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Properties.h"
#include "tests/support/Choices.h"
#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>

namespace attn::test {

namespace {

const char *name(Order order) {
  switch (order) {
  case Order::AllAtOnce:
    return "all items at once";
  case Order::OneByOne:
    return "items one by one";
  case Order::Reversed:
    return "items one by one, the last first";
  case Order::Uneven:
    return "items in uneven pieces, the last first";
  }
  return "?";
}

/// Compares rows of O (not LSE) bit by bit; `bThere` is the entry of `there`
/// that corresponds to entry `b` of `here`.
std::string compareRow(const Trial &here, const Trial &there, int64_t b,
                       int64_t bThere, int64_t h, int64_t i, bool lse) {
  for (int64_t n = 0; n < here.c.spec.valueDim; ++n) {
    uint32_t x = here.buffers.o.bits({b, h, i, n});
    uint32_t y = there.buffers.o.bits({bThere, h, i, n});
    if (x != y)
      return fmt::format("O[{},{},{},{}] is {:.9g} ({:#x}), and was {:.9g} "
                         "({:#x})",
                         b, h, i, n, there.buffers.o.get({bThere, h, i, n}), y,
                         here.buffers.o.get({b, h, i, n}), x);
  }
  if (lse && here.c.lse && there.c.lse) {
    uint32_t x = here.buffers.lse.bits({b, h, i, 0});
    uint32_t y = there.buffers.lse.bits({bThere, h, i, 0});
    if (x != y)
      return fmt::format("LSE[{},{},{}] is {:.9g}, and was {:.9g}", b, h, i,
                         there.buffers.lse.get({bThere, h, i, 0}),
                         here.buffers.lse.get({b, h, i, 0}));
  }
  return {};
}

std::string compareAll(const Trial &here, const Trial &there) {
  for (int64_t b = 0; b < here.c.batch; ++b)
    for (int64_t h = 0; h < here.c.spec.heads; ++h)
      for (int64_t i = 0; i < here.c.qLenOf(b); ++i)
        if (std::string text = compareRow(here, there, b, b, h, i, true);
            !text.empty())
          return text;
  return {};
}

std::string prefixed(const std::string &prefix, const std::string &text) {
  return text.empty() ? text : prefix + ": " + text;
}

/// Without strides of zero, where poison would reach other elements.
Case withoutBroadcast(Case c) {
  for (Layout *layout : {&c.q, &c.k, &c.v})
    layout->broadcast = {};
  return c;
}

/// Whether a value depends on the number of the batch entry, other than by the
/// parameters' own elements for the entry.
bool dependsOnNumber(const Spec &spec, const ExprRef &expr) {
  if (!expr)
    return false;
  if (expr->kind == ExprKind::Name)
    return expr->name == "b";
  const Param *param = expr->kind == ExprKind::Index
                           ? spec.findParam(expr->args[0]->name)
                           : nullptr;
  for (size_t n = 0; n < expr->args.size(); ++n) {
    const ExprRef &arg = expr->args[n];
    bool isEntry = param && n > 0 && param->dims[n - 1].kind == Dim::Batch;
    if (isEntry && arg->kind == ExprKind::Name && arg->name == "b")
      continue;
    if (isEntry || dependsOnNumber(spec, arg))
      return true;
  }
  return false;
}

/// The part of a parameter that one entry of the batch reads, as that of entry
/// `there` of a batch that ends with it. Entries before it keep their values.
Argument sliceFor(const Case &c, size_t param, int64_t b, int64_t there) {
  const Param &declared = c.spec.params[param];
  Argument slice = c.params[param];
  const oracle::ParamValue &from = c.params[param].value;
  std::vector<int64_t> &shape = slice.value.shape;
  bool isTokens = declared.type == Type::Tokens;
  std::vector<int64_t> first(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    Dim::Kind kind = isTokens ? (d == 0 ? Dim::Batch : Dim::Constant)
                              : declared.dims[d].kind;
    if (kind == Dim::Batch && from.shape[d] > 1) {
      first[d] = b - there;
      shape[d] = there + 1;
    } else if (from.shape[d] != 1) {
      shape[d] = kind == Dim::Queries  ? c.qLenOf(b)
                 : kind == Dim::Keys   ? c.kvLenOf(b)
                 : kind == Dim::Tokens ? c.positionsOf(b)
                                       : shape[d];
    }
  }
  slice.value.values.clear();
  size_t elements = 1;
  for (int64_t extent : shape)
    elements *= static_cast<size_t>(extent);
  for (size_t n = 0; n < elements; ++n) {
    size_t rest = n, at = 0, pitch = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      auto extent = static_cast<size_t>(shape[d]);
      at += (rest % extent + static_cast<size_t>(first[d])) * pitch;
      rest /= extent;
      pitch *= static_cast<size_t>(from.shape[d]);
    }
    slice.value.values.push_back(from.values[at]);
  }
  // Entries before this one have no positions, so that their lists are empty.
  if (isTokens && there > 0) {
    std::vector<double> &values = slice.value.values;
    values.erase(values.begin(), values.end() - shape[1]);
    values.insert(values.begin(), static_cast<size_t>(there * shape[1]), -1);
    shape[0] = there + 1;
  }
  return slice;
}

/// Given in full, compact and in the usual types; lists in order, without
/// padding where they are for one sequence.
Argument plainArgument(const Case &c, size_t param) {
  Argument plain;
  plain.layout.placement = Placement::Start;
  plain.value = c.params[param].value;
  std::vector<int64_t> &shape = plain.value.shape;
  if (c.spec.params[param].type == Type::Tokens) {
    std::vector<double> &list = plain.value.values;
    if (shape[0] != 1)
      return plain;
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    list.erase(list.begin(), std::lower_bound(list.begin(), list.end(), 0));
    shape[1] = static_cast<int64_t>(list.size());
    return plain;
  }
  const std::vector<int64_t> given = shape, full = c.extentsOf(param);
  plain.value.values.clear();
  size_t elements = 1;
  for (int64_t extent : full)
    elements *= static_cast<size_t>(extent);
  for (size_t n = 0; n < elements; ++n) {
    size_t rest = n, at = 0, pitch = 1;
    for (size_t d = full.size(); d-- > 0;) {
      auto extent = static_cast<size_t>(full[d]);
      at += (given[d] == 1 ? 0 : rest % extent) * pitch;
      rest /= extent;
      pitch *= static_cast<size_t>(given[d]);
    }
    plain.value.values.push_back(c.params[param].value.values[at]);
  }
  shape = full;
  return plain;
}

} // namespace

Trial::Trial(const Case &theCase, const Code &code, Order order)
    : c(theCase), buffers(c, code.descriptor()) {
  if (!c.spec.params.empty() && !code.descriptor())
    throw std::invalid_argument(
        "a variant with parameters, but nothing describes its kernel");
  if (buffers.error().empty())
    job.code = code;
  job.call = buffers.call();
  job.regions = buffers.regions();
  job.order = order;
}

std::string Trial::intact(const std::string &outcome) const {
  if (!buffers.error().empty())
    return buffers.error();
  return outcome.empty() ? buffers.changedBytes() : outcome;
}

std::string Trial::judge(const std::string &outcome, double *worst) const {
  if (std::string text = intact(outcome); !text.empty())
    return text;
  oracle::Output expected;
  if (std::string text =
          oracle::evaluate(c.spec, buffers.call(), c.oracleParams(), expected);
      !text.empty())
    return "no expected result: " + text;
  return compare(buffers, c, expected, worst);
}

std::string Properties::runOne(Trial &trial) {
  return trial.intact(executor.run({trial.job})[0]);
}

std::string Properties::matchesOracle(const Case &c, double *worst) {
  Trial trial(c, code, Order::AllAtOnce);
  return trial.judge(executor.run({trial.job})[0], worst);
}

std::string Properties::sameInAnyOrder(const Case &c) {
  Trial first(c, code, Order::AllAtOnce);
  if (std::string text = runOne(first); !text.empty())
    return text;
  for (Order order : {Order::OneByOne, Order::Reversed, Order::Uneven}) {
    Trial other(c, code, order);
    std::string text = runOne(other);
    if (text.empty())
      text = compareAll(first, other);
    if (!text.empty())
      return prefixed(name(order), text);
  }
  return {};
}

std::string Properties::sameAloneInBatch(const Case &c) {
  Trial whole(c, code, Order::AllAtOnce);
  if (std::string text = runOne(whole); !text.empty())
    return text;
  // Where expressions tell entries apart, the entry keeps its number, among
  // sequences without tokens.
  bool numbered = dependsOnNumber(c.spec, c.spec.mask) ||
                  dependsOnNumber(c.spec, c.spec.score) ||
                  dependsOnNumber(c.spec, c.spec.sink);
  for (int64_t b = 0; b < c.batch; ++b) {
    // The same contents, as a batch of one with just its own lengths.
    Case alone = c;
    int64_t there = numbered ? b : 0;
    alone.batch = there + 1;
    alone.qLen = c.qLenOf(b);
    alone.kvLen = c.kvLenOf(b);
    alone.qLens.clear();
    alone.kvLens.clear();
    if (there > 0) {
      alone.qLens.assign(static_cast<size_t>(alone.batch), 0);
      alone.kvLens = alone.qLens;
      alone.qLens.back() = alone.qLen;
      alone.kvLens.back() = alone.kvLen;
    }
    for (size_t n = 0; n < c.params.size(); ++n)
      alone.params[n] = sliceFor(c, n, b, there);
    const auto entry = [&](const Tensor &from) {
      return [&from, b](const Index &at) {
        return from.get({b, at[1], at[2], at[3]});
      };
    };
    alone.values.q = entry(whole.buffers.q);
    alone.values.k = entry(whole.buffers.k);
    alone.values.v = entry(whole.buffers.v);
    Trial single(alone, code, Order::AllAtOnce);
    std::string text = runOne(single);
    for (int64_t h = 0; text.empty() && h < c.spec.heads; ++h)
      for (int64_t i = 0; text.empty() && i < c.qLenOf(b); ++i)
        text = compareRow(whole, single, b, there, h, i, true);
    if (!text.empty())
      return prefixed(fmt::format("entry {} of the batch alone", b), text);
  }
  return {};
}

std::string Properties::sameForAnyPoison(const Case &c) {
  Trial first(c, code, Order::AllAtOnce);
  if (std::string text = runOne(first); !text.empty())
    return text;
  for (Poison poison :
       {Poison::Zero, Poison::Nan, Poison::Infinity, Poison::Huge}) {
    if (poison == c.poison)
      continue;
    Case changed = c;
    changed.poison = poison;
    Trial other(changed, code, Order::AllAtOnce);
    std::string text = runOne(other);
    if (text.empty())
      text = compareAll(first, other);
    if (!text.empty())
      return prefixed(fmt::format("{} instead of {} outside the shapes",
                                  test::name(poison), test::name(c.poison)),
                      text);
  }
  return {};
}

std::string Properties::maskedKeysDoNotReach(const Case &given, uint64_t seed,
                                             Poison poison, bool inK,
                                             bool inV) {
  Case c = withoutBroadcast(given);
  Trial clean(c, code, Order::AllAtOnce);
  if (std::string text = runOne(clean); !text.empty())
    return text;
  Trial dirty(c, code, Order::AllAtOnce);
  std::vector<uint8_t> allowed;
  if (std::string text = oracle::allowedSets(c.spec, dirty.buffers.call(),
                                             c.oracleParams(), allowed);
      !text.empty())
    return text;
  Choices choices(seed);
  // From one key to about half of them.
  int percent = static_cast<int>(choices.between(2, 50));
  std::vector<std::vector<bool>> poisoned;
  for (int64_t b = 0; b < c.batch; ++b) {
    poisoned.emplace_back(static_cast<size_t>(c.kvLenOf(b)));
    for (int64_t j = 0; j < c.kvLenOf(b); ++j)
      if (choices.chance(percent)) {
        poisoned.back()[static_cast<size_t>(j)] = true;
        dirty.buffers.poisonKey(b, j, poison, inK, inV);
      }
  }
  if (std::string text = runOne(dirty); !text.empty())
    return text;
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.spec.heads; ++h)
      for (int64_t i = 0; i < c.qLenOf(b); ++i) {
        const uint8_t *keys =
            allowed.data() + ((b * c.spec.heads + h) * c.qLen + i) * c.kvLen;
        bool reached = false;
        for (int64_t j = 0; j < c.kvLenOf(b); ++j)
          reached |= keys[j] != 0 &&
                     poisoned[static_cast<size_t>(b)][static_cast<size_t>(j)];
        if (reached)
          continue;
        if (std::string text = compareRow(clean, dirty, b, b, h, i, true);
            !text.empty())
          return fmt::format("{} in {}{} of keys that the row may not attend "
                             "to ({}% of all keys): {}",
                             test::name(poison), inK ? "K" : "", inV ? "V" : "",
                             percent, text);
      }
  return {};
}

std::string Properties::otherParametersDoNotReach(const Case &given,
                                                  uint64_t seed,
                                                  Poison poison) {
  Case c = given;
  if (c.params.empty())
    return {};
  for (Argument &argument : c.params)
    argument.layout.stretched = {};
  Trial clean(c, code, Order::AllAtOnce);
  if (std::string text = runOne(clean); !text.empty())
    return text;
  Trial dirty(c, code, Order::AllAtOnce);
  Choices choices(seed);
  int percent = static_cast<int>(choices.between(1, 40));
  std::vector<std::vector<bool>> changed(c.params.size());
  dirty.buffers.changeParameters([&](size_t n, ArgumentBuffer &memory) {
    const Param &param = c.spec.params[n];
    const std::vector<double> &values = c.params[n].value.values;
    changed[n].resize(values.size());
    // What scalars and lists of tokens reach is not told by rows.
    if (param.dims.empty())
      return;
    bool anyValue =
        code.descriptor()->params[n].flags == 0 && param.type != Type::I32;
    for (size_t e = 0; e < values.size(); ++e) {
      if (!choices.chance(percent))
        continue;
      changed[n][e] = true;
      if (anyValue)
        memory.setPoison(e, poison);
      else
        memory.set(e, values[choices.next() % values.size()]);
    }
  });
  if (std::string text = runOne(dirty); !text.empty())
    return text;
  std::string text;
  std::string error = oracle::parametersRead(
      c.spec, clean.buffers.call(), c.oracleParams(),
      [&](int64_t b, int64_t h, int64_t i,
          const std::vector<oracle::ParamElement> &reads) {
        bool reached = std::any_of(reads.begin(), reads.end(),
                                   [&](const oracle::ParamElement &at) {
                                     return changed[at.param][at.element];
                                   });
        if (text.empty() && !reached)
          text = prefixed(
              fmt::format("{} in parameters that the row does not depend on "
                          "({}% of all elements)",
                          test::name(poison), percent),
              compareRow(clean, dirty, b, b, h, i, true));
      });
  return error.empty() ? text : error;
}

std::string Properties::sameInAnyLayout(const Case &given) {
  Case c = withoutBroadcast(given);
  Trial first(c, code, Order::AllAtOnce);
  if (std::string text = runOne(first); !text.empty())
    return text;
  for (bool lse : {true, false}) {
    Case plain = c;
    for (Layout *layout :
         {&plain.q, &plain.k, &plain.v, &plain.o, &plain.lseLayout}) {
      *layout = Layout();
      layout->placement = Placement::Start;
    }
    for (size_t n = 0; n < c.params.size(); ++n)
      plain.params[n] = plainArgument(c, n);
    plain.lse = lse;
    Trial other(plain, code, Order::AllAtOnce);
    std::string text = runOne(other);
    if (text.empty())
      text = compareAll(first, other);
    if (!text.empty())
      return prefixed(
          fmt::format("contiguous tensors, {} LSE", lse ? "with" : "without"),
          text);
  }
  return {};
}

std::string Properties::all(const Case &c, uint64_t seed, double *worst) {
  std::string text = prefixed("against the evaluation in double precision",
                              matchesOracle(c, worst));
  if (text.empty())
    text = prefixed("order of work items", sameInAnyOrder(c));
  if (text.empty())
    text = prefixed("batch", sameAloneInBatch(c));
  if (text.empty())
    text = prefixed("outside the shapes", sameForAnyPoison(c));
  Choices choices(seed);
  for (Poison poison : {Poison::Nan, Poison::Infinity, Poison::Huge}) {
    int64_t where = choices.between(1, 3);
    if (text.empty())
      text = prefixed(
          "masked keys",
          maskedKeysDoNotReach(c, seed + static_cast<uint64_t>(poison), poison,
                               (where & 1) != 0, (where & 2) != 0));
  }
  Poison poison =
      choices.oneOf<Poison>({Poison::Nan, Poison::Infinity, Poison::Huge});
  if (text.empty())
    text = prefixed("parameters", otherParametersDoNotReach(c, seed, poison));
  if (text.empty())
    text = prefixed("layout", sameInAnyLayout(c));
  return text;
}

} // namespace attn::test

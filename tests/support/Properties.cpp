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

bool mentionsBatch(const ExprRef &expr) {
  if (!expr)
    return false;
  if (expr->kind == ExprKind::Name && expr->name == "b")
    return true;
  return std::any_of(expr->args.begin(), expr->args.end(), mentionsBatch);
}

} // namespace

Trial::Trial(const Case &theCase, const Code &code, Order order)
    : c(theCase), buffers(c) {
  if (!c.spec.params.empty())
    throw std::invalid_argument("jobs do not pass parameters");
  job.code = code;
  job.call = buffers.call();
  job.regions = buffers.regions();
  job.order = order;
}

std::string Trial::intact(const std::string &outcome) const {
  return outcome.empty() ? buffers.changedBytes() : outcome;
}

std::string Trial::judge(const std::string &outcome, double *worst) const {
  if (std::string text = intact(outcome); !text.empty())
    return text;
  oracle::Output expected;
  if (std::string text = oracle::evaluate(c.spec, buffers.call(), {}, expected);
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
  bool numbered = mentionsBatch(c.spec.mask) || mentionsBatch(c.spec.score) ||
                  mentionsBatch(c.spec.sink);
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
  if (std::string text =
          oracle::allowedSets(c.spec, dirty.buffers.call(), {}, allowed);
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
  if (text.empty())
    text = prefixed("layout", sameInAnyLayout(c));
  return text;
}

} // namespace attn::test

//===- tests/support/Generate.cpp - Random variants and calls -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Generate.h"
#include "tests/support/Expressions.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdexcept>

namespace attn::test {

namespace {

/// A scale whose logits stay small enough for f32 to meet rule 7.
std::string randomScale(Choices &choices, int64_t qkDim) {
  double usual = 1 / std::sqrt(static_cast<double>(qkDim));
  switch (choices.between(0, 4)) {
  case 0:
    return fmt::format("{:.6f}", usual * 1.5);
  case 1:
    return fmt::format("1.0 / sqrt({}.0)", qkDim + 3);
  case 2:
    return fmt::format("exp2(-{}.0)", std::lround(-std::log2(usual)) + 1);
  case 3:
    return fmt::format("-{:.6f}", usual);
  default:
    return fmt::format("0.5 * {:.6f} + 0.001", usual);
  }
}

/// The same for all tensors, or for each.
std::string randomTypes(Choices &choices) {
  const auto one = [&] {
    return choices.oneOf<std::string>({"f32", "f16", "bf16"});
  };
  if (choices.chance(50))
    return one();
  const std::string q = one(), kv = one(), out = one();
  return fmt::format("{{ q = {}, kv = {}, out = {} }}", q, kv, out);
}

int64_t workOf(const Case &c) {
  return c.batch * c.spec.heads * c.qLen * c.kvLen *
         (c.spec.qkDim + c.spec.valueDim);
}

std::vector<int64_t> randomLengths(Choices &choices, int64_t batch,
                                   int64_t most) {
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < batch; ++b)
    lengths.push_back(choices.chance(50) ? choices.between(0, most) : most);
  return lengths;
}

} // namespace

Features Features::small() const {
  Features features = *this;
  features.maxHeads = 3;
  features.maxDim = 40;
  features.maxLength = 70;
  features.maxBatch = 2;
  features.maxWork = 150000;
  return features;
}

Features Features::level2() {
  Features features;
  features.lists = true;
  features.neighborhoods = true;
  features.scores = true;
  return features;
}

Features Features::level3() {
  Features features = level2();
  features.parameters = true;
  features.globals = true;
  features.sinks = true;
  features.types = true;
  return features;
}

std::string randomVariant(Choices &choices, const Features &features,
                          const std::string &name) {
  int64_t heads = choices.between(1, features.maxHeads);
  int64_t kvHeads = heads;
  std::string text = fmt::format("  heads = {}\n", heads);
  if (features.groupedHeads && choices.chance(60)) {
    kvHeads = choices.between(1, heads);
    text += fmt::format("  kv_heads = {}\n", kvHeads);
    if (features.kvMap && choices.chance(25)) {
      std::vector<int64_t> map;
      for (int64_t h = 0; h < heads; ++h)
        map.push_back(choices.between(0, kvHeads - 1));
      text += fmt::format("  kv_map = [{}]\n", fmt::join(map, ", "));
    }
  }
  int64_t qk = randomSize(choices, features.maxDim);
  if (features.unequalDims && choices.chance(40))
    text += fmt::format("  head_dim = {{ qk = {}, value = {} }}\n", qk,
                        randomSize(choices, features.maxDim));
  else
    text += fmt::format("  head_dim = {}\n", qk);
  ListWriter lists(choices, heads, kvHeads);
  ParamWriter params(choices);
  if (features.parameters && choices.chance(10))
    text += fmt::format("  scale = {}\n",
                        params.scale(0.5 / std::sqrt(static_cast<double>(qk))));
  else if (features.scales && choices.chance(30))
    text += fmt::format("  scale = {}\n", randomScale(choices, qk));
  std::string rest;
  if (features.masks && choices.chance(80))
    rest += fmt::format("  mask = {}\n",
                        MaskWriter(choices, features, lists, params)
                            .write(static_cast<int>(choices.between(0, 3))));
  if (features.scores && choices.chance(70))
    rest += fmt::format("  score = {}\n",
                        ScoreWriter(choices, features, lists, params).write());
  if (features.sinks && choices.chance(35))
    rest += fmt::format("  sink = {}\n", params.sink());
  if (features.bothAlignments && choices.chance(25))
    rest += "  align = top_left\n";
  if (features.types && choices.chance(60))
    rest += fmt::format("  type = {}\n", randomTypes(choices));
  return fmt::format("attention {}{} {{\n{}{}{}}}\n", name, params.text(), text,
                     lists.text(), rest);
}

Layout randomLayout(Choices &choices, bool isOutput) {
  Layout layout;
  if (choices.chance(40))
    return layout;
  for (size_t n = 3; n > 0; --n)
    if (choices.chance(25))
      std::swap(layout.order[n],
                layout.order[static_cast<size_t>(
                    choices.between(0, static_cast<int64_t>(n)))]);
  if (choices.chance(15))
    layout.step = choices.between(1, 3);
  for (size_t d = 0; d < 4; ++d) {
    if (choices.chance(30))
      layout.gap[d] = choices.between(0, 7);
    if (choices.chance(10))
      layout.reversed[d] = true;
    if (!isOutput && choices.chance(5))
      layout.broadcast[d] = true;
  }
  if (choices.chance(50)) {
    layout.placement = Placement::Start;
    layout.before = choices.chance(50) ? choices.between(0, 15) : 0;
    layout.after = choices.between(0, 15);
  }
  return layout;
}

Case randomCase(Choices &choices, const Features &features, const Spec &spec,
                const attn_kernel *kernel) {
  Case c;
  c.spec = spec;
  c.batch = choices.chance(4) ? 0 : choices.between(1, features.maxBatch);
  const auto length = [&] {
    return choices.chance(4) ? 0 : randomSize(choices, features.maxLength);
  };
  c.kvLen = length();
  // Prefill, decode, chunks, and lengths that have nothing to do with another.
  int64_t kind = choices.between(0, 9);
  c.qLen = kind < 4   ? length()
           : kind < 6 ? c.kvLen
           : kind < 8 ? 1
                      : std::min<int64_t>(c.kvLen, choices.between(1, 9));
  while (workOf(c) > features.maxWork)
    if (c.batch > 1)
      --c.batch;
    else
      (c.qLen > c.kvLen ? c.qLen : c.kvLen) /= 2;
  if (choices.chance(30))
    c.kvLens = randomLengths(choices, c.batch, c.kvLen);
  if (choices.chance(30))
    c.qLens = randomLengths(choices, c.batch, c.qLen);
  c.lse = choices.chance(60);
  c.q = randomLayout(choices, false);
  c.k = randomLayout(choices, false);
  c.v = randomLayout(choices, false);
  c.o = randomLayout(choices, true);
  c.lseLayout = randomLayout(choices, true);
  c.poison =
      choices.oneOf<Poison>({Poison::Nan, Poison::Infinity, Poison::Huge});
  c.values.seed = static_cast<uint32_t>(choices.between(1, 1000000));
  switch (choices.between(0, 9)) {
  case 7:
    c.values.zeroQuery = true;
    break;
  case 8:
    c.values.zeroQuery = true;
    c.values.integers = true;
    break;
  case 9:
    c.values.vScale = 1000;
    break;
  case 6:
    c.values.kScale = 3;
    break;
  default:
    break;
  }
  drawParameters(choices, c, kernel);
  return c;
}

Spec parseOne(const std::string &text) {
  ParseResult parsed = parse(text);
  if (parsed.ok() && parsed.specs.size() == 1)
    return parsed.specs[0];
  std::string message = "not a text of one variant:\n";
  for (const Diagnostic &diagnostic : parsed.diagnostics)
    message += render(diagnostic, "text.attn", text);
  throw std::logic_error(message);
}

Case randomVariantCase(Choices &choices, const Features &features,
                       const std::string &name) {
  Spec spec = parseOne(randomVariant(choices, features, name));
  return randomCase(choices, features, spec);
}

} // namespace attn::test

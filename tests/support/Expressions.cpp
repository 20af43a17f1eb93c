//===- tests/support/Expressions.cpp - Random masks and scores ------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Expressions.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attn::test {

int64_t randomSize(Choices &choices, int64_t most) {
  static const std::vector<int64_t> edges = {
      2,  3,  4,  5,  7,  8,  9,  15,  16,  17,  31,  32,  33,  47,  48,  49,
      63, 64, 65, 80, 95, 96, 97, 100, 127, 128, 129, 130, 191, 192, 193, 200};
  int64_t kind = choices.between(0, 9);
  int64_t size = kind < 3   ? choices.between(1, 12)
                 : kind < 8 ? choices.oneOf(edges)
                            : choices.between(1, 200);
  return 1 + (size - 1) % most;
}

/// A constant for comparisons with distances and positions.
static int64_t randomConstant(Choices &choices) {
  int64_t magnitude =
      choices.chance(60) ? choices.between(0, 8) : randomSize(choices, 150);
  return choices.chance(35) ? -magnitude : magnitude;
}

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

std::string ListWriter::index(int64_t &extent) {
  int64_t n = choices.between(1, 4);
  switch (choices.between(0, 5)) {
  case 0:
  case 1:
    extent = heads;
    return "h";
  case 2:
    extent = kvHeads;
    return "g";
  case 3:
    extent = n;
    return fmt::format("h % {}", n);
  case 4:
    extent = n;
    return fmt::format("(2 * h + g + 1) % {}", n);
  default:
    extent = (heads - 1) / n + 1;
    return fmt::format("h / {}", n);
  }
}

std::string ListWriter::define(const std::vector<std::string> &elements,
                               const std::string &index) {
  std::string name = fmt::format("l{}", made++);
  definitions +=
      fmt::format("  let {} = [{}]\n", name, fmt::join(elements, ", "));
  return fmt::format("{}[{}]", name, index);
}

std::string ListWriter::integer(int64_t low, int64_t high) {
  int64_t extent = 0;
  std::string at = index(extent);
  std::vector<std::string> elements;
  for (int64_t n = 0; n < extent; ++n)
    elements.push_back(fmt::format("{}", choices.between(low, high)));
  return define(elements, at);
}

std::string ListWriter::real(double most) {
  int64_t extent = 0;
  std::string at = index(extent);
  std::vector<std::string> elements;
  for (int64_t n = 0; n < extent; ++n) {
    double steps = std::floor(most * 16);
    double value =
        static_cast<double>(choices.between(1, static_cast<int64_t>(steps))) /
        16;
    std::string sign = choices.chance(30) ? "-" : "";
    // A list of both is one of numbers.
    if (most >= 1 && choices.chance(25))
      elements.push_back(fmt::format("{}{}", sign, std::ceil(value)));
    else
      elements.push_back(fmt::format("{}{:.4f}", sign, value));
  }
  return define(elements, at);
}

std::string ListWriter::boolean() {
  int64_t extent = 0;
  std::string at = index(extent);
  std::vector<std::string> elements;
  for (int64_t n = 0; n < extent; ++n)
    elements.push_back(choices.chance(50) ? "true" : "false");
  return define(elements, at);
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

std::string MaskWriter::write(int depth) {
  if (features.parameters && choices.chance(45)) {
    if (features.globals && choices.chance(35))
      return params.globals(choices.chance(70) ? window() : comparison());
    return fmt::format("({})", params.relation());
  }
  int64_t kind = depth == 0 ? choices.between(0, 4) : choices.between(0, 8);
  switch (kind) {
  case 0:
    return "causal";
  case 1:
    return window();
  case 2:
    return built();
  case 3:
  case 4:
    return comparison();
  case 5:
  case 6:
    if (features.lists && choices.chance(25))
      return ofHeads(depth);
    return fmt::format("({} && {})", write(depth - 1), write(depth - 1));
  case 7:
    return fmt::format("({} || {})", write(depth - 1), write(depth - 1));
  default:
    return fmt::format("!({})", write(depth - 1));
  }
}

std::string MaskWriter::built() {
  if (features.neighborhoods && choices.chance(60))
    return neighborhood();
  if (features.lists && choices.chance(40))
    return fmt::format("sliding({})", lists.integer(1, 130));
  return fmt::format("sliding({})", randomSize(choices, 130));
}

std::string MaskWriter::neighborhood() {
  int64_t n = choices.between(1, 40);
  if (choices.chance(50))
    return fmt::format("neighborhood({})", n);
  return fmt::format("neighborhood({}, {})", n, choices.between(1, 4));
}

std::string MaskWriter::window() {
  if (features.lists && choices.chance(35)) {
    std::string left = lists.integer(0, 40);
    if (choices.chance(30))
      return fmt::format("window({})", left);
    std::string right = choices.chance(50)
                            ? lists.integer(0, 40)
                            : fmt::format("{}", choices.between(0, 40));
    if (choices.chance(30))
      return fmt::format("window({}, {})", left, right);
    return fmt::format("window({}, {}, {})", left, right, lists.integer(1, 4));
  }
  int64_t left = randomSize(choices, 130) - 1;
  if (choices.chance(30))
    return fmt::format("window({})", left);
  int64_t right = randomSize(choices, 130) - 1;
  if (choices.chance(50))
    return fmt::format("window({}, {})", left, right);
  int64_t dilation = choices.between(1, 5);
  std::string steps = features.lists && choices.chance(40)
                          ? lists.integer(1, 5)
                          : fmt::format("{}", dilation);
  return fmt::format("window({}, {}, {})", left / dilation, right / dilation,
                     steps);
}

/// a*k + b*q + c, each part optional but not all.
std::string MaskWriter::linear() {
  static const std::vector<std::string> forms = {
      "k",         "q",         "k - q",     "q - k", "k + q",
      "2 * k - q", "k - 2 * q", "3 * k + q", "-k",    "2 * q - 3 * k",
  };
  std::string form = choices.oneOf(forms);
  if (choices.chance(30))
    form += fmt::format(" + {}", choices.between(0, 20));
  return form;
}

std::string MaskWriter::comparison() {
  static const std::vector<std::string> ops = {"<=", "<",  ">",
                                               ">=", "==", "!="};
  const std::string left = linear(), op = choices.oneOf(ops);
  int64_t constant = randomConstant(choices);
  // In f32: what rounding decides is decided alike everywhere.
  if (features.scores && choices.chance(15))
    return fmt::format("{:.1f} * ({}) {} {:.1f}",
                       static_cast<double>(choices.between(1, 9)) / 10, left,
                       op, static_cast<double>(constant) / 10);
  if (features.lists && choices.chance(25))
    return fmt::format("{} {} {}", left, op, lists.integer(-9, 60));
  if (choices.chance(25))
    return fmt::format("{} {} {}", constant, op, left);
  return fmt::format("{} {} {}", left, op, constant);
}

/// Some heads see other keys than others, or keys of the same block.
std::string MaskWriter::ofHeads(int depth) {
  int64_t n = choices.between(2, 33);
  switch (choices.between(0, 6)) {
  case 0:
    return fmt::format("({} || h % 2 == 0)", write(depth - 1));
  case 1:
    return fmt::format("({} && h != {})", write(depth - 1),
                       choices.between(0, 2));
  case 2:
    return fmt::format("(h < {} ? {} : {})", choices.between(1, 3),
                       write(depth - 1), write(depth - 1));
  case 3:
    return fmt::format("(k / {} == q / {})", n, n);
  case 4:
    return fmt::format("({} || {})", lists.boolean(), write(depth - 1));
  case 5:
    return fmt::format("(k % {0} == q % {0} || {1})", lists.integer(1, 6),
                       write(depth - 1));
  default:
    return fmt::format("(g == {} || {})", choices.between(0, 1),
                       write(depth - 1));
  }
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// Half of an f32's last place, relative.
static constexpr double kHalfUlp = 1.0 / (1 << 24);
/// Functions are held to 4 units in the last place.
static constexpr double kCallError = 8 * kHalfUlp;

static constexpr double kMost = 64, kSlope = 1.5, kError = 5e-6;

/// Scaled down, by a power of two, to what a score may be.
ScoreWriter::Part ScoreWriter::within(Part x) const {
  double over =
      std::max({x.most / kMost, x.slope / kSlope, x.error / kError, 1e-9});
  if (over <= 1)
    return x;
  double factor = std::exp2(-std::ceil(std::log2(over)));
  return {fmt::format("{} * {:.10f}", x.text, factor), x.most * factor,
          x.slope * factor, x.error * factor};
}

std::string ScoreWriter::write() {
  std::string text = whole();
  if (features.parameters && choices.chance(40))
    text = fmt::format("{} + {}", text, params.wildBias());
  return text;
}

std::string ScoreWriter::whole() {
  switch (choices.between(0, 8)) {
  case 0: {
    if (features.parameters && choices.chance(40))
      return fmt::format("softcap(s, {})", params.cap());
    int64_t cap = choices.between(1, 60);
    return choices.chance(30) ? fmt::format("softcap(s, {})", cap)
                              : fmt::format("softcap(s, {}.0)", cap);
  }
  case 1:
    return choices.chance(40) ? "s + alibi_slope(h) * (k - q)"
                              : "s - alibi_slope(h) * abs(q - k)";
  case 2:
    return fmt::format("s + {}", bias().text);
  case 3:
    return fmt::format("softcap(s, {}) + {}", choices.between(5, 50),
                       bias().text);
  default:
    return part(static_cast<int>(choices.between(1, 3))).text;
  }
}

/// An integer of positions, at most 1024 in magnitude.
std::string ScoreWriter::position() {
  static const std::vector<std::string> forms = {
      "(k - q)",
      "abs(q - k)",
      "k",
      "q",
      "(k % 7)",
      "((q - k) / 3)",
      "h",
      "g",
      "b",
      "q_len",
      "kv_len",
      "min(k, 9)",
      "max(q - k, 0)",
      "(q * 2 - k)",
      "(k + 1 - h)",
      "min(k, kv_len - 1 - k)",
      "((k - q) % 5)",
  };
  return choices.oneOf(forms);
}

ScoreWriter::Part ScoreWriter::ofParameters() {
  switch (choices.between(0, 5)) {
  case 0:
    return {fmt::format("{} * {} * 0.0625", params.real(), position()), 64, 0,
            0};
  case 1:
    return {params.real(), 1, 0, 0};
  case 2:
    return {params.step(), 1, 0, 0};
  case 3:
    return {fmt::format("{} * 0.25", params.bias()), 1, 0, 0};
  default:
    return {params.bias(), 1, 0, 0};
  }
}

std::string ScoreWriter::condition() {
  static const std::vector<std::string> forms = {
      "k <= q",    "k < 5",           "(k - q) % 3 == 0", "h % 2 == 0",
      "g == 0",    "q == k",          "k + 1 < kv_len",   "q < 3 || k > 40",
      "!(k == 0)", "h > 0 && k != q", "b == 0",
  };
  if (features.parameters && choices.chance(20))
    return fmt::format("k - q < {}", params.integer());
  if (choices.chance(20))
    return fmt::format("k - q < {}", lists.integer(-9, 30));
  return choices.oneOf(forms);
}

/// What depends on positions, heads and parameters only.
ScoreWriter::Part ScoreWriter::bias() {
  if (features.parameters && choices.chance(50))
    return ofParameters();
  switch (choices.between(0, 6)) {
  case 0: {
    double factor = 0.0625;
    return {fmt::format("{} * {:.4f}", position(), factor), 64, 0, 0};
  }
  case 1:
    return {fmt::format("{} * {}", lists.real(0.0625), position()), 64, 0, 0};
  case 2:
    return {lists.real(4), 4, 0, 0};
  case 3: {
    double c = static_cast<double>(choices.between(1, 400)) / 100;
    return {fmt::format("{:.2f}", c), c, 0, c * kHalfUlp};
  }
  case 4:
    return {
        fmt::format("({} ? {} : {})", condition(),
                    fmt::format("{:.2f}", -0.25 * static_cast<double>(
                                                      choices.between(0, 20))),
                    lists.integer(-5, 5)),
        5, 0, 0};
  case 5: {
    // The quotient of small integers is an integer or far from one.
    int64_t n = choices.between(2, 17);
    return {fmt::format("floor({} / {}.0) * 0.0625", position(), n), 32, 0, 0};
  }
  default:
    return {fmt::format("sqrt(abs({}))", position()), 32, 0, 32 * kHalfUlp};
  }
}

ScoreWriter::Part ScoreWriter::leaf() {
  if (choices.chance(35))
    return within(bias());
  return {"s", 64, 1, 0};
}

ScoreWriter::Part ScoreWriter::part(int depth) {
  if (depth == 0)
    return leaf();
  Part x = choices.chance(50) ? call(depth) : operation(depth);
  x = within({"(" + x.text + ")", x.most, x.slope, x.error});
  return {"(" + x.text + ")", x.most, x.slope, x.error};
}

/// A function of something; bounded where the function is not.
ScoreWriter::Part ScoreWriter::call(int depth) {
  Part x = part(depth - 1);
  // A function as steep as `steepness` at most, and as large as `most`.
  const auto of = [&](const std::string &text, double most, double steepness) {
    return Part{text, most, x.slope * steepness,
                x.error * steepness + most * kCallError};
  };
  const std::string &t = x.text;
  switch (choices.between(0, 11)) {
  case 0:
    return of(fmt::format("tanh({})", t), 1, 1);
  case 1:
    return of(fmt::format("sigmoid({})", t), 1, 0.25);
  case 2: {
    auto cap = static_cast<double>(choices.between(1, 40));
    Part y = of(fmt::format("softcap({}, {:.1f})", t, cap), cap, 1);
    y.error += x.most * kHalfUlp;
    return y;
  }
  case 3:
    return of(fmt::format("exp(-abs({}))", t), 1, 1);
  case 4:
    return of(fmt::format("exp(min({}, 1.0))", t), std::exp(1), std::exp(1));
  case 5:
    return of(fmt::format("exp2(-abs({}))", t), 1, 0.7);
  case 6: {
    Part y = of(fmt::format("log(abs({}) + 1)", t), std::log(x.most + 1), 1);
    y.error += kHalfUlp;
    return y;
  }
  case 7: {
    Part y =
        of(fmt::format("log2(1.0 + abs({}))", t), std::log2(x.most + 1), 1.45);
    y.error += 2 * kHalfUlp;
    return y;
  }
  case 8: {
    Part y = of(fmt::format("sqrt(abs({}) + 0.5)", t), std::sqrt(x.most + 0.5),
                0.71);
    y.error += std::sqrt(x.most + 0.5) * kHalfUlp;
    return y;
  }
  case 9:
    return {fmt::format("abs({})", t), x.most, x.slope, x.error};
  case 10: {
    auto c = static_cast<double>(choices.between(-20, 20)) / 4;
    return {fmt::format("min({}, {:.2f})", t, c), std::max(x.most, 5.0),
            x.slope, x.error};
  }
  default: {
    auto c = static_cast<double>(choices.between(-20, 20)) / 4;
    return {fmt::format("max({:.2f}, {})", c, t), std::max(x.most, 5.0),
            x.slope, x.error};
  }
  }
}

ScoreWriter::Part ScoreWriter::operation(int depth) {
  Part x = part(depth - 1);
  switch (choices.between(0, 7)) {
  case 0:
  case 1: {
    Part y = part(depth - 1);
    return {
        fmt::format("{} {} {}", x.text, choices.chance(40) ? "-" : "+", y.text),
        x.most + y.most, x.slope + y.slope,
        x.error + y.error + (x.most + y.most) * kHalfUlp};
  }
  case 2: {
    Part y = part(depth - 1);
    return {fmt::format("{} * {}", x.text, y.text), x.most * y.most,
            x.slope * y.most + y.slope * x.most,
            x.error * y.most + y.error * x.most + x.most * y.most * kHalfUlp};
  }
  case 3: {
    // The divisor is at least 1.
    Part y = part(depth - 1);
    return {fmt::format("{} / (1 + abs({}))", x.text, y.text), x.most,
            x.slope + y.slope * x.most,
            x.error + y.error * x.most + 3 * x.most * kHalfUlp};
  }
  case 4: {
    Part y = part(depth - 1);
    return {fmt::format("{} ? {} : {}", condition(), x.text, y.text),
            std::max(x.most, y.most), std::max(x.slope, y.slope),
            std::max(x.error, y.error)};
  }
  case 5: // continuous at zero
    return {fmt::format("s > 0 ? {0} : s * 0.25 + {0}", x.text), x.most + 16,
            x.slope + 0.25, x.error + (x.most + 16) * kHalfUlp};
  case 6:
    return {fmt::format("-{}", x.text), x.most, x.slope, x.error};
  default: {
    Part y = bias();
    return {fmt::format("{} + {}", x.text, y.text), x.most + y.most, x.slope,
            x.error + y.error + (x.most + y.most) * 2 * kHalfUlp};
  }
  }
}

} // namespace attn::test

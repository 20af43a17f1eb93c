//===- tests/support/Parameters.h - Parameters of random variants ---------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_PARAMETERS_H
#define ATTNC_TESTS_SUPPORT_PARAMETERS_H

#include "tests/support/Argument.h"
#include "tests/support/Case.h"
#include "tests/support/Choices.h"
#include <string>
#include <vector>

namespace attn::test {

/// The parameters of one variant, declared as expressions ask for them, and the
/// expressions they appear in. Later uses sometimes share an earlier parameter.
class ParamWriter {
public:
  explicit ParamWriter(Choices &choices) : choices(choices) {}

  /// The declarations with their parentheses, or an empty text.
  std::string text() const;

  /// A condition of positions: prefixes, documents, distances, flags, tables.
  std::string relation();
  /// A condition with lists of global tokens; `window` is one of its own.
  std::string globals(const std::string &window);
  /// An integer by head or entry: any value, at least 0, or at least 1.
  std::string integer();
  std::string width();
  std::string positive();

  /// Numbers for a score: at most 1 in magnitude, multiples of 1/64.
  std::string real();
  /// The same by query, key and more.
  std::string bias();
  /// To be added to a score, and nothing else: values may be huge or minus
  /// infinity.
  std::string wildBias();
  /// A positive number, from 1 to 50.
  std::string cap();
  /// Small integers times 1/64, or a choice between two numbers.
  std::string step();
  /// The whole value of `sink`.
  std::string sink();
  /// The whole value of `scale`, a few times `usual`.
  std::string scale(double usual);

private:
  std::string declare(const std::string &type, const std::string &dims);
  /// A parameter of a type with dimensions and the usual index of each.
  std::string element(const std::string &type,
                      const std::vector<std::string> &dims);
  std::string floatType();
  /// Some of batch, heads and kv_heads, then `last`.
  std::vector<std::string> dimsBefore(std::vector<std::string> last);
  std::string documents();
  std::string flags();
  std::string table();
  std::string floats();
  std::string bucket();

  struct Declared {
    std::string name, type, dims;
  };
  Choices &choices;
  std::vector<Declared> declared;
};

/// What the expressions of a variant make of one of its parameters, as far as
/// random values have to suit it.
struct ParamUse {
  bool positive = false;   ///< divides, dilates, caps
  bool nonzero = false;    ///< as a kernel says
  bool inScale = false;    ///< scales scores
  bool document = false;   ///< compared with itself at another place
  bool arithmetic = false; ///< more than compared with something
  bool score = false;      ///< part of a score's value, beyond being added
  bool added = false;      ///< added to a score
  bool sink = false;       ///< the sink itself
};

/// One a declared parameter. What a kernel (may be null) says of its
/// parameters is added.
std::vector<ParamUse> parameterUses(const Spec &spec,
                                    const attn_kernel *kernel);

/// Values, shapes and layouts for all parameters of a case whose sizes and
/// lengths are set.
void drawParameters(Choices &choices, Case &c, const attn_kernel *kernel);

} // namespace attn::test

#endif

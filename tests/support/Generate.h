//===- tests/support/Generate.h - Random variants and calls ---------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_GENERATE_H
#define ATTNC_TESTS_SUPPORT_GENERATE_H

#include "tests/support/Case.h"
#include "tests/support/Choices.h"
#include <string>

namespace attn::test {

/// Which parts of the language random variants use, and how large calls get.
struct Features {
  bool groupedHeads = true;   ///< kv_heads, also where they do not divide
  bool kvMap = true;          ///< kv_map
  bool unequalDims = true;    ///< value width apart from qk width
  bool scales = true;         ///< scale expressions
  bool masks = true;          ///< causal, window, sliding, linear forms
  bool bothAlignments = true; ///< align = top_left
  bool lists = false;         ///< let lists indexed by heads, masks by heads
  bool neighborhoods = false; ///< neighborhood(n, d)
  bool scores = false;        ///< score expressions
  bool parameters = false;    ///< declared parameters in all expressions
  bool globals = false;       ///< lists of global tokens, with `parameters`
  bool sinks = false;         ///< sink expressions, with `parameters`
  bool types = false;         ///< tensors of f16 and bf16
  int64_t maxHeads = 6;
  int64_t maxDim = 130;
  int64_t maxLength = 200;
  int64_t maxBatch = 3;
  int64_t maxWork = 20000000; ///< multiplications of Q with K, at most

  /// Tensors of f32, no score, no parameters.
  static Features level1() { return {}; }
  /// The above, and scores, lists for each head and neighbourhoods.
  static Features level2();
  /// The above, and parameters of every kind, global tokens, sinks and types.
  static Features level3();
  /// The same parts of the language, in calls small enough for an emulator.
  Features small() const;
  static Features smallCalls() { return level1().small(); }
};

/// The text of a variant called `name`.
std::string randomVariant(Choices &choices, const Features &features,
                          const std::string &name);

/// A call of a variant: sizes, lengths, layouts, values, parameters. Their
/// values suit what the variant makes of them, and what `kernel`, if there is
/// one, relies on.
Case randomCase(Choices &choices, const Features &features, const Spec &spec,
                const attn_kernel *kernel = nullptr);

/// The one variant of a text. Throws std::logic_error with the diagnostics
/// where the parser refuses it.
Spec parseOne(const std::string &text);

/// The layout of a tensor; `isOutput` excludes overlapping elements.
Layout randomLayout(Choices &choices, bool isOutput);

/// randomVariant, parsed by parseOne, then randomCase.
Case randomVariantCase(Choices &choices, const Features &features,
                       const std::string &name);

} // namespace attn::test

#endif

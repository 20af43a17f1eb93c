//===- tests/support/Properties.h - What holds for every kernel -----------===//
//
// Part of attnc. Apache-2.0.
//
// Each property runs a kernel on a case, in one or several ways, and returns an
// empty text or what it found. They turn the rules of language.md under
// "Meaning" into checks.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_PROPERTIES_H
#define ATTNC_TESTS_SUPPORT_PROPERTIES_H

#include "tests/support/Case.h"
#include "tests/support/Executor.h"
#include <string>

namespace attn::test {

/// A case and the job that runs it.
struct Trial {
  Trial(const Case &c, const Code &code, Order order);
  Case c;
  CallBuffers buffers;
  Job job; ///< without code where the runtime refuses the parameters
  /// After a run with this outcome: empty, or a fault, a byte changed that must
  /// not be, or a difference from the double-precision evaluation.
  std::string judge(const std::string &outcome, double *worst = nullptr) const;
  /// As `judge`, without the comparison of values.
  std::string intact(const std::string &outcome) const;
};

class Properties {
public:
  Properties(Executor &executor, Code code)
      : executor(executor), code(std::move(code)) {}

  /// Rules 1 to 5, 7 and 9, and that nothing else is written.
  std::string matchesOracle(const Case &c, double *worst = nullptr);
  /// Rule 8: bits do not depend on the order and the grouping of work items,
  /// nor on what scratch memory held.
  std::string sameInAnyOrder(const Case &c);
  /// Rule 8: an entry alone gives the bits it gives within the batch.
  std::string sameAloneInBatch(const Case &c);
  /// Rule 6, outside the logical shapes.
  std::string sameForAnyPoison(const Case &c);
  /// Rule 6, within: keys chosen by `seed` are poisoned; rows that may attend
  /// to none of them keep their bits.
  std::string maskedKeysDoNotReach(const Case &c, uint64_t seed, Poison poison,
                                   bool inK, bool inV);
  /// Rule 6, of parameters: elements chosen by `seed` are poisoned, or where
  /// kernels rely on what the values are, exchanged for one another; rows that
  /// depend on none of them keep their bits.
  std::string otherParametersDoNotReach(const Case &c, uint64_t seed,
                                        Poison poison);
  /// Strides, bases, how parameters are passed, the order of lists of tokens
  /// and asking for the LSE do not change the bits of O.
  std::string sameInAnyLayout(const Case &c);

  /// All of the above.
  std::string all(const Case &c, uint64_t seed, double *worst = nullptr);

private:
  /// Empty, or why there is no result to look at.
  std::string runOne(Trial &trial);

  Executor &executor;
  Code code;
};

} // namespace attn::test

#endif

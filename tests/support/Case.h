//===- tests/support/Case.h - One call of one variant, ready to be made ---===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_CASE_H
#define ATTNC_TESTS_SUPPORT_CASE_H

#include "dsl/Spec.h"
#include "runtime/attn.h"
#include "tests/oracle/Oracle.h"
#include "tests/support/Argument.h"
#include "tests/support/Tensor.h"
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace attn::test {

/// The contents of Q, K and V. The default is fill(seed), fill(seed + 1) and
/// fill(seed + 2).
struct Values {
  uint32_t seed = 1;
  bool zeroQuery = false; ///< all logits equal: O is the mean over A(i)
  bool integers = false;  ///< V is small whole numbers
  float qScale = 1, kScale = 1, vScale = 1;
  /// If set, they replace the above. Arguments are logical indices.
  std::function<float(const Index &)> q, k, v;
};

/// A call: a variant, the sizes, where the tensors lie and what they hold.
struct Case {
  Spec spec;
  int64_t batch = 1, qLen = 1, kvLen = 1;
  std::vector<int64_t> qLens, kvLens; ///< empty: all sequences are full
  bool lse = true;
  Layout q, k, v, o, lseLayout;
  Values values;
  std::vector<Argument> params; ///< one a declared parameter
  Poison poison = Poison::Nan;  ///< of everything outside the logical shapes

  int64_t qLenOf(int64_t b) const {
    return qLens.empty() ? qLen : qLens[static_cast<size_t>(b)];
  }
  int64_t kvLenOf(int64_t b) const {
    return kvLens.empty() ? kvLen : kvLens[static_cast<size_t>(b)];
  }
  /// How many positions an entry of the batch has, and the call as a whole.
  int64_t positionsOf(int64_t b) const;
  int64_t positions() const;
  /// The extent of a dimension in this call.
  int64_t extentOf(const Dim &dim) const;
  /// The extents of a declared parameter; [batch, n] for a list of tokens.
  std::vector<int64_t> extentsOf(size_t param) const;
  /// Whether an element of a parameter lies within the lengths of a sequence
  /// that it is for. Indices count in the value's own shape.
  bool isLogical(size_t param, const std::vector<int64_t> &index) const;
  /// The values of the parameters as they are stored.
  oracle::Params oracleParams() const;
};

/// The variant's text, then sizes, lengths, layouts and values.
std::string describe(const Case &c);

/// One stretch of memory that a call reads or writes.
struct Region {
  std::string name;
  std::byte *data = nullptr;
  size_t size = 0;
  Placement placement = Placement::End;
  bool isOutput = false;
};

/// The memory of a case and its attn_call. Every buffer, the lengths included,
/// lies between inaccessible pages; everything outside the logical shapes of
/// the inputs is poison, and outputs start as 0xA5 bytes. Not copyable: `call`
/// points into it.
class CallBuffers {
public:
  /// The runtime prepares the parameters as `kernel` describes them. Without a
  /// kernel `call` passes none, which is enough to evaluate a case.
  explicit CallBuffers(const Case &c, const attn_kernel *kernel = nullptr);
  CallBuffers(const CallBuffers &) = delete;
  CallBuffers &operator=(const CallBuffers &) = delete;

  const attn_call &call() const { return theCall; }
  /// Why the runtime refuses the parameters (`call` then passes none), or an
  /// empty text.
  const std::string &error() const { return refusal; }
  std::vector<Region> regions() const;
  /// The parameters as callers of the runtime pass them; they point into this.
  std::vector<attn_argument> given() const;

  /// Makes K and V of a key (of all kv heads of one batch entry) poison. Takes
  /// effect in memory at once and is part of the inputs from then on.
  void poisonKey(int64_t b, int64_t j, Poison poison, bool inK, bool inV);
  /// Changes parameters, as above: calls `change` with the number and the
  /// memory of each. The runtime then looks at them again (see `error`).
  void changeParameters(
      const std::function<void(size_t param, ArgumentBuffer &memory)> &change);
  /// Gives the poison outside the logical shapes another value.
  void repoison(Poison poison);
  /// Outputs are 0xA5 bytes again.
  void resetOutputs();

  /// Empty, or which byte outside the logical rows of the outputs, or of an
  /// input, was changed since construction or the last change above.
  std::string changedBytes() const;

  /// The bits of one row of O and its LSE (if wanted).
  std::vector<uint32_t> rowBits(int64_t b, int64_t h, int64_t i) const;
  /// The bits of all logical rows, in order.
  std::vector<uint32_t> outputBits() const;

  Tensor q, k, v, o, lse;

private:
  void fillInputs(Poison poison);
  void prepareParameters();
  void takeSnapshots();

  const Case theCase;
  const attn_kernel *kernel = nullptr;
  GuardedBuffer qLens, kvLens;
  std::deque<ArgumentBuffer> arguments; ///< of which tensors point into
  GuardedBuffer prepared;               ///< what the runtime makes of them
  attn_call theCall{};
  std::string refusal;
  std::vector<std::byte> before[5];
  std::vector<std::vector<std::byte>> argumentsBefore;
  std::vector<std::byte> preparedBefore;
};

/// Empty, or the first element that rule 7 finds wrong (or rule 5), with what
/// was expected. `worst`, if given, is raised to the largest error found, in
/// units of what rule 7 tolerates.
std::string compare(const CallBuffers &buffers, const Case &c,
                    const oracle::Output &expected, double *worst = nullptr);

/// The factor `tol` of rule 7.
double tolerance(Type outType);

} // namespace attn::test

#endif

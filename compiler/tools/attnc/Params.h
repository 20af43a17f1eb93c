//===- tools/attnc/Params.h - Values of a variant's parameters ------------===//
//
// Part of attnc. Apache-2.0.
//
// What --param NAME=FILE.npy|VALUE gives a command, up to the fields of an
// attn_call. The runtime's own functions check and lay it out.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TOOLS_ATTNC_PARAMS_H
#define ATTNC_COMPILER_TOOLS_ATTNC_PARAMS_H

#include "compiler/tools/attnc/Tensor.h"
#include "dsl/Spec.h"
#include "runtime/attn.h"
#include <CLI/App.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace attn {

/// The --param of a command.
struct ParamOptions {
  std::vector<std::string> params;
  /// NAME=random and NAME=random:SEED are allowed; for commands that take the
  /// sizes of a call rather than its tensors.
  bool canBeRandom = false;

  void add(CLI::App &command);
};

/// Values of the parameters of one variant, and the memory behind them.
class ParamValues {
public:
  /// Reads what was given. Throws Failure where it does not fit the variant: an
  /// unknown name, one given twice, no value of its type, and, `allRequired`, a
  /// parameter left out. Extents and ranges are left to the runtime.
  ParamValues(const Spec &spec, const ParamOptions &options, bool allRequired);
  ParamValues(const ParamValues &) = delete;
  ParamValues &operator=(const ParamValues &) = delete;

  /// Makes up the values that are to be random, for a call of this size.
  void makeRandom(int64_t batch, int64_t qLen, int64_t kvLen);

  /// One for each parameter that has a value. They live as long as this.
  const std::vector<attn_argument> &arguments() const { return all; }

  /// Checks everything against `call` (its batch and lengths are set) and
  /// fills its parameters and globals in, which live as long as this. Throws
  /// Failure.
  void fill(const attn_kernel &kernel, attn_call &call);

  /// The call of one sequence that holds the values and no tensors, for what
  /// looks at a variant without running it. `params` has an entry for each
  /// declared parameter, whose `data` is NULL where no value was given.
  /// Throws Failure. The values live as long as this.
  attn_call valuesOfSequence(int64_t qLen, int64_t kvLen);

  /// Of a call that `fill` has filled: that of its sequence `b` alone, as
  /// `valuesOfSequence` gives it. Valid until the next call of either.
  attn_call sequenceOf(const attn_call &call, int64_t b);

  /// Whether sequences of a call may differ in the values of their parameters.
  bool differBySequence() const;

private:
  struct Value {
    const Param *param = nullptr;
    std::string text; ///< NAME=..., for messages
    bool isRandom = false;
    uint64_t seed = 1;
    Tensor tensor;
  };
  struct Free {
    void operator()(void *pointer) const { std::free(pointer); }
  };

  void read(Value &value, const std::string &source);
  void add(Value &value);
  [[noreturn]] void fail(const Value &value, const std::string &what) const;

  const Spec spec;
  const bool canBeRandom;
  std::vector<std::unique_ptr<Value>> values; ///< in the order given
  std::vector<attn_argument> all;
  std::unique_ptr<void, Free> memory;
  std::vector<attn_param> declared; ///< of one sequence
};

} // namespace attn

#endif

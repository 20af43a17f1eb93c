//===- tests/kernels/KernelTest.h - Tests of compiled kernels -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_KERNELS_KERNELTEST_H
#define ATTNC_TESTS_KERNELS_KERNELTEST_H

#include "compiler/Compiler.h"
#include "tests/support/Emulated.h"
#include "tests/support/Generate.h"
#include "tests/support/Properties.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace attn::test {

/// Every target that a test of kernels covers.
inline const std::vector<std::string> &allTargets() {
  static const std::vector<std::string> names = {"x86-64", "x86-avx2",
                                                 "x86-avx512", "arm-neon"};
  return names;
}

inline bool runsHere(const std::string &target) {
  for (const TargetState &state : targetStates())
    if (state.name == target)
      return state.runsHere;
  return false;
}

/// Those that this process can run. TargetsTest.cpp sees to the others.
inline std::vector<std::string> targetsHere() {
  std::vector<std::string> names;
  for (const std::string &target : allTargets())
    if (runsHere(target))
      names.push_back(target);
  return names;
}

/// A kernel for a target, or the reasons why not in `error`.
inline Code compileHere(const Spec &spec, const std::string &target,
                        std::string &error) {
  std::vector<Diagnostic> diagnostics;
  CompileOptions options;
  options.target = target;
  Code code;
  code.kernel = jit(spec, options, diagnostics);
  if (!code.kernel)
    error = "not compiled:\n";
  for (const Diagnostic &diagnostic : diagnostics)
    error += render(diagnostic, "test.attn", print(spec));
  return code;
}

/// The kernel as an object, for an emulator.
inline Code objectFor(const Spec &spec, const std::string &target,
                      const std::string &plan = "") {
  CompileOptions options;
  options.target = target;
  options.plan = plan;
  options.assembled = false;
  CompileResult result = compile(spec, "obj", options);
  for (const Diagnostic &diagnostic : result.diagnostics)
    ADD_FAILURE() << render(diagnostic, "test.attn", print(spec));
  return emulatedCode(result.data, kernelSymbol(spec.name, target));
}

inline std::string suffix(const testing::TestParamInfo<std::string> &info) {
  std::string text = info.param;
  for (char &c : text)
    if (isalnum(static_cast<unsigned char>(c)) == 0)
      c = '_';
  return text;
}

/// A test that runs once for each target that runs here.
class KernelTest : public testing::TestWithParam<std::string> {
protected:
  Code compiled(const Spec &spec) {
    std::string error;
    Code code = compileHere(spec, GetParam(), error);
    EXPECT_EQ(error, "") << print(spec);
    return code;
  }

  /// A kernel of one variant with the properties to ask of it.
  Properties kernelOf(const Spec &spec) { return {*executor, compiled(spec)}; }

  /// The kernel matches the oracle on the case.
  void expectRight(const Case &c) {
    EXPECT_EQ(kernelOf(c.spec).matchesOracle(c), "") << describe(c);
  }

  /// Runs a case; expects no fault and nothing else written.
  std::unique_ptr<Trial> run(const Case &c, Order order = Order::AllAtOnce) {
    auto trial = std::make_unique<Trial>(c, compiled(c.spec), order);
    EXPECT_EQ(trial->intact(executor->run({trial->job})[0]), "") << describe(c);
    return trial;
  }

  std::unique_ptr<Executor> executor = makeNativeExecutor();
};

#define ATTN_FOR_EACH_TARGET(suite)                                            \
  INSTANTIATE_TEST_SUITE_P(Targets, suite, testing::ValuesIn(targetsHere()),   \
                           suffix)

/// A variant of one line: heads, kv_heads, width, and the rest.
inline Spec variant(int64_t heads, int64_t kvHeads, int64_t dim,
                    const std::string &rest) {
  return parseOne(fmt::format("attention test {{ heads = {} kv_heads = {} "
                              "head_dim = {} {} }}",
                              heads, kvHeads, dim, rest));
}

/// The same with parameters, which are declared as in a text.
inline Spec variant(const std::string &parameters, int64_t heads,
                    int64_t kvHeads, int64_t dim, const std::string &rest) {
  return parseOne(fmt::format("attention test({}) {{ heads = {} kv_heads = {} "
                              "head_dim = {} {} }}",
                              parameters, heads, kvHeads, dim, rest));
}

/// The value of a parameter: its elements, row by row, and its extents.
inline Argument argument(std::vector<int64_t> shape,
                         std::vector<double> values) {
  Argument result;
  result.value = {std::move(values), std::move(shape)};
  return result;
}
inline Argument scalar(double value) { return argument({}, {value}); }
/// Element n, counted row by row, is value(n).
template <typename F>
Argument argumentOf(const std::vector<int64_t> &shape, F &&value) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  std::vector<double> values;
  for (int64_t n = 0; n < count; ++n)
    values.push_back(static_cast<double>(value(n)));
  return argument(shape, std::move(values));
}

/// V holds the key's position: with Q = 0, O is the mean of positions.
inline float keyPosition(const Index &at) { return static_cast<float>(at[2]); }
inline float one(const Index &) { return 1; }

inline Case caseOf(const Spec &spec, int64_t batch, int64_t qLen,
                   int64_t kvLen) {
  Case c;
  c.spec = spec;
  c.batch = batch;
  c.qLen = qLen;
  c.kvLen = kvLen;
  return c;
}

/// Q = 0 and V_j = j.
inline Case meanCase(const Spec &spec, int64_t batch, int64_t qLen,
                     int64_t kvLen) {
  Case c = caseOf(spec, batch, qLen, kvLen);
  c.values.zeroQuery = true;
  c.values.v = keyPosition;
  return c;
}

} // namespace attn::test

#endif

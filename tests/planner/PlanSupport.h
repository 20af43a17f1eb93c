//===- tests/planner/PlanSupport.h ---------------------------------------===//
//
// Part of attnc. Apache-2.0.
//
// Plans and errors as text, and random problems and machines.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PLANNER_PLANSUPPORT_H
#define ATTNC_TESTS_PLANNER_PLANSUPPORT_H

#include "compiler/Plan.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace attn::test {

/// "rows=96,keys=96,...": also the text of an override.
inline std::string text(const Plan &plan) {
  std::string result;
  for (const auto &[key, value] : fields(plan))
    result += (result.empty() ? "" : ",") + key + "=" + std::to_string(value);
  return result;
}

/// The words of an error; empty for success.
inline std::string words(llvm::Error error) {
  return error ? llvm::toString(std::move(error)) : "";
}

inline TargetInfo machine(unsigned lanes, unsigned registers,
                          uint64_t l2Bytes = 512 << 10, bool fused = true) {
  TargetInfo info;
  info.name = "invented";
  info.lanes = lanes;
  info.registers = registers;
  info.l2Bytes = l2Bytes;
  info.fusedMultiplyAdd = fused;
  return info;
}

/// Heads of one kv head each, unless `groupSizes` says otherwise.
inline Problem problem(int64_t qkDim, int64_t valueDim,
                       std::vector<int64_t> groupSizes = {1}) {
  Problem p;
  p.qkDim = qkDim, p.valueDim = valueDim;
  p.groupSizes = std::move(groupSizes);
  return p;
}

inline int64_t largestGroup(const Problem &p) {
  return *std::max_element(p.groupSizes.begin(), p.groupSizes.end());
}

inline Problem anyProblem(int64_t widest = 4096) {
  auto width = [&] { return *rc::gen::inRange<int64_t>(1, widest + 1); };
  int64_t qkDim = width(), valueDim = width();
  Problem p =
      problem(qkDim, valueDim,
              *rc::gen::nonEmpty(rc::gen::container<std::vector<int64_t>>(
                  rc::gen::inRange<int64_t>(1, 130))));
  p.readsHead = *rc::gen::arbitrary<bool>();
  return p;
}

inline TargetInfo anyMachine(uint64_t smallestL2 = 16 << 10) {
  TargetInfo info =
      machine(*rc::gen::element(4u, 8u, 16u), *rc::gen::element(16u, 32u),
              *rc::gen::inRange<uint64_t>(smallestL2, 4 << 20),
              *rc::gen::arbitrary<bool>());
  info.l1Bytes = *rc::gen::inRange<uint64_t>(8 << 10, 128 << 10);
  return info;
}

} // namespace attn::test

#endif

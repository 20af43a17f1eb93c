//===- tests/support/PtxLaunch.h - Launches of a call's kernel ------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_PTXLAUNCH_H
#define ATTNC_TESTS_SUPPORT_PTXLAUNCH_H

#include "tests/ptx/Interpreter.h"
#include "tests/support/Executor.h"
#include <vector>

namespace attn::test {

/// Runs the device code of a job, as `module` has its text, in one launch for
/// each piece of the job's order; what each launch did. `order` is that of
/// blocks and warps within a launch. Throws ptx::Error. `makePtxExecutor` runs
/// jobs this way where only their outcome counts.
std::vector<ptx::Counts> launchPtx(const ptx::Module &module, const Job &job,
                                   ptx::Order order = ptx::Order::Forward);

} // namespace attn::test

#endif

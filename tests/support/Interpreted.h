//===- tests/support/Interpreted.h - One call through the interpreter -----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_INTERPRETED_H
#define ATTNC_TESTS_SUPPORT_INTERPRETED_H

#include "runtime/attn.h"
#include <string>

namespace attn {

/// What runs the code of devices where there is none.
const char *interpreterName();

/// Runs a kernel of a device on tensors in this process's memory, checked as
/// attn_run checks them, with the kernel's accesses watched. Returns an empty
/// text, or what is wrong with the call or the kernel. `layout` is an
/// attn_layout.
std::string runInterpreted(const attn_kernel &kernel,
                           const attn_tensors &tensors, int layout);

} // namespace attn

#endif

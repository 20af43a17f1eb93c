//===- compiler/FatalErrors.cpp - LLVM's last words as errors -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/FatalErrors.h"
#include "compiler/Codegen.h"
#include "llvm/Support/ErrorHandling.h"
#include <csetjmp>
#include <mutex>
#include <string>

namespace attn {
namespace {

struct Trap {
  std::jmp_buf place;
  std::string message;
  Trap *outer;
};
thread_local Trap *innermost = nullptr;

void onFatalError(void *, const char *message, bool) {
  // Without a trap LLVM goes on to end the process, as it always would.
  if (!innermost)
    return;
  innermost->message = message;
  // LLVM is built without exceptions, so there is no other way back.
  std::longjmp(innermost->place, 1);
}

} // namespace

bool survivingFatalErrors(llvm::function_ref<void()> body,
                          std::vector<Diagnostic> &diagnostics) {
  static std::once_flag once;
  std::call_once(once, [] { llvm::install_fatal_error_handler(onFatalError); });
  Trap trap;
  trap.outer = innermost;
  innermost = &trap;
  if (setjmp(trap.place) == 0) {
    body();
    innermost = trap.outer;
    return true;
  }
  innermost = trap.outer;
  diagnostics.push_back(internalError("code generation: " + trap.message));
  return false;
}

} // namespace attn

//===- tests/runtime/JitSupport.h - One request of attn_jit ---------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_RUNTIME_JITSUPPORT_H
#define ATTNC_TESTS_RUNTIME_JITSUPPORT_H

#include "Support.h"
#include <string>

/// One request; close what it gives.
struct Jit {
  std::string text = "attention a {}";
  attn_jit_options options = {};
  attn_jit_info info = {};
  attn_error error = {};
  attn_bundle *bundle = nullptr;

  Jit(const FakeCompiler &compiler, const std::string &cacheDir)
      : library(compiler.library), cache(cacheDir) {
    options.struct_size = sizeof options;
    options.compiler_library = library.c_str();
    options.cache_dir = cache.c_str();
  }
  ~Jit() { close(); }
  int run() {
    close();
    return attn_jit(text.data(), text.size(), "t.attn", &options, &bundle,
                    &info, &error);
  }
  void close() {
    attn_bundle_close(bundle);
    bundle = nullptr;
  }
  std::string kernelText() const { return attn_bundle_kernel(bundle, 0)->text; }

private:
  std::string library, cache;
};

#endif

//===- tests/cuda/PlainKernel.cpp - The kernel of plain.ptx ---------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/cuda/PlainKernel.h"
#include "runtime/attn.h"
#include "tests/support/Generate.h"
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

namespace attn::test {

static const std::string &plainText() {
  static const std::string text = [] {
    std::ifstream file(PLAIN_PTX);
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
  }();
  return text;
}

PlainKernel::PlainKernel(const std::string &targetName, bool withParameters)
    : target(targetName) {
  text = withParameters
             ? "attention plain(slope: f32[heads], ids: i32[batch, tokens]) { "
               "heads = 2 kv_heads = 1 head_dim = 16 "
               "score = s * slope[h] mask = causal && ids[b, k] != 0 }"
             : "attention plain { heads = 2 kv_heads = 1 head_dim = 16 "
               "mask = causal }";
  code.entry = "plain";
  code.text = plainText().c_str();
  code.threads = 16;
  kernel.abi_version = ATTN_ABI_VERSION;
  kernel.struct_size = sizeof kernel;
  kernel.variant = "plain";
  kernel.target = kernel.features = target.c_str();
  kernel.text = text.c_str();
  kernel.heads = 2;
  kernel.kv_heads = 1;
  kernel.qk_dim = kernel.value_dim = 16;
  kernel.item_groups = 2;
  kernel.item_heads = kernel.item_rows = 1;
  kernel.device = &code;
  kernel.params = params;
  kernel.n_params = withParameters ? 2 : 0;
  params[0].name = "slope";
  params[0].type = ATTN_F32;
  params[0].rank = 1;
  params[0].dims[0] = ATTN_DIM_HEADS;
  params[0].summary_dim = -1;
  params[1].name = "ids";
  params[1].type = ATTN_I32;
  params[1].rank = 2;
  params[1].dims[0] = ATTN_DIM_BATCH;
  params[1].dims[1] = ATTN_DIM_TOKENS;
  params[1].summary_dim = 1;
}

PlainKernel::~PlainKernel() {
  const attn_kernel *all[] = {&kernel};
  attn_bundle *bundle = nullptr;
  attn_error error;
  EXPECT_EQ(attn_bundle_open_static(all, 1, &bundle, &error), ATTN_OK)
      << error.text;
  attn_bundle_close(bundle);
}

Case PlainKernel::someCase(int64_t batch, int64_t qLen, int64_t kvLen) const {
  Case c;
  c.spec = parseOne(text);
  c.batch = batch;
  c.qLen = qLen;
  c.kvLen = kvLen;
  if (kernel.n_params) {
    c.params.resize(2);
    c.params[0].value = {{0.5, 2}, {2}};
    c.params[1].value.shape = {batch, c.positions()};
    for (int64_t n = 0; n < batch * c.positions(); ++n)
      c.params[1].value.values.push_back(n % 3 ? double(n) : 0);
  }
  return c;
}

} // namespace attn::test

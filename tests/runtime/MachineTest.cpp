//===- tests/runtime/MachineTest.cpp - Features of this CPU ---------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "runtime/attn_abi.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <string>

namespace {

bool has(const std::string &word) {
  return attn_machine_has(word.data(), word.size()) != 0;
}

// The list and the question agree, and a word is nothing but itself.
TEST(Machine, ListsWhatItHas) {
  const std::string list = attn_machine_features();
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string word = list.substr(at, end - at);
    EXPECT_TRUE(has(word)) << word;
    EXPECT_FALSE(has(word + "~")) << word;
    EXPECT_FALSE(has("~" + word)) << word;
    at = end + 1;
  }
  EXPECT_FALSE(has(""));
  EXPECT_FALSE(has("no-such-thing"));
}

// Something of each machine that has a folder under targets/.
TEST(Machine, HasTheBaseline) {
#if defined(__x86_64__)
  EXPECT_TRUE(has("sse2"));
#elif defined(__aarch64__)
  EXPECT_TRUE(has("neon"));
#else
  EXPECT_STREQ(attn_machine_features(), "");
#endif
}

} // namespace

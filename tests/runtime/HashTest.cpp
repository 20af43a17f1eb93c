//===- tests/runtime/HashTest.cpp - SHA-256 against published values ------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "internal.h"
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <string>

static std::string hex(const std::string &data, size_t piece = SIZE_MAX) {
  attn_sha256 hash;
  uint8_t digest[32];
  attn_sha256_init(&hash);
  for (size_t at = 0; at < data.size(); at += std::min(piece, data.size() - at))
    attn_sha256_update(&hash, data.data() + at,
                       std::min(piece, data.size() - at));
  attn_sha256_final(&hash, digest);
  std::string text;
  for (uint8_t byte : digest) {
    char two[3];
    snprintf(two, sizeof two, "%02x", byte);
    text += two;
  }
  return text;
}

// FIPS 180-4's examples.
TEST(Sha256, PublishedValues) {
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb924"
                     "27ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223"
                        "b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// The lengths around a block, where the padding changes its form.
TEST(Sha256, PaddingBoundaries) {
  EXPECT_EQ(hex(std::string(55, 'a')),
            "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(hex(std::string(56, 'a')),
            "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT_EQ(hex(std::string(63, 'a')),
            "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34");
  EXPECT_EQ(hex(std::string(64, 'a')),
            "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
  EXPECT_EQ(hex(std::string(119, 'a')),
            "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb");
}

RC_GTEST_PROP(Sha256Property, PiecesDoNotMatter, (const std::string &data)) {
  RC_ASSERT(hex(data) == hex(data, *rc::gen::inRange<size_t>(1, 200)));
}

//===- tests/runtime/ValuesTest.cpp - What is in a call's parameters ------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "ParamsSupport.h"
#include <algorithm>
#include <cmath>

namespace {

/// A rank-1 parameter of the four heads, with one of its values replaced.
std::string fillWith(int type, int flags, Element element) {
  ParamCall call({declare("d", attn_dtype(type), {kHead}, flags)}, 1, 1, 1);
  std::vector<uint8_t> bytes(4 * sizeOf(type));
  for (size_t i = 0; i < 4; ++i)
    memcpy(&bytes[i * sizeOf(type)],
           i == 2 ? &element.bits : &elementsOf(type)[0].bits, sizeOf(type));
  int64_t shape = 4;
  DLTensor dl = {bytes.data(), {kDLCPU, 0}, 1, typeOf(type),
                 &shape,       nullptr,     0};
  call.give("d", &dl);
  int status = call.fill();
  EXPECT_TRUE(status == ATTN_OK || status == ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(status == ATTN_OK, !*call.error.text);
  return call.error.text;
}

} // namespace

TEST(Values, EveryFlagOnEveryType) {
  for (int type : {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_I32, ATTN_BOOL})
    for (int flags = 0; flags < 8; ++flags)
      for (Element element : elementsOf(type)) {
        std::string text = fillWith(type, flags, element);
        EXPECT_EQ(!text.empty(), breaks(flags, element.value))
            << type << " " << flags << " " << element.value << ": " << text;
        if (!text.empty())
          EXPECT_NE(text.find("parameter 'd': the value is "),
                    std::string::npos);
      }
  EXPECT_EQ(fillWith(ATTN_I32, kNonzero, {0, 0}),
            "parameter 'd': the value is 0 at [2], must not be 0 (something is "
            "divided by it)");
  EXPECT_EQ(fillWith(ATTN_I32, kBounded, {1u << 31, 0}),
            "parameter 'd': the value is -2147483648 at [2], must be from "
            "-1073741824 to 1073741824");
  EXPECT_EQ(
      fillWith(ATTN_F32, kPositive, {0xbf800000, 0}),
      "parameter 'd': the value is -1 at [2], must be above 0 and finite");
  for (auto [type, bits] : {std::pair{ATTN_F16, 0xbc00u}, {ATTN_BF16, 0xbf80u}})
    EXPECT_NE(fillWith(type, kPositive, {bits, 0}).find("is -1 at [2]"),
              std::string::npos);
  EXPECT_NE(fillWith(ATTN_F16, kPositive, {0x7e00, 0}).find("is nan at [2]"),
            std::string::npos);
}

// What lies past a sequence's own length may be anything.
TEST(Values, PaddingDoesNotCount) {
  Tensor<int32_t> x({2, 6}, {1, 2, 3, 0, 0, 0, 1, 2, 3, 4, 5, 0});
  for (int dim : {kQuery, kKey, kToken}) {
    ParamCall call({declare("x", ATTN_I32, {kBatch, dim}, kNonzero, 1)}, 2, 6,
                   6);
    call.give("x", &x);
    call.setLens({3, 5}, {3, 5});
    ASSERT_EQ(call.fill(), ATTN_OK) << call.error.text;
    EXPECT_EQ(call[0].blocks[0], 1);
    EXPECT_EQ(call[0].blocks[1], 3);
    EXPECT_EQ(call[0].blocks[call[0].block_stride[0] + 1], 5);
    call.setLens({3, 6}, {3, 6});
    EXPECT_EQ(call.fill(), ATTN_INVALID_ARGUMENT);
    expectWords(call.error, {"the value is 0 at [1, 5]"});
    // The other kind of length has no say, but for positions from the top left.
    bool ofQueries = dim == kQuery;
    call.setLens(
        ofQueries ? std::vector<int64_t>{3, 5} : std::vector<int64_t>{},
        ofQueries ? std::vector<int64_t>{} : std::vector<int64_t>{3, 5});
    EXPECT_EQ(call.fill(), ATTN_OK) << call.error.text;
    call.kernel.flags = ATTN_KERNEL_TOP_LEFT;
    EXPECT_EQ(call.fill(), dim == kToken ? ATTN_INVALID_ARGUMENT : ATTN_OK);
  }
  // One row for all sequences: the longest one counts.
  ParamCall call({declare("x", ATTN_I32, {kBatch, kKey}, kNonzero)}, 2, 1, 6);
  x.shape[0] = 1;
  call.give("x", &x);
  call.setLens({}, {1, 3});
  EXPECT_EQ(call.fill(), ATTN_OK) << call.error.text;
  call.setLens({}, {1, 4});
  EXPECT_EQ(call.fill(), ATTN_INVALID_ARGUMENT);
  expectWords(call.error, {"the value is 0 at [0, 3]"});
}

TEST(Values, BlocksOfAKnownArray) {
  ParamCall call({declare("doc", ATTN_I32, {kBatch, kToken}, 0, 1),
                  declare("t", ATTN_I32, {kKey, kHead}, 0, 0)},
                 2, 1, 70);
  Tensor<int32_t> doc({2, 70}), t({1, kHeads}, {4, 3, 2, 1});
  for (int i = 0; i < 140; ++i)
    doc.data[size_t(i)] = i % 70 / 10 + i / 70 * 100;
  doc.data[69] = INT32_MIN; // padding of the first sequence
  call.give("doc", &doc);
  call.give("t", &t);
  call.setLens({}, {40, 70});
  ASSERT_EQ(call.fill(), ATTN_OK) << call.error.text;
  const int32_t *blocks = call[0].blocks;
  EXPECT_EQ(std::vector<int32_t>(blocks, blocks + 12),
            (std::vector<int32_t>{0, 3, 3, 3, INT32_MAX, INT32_MIN, //
                                  100, 103, 103, 106, 106, 106}));
  EXPECT_EQ(call[0].block_stride[0], 6);
  EXPECT_EQ(call[0].block_stride[1], 2);
  // One key for all: the same numbers in each block, for each head.
  for (int64_t block = 0; block < 3; ++block)
    for (int64_t h = 0; h < kHeads; ++h) {
      const int32_t *pair = call[1].blocks + block * call[1].block_stride[0] +
                            h * call[1].block_stride[1];
      EXPECT_EQ(pair[0], 4 - h);
      EXPECT_EQ(pair[1], 4 - h);
    }
}

// Enormous extents of strides of 0 are a few elements, and looked at as such.
TEST(Values, RepeatedElementsAreReadOnce) {
  ParamCall call({declare("x", ATTN_I32, {kQuery, kKey, kToken}, kNonzero)}, 1,
                 ATTN_MAX_TOKENS, ATTN_MAX_TOKENS);
  int64_t n = ATTN_MAX_TOKENS, shape[] = {n, n, n}, strides[] = {0, 0, 0};
  Tensor<int32_t> x({1}, {1});
  x.dl.ndim = 3;
  x.dl.shape = shape;
  x.dl.strides = strides;
  call.give("x", &x);
  EXPECT_EQ(call.fill(), ATTN_OK) << call.error.text;
  x.data[0] = 0;
  EXPECT_EQ(call.fill(), ATTN_INVALID_ARGUMENT);
  expectWords(call.error, {"the value is 0 at [0, 0, 0]"});
}

TEST(Values, GlobalsAreTheUnionOfAllLists) {
  ParamCall call({declareTokens("a"), declareTokens("b")}, 2, 4, 20);
  Tensor<int32_t> a({2, 4}, {19, 3, 3, -5, -1, -1, -1, -1});
  Tensor<int64_t> b({1, 3}, {8, 3, 0});
  call.kernel.flags = ATTN_KERNEL_GLOBALS;
  call.give("a", &a);
  call.give("b", &b);
  ASSERT_EQ(call.fill(), ATTN_OK) << call.error.text;
  EXPECT_EQ(call.globalsOf(0), (std::vector<int32_t>{0, 3, 8, 19}));
  EXPECT_EQ(call.globalsOf(1), (std::vector<int32_t>{0, 3, 8}));
  EXPECT_EQ(call.call.max_globals, 4);
  EXPECT_EQ(call[1].stride[0], 0);
  // Lists of all sequences only: one list of globals.
  a.shape[0] = 1;
  ASSERT_EQ(call.fill(), ATTN_OK) << call.error.text;
  EXPECT_EQ(call.call.globals_stride, 0);
  EXPECT_EQ(call.globalsOf(1), (std::vector<int32_t>{0, 3, 8, 19}));
  // With queries at positions of their own, there may be more than keys.
  call.kernel.flags |= ATTN_KERNEL_TOP_LEFT;
  call.call.q_len = 30;
  a.data[1] = 29;
  ASSERT_EQ(call.fill(), ATTN_OK) << call.error.text;
  EXPECT_EQ(call.globalsOf(0), (std::vector<int32_t>{0, 3, 8, 19, 29}));
  call.setLens({10, 30}, {20, 5});
  EXPECT_EQ(call.fill(), ATTN_INVALID_ARGUMENT);
  expectWords(call.error,
              {"'a': the value is 29 at [0, 1]", "below 20", "sequence 0"});
}

TEST(Values, ListsMayBeEmpty) {
  ParamCall call({declareTokens("a")}, 2, 4, 20);
  Tensor<int32_t> a({2, 0});
  call.kernel.flags = ATTN_KERNEL_GLOBALS;
  call.give("a", &a);
  ASSERT_EQ(call.fill(), ATTN_OK) << call.error.text;
  EXPECT_EQ(call.call.max_globals, 0);
  EXPECT_EQ(call.globalsOf(1), std::vector<int32_t>());
  const auto *flags = static_cast<const uint8_t *>(call[0].data);
  EXPECT_EQ(std::count(flags, flags + 40, 0), 40);
}

//===- tests/runtime/X86MachineTest.cpp - Features of an x86 CPU
//-----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Machine.h"
#include "runtime/attn_abi.h"
#include <cstring>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <set>
#include <string>

namespace {

constexpr uint32_t kSse3 = 1u << 0, kSsse3 = 1u << 9, kFma = 1u << 12,
                   kSse41 = 1u << 19, kSse42 = 1u << 20, kOsxsave = 1u << 27,
                   kAvx = 1u << 28, kF16c = 1u << 29;
constexpr uint32_t kAvx2 = 1u << 5, kF = 1u << 16, kDq = 1u << 17,
                   kBw = 1u << 30, kVl = 1u << 31;

/// AVX2, FMA and OSXSAVE.
attn_x86_cpuid haswell() {
  attn_x86_cpuid raw = {};
  raw.leaf1_edx = 1u << 26;
  raw.leaf1_ecx =
      kSse3 | kSsse3 | kSse41 | kSse42 | kFma | kF16c | kAvx | kOsxsave;
  raw.leaf7_ebx = kAvx2;
  return raw;
}

std::set<std::string> names(const attn_x86_cpuid &raw, uint64_t xcr0) {
  std::set<std::string> set;
  uint64_t have = attn_x86_features(&raw, xcr0);
  for (unsigned i = 0; attn_x86_feature_name(i); ++i)
    if (have >> i & 1)
      set.insert(attn_x86_feature_name(i));
  return set;
}

/// The level that the three kinds of kernels would be chosen at.
std::string level(const attn_x86_cpuid &raw, uint64_t xcr0) {
  std::set<std::string> have = names(raw, xcr0);
  auto all = [&](std::initializer_list<const char *> words) {
    for (const char *word : words)
      if (!have.count(word))
        return false;
    return true;
  };
  if (all({"avx512f", "avx512bw", "avx512dq", "avx512vl", "f16c"}))
    return "avx512";
  if (all({"avx2", "fma", "f16c"}))
    return "avx2";
  return have.count("sse2") ? "baseline" : "none";
}

} // namespace

TEST(X86Machine, ChoosesByFeaturesAndState) {
  attn_x86_cpuid avx2 = haswell();
  EXPECT_EQ(level(avx2, 0x7), "avx2");

  attn_x86_cpuid avx512 = avx2;
  avx512.leaf7_ebx |= kF | kDq | kBw | kVl;
  EXPECT_EQ(level(avx512, 0x7), "avx2"); // the system does not save it
  EXPECT_EQ(level(avx512, 0xe7), "avx512");
  // Any of the three parts of the state missing is all of it missing.
  for (uint64_t lacking : {0x20, 0x40, 0x80})
    EXPECT_EQ(level(avx512, 0xe7 & ~lacking), "avx2") << lacking;
  for (uint64_t lacking : {0x2, 0x4})
    EXPECT_EQ(level(avx512, 0xe7 & ~lacking), "baseline") << lacking;

  attn_x86_cpuid noSave = avx512;
  noSave.leaf1_ecx &= ~kOsxsave; // XCR0 then says nothing
  EXPECT_EQ(level(noSave, 0xe7), "baseline");
  EXPECT_EQ(names(noSave, 0xe7).count("avx"), 0u);

  attn_x86_cpuid onlyF = avx2;
  onlyF.leaf7_ebx |= kF;
  EXPECT_EQ(level(onlyF, 0xe7), "avx2");
  EXPECT_EQ(names(onlyF, 0xe7).count("avx512f"), 1u);

  attn_x86_cpuid noFma = avx2;
  noFma.leaf1_ecx &= ~kFma;
  EXPECT_EQ(level(noFma, 0x7), "baseline");
  EXPECT_EQ(names(noFma, 0x7).count("avx2"), 1u);
  EXPECT_EQ(names(noFma, 0x7).count("fma"), 0u);
  // What implies FMA is gone with it.
  noFma.leaf7_ebx |= kF;
  EXPECT_EQ(names(noFma, 0xe7).count("avx512f"), 0u);

  attn_x86_cpuid noF16c = avx512;
  noF16c.leaf1_ecx &= ~kF16c;
  EXPECT_EQ(level(noF16c, 0xe7), "baseline");
  EXPECT_EQ(names(noF16c, 0xe7).count("avx2"), 1u);
  EXPECT_EQ(names(noF16c, 0xe7).count("avx512f"), 0u); // implied

  attn_x86_cpuid old = {};
  old.leaf1_edx = 1u << 26;
  EXPECT_EQ(names(old, 0), std::set<std::string>{"sse2"});
  EXPECT_TRUE(names({}, 0xe7).empty());
}

TEST(X86Machine, NamesAreExact) {
  EXPECT_GE(attn_x86_feature_bit("avx", 3), 0);
  EXPECT_NE(attn_x86_feature_bit("avx", 3), attn_x86_feature_bit("avx2", 4));
  EXPECT_EQ(attn_x86_feature_bit("avx2", 3), attn_x86_feature_bit("avx", 3));
  EXPECT_EQ(attn_x86_feature_bit("av", 2), -1);
  EXPECT_EQ(attn_x86_feature_bit("", 0), -1);
  EXPECT_EQ(attn_x86_feature_bit("AVX2", 4), -1);
}

// Whatever bits a machine shows: taking register state or an instruction set
// away never adds a feature.
RC_GTEST_PROP(X86MachineProperty, Monotone, ()) {
  attn_x86_cpuid raw = {};
  auto *words = reinterpret_cast<uint32_t *>(&raw);
  for (size_t i = 0; i < sizeof raw / 4; ++i)
    words[i] =
        *rc::gen::arbitrary<uint32_t>() | *rc::gen::arbitrary<uint32_t>();
  uint64_t xcr0 = *rc::gen::inRange(0, 256);
  attn_x86_cpuid less = raw;
  size_t word = *rc::gen::inRange<size_t>(0, sizeof raw / 4);
  reinterpret_cast<uint32_t *>(&less)[word] &= *rc::gen::arbitrary<uint32_t>();
  uint64_t fewer = xcr0 & uint64_t(*rc::gen::inRange(0, 256));
  uint64_t all = attn_x86_features(&raw, xcr0);
  RC_ASSERT((attn_x86_features(&less, fewer) & ~all) == 0u);
}

// What is reported here is what the compiler's own view of the CPU says.
TEST(X86Machine, AgreesWithTheCompilersDetection) {
#define AGREES(name)                                                           \
  EXPECT_EQ(attn_machine_has(name, strlen(name)) != 0,                         \
            __builtin_cpu_supports(name) != 0)                                 \
      << name
  __builtin_cpu_init();
  AGREES("sse2");
  AGREES("sse4.2");
  AGREES("avx");
  AGREES("avx2");
  AGREES("fma");
  AGREES("bmi2");
  AGREES("avx512f");
  AGREES("avx512bw");
  AGREES("avx512dq");
  AGREES("avx512vl");
#undef AGREES
}

//===- tests/kernels/StorageTest.cpp - Tensors of f16 and bf16 ------------===//
//
// Part of attnc. Apache-2.0.
//
// Every number of the 16-bit types on its way in and out, and kernels of all
// mixtures of types under the properties that hold for f32.
//
//===----------------------------------------------------------------------===//
#include "tests/kernels/KernelTest.h"
#include "llvm/Object/ObjectFile.h"
#include <cmath>
#include <limits>

namespace attn::test {
namespace {

constexpr const char *kTypes[] = {"f32", "f16", "bf16"};
constexpr int64_t kWidth = 64;

Spec stored(const std::string &q, const std::string &kv, const std::string &out,
            int64_t heads, int64_t dim, const std::string &rest = "") {
  return variant(heads, 1, dim,
                 fmt::format("type = {{ q = {}, kv = {}, out = {} }} {}", q, kv,
                             out, rest));
}

/// One key, so that O is V as the type of the outputs holds it. A batch entry
/// has `kWidth` of the values.
Case copies(const Spec &spec, int64_t queries, std::vector<float> values) {
  const int64_t width = spec.valueDim;
  values.resize((values.size() + static_cast<size_t>(width) - 1) /
                static_cast<size_t>(width) * static_cast<size_t>(width));
  Case c =
      caseOf(spec, static_cast<int64_t>(values.size()) / width, queries, 1);
  c.values.v = [values, width](const Index &at) {
    return values[static_cast<size_t>(at[0] * width + at[3])];
  };
  return c;
}

/// Every number of a 16-bit type, infinities and NaN among them.
std::vector<float> everyValue(Type type) {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 1u << 16; ++bits)
    values.push_back(decode(bits, type));
  return values;
}

/// Where rounding turns: between all neighbours of a 16-bit type, and one f32
/// to each side of there; what overflows, underflows and is no number.
std::vector<float> turningPoints(Type type) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values;
  const auto around = [&](float value) {
    for (float x : {value, std::nextafter(value, infinity),
                    std::nextafter(value, -infinity)}) {
      values.push_back(x);
      values.push_back(-x);
    }
  };
  const uint32_t last = encode(infinity, type) - 1;
  for (uint32_t bits = 0; bits < last; ++bits) {
    const double low = decode(bits, type), high = decode(bits + 1, type);
    around(static_cast<float>((low + high) / 2));
  }
  const double largest = decode(last, type);
  const double place = largest - decode(last - 1, type);
  around(static_cast<float>(largest));
  around(static_cast<float>(largest + place / 2));
  around(std::numeric_limits<float>::max());
  around(std::numeric_limits<float>::min());
  around(std::numeric_limits<float>::denorm_min());
  values.insert(values.end(), {infinity, -infinity});
  // Quiet and signalling, with the payload where it is cut off and elsewhere.
  for (uint32_t bits : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0xffffffffu,
                        0xff800001u, 0x7fa00000u, 0x7fffe000u})
    values.push_back(decode(bits, Type::F32));
  return values;
}

/// Empty, or the first element of O that is not what V rounds to.
std::string differsFromValues(const Trial &trial) {
  std::string wrong;
  const Type type = trial.c.spec.outType;
  trial.buffers.o.forEach([&](const Index &at) {
    const float v = trial.buffers.v.get({at[0], 0, 0, at[3]});
    const uint32_t got = trial.buffers.o.bits(at);
    // Adding to a sum of 0 makes it +0.
    const uint32_t want = v == 0 ? 0 : encode(v, type);
    if (wrong.empty() &&
        (std::isnan(v) ? !std::isnan(decode(got, type)) : got != want))
      wrong = fmt::format("V is {:a}; O[{},{},{},{}] is {:#x}, not {:#x}", v,
                          at[0], at[1], at[2], at[3], got, want);
  });
  return wrong;
}

class Storage : public KernelTest {
protected:
  void expectCopied(const Case &c) {
    EXPECT_EQ(differsFromValues(*run(c, Order::Uneven)), "")
        << print(c.spec) << c.qLen << " queries";
  }
};

TEST_P(Storage, EveryNumberIsReadAndWrittenExactly) {
  for (const char *type : {"f16", "bf16"})
    // Values that all rows see, and that some do; in place and copied.
    for (const char *mask : {"", "mask = k <= q + 100000"})
      for (int64_t queries : {1, 30}) {
        Spec spec = stored("f32", type, type, 1, kWidth, mask);
        expectCopied(copies(spec, queries, everyValue(spec.kvType)));
      }
}

TEST_P(Storage, WideningAndNarrowingAgreeForAllTypes) {
  for (const char *kv : kTypes)
    for (const char *out : kTypes) {
      Spec spec = stored("bf16", kv, out, 1, kWidth);
      if (spec.kvType != Type::F32)
        expectCopied(copies(spec, 1, everyValue(spec.kvType)));
    }
}

TEST_P(Storage, OutputsAreRoundedToNearestEven) {
  for (const char *type : {"f16", "bf16"})
    // Whole vectors, and one element at a time.
    for (int64_t width : {kWidth, int64_t{3}}) {
      Spec spec = stored("f32", "f32", type, 1, width);
      Case c = copies(spec, 1, turningPoints(spec.outType));
      expectCopied(c);
      if (width == 3)
        c.o.step = 2;
      expectCopied(c);
    }
}

TEST_P(Storage, QueriesAndKeysAreReadExactly) {
  // Width 1 and a factor of 1: the LSE is the one score.
  for (const char *type : {"f16", "bf16"}) {
    Spec ofKeys = stored("f32", type, "f32", 1, 1, "scale = 1.0");
    Spec ofQueries = stored(type, "f32", "f32", 1, 1, "scale = 1.0");
    std::vector<float> values;
    for (float value : everyValue(ofKeys.kvType))
      if (std::isfinite(value))
        values.push_back(value);
    const auto count = static_cast<int64_t>(values.size());
    const auto unit = [](const Index &) { return 1.0F; };
    Case keys = caseOf(ofKeys, count, 1, 1);
    keys.values.q = unit;
    keys.values.k = [&](const Index &at) {
      return values[static_cast<size_t>(at[0])];
    };
    Case queries = caseOf(ofQueries, 1, count, 1);
    queries.values.k = unit;
    queries.values.q = [&](const Index &at) {
      return values[static_cast<size_t>(at[2])];
    };
    for (const Case *c : {&keys, &queries}) {
      auto trial = run(*c);
      for (int64_t n = 0; n < count; ++n)
        ASSERT_EQ(trial->buffers.lse.get(c == &keys ? Index{n, 0, 0, 0}
                                                    : Index{0, 0, n, 0}),
                  values[static_cast<size_t>(n)])
            << print(c->spec) << n;
    }
  }
}

TEST_P(Storage, TiesGoToEven) {
  // The mean of two neighbours lies between them.
  Case c = caseOf(stored("bf16", "bf16", "bf16", 1, 2), 1, 1, 2);
  c.values.zeroQuery = true;
  c.values.v = [](const Index &at) {
    return (at[3] == 0 ? 1.0F : 1.0078125F) +
           static_cast<float>(at[2]) * 0.0078125F;
  };
  auto trial = run(c);
  EXPECT_EQ(trial->buffers.o.get({0, 0, 0, 0}), 1.0F);
  EXPECT_EQ(trial->buffers.o.get({0, 0, 0, 1}), 1.015625F);
}

TEST_P(Storage, SumsAndProductsLeaveTheRangeOfF16) {
  Case sum = caseOf(stored("f16", "f16", "f16", 1, 64), 1, 1, 4096);
  sum.values.zeroQuery = true;
  sum.values.v = [](const Index &) { return 60.0F; };
  auto summed = run(sum);
  Case product =
      caseOf(stored("f16", "f16", "f16", 1, 64, "scale = 1.0 / 8.0"), 1, 1, 2);
  product.values.q = [](const Index &) { return 32.0F; };
  product.values.k = [](const Index &at) { return at[2] == 0 ? 32.0F : 31.0F; };
  product.values.v = [](const Index &at) { return at[2] == 0 ? 1.0F : 2.0F; };
  auto multiplied = run(product);
  for (int64_t n = 0; n < 64; ++n) {
    EXPECT_EQ(summed->buffers.o.get({0, 0, 0, n}), 60);
    EXPECT_EQ(multiplied->buffers.o.get({0, 0, 0, n}), 1);
  }
  EXPECT_EQ(multiplied->buffers.lse.get({0, 0, 0, 0}), 8192);
}

TEST_P(Storage, AnyMixtureHasAllProperties) {
  uint64_t seed = 0;
  for (const char *q : kTypes)
    for (const char *kv : kTypes)
      for (const char *out : kTypes) {
        // Panels of all columns and not; one row and many; edges in each.
        const bool isOdd = ++seed % 2 != 0;
        Spec spec = stored(q, kv, out, 2, isOdd ? 67 : 64,
                           isOdd ? "mask = causal && sliding(45)"
                                 : "mask = window(30)");
        Properties kernel = kernelOf(spec);
        for (auto [qLen, kvLen] : {std::pair<int64_t, int64_t>{1, 130},
                                   {7, 100},
                                   {70, 101},
                                   {110, 110}}) {
          Case c = caseOf(spec, 1, qLen, kvLen);
          EXPECT_EQ(kernel.all(c, seed), "") << describe(c);
        }
      }
}

TEST_P(Storage, ListedKeysAndDilation) {
  for (const char *type : {"f16", "bf16"}) {
    Spec spec = variant(
        "t: tokens", 2, 2, 40,
        fmt::format("type = {} let d = [1, 3] mask = window(9, 9, d[h]) || "
                    "global(t)",
                    type));
    Case c = caseOf(spec, 1, 90, 90);
    c.params = {argument({1, 3}, {0, 44, 89})};
    EXPECT_EQ(kernelOf(spec).all(c, 5), "") << describe(c);
  }
}

TEST_P(Storage, EmptyRowsAreZero) {
  for (const char *type : {"f16", "bf16"})
    for (const char *mask : {"mask = k < 0", "mask = causal"})
      expectRight(caseOf(stored(type, type, type, 2, 8, mask), 1, 6, 4));
}

TEST_P(Storage, NothingIsReadPastTheEnds) {
  for (const char *type : {"f16", "bf16"})
    for (int64_t dim : {1, 3, 7, 8, 9, 16, 17, 33})
      for (int64_t heads : {1, 3}) {
        Spec spec = stored(type, type, type, heads, dim, "mask = causal");
        Properties kernel = kernelOf(spec);
        for (int64_t qLen : {1, 5, 17})
          for (int64_t kvLen : {1, 2, 7, 17})
            for (Placement placement : {Placement::End, Placement::Start}) {
              Case c = caseOf(spec, 1, qLen, kvLen);
              for (Layout *layout : {&c.q, &c.k, &c.v, &c.o, &c.lseLayout})
                layout->placement = placement;
              ASSERT_EQ(kernel.matchesOracle(c), "") << describe(c);
            }
      }
}

TEST_P(Storage, BasesOfElementAlignment) {
  for (const char *type : {"f16", "bf16"})
    for (int64_t dim : {46, 64, 66}) {
      Case c =
          caseOf(stored(type, type, type, 2, dim, "mask = causal"), 1, 19, 50);
      std::vector<uint32_t> bits = run(c)->buffers.outputBits();
      for (int64_t before : {1, 3, 17}) {
        for (Layout *layout : {&c.q, &c.k, &c.v, &c.o}) {
          layout->placement = Placement::Start;
          layout->before = before;
          layout->after = 16;
          layout->gap[3] = before % 2;
        }
        EXPECT_EQ(run(c)->buffers.outputBits(), bits) << before;
      }
    }
}

ATTN_FOR_EACH_TARGET(Storage);

//===----------------------------------------------------------------------===//
// Every target, whether it runs here or not
//===----------------------------------------------------------------------===//

TEST(Objects, CallNothing) {
  for (const std::string &target : allTargets())
    for (size_t n = 0; n < 9; ++n) {
      // Every pair of types of two tensors is among them.
      const Spec spec = variant(
          "x: f16[heads, keys], y: bf16[queries]", 2, 1, 67,
          fmt::format("type = {{ q = {}, kv = {}, out = {} }} score = s + "
                      "x[h, k] * y[q] mask = causal",
                      kTypes[n % 3], kTypes[n / 3], kTypes[(n + n / 3) % 3]));
      const Code code = objectFor(spec, target);
      auto object = llvm::object::ObjectFile::createObjectFile(
          llvm::MemoryBufferRef(code.object, "object"));
      ASSERT_TRUE(bool(object)) << llvm::toString(object.takeError());
      int symbols = 0;
      for (const llvm::object::SymbolRef &symbol : (*object)->symbols()) {
        ++symbols;
        auto flags = symbol.getFlags();
        ASSERT_TRUE(bool(flags)) << llvm::toString(flags.takeError());
        auto name = symbol.getName();
        ASSERT_TRUE(bool(name)) << llvm::toString(name.takeError());
        EXPECT_FALSE(*flags & llvm::object::SymbolRef::SF_Undefined)
            << target << ": " << name->str() << "\n"
            << print(spec);
      }
      EXPECT_GT(symbols, 0);
    }
}

/// Whether a number lies between two of a type.
bool isTie(float x, Type type) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  return std::isfinite(x) && encode(std::nextafter(x, infinity), type) !=
                                 encode(std::nextafter(x, -infinity), type);
}

/// Numbers in and out, and main loops, through an emulator.
void checkEmulated(const std::string &target) {
  std::vector<std::unique_ptr<Trial>> trials, rounded;
  std::vector<Job> jobs;
  for (const char *type : {"f16", "bf16"}) {
    Spec widened = stored("f32", type, "f32", 1, kWidth);
    Spec narrowed = stored("f32", "f32", type, 1, kWidth);
    narrowed.name = "narrowed";
    // A machine is emulated slowly: some of those between all neighbours.
    // What emulates AVX-512 rounds ties of f16 up, where CPUs take the even.
    const bool noTies = target == "x86-avx512" && narrowed.outType == Type::F16;
    std::vector<float> some, all = turningPoints(narrowed.outType);
    for (size_t n = 0; n < all.size(); ++n)
      if ((n % 13 == 0 || n + 48 > all.size()) &&
          !(noTies && isTie(all[n], narrowed.outType)))
        some.push_back(all[n]);
    for (Spec *spec : {&widened, &narrowed})
      spec->name += type;
    rounded.push_back(
        std::make_unique<Trial>(copies(widened, 1, everyValue(widened.kvType)),
                                objectFor(widened, target), Order::AllAtOnce));
    rounded.push_back(std::make_unique<Trial>(copies(narrowed, 1, some),
                                              objectFor(narrowed, target),
                                              Order::AllAtOnce));
    for (const char *mask : {"causal", "true"}) {
      Spec wide =
          stored(type, type, type, 2, 67, fmt::format("mask = {}", mask));
      wide.name = fmt::format("wide_{}_{}", type, mask);
      const Code code = objectFor(wide, target);
      for (int64_t qLen : {1, 40})
        trials.push_back(std::make_unique<Trial>(caseOf(wide, 1, qLen, 101),
                                                 code, Order::AllAtOnce));
    }
  }
  for (const auto *list : {&rounded, &trials})
    for (const auto &trial : *list)
      jobs.push_back(trial->job);
  const std::vector<std::string> outcomes =
      makeEmulatedExecutor(emulatorFor(target))->run(jobs);
  for (size_t n = 0; n < rounded.size(); ++n) {
    EXPECT_EQ(rounded[n]->intact(outcomes[n]), "") << print(rounded[n]->c.spec);
    EXPECT_EQ(differsFromValues(*rounded[n]), "") << print(rounded[n]->c.spec);
  }
  for (size_t n = 0; n < trials.size(); ++n)
    EXPECT_EQ(trials[n]->judge(outcomes[rounded.size() + n]), "")
        << describe(trials[n]->c);
}

TEST(EmulatedStorage, Avx512) { checkEmulated("x86-avx512"); }
TEST(EmulatedStorage, Avx2) { checkEmulated("x86-avx2"); }
TEST(EmulatedStorage, Neon) { checkEmulated("arm-neon"); }

} // namespace
} // namespace attn::test

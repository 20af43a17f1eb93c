//===- tests/ptx/IntegerTest.cpp - Integers against wide arithmetic -------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "TestSupport.h"
#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>

using namespace attn::ptx;
using namespace attn::ptx::test;

namespace {

using Wide = __int128;
constexpr size_t Cases = 256;

struct IntegerType {
  std::string name;
  Bits bits;
  bool isSigned;
  /// What the bits stand for.
  Wide value(uint64_t raw) const {
    if (isSigned && (raw >> (bits - 1) & 1) != 0)
      return Wide(raw) - (Wide(1) << bits);
    return Wide(raw);
  }
  Wide least() const { return isSigned ? -(Wide(1) << (bits - 1)) : 0; }
  Wide most() const { return (Wide(1) << (bits - (isSigned ? 1 : 0))) - 1; }
};
uint64_t cut(Wide value, Bits bits) {
  return bits == 64 ? uint64_t(value)
                    : uint64_t(value) & ((uint64_t(1) << bits) - 1);
}

const IntegerType Types[] = {{"u16", 16, false}, {"s16", 16, true},
                             {"u32", 32, false}, {"s32", 32, true},
                             {"u64", 64, false}, {"s64", 64, true}};

using Reference =
    std::function<Wide(const IntegerType &, const std::vector<Wide> &)>;

/// Compares an instruction with its definition on integers without bounds; the
/// result is what of it fits in `result` bits.
void compare(
    const std::string &instruction, const IntegerType &type, Bits result,
    const std::vector<Bits> &operands, const Reference &reference,
    const std::function<bool(const std::vector<uint64_t> &)> &defined = {}) {
  SCOPED_TRACE(instruction);
  std::mt19937_64 random(std::hash<std::string>()(instruction));
  std::vector<std::vector<uint64_t>> values;
  for (Bits bits : operands)
    values.push_back(awkward(bits, Cases, random));
  for (size_t i = 0; i < Cases; i++) {
    std::vector<uint64_t> row;
    for (auto &column : values)
      row.push_back(column[i]);
    if (defined && !defined(row))
      for (auto &column : values)
        column[i] = 1;
  }
  std::vector<uint64_t> found = evaluate(instruction, result, operands, values);
  for (size_t i = 0; i < Cases; i++) {
    std::vector<Wide> row;
    for (size_t n = 0; n < operands.size(); n++) {
      IntegerType as{"", operands[n], type.isSigned};
      row.push_back(as.value(values[n][i]));
    }
    EXPECT_EQ(found[i], cut(reference(type, row), result))
        << "case " << i << ": " << values[0][i] << ", "
        << (values.size() > 1 ? values[1][i] : 0);
  }
}

/// Wraps around, far beyond the bits that count.
Wide sum(Wide a, Wide b) {
  return Wide(static_cast<unsigned __int128>(a) +
              static_cast<unsigned __int128>(b));
}

TEST(Integer, SumsAndProducts) {
  for (const IntegerType &type : Types) {
    auto of = [&](const char *text) {
      return fmt::format(fmt::runtime(text), type.name);
    };
    std::vector<Bits> two{type.bits, type.bits},
        three{type.bits, type.bits, type.bits};
    auto check = [&](const char *text, const std::vector<Bits> &operands,
                     const Reference &reference) {
      compare(of(text), type, type.bits, operands, reference);
    };
    check("add.{} $d, $a, $b", two,
          [](auto &, auto &v) { return v[0] + v[1]; });
    check("sub.{} $d, $a, $b", two,
          [](auto &, auto &v) { return v[0] - v[1]; });
    check("min.{} $d, $a, $b", two,
          [](auto &, auto &v) { return std::min(v[0], v[1]); });
    check("max.{} $d, $a, $b", two,
          [](auto &, auto &v) { return std::max(v[0], v[1]); });
    if (type.name == "s32") {
      check("min.relu.{} $d, $a, $b", two, [](auto &, auto &v) {
        return std::max<Wide>(std::min(v[0], v[1]), 0);
      });
      check("max.relu.{} $d, $a, $b", two, [](auto &, auto &v) {
        return std::max<Wide>(std::max(v[0], v[1]), 0);
      });
    }
    // Products of 64 bits fit 128 only without a sign; the low half is the
    // same.
    auto product = [](const IntegerType &t, const std::vector<Wide> &v) {
      return t.isSigned || t.bits < 64
                 ? v[0] * v[1]
                 : Wide(static_cast<unsigned __int128>(v[0]) *
                        static_cast<unsigned __int128>(v[1]));
    };
    auto high = [product](const IntegerType &t, const std::vector<Wide> &v) {
      Wide p = product(t, v);
      return t.isSigned ? p >> t.bits
                        : Wide(static_cast<unsigned __int128>(p) >> t.bits);
    };
    check("mul.lo.{} $d, $a, $b", two, product);
    check("mul.hi.{} $d, $a, $b", two, high);
    check("mad.lo.{} $d, $a, $b, $c", three,
          [product](auto &t, auto &v) { return sum(product(t, v), v[2]); });
    check("mad.hi.{} $d, $a, $b, $c", three,
          [high](auto &t, auto &v) { return sum(high(t, v), v[2]); });
    auto divisible = [&](const std::vector<uint64_t> &v) { return v[1] != 0; };
    compare(
        of("div.{} $d, $a, $b"), type, type.bits, two,
        [](auto &, auto &v) { return v[0] / v[1]; }, divisible);
    compare(
        of("rem.{} $d, $a, $b"), type, type.bits, two,
        [](auto &, auto &v) { return v[0] % v[1]; }, divisible);
    if (type.isSigned) {
      check("neg.{} $d, $a", {type.bits},
            [](auto &, auto &v) { return -v[0]; });
      check("abs.{} $d, $a", {type.bits},
            [](auto &, auto &v) { return v[0] < 0 ? -v[0] : v[0]; });
    }
    if (type.bits == 64)
      continue;
    compare(of("mul.wide.{} $d, $a, $b"), type, 2 * type.bits, two, product);
    compare(of("mad.wide.{} $d, $a, $b, $c"), type, 2 * type.bits,
            {type.bits, type.bits, 2 * type.bits},
            [product](auto &t, auto &v) { return sum(product(t, v), v[2]); });
  }
}

TEST(Integer, Logic) {
  for (Bits bits : {16U, 32U, 64U}) {
    IntegerType type{"", bits, false};
    auto of = [&](const char *text) {
      return fmt::format(fmt::runtime(text), bits);
    };
    std::vector<Bits> two{bits, bits};
    compare(of("and.b{} $d, $a, $b"), type, bits, two,
            [](auto &, auto &v) { return v[0] & v[1]; });
    compare(of("or.b{} $d, $a, $b"), type, bits, two,
            [](auto &, auto &v) { return v[0] | v[1]; });
    compare(of("xor.b{} $d, $a, $b"), type, bits, two,
            [](auto &, auto &v) { return v[0] ^ v[1]; });
    compare(of("not.b{} $d, $a"), type, bits, {bits},
            [](auto &, auto &v) { return ~v[0]; });
  }
  for (const char *op : {"and", "or", "xor"})
    for (unsigned a = 0; a < 2; a++)
      for (unsigned b = 0; b < 2; b++) {
        uint64_t expected = *op == 'a' ? a & b : *op == 'o' ? a | b : a ^ b;
        EXPECT_EQ(evaluate(fmt::format("{}.pred $d, $a, $b", op), 1, {1, 1},
                           {{a}, {b}})[0],
                  expected);
      }
  EXPECT_EQ(evaluate("not.pred $d, $a", 1, {1}, {{0, 1}}),
            (std::vector<uint64_t>{1, 0}));
  EXPECT_EQ(evaluate("mov.pred $d, $a", 1, {1}, {{0, 1}}),
            (std::vector<uint64_t>{0, 1}));
}

TEST(Integer, Shifts) {
  for (const IntegerType &type : Types) {
    // Distances beyond the width count as the width.
    auto distance = [](const IntegerType &t, Wide by) {
      return unsigned(std::min<uint64_t>(uint32_t(by), t.bits));
    };
    compare(fmt::format("shr.{} $d, $a, $b", type.name), type, type.bits,
            {type.bits, 32},
            [&](auto &t, auto &v) { return v[0] >> distance(t, v[1]); });
    compare(fmt::format("and.b32 %r14, $b, 63; shr.{} $d, $a, %r14", type.name),
            type, type.bits, {type.bits, 32},
            [&](auto &t, auto &v) { return v[0] >> distance(t, v[1] & 63); });
    if (type.isSigned)
      continue;
    compare(fmt::format("shl.b{} $d, $a, $b", type.bits), type, type.bits,
            {type.bits, 32}, [&](auto &t, auto &v) {
              unsigned by = distance(t, v[1]);
              return by == t.bits
                         ? Wide(0)
                         : Wide(static_cast<unsigned __int128>(v[0]) << by);
            });
    compare(
        fmt::format("and.b32 %r14, $b, 63; shl.b{} $d, $a, %r14", type.bits),
        type, type.bits, {type.bits, 32}, [&](auto &t, auto &v) {
          return Wide(static_cast<unsigned __int128>(v[0])
                      << distance(t, v[1] & 63));
        });
    compare(fmt::format("shr.b{} $d, $a, 3", type.bits), type, type.bits,
            {type.bits}, [](auto &, auto &v) { return v[0] >> 3; });
  }
  IntegerType word{"", 32, false};
  auto pair = [](const std::vector<Wide> &v) {
    return static_cast<unsigned __int128>(v[1]) << 32 |
           static_cast<unsigned __int128>(v[0]);
  };
  auto by = [](Wide distance, bool wraps) {
    return wraps ? unsigned(distance & 31)
                 : unsigned(std::min<uint64_t>(uint64_t(distance), 32));
  };
  for (bool wraps : {true, false}) {
    const char *mode = wraps ? "wrap" : "clamp";
    compare(fmt::format("shf.l.{}.b32 $d, $a, $b, $c", mode), word, 32,
            {32, 32, 32}, [&](auto &, auto &v) {
              return Wide(pair(v) << by(v[2], wraps) >> 32);
            });
    compare(fmt::format("shf.r.{}.b32 $d, $a, $b, $c", mode), word, 32,
            {32, 32, 32},
            [&](auto &, auto &v) { return Wide(pair(v) >> by(v[2], wraps)); });
  }
}

TEST(Integer, CountsOfBits) {
  for (Bits bits : {32U, 64U}) {
    IntegerType type{"", bits, false};
    compare(fmt::format("popc.b{} $d, $a", bits), type, 32, {bits},
            [](auto &t, auto &v) {
              Wide count = 0;
              for (unsigned n = 0; n < t.bits; n++)
                count += v[0] >> n & 1;
              return count;
            });
    compare(fmt::format("clz.b{} $d, $a", bits), type, 32, {bits},
            [](auto &t, auto &v) {
              unsigned n = 0;
              while (n < t.bits && (v[0] >> (t.bits - 1 - n) & 1) == 0)
                n++;
              return Wide(n);
            });
    compare(fmt::format("brev.b{} $d, $a", bits), type, bits, {bits},
            [](auto &t, auto &v) {
              Wide reversed = 0;
              for (unsigned n = 0; n < t.bits; n++)
                reversed |= (v[0] >> n & 1) << (t.bits - 1 - n);
              return reversed;
            });
  }
}

TEST(Integer, Fields) {
  // As the manual's pseudo code has it, bit by bit.
  auto extract = [](const IntegerType &t, const std::vector<Wide> &v) {
    unsigned msb = t.bits - 1, at = unsigned(v[1]) & 0xff,
             length = unsigned(v[2]) & 0xff;
    Wide sign = 0, field = 0;
    if (t.isSigned && length != 0)
      sign = v[0] >> std::min(at + length - 1, msb) & 1;
    for (unsigned n = 0; n <= msb; n++)
      field |= (n < length && at + n <= msb ? v[0] >> (at + n) & 1 : sign) << n;
    return field;
  };
  auto insert = [](const IntegerType &t, const std::vector<Wide> &v) {
    unsigned msb = t.bits - 1, at = unsigned(v[2]) & 0xff,
             length = unsigned(v[3]) & 0xff;
    Wide field = v[1];
    for (unsigned n = 0; n < length && at + n <= msb; n++)
      field = (field & ~(Wide(1) << (at + n))) | (v[0] >> n & 1) << (at + n);
    return field;
  };
  for (const IntegerType &type : Types) {
    if (type.bits == 16)
      continue;
    const char *small = "and.b32 %r14, $b, 63; and.b32 %r15, $c, 31; ";
    compare(fmt::format("{}bfe.{} $d, $a, %r14, %r15", small, type.name), type,
            type.bits, {type.bits, 32, 32}, [&](auto &t, auto &v) {
              return extract(t, {v[0], v[1] & 63, v[2] & 31});
            });
    compare(fmt::format("bfe.{} $d, $a, $b, $c", type.name), type, type.bits,
            {type.bits, 32, 32}, extract);
    if (type.isSigned)
      continue;
    compare(fmt::format("bfi.b{} $d, $a, $b, $c, $e", type.bits), type,
            type.bits, {type.bits, type.bits, 32, 32}, insert);
    compare(fmt::format("and.b32 %r14, $c, 31; and.b32 %r15, $e, 31; "
                        "bfi.b{} $d, $a, $b, %r14, %r15",
                        type.bits),
            type, type.bits, {type.bits, type.bits, 32, 32},
            [&](auto &t, auto &v) {
              return insert(t, {v[0], v[1], v[2] & 31, v[3] & 31});
            });
  }
}

TEST(Integer, PermuteAndLogicOfThree) {
  IntegerType word{"", 32, false};
  compare("prmt.b32 $d, $a, $b, $c", word, 32, {32, 32, 32},
          [](auto &, auto &v) {
            Wide bytes = v[1] << 32 | v[0], result = 0;
            for (unsigned n = 0; n < 4; n++) {
              Wide nibble = v[2] >> (4 * n) & 15,
                   byte = bytes >> (8 * unsigned(nibble & 7)) & 255;
              if ((nibble & 8) != 0)
                byte = (byte & 128) != 0 ? 255 : 0;
              result |= byte << (8 * n);
            }
            return result;
          });
  // The table is what the function gives for 0xf0, 0xcc and 0xaa.
  compare("lop3.b32 $d, $a, $b, $c, 0x96", word, 32, {32, 32, 32},
          [](auto &, auto &v) { return v[0] ^ v[1] ^ v[2]; });
  compare("lop3.b32 $d, $a, $b, $c, 0xEA", word, 32, {32, 32, 32},
          [](auto &, auto &v) { return (v[0] & v[1]) | v[2]; });
  compare("lop3.b32 $d, $a, $b, $c, 0x40", word, 32, {32, 32, 32},
          [](auto &, auto &v) { return v[0] & v[1] & ~v[2]; });
  compare("lop3.b32 $d, $a, $b, $c, 0xCA", word, 32, {32, 32, 32},
          [](auto &, auto &v) { return (v[0] & v[1]) | (~v[0] & v[2]); });
}

TEST(Integer, Comparisons) {
  struct Relation {
    const char *name;
    bool (*holds)(Wide, Wide);
    bool ofSigned, ofBits;
  };
  const Relation relations[] = {
      {"eq", [](Wide a, Wide b) { return a == b; }, true, true},
      {"ne", [](Wide a, Wide b) { return a != b; }, true, true},
      {"lt", [](Wide a, Wide b) { return a < b; }, true, false},
      {"le", [](Wide a, Wide b) { return a <= b; }, true, false},
      {"gt", [](Wide a, Wide b) { return a > b; }, true, false},
      {"ge", [](Wide a, Wide b) { return a >= b; }, true, false},
      {"lo", [](Wide a, Wide b) { return a < b; }, false, false},
      {"ls", [](Wide a, Wide b) { return a <= b; }, false, false},
      {"hi", [](Wide a, Wide b) { return a > b; }, false, false},
      {"hs", [](Wide a, Wide b) { return a >= b; }, false, false}};
  for (const IntegerType &type : Types)
    for (const Relation &relation : relations) {
      if (type.isSigned && !relation.ofSigned)
        continue;
      auto reference = [&](auto &, auto &v) {
        return Wide(relation.holds(v[0], v[1]));
      };
      compare(fmt::format("setp.{}.{} $d, $a, $b", relation.name, type.name),
              type, 1, {type.bits, type.bits}, reference);
      if (relation.ofBits && !type.isSigned)
        compare(fmt::format("setp.{}.b{} $d, $a, $b", relation.name, type.bits),
                type, 1, {type.bits, type.bits}, reference);
    }
}

TEST(Integer, CombinedComparisons) {
  const std::vector<std::vector<uint64_t>> values = {
      {1, 1, 2, 2}, {1, 1, 1, 1}, {0, 1, 0, 1}};
  using Row = std::vector<uint64_t>;
  auto found = [&](const char *text) {
    return evaluate(text, 1, {32, 32, 1}, values);
  };
  EXPECT_EQ(found("setp.eq.and.u32 $d, $a, $b, $c"), (Row{0, 1, 0, 0}));
  EXPECT_EQ(found("setp.eq.or.u32 $d, $a, $b, $c"), (Row{1, 1, 0, 1}));
  EXPECT_EQ(found("setp.eq.xor.u32 $d, $a, $b, $c"), (Row{1, 0, 0, 1}));
  EXPECT_EQ(found("setp.eq.and.u32 $d, $a, $b, !$c"), (Row{1, 0, 0, 0}));
  // The second result combines the opposite with the same predicate.
  EXPECT_EQ(found("setp.eq.and.u32 %p8|$d, $a, $b, $c"), (Row{0, 0, 0, 1}));
  EXPECT_EQ(found("setp.eq.u32 %p8|$d, $a, $b"), (Row{0, 0, 1, 1}));
}

TEST(Integer, Selections) {
  using Row = std::vector<uint64_t>;
  for (const char *type : {"b16", "u16", "s16", "b32", "u32", "s32", "f32",
                           "b64", "u64", "s64", "f64"}) {
    Bits bits = Bits(std::stoul(type + 1));
    EXPECT_EQ(evaluate(fmt::format("selp.{} $d, $a, $b, $c", type), bits,
                       {bits, bits, 1}, {{7, 7}, {9, 9}, {1, 0}}),
              (Row{7, 9}));
    EXPECT_EQ(evaluate(fmt::format("slct.{}.s32 $d, $a, $b, $c", type), bits,
                       {bits, bits, 32},
                       {{7, 7, 7}, {9, 9, 9}, {0, 0xffffffff, 5}}),
              (Row{7, 9, 7}));
    // A negative zero is not negative, and a NaN chooses the second.
    EXPECT_EQ(evaluate(fmt::format("slct.{}.f32 $d, $a, $b, $c", type), bits,
                       {bits, bits, 32},
                       {{7, 7, 7, 7},
                        {9, 9, 9, 9},
                        {0x80000000, 0xbf800000, 0x7fc00000, 0x3f800000}}),
              (Row{7, 9, 9, 7}));
  }
}

} // namespace

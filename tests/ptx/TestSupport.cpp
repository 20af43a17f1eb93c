//===- tests/ptx/TestSupport.cpp - Small kernels to test with -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "TestSupport.h"
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <numeric>
#include <unistd.h>

namespace attn::ptx::test {

namespace {

/// Bodies of the texts that were used, by their headers.
std::map<std::string, std::string> &texts() {
  static std::map<std::string, std::string> All;
  return All;
}

/// Hands all texts to the assembler when the tests are over.
class AssembleAll : public ::testing::Environment {
public:
  void TearDown() override {
    const std::string assembler = ATTN_PTXAS;
    if (assembler.empty() || access(assembler.c_str(), X_OK) != 0) {
      fmt::print("ptxas is not installed: the PTX of these tests was not "
                 "assembled\n");
      return;
    }
    for (const auto &[header, body] : texts())
      assembleOne(assembler, header, body);
  }

private:
  static void assembleOne(const std::string &assembler,
                          const std::string &header, const std::string &body) {
    namespace fs = std::filesystem;
    size_t at = header.find(".target ") + 8;
    std::string target = header.substr(at, header.find('\n', at) - at);
    fs::path file = fs::temp_directory_path() /
                    fmt::format("attn-ptx-{}-{}.ptx", getpid(), target);
    fs::path log = file;
    log += ".log";
    std::ofstream(file) << header << body;
    std::string command =
        fmt::format("'{}' -arch={} '{}' -o /dev/null > '{}' 2>&1", assembler,
                    target, file.string(), log.string());
    if (std::system(command.c_str()) != 0) { // NOLINT: a path of our own
      std::ifstream said(log);
      ADD_FAILURE() << command << "\n"
                    << std::string(std::istreambuf_iterator<char>(said), {});
    } else {
      fs::remove(file);
      fs::remove(log);
    }
  }
};

[[maybe_unused]] ::testing::Environment *const Registered =
    ::testing::AddGlobalTestEnvironment(new AssembleAll);

void replaceAll(std::string &text, const std::string &what,
                const std::string &with) {
  for (size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

const char *prefixOf(Bits bits) {
  return bits == 1 ? "%p" : bits == 16 ? "%h" : bits == 32 ? "%r" : "%d";
}

} // namespace

Assembled assemble(std::string text, bool alsoAssembler) {
  static unsigned Count = 0;
  std::string name = fmt::format("kernel{}", Count++);
  replaceAll(text, "KERNEL", name);
  Module module = Module::parse(text, "test");
  if (alsoAssembler) {
    size_t end = text.find(".address_size 64\n");
    EXPECT_NE(end, std::string::npos) << text;
    end += std::string_view(".address_size 64\n").size();
    texts()[text.substr(0, end)] += text.substr(end);
  }
  return {module, name, text};
}

std::vector<uint64_t>
evaluate(const std::string &instruction, Bits result,
         const std::vector<Bits> &operands,
         const std::vector<std::vector<uint64_t>> &values) {
  constexpr unsigned LanesOfBlock = 32;
  size_t count = values.empty() ? 1 : values[0].size();
  size_t blocks = (count + LanesOfBlock - 1) / LanesOfBlock;
  size_t padded = blocks * LanesOfBlock;
  std::string code = instruction;
  std::string loads;
  for (size_t n = 0; n < operands.size(); n++) {
    Bits bits = operands[n], loaded = bits == 1 ? 32 : bits;
    loads += fmt::format("\tld.global.b{} {}{}, [%d11];\n", loaded,
                         prefixOf(loaded), n);
    if (bits == 1)
      loads += fmt::format("\tsetp.ne.u32 %p{0}, %r{0}, 0;\n", n);
    loads += "\tadd.s64 %d11, %d11, %d13;\n";
    replaceAll(code, std::string("$") + char('a' + (n < 3 ? n : n + 1)),
               fmt::format("{}{}", prefixOf(bits), n));
  }
  replaceAll(code, "$d", fmt::format("{}9", prefixOf(result)));
  Bits stored = result == 1 ? 32 : result;
  std::string text = fmt::format(
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry KERNEL(.param .u64 KERNEL_in, .param .u64 KERNEL_out,\n"
      "  .param .u32 KERNEL_count)\n{{\n"
      "\t.reg .pred %p<10>;\n\t.reg .b16 %h<10>;\n\t.reg .b32 %r<20>;\n"
      "\t.reg .b64 %d<20>;\n"
      "\tmov.u32 %r10, %tid.x;\n\tmov.u32 %r11, %ctaid.x;\n"
      "\tmad.lo.u32 %r10, %r11, 32, %r10;\n\tmul.wide.u32 %d10, %r10, 8;\n"
      "\tld.param.u64 %d11, [KERNEL_in];\n\tadd.s64 %d11, %d11, %d10;\n"
      "\tld.param.u64 %d12, [KERNEL_out];\n\tadd.s64 %d12, %d12, %d10;\n"
      "\tld.param.u32 %r12, [KERNEL_count];\n\tmul.wide.u32 %d13, %r12, 8;\n"
      "{}\t{};\n{}\tst.global.b{} [%d12], {}9;\n\tret;\n}}\n",
      loads, code, result == 1 ? "\tselp.b32 %r9, 1, 0, %p9;\n" : "", stored,
      prefixOf(stored));
  Assembled assembled = assemble(text);
  std::vector<uint64_t> in(std::max<size_t>(1, operands.size()) * padded);
  for (size_t n = 0; n < operands.size(); n++)
    for (size_t i = 0; i < padded; i++)
      in[n * padded + i] = values[n][i % count];
  std::vector<uint64_t> out(padded, 0);
  Launch launch;
  launch.kernel = assembled.kernel;
  launch.grid = {uint32_t(blocks), 1, 1};
  launch.block = {LanesOfBlock, 1, 1};
  launch.memory = {{in.data(), in.size() * 8, false, "in"},
                   {out.data(), out.size() * 8, true, "out"}};
  uint64_t addresses[] = {reinterpret_cast<uint64_t>(in.data()),
                          reinterpret_cast<uint64_t>(out.data())};
  uint32_t words = uint32_t(padded);
  launch.params.resize(20);
  std::memcpy(launch.params.data(), addresses, 16);
  std::memcpy(launch.params.data() + 16, &words, 4);
  run(assembled.module, launch);
  out.resize(count);
  return out;
}

std::vector<uint64_t> awkward(Bits bits, size_t count,
                              std::mt19937_64 &random) {
  uint64_t all = bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
  uint64_t sign = (all >> 1) + 1;
  const uint64_t corners[] = {0,    1,        2,       3,  sign - 1,
                              sign, sign + 1, all - 1, all};
  std::vector<uint64_t> made;
  while (made.size() < count) {
    uint64_t choice = random() % 4;
    uint64_t value = choice == 0   ? corners[random() % std::size(corners)]
                     : choice == 1 ? random() >> random() % 64
                     : choice == 2 ? ~(random() >> random() % 64)
                                   : random();
    made.push_back(value & all);
  }
  return made;
}

std::vector<uint64_t> awkwardFloats(Bits bits, size_t count,
                                    std::mt19937_64 &random) {
  unsigned digits = bits == 64 ? 52 : bits == 32 ? 23 : 10;
  unsigned exponents = bits - 1 - digits;
  uint64_t most = (uint64_t(1) << exponents) - 1, bias = most / 2;
  std::vector<uint64_t> made;
  while (made.size() < count) {
    uint64_t sign = random() % 2, fraction = random() >> (64 - digits);
    uint64_t exponent = 0;
    switch (random() % 6) {
    case 0:
      exponent = random() % (most + 1);
      break;
    case 1: // subnormal numbers and zeros
      fraction = random() % 3 == 0 ? 0 : fraction;
      break;
    case 2: // infinities and NaNs
      exponent = most;
      fraction = random() % 2 == 0 ? 0 : fraction | uint64_t(1) << (digits - 1);
      break;
    case 3: // small integers and halves
      exponent = bias + random() % 6;
      fraction = fraction >> (digits - 4) << (digits - 4);
      break;
    default:
      exponent = bias - 3 + random() % 7;
    }
    made.push_back(((sign << exponents | exponent) << digits) | fraction);
  }
  return made;
}

Outcome play(const Scene &scene) {
  std::string text = fmt::format(
      ".version 8.0\n.target {}\n.address_size 64\n{}"
      ".visible .entry KERNEL(.param .u64 KERNEL_in, .param .u64 KERNEL_out)\n"
      "{}\n{{\n"
      "\t.reg .pred %p<16>;\n\t.reg .b16 %h<16>;\n\t.reg .b32 %r<64>;\n"
      "\t.reg .b64 %d<32>;\n"
      "\tld.param.u64 %d0, [KERNEL_in];\n\tld.param.u64 %d1, [KERNEL_out];\n"
      "\tmov.u32 %r0, %tid.x;\n\tmov.u32 %r1, %laneid;\n"
      "\tshr.u32 %r2, %r0, 5;\n\tmov.u32 %r3, %ctaid.x;\n"
      "\tmov.u32 %r4, %ntid.x;\n\tmad.lo.u32 %r5, %r3, %r4, %r0;\n"
      "\tmul.wide.u32 %d4, %r5, 4;\n\tadd.s64 %d2, %d0, %d4;\n"
      "\tadd.s64 %d3, %d1, %d4;\n"
      "{}\n\tret;\n}}\n",
      scene.target, scene.declarations, scene.directives, scene.body);
  Assembled assembled = assemble(text, scene.assembles);
  constexpr size_t Guard = 64; // words that belong to no region
  std::vector<uint32_t> memory(2 * RegionWords + 3 * Guard, 0xdeadbeef);
  // Regions begin at multiples of 64 bytes.
  auto *start = memory.data();
  while (reinterpret_cast<uintptr_t>(start) % 64 != 0)
    start++;
  uint32_t *in = start + 16, *out = in + RegionWords + Guard;
  std::iota(in, in + RegionWords, 0);
  std::fill(out, out + RegionWords, ~uint32_t(0));
  Launch launch;
  launch.kernel = assembled.kernel;
  launch.grid = scene.grid;
  launch.block = scene.block;
  launch.dynamicShared = scene.dynamicShared;
  launch.checks = scene.checks;
  launch.order = scene.order;
  launch.instructionLimit = scene.instructionLimit;
  launch.memory = {{in, RegionWords * 4, false, "in"},
                   {out, RegionWords * 4, true, "out"}};
  uint64_t addresses[] = {reinterpret_cast<uint64_t>(in),
                          reinterpret_cast<uint64_t>(out)};
  launch.params.resize(sizeof addresses);
  std::memcpy(launch.params.data(), addresses, sizeof addresses);
  Outcome outcome;
  try {
    outcome.counts = run(assembled.module, launch);
  } catch (const Error &error) {
    outcome.error = error.what();
    size_t at = 0;
    for (int line = 1; line < error.line; line++)
      at = assembled.text.find('\n', at) + 1;
    if (error.line > 0)
      outcome.line =
          assembled.text.substr(at, assembled.text.find('\n', at) - at);
  }
  outcome.out.assign(out, out + RegionWords);
  return outcome;
}

} // namespace attn::ptx::test

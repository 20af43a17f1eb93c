//===- tests/ptx/FlashKernel.cpp - An attention kernel in PTX -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "FlashKernel.h"
#include "Numbers.h"
#include <algorithm>
#include <ctime>
#include <fmt/format.h>
#include <random>

namespace attn::ptx {

namespace {

constexpr unsigned Tile = 64; ///< queries, and keys, of a tile
constexpr unsigned Threads = 128;
constexpr unsigned Stages = 2;

/// Writes the kernel line by line, with registers numbered as they come.
class Writer {
public:
  explicit Writer(const FlashOptions &chosen)
      : options(chosen), rowBytes(2 * chosen.head), tileBytes(Tile * rowBytes) {
  }

  std::string text();

private:
  using Register = std::string;
  using Fragment = std::vector<Register>; ///< of an accumulator: 4 registers

  template <class... A>
  void line(fmt::format_string<A...> format, A &&...args) {
    body += '\t' + fmt::format(format, std::forward<A>(args)...) + '\n';
  }
  Register word() { return fmt::format("%r{}", words++); }
  Register wide() { return fmt::format("%rd{}", wides++); }
  Register predicate() { return fmt::format("%p{}", predicates++); }
  /// The result of `opcode` on the operands.
  template <class... A>
  Register make(const char *opcode, const A &...operands) {
    Register result = word();
    std::string list;
    ((list += fmt::format(", {}", operands)), ...);
    line("{} {}{};", opcode, result, list);
    return result;
  }

  void prologue();
  void copyTile(const Register &global, const Register &shared, unsigned at);
  void scores();
  void maskScores();
  void softmax();
  void accumulate();
  void epilogue();
  void multiply(Fragment &into, const Fragment &a, const Register &b0,
                const Register &b1);
  Fragment loadMatrix(const Register &address, unsigned at, bool transposed);
  Register quadReduce(const char *opcode, Register value);
  /// `column << 4` as the swizzle changes it, for a row whose part is `x`.
  Register swizzled(const Register &base, const Register &x, unsigned column);

  const FlashOptions options;
  const unsigned rowBytes, tileBytes;
  std::string body;
  unsigned words = 0, wides = 0, predicates = 0;

  Register shared, lane, warp, queryBlock, tile, tiles;
  Register copyTo; ///< where a thread's first chunk goes
  Register globalK, globalV, globalO;
  Register stage; ///< offset of the stage that is computed
  Register q, qSwizzle, k, kSwizzle, v, vSwizzle;
  std::vector<Fragment> scoreTiles, outputTiles;
  Register maximum[2], sum[2];
};

Writer::Register Writer::swizzled(const Register &base, const Register &x,
                                  unsigned column) {
  Register offset =
      make(options.swizzle ? "xor.b32" : "add.s32", x, column * 16);
  return make("add.s32", base, offset);
}

/// Threads copy chunks of 16 bytes, in order; a round is 128 of them, so that a
/// thread's chunks have the same column and rows equal modulo 8.
void Writer::copyTile(const Register &global, const Register &to, unsigned at) {
  for (unsigned done = 0; done < tileBytes; done += 16 * Threads)
    line("cp.async.cg.shared.global [{}+{}], [{}+{}], 16;", to, at + done,
         global, done);
}

void Writer::prologue() {
  Register thread = make("mov.u32", "%tid.x");
  lane = make("and.b32", thread, 31);
  warp = make("shr.u32", thread, 5);
  queryBlock = make("mov.u32", "%ctaid.x");
  Register head = make("mov.u32", "%ctaid.y");
  Register length = word();
  line("ld.param.u32 {}, [flash_param_4];", length);
  Register rows = make("mul.lo.s32", head, length);
  Register first = wide();
  line("mul.wide.u32 {}, {}, {};", first, rows, rowBytes);
  Register mine = wide(), pointers[4];
  line("mul.wide.u32 {}, {}, 16;", mine, thread);
  for (unsigned n = 0; n < 4; n++) {
    Register parameter = wide(), global = wide();
    line("ld.param.u64 {}, [flash_param_{}];", parameter, n);
    line("cvta.to.global.u64 {}, {};", global, parameter);
    pointers[n] = global;
  }
  auto add = [&](const Register &a, const Register &b) {
    Register result = wide();
    line("add.s64 {}, {}, {};", result, a, b);
    return result;
  };
  Register block = wide();
  line("mul.wide.u32 {}, {}, {};", block, queryBlock, tileBytes);
  Register globalQ = add(add(add(pointers[0], first), block), mine);
  globalK = add(add(pointers[1], first), mine);
  globalV = add(add(pointers[2], first), mine);
  // O has elements twice as large.
  Register output = add(first, block), twice = wide();
  line("shl.b64 {}, {}, 1;", twice, output);
  globalO = add(pointers[3], twice);

  shared = make("mov.u32", "flash_shared");
  unsigned chunks = rowBytes / 16;
  Register row = make("shr.u32", thread, unsigned(__builtin_ctz(chunks)));
  Register column = make("and.b32", thread, chunks - 1);
  Register rowPart = make("and.b32", row, 7);
  if (options.swizzle)
    column = make("xor.b32", column, rowPart);
  Register inRow = make("shl.b32", column, 4);
  copyTo = make("mad.lo.s32", row, rowBytes, make("add.s32", shared, inRow));

  Register lane16 = make("and.b32", lane, 15), lane8 = make("and.b32", lane, 7);
  Register upper = make("shr.u32", lane, 4);
  Register middle = make("and.b32", make("shr.u32", lane, 3), 1);
  auto part = [&](const Register &half) {
    Register chosen = options.swizzle ? make("xor.b32", half, lane8) : half;
    return make("shl.b32", chosen, 4);
  };
  Register queryRow = make("mad.lo.s32", warp, 16, lane16);
  q = make("mad.lo.s32", queryRow, rowBytes, shared);
  qSwizzle = part(upper);
  Register keyRow = make("mad.lo.s32", upper, 8, lane8);
  k = make("mad.lo.s32", keyRow, rowBytes, make("add.s32", shared, tileBytes));
  kSwizzle = part(middle);
  v = make("mad.lo.s32", lane16, rowBytes,
           make("add.s32", shared, tileBytes * (1 + Stages)));
  vSwizzle = part(upper);

  if (options.causal)
    tiles = make("add.s32", queryBlock, 1);
  else
    tiles = make("shr.u32", length, 6);
  copyTile(globalQ, copyTo, 0);
  copyTile(globalK, copyTo, tileBytes);
  copyTile(globalV, copyTo, tileBytes * (1 + Stages));
  line("cp.async.commit_group;");
  tile = make("mov.u32", 0);
  for (unsigned r = 0; r < 2; r++) {
    maximum[r] = make("mov.f32", "0fF149F2CA"); // -1e30
    sum[r] = make("mov.f32", "0f00000000");
  }
  for (unsigned n = 0; n < options.head / 8; n++) {
    Fragment zero;
    for (unsigned i = 0; i < 4; i++)
      zero.push_back(make("mov.f32", "0f00000000"));
    outputTiles.push_back(zero);
  }
}

Writer::Fragment Writer::loadMatrix(const Register &address, unsigned at,
                                    bool transposed) {
  Fragment loaded;
  for (unsigned n = 0; n < 4; n++)
    loaded.push_back(word());
  line("ldmatrix.sync.aligned.m8n8.x4{}.shared.b16 {{{}}}, [{}+{}];",
       transposed ? ".trans" : "", fmt::join(loaded, ", "), address, at);
  return loaded;
}

void Writer::multiply(Fragment &into, const Fragment &a, const Register &b0,
                      const Register &b1) {
  const char *type = options.bf16 ? "bf16" : "f16";
  line("mma.sync.aligned.m16n8k16.row.col.f32.{}.{}.f32 {{{}}}, {{{}}}, {{{}, "
       "{}}}, {{{}}};",
       type, type, fmt::join(into, ", "), fmt::join(a, ", "), b0, b1,
       fmt::join(into, ", "));
}

void Writer::scores() {
  std::vector<Fragment> queries;
  for (unsigned step = 0; step < options.head / 16; step++)
    queries.push_back(loadMatrix(swizzled(q, qSwizzle, 2 * step), 0, false));
  Register keys = make("add.s32", k, stage);
  scoreTiles.clear();
  for (unsigned n = 0; n < Tile / 8; n++) {
    Fragment zero;
    for (unsigned i = 0; i < 4; i++)
      zero.push_back(make("mov.f32", "0f00000000"));
    scoreTiles.push_back(zero);
  }
  for (unsigned step = 0; step < options.head / 16; step++) {
    Register address = swizzled(keys, kSwizzle, 2 * step);
    for (unsigned n = 0; n < Tile / 16; n++) {
      Fragment b = loadMatrix(address, n * 16 * rowBytes, false);
      multiply(scoreTiles[2 * n], queries[step], b[0], b[1]);
      multiply(scoreTiles[2 * n + 1], queries[step], b[2], b[3]);
    }
  }
}

void Writer::maskScores() {
  Register rows =
      make("mad.lo.s32", queryBlock, Tile, make("shl.b32", warp, 4));
  Register row = make("add.s32", rows, make("shr.u32", lane, 2));
  Register column = make("mad.lo.s32", tile, Tile,
                         make("shl.b32", make("and.b32", lane, 3), 1));
  Register lower = make("add.s32", row, 8);
  for (unsigned n = 0; n < Tile / 8; n++)
    for (unsigned i = 0; i < 4; i++) {
      Register here = make("add.s32", column, 8 * n + i % 2), p = predicate();
      line("setp.gt.s32 {}, {}, {};", p, here, i < 2 ? row : lower);
      scoreTiles[n][i] = make("selp.f32", "0fF149F2CA", scoreTiles[n][i], p);
    }
}

Writer::Register Writer::quadReduce(const char *opcode, Register value) {
  for (unsigned distance : {1, 2})
    value = make(opcode, value,
                 make("shfl.sync.bfly.b32", value, distance, 31, -1));
  return value;
}

void Writer::softmax() {
  // exp(s / sqrt(d)) as a power of two.
  double scale = 1.4426950408889634 / std::sqrt(double(options.head));
  std::string factor = fmt::format("0f{:08X}", bitCast<uint32_t>(float(scale)));
  for (Fragment &fragment : scoreTiles)
    for (Register &score : fragment)
      score = make("mul.rn.f32", score, factor);
  if (options.causal)
    maskScores();
  for (unsigned r = 0; r < 2; r++) {
    Register largest = maximum[r];
    for (const Fragment &fragment : scoreTiles)
      for (unsigned c = 0; c < 2; c++)
        largest = make("max.f32", largest, fragment[2 * r + c]);
    largest = quadReduce("max.f32", largest);
    Register shrink =
        make("ex2.approx.ftz.f32", make("sub.rn.f32", maximum[r], largest));
    Register total = make("mul.rn.f32", sum[r], shrink);
    for (Fragment &fragment : scoreTiles)
      for (unsigned c = 0; c < 2; c++) {
        Register &value = fragment[2 * r + c];
        value = make("ex2.approx.ftz.f32", make("sub.rn.f32", value, largest));
        total = make("add.rn.f32", total, value);
      }
    line("mov.f32 {}, {};", sum[r], total);
    line("mov.f32 {}, {};", maximum[r], largest);
    for (const Fragment &fragment : outputTiles)
      for (unsigned c = 0; c < 2; c++)
        line("mul.rn.f32 {0}, {0}, {1};", fragment[2 * r + c], shrink);
  }
}

void Writer::accumulate() {
  const char *pack = options.bf16 ? "cvt.rn.bf16x2.f32" : "cvt.rn.f16x2.f32";
  Register values = make("add.s32", v, stage);
  std::vector<Register> addresses;
  for (unsigned n = 0; n < options.head / 16; n++)
    addresses.push_back(swizzled(values, vSwizzle, 2 * n));
  for (unsigned step = 0; step < Tile / 16; step++) {
    Fragment a;
    for (unsigned n = 0; n < 4; n++) {
      const Fragment &from = scoreTiles[2 * step + n / 2];
      a.push_back(make(pack, from[2 * (n % 2) + 1], from[2 * (n % 2)]));
    }
    for (unsigned n = 0; n < options.head / 16; n++) {
      Fragment b = loadMatrix(addresses[n], step * 16 * rowBytes, true);
      multiply(outputTiles[2 * n], a, b[0], b[1]);
      multiply(outputTiles[2 * n + 1], a, b[2], b[3]);
    }
  }
}

void Writer::epilogue() {
  Register column = make("shl.b32", make("and.b32", lane, 3), 3);
  Register row = make("mad.lo.s32", warp, 16, make("shr.u32", lane, 2));
  Register at = make("mad.lo.s32", row, 2 * rowBytes, column);
  Register offset = wide(), address = wide();
  line("cvt.u64.u32 {}, {};", offset, at);
  line("add.s64 {}, {}, {};", address, globalO, offset);
  for (unsigned r = 0; r < 2; r++) {
    Register inverse = make("rcp.rn.f32", quadReduce("add.rn.f32", sum[r]));
    for (unsigned n = 0; n < options.head / 8; n++) {
      Register first = make("mul.rn.f32", outputTiles[n][2 * r], inverse);
      Register second = make("mul.rn.f32", outputTiles[n][2 * r + 1], inverse);
      line("st.global.v2.f32 [{}+{}], {{{}, {}}};", address,
           r * 8 * 2 * rowBytes + 32 * n, first, second);
    }
  }
}

std::string Writer::text() {
  prologue();
  Register last = predicate(), more = predicate();
  body += "$loop:\n";
  line("bar.sync 0;"); // all are done with the stage that is filled next
  Register next = make("add.s32", tile, 1);
  line("setp.ge.u32 {}, {}, {};", last, next, tiles);
  line("@{} bra $filled;", last);
  line("add.s64 {0}, {0}, {1};", globalK, tileBytes);
  line("add.s64 {0}, {0}, {1};", globalV, tileBytes);
  Register other =
      make("mad.lo.s32", make("and.b32", next, 1), tileBytes, copyTo);
  copyTile(globalK, other, tileBytes);
  copyTile(globalV, other, tileBytes * (1 + Stages));
  body += "$filled:\n";
  line("cp.async.commit_group;");
  line("cp.async.wait_group 1;");
  line("bar.sync 0;"); // the stage that is computed now is there for all
  stage = make("mul.lo.s32", make("and.b32", tile, 1), tileBytes);
  scores();
  softmax();
  accumulate();
  line("mov.u32 {}, {};", tile, next);
  line("setp.lt.u32 {}, {}, {};", more, next, tiles);
  line("@{} bra $loop;", more);
  epilogue();
  line("ret;");
  return fmt::format(".version 7.0\n"
                     ".target sm_80\n"
                     ".address_size 64\n"
                     ".extern .shared .align 16 .b8 flash_shared[];\n"
                     ".visible .entry flash(\n"
                     "\t.param .u64 flash_param_0,\n"
                     "\t.param .u64 flash_param_1,\n"
                     "\t.param .u64 flash_param_2,\n"
                     "\t.param .u64 flash_param_3,\n"
                     "\t.param .u32 flash_param_4\n"
                     ")\n"
                     ".maxntid {}, 1, 1\n"
                     "{{\n"
                     "\t.reg .pred %p<{}>;\n"
                     "\t.reg .b32 %r<{}>;\n"
                     "\t.reg .b64 %rd<{}>;\n"
                     "{}}}\n",
                     Threads, predicates, words, wides, body);
}

/// Numbers as they are stored, from an address that is a multiple of 64.
struct Inputs {
  std::vector<uint16_t> storage;
  uint16_t *bits = nullptr;
  std::vector<float> values;
};
Inputs randomInputs(size_t count, bool bf16, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Inputs made;
  constexpr size_t Align = 64;
  made.storage.resize(count + Align / 2);
  made.bits = made.storage.data();
  while (reinterpret_cast<uintptr_t>(made.bits) % Align != 0)
    made.bits++;
  for (size_t i = 0; i < count; i++) {
    float value = normal(random);
    made.bits[i] = bf16 ? nearestBf16(value).bits : nearestF16(value).bits;
    made.values.push_back(bf16 ? toFloat(Bf16{made.bits[i]})
                               : toFloat(F16{made.bits[i]}));
  }
  return made;
}

/// One row of attention, in double precision.
std::vector<double> referenceRow(const float *q, const float *k, const float *v,
                                 unsigned keys, unsigned head) {
  std::vector<double> weights(keys), row(head, 0.0);
  double largest = -std::numeric_limits<double>::infinity(), total = 0;
  for (unsigned j = 0; j < keys; j++) {
    for (unsigned d = 0; d < head; d++)
      weights[j] += double(q[d]) * k[size_t(j) * head + d];
    weights[j] /= std::sqrt(double(head));
    largest = std::max(largest, weights[j]);
  }
  for (double &weight : weights)
    total += weight = std::exp(weight - largest);
  for (unsigned j = 0; j < keys; j++)
    for (unsigned d = 0; d < head; d++)
      row[d] += weights[j] / total * v[size_t(j) * head + d];
  return row;
}

} // namespace

std::string flashKernel(const FlashOptions &options) {
  return Writer(options).text();
}

FlashRun runFlash(const Module &module, const FlashOptions &options,
                  unsigned length, unsigned heads, bool checks, Order order) {
  size_t elements = size_t(heads) * length * options.head;
  Inputs q = randomInputs(elements, options.bf16, 1);
  Inputs k = randomInputs(elements, options.bf16, 2);
  Inputs v = randomInputs(elements, options.bf16, 3);
  FlashRun result;
  result.output.assign(elements, std::numeric_limits<float>::quiet_NaN());
  Launch launch;
  launch.kernel = "flash";
  launch.grid = {length / Tile, heads, 1};
  launch.block = {Threads, 1, 1};
  launch.dynamicShared = size_t(1 + 2 * Stages) * Tile * 2 * options.head;
  launch.checks = checks;
  launch.order = order;
  launch.memory = {{q.bits, elements * 2, false, "Q"},
                   {k.bits, elements * 2, false, "K"},
                   {v.bits, elements * 2, false, "V"},
                   {result.output.data(), elements * 4, true, "O"}};
  launch.params.resize(4 * sizeof(void *) + sizeof length);
  for (size_t n = 0; n < 4; n++)
    std::memcpy(launch.params.data() + n * sizeof(void *),
                &launch.memory[n].data, sizeof(void *));
  std::memcpy(launch.params.data() + 4 * sizeof(void *), &length,
              sizeof length);
  std::clock_t begin = std::clock();
  result.counts = run(module, launch);
  result.seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
  for (size_t i = 0; i < elements / options.head; i++) {
    size_t first = i / length * length * options.head;
    unsigned keys = options.causal ? unsigned(i % length) + 1 : length;
    std::vector<double> row =
        referenceRow(&q.values[i * options.head], &k.values[first],
                     &v.values[first], keys, options.head);
    for (unsigned d = 0; d < options.head; d++) {
      double error = std::fabs(row[d] - result.output[i * options.head + d]);
      result.error = std::max(result.error, std::isnan(error) ? 1e30 : error);
    }
  }
  return result;
}

} // namespace attn::ptx

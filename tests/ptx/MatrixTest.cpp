//===- tests/ptx/MatrixTest.cpp - ldmatrix, mma and cp.async --------------===//
//
// Part of attnc. Apache-2.0.
//
// The layouts are the manual's formulas for elements, `groupID = lane >> 2` and
// `threadID_in_group = lane % 4`, and share nothing with the implementation.
//
//===----------------------------------------------------------------------===//
#include "Numbers.h"
#include "TestSupport.h"
#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>

using namespace attn::ptx;
using namespace attn::ptx::test;

namespace {

constexpr unsigned Lanes = 32;

struct Place {
  unsigned row, column;
};
/// Where element i of a lane's fragment is.
using Layout = std::function<Place(unsigned lane, unsigned i)>;

struct Shape {
  const char *name, *type;
  unsigned k;
  unsigned aElements, bElements; ///< of a lane
  unsigned perRegister;
  Layout a, b;
};

Place layoutC(unsigned lane, unsigned i) {
  unsigned groupID = lane >> 2, threadIDInGroup = lane % 4;
  return {i < 2 ? groupID : groupID + 8, threadIDInGroup * 2 + (i & 1)};
}

std::vector<Shape> shapes() {
  std::vector<Shape> made;
  for (const char *type : {"f16", "bf16"}) {
    made.push_back({"m16n8k16", type, 16, 8, 4, 2,
                    [](unsigned lane, unsigned i) -> Place {
                      unsigned groupID = lane >> 2, threadIDInGroup = lane % 4;
                      return {i < 2 || (i >= 4 && i < 6) ? groupID
                                                         : groupID + 8,
                              i < 4 ? threadIDInGroup * 2 + (i & 1)
                                    : threadIDInGroup * 2 + (i & 1) + 8};
                    },
                    [](unsigned lane, unsigned i) -> Place {
                      unsigned groupID = lane >> 2, threadIDInGroup = lane % 4;
                      return {i < 2 ? threadIDInGroup * 2 + (i & 1)
                                    : threadIDInGroup * 2 + (i & 1) + 8,
                              groupID};
                    }});
    made.push_back({"m16n8k8", type, 8, 4, 2, 2,
                    [](unsigned lane, unsigned i) -> Place {
                      return {i < 2 ? lane >> 2 : (lane >> 2) + 8,
                              (lane % 4) * 2 + (i & 1)};
                    },
                    [](unsigned lane, unsigned i) -> Place {
                      return {(lane % 4) * 2 + i, lane >> 2};
                    }});
  }
  made.push_back({"m16n8k8", "tf32", 8, 4, 2, 1,
                  [](unsigned lane, unsigned i) -> Place {
                    return {i == 0 || i == 2 ? lane >> 2 : (lane >> 2) + 8,
                            i < 2 ? lane % 4 : lane % 4 + 4};
                  },
                  [](unsigned lane, unsigned i) -> Place {
                    return {i == 0 ? lane % 4 : lane % 4 + 4, lane >> 2};
                  }});
  made.push_back(
      {"m16n8k4", "tf32", 4, 2, 1, 1,
       [](unsigned lane, unsigned i) -> Place {
         return {i == 0 ? lane >> 2 : (lane >> 2) + 8, lane % 4};
       },
       [](unsigned lane, unsigned) -> Place { return {lane % 4, lane >> 2}; }});
  return made;
}

/// Runs one instruction on what each lane has in its registers and returns what
/// it then has: `words[lane][register]`.
using Words = std::vector<std::vector<uint32_t>>;
Words runOnRegisters(const std::string &instruction, const Words &in,
                     unsigned results) {
  size_t count = in[0].size();
  std::string text =
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry KERNEL(.param .u64 KERNEL_in, .param .u64 KERNEL_out)\n"
      "{\n.reg .b32 %r<40>;\n.reg .b32 %t;\n.reg .b64 %d<4>;\n"
      "ld.param.u64 %d0, [KERNEL_in];\nld.param.u64 %d1, [KERNEL_out];\n"
      "mov.u32 %t, %tid.x;\n";
  text += fmt::format("mul.wide.u32 %d2, %t, {};\nadd.s64 %d0, %d0, %d2;\n"
                      "mul.wide.u32 %d3, %t, {};\nadd.s64 %d1, %d1, %d3;\n",
                      4 * count, 4 * results);
  for (size_t n = 0; n < count; n++)
    text += fmt::format("ld.global.b32 %r{}, [%d0+{}];\n", n, 4 * n);
  text += instruction + "\n";
  for (unsigned n = 0; n < results; n++)
    text += fmt::format("st.global.b32 [%d1+{}], %r{};\n", 4 * n, 30 + n);
  Assembled assembled = assemble(text + "ret;\n}\n");
  std::vector<uint32_t> input, output(Lanes * results);
  for (auto &lane : in)
    input.insert(input.end(), lane.begin(), lane.end());
  Launch launch;
  launch.kernel = assembled.kernel;
  launch.block = {Lanes, 1, 1};
  launch.memory = {{input.data(), input.size() * 4, false, "in"},
                   {output.data(), output.size() * 4, true, "out"}};
  uint64_t addresses[] = {reinterpret_cast<uint64_t>(input.data()),
                          reinterpret_cast<uint64_t>(output.data())};
  launch.params.resize(16);
  std::memcpy(launch.params.data(), addresses, 16);
  Counts counts = run(assembled.module, launch);
  EXPECT_EQ(counts.mma, 1U);
  Words out;
  for (unsigned lane = 0; lane < Lanes; lane++)
    out.emplace_back(output.begin() + lane * results,
                     output.begin() + (lane + 1) * results);
  return out;
}

std::string registers(unsigned first, unsigned count) {
  std::string list;
  for (unsigned n = 0; n < count; n++)
    list += fmt::format("{}%r{}", n == 0 ? "" : ", ", first + n);
  return "{" + list + "}";
}

uint32_t encode(const Shape &shape, float value) {
  std::string type = shape.type;
  return type == "f16"    ? nearestF16(value).bits
         : type == "bf16" ? nearestBf16(value).bits
                          : bitCast<uint32_t>(value);
}

/// The product of matrices through the instruction; `c` and the result are in
/// f32.
std::vector<float> multiply(const Shape &shape, const std::vector<float> &a,
                            const std::vector<float> &b,
                            const std::vector<float> &c) {
  unsigned aRegisters = shape.aElements / shape.perRegister;
  unsigned bRegisters = shape.bElements / shape.perRegister;
  Words in(Lanes);
  for (unsigned lane = 0; lane < Lanes; lane++) {
    auto pack = [&](unsigned count, const Layout &layout,
                    const std::vector<float> &from, unsigned columns) {
      for (unsigned n = 0; n < count; n++) {
        uint32_t word = 0;
        for (unsigned part = 0; part < shape.perRegister; part++) {
          Place at = layout(lane, n * shape.perRegister + part);
          word |= encode(shape, from[at.row * columns + at.column])
                  << (16 * part);
        }
        in[lane].push_back(word);
      }
    };
    pack(aRegisters, shape.a, a, shape.k);
    pack(bRegisters, shape.b, b, 8);
    for (unsigned i = 0; i < 4; i++) {
      Place at = layoutC(lane, i);
      in[lane].push_back(bitCast<uint32_t>(c[at.row * 8 + at.column]));
    }
  }
  std::string text = fmt::format(
      "mma.sync.aligned.{}.row.col.f32.{}.{}.f32 {}, {}, {}, {};", shape.name,
      shape.type, shape.type, registers(30, 4), registers(0, aRegisters),
      registers(aRegisters, bRegisters), registers(aRegisters + bRegisters, 4));
  Words out = runOnRegisters(text, in, 4);
  std::vector<float> d(16 * 8, NAN);
  for (unsigned lane = 0; lane < Lanes; lane++)
    for (unsigned i = 0; i < 4; i++) {
      Place at = layoutC(lane, i);
      d[at.row * 8 + at.column] = bitCast<float>(out[lane][i]);
    }
  return d;
}

TEST(Matrix, Products) {
  // Small integers: every sum is exact, whatever its order.
  for (const Shape &shape : shapes()) {
    SCOPED_TRACE(fmt::format("{} {}", shape.name, shape.type));
    std::mt19937 random(11);
    auto some = [&](size_t count) {
      std::vector<float> made;
      for (size_t n = 0; n < count; n++)
        made.push_back(static_cast<float>(int(random() % 17) - 8));
      return made;
    };
    std::vector<float> a = some(16 * shape.k), b = some(8 * shape.k),
                       c = some(16 * 8);
    std::vector<float> d = multiply(shape, a, b, c);
    for (unsigned row = 0; row < 16; row++)
      for (unsigned column = 0; column < 8; column++) {
        float sum = c[row * 8 + column];
        for (unsigned k = 0; k < shape.k; k++)
          sum += a[row * shape.k + k] * b[k * 8 + column];
        EXPECT_EQ(d[row * 8 + column], sum) << row << ", " << column;
      }
  }
}

TEST(Matrix, Accuracy) {
  for (const Shape &shape : shapes()) {
    std::mt19937 random(12);
    std::normal_distribution<float> normal;
    auto some = [&](size_t count) {
      std::vector<float> made;
      for (size_t n = 0; n < count; n++)
        made.push_back(
            toFloat(nearestBf16(normal(random)))); // fits all formats
      return made;
    };
    std::vector<float> a = some(16 * shape.k), b = some(8 * shape.k),
                       c = some(16 * 8);
    std::vector<float> d = multiply(shape, a, b, c);
    for (unsigned row = 0; row < 16; row++)
      for (unsigned column = 0; column < 8; column++) {
        double sum = c[row * 8 + column], size = std::fabs(sum);
        for (unsigned k = 0; k < shape.k; k++) {
          double product = double(a[row * shape.k + k]) * b[k * 8 + column];
          sum += product;
          size += std::fabs(product);
        }
        EXPECT_LE(std::fabs(d[row * 8 + column] - sum),
                  size * shape.k * 0x1p-24);
      }
  }
}

TEST(Matrix, LowBitsOfTf32DoNotCount) {
  Shape shape = shapes()[4];
  std::vector<float> a(16 * 8, bitCast<float>(uint32_t(0x3f801fff))),
      b(64, 1.0F), c(128, 0.0F);
  EXPECT_EQ(multiply(shape, a, b, c)[0], 8.0F);
}

// --- ldmatrix
// -----------------------------------------------------------------

TEST(Matrix, Loads) {
  for (unsigned count : {1U, 2U, 4U})
    for (bool transposed : {false, true}) {
      // A row of 8 halves, all different, at 16 t for thread t; matrix m takes
      // its rows from threads 8 m to 8 m + 7.
      Scene scene;
      scene.body = ".shared .align 16 .b8 s[512];\nmov.b64 %d8, s;\n"
                   "mul.wide.u32 %d9, %r0, 16;\nadd.s64 %d8, %d8, %d9;\n";
      for (unsigned n = 0; n < 4; n++)
        scene.body += fmt::format(
            "mul.lo.u32 %r8, %r0, 8;\nadd.u32 %r9, %r8, {};\n"
            "add.u32 %r10, %r8, {};\nshl.b32 %r10, %r10, 16;\n"
            "or.b32 %r9, %r9, %r10;\nst.shared.b32 [%d8+{}], %r9;\n",
            2 * n, 2 * n + 1, 4 * n);
      std::string list;
      for (unsigned n = 0; n < count; n++)
        list += fmt::format("{}%r{}", n == 0 ? "" : ", ", 20 + n);
      scene.body += fmt::format(
          "bar.warp.sync -1;\n"
          "ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {{{}}}, [%d8];\n",
          count, transposed ? ".trans" : "", list);
      for (unsigned n = 0; n < count; n++)
        scene.body +=
            fmt::format("st.global.b32 [%d3+{}], %r{};\n", 128 * n, 20 + n);
      SCOPED_TRACE(scene.body);
      Outcome outcome = play(scene);
      ASSERT_EQ(outcome.error, "");
      EXPECT_EQ(outcome.counts.matrixConflicts, 0U);
      for (unsigned matrix = 0; matrix < count; matrix++)
        for (unsigned lane = 0; lane < Lanes; lane++)
          for (unsigned part = 0; part < 2; part++) {
            unsigned row = lane / 4, column = lane % 4 * 2 + part;
            if (transposed)
              std::swap(row, column);
            unsigned expected = 64 * matrix + 8 * row + column;
            EXPECT_EQ(outcome.out[32 * matrix + lane] >> (16 * part) & 0xffff,
                      expected)
                << "matrix " << matrix << " lane " << lane;
          }
    }
}

TEST(Matrix, LoadConflicts) {
  // Rows at a distance of 128 bytes are all in the same banks.
  for (auto [distance, expected] :
       {std::pair{16U, 0U}, {32U, 4U}, {64U, 12U}, {128U, 28U}, {144U, 0U}}) {
    Scene scene;
    scene.body = fmt::format(
        ".shared .align 16 .b8 s[8192];\nmov.b64 %d8, s;\n"
        "mul.wide.u32 %d9, %r0, {};\nadd.s64 %d8, %d8, %d9;\n"
        "st.shared.v4.b32 [%d8], {{%r0, %r0, %r0, %r0}};\nbar.warp.sync -1;\n"
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r20, %r21, %r22, %r23}}, "
        "[%d8];",
        distance);
    Outcome outcome = play(scene);
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.counts.matrixConflicts, expected) << distance;
  }
}

// --- cp.async
// -----------------------------------------------------------------

/// Each thread copies to its 16 bytes and then looks at word `word` of them.
Outcome copied(const std::string &copy, const std::string &finish,
               unsigned word) {
  Scene scene;
  scene.body = fmt::format(
      ".shared .align 16 .b8 s[512];\nmov.b64 %d8, s;\n"
      "mul.wide.u32 %d9, %r0, 16;\nadd.s64 %d8, %d8, %d9;\n"
      "add.s64 %d9, %d0, %d9;\nmov.b32 %r9, -1;\n"
      "st.shared.v4.b32 [%d8], {{%r9, %r9, %r9, %r9}};\n"
      "{}\n{}\nld.shared.b32 %r8, [%d8+{}];\nst.global.b32 [%d3], %r8;",
      copy, finish, 4 * word);
  SCOPED_TRACE(scene.body);
  Outcome outcome = play(scene);
  EXPECT_EQ(outcome.error, "");
  return outcome;
}

TEST(Copy, WidthsAndZeros) {
  const std::string commit = "cp.async.commit_group;\ncp.async.wait_group 0;";
  struct Row {
    const char *copy;
    unsigned bytes, copied; ///< written, and of these read
  };
  const Row rows[] = {
      {"cp.async.cg.shared.global [%d8], [%d9], 16;", 16, 16},
      {"cp.async.ca.shared.global [%d8], [%d9], 16;", 16, 16},
      {"cp.async.ca.shared.global [%d8], [%d9], 8;", 8, 8},
      {"cp.async.ca.shared::cta.global [%d8], [%d9], 4;", 4, 4},
      {"cp.async.cg.shared.global.L2::128B [%d8], [%d9], 16;", 16, 16},
      {"mov.b32 %r10, 8; cp.async.cg.shared.global [%d8], [%d9], 16, %r10;", 16,
       8},
      {"cp.async.cg.shared.global [%d8], [%d9], 16, 0;", 16, 0},
      {"cp.async.ca.shared.global [%d8], [%d9], 8, 4;", 8, 4}};
  for (const Row &row : rows)
    for (unsigned word = 0; word < 4; word++)
      for (const std::string &finish :
           {commit, std::string("cp.async.wait_all;")}) {
        Outcome outcome = copied(row.copy, finish, word);
        for (uint32_t lane : {0U, 7U, 31U})
          EXPECT_EQ(outcome.out[lane], 4 * word < row.copied  ? 4 * lane + word
                                       : 4 * word < row.bytes ? 0
                                                              : ~0U)
              << row.copy << " word " << word;
        EXPECT_EQ(outcome.counts.globalRead, 32U * row.copied);
      }
}

TEST(Copy, GroupsInOrder) {
  // Three groups; the oldest two are over when one may be left.
  Scene scene;
  scene.body =
      ".shared .align 16 .b8 s[2048];\nmov.b64 %d8, s;\n"
      "mul.wide.u32 %d9, %r0, 16;\nadd.s64 %d8, %d8, %d9;\nadd.s64 %d9, %d0, "
      "%d9;\n"
      "cp.async.cg.shared.global [%d8], [%d9], 16;\ncp.async.commit_group;\n"
      "cp.async.cg.shared.global [%d8+512], [%d9+512], "
      "16;\ncp.async.commit_group;\n"
      "cp.async.cg.shared.global [%d8+1024], [%d9+1024], "
      "16;\ncp.async.commit_group;\n"
      "cp.async.wait_group 1;\nld.shared.b32 %r8, [%d8];\n"
      "ld.shared.b32 %r9, [%d8+512];\nadd.u32 %r8, %r8, %r9;\n"
      "cp.async.wait_group 0;\nld.shared.b32 %r9, [%d8+1024];\n"
      "add.u32 %r8, %r8, %r9;\nst.global.b32 [%d3], %r8;";
  Outcome outcome = play(scene);
  EXPECT_EQ(outcome.error, "");
  for (uint32_t lane = 0; lane < Lanes; lane++)
    EXPECT_EQ(outcome.out[lane], 3 * 4 * lane + 128 + 256);
  EXPECT_EQ(outcome.counts.asyncConflicts, 0U);
}

TEST(Copy, LanesApart) {
  // Lanes that commit on their own have groups of their own.
  Scene scene;
  scene.body = ".shared .align 16 .b8 s[1024];\nmov.b64 %d8, s;\n"
               "mul.wide.u32 %d9, %r0, 16;\nadd.s64 %d8, %d8, %d9;\nadd.s64 "
               "%d9, %d0, %d9;\n"
               "setp.lt.u32 %p0, %r0, 16;\n"
               "cp.async.cg.shared.global [%d8], [%d9], 16;\n"
               "@%p0 cp.async.commit_group;\n"
               "cp.async.cg.shared.global [%d8+512], [%d9+512], "
               "16;\ncp.async.commit_group;\n"
               "cp.async.wait_group 1;\nmov.b32 %r8, 5;\n"
               "@%p0 ld.shared.b32 %r8, [%d8];\nst.global.b32 [%d3], %r8;\n"
               "cp.async.wait_all;";
  Outcome outcome = play(scene);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.out[3], 12U);
  // The upper lanes closed one group only: it is the one that may be left.
  scene.body.replace(scene.body.find("@%p0 ld"), 4, "");
  EXPECT_NE(play(scene).error.find("thread (16, 0, 0)"), std::string::npos);
}

TEST(Copy, WriteConflicts) {
  for (auto [distance, expected] : {std::pair{16U, 0U}, {128U, 28U}}) {
    Scene scene;
    scene.body =
        fmt::format(".shared .align 16 .b8 s[4096];\nmov.b64 %d8, s;\n"
                    "mul.wide.u32 %d9, %r0, {};\nadd.s64 %d8, %d8, %d9;\n"
                    "cp.async.cg.shared.global [%d8], [%d0], 16;\n"
                    "cp.async.wait_all;",
                    distance);
    Outcome outcome = play(scene);
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.counts.asyncConflicts, expected);
    EXPECT_EQ(outcome.counts.globalRead, 512U);
    EXPECT_EQ(outcome.counts.globalReadSectors, 32U);
  }
}

} // namespace

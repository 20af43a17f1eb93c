//===- tests/ptx/Matrix.cpp - ldmatrix and mma ----------------------------===//
//
// Part of attnc. Apache-2.0.
//
// Products of f16, bf16 and tf32 are exact in f32; they are added to the
// accumulator in f32 one by one, in the order of k, rounded to nearest. A
// device may add in another order and round otherwise, so that results agree
// within a tolerance only.
//
//===----------------------------------------------------------------------===//
#include "Conflicts.h"
#include "Decoder.h"
#include "Fragments.h"
#include "Machine.h"
#include <fmt/format.h>

namespace attn::ptx {

namespace {

constexpr unsigned Rows = 16, Columns = 8;

/// The elements of a 32-bit register, along k.
struct OfF16 {
  static constexpr unsigned PerRegister = 2;
  static float element(uint32_t bits, unsigned which) {
    return toFloat(F16{uint16_t(bits >> (16 * which))});
  }
};
struct OfBf16 {
  static constexpr unsigned PerRegister = 2;
  static float element(uint32_t bits, unsigned which) {
    return toFloat(Bf16{uint16_t(bits >> (16 * which))});
  }
};
struct OfTf32 {
  static constexpr unsigned PerRegister = 1;
  static float element(uint32_t bits, unsigned) {
    return bitCast<float>(bits &
                          ~uint32_t(0x1fff)); // the low bits do not count
  }
};

template <unsigned K>
[[gnu::always_inline]] inline void multiplyRows(const float *a, const float *b,
                                                float *c) {
  for (unsigned row = 0; row < Rows; row++) {
    float
        sums[Columns]; // kept apart from memory, so that they stay in registers
    std::memcpy(sums, c + row * Columns, sizeof sums);
    for (unsigned k = 0; k < K; k++)
      for (unsigned column = 0; column < Columns; column++)
        sums[column] += a[row * K + k] * b[k * Columns + column];
    std::memcpy(c + row * Columns, sums, sizeof sums);
  }
}

// Most of a kernel's time goes here: where the system can choose when the
// program starts, take what the CPU at hand can do. Sanitizers cannot bear it.
#if defined(__x86_64__) && defined(__linux__) && defined(__clang__)
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer) &&   \
    !__has_feature(memory_sanitizer)
#define ATTN_PTX_CLONES                                                        \
  __attribute__((target_clones("arch=x86-64-v3", "default")))
#endif
#endif
#ifndef ATTN_PTX_CLONES
#define ATTN_PTX_CLONES
#endif
ATTN_PTX_CLONES void multiply16(const float *a, const float *b, float *c) {
  multiplyRows<16>(a, b, c);
}
ATTN_PTX_CLONES void multiply8(const float *a, const float *b, float *c) {
  multiplyRows<8>(a, b, c);
}
#undef ATTN_PTX_CLONES

template <unsigned K>
void multiply(const float (&a)[Rows][K], const float (&b)[K][Columns],
              float (&c)[Rows][Columns]) {
  if constexpr (K == 16)
    multiply16(a[0], b[0], c[0]);
  else if constexpr (K == 8)
    multiply8(a[0], b[0], c[0]);
  else
    multiplyRows<K>(a[0], b[0], c[0]);
}

// op: 4 registers of D, then those of A, of B and 4 of C.
template <class Element, unsigned K>
void multiplyAdd(Warp &warp, const Instruction &i, Mask) {
  constexpr unsigned Per = Element::PerRegister;
  constexpr unsigned InA = K / Per / 2, InB = K / Per / 4;
  using Layout = Fragments<Per>;
  float a[Rows][K], b[K][Columns], c[Rows][Columns];
  float values[Per][Lanes];
  auto widen = [&](Slot slot) {
    const uint32_t *bits = warp.lanes<uint32_t>(slot);
    for (unsigned which = 0; which < Per; which++)
      for (unsigned lane = 0; lane < Lanes; lane++)
        values[which][lane] = Element::element(bits[lane], which);
  };
  for (unsigned n = 0; n < InA; n++) {
    widen(i.op[4 + n]);
    for (unsigned lane = 0; lane < Lanes; lane++) {
      auto [row, column] = Layout::a(lane, n);
      for (unsigned which = 0; which < Per; which++)
        a[row][column + which] = values[which][lane];
    }
  }
  for (unsigned n = 0; n < InB; n++) {
    widen(i.op[4 + InA + n]);
    for (unsigned lane = 0; lane < Lanes; lane++) {
      auto [row, column] = Layout::b(lane, n);
      for (unsigned which = 0; which < Per; which++)
        b[row + which][column] = values[which][lane];
    }
  }
  for (unsigned n = 0; n < 4; n++) {
    const float *from = warp.lanes<float>(i.op[4 + InA + InB + n]);
    for (unsigned lane = 0; lane < Lanes; lane++) {
      auto [row, column] = accumulator(lane, n);
      c[row][column] = from[lane];
    }
  }
  multiply<K>(a, b, c);
  for (unsigned n = 0; n < 4; n++) {
    float *into = warp.lanes<float>(i.op[n]);
    for (unsigned lane = 0; lane < Lanes; lane++) {
      auto [row, column] = accumulator(lane, n);
      into[lane] = canonical(c[row][column]);
    }
  }
  Counts &counts = warp.machine->counts;
  counts.mma++;
  counts.mmaFlops += 2 * Rows * Columns * K;
}

// op[0]: addresses; op[1...]: the registers. small: matrices, transposed,
// whether addresses are generic, whether they have 64 bits.
void loadMatrix(Warp &warp, const Instruction &i, Mask) {
  constexpr unsigned Side = 8, RowBytes = 16;
  Machine &machine = *warp.machine;
  unsigned matrices = i.small[0];
  bool transposed = i.small[1] != 0;
  uint16_t values[4][Side][Side];
  for (unsigned matrix = 0; matrix < matrices; matrix++) {
    // Lanes 8 m to 8 m + 7 say where the rows of matrix m are; what they say is
    // for the whole warp to read.
    Traffic traffic(machine.counts);
    for (unsigned row = 0; row < Side; row++) {
      unsigned lane = Side * matrix + row;
      uint64_t address = warp.base(i.op[0], i.small[3] != 0, lane) + i.imm[0];
      if (i.small[2] != 0)
        address -= SharedWindow;
      std::memcpy(values[matrix][row],
                  machine.shared.read(warp, i, lane, address, RowBytes,
                                      SharedMemory::ManyLanes),
                  RowBytes);
      traffic.shared(row, address);
    }
    machine.counts.matrixConflicts += traffic.conflicts(RowBytes);
  }
  machine.counts.sharedAccesses++;
  for (unsigned matrix = 0; matrix < matrices; matrix++) {
    uint32_t *into = warp.lanes<uint32_t>(i.op[1 + matrix]);
    for (unsigned lane = 0; lane < Lanes; lane++) {
      unsigned row = lane / 4, column = 2 * (lane % 4);
      const auto &of = values[matrix];
      uint32_t low = transposed ? of[column][row] : of[row][column];
      uint32_t high = transposed ? of[column + 1][row] : of[row][column + 1];
      into[lane] = high << 16 | low;
    }
  }
}

void decodeLoadMatrix(Decoder &decoder) {
  decoder.takeOneOf({"sync"});
  decoder.takeOneOf({"aligned"});
  decoder.takeOneOf({"m8n8"});
  decoder.takeOneOf({"b16"});
  std::string_view count = decoder.takeOneOf({"x1", "x2", "x4"});
  unsigned matrices = count == "x1" ? 1 : count == "x2" ? 2 : 4;
  bool transposed = decoder.take("trans");
  Space space = decoder.takeSpace();
  if (space != Space::Shared && space != Space::Generic)
    decoder.unknown();
  decoder.expectOperands(2);
  Instruction &out = decoder.out;
  Decoder::Address address = decoder.address(1, space);
  out.op[0] = address.base;
  out.imm[0] = address.offset;
  const std::vector<OperandText> &into = decoder.elements(0, matrices);
  for (unsigned n = 0; n < matrices; n++)
    out.op[1 + n] = decoder.destination(into[n], Type::B32);
  out.small = {uint8_t(matrices), transposed, space == Space::Generic,
               address.wide};
  out.gather = Gather::Whole;
  decoder.done(loadMatrix);
}

void decodeMultiplyAdd(Decoder &decoder) {
  decoder.takeOneOf({"sync"});
  decoder.takeOneOf({"aligned"});
  std::string_view shape =
      decoder.takeOneOf({"m16n8k4", "m16n8k8", "m16n8k16"});
  decoder.takeOneOf({"row"});
  decoder.takeOneOf({"col"});
  Type d = decoder.takeType(), a = decoder.takeType(), b = decoder.takeType(),
       c = decoder.takeType();
  if (d != Type::F32 || c != Type::F32 || a != b)
    decoder.unknown();
  Handler handler = nullptr;
  unsigned inA = 0;
  auto choose = [&](std::string_view name, Type type, unsigned registers,
                    Handler chosen) {
    if (shape == name && a == type) {
      handler = chosen;
      inA = registers;
    }
  };
  choose("m16n8k16", Type::F16, 4, multiplyAdd<OfF16, 16>);
  choose("m16n8k16", Type::Bf16, 4, multiplyAdd<OfBf16, 16>);
  choose("m16n8k8", Type::F16, 2, multiplyAdd<OfF16, 8>);
  choose("m16n8k8", Type::Bf16, 2, multiplyAdd<OfBf16, 8>);
  choose("m16n8k8", Type::Tf32, 4, multiplyAdd<OfTf32, 8>);
  choose("m16n8k4", Type::Tf32, 2, multiplyAdd<OfTf32, 4>);
  if (!handler)
    decoder.unknown();
  decoder.expectOperands(4);
  Instruction &out = decoder.out;
  size_t next = 0;
  for (const OperandText &text : decoder.elements(0, 4))
    out.op[next++] = decoder.destination(text, Type::F32);
  for (const OperandText &text : decoder.elements(1, inA))
    out.op[next++] = decoder.source(text, Type::B32);
  if (inA == 2) {
    // A list of one register may be written without braces.
    const OperandText &text = decoder.operand(2);
    out.op[next++] = decoder.source(text.kind == OperandText::Kind::Vector
                                        ? decoder.elements(2, 1)[0]
                                        : text,
                                    Type::B32);
  } else {
    for (const OperandText &text : decoder.elements(2, 2))
      out.op[next++] = decoder.source(text, Type::B32);
  }
  for (const OperandText &text : decoder.elements(3, 4))
    out.op[next++] = decoder.source(text, Type::F32);
  out.gather = Gather::Whole;
  decoder.done(handler);
}

} // namespace

void addMatrix(Opcodes &opcodes) {
  opcodes["ldmatrix"] = decodeLoadMatrix;
  opcodes["mma"] = decodeMultiplyAdd;
}

} // namespace attn::ptx

//===- tests/ptx/Fragments.h - Where the elements of a matrix are ---------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_PTX_FRAGMENTS_H
#define ATTNC_TESTS_PTX_FRAGMENTS_H

namespace attn::ptx {

struct Position {
  unsigned row, column;
};

/// Which element of the operands of mma.m16n8kK a lane has in a register, in
/// the manual's terms: lanes form groups of four. A register of A or B holds
/// `PerRegister` neighbours along k, the first in its lowest bits.
template <unsigned PerRegister> struct Fragments {
  /// A has 16 rows and K columns; this is the register's first element.
  static constexpr Position a(unsigned lane, unsigned index) {
    return {lane / 4 + 8 * (index % 2),
            PerRegister * (lane % 4) + 4 * PerRegister * (index / 2)};
  }
  /// B has K rows and 8 columns.
  static constexpr Position b(unsigned lane, unsigned index) {
    return {PerRegister * (lane % 4) + 4 * PerRegister * index, lane / 4};
  }
};

/// C and D have 16 rows and 8 columns, an element a register.
constexpr Position accumulator(unsigned lane, unsigned index) {
  return {lane / 4 + 8 * (index / 2), 2 * (lane % 4) + index % 2};
}

} // namespace attn::ptx

#endif

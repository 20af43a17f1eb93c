//===- tests/compiler/MaskTree.h - Random masks with a meaning ------------===//
//
// Part of attnc. Apache-2.0.
//
// A mask as a tree that can be evaluated for one pair of positions, on its own
// in 128-bit integers, and built as the region that the compiler sees. Trees
// are decoded from a tape of numbers, so that shrinking the tape shrinks the
// tree.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_COMPILER_MASKTREE_H
#define ATTNC_TESTS_COMPILER_MASKTREE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Region.h"
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace attn::test {

enum class Node {
  // integers
  Const,
  Arg, ///< value: its number in the mask's argument list
  Add,
  Sub,
  Mul,
  Div,
  FloorDiv,
  CeilDiv,
  Rem,
  Min,
  Max,
  Abs,
  Pick, ///< args[0] ? args[1] : args[2]
  FromBit,
  BitAnd,  ///< not understood by range analysis
  Element, ///< of table number `value`, at args
  // conditions
  True,
  False,
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  ULt, ///< unsigned
  And,
  Or,
  Xor,
  Same, ///< equality of two conditions
  Not,
  PickBit,
  Flag,      ///< of table number `value`, at args
  Member,    ///< position args[0] is in list number `value` of entry b
  Congruent, ///< (k - q) % args[0] == 0
  FloatLess  ///< args[0] < value in f64; not understood by range analysis
};

struct Tree;
using TreeRef = std::shared_ptr<const Tree>;
struct Tree {
  Node node;
  int64_t value = 0;
  std::vector<TreeRef> args = {};
};

inline TreeRef make(Node node, std::vector<TreeRef> args = {},
                    int64_t value = 0) {
  return std::make_shared<const Tree>(Tree{node, value, std::move(args)});
}
inline TreeRef number(int64_t value) { return make(Node::Const, {}, value); }
inline TreeRef arg(unsigned i) { return make(Node::Arg, {}, i); }
inline TreeRef element(int64_t table, std::vector<TreeRef> at) {
  return make(Node::Element, std::move(at), table);
}
inline TreeRef flag(int64_t table, std::vector<TreeRef> at) {
  return make(Node::Flag, std::move(at), table);
}
inline TreeRef operator+(TreeRef a, TreeRef b) {
  return make(Node::Add, {a, b});
}
inline TreeRef operator-(TreeRef a, TreeRef b) {
  return make(Node::Sub, {a, b});
}
inline TreeRef operator*(int64_t n, TreeRef a) {
  return make(Node::Mul, {number(n), a});
}
inline TreeRef operator&&(TreeRef a, TreeRef b) {
  return make(Node::And, {a, b});
}
inline TreeRef operator||(TreeRef a, TreeRef b) {
  return make(Node::Or, {a, b});
}
inline TreeRef operator!(TreeRef a) { return make(Node::Not, {a}); }
inline TreeRef le(TreeRef a, TreeRef b) { return make(Node::Le, {a, b}); }
inline TreeRef lt(TreeRef a, TreeRef b) { return make(Node::Lt, {a, b}); }
inline TreeRef eq(TreeRef a, TreeRef b) { return make(Node::Eq, {a, b}); }

/// The values of (b, h, g, q, k, q_len, kv_len).
using Point = std::array<int64_t, 7>;

/// The values of a parameter, row by row. An index beyond a dimension takes the
/// nearest element. A list of tokens has the shape [batch, positions].
struct Table {
  bool isBool = false;
  std::vector<int64_t> shape, values;

  int64_t at(const std::vector<int64_t> &index) const;
};
using Tables = std::vector<Table>;

/// Thrown where a value leaves what even the oracle can hold.
struct TooLarge {};

/// The value, or 0/1, by the definitions of the operations on integers without
/// bounds.
__int128 evaluate(const TreeRef &tree, const Point &at,
                  const Tables &tables = {});

std::string print(const TreeRef &tree);

/// The tree as a mask region; lives as long as the object.
class MaskRegion {
public:
  MaskRegion(mlir::MLIRContext &context, const TreeRef &tree);
  mlir::Region &region() { return body; }

private:
  mlir::Value build(mlir::OpBuilder &b, const TreeRef &tree);
  mlir::Region body;
};

/// Draws from a tape; zeros once it has run out.
class Tape {
public:
  explicit Tape(const std::vector<unsigned> &values) : values(values) {}
  unsigned draw(unsigned below) {
    return at < values.size() ? values[at++] % below : 0;
  }
  int64_t between(int64_t lo, int64_t hi) {
    return lo + draw(static_cast<unsigned>(hi - lo + 1));
  }

private:
  const std::vector<unsigned> &values;
  size_t at = 0;
};

/// `open`: with parts that range analysis does not understand. With `tables`
/// their elements, too; a bool table of shape [4, n] also is a list of tokens.
TreeRef randomCondition(Tape &tape, unsigned depth, bool open,
                        const Tables *tables = nullptr);

} // namespace attn::test

#endif

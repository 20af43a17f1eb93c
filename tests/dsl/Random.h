//===- tests/dsl/Random.h - Random variants -------------------------------===//
//
// Part of attnc. Apache-2.0.
//
// Well-typed by construction. Within a RapidCheck property only.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_DSL_RANDOM_H
#define ATTNC_TESTS_DSL_RANDOM_H

#include "dsl/Variant.h"

#include <rapidcheck.h>

namespace attn::random {

inline int below(int end) { return *rc::gen::inRange(0, end); }

/// A positive number with all kinds of exponents and mantissas.
inline double number() {
  switch (below(4)) {
  case 0:
    return below(100);
  case 1:
    return below(1000000) / 1024.0;
  case 2:
    return below(1000000) * 1e-9;
  default:
    return (below(1000000) + 0.1) * 1e20;
  }
}

/// What expressions of a place may use besides constants.
struct Scope {
  bool variables = false; ///< b h g q k q_len kv_len, positions' built-ins
  bool score = false;     ///< s
  bool heads = false;     ///< h g
  bool params = false;    ///< those that `randomVariant` declares
  bool intParam = false;  ///< the i32 scalar
  bool lets = false;      ///< those that `randomVariant` declares
};

dsl::Ex randomInt(const Scope &scope, int depth);
dsl::Ex randomFloat(const Scope &scope, int depth);
dsl::Ex randomBool(const Scope &scope, int depth);

/// A variant with every field by chance.
Variant randomVariant();

} // namespace attn::random

#endif

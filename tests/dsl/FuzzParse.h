//===- tests/dsl/FuzzParse.h - What holds for any bytes -------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_DSL_FUZZPARSE_H
#define ATTNC_TESTS_DSL_FUZZPARSE_H

#include <string_view>

namespace attn {

/// Reads `input` as a text (what is after the first NUL byte, if there is one
/// and it has a '=', is a `-D`) and ends the process if what must hold for any
/// bytes does not.
void checkAnyBytes(std::string_view input);

} // namespace attn

#endif

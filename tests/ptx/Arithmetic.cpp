//===- tests/ptx/Arithmetic.cpp - Opcodes for numbers of every kind -------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Decoder.h"

namespace attn::ptx {

namespace {

void decodeArithmetic(Decoder &decoder) {
  Type type = decoder.takeType();
  switch (type) {
  case Type::F32:
  case Type::F64:
    return decodeFloat(decoder, type);
  case Type::F16:
  case Type::F16x2:
  case Type::Bf16:
  case Type::Bf16x2:
    return decodeHalf(decoder, type);
  default:
    return decodeInteger(decoder, type);
  }
}

} // namespace

void addArithmetic(Opcodes &opcodes) {
  for (const char *name : {"add", "sub", "mul", "mad", "fma", "div", "rem",
                           "min", "max", "abs", "neg", "ex2", "tanh"})
    opcodes[name] = decodeArithmetic;
}

} // namespace attn::ptx

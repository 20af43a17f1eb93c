//===- tests/ptx/Move.cpp - mov and cvta ----------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Decoder.h"
#include "Machine.h"

namespace attn::ptx {

namespace {

template <class T> T same(T a) { return a; }

void movePredicate(Warp &warp, const Instruction &i, Mask mask) {
  Mask value = warp.predicate(i.op[1]);
  Mask &into = warp.predicate(i.op[0]);
  into = (into & ~mask) | (value & mask);
}

// op[0]: the wide register; op[1...]: its parts, the lowest first.
// small: bytes of a part, parts.
void packParts(Warp &warp, const Instruction &i, Mask mask) {
  unsigned bytes = i.small[0], parts = i.small[1];
  forLanes(mask, [&](unsigned lane) {
    std::byte packed[8];
    for (unsigned part = 0; part < parts; part++)
      std::memcpy(packed + part * bytes,
                  warp.lanes<std::byte>(i.op[1 + part]) + lane * bytes, bytes);
    std::memcpy(warp.lanes<std::byte>(i.op[0]) + lane * bytes * parts, packed,
                bytes * parts);
  });
}
void unpackParts(Warp &warp, const Instruction &i, Mask mask) {
  unsigned bytes = i.small[0], parts = i.small[1];
  forLanes(mask, [&](unsigned lane) {
    std::byte packed[8];
    std::memcpy(packed, warp.lanes<std::byte>(i.op[0]) + lane * bytes * parts,
                bytes * parts);
    for (unsigned part = 0; part < parts; part++)
      std::memcpy(warp.lanes<std::byte>(i.op[1 + part]) + lane * bytes,
                  packed + part * bytes, bytes);
  });
}

void decodeParts(Decoder &decoder, Type type, bool packs) {
  const OperandText &vector = decoder.operand(packs ? 1 : 0);
  size_t parts = vector.parts.size();
  unsigned bits = bitsOf(type);
  if (type > Type::B64 || (parts != 2 && parts != 4) || bits / parts < 16)
    decoder.unknown();
  Type partType = bits / parts == 16 ? Type::B16 : Type::B32;
  Instruction &out = decoder.out;
  out.op[0] = packs ? decoder.destination(0, type) : decoder.source(1, type);
  for (size_t part = 0; part < parts; part++)
    out.op[1 + part] = packs
                           ? decoder.source(vector.parts[part], partType)
                           : decoder.destination(vector.parts[part], partType);
  out.small = {uint8_t(bits / parts / 8), uint8_t(parts)};
  decoder.done(packs ? packParts : unpackParts);
}

void decodeMove(Decoder &decoder) {
  Type type = decoder.takeType();
  decoder.expectOperands(2);
  if (decoder.operand(0).kind == OperandText::Kind::Vector)
    return decodeParts(decoder, type, false);
  if (decoder.operand(1).kind == OperandText::Kind::Vector)
    return decodeParts(decoder, type, true);
  decoder.out.op[0] = decoder.destination(0, type);
  decoder.out.op[1] = decoder.source(1, type);
  switch (bitsOf(type)) {
  case 1:
    return decoder.done(movePredicate);
  case 16:
    return decoder.done(Lanewise<same<uint16_t>>::run);
  case 32:
    return decoder.done(Lanewise<same<uint32_t>>::run);
  case 64:
    return decoder.done(Lanewise<same<uint64_t>>::run);
  default:
    decoder.unknown();
  }
}

uint64_t windowOf(Space space) {
  switch (space) {
  case Space::Shared:
    return SharedWindow;
  case Space::Local:
    return LocalWindow;
  case Space::Param:
    return ParamWindow;
  default:
    return 0; // addresses in global and constant memory are generic ones
  }
}

template <Space From> uint64_t toGeneric(uint64_t address) {
  return address + windowOf(From);
}
template <Space To> uint64_t fromGeneric(uint64_t address) {
  return address - windowOf(To);
}

template <Space S> Handler conversion(bool toSpace) {
  return toSpace ? Lanewise<fromGeneric<S>>::run : Lanewise<toGeneric<S>>::run;
}

void decodeConvertAddress(Decoder &decoder) {
  bool toSpace = decoder.take("to");
  Space space = decoder.takeSpace();
  decoder.takeOneOf({"u64"});
  decoder.expectOperands(2);
  decoder.out.op[0] = decoder.destination(0, Type::U64);
  decoder.out.op[1] = decoder.source(1, Type::U64);
  switch (space) {
  case Space::Global:
  case Space::Const:
    return decoder.done(conversion<Space::Global>(toSpace));
  case Space::Shared:
    return decoder.done(conversion<Space::Shared>(toSpace));
  case Space::Local:
    return decoder.done(conversion<Space::Local>(toSpace));
  case Space::Param:
    return decoder.done(conversion<Space::Param>(toSpace));
  case Space::Generic:
    decoder.unknown();
  }
}

} // namespace

void addMove(Opcodes &opcodes) {
  opcodes["mov"] = decodeMove;
  opcodes["cvta"] = decodeConvertAddress;
}

} // namespace attn::ptx

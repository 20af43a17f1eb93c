//===- compiler/Header.cpp - The C header of compiled objects -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Compiler.h"

namespace attn {

/// Text inside a C comment can't end it, nor continue a line.
static std::string comment(const std::string &text) {
  std::string result = " *   ";
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '\n' && i + 1 == text.size())
      break;
    if (c == '/' && i > 0 && (text[i - 1] == '*'))
      result += ' ';
    if (c == '*' && i > 0 && text[i - 1] == '/')
      result += ' ';
    result += c;
    if (c == '\n')
      result += " *   ";
  }
  return result + "\n";
}

std::string emitHeader(const std::vector<Spec> &specs,
                       const std::vector<std::string> &targets) {
  std::string names;
  for (const Spec &spec : specs)
    names += "_" + spec.name;
  for (const std::string &target : targets)
    names += "_" + kernelSymbol("", target).substr(sizeof("attn___") - 1);
  const std::string guard = "ATTN_KERNELS" + names + "_H";

  std::string h;
  h += "/* Attention kernels compiled by attnc " + compilerVersion() + ".\n";
  h += " * Generated: changes are lost. */\n";
  h += "#ifndef " + guard + "\n#define " + guard + "\n\n";
  h += "#include \"attn_abi.h\"\n\n";
  h += "#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
  for (const Spec &spec : specs) {
    h += "\n/* " + spec.name + ": Q [batch, " + std::to_string(spec.heads) +
         ", q_len, " + std::to_string(spec.qkDim) + "], K [batch, " +
         std::to_string(spec.kvHeads) + ", kv_len, " +
         std::to_string(spec.qkDim) + "], V [batch, " +
         std::to_string(spec.kvHeads) + ", kv_len, " +
         std::to_string(spec.valueDim) + "].\n *\n" + comment(print(spec)) +
         " */\n";
    for (const std::string &target : targets)
      h +=
          "extern const attn_kernel " + kernelSymbol(spec.name, target) + ";\n";
  }
  h += "\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
  return h;
}

} // namespace attn

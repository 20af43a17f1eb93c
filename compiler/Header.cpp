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

/// What a program calls to have one of several kernels picked.
static std::string pickFunction(const std::string &variant) {
  const std::string table = tableSymbol(variant);
  return "/* The kernels above. */\n"
         "extern const attn_bundle_table " +
         table +
         ";\n"
         "/* The best of them that this CPU and system can run; ATTN_TARGET in "
         "the\n"
         " * environment asks for one by name. Picked by the first call and "
         "kept "
         "for all\n"
         " * calls from this source file. Returns ATTN_OK, or a status with "
         "the "
         "reason in\n"
         " * *error (may be NULL). Thread-safe. */\n"
         "static inline int attn_" +
         variant +
         "__pick(const attn_kernel **kernel,\n"
         "    attn_error *error) {\n"
         "  static const attn_kernel *kept;\n"
         "  return attn_kernel_pick_linked(&" +
         table +
         ", &kept, kernel, error);\n"
         "}\n";
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
  // A table is for the runtime to pick from; a lone kernel needs no runtime.
  const bool several = targets.size() > 1;
  h += several ? "#include \"attn.h\"\n\n" : "#include \"attn_abi.h\"\n\n";
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
    if (several)
      h += pickFunction(spec.name);
  }
  h += "\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
  return h;
}

} // namespace attn

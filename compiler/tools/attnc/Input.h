//===- tools/attnc/Input.h - Texts and options that commands share --------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TOOLS_ATTNC_INPUT_H
#define ATTNC_COMPILER_TOOLS_ATTNC_INPUT_H

#include "dsl/Spec.h"
#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace attn {

/// A text and the variants it describes.
class Text {
public:
  /// Reads FILE ("-": standard input). Throws Failure with every error.
  Text(const std::string &file, const std::vector<std::string> &defines,
       const std::string &variant);
  /// The same of bytes already read.
  Text(const std::string &file, std::string bytes,
       const std::vector<std::string> &defines, const std::string &variant);

  const std::vector<Spec> &specs() const { return all; }
  /// The only variant. Throws Failure where there are several.
  const Spec &spec() const;
  /// Throws Failure with all of `diagnostics`, if there are any.
  void require(const std::vector<Diagnostic> &diagnostics) const;
  /// Name for messages.
  const std::string &name() const { return file; }

private:
  void parseText(const std::vector<std::string> &defines,
                 const std::string &variant);

  std::string file;
  std::string text;
  std::vector<Spec> all;
};

/// Options of every command that takes a text.
struct TextOptions {
  std::string file;
  std::string variant;
  std::vector<std::string> defines;

  void add(CLI::App &command);
  Text read() const { return Text(file, defines, variant); }
};

/// The parts of "a,b,c"; throws Failure where one is empty.
std::vector<std::string> splitList(const std::string &option,
                                   const std::string &list);

} // namespace attn

#endif

//===- tools/attnc/Input.cpp - Texts and options that commands share ------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/tools/attnc/Input.h"
#include "compiler/tools/Files.h"
#include <algorithm>
#include <fmt/format.h>

namespace attn {

Text::Text(const std::string &file, const std::vector<std::string> &defines,
           const std::string &variant)
    : Text(file, readFile(file), defines, variant) {}

Text::Text(const std::string &file, std::string bytes,
           const std::vector<std::string> &defines, const std::string &variant)
    : file(file == "-" ? "<stdin>" : file), text(std::move(bytes)) {
  parseText(defines, variant);
}

void Text::parseText(const std::vector<std::string> &defines,
                     const std::string &variant) {
  ParseOptions options;
  for (const std::string &define : defines) {
    size_t equals = define.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Failure(fmt::format("-D {}: NAME=VALUE is expected", define));
    options.defines.emplace_back(define.substr(0, equals),
                                 define.substr(equals + 1));
  }
  ParseResult parsed = parse(text, options);
  require(parsed.diagnostics);
  std::string names;
  for (Spec &spec : parsed.specs) {
    names += (names.empty() ? "" : ", ") + spec.name;
    if (variant.empty() || spec.name == variant)
      all.push_back(std::move(spec));
  }
  if (all.empty() && names.empty())
    throw Failure(fmt::format("{}: there is no variant in it; 'attention NAME "
                              "{{ ... }}' is expected",
                              file));
  if (all.empty())
    throw Failure(fmt::format("--variant {}: {} has no variant of that name; "
                              "it has: {}",
                              variant, file, names));
}

const Spec &Text::spec() const {
  if (all.size() == 1)
    return all.front();
  std::string names;
  for (const Spec &spec : all)
    names += (names.empty() ? "" : ", ") + spec.name;
  throw Failure(fmt::format("{} has {} variants; pick one with --variant: {}",
                            file, all.size(), names));
}

void Text::require(const std::vector<Diagnostic> &diagnostics) const {
  if (diagnostics.empty())
    return;
  std::string message;
  for (const Diagnostic &diagnostic : diagnostics) {
    // What has no place in the text is about an option or this program.
    if (diagnostic.where.line)
      message += render(diagnostic, file, text);
    else
      message += fmt::format(
          "attnc: error: {}{}{}", diagnostic.message,
          diagnostic.hint.empty() ? "" : "; allowed: ", diagnostic.hint);
    if (message.back() != '\n')
      message += '\n';
  }
  message.pop_back();
  throw Failure(message);
}

void TextOptions::add(CLI::App &command) {
  command.add_option("FILE", file, "a .attn text; '-' is standard input")
      ->required();
  command.add_option("--variant", variant, "which variant of the text");
  command
      .add_option("-D", defines,
                  "NAME=VALUE: fixes a let or a scalar parameter")
      ->allow_extra_args(false);
}

std::vector<std::string> splitList(const std::string &option,
                                   const std::string &list) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= list.size();) {
    size_t comma = std::min(list.find(',', start), list.size());
    parts.push_back(list.substr(start, comma - start));
    if (parts.back().empty())
      throw Failure(
          fmt::format("{} '{}': a name is missing in the list", option, list));
    start = comma + 1;
  }
  return parts;
}

} // namespace attn

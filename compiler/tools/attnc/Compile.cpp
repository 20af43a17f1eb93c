//===- tools/attnc/Compile.cpp - attnc compile ----------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Compiler.h"
#include "compiler/Target.h"
#include "compiler/tools/Files.h"
#include "compiler/tools/attnc/Command.h"
#include "compiler/tools/attnc/Input.h"
#include <algorithm>
#include <fmt/format.h>
#include <memory>

namespace attn {
namespace {

struct Options : TextOptions {
  std::string out;
  std::string targets = "host";
  std::string emit = "bundle";
  std::string plan;
};

/// What comes out of `--emit KIND`.
enum class Form { Text, Binary, Object, Header, Bundle };
struct Kind {
  const char *name;
  Form form;
  const char *separator; ///< between variants; a comment of the language
};
constexpr Kind kKinds[] = {
    {"spec", Form::Text, "\n"},           {"attn", Form::Text, "// -----\n"},
    {"plan", Form::Text, "// -----\n"},   {"tile", Form::Text, "// -----\n"},
    {"target", Form::Text, "// -----\n"}, {"llvm", Form::Text, "; -----\n"},
    {"asm", Form::Text, "# -----\n"},     {"obj", Form::Object, ""},
    {"header", Form::Header, ""},         {"bundle", Form::Bundle, ""},
};

/// The kinds of code that a device has names of its own for.
std::vector<Kind> kindsOfDevices() {
  std::vector<Kind> kinds;
  for (const Target *target : attn::targets())
    if (target->isDevice()) {
      const TargetInfo &info = target->info();
      kinds.push_back({info.assemblyName.c_str(), Form::Text, "// -----\n"});
      kinds.push_back({info.binaryName.c_str(), Form::Binary, ""});
    }
  return kinds;
}

const Kind &findKind(const std::string &name) {
  static const std::vector<Kind> ofDevices = kindsOfDevices();
  std::string names;
  for (const Kind &kind : kKinds) {
    if (name == kind.name)
      return kind;
    names += (names.empty() ? "" : ", ") + std::string(kind.name);
  }
  for (const Kind &kind : ofDevices) {
    if (name == kind.name)
      return kind;
    if (names.find(std::string(", ") + kind.name) == std::string::npos)
      names += ", " + std::string(kind.name);
  }
  throw Failure(
      fmt::format("--emit {}: there is no such kind of output in this build; "
                  "there are: {}",
                  name, names));
}

/// The last part of a path, with another ending.
std::string withEnding(const std::string &path, const std::string &ending) {
  const size_t name = path.rfind('/') + 1; // 0 where there is no '/'
  const size_t dot = path.rfind('.');
  const bool hasEnding = dot != std::string::npos && dot > name;
  return path.substr(0, hasEnding ? dot : path.size()) + ending;
}

/// FILE with another ending, in the current directory.
std::string defaultOutput(const std::string &file, const std::string &ending) {
  if (file == "-")
    throw Failure(fmt::format("-o is needed for a '{}' file of a text from "
                              "standard input",
                              ending));
  return withEnding(file.substr(file.rfind('/') + 1), ending);
}

std::vector<std::string> resolveTargets(const std::string &list,
                                        const Text &text) {
  std::vector<std::string> names;
  for (const std::string &part : splitList("--target", list)) {
    std::vector<Diagnostic> diagnostics;
    std::string name = resolveTarget(part, diagnostics);
    text.require(diagnostics);
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  return names;
}

const std::string &onlyTarget(const std::vector<std::string> &targets,
                              const Kind &kind) {
  if (targets.size() != 1)
    throw Failure(fmt::format("--emit {} takes one target; {} are given",
                              kind.name, targets.size()));
  return targets.front();
}

std::string emitText(const Text &text, const Kind &kind,
                     const std::vector<std::string> &targets,
                     const std::string &plan) {
  std::string all;
  for (const Spec &spec : text.specs()) {
    if (!all.empty())
      all += kind.separator;
    if (std::string(kind.name) == "spec") {
      all += print(spec);
      continue;
    }
    CompileResult result =
        compile(spec, kind.name, {onlyTarget(targets, kind), plan});
    text.require(result.diagnostics);
    all += result.data;
  }
  return all;
}

void emitBinary(const Text &text, const Kind &kind,
                const std::vector<std::string> &targets,
                const Options &options) {
  const std::string out =
      options.out.empty()
          ? defaultOutput(options.file, fmt::format(".{}", kind.name))
          : options.out;
  if (text.specs().size() != 1)
    throw Failure(fmt::format("--emit {} takes one variant; {} has {}, of "
                              "which --variant picks one",
                              kind.name, options.file, text.specs().size()));
  CompileResult result = compile(text.specs().front(), kind.name,
                                 {onlyTarget(targets, kind), options.plan});
  text.require(result.diagnostics);
  writeFile(out, result.data);
}

int compileFile(const Options &options) {
  const Kind &kind = findKind(options.emit);
  const Text text = options.read();
  const std::vector<std::string> targets =
      resolveTargets(options.targets, text);
  switch (kind.form) {
  case Form::Text:
    writeFile(options.out.empty() ? "-" : options.out,
              emitText(text, kind, targets, options.plan));
    return 0;
  case Form::Binary:
    emitBinary(text, kind, targets, options);
    return 0;
  case Form::Header:
    writeFile(options.out.empty() ? "-" : options.out,
              emitHeader(text.specs(), targets));
    return 0;
  case Form::Object: {
    const std::string out =
        options.out.empty() ? defaultOutput(options.file, ".o") : options.out;
    const std::string header = withEnding(out, ".h");
    if (out == "-" || header == out)
      throw Failure(fmt::format("-o {}: an object and its header need names; "
                                "FILE.o gives FILE.o and FILE.h",
                                out));
    text.require(compileObject(text.specs(), targets, options.plan, out));
    writeFile(header, emitHeader(text.specs(), targets));
    return 0;
  }
  case Form::Bundle: {
    const std::string out =
        options.out.empty() ? defaultOutput(options.file, ".so") : options.out;
    if (out == "-")
      throw Failure("-o -: a bundle is a file, not text");
    text.require(compileBundle(text.specs(), targets, options.plan, out));
    return 0;
  }
  }
  return 0;
}

} // namespace

Action addCompile(CLI::App &command) {
  auto options = std::make_shared<Options>();
  options->add(command);
  command.add_option("-o", options->out, "where to write");
  command.add_option("--target", options->targets,
                     "T[,T...]; 'host' is the best that runs here");
  command.add_option("--emit", options->emit,
                     "spec attn plan tile target llvm asm obj header bundle, "
                     "or a kind of code that a device has a name for");
  command.add_option("--plan", options->plan,
                     "KEY=VALUE,...: overrides the planner");
  return [options] { return compileFile(*options); };
}

} // namespace attn

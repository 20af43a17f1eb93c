//===- compiler/CApi.cpp - The C face of the compiler library -------------===//
//
// Part of attnc. Apache-2.0.
//
// attn_abi.h says what these three functions promise. Nothing may leave them
// but a return value.
//
//===----------------------------------------------------------------------===//
#include "compiler/Compiler.h"
#include <cstdlib>
#include <cstring>
#include <exception>

#define ATTN_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

char *copyText(const std::string &text) {
  char *copy = static_cast<char *>(std::malloc(text.size() + 1));
  if (copy)
    std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

std::vector<std::string> splitList(const std::string &list) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= list.size();) {
    size_t comma = std::min(list.find(',', start), list.size());
    parts.push_back(list.substr(start, comma - start));
    start = comma + 1;
  }
  return parts;
}

/// The error text; empty if the bundle was written.
std::string compileRequest(const attnc_request *request, const char *path) {
  if (!request || !path)
    return "attnc_compile: a null pointer was given";
  if (request->abi_version != ATTN_ABI_VERSION)
    return "attnc_compile: the caller speaks version " +
           std::to_string(request->abi_version) +
           " of the interface, this library version " +
           std::to_string(ATTN_ABI_VERSION);
  if (request->struct_size < sizeof(attnc_request))
    return "attnc_compile: the request has " +
           std::to_string(request->struct_size) + " bytes; " +
           std::to_string(sizeof(attnc_request)) + " are needed";
  if ((!request->text && request->text_size) ||
      (!request->defines && request->n_defines))
    return "attnc_compile: a null pointer was given with a size";

  const std::string_view text(request->text ? request->text : "",
                              request->text_size);
  const std::string file = request->file ? request->file : "<text>";
  attn::ParseOptions options;
  for (size_t i = 0; i < request->n_defines; ++i) {
    const std::string define = request->defines[i] ? request->defines[i] : "";
    size_t equals = define.find('=');
    if (equals == std::string::npos || equals == 0)
      return "'" + define + "' is not of the form NAME=VALUE";
    options.defines.emplace_back(define.substr(0, equals),
                                 define.substr(equals + 1));
  }
  auto renderAll = [&](const std::vector<attn::Diagnostic> &diagnostics) {
    std::string all;
    for (const attn::Diagnostic &diagnostic : diagnostics)
      all += attn::render(diagnostic, file, text);
    return all;
  };

  attn::ParseResult parsed = attn::parse(text, options);
  if (!parsed.ok())
    return renderAll(parsed.diagnostics);
  std::vector<attn::Spec> specs;
  std::string names;
  for (attn::Spec &spec : parsed.specs) {
    names += (names.empty() ? "" : ", ") + spec.name;
    if (!request->variant || spec.name == request->variant)
      specs.push_back(std::move(spec));
  }
  if (specs.empty())
    return file + ": there is no variant '" +
           (request->variant ? request->variant : "") + "'; it has: " + names;
  const std::string targets =
      request->targets && *request->targets ? request->targets : "host";
  std::vector<attn::Diagnostic> diagnostics = attn::compileBundle(
      specs, splitList(targets), request->plan ? request->plan : "", path);
  return diagnostics.empty() ? "" : renderAll(diagnostics);
}

} // namespace

ATTN_EXPORT int attnc_compile(const attnc_request *request,
                              const char *out_path, char **error) {
  if (error)
    *error = nullptr;
  try {
    std::string text = compileRequest(request, out_path);
    if (text.empty())
      return 0;
    if (error)
      *error = copyText(text);
    return 1;
  } catch (const std::exception &exception) {
    if (error)
      *error = copyText(exception.what());
    return 1;
  } catch (...) {
    return 1;
  }
}

ATTN_EXPORT void attnc_free(char *text) { std::free(text); }

ATTN_EXPORT const char *attnc_version(void) {
  try {
    static const std::string version = attn::compilerVersion();
    return version.c_str();
  } catch (...) {
    return "";
  }
}

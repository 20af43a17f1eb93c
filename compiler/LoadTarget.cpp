//===- compiler/LoadTarget.cpp - Targets from libraries -------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Compiler.h"
#include "compiler/Target.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include <dlfcn.h>
#include <set>

using namespace llvm;

namespace attn {

static constexpr const char *kVersion =
    ATTN_TARGET_VERSION(LLVM_VERSION_STRING);
static constexpr const char *kVersionSymbol = "attn_target_interface";

/// Reads the version that a library says it is for, without running anything
/// of it. Empty, with `error`, if it says none.
static std::string readVersion(const std::string &path, std::string &error) {
  auto file = object::ObjectFile::createObjectFile(path);
  if (!file) {
    error = toString(file.takeError());
    return {};
  }
  const auto *elf = dyn_cast<object::ELFObjectFileBase>(file->getBinary());
  if (!elf) {
    error = "it is no ELF library";
    return {};
  }
  const auto here = Triple(sys::getProcessTriple()).getArch();
  if (elf->getArch() != here) {
    error = "it is for " + Triple::getArchTypeName(elf->getArch()).str() +
            ", this program for " + Triple::getArchTypeName(here).str();
    return {};
  }
  for (const object::SymbolRef &symbol : elf->getDynamicSymbolIterators()) {
    Expected<StringRef> name = symbol.getName();
    if (!name || *name != kVersionSymbol) {
      consumeError(name.takeError());
      continue;
    }
    Expected<uint64_t> address = symbol.getAddress();
    Expected<object::section_iterator> section = symbol.getSection();
    if (address && section && *section != elf->section_end() &&
        *address >= (*section)->getAddress()) {
      const uint64_t offset = *address - (*section)->getAddress();
      Expected<StringRef> contents = (*section)->getContents();
      if (contents && offset < contents->size())
        return contents->substr(offset).split('\0').first.substr(0, 80).str();
      consumeError(contents.takeError());
    }
    consumeError(address.takeError());
    consumeError(section.takeError());
  }
  error = std::string("it is no library of targets: it has no text '") +
          kVersionSymbol + "'";
  return {};
}

static std::string loadLibrary(const std::string &path) {
  std::string error;
  const std::string version = readVersion(path, error);
  if (!error.empty())
    return error;
  if (version != kVersion)
    return "it is for target interface " + version +
           "; this is target interface " + kVersion;
  // Never closed: targets live as long as the process.
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return dlerror();
  using AddTargets = void(std::vector<const Target *> &);
  auto *add =
      reinterpret_cast<AddTargets *>(dlsym(library, "attn_add_targets"));
  if (!add)
    return dlerror();
  std::vector<const Target *> list;
  add(list);
  if (list.empty())
    return "it adds no target";
  return registerTargets(list);
}

std::string loadTargets(const std::string &path) {
  static std::set<std::string> loaded;
  SmallString<128> real;
  if (std::error_code error = sys::fs::real_path(path, real))
    return path + ": " + error.message();
  if (!loaded.insert(real.str().str()).second)
    return {};
  const std::string error = loadLibrary(real.str().str());
  return error.empty() ? error : path + ": " + error;
}

} // namespace attn

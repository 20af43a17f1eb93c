//===- tests/support/EmulatedObject.cpp - What an object says of itself ---===//
//
// Part of attnc. Apache-2.0.
//
// Reads the description of a kernel off an object file of any machine with this
// one's word size and byte order. Its sections are laid out in memory as a
// linker would, and the pointers in them set; no code of it is run.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Emulated.h"
#include <cstddef>
#include <cstring>
#include <elf.h>
#include <fmt/format.h>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace attn::test {

namespace {

/// The sections that are loaded, in aligned memory; the others are empty.
using Sections = std::vector<std::vector<uint64_t>>;

class LoadedObject {
public:
  explicit LoadedObject(const std::string &bytes) : bytes(bytes) {
    const auto header = read<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_REL)
      throw std::runtime_error("not a 64-bit little-endian object file");
    sections = readAll<Elf64_Shdr>(header.e_shoff, header.e_shnum);
    memory.resize(sections.size());
    for (size_t n = 0; n < sections.size(); ++n) {
      const Elf64_Shdr &section = sections[n];
      if (section.sh_type == SHT_SYMTAB) {
        symbols = readAll<Elf64_Sym>(section.sh_offset,
                                     section.sh_size / sizeof(Elf64_Sym));
        names = sectionAt(section.sh_link).sh_offset;
      }
      if ((section.sh_flags & SHF_ALLOC) == 0)
        continue;
      memory[n].resize(section.sh_size / sizeof(uint64_t) + 1);
      if (section.sh_type != SHT_NOBITS)
        std::memcpy(memory[n].data(), span(section.sh_offset, section.sh_size),
                    section.sh_size);
    }
  }

  /// The description of a kernel, an exported symbol, with its pointers set.
  const attn_kernel *find(const std::string &name) {
    for (const Elf64_Sym &symbol : symbols) {
      if (ELF64_ST_BIND(symbol.st_info) != STB_GLOBAL ||
          symbol.st_shndx == SHN_UNDEF || text(names + symbol.st_name) != name)
        continue;
      const std::byte *data = place(symbol, 0, sizeof(attn_kernel));
      const uint32_t address = addressRelocation(symbol);
      forEachRelocation([&](size_t section, const Elf64_Rela &entry) {
        if (ELF64_R_TYPE(entry.r_info) == address)
          relocate(section, entry);
      });
      return reinterpret_cast<const attn_kernel *>(data);
    }
    throw std::runtime_error(
        fmt::format("the object does not have the symbol '{}'", name));
  }

  /// What `find` points into, to be kept as long as that is used.
  std::shared_ptr<const Sections> take() && {
    return std::make_shared<Sections>(std::move(memory));
  }

private:
  const char *span(uint64_t offset, uint64_t size) const {
    if (offset > bytes.size() || size > bytes.size() - offset)
      throw std::runtime_error("the object file is cut short");
    return bytes.data() + offset;
  }
  std::string_view text(uint64_t offset) const {
    const char *from = span(offset, 0);
    return {from, strnlen(from, bytes.size() - offset)};
  }
  template <typename T> T read(uint64_t offset) const {
    T value;
    std::memcpy(&value, span(offset, sizeof value), sizeof value);
    return value;
  }
  template <typename T>
  std::vector<T> readAll(uint64_t offset, uint64_t count) const {
    std::vector<T> all;
    for (uint64_t n = 0; n < count; ++n)
      all.push_back(read<T>(offset + n * sizeof(T)));
    return all;
  }
  const Elf64_Shdr &sectionAt(size_t number) const {
    if (number >= sections.size())
      throw std::runtime_error("the object file names a section it lacks");
    return sections[number];
  }

  /// `size` bytes from `offset` past a symbol on.
  std::byte *place(const Elf64_Sym &symbol, int64_t offset, size_t size) {
    const size_t section = symbol.st_shndx;
    const uint64_t at = symbol.st_value + static_cast<uint64_t>(offset);
    if (section >= memory.size() || memory[section].empty() ||
        at > sections[section].sh_size || size > sections[section].sh_size - at)
      throw std::runtime_error("the object points to what it does not hold");
    return reinterpret_cast<std::byte *>(memory[section].data()) + at;
  }

  /// Calls `each` with every relocation of what is loaded, and its section.
  template <typename F> void forEachRelocation(F each) const {
    for (const Elf64_Shdr &section : sections)
      if (section.sh_type == SHT_RELA && section.sh_info < memory.size() &&
          !memory[section.sh_info].empty())
        for (const auto &entry : readAll<Elf64_Rela>(
                 section.sh_offset, section.sh_size / sizeof(Elf64_Rela)))
          each(section.sh_info, entry);
  }

  /// The relocation that stores a 64-bit address, on whatever machine: it is
  /// the one that sets a description's pointer to its name. Descriptions are
  /// made of no other kind; code and its tables are.
  uint32_t addressRelocation(const Elf64_Sym &description) const {
    const uint64_t at = description.st_value + offsetof(attn_kernel, variant);
    std::optional<uint32_t> type;
    forEachRelocation([&](size_t section, const Elf64_Rela &entry) {
      if (section == description.st_shndx && entry.r_offset == at)
        type = ELF64_R_TYPE(entry.r_info);
    });
    if (!type)
      throw std::runtime_error("the description has no pointer to its name");
    return *type;
  }

  void relocate(size_t section, const Elf64_Rela &entry) {
    Elf64_Sym here = {};
    here.st_shndx = static_cast<uint16_t>(section);
    here.st_value = entry.r_offset;
    const std::byte *to =
        place(symbols.at(ELF64_R_SYM(entry.r_info)), entry.r_addend, 0);
    std::memcpy(place(here, 0, sizeof to), &to, sizeof to);
  }

  const std::string &bytes;
  std::vector<Elf64_Shdr> sections;
  Sections memory;
  std::vector<Elf64_Sym> symbols;
  uint64_t names = 0; ///< where the symbols' names begin
};

} // namespace

Code emulatedCode(std::string object, std::string symbol) {
  Code code;
  code.object = std::move(object);
  code.symbol = std::move(symbol);
  LoadedObject loaded(code.object);
  const attn_kernel *description = loaded.find(code.symbol);
  code.described =
      std::shared_ptr<const attn_kernel>(std::move(loaded).take(), description);
  return code;
}

} // namespace attn::test

//===- dsl/Render.cpp - Diagnostics as text -------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "dsl/Spec.h"

#include <algorithm>
#include <fmt/format.h>

using namespace attn;

/// The line with that number, counted from 1; empty if there is none.
static std::string_view lineOf(std::string_view text, uint32_t number) {
  for (uint32_t line = 1; line < number; ++line) {
    size_t end = text.find('\n');
    if (end == text.npos)
      return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (!text.empty() && text.back() == '\r')
    text.remove_suffix(1);
  return text;
}

/// The number of bytes of the UTF-8 sequence at the front, or 0 if it is not
/// one. Enough for display: the terminal decides about the rest.
static size_t sequenceLength(std::string_view text) {
  unsigned char first = static_cast<unsigned char>(text[0]);
  size_t length = first < 0x80                     ? 1
                  : first >= 0xC2 && first <= 0xDF ? 2
                  : first >= 0xE0 && first <= 0xEF ? 3
                  : first >= 0xF0 && first <= 0xF4 ? 4
                                                   : 0;
  if (length > text.size())
    return 0;
  for (size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80)
      return 0;
  return length;
}

namespace {
/// A line cut up into what takes one column on a terminal each, with the byte
/// it comes from. A tab takes `kTab` columns, wherever it stands.
struct Cell {
  size_t byte;
  std::string text;
};
constexpr size_t kTab = 4;
constexpr size_t kWidth = 100; ///< of a shown line
} // namespace

/// The cells that can be of interest around byte `caret`.
static std::vector<Cell> cellsOf(std::string_view line, size_t caret) {
  // At most four bytes a cell: enough bytes on both sides for a full window,
  // so that a line of a megabyte costs no more than a short one.
  size_t begin = caret > 4 * kWidth ? caret - 4 * kWidth : 0;
  size_t end = std::min(line.size(), caret + 4 * kWidth);
  std::vector<Cell> cells;
  for (size_t i = begin; i < end;) {
    unsigned char c = static_cast<unsigned char>(line[i]);
    size_t length = sequenceLength(line.substr(i));
    if (c == '\t') {
      for (size_t j = 0; j < kTab; ++j)
        cells.push_back({i, " "});
      length = 1;
    } else if (length == 0 || c < 0x20 || c == 0x7F) {
      cells.push_back({i, "?"});
      length = 1;
    } else {
      cells.push_back({i, std::string(line.substr(i, length))});
    }
    i += length;
  }
  return cells;
}

std::string attn::render(const Diagnostic &diagnostic, std::string_view file,
                         std::string_view text) {
  const SourceRange where = diagnostic.where;
  std::string out(file);
  if (where.line)
    out += fmt::format(":{}:{}", where.line, where.column);
  out += fmt::format(": error: {}\n", diagnostic.message);

  if (where.line && !text.empty()) {
    std::string_view line = lineOf(text, where.line);
    size_t caret =
        std::min<size_t>(where.column ? where.column - 1 : 0, line.size());
    std::vector<Cell> cells = cellsOf(line, caret);
    auto cellAt = [&](size_t byte) {
      return size_t(
          std::lower_bound(cells.begin(), cells.end(), byte,
                           [](const Cell &c, size_t b) { return c.byte < b; }) -
          cells.begin());
    };
    size_t at = cellAt(caret);
    size_t last =
        std::max(cellAt(caret + std::max<size_t>(where.length, 1)), at + 1);
    // The window: all of the line if it fits, or else the caret's third.
    size_t begin = 0;
    size_t end = cells.size();
    bool cutFront = !cells.empty() && cells.front().byte > 0;
    bool cutBack = !cells.empty() &&
                   cells.back().byte + cells.back().text.size() < line.size();
    if (cutFront || cutBack || cells.size() > kWidth) {
      begin = at > kWidth / 3 ? at - kWidth / 3 : 0;
      end = std::min(cells.size(), begin + kWidth);
      cutFront |= begin > 0;
      cutBack |= end < cells.size();
    }
    const std::string number = fmt::format("{:5}", where.line);
    out += number + " | " + (cutFront ? "..." : "");
    for (size_t i = begin; i < end; ++i)
      out += cells[i].text;
    out += cutBack ? "...\n" : "\n";
    last = std::max(std::min(last, end), at + 1);
    out += std::string(number.size(), ' ') + " | " +
           std::string((cutFront ? 3 : 0) + at - begin, ' ') + '^' +
           std::string(last - at - 1, '~') + '\n';
  }
  if (!diagnostic.hint.empty())
    out += fmt::format("  hint: {}\n", diagnostic.hint);
  return out;
}

//===- tools/attnc/ParamText.cpp - Values of parameters as text -----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/tools/Files.h"
#include "compiler/tools/attnc/ParamArrays.h"
#include "runtime/attn_abi.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/Error.h"
#include <algorithm>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <vector>

namespace attn {
namespace {

template <typename Number> void append(Array &array, Number value) {
  const size_t size = array.bytes.size();
  array.bytes.resize(size + sizeof value);
  std::memcpy(array.bytes.data() + size, &value, sizeof value);
}

template <typename Integer>
std::string appendInteger(Array &array, std::string_view word) {
  Integer value = 0;
  const char *begin = word.data(), *end = begin + word.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error == std::errc::invalid_argument || stop != end)
    return fmt::format("'{}' is not an integer", shortened(word));
  if (error == std::errc::result_out_of_range)
    return fmt::format("'{}' does not fit {} bits", shortened(word),
                       8 * sizeof value);
  append(array, value);
  return {};
}

/// Rounds once, from the decimal digits to the type.
std::string appendFloat(Array &array, Type type, std::string_view word) {
  llvm::APFloat value(type == Type::F32   ? llvm::APFloat::IEEEsingle()
                      : type == Type::F16 ? llvm::APFloat::IEEEhalf()
                                          : llvm::APFloat::BFloat());
  // It takes what no one writes, such as "1e".
  double plain = 0;
  const char *begin = word.data(), *end = begin + word.size();
  const auto [stop, error] = std::from_chars(begin, end, plain);
  auto status = value.convertFromString(llvm::StringRef(begin, word.size()),
                                        llvm::APFloat::rmNearestTiesToEven);
  if (!status)
    llvm::consumeError(status.takeError());
  if (!status || error == std::errc::invalid_argument || stop != end)
    return fmt::format("'{}' is not a number", shortened(word));
  if (*status & llvm::APFloat::opOverflow)
    return fmt::format("'{}' is too large for {}", shortened(word), name(type));
  const uint64_t bits = value.bitcastToAPInt().getZExtValue();
  if (type == Type::F32)
    append(array, uint32_t(bits));
  else
    append(array, uint16_t(bits));
  return {};
}

/// A value as it is nested.
struct Node {
  bool isList = false;
  std::string_view word;
  std::vector<Node> list;
};

/// value := '[' [value (',' value)*] ']' | WORD
class Reader {
public:
  explicit Reader(std::string_view text) : rest(text) {}

  Node readWhole() {
    Node node = read(0);
    skip();
    if (!rest.empty())
      fail(fmt::format("'{}' is left over", shortened(rest)));
    return node;
  }

private:
  static constexpr std::string_view kBlank = " \t\r\n";

  [[noreturn]] static void fail(const std::string &what) {
    throw Failure(what);
  }
  void skip() {
    rest.remove_prefix(std::min(rest.find_first_not_of(kBlank), rest.size()));
  }
  bool accept(char c) {
    skip();
    if (rest.empty() || rest[0] != c)
      return false;
    rest.remove_prefix(1);
    return true;
  }
  Node read(int depth) {
    Node node;
    if (accept('[')) {
      if (depth == ATTN_MAX_DIMS)
        fail(fmt::format("brackets are nested more than {} deep",
                         ATTN_MAX_DIMS));
      node.isList = true;
      if (accept(']'))
        return node;
      do
        node.list.push_back(read(depth + 1));
      while (accept(','));
      if (!accept(']'))
        fail(rest.empty() ? "a ']' is missing at the end"
                          : fmt::format("',' or ']' is missing before '{}'",
                                        shortened(rest)));
      return node;
    }
    skip();
    const size_t end = std::min(rest.find_first_of(" \t\r\n,[]"), rest.size());
    node.word = rest.substr(0, end);
    if (node.word.empty())
      fail(rest.empty() ? "a value is missing at the end"
                        : fmt::format("a value is missing before '{}'",
                                      shortened(rest)));
    rest.remove_prefix(end);
    return node;
  }

  std::string_view rest;
};

size_t depthOf(const Node &node) {
  size_t deepest = 0;
  for (const Node &inner : node.list)
    deepest = std::max(deepest, depthOf(inner));
  return node.isList ? deepest + 1 : 0;
}

/// Lays the elements out in the shape that the first of each list has.
class Layout {
public:
  Layout(const Param &param, Array &array) : param(param), array(array) {}

  void add(const Node &node, size_t dim) {
    if (dim == array.shape.size()) {
      if (node.isList)
        throw Failure("it has a list where others have a number");
      const std::string wrong = appendElement(array, param.type, node.word);
      if (!wrong.empty())
        throw Failure(wrong);
      return;
    }
    if (!node.isList)
      throw Failure(fmt::format("'{}' is a number where others have a list",
                                shortened(node.word)));
    const auto extent = int64_t(node.list.size());
    const bool isRow = param.type == Type::Tokens && dim == 1;
    if (extent != array.shape[dim] && !isRow)
      throw Failure(fmt::format("a list is {} long where another is {}", extent,
                                array.shape[dim]));
    for (const Node &inner : node.list)
      add(inner, dim + 1);
    for (int64_t i = extent; isRow && i < array.shape[dim]; ++i)
      append(array, int64_t(-1));
  }

private:
  const Param &param;
  Array &array;
};

} // namespace

std::string shortened(std::string_view text, size_t most) {
  return text.size() <= most ? std::string(text)
                             : std::string(text.substr(0, most - 3)) + "...";
}

const char *npyTypeOf(Type type) {
  switch (type) {
  case Type::F16:
    return "f2";
  case Type::BF16:
    return "u2";
  case Type::I32:
    return "i4";
  case Type::Bool:
    return "b1";
  case Type::Tokens:
    return "i8";
  default:
    return "f4";
  }
}

std::string appendElement(Array &array, Type type, std::string_view word) {
  switch (type) {
  case Type::Bool:
    if (word != "true" && word != "false")
      return fmt::format("'{}' is not true or false", shortened(word));
    append(array, word == "true");
    return {};
  case Type::I32:
    return appendInteger<int32_t>(array, word);
  case Type::Tokens:
    return appendInteger<int64_t>(array, word);
  default:
    return appendFloat(array, type, word);
  }
}

Array parseParamValue(const Param &param, std::string_view text) {
  const bool isTokens = param.type == Type::Tokens;
  const size_t rank = isTokens ? 2 : param.dims.size();
  Node node = Reader(text).readWhole();
  size_t depth = depthOf(node);
  if (isTokens && depth == 1) {
    Node all;
    all.isList = true;
    all.list.push_back(std::move(node));
    node = std::move(all);
    depth = 2;
  }
  Array array;
  array.type = npyTypeOf(param.type);
  if (depth == 0) {
    const std::string wrong = appendElement(array, param.type, node.word);
    if (!wrong.empty())
      throw Failure(wrong);
    array.shape.assign(rank, 1);
    return array;
  }
  if (depth != rank)
    throw Failure(fmt::format(
        "it is a list{} where {} dimension{} declared",
        depth == 1 ? "" : fmt::format(" of lists, {} deep,", depth),
        rank == 0 ? "no" : std::to_string(rank), rank == 1 ? " is" : "s are"));
  for (const Node *first = &node; first && first->isList;
       first = first->list.empty() ? nullptr : first->list.data())
    array.shape.push_back(int64_t(first->list.size()));
  array.shape.resize(rank, 0);
  if (isTokens)
    for (const Node &row : node.list)
      array.shape[1] = std::max(array.shape[1], int64_t(row.list.size()));
  Layout(param, array).add(node, 0);
  return array;
}

} // namespace attn

//===- tools/Npy.cpp - NumPy's .npy files ---------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/tools/Npy.h"
#include "compiler/tools/Files.h"
#include <cctype>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <string_view>

namespace attn {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

/// Reads the header, a Python dict of three known keys.
class Header {
public:
  Header(std::string_view text, const std::string &path)
      : rest(text), path(path) {}

  std::optional<std::string> descr;
  std::optional<bool> fortran;
  std::optional<std::vector<int64_t>> shape;

  void parse() {
    expect('{');
    while (!accept('}')) {
      std::string key = string();
      expect(':');
      if (key == "descr")
        descr = string();
      else if (key == "fortran_order")
        fortran = boolean();
      else if (key == "shape")
        shape = tuple();
      else
        fail("its header has an unknown key '" + key + "'");
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!descr || !fortran || !shape)
      fail("its header lacks 'descr', 'fortran_order' or 'shape'");
  }

private:
  [[noreturn]] void fail(const std::string &what) {
    throw Failure(fmt::format("{}: {}", path, what));
  }
  void skip() {
    while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest[0])))
      rest.remove_prefix(1);
  }
  bool accept(char c) {
    skip();
    if (rest.empty() || rest[0] != c)
      return false;
    rest.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c))
      fail(fmt::format("its header is damaged: '{}' is missing", c));
  }
  std::string string() {
    skip();
    if (rest.empty() || (rest[0] != '\'' && rest[0] != '"'))
      fail("its header has something else where a string is expected (only "
           "plain element types are read)");
    size_t end = rest.find(rest[0], 1);
    if (end == std::string_view::npos)
      fail("its header is damaged: a string does not end");
    std::string value(rest.substr(1, end - 1));
    rest.remove_prefix(end + 1);
    return value;
  }
  bool boolean() {
    skip();
    for (auto [word, value] :
         {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
      if (rest.substr(0, word.size()) == word) {
        rest.remove_prefix(word.size());
        return value;
      }
    fail("its header is damaged: 'fortran_order' is not True or False");
  }
  int64_t integer() {
    skip();
    if (rest.empty() || !std::isdigit(static_cast<unsigned char>(rest[0])))
      fail("its header is damaged: 'shape' is not a tuple of lengths");
    int64_t value = 0;
    while (!rest.empty() && std::isdigit(static_cast<unsigned char>(rest[0]))) {
      if (__builtin_mul_overflow(value, int64_t(10), &value) ||
          __builtin_add_overflow(value, int64_t(rest[0] - '0'), &value))
        fail("a length of its shape does not fit 64 bits");
      rest.remove_prefix(1);
    }
    accept('L'); // written by Python 2
    return value;
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> values;
    expect('(');
    while (!accept(')')) {
      values.push_back(integer());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::string_view rest;
  const std::string &path;
};

} // namespace

size_t Array::elementBytes() const {
  return size_t(std::stoul(type.substr(1)));
}

int64_t Array::elements() const {
  int64_t n = 1;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(n, extent, &n))
      throw Failure(fmt::format("an array of shape [{}] fits no memory",
                                fmt::join(shape, ", ")));
  return n;
}

Array readNpy(const std::string &path) {
  const std::string file = readFile(path);
  auto fail = [&](const std::string &what) -> Failure {
    return Failure(fmt::format("{}: {}", path, what));
  };
  if (file.size() < 10 || file.compare(0, kMagic.size(), kMagic) != 0)
    throw fail("this is not a .npy file");
  const auto byte = [&](size_t i) {
    return size_t(static_cast<unsigned char>(file[i]));
  };
  const unsigned major = unsigned(byte(6));
  if (major < 1 || major > 3)
    throw fail(fmt::format("version {} of the .npy format is not known; 1, 2 "
                           "and 3 are",
                           major));
  const size_t start = major == 1 ? 10 : 12;
  if (file.size() < start)
    throw fail("the file ends within its header");
  size_t length = byte(8) | byte(9) << 8;
  if (major > 1)
    length |= byte(10) << 16 | byte(11) << 24;
  if (file.size() - start < length)
    throw fail("the file ends within its header");
  Header header(std::string_view(file).substr(start, length), path);
  header.parse();

  const std::string &descr = *header.descr;
  if (descr.size() < 2)
    throw fail(fmt::format("element type '{}' is not known", descr));
  if (descr[0] == '>')
    throw fail(fmt::format("its elements are big endian ('{}'); little endian "
                           "is read",
                           descr));
  Array array;
  array.type = descr[0] == '<' || descr[0] == '|' || descr[0] == '='
                   ? descr.substr(1)
                   : descr;
  bool known = false;
  for (const char *type :
       {"b1", "f2", "f4", "f8", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8"})
    known |= array.type == type;
  if (!known)
    throw fail(fmt::format("element type '{}' is not read; numbers such as "
                           "'<f4' are",
                           descr));
  array.shape = *header.shape;
  if (*header.fortran && array.shape.size() > 1)
    throw fail("it is in Fortran order; C order is read "
               "(numpy.ascontiguousarray)");
  int64_t size = int64_t(array.elementBytes());
  for (int64_t extent : array.shape)
    if (__builtin_mul_overflow(size, extent, &size))
      throw fail(fmt::format("its shape [{}] is too large",
                             fmt::join(array.shape, ", ")));
  if (uint64_t(size) != file.size() - start - length)
    throw fail(fmt::format("it has {} bytes of data; shape [{}] of {} needs {}",
                           file.size() - start - length,
                           fmt::join(array.shape, ", "), array.type, size));
  array.bytes.assign(file.begin() + std::ptrdiff_t(start + length), file.end());
  return array;
}

std::string npyBytes(const Array &array) {
  std::string shape;
  for (int64_t extent : array.shape)
    shape += fmt::format("{}, ", extent);
  if (array.shape.size() > 1)
    shape.resize(shape.size() - 2);
  else if (!shape.empty())
    shape.pop_back();
  std::string header =
      fmt::format("{{'descr': '<{}', 'fortran_order': False, 'shape': ({}), }}",
                  array.type, shape);
  // Data begins at a multiple of 64 bytes; the header ends in a newline.
  const size_t used = kMagic.size() + 4 + header.size() + 1;
  header.append((64 - used % 64) % 64, ' ');
  header += '\n';
  if (header.size() > 0xffff)
    throw Failure("an array has too many dimensions for a .npy file");
  std::string bytes(kMagic);
  bytes += '\1';
  bytes += '\0';
  bytes += char(header.size() & 0xff);
  bytes += char(header.size() >> 8);
  bytes += header;
  bytes.append(array.bytes.data(), array.bytes.size());
  return bytes;
}

} // namespace attn

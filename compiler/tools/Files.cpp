//===- tools/Files.cpp - Reading and writing whole files ------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/tools/Files.h"
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace attn {
namespace {

std::string errorText(int number) {
  return std::error_code(number, std::generic_category()).message();
}

/// Closes a descriptor on every way out.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd > STDERR_FILENO)
      ::close(fd);
  }
};

/// 0 or what went wrong.
int writeAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR)
      return errno;
    if (n > 0)
      bytes.remove_prefix(size_t(n));
  }
  return 0;
}

} // namespace

std::string readFile(const std::string &path) {
  const bool isStandardInput = path == "-";
  const std::string shown = isStandardInput ? "standard input" : path;
  Descriptor file{isStandardInput ? STDIN_FILENO
                                  : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0)
    throw Failure(fmt::format("can't read '{}': {}", shown, errorText(errno)));
  std::string bytes;
  char buffer[1 << 16];
  for (;;) {
    ssize_t n = ::read(file.fd, buffer, sizeof buffer);
    if (n == 0)
      return bytes;
    if (n > 0)
      bytes.append(buffer, size_t(n));
    else if (errno != EINTR)
      throw Failure(
          fmt::format("can't read '{}': {}", shown, errorText(errno)));
  }
}

void writeFile(const std::string &path, std::string_view bytes) {
  auto fail = [&](int number) {
    throw Failure(fmt::format("can't write '{}': {}", path, errorText(number)));
  };
  if (path == "-") {
    if (int error = writeAll(STDOUT_FILENO, bytes))
      fail(error);
    return;
  }
  // A link is followed, so that the file it names is the one replaced.
  std::string target = path;
  if (char *real = ::realpath(path.c_str(), nullptr)) {
    target = real;
    std::free(real);
    struct stat existing = {};
    if (::stat(target.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode)) {
      // A pipe or a device: nothing to replace.
      Descriptor file{::open(target.c_str(), O_WRONLY | O_CLOEXEC)};
      if (file.fd < 0)
        fail(errno);
      if (int error = writeAll(file.fd, bytes))
        fail(error);
      return;
    }
  }
  const std::string temporary = fmt::format("{}.tmp.{}", target, ::getpid());
  int error = 0;
  {
    Descriptor file{::open(temporary.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
    if (file.fd < 0)
      fail(errno);
    error = writeAll(file.fd, bytes);
  }
  if (!error && ::rename(temporary.c_str(), target.c_str()) != 0)
    error = errno;
  if (error) {
    ::unlink(temporary.c_str());
    fail(error);
  }
}

} // namespace attn

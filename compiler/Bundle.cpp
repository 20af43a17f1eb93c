//===- compiler/Bundle.cpp - Objects to files -----------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Codegen.h"
#include "compiler/Link.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Support/raw_ostream.h"
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

namespace attn {
namespace {

std::string errorText(int number) {
  return std::error_code(number, std::generic_category()).message();
}

/// Bytes under a name that the linker can open, in memory: nothing is left
/// behind whatever happens to the process.
class MemoryFile {
public:
  MemoryFile(const std::string &bytes) {
    fd = memfd_create("attnc", MFD_CLOEXEC);
    if (fd < 0) {
      failure = errno;
      return;
    }
    for (size_t done = 0; done < bytes.size();) {
      ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0) {
        failure = n < 0 ? errno : EIO;
        return;
      }
      done += size_t(n);
    }
    name = "/proc/self/fd/" + std::to_string(fd);
  }
  ~MemoryFile() {
    if (fd >= 0)
      ::close(fd);
  }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;

  int error() const { return failure; }
  const std::string &path() const { return name; }

private:
  int fd = -1;
  int failure = 0;
  std::string name;
};

/// A pipe that the linker takes for its output file. Into one it writes without
/// a temporary file beside it.
class PipeOutput {
public:
  PipeOutput() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      failure = errno;
      return;
    }
    input = ends[1];
    reader = std::thread([this, from = ends[0]] {
      char chunk[65536];
      for (;;) {
        ssize_t n = ::read(from, chunk, sizeof chunk);
        if (n > 0)
          bytes.append(chunk, size_t(n));
        else if (n == 0 || errno != EINTR)
          break;
      }
      ::close(from);
    });
  }
  ~PipeOutput() { finish(); }
  PipeOutput(const PipeOutput &) = delete;
  PipeOutput &operator=(const PipeOutput &) = delete;

  int error() const { return failure; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(input); }
  /// What was written, once the linker is done.
  const std::string &finish() {
    if (reader.joinable()) {
      ::close(input);
      reader.join();
    }
    return bytes;
  }

private:
  int input = -1;
  int failure = 0;
  std::string bytes;
  std::thread reader;
};

/// Makes the constants of an object its own. Linkers fold equal constants of
/// sections marked as mergeable, and kernels for different machines would come
/// to share them; texts, which no kernel reads, stay foldable.
void keepConstantsApart(std::string &object) {
  using namespace llvm::ELF;
  Elf64_Ehdr header;
  if (object.size() < sizeof header)
    return; // the linker says what is wrong with it
  std::memcpy(&header, object.data(), sizeof header);
  if (!header.checkMagic() || header.getFileClass() != ELFCLASS64 ||
      header.e_shentsize != sizeof(Elf64_Shdr) ||
      header.e_shoff > object.size() ||
      header.e_shnum > (object.size() - header.e_shoff) / sizeof(Elf64_Shdr))
    return;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    char *place = object.data() + header.e_shoff + i * sizeof(Elf64_Shdr);
    Elf64_Shdr section;
    std::memcpy(&section, place, sizeof section);
    if (!(section.sh_flags & SHF_MERGE) || (section.sh_flags & SHF_STRINGS))
      continue;
    section.sh_flags &= ~Elf64_Xword(SHF_MERGE);
    section.sh_entsize = 0;
    std::memcpy(place, &section, sizeof section);
  }
}

/// Runs the linker; `requestedPath` is for messages.
bool runLinker(const std::vector<std::string> &arguments,
               const std::string &output, const std::string &requestedPath,
               std::vector<Diagnostic> &diagnostics) {
  std::vector<const char *> argv = {"ld.lld", "--threads=1", "-o",
                                    output.c_str()};
  for (const std::string &argument : arguments)
    argv.push_back(argument.c_str());
  std::string printed;
  llvm::raw_string_ostream os(printed);
  // The linker keeps its state in globals.
  static std::mutex mutex;
  static bool broken = false;
  std::lock_guard<std::mutex> lock(mutex);
  if (broken) {
    diagnostics.push_back(internalError("the linker failed before"));
    return false;
  }
  const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
  lld::Result result = lld::lldMain(argv, os, os, drivers);
  broken = !result.canRunAgain;
  if (result.retCode != 0)
    diagnostics.push_back(
        {{},
         "can't write '" + requestedPath + "': the link failed: " + printed,
         ""});
  return result.retCode == 0;
}

/// Links into a descriptor of the caller's, /proc/self/fd/N.
bool linkInPlace(const std::vector<std::string> &arguments,
                 const std::string &path,
                 std::vector<Diagnostic> &diagnostics) {
  PipeOutput pipe;
  int fd = pipe.error() ? -1 : ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  int failure = pipe.error() ? pipe.error() : fd < 0 ? errno : 0;
  bool linked =
      !failure && runLinker(arguments, pipe.path(), path, diagnostics);
  if (linked) {
    const std::string &bytes = pipe.finish();
    for (size_t done = 0; done < bytes.size() && !failure;) {
      ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
      if (n > 0)
        done += size_t(n);
      else if (n == 0 || errno != EINTR)
        failure = n < 0 ? errno : EIO;
    }
  }
  if (failure)
    diagnostics.push_back(
        {{}, "can't write '" + path + "': " + errorText(failure), ""});
  if (fd >= 0)
    ::close(fd);
  return linked && !failure;
}

bool link(const std::vector<std::string> &objects,
          std::vector<std::string> arguments, const std::string &versionScript,
          const std::string &requestedPath,
          std::vector<Diagnostic> &diagnostics) {
  // A link is followed, so that the file it names is the one replaced; what is
  // no file (a device, a directory) is left alone.
  std::string path = requestedPath;
  if (char *real = ::realpath(path.c_str(), nullptr)) {
    path = real;
    std::free(real);
    struct stat existing = {};
    if (::stat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode)) {
      diagnostics.push_back(
          {{},
           "can't write '" + requestedPath + "': it is there and is not a file",
           ""});
      return false;
    }
  }
  std::vector<std::unique_ptr<MemoryFile>> files;
  auto add = [&](const std::string &bytes) -> const std::string * {
    files.push_back(std::make_unique<MemoryFile>(bytes));
    if (int error = files.back()->error()) {
      diagnostics.push_back(
          {{}, "can't keep an object in memory: " + errorText(error), ""});
      return nullptr;
    }
    return &files.back()->path();
  };
  if (!versionScript.empty()) {
    const std::string *script = add(versionScript);
    if (!script)
      return false;
    arguments.push_back("--version-script=" + *script);
  }
  for (std::string object : objects) {
    keepConstantsApart(object);
    const std::string *file = add(object);
    if (!file)
      return false;
    arguments.push_back(*file);
  }

  if (requestedPath.rfind("/proc/self/fd/", 0) == 0)
    return linkInPlace(arguments, requestedPath, diagnostics);

  static std::atomic<unsigned> counter{0};
  std::string temporary = path + ".tmp." + std::to_string(::getpid()) + "." +
                          std::to_string(counter++);
  // Say what is wrong with the place itself before the linker does, and in
  // its terms. O_EXCL: never through somebody else's link.
  int fd =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) {
    diagnostics.push_back(
        {{}, "can't write '" + requestedPath + "': " + errorText(errno), ""});
    return false;
  }
  struct stat created = {};
  ::fstat(fd, &created);
  ::close(fd);
  llvm::scope_exit removeTemporary([&] { ::unlink(temporary.c_str()); });

  if (!runLinker(arguments, temporary, requestedPath, diagnostics))
    return false;
  // lld's output is a file of its own; give it the permissions of the one
  // that the user's umask made. A library need not be executable.
  ::chmod(temporary.c_str(), created.st_mode & 0777);
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    diagnostics.push_back(
        {{}, "can't write '" + requestedPath + "': " + errorText(errno), ""});
    return false;
  }
  removeTemporary.release();
  return true;
}

} // namespace

bool linkShared(const std::vector<std::string> &objects,
                const std::string &exportedSymbol, const std::string &path,
                std::vector<Diagnostic> &diagnostics) {
  return link(
      objects,
      {"-shared", "--build-id=sha1", "--hash-style=gnu", "--eh-frame-hdr",
       "-Bsymbolic", "-z", "relro", "-z", "now", "-z", "text", "-z", "defs",
       "-z", "noexecstack", "-z", "max-page-size=4096"},
      "{ global: " + exportedSymbol + "; local: *; };\n", path, diagnostics);
}

bool linkRelocatable(const std::vector<std::string> &objects,
                     const std::string &path,
                     std::vector<Diagnostic> &diagnostics) {
  return link(objects, {"-r", "--discard-locals"}, "", path, diagnostics);
}

} // namespace attn

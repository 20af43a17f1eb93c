//===- targets/cuda/Assembler.cpp - From PTX to the code of a GPU ---------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "targets/cuda/Assembler.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <optional>
#include <vector>

using namespace llvm;

namespace attn {

static Error failure(const Twine &text) {
  return createStringError(inconvertibleErrorCode(), text);
}

static Expected<std::string> findAssembler() {
  if (const char *named = std::getenv("ATTN_PTXAS")) {
    if (auto found = sys::findProgramByName(named))
      return *found;
    return failure(Twine("ATTN_PTXAS names '") + named +
                   "', which is no program: NVIDIA's ptxas is meant");
  }
  if (auto found = sys::findProgramByName("ptxas"))
    return *found;
  std::vector<std::string> folders;
  if (const char *home = std::getenv("CUDA_HOME"))
    folders.push_back(std::string(home) + "/bin");
  folders.push_back("/usr/local/cuda/bin");
  std::vector<StringRef> views(folders.begin(), folders.end());
  if (auto found = sys::findProgramByName("ptxas", views))
    return *found;
  return failure("there is no ptxas in PATH, below CUDA_HOME or in "
                 "/usr/local/cuda/bin; NVIDIA's CUDA toolkit brings it");
}

static std::string contents(StringRef path) {
  auto buffer = MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

Expected<std::string> assemblePtx(const std::string &ptx,
                                  const std::string &architecture) {
  Expected<std::string> assembler = findAssembler();
  if (!assembler)
    return assembler.takeError();
  SmallString<128> in, out, messages;
  int fd = -1;
  if (auto error = sys::fs::createTemporaryFile("attn", "ptx", fd, in))
    return failure("can't write PTX: " + error.message());
  FileRemover removeIn(in);
  {
    raw_fd_ostream os(fd, /*shouldClose=*/true);
    os << ptx;
  }
  if (auto error = sys::fs::createTemporaryFile("attn", "cubin", out))
    return failure("can't write a cubin: " + error.message());
  FileRemover removeOut(out);
  if (auto error = sys::fs::createTemporaryFile("attn", "log", messages))
    return failure("can't write a log: " + error.message());
  FileRemover removeMessages(messages);
  const std::string which = "-arch=" + architecture;
  StringRef args[] = {*assembler, which, in, "-o", out};
  std::optional<StringRef> streams[] = {StringRef(), StringRef(messages),
                                        StringRef(messages)};
  std::string error;
  if (sys::ExecuteAndWait(*assembler, args, std::nullopt, streams, 0, 0,
                          &error) != 0)
    return failure("ptxas refuses the code: " + error + contents(messages));
  return contents(out);
}

} // namespace attn

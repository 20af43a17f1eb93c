//===- tests/support/Executor.h - Running kernels, here or emulated -------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_EXECUTOR_H
#define ATTNC_TESTS_SUPPORT_EXECUTOR_H

#include "runtime/attn_abi.h"
#include "tests/support/Case.h"
#include <memory>
#include <string>
#include <vector>

namespace attn::test {

/// How the work items of a call are handed to a kernel.
enum class Order : uint8_t {
  AllAtOnce,
  OneByOne,
  Reversed, ///< one by one, the last first
  Uneven,   ///< in pieces of 1, 2, 3, ... items, the later pieces first
};

/// A kernel: in this process, or as an object file for another machine.
struct Code {
  const attn_kernel *kernel = nullptr;
  std::string object; ///< bytes of a relocatable ELF object
  std::string symbol; ///< its exported `attn_kernel`
  /// What that says of the kernel, to be read here but not run: variants with
  /// parameters need it (`emulatedCode`).
  std::shared_ptr<const attn_kernel> described = nullptr;

  /// What describes the kernel, or null.
  const attn_kernel *descriptor() const {
    return kernel ? kernel : described.get();
  }
};

struct Job {
  Code code;
  attn_call call{};
  std::vector<Region> regions; ///< all memory that `call` points to
  Order order = Order::AllAtOnce;
};

/// Runs jobs. Scratch memory is exactly scratch_bytes long, between
/// inaccessible pages, and poisoned anew before each piece. Not thread-safe:
/// the native one sets signal handlers while it runs.
class Executor {
public:
  virtual ~Executor() = default;
  /// Runs every job; one text each, empty where the kernel returned. A fault
  /// inside a kernel is such a text, and names the region it happened at.
  virtual std::vector<std::string> run(const std::vector<Job> &jobs) = 0;
  /// "native", or the emulator's name.
  virtual std::string through() const = 0;
};

/// Runs `Code::kernel` on the calling thread.
std::unique_ptr<Executor> makeNativeExecutor();

/// Runs the code of a device (`attn_kernel.device`), each block in lockstep by
/// warps, with its memory watched: bounds, alignment, races, copies not waited
/// for (tests/ptx).
std::unique_ptr<Executor> makePtxExecutor();
inline constexpr const char *kPtxInterpreter = "PTX interpreter";

/// Runs the code of a device on the first one that can, each job in memory of
/// its own between canaries. `run` throws std::runtime_error where there is no
/// such device.
std::unique_ptr<Executor> makeDeviceExecutor();

/// The number of work items of a call, as attn_abi.h defines it.
int64_t workItems(const attn_kernel &kernel, const attn_call &call);
/// How many splits the keys of a call have, 0 where they are not split.
int64_t splits(const attn_kernel &kernel, const attn_call &call);
/// Bytes of the states of all splits of a call.
size_t stateBytes(const attn_kernel &kernel, const attn_call &call);
/// What states hold before a call: no kernel may read what it did not write.
inline constexpr auto kPoisonedState = std::byte{0xFF};

/// What stands for the parameters without elements: memory of the runtime's.
std::vector<Region> standIns(const attn_kernel &kernel, const attn_call &call);

/// A sequence of pieces [first, last) that covers the items of a call.
std::vector<std::pair<int64_t, int64_t>> pieces(int64_t items, Order order);

/// "N bytes past the end of K" for an address near one of the regions.
std::string locate(const std::vector<Region> &regions, const void *address);

} // namespace attn::test

#endif

//===- tests/support/NativeExecutor.cpp - Running kernels in this process -===//
//
// Part of attnc. Apache-2.0.
//
// A kernel that touches memory it must not touch faults at a guard page. The
// handler leaves the kernel by siglongjmp, which is safe since kernels are
// pure: they hold no lock and own no memory.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Executor.h"
#include <algorithm>
#include <array>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <fmt/format.h>

namespace attn::test {

int64_t splits(const attn_kernel &kernel, const attn_call &call) {
  if (kernel.split_keys == 0 || call.kv_len <= kernel.split_keys)
    return 0;
  return (call.kv_len + kernel.split_keys - 1) / kernel.split_keys;
}

size_t stateBytes(const attn_kernel &kernel, const attn_call &call) {
  return static_cast<size_t>(call.batch * kernel.item_groups *
                             splits(kernel, call) * kernel.state_bytes);
}

int64_t workItems(const attn_kernel &kernel, const attn_call &call) {
  if (call.batch == 0 || call.q_len == 0 || kernel.heads == 0)
    return 0;
  const auto blocks = [&](int64_t queries) {
    return (queries * kernel.item_heads + kernel.item_rows - 1) /
           kernel.item_rows;
  };
  bool globals = (kernel.flags & ATTN_KERNEL_GLOBALS) != 0;
  return call.batch * kernel.item_groups *
         (blocks(call.q_len) + (globals ? blocks(call.max_globals) : 0) +
          splits(kernel, call));
}

std::vector<Region> standIns(const attn_kernel &kernel, const attn_call &call) {
  std::vector<Region> regions;
  const auto add = [&](const void *data, size_t size) {
    // (Inputs are only read.)
    auto *first = static_cast<std::byte *>(const_cast<void *>(data));
    if (data != nullptr)
      regions.push_back({"what stands for an array without elements", first,
                         size, Placement::Start, false});
  };
  for (int32_t n = 0; call.params && n < kernel.n_params; ++n) {
    const attn_param_info &info = kernel.params[n];
    const attn_param &param = call.params[n];
    if (std::count(param.extent, param.extent + info.rank, 0) == 0)
      continue;
    add(param.data, info.type == ATTN_F16 || info.type == ATTN_BF16      ? 2
                    : info.type == ATTN_BOOL || info.type == ATTN_TOKENS ? 1
                                                                         : 4);
    add(param.blocks, 2 * sizeof *param.blocks);
  }
  return regions;
}

std::vector<std::pair<int64_t, int64_t>> pieces(int64_t items, Order order) {
  std::vector<std::pair<int64_t, int64_t>> all;
  switch (order) {
  case Order::AllAtOnce:
    all.emplace_back(0, items);
    break;
  case Order::OneByOne:
    for (int64_t i = 0; i < items; ++i)
      all.emplace_back(i, i + 1);
    break;
  case Order::Reversed:
    for (int64_t i = items; i-- > 0;)
      all.emplace_back(i, i + 1);
    break;
  case Order::Uneven:
    for (int64_t last = items, size = 1; last > 0; ++size) {
      int64_t first = std::max<int64_t>(0, last - size);
      all.emplace_back(first, last);
      last = first;
    }
    break;
  }
  return all;
}

std::string locate(const std::vector<Region> &regions, const void *address) {
  constexpr int64_t kNear = 1 << 16;
  auto at = reinterpret_cast<intptr_t>(address);
  std::string nearest;
  int64_t distance = kNear;
  for (const Region &region : regions) {
    auto first = reinterpret_cast<intptr_t>(region.data);
    auto last = first + static_cast<intptr_t>(region.size);
    if (at >= first && at < last)
      return fmt::format("byte {} of {}", at - first, region.name);
    if (at >= last && at - last < distance) {
      distance = at - last;
      nearest = fmt::format("{} bytes past the end of {} ({} bytes long)",
                            distance, region.name, region.size);
    } else if (at < first && first - at < distance) {
      distance = first - at;
      nearest =
          fmt::format("{} bytes before the start of {}", distance, region.name);
    }
  }
  return nearest.empty() ? fmt::format("address {}", address) : nearest;
}

namespace {

thread_local sigjmp_buf returnPoint;
thread_local volatile sig_atomic_t armed = 0;
thread_local void *volatile faultAddress = nullptr;
thread_local volatile sig_atomic_t faultSignal = 0;

extern "C" void onFault(int number, siginfo_t *info, void *) {
  if (armed == 0) {
    // Not ours: the default action, at the same instruction again.
    signal(number, SIG_DFL);
    return;
  }
  armed = 0;
  faultAddress = info->si_addr;
  faultSignal = number;
  siglongjmp(returnPoint, 1);
}

/// Catches faults while it lives.
class FaultHandlers {
public:
  FaultHandlers() {
    struct sigaction action = {};
    action.sa_sigaction = onFault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    for (size_t n = 0; n < kSignals.size(); ++n)
      sigaction(kSignals[n], &action, &previous[n]);
  }
  ~FaultHandlers() {
    for (size_t n = 0; n < kSignals.size(); ++n)
      sigaction(kSignals[n], &previous[n], nullptr);
  }
  FaultHandlers(const FaultHandlers &) = delete;
  FaultHandlers &operator=(const FaultHandlers &) = delete;

private:
  static constexpr std::array<int, 4> kSignals{SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  struct sigaction previous[4] = {};
};

/// Calls the kernel; the number of the signal that ended it, or 0.
int guardedCall(const attn_kernel &kernel, const attn_call &call, int64_t first,
                int64_t last, void *scratch) {
  if (sigsetjmp(returnPoint, 1) != 0)
    return faultSignal;
  armed = 1;
  kernel.run(&call, first, last, scratch);
  armed = 0;
  return 0;
}

class NativeExecutor : public Executor {
public:
  std::vector<std::string> run(const std::vector<Job> &jobs) override {
    FaultHandlers handlers;
    std::vector<std::string> outcomes;
    outcomes.reserve(jobs.size());
    for (const Job &job : jobs)
      outcomes.push_back(runOne(job));
    return outcomes;
  }
  std::string through() const override { return "native"; }

private:
  static std::string runOne(const Job &job) {
    if (!job.code.kernel)
      return "there is no kernel for this machine";
    const attn_kernel &kernel = *job.code.kernel;
    // The start is aligned to a page; the slack up to a multiple of 64 is the
    // kernel's only if it asks for it.
    auto scratchBytes = static_cast<size_t>(kernel.scratch_bytes);
    bool endsAligned = scratchBytes % 64 == 0;
    GuardedBuffer scratch(scratchBytes,
                          endsAligned ? Placement::End : Placement::Start);
    std::vector<Region> regions = job.regions;
    regions.push_back({"scratch", scratch.data(), scratch.size(),
                       scratch.placement(), false});
    for (auto [first, last] : pieces(workItems(kernel, job.call), job.order)) {
      // All bits set is a NaN in every format.
      if (scratchBytes != 0)
        std::memset(scratch.data(), 0xff, scratchBytes);
      int number = guardedCall(kernel, job.call, first, last, scratch.data());
      if (number != 0)
        return fmt::format("{} in items {}..{} at {}", strsignal(number), first,
                           last - 1, locate(regions, faultAddress));
    }
    return {};
  }
};

} // namespace

std::unique_ptr<Executor> makeNativeExecutor() {
  return std::make_unique<NativeExecutor>();
}

} // namespace attn::test

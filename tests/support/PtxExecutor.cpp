//===- tests/support/PtxExecutor.cpp - Kernels of devices, interpreted ----===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/PtxLaunch.h"
#include <cstring>
#include <map>

namespace attn::test {

namespace {

/// Far more than any warp of a test takes: a loop without an end is an error.
constexpr uint64_t kInstructionLimit = 200'000'000;

} // namespace

std::vector<ptx::Counts> launchPtx(const ptx::Module &module, const Job &job,
                                   ptx::Order order) {
  const attn_kernel &kernel = *job.code.descriptor();
  const attn_device_code &device = *kernel.device;
  ptx::Launch launch;
  launch.order = order;
  launch.instructionLimit = kInstructionLimit;
  // Addresses of the device are those of this process, and so is the call.
  attn_call call = job.call;
  launch.memory.push_back({&call, sizeof call, false, "the call"});
  std::vector<std::byte> states(stateBytes(kernel, job.call), kPoisonedState);
  if (!states.empty()) {
    call.states = states.data();
    launch.memory.push_back({states.data(), states.size(), true, "the states"});
  }
  std::vector<Region> regions = standIns(kernel, job.call);
  regions.insert(regions.end(), job.regions.begin(), job.regions.end());
  for (const Region &region : regions)
    launch.memory.push_back(
        {region.data, region.size, region.isOutput, region.name});
  std::vector<ptx::Counts> counts;
  const auto runAll = [&](const char *entry, int32_t threads,
                          int32_t sharedBytes, int64_t items) {
    launch.kernel = entry;
    launch.block.x = static_cast<uint32_t>(threads);
    launch.dynamicShared = static_cast<size_t>(sharedBytes);
    for (auto [first, last] : pieces(items, job.order)) {
      if (first == last)
        continue;
      launch.grid.x = static_cast<uint32_t>(last - first);
      const struct {
        const attn_call *call;
        int64_t first;
      } params = {&call, first};
      launch.params.resize(sizeof params);
      std::memcpy(launch.params.data(), &params, sizeof params);
      counts.push_back(ptx::run(module, launch));
    }
  };
  runAll(device.entry, device.threads, device.shared_bytes,
         workItems(kernel, job.call));
  if (!states.empty())
    runAll(device.merge_entry, device.merge_threads, device.merge_shared_bytes,
           job.call.batch * kernel.item_groups);
  return counts;
}

namespace {

class PtxExecutor : public Executor {
public:
  std::vector<std::string> run(const std::vector<Job> &jobs) override {
    std::vector<std::string> outcomes;
    outcomes.reserve(jobs.size());
    for (const Job &job : jobs)
      outcomes.push_back(runOne(job));
    return outcomes;
  }
  std::string through() const override { return kPtxInterpreter; }

private:
  std::string runOne(const Job &job) {
    const attn_kernel *kernel = job.code.descriptor();
    if (!kernel || !kernel->device)
      return "there is no kernel for a device";
    const attn_device_code &device = *kernel->device;
    try {
      auto found = modules.find(device.text);
      if (found == modules.end())
        found = modules
                    .emplace(device.text,
                             ptx::Module::parse(device.text, device.entry))
                    .first;
      launchPtx(found->second, job,
                job.order == Order::Reversed ? ptx::Order::Reverse
                                             : ptx::Order::Forward);
    } catch (const ptx::Error &error) {
      return error.what();
    }
    return {};
  }

  std::map<std::string, ptx::Module> modules; ///< by their text
};

} // namespace

std::unique_ptr<Executor> makePtxExecutor() {
  return std::make_unique<PtxExecutor>();
}

} // namespace attn::test

//===- tests/support/DeviceExecutor.cpp - Kernels on a real device --------===//
//
// Part of attnc. Apache-2.0.
//
// All memory of a job goes to the device as one block, in which each region
// lies between canaries and is aligned as it is here. What comes back must
// differ in outputs only.
//
//===----------------------------------------------------------------------===//
#include "runtime/device.h"
#include "tests/support/Executor.h"
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <stdexcept>

namespace attn::test {

namespace {

constexpr size_t kAlignment = 256;
constexpr auto kCanary = std::byte{0xC3};

/// Throws std::runtime_error with the runtime's reason.
void require(int status, const attn_error &error) {
  if (status != ATTN_OK)
    throw std::runtime_error(error.text);
}

/// The regions of a job, packed.
class Block {
public:
  void add(const Region &region) {
    auto own = reinterpret_cast<uintptr_t>(region.data) % kAlignment;
    size_t start = (bytes.size() / kAlignment + 2) * kAlignment + own;
    bytes.resize(start + region.size + kAlignment, kCanary);
    if (region.size != 0)
      std::memcpy(bytes.data() + start, region.data, region.size);
    places.push_back({region, start});
  }
  /// Where memory of the job is on the device.
  template <typename T> T *moved(T *pointer, std::byte *device) const {
    if (pointer == nullptr)
      return nullptr;
    const Place *place = find(pointer);
    if (place == nullptr)
      throw std::runtime_error("the call points to memory of no region");
    auto offset = reinterpret_cast<uintptr_t>(pointer) -
                  reinterpret_cast<uintptr_t>(place->region.data);
    return reinterpret_cast<T *>(device + place->start + offset);
  }
  /// The copy of memory of the job.
  template <typename T> T *copyOf(T *pointer) {
    return moved(pointer, bytes.data());
  }

  /// Takes what came back: empty, or what was written that must not be.
  std::string take(const std::vector<std::byte> &after) const {
    std::vector<bool> mayDiffer(bytes.size());
    for (const Place &place : places)
      if (place.region.isOutput)
        for (size_t n = 0; n < place.region.size; ++n)
          mayDiffer[place.start + n] = true;
    for (size_t n = 0; n < bytes.size(); ++n)
      if (!mayDiffer[n] && bytes[n] != after[n])
        return fmt::format("the kernel wrote outside of its outputs, near {}",
                           nearest(n));
    for (const Place &place : places)
      if (place.region.isOutput && place.region.size != 0)
        std::memcpy(place.region.data, after.data() + place.start,
                    place.region.size);
    return {};
  }

  std::vector<std::byte> bytes;

private:
  struct Place {
    Region region;
    size_t start;
  };
  const Place *find(const void *pointer) const {
    auto at = reinterpret_cast<uintptr_t>(pointer);
    const Place *ends = nullptr;
    for (const Place &place : places) {
      uintptr_t offset = at - reinterpret_cast<uintptr_t>(place.region.data);
      if (offset < place.region.size)
        return &place;
      if (offset == place.region.size)
        ends = &place;
    }
    return ends; // where an array without elements may begin
  }
  std::string nearest(size_t offset) const {
    std::string name = "the first";
    for (const Place &place : places)
      if (place.start <= offset + kAlignment)
        name = place.region.name;
    return name;
  }

  std::vector<Place> places;
};

class DeviceExecutor : public Executor {
public:
  std::vector<std::string> run(const std::vector<Job> &jobs) override {
    std::vector<std::string> outcomes;
    outcomes.reserve(jobs.size());
    for (const Job &job : jobs) {
      open(job); // without a device nothing can be said of any job
      try {
        outcomes.push_back(runOne(job));
      } catch (const std::runtime_error &error) {
        outcomes.emplace_back(error.what());
      }
    }
    // The jobs' kernels need not outlive the call.
    for (const auto &[kernel, code] : loaded)
      device->kind->unload(device, code);
    loaded.clear();
    return outcomes;
  }
  std::string through() const override {
    return device ? device->name : "a device";
  }

private:
  void open(const Job &job) {
    const attn_kernel *kernel = job.code.descriptor();
    if (device || !kernel || !kernel->device)
      return;
    DLDevice place{};
    require(attn_device_find(kernel, &place, &error), error);
    require(attn_device_open(place, &device, &error), error);
  }

  void *load(const attn_kernel *kernel) {
    auto found = loaded.find(kernel);
    if (found == loaded.end()) {
      void *code = nullptr;
      require(device->kind->load(device, kernel, &code, &error), error);
      found = loaded.emplace(kernel, code).first;
    }
    return found->second;
  }

  std::string runOne(const Job &job) {
    const attn_kernel *kernel = job.code.descriptor();
    if (!kernel || !kernel->device)
      return "there is no kernel for a device";
    void *code = load(kernel);
    attn_call call = job.call;
    Block block;
    for (const Region &region : job.regions)
      block.add(region);
    for (const Region &region : standIns(*kernel, call))
      block.add(region);
    block.add({"the call", reinterpret_cast<std::byte *>(&call), sizeof call,
               Placement::Start, false});
    const attn_device_kind &kind = *device->kind;
    void *memory = nullptr;
    require(kind.alloc(device, nullptr,
                       statesAt(block) + stateBytes(*kernel, job.call), &memory,
                       &error),
            error);
    std::vector<std::byte> after(block.bytes.size());
    int status = launch(job, *kernel, code, call, block,
                        static_cast<std::byte *>(memory));
    if (status == ATTN_OK)
      status = kind.download(device, nullptr, after.data(), memory,
                             after.size(), &error);
    attn_error second{};
    int freed = kind.release(device, nullptr, memory, &second);
    require(status, error);
    require(freed, second);
    return block.take(after);
  }

  /// `memory` is of the block, and of states behind it.
  int launch(const Job &job, const attn_kernel &kernel, void *code,
             attn_call &call, Block &block, std::byte *memory) {
    const auto move = [&](auto &pointer) {
      pointer = block.moved(pointer, memory);
    };
    for (int32_t n = 0; call.params && n < kernel.n_params; ++n) {
      attn_param param = call.params[n];
      move(param.data);
      move(param.blocks);
      std::memcpy(block.copyOf(const_cast<attn_param *>(&call.params[n])),
                  &param, sizeof param);
    }
    attn_call *copy = block.copyOf(&call);
    const void *there = block.moved(&call, memory);
    move(copy->q);
    move(copy->k);
    move(copy->v);
    move(copy->o);
    move(copy->lse);
    move(copy->q_lens);
    move(copy->kv_lens);
    move(copy->params);
    move(copy->globals);
    move(copy->global_counts);
    const std::vector<std::byte> states(stateBytes(kernel, job.call),
                                        kPoisonedState);
    if (!states.empty())
      copy->states = memory + statesAt(block);
    const attn_device_kind &kind = *device->kind;
    int status = kind.upload(device, nullptr, memory, block.bytes.data(),
                             block.bytes.size(), &error);
    if (status == ATTN_OK && !states.empty())
      status = kind.upload(device, nullptr, copy->states, states.data(),
                           states.size(), &error);
    const auto launchAll = [&](attn_device_entry entry, int64_t items) {
      for (auto [first, last] : pieces(items, job.order))
        if (status == ATTN_OK && last > first)
          status = kind.launch(device, code, entry, nullptr, there, first,
                               last - first, &error);
    };
    launchAll(ATTN_DEVICE_ITEMS, workItems(kernel, job.call));
    if (!states.empty())
      launchAll(ATTN_DEVICE_MERGE, job.call.batch * kernel.item_groups);
    return status;
  }

  static size_t statesAt(const Block &block) {
    return (block.bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
  }

  attn_device *device = nullptr;
  attn_error error{};
  std::map<const attn_kernel *, void *> loaded;
};

} // namespace

std::unique_ptr<Executor> makeDeviceExecutor() {
  return std::make_unique<DeviceExecutor>();
}

} // namespace attn::test

//===- tests/device/Timing.cpp - Kernels timed on a device ----------------===//
//
// Part of attnc. Apache-2.0.
//
// usage: attn_device_timing --cases
//        attn_device_timing --device
//        attn_device_timing BUNDLE CHECKS TORCH SECONDS
//
// The first prints what is timed, for torch_times.py. The second says whether a
// device is here. The third times the kernels of the bundle, for at most so
// many seconds, and prints one JSON object with the outcomes in CHECKS (a line
// for each: target, example, and what `attnc check` printed) and the times in
// TORCH (what torch_times.py printed; or nothing). Exit code 3: no device.
//
// Needs the driver, but no toolkit.
//
//===----------------------------------------------------------------------===//
#include "runtime/attn.h"
#include "tests/device/Cases.h"
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using attn::device::TimedCase;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kNoDevice = 3;
constexpr DLDevice kPlace = {kDLCUDA, 0};
/// The driver's handle of its default stream, on which attn_run does not wait.
void *const kStream = reinterpret_cast<void *>(1);

void require(int status, const attn_error &error) {
  if (status != ATTN_OK)
    throw std::runtime_error(error.text);
}

/// Events of the driver, which attn.h has no use for.
class Events {
public:
  Events() {
    const char *path = std::getenv("ATTN_CUDA_DRIVER");
    library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW);
    if (!library)
      throw std::runtime_error(dlerror());
    int device = 0;
    void *context = nullptr;
    call<int(int *, int)>("cuDeviceGet", &device, kPlace.device_id);
    call<int(void **, int)>("cuDevicePrimaryCtxRetain", &context, device);
    call<int(void *)>("cuCtxSetCurrent", context);
    call<int(void **, unsigned)>("cuEventCreate", &start, 0U);
    call<int(void **, unsigned)>("cuEventCreate", &stop, 0U);
  }
  /// Milliseconds that the device takes for what `work` queues on kStream.
  template <typename Work> double time(Work &&work) {
    call<int(void *, void *)>("cuEventRecord", start, kStream);
    work();
    call<int(void *, void *)>("cuEventRecord", stop, kStream);
    call<int(void *)>("cuEventSynchronize", stop);
    float milliseconds = 0;
    call<int(float *, void *, void *)>("cuEventElapsedTime", &milliseconds,
                                       start, stop);
    return double(milliseconds);
  }

private:
  template <typename Signature, typename... Arguments>
  void call(const char *name, Arguments... arguments) {
    auto *function = reinterpret_cast<Signature *>(dlsym(library, name));
    int result = function ? function(arguments...) : -1;
    if (result != 0)
      throw std::runtime_error(std::string(name) +
                               " fails: " + std::to_string(result));
  }
  void *library = nullptr, *start = nullptr, *stop = nullptr;
};

class Memory {
public:
  explicit Memory(size_t bytes) {
    attn_error error;
    require(attn_device_alloc(kPlace, bytes, &data, &error), error);
  }
  ~Memory() { attn_device_free(kPlace, data, nullptr); }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  void *data = nullptr;
};

/// f16 numbers in (-1, 1), the same in each run.
std::vector<uint16_t> randomHalves(size_t count) {
  std::vector<uint16_t> all(count);
  uint64_t state = 1;
  for (uint16_t &half : all) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    // An exponent of 2^-4 to 2^-1, any sign and fraction.
    auto bits = uint16_t(state >> 48);
    half = uint16_t((bits & 0x83ff) | (11 + (bits >> 10 & 3)) << 10);
  }
  return all;
}

/// Milliseconds between two events.
constexpr double kLongEnough = 2;

struct Times {
  double best = 0, median = 0;
};

class Timer {
public:
  explicit Timer(const std::vector<TimedCase> &cases) {
    size_t most = 0;
    for (const TimedCase &c : cases)
      most = std::max({most, elements(c, c.heads, c.qLen),
                       elements(c, c.kvHeads, c.kvLen)});
    for (auto &memory : tensors)
      memory = std::make_unique<Memory>(2 * most);
    const std::vector<uint16_t> values = randomHalves(most);
    attn_error error;
    for (int i = 0; i < 3; ++i)
      require(attn_device_upload(kPlace, tensors[i]->data, values.data(),
                                 2 * most, &error),
              error);
  }

  Times time(const TimedCase &c, const attn_kernel *kernel, double seconds) {
    int64_t qShape[] = {c.batch, c.heads, c.qLen, c.width};
    int64_t kShape[] = {c.batch, c.kvHeads, c.kvLen, c.width};
    const auto view = [&](int which, int64_t *shape) {
      return DLTensor{tensors[which]->data,
                      kPlace,
                      4,
                      {kDLFloat, 16, 1},
                      shape,
                      nullptr,
                      0};
    };
    DLTensor q = view(0, qShape), k = view(1, kShape), v = view(2, kShape),
             o = view(3, qShape);
    std::vector<int32_t> positions(size_t(c.globals));
    for (int64_t i = 0; i < c.globals; ++i)
      positions[size_t(i)] = int32_t(i);
    int64_t listShape[] = {1, c.globals};
    DLTensor list = {positions.data(), {kDLCPU, 0}, 2, {kDLInt, 32, 1},
                     listShape,        nullptr,     0};
    attn_argument globals = {"globals", &list};
    attn_tensors call = {};
    call.struct_size = sizeof call;
    call.q = &q;
    call.k = &k;
    call.v = &v;
    call.o = &o;
    call.params = &globals;
    call.n_params = c.globals ? 1 : 0;
    attn_run_options options = {};
    options.struct_size = sizeof options;
    options.stream = kStream;
    attn_error error;
    const auto run = [&] {
      require(attn_run(kernel, &call, &options, &error), error);
    };
    double once = 0;
    for (int i = 0; i < 3; ++i)
      once = events.time(run);
    // Short calls are timed together, so that the host is ahead of the device.
    const int together = std::clamp(int(kLongEnough / once), 1, 64);
    const auto runAll = [&] {
      for (int i = 0; i < together; ++i)
        run();
    };
    std::vector<double> all;
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (all.size() < 5 || (Clock::now() < end && all.size() < 1000))
      all.push_back(events.time(runAll) / together);
    std::sort(all.begin(), all.end());
    return {all.front(), all[all.size() / 2]};
  }

private:
  static size_t elements(const TimedCase &c, int64_t heads, int64_t tokens) {
    return size_t(c.batch * heads * tokens * c.width);
  }
  std::unique_ptr<Memory> tensors[4];
  Events events;
};

Json listCases() {
  Json all = Json::array();
  for (const TimedCase &c : attn::device::timedCases())
    all.push_back({{"name", c.name()},
                   {"batch", c.batch},
                   {"heads", c.heads},
                   {"kv_heads", c.kvHeads},
                   {"width", c.width},
                   {"q_len", c.qLen},
                   {"kv_len", c.kvLen},
                   {"causal", c.causal},
                   {"window", c.window},
                   {"globals", c.globals}});
  return all;
}

Json readChecks(const char *path, bool &ok) {
  Json all = Json::array();
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string target, example;
    words >> target >> example;
    std::string said;
    std::getline(words >> std::ws, said);
    bool passed = said.find(" 0 wrong") != std::string::npos;
    ok &= passed;
    all.push_back({{"example", example},
                   {"target", target},
                   {"passed", passed},
                   {"said", said}});
  }
  return all;
}

int timeAll(char **arguments) {
  const std::vector<TimedCase> cases = attn::device::timedCases();
  bool ok = true;
  char name[256];
  attn_error error;
  attn_bundle *bundle = nullptr;
  require(attn_device_describe(kPlace, name, sizeof name, &error), error);
  require(attn_bundle_open(arguments[0], &bundle, &error), error);
  Json result = {{"device", name}, {"checks", readChecks(arguments[1], ok)}};
  std::ifstream torchFile(arguments[2]);
  Json torch = Json::object();
  if (torchFile.peek() != std::ifstream::traits_type::eof())
    torch = Json::parse(torchFile);
  result["torch"] = torch.value("version", Json());
  Json times = Json::array();
  Timer timer(cases);
  const char *const targets[] = {"cuda-sm80", "cuda-sm90"};
  const double each = std::stod(arguments[3]) / double(2 * cases.size());
  for (const TimedCase &c : cases)
    for (const char *target : targets) {
      const attn_kernel *kernel = nullptr;
      if (attn_kernel_pick_at(bundle, c.variant.c_str(), target, kPlace,
                              &kernel, &error) != ATTN_OK) {
        times.push_back(
            {{"case", c.name()}, {"target", target}, {"refused", error.text}});
        continue;
      }
      const Times t = timer.time(c, kernel, each);
      Json entry = {{"case", c.name()},
                    {"target", target},
                    {"milliseconds", t.best},
                    {"milliseconds_median", t.median},
                    {"tflops", c.flops() / t.best / 1e9},
                    {"gbytes_per_second", c.bytes() / t.best / 1e6}};
      for (const char *other : {"sdpa", "flex"}) {
        const Json theirs =
            torch.value(other, Json::object()).value(c.name(), Json());
        if (!theirs.is_number())
          continue;
        entry[std::string(other) + "_milliseconds"] = theirs;
        // Above 1: faster than theirs.
        entry[std::string("against_") + other] = theirs.get<double>() / t.best;
      }
      times.push_back(entry);
    }
  result["times"] = times;
  result["passed"] = ok;
  std::cout << result.dump(1) << "\n";
  attn_bundle_close(bundle);
  return ok ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  try {
    if (argc == 2 && !strcmp(argv[1], "--cases")) {
      std::cout << listCases().dump(1) << "\n";
      return 0;
    }
    if (argc == 2 && !strcmp(argv[1], "--device")) {
      char name[256];
      attn_error error;
      int status = attn_device_describe(kPlace, name, sizeof name, &error);
      std::cout << (status ? error.text : name) << "\n";
      return status ? kNoDevice : 0;
    }
    if (argc == 5)
      return timeAll(argv + 1);
    std::cerr << "usage: attn_device_timing --cases | --device | BUNDLE CHECKS "
                 "TORCH SECONDS\n";
    return 2;
  } catch (const std::exception &error) {
    std::cerr << "attn_device_timing: " << error.what() << "\n";
    return 2;
  }
}

//===- tests/cuda/DriverTest.cpp - Drivers and devices that fail ----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/cuda/DeviceSupport.h"
#include "tests/cuda/PlainKernel.h"
#include <array>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <thread>

using testing::AllOf;
using testing::HasSubstr;

namespace attn::test {
namespace {

std::string find(const char *target) {
  attn_error error;
  DLDevice place;
  int status = attn_device_find(PlainKernel(target), &place, &error);
  return fmt::format("{} {}", attn_status_name(status), error.text);
}

//--- In processes of their own: what is there at all -------------------------

TEST(Driver, Absent) {
  EXPECT_THAT(inChild("/nowhere/libcuda.so", [] { return find("cuda-sm80"); }),
              AllOf(HasSubstr("ATTN_NO_DEVICE there is no CUDA driver here"),
                    HasSubstr("ATTN_CUDA_DRIVER"),
                    HasSubstr("/nowhere/libcuda.so")));
}

TEST(Driver, NotADriver) {
  EXPECT_THAT(inChild("libm.so.6", [] { return find("cuda-sm80"); }),
              AllOf(HasSubstr("ATTN_NO_DEVICE"), HasSubstr("has no cuInit"),
                    HasSubstr("11.2")));
}

TEST(Driver, NoDevice) {
  EXPECT_THAT(inChild(FAKE_DRIVER,
                      [] {
                        fakeDriver().setDevices({});
                        return find("cuda-sm80");
                      }),
              AllOf(HasSubstr("ATTN_NO_DEVICE"), HasSubstr("CUDA 12.4"),
                    HasSubstr("no CUDA device")));
  EXPECT_THAT(inChild(FAKE_DRIVER,
                      [] {
                        fakeDriver().failAt("cuInit", 100, 0);
                        return find("cuda-sm80");
                      }),
              AllOf(HasSubstr("ATTN_NO_DEVICE"), HasSubstr("no CUDA device")));
}

TEST(Driver, IsLookedForAgain) {
  EXPECT_EQ(inChild(FAKE_DRIVER,
                    [] {
                      fakeDriver().failAt("cuInit", 999, 0);
                      std::string first = find("cuda-sm80");
                      std::string second = find("cuda-sm80");
                      return first + "\n" + second;
                    }),
            "ATTN_DEVICE_FAILED cuInit fails: an unknown error (999), without "
            "a description\nATTN_OK ");
}

TEST(Driver, TooOldADevice) {
  std::string text = inChild(FAKE_DRIVER, [] {
    fakeDriver().setDevices({75, 80});
    return find("cuda-sm90");
  });
  EXPECT_THAT(text,
              AllOf(HasSubstr("ATTN_NO_DEVICE"), HasSubstr("needs cuda-sm90"),
                    HasSubstr("Fake 0 (cuda-sm75), Fake 1 (cuda-sm80)")));
}

TEST(Driver, TheFirstDeviceThatCan) {
  EXPECT_EQ(inChild(FAKE_DRIVER,
                    [] {
                      fakeDriver().setDevices({75, 80, 90});
                      attn_error error;
                      DLDevice place;
                      char name[64] = "";
                      attn_device_find(PlainKernel(), &place, &error);
                      attn_device_describe(place, name, sizeof name, &error);
                      return fmt::format("{} {} {}", int(place.device_type),
                                         place.device_id, name);
                    }),
            "2 1 Fake 1 (cuda-sm80)");
}

TEST(Driver, FailuresOfOpening) {
  for (const char *function :
       {"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
        "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain"}) {
    std::string text = inChild(FAKE_DRIVER, [&] {
      fakeDriver().failAt(function, 719, 0);
      std::string first = find("cuda-sm80");
      return first + "\n" + find("cuda-sm80");
    });
    EXPECT_THAT(text, AllOf(HasSubstr(std::string("ATTN_DEVICE_FAILED ") +
                                      function + " fails"),
                            HasSubstr("CUDA_ERROR_LAUNCH_FAILED (719), as the "
                                      "fake driver has it"),
                            HasSubstr("\nATTN_OK ")))
        << function;
  }
}

//--- In this process ----------------------------------------------------------

class Devices : public testing::Test {
protected:
  void SetUp() override {
    driver.setDevices({90, 80, 75});
    before = driver.liveAllocations();
  }
  void TearDown() override {
    EXPECT_EQ(driver.liveAllocations(), before);
    EXPECT_EQ(driver.contextDepth(), 0U);
  }
  PlainKernel kernel;
  Case plainCase() const { return kernel.someCase(1, 5, 9); }
  FakeDriver &driver = fakeDriver();
  size_t before = 0;
};

TEST_F(Devices, FailuresOfEachCallAreReported) {
  // Loaded by now, so that each call is the same.
  {
    DeviceCall call(plainCase(), kernel);
    ASSERT_EQ(call.run(), ATTN_OK) << call.error.text;
  }
  for (const char *function :
       {"cuCtxPushCurrent", "cuStreamIsCapturing", "cuMemAllocAsync",
        "cuMemcpyHtoDAsync", "cuLaunchKernel", "cuStreamSynchronize"}) {
    DeviceCall call(plainCase(), kernel);
    // (The first contexts are those in which pointers are looked at.)
    int skip = std::string(function) == "cuCtxPushCurrent" ? 5 : 0;
    driver.failAt(function, 719, skip);
    EXPECT_EQ(call.run(), ATTN_DEVICE_FAILED) << function;
    EXPECT_THAT(call.error.text,
                AllOf(HasSubstr(std::string(function)),
                      HasSubstr(" fails on CUDA device 0, Fake 0: "
                                "CUDA_ERROR_LAUNCH_FAILED (719)")));
    EXPECT_EQ(driver.contextDepth(), 0U);
    ASSERT_EQ(call.run(), ATTN_OK) << call.error.text;
    EXPECT_EQ(call.judge(), "") << function;
  }
}

TEST_F(Devices, MemoryThatCantBeGivenBackIsReported) {
  DeviceCall call(plainCase(), kernel);
  driver.failAt("cuMemFreeAsync", 719, 0);
  EXPECT_EQ(call.run(), ATTN_DEVICE_FAILED);
  EXPECT_THAT(call.error.text, HasSubstr("cuMemFreeAsync fails on CUDA"));
  ++before; // it stays
}

TEST_F(Devices, MemoryThatIsNotThereIsReported) {
  DeviceCall call(plainCase(), kernel);
  driver.failAt("cuMemAllocAsync", 2, 0);
  EXPECT_EQ(call.run(), ATTN_OUT_OF_MEMORY);
  EXPECT_THAT(call.error.text, HasSubstr("CUDA_ERROR_OUT_OF_MEMORY (2)"));
}

TEST_F(Devices, AKernelThatFailsIsReportedWhereSomebodyWaits) {
  DeviceCall call(plainCase(), kernel);
  // The pointer is good, the strides lead outside.
  int64_t far[4] = {1 << 20, 1 << 20, 1 << 20, 1};
  call.k.strides = far;
  EXPECT_EQ(call.run(), ATTN_DEVICE_FAILED);
  EXPECT_THAT(call.error.text, AllOf(HasSubstr("cuStreamSynchronize"),
                                     HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS")));
}

TEST_F(Devices, LoadingFails) {
  size_t modules = driver.loadedModules();
  for (const char *function : {"cuModuleGetFunction", "cuFuncSetAttribute"}) {
    DeviceCall call(plainCase(), kernel);
    driver.failAt(function, 719, 0);
    EXPECT_EQ(call.run(), ATTN_DEVICE_FAILED);
    EXPECT_THAT(call.error.text, HasSubstr(function));
    EXPECT_EQ(driver.loadedModules(), modules);
  }
  DeviceCall call(plainCase(), kernel);
  ASSERT_EQ(call.run(), ATTN_OK) << call.error.text;
  EXPECT_EQ(call.judge(), "");
}

TEST_F(Devices, BinariesWhereTheyMatchElseText) {
  std::string binary = std::string(kFakeBinary) + kernel.code.text;
  for (int device : {0, 1}) {
    PlainKernel own;
    own.code.binary = binary.c_str();
    own.code.binary_size = binary.size() + 1;
    int texts = driver.loadedTexts(), binaries = driver.loadedBinaries();
    {
      DeviceCall call(plainCase(), own, device);
      ASSERT_EQ(call.run(), ATTN_OK) << call.error.text;
      EXPECT_EQ(call.judge(), "");
    }
    // Device 0 is of another generation.
    EXPECT_EQ(driver.loadedBinaries() - binaries, device);
    EXPECT_EQ(driver.loadedTexts() - texts, 1 - device);
  }
  // A binary that the driver does not take.
  PlainKernel own;
  own.code.binary = "\177ELF";
  own.code.binary_size = 4;
  DeviceCall call(plainCase(), own, 1);
  ASSERT_EQ(call.run(), ATTN_OK) << call.error.text;
  EXPECT_EQ(call.judge(), "");
}

TEST_F(Devices, CodeThatTheDriverRefuses) {
  PlainKernel own;
  own.code.binary = nullptr;
  own.code.binary_size = 0;
  own.code.text = ".version 7.0\n.target sm_80\n.address_size 64\nnonsense\n";
  DeviceCall call(plainCase(), own);
  EXPECT_EQ(call.run(), ATTN_DEVICE_FAILED);
  EXPECT_THAT(call.error.text,
              AllOf(HasSubstr("refuses the code of variant 'plain' for target "
                              "'cuda-sm80'"),
                    HasSubstr("CUDA_ERROR_INVALID_PTX"), HasSubstr("4")));
}

TEST_F(Devices, KernelsGoWithTheirBundle) {
  size_t modules = driver.loadedModules();
  {
    PlainKernel own;
    for (int device : {0, 1}) {
      DeviceCall call(plainCase(), own, device);
      ASSERT_EQ(call.run(), ATTN_OK) << call.error.text;
    }
    EXPECT_EQ(driver.loadedModules(), modules + 2);
  }
  EXPECT_EQ(driver.loadedModules(), modules);
}

TEST_F(Devices, DescriptorsOfDeviceCodeAreChecked) {
  const auto status = [](attn_kernel &own) {
    const attn_kernel *all[] = {&own};
    attn_bundle *bundle;
    attn_error error;
    int code = attn_bundle_open_static(all, 1, &bundle, &error);
    attn_bundle_close(bundle);
    return code;
  };
  PlainKernel good;
  EXPECT_EQ(status(good.kernel), ATTN_OK);
  const std::function<void(PlainKernel &)> damages[] = {
      [](PlainKernel &k) { k.kernel.device = nullptr; },
      [](PlainKernel &k) {
        k.kernel.run = [](const attn_call *, int64_t, int64_t, void *) {};
      },
      [](PlainKernel &k) { k.code.entry = ""; },
      [](PlainKernel &k) { k.code.text = nullptr; },
      [](PlainKernel &k) { k.code.binary = nullptr, k.code.binary_size = 3; },
      [](PlainKernel &k) { k.code.threads = 0; },
      [](PlainKernel &k) { k.code.shared_bytes = -1; }};
  for (const auto &damage : damages) {
    PlainKernel bad;
    attn_kernel kept = bad.kernel;
    attn_device_code code = bad.code;
    damage(bad);
    EXPECT_EQ(status(bad.kernel), ATTN_BAD_BUNDLE);
    bad.kernel = kept;
    bad.code = code;
  }
}

//--- Calls --------------------------------------------------------------------

TEST_F(Devices, CallsAreRight) {
  PlainKernel scaled("cuda-sm80", true);
  for (auto [batch, qLen, kvLen] :
       {std::array<int64_t, 3>{2, 7, 40}, {3, 1, 70}, {1, 4, 0}, {40, 1, 3}}) {
    Case c = scaled.someCase(batch, qLen, kvLen);
    c.kvLens.assign(size_t(batch), kvLen);
    c.qLens.assign(size_t(batch), qLen);
    c.kvLens.back() = kvLen / 2;
    c.qLens.front() = (qLen + 1) / 2;
    c.k.reversed = {false, false, true, false};
    c.v.order = {2, 0, 1, 3};
    c.o.gap = {0, 3, 1, 2};
    c.params[0].layout.reversed = {true};
    c.params[1].layout.order = {1, 0};
    c.params[1].layout.step = 2;
    DeviceCall call(c, scaled);
    ASSERT_EQ(call.run(), ATTN_OK) << call.error.text << driver.kernelError();
    EXPECT_EQ(call.judge(), "") << describe(c);
  }
}

TEST_F(Devices, AStreamIsNotWaitedFor) {
  PlainKernel scaled("cuda-sm80", true);
  Case c = scaled.someCase(2, 8, 30);
  c.kvLens = {30, 12};
  DeviceCall call(c, scaled);
  call.options.stream = driver.makeStream(0, false);
  int waits = driver.calls("cuStreamSynchronize");
  size_t allocations = driver.liveAllocations();
  ASSERT_EQ(call.run(), ATTN_OK) << call.error.text;
  EXPECT_EQ(driver.calls("cuStreamSynchronize"), waits);
  EXPECT_EQ(driver.liveAllocations(), allocations + 1);
  // Lengths and parameters are the caller's again.
  std::fill(call.c.kvLens.begin(), call.c.kvLens.end(), 0);
  call.buffers.changeParameters([](size_t, ArgumentBuffer &memory) {
    memory.set(0, -100);
    memory.set(1, -100);
  });
  std::copy(c.kvLens.begin(), c.kvLens.end(), call.c.kvLens.begin());
  EXPECT_EQ(call.judge(), ""); // which waits for the device
  EXPECT_EQ(driver.liveAllocations(), allocations);
}

TEST_F(Devices, CallsOnOneStreamKeepTheirOrder) {
  Case c = plainCase();
  DeviceCall first(c, kernel);
  c.values.seed = 9;
  DeviceCall second(c, kernel);
  first.options.stream = second.options.stream = driver.makeStream(0, false);
  second.o.data = first.o.data; // the later one stays
  ASSERT_EQ(first.run(), ATTN_OK) << first.error.text;
  ASSERT_EQ(second.run(), ATTN_OK) << second.error.text;
  std::vector<std::byte> both = first.outputBytes();
  DeviceCall alone(c, kernel);
  ASSERT_EQ(alone.run(), ATTN_OK) << alone.error.text;
  EXPECT_EQ(both, alone.outputBytes());
}

TEST_F(Devices, ThreadsRunAtOnceAndLoadOnce) {
  PlainKernel own("cuda-sm80", true);
  int loads = driver.loadedTexts();
  std::vector<std::thread> threads;
  std::vector<std::string> wrong(6);
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      Case c = own.someCase(1, 3 + int64_t(t), 20);
      c.values.seed = uint32_t(t + 1);
      DeviceCall call(c, own, int(t % 2));
      if (t / 2)
        call.options.stream = driver.makeStream(int(t % 2), false);
      wrong[t] = call.run() ? call.error.text : call.judge();
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &text : wrong)
    EXPECT_EQ(text, "");
  EXPECT_EQ(driver.loadedTexts(), loads + 2); // one a device
}

TEST_F(Devices, NothingToDoAsksNothingOfTheDevice) {
  for (auto [batch, qLen] : {std::pair<int64_t, int64_t>{0, 4}, {2, 0}}) {
    DeviceCall call(kernel.someCase(batch, qLen, 4), kernel);
    int launches = driver.calls("cuLaunchKernel");
    EXPECT_EQ(call.run(), ATTN_OK) << call.error.text;
    EXPECT_EQ(driver.calls("cuLaunchKernel"), launches);
  }
}

//--- What callers give --------------------------------------------------------

TEST_F(Devices, TensorsLieInOnePlace) {
  DeviceCall call(plainCase(), kernel);
  const auto refused = [&](DLTensor &tensor, DLDevice place,
                           const std::string &says) {
    DLDevice kept = tensor.device;
    tensor.device = place;
    EXPECT_EQ(call.run(), ATTN_INVALID_ARGUMENT);
    EXPECT_THAT(call.error.text, HasSubstr(says));
    tensor.device = kept;
  };
  refused(call.k, kHost,
          "tensor 'k' is on the CPU, must be on CUDA device 0 (as 'q')");
  refused(call.o, deviceAt(1),
          "tensor 'o' is on CUDA device 1, must be on CUDA device 0 (as 'q')");
  refused(call.lse, {kDLROCM, 0}, "tensor 'lse' is on DLPack device type 10");
  refused(call.q, kHost,
          "tensor 'q' is on the CPU; variant 'plain' for target 'cuda-sm80' "
          "runs on a CUDA device");
  call.q.device = {kDLROCM, 0};
  EXPECT_EQ(call.run(), ATTN_INVALID_ARGUMENT);
}

TEST_F(Devices, LengthsAndParametersAreTheHosts) {
  PlainKernel scaled("cuda-sm80", true);
  Case c = scaled.someCase(2, 2, 4);
  c.kvLens = {4, 1};
  DeviceCall call(c, scaled);
  call.kvLens.device = deviceAt(0);
  EXPECT_EQ(call.run(), ATTN_INVALID_ARGUMENT);
  EXPECT_THAT(call.error.text,
              HasSubstr("tensor 'kv_lens' is on CUDA device 0, must be on the "
                        "CPU (the runtime reads its values)"));
  call.kvLens.device = kHost;
  DLTensor slope = *call.tensors.params[0].value;
  slope.device = deviceAt(0);
  attn_argument arguments[] = {{"slope", &slope}, call.tensors.params[1]};
  call.tensors.params = arguments;
  EXPECT_EQ(call.run(), ATTN_INVALID_ARGUMENT);
  EXPECT_THAT(call.error.text,
              HasSubstr("parameter 'slope' is on CUDA device 0"));
}

TEST_F(Devices, PointersAreLookedAt) {
  DeviceCall call(plainCase(), kernel);
  static float ordinary[4096], registered[4096];
  driver.registerHost(registered, sizeof registered);
  DeviceCall elsewhere(plainCase(), kernel, 1);
  const std::pair<void *, const char *> wrong[] = {
      {ordinary, "no memory that the CUDA driver knows"},
      {registered, "memory of the host"},
      {elsewhere.v.data, "memory of another CUDA device"}};
  void *kept = call.v.data;
  for (auto [data, says] : wrong) {
    call.v.data = data;
    EXPECT_EQ(call.run(), ATTN_INVALID_ARGUMENT);
    EXPECT_THAT(call.error.text,
                AllOf(HasSubstr("tensor 'v': the data at "), HasSubstr(says)));
  }
  call.v.data = kept;
}

TEST_F(Devices, StreamsAreLookedAt) {
  DeviceCall call(plainCase(), kernel);
  call.options.stream = driver.makeStream(0, true);
  EXPECT_EQ(call.run(), ATTN_INVALID_ARGUMENT);
  EXPECT_THAT(call.error.text, HasSubstr("captured"));
  call.options.stream = driver.makeStream(1, false);
  EXPECT_EQ(call.run(), ATTN_DEVICE_FAILED);
  EXPECT_THAT(call.error.text, HasSubstr("CUDA_ERROR_INVALID_HANDLE"));
}

TEST_F(Devices, WrongDevices) {
  DLDevice place;
  attn_error error;
  void *memory;
  EXPECT_EQ(attn_device_alloc(deviceAt(3), 8, &memory, &error), ATTN_NO_DEVICE);
  EXPECT_THAT(error.text, HasSubstr("no CUDA device 3; the driver has 3"));
  EXPECT_EQ(attn_device_alloc({kDLROCM, 0}, 8, &memory, &error),
            ATTN_UNSUPPORTED);
  EXPECT_THAT(error.text, HasSubstr("those are: CUDA (2)"));
  // Compiled for more than the device has.
  PlainKernel newer("cuda-sm90");
  DeviceCall call(plainCase(), newer, 1);
  EXPECT_EQ(call.run(), ATTN_NO_DEVICE);
  EXPECT_THAT(call.error.text,
              AllOf(HasSubstr("needs cuda-sm90"),
                    HasSubstr("CUDA device 1 is Fake 1, which has cuda-sm80")));
  // A device that no kind is for.
  PlainKernel own;
  own.kernel.features = "warp-drive";
  EXPECT_EQ(attn_device_find(own, &place, &error), ATTN_UNSUPPORTED);
  EXPECT_THAT(error.text, HasSubstr("needs warp-drive"));
}

//--- Bundles for CPUs and devices ---------------------------------------------

class Mixed : public Devices {
protected:
  Mixed() {
    host.device = nullptr;
    host.target = "some-cpu";
    host.features = "";
    host.run = [](const attn_call *, int64_t, int64_t, void *) {};
    newer.kernel.preference = 1;
  }
  /// The name of the kernel's target, or the status and the text.
  std::string pick(const std::vector<const attn_kernel *> &kernels,
                   DLDevice place, const char *target = nullptr) {
    attn_bundle *bundle;
    attn_error error;
    const attn_kernel *picked;
    EXPECT_EQ(attn_bundle_open_static(kernels.data(), kernels.size(), &bundle,
                                      &error),
              ATTN_OK);
    int status =
        attn_kernel_pick_at(bundle, nullptr, target, place, &picked, &error);
    std::string text =
        status ? attn_status_name(status) + (": " + std::string(error.text))
               : picked->target;
    attn_bundle_close(bundle);
    return text;
  }
  PlainKernel newer = PlainKernel("cuda-sm90");
  attn_kernel host = kernel.kernel;
  std::vector<const attn_kernel *> devices = {kernel, newer},
                                   all = {kernel, newer, &host};
};

TEST_F(Mixed, TheBestForThePlace) {
  EXPECT_EQ(pick(all, kHost), "some-cpu");
  EXPECT_EQ(pick(all, deviceAt(0)), "cuda-sm90");
  EXPECT_EQ(pick(all, deviceAt(1)), "cuda-sm80");
  EXPECT_EQ(pick(all, deviceAt(0), "cuda-sm80"), "cuda-sm80");
}

TEST_F(Mixed, ByTheNameInTheEnvironment) {
  setenv("ATTN_TARGET", "cuda-sm80", 1);
  EXPECT_EQ(pick(all, deviceAt(0)), "cuda-sm80");
  EXPECT_THAT(pick(all, kHost), AllOf(HasSubstr("ATTN_UNSUPPORTED_CPU"),
                                      HasSubstr("asked for by ATTN_TARGET"),
                                      HasSubstr("does not run on the CPU")));
  unsetenv("ATTN_TARGET");
}

TEST_F(Mixed, NothingForThePlace) {
  EXPECT_THAT(
      pick({&host}, deviceAt(0)),
      AllOf(HasSubstr("ATTN_NOT_FOUND"),
            HasSubstr("does not run on CUDA device 0, where the tensors "
                      "are; the bundle holds: "),
            HasSubstr("some-cpu")));
  EXPECT_THAT(pick(devices, kHost),
              AllOf(HasSubstr("ATTN_UNSUPPORTED_CPU"),
                    HasSubstr("does not run on the CPU"),
                    HasSubstr("cuda-sm80 (needs cuda-sm80), cuda-sm90")));
  EXPECT_THAT(pick(all, deviceAt(2)),
              AllOf(HasSubstr("ATTN_NO_DEVICE"), HasSubstr("needs cuda-sm80"),
                    HasSubstr("CUDA device 2 is Fake 2, which has cuda-sm75")));
  EXPECT_THAT(pick(all, deviceAt(1), "cuda-sm90"),
              AllOf(HasSubstr("ATTN_NO_DEVICE"), HasSubstr("needs cuda-sm90")));
}

TEST_F(Mixed, AKernelOfTheCpuTakesNeitherDevicesNorStreams) {
  DeviceCall call(plainCase(), &host);
  EXPECT_EQ(call.run(), ATTN_INVALID_ARGUMENT);
  EXPECT_THAT(call.error.text, AllOf(HasSubstr("tensor 'q' is on CUDA device "
                                               "0; variant 'plain' for target"),
                                     HasSubstr("runs on the CPU")));
  for (DLTensor *tensor : {&call.q, &call.k, &call.v, &call.o, &call.lse})
    tensor->device = kHost;
  call.options.stream = driver.makeStream(0, false);
  EXPECT_EQ(call.run(), ATTN_INVALID_ARGUMENT);
  EXPECT_THAT(call.error.text, HasSubstr("attn_run_options.stream"));
}

} // namespace
} // namespace attn::test

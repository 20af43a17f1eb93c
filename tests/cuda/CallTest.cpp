//===- tests/cuda/CallTest.cpp - Calls, and what callers give -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/cuda/DeviceTest.h"
#include <array>
#include <thread>

using testing::AllOf;
using testing::HasSubstr;

namespace attn::test {
namespace {

using Calls = PlainTest;

//--- Calls --------------------------------------------------------------------

TEST_F(Calls, CallsAreRight) {
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

TEST_F(Calls, AStreamIsNotWaitedFor) {
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

TEST_F(Calls, CallsOnOneStreamKeepTheirOrder) {
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

TEST_F(Calls, ThreadsRunAtOnceAndLoadOnce) {
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

TEST_F(Calls, NothingToDoAsksNothingOfTheDevice) {
  for (auto [batch, qLen] : {std::pair<int64_t, int64_t>{0, 4}, {2, 0}}) {
    DeviceCall call(kernel.someCase(batch, qLen, 4), kernel);
    int launches = driver.calls("cuLaunchKernel");
    EXPECT_EQ(call.run(), ATTN_OK) << call.error.text;
    EXPECT_EQ(driver.calls("cuLaunchKernel"), launches);
  }
}

//--- What callers give --------------------------------------------------------

TEST_F(Calls, TensorsLieInOnePlace) {
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

TEST_F(Calls, LengthsAndParametersAreTheHosts) {
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

TEST_F(Calls, PointersAreLookedAt) {
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

TEST_F(Calls, StreamsAreLookedAt) {
  DeviceCall call(plainCase(), kernel);
  call.options.stream = driver.makeStream(0, true);
  EXPECT_EQ(call.run(), ATTN_INVALID_ARGUMENT);
  EXPECT_THAT(call.error.text, HasSubstr("captured"));
  call.options.stream = driver.makeStream(1, false);
  EXPECT_EQ(call.run(), ATTN_DEVICE_FAILED);
  EXPECT_THAT(call.error.text, HasSubstr("CUDA_ERROR_INVALID_HANDLE"));
}

TEST_F(Calls, WrongDevices) {
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
} // namespace
} // namespace attn::test

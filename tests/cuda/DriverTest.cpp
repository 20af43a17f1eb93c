//===- tests/cuda/DriverTest.cpp - Drivers that fail, and code ------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/cuda/DeviceTest.h"

using testing::AllOf;
using testing::HasSubstr;

namespace attn::test {
namespace {

using Driver = PlainTest;

TEST_F(Driver, FailuresOfEachCallAreReported) {
  // Loaded by now, so that each call is the same.
  {
    DeviceCall call(plainCase(), kernel);
    ASSERT_EQ(call.run(), ATTN_OK) << call.error.text;
  }
  for (const char *function :
       {"cuCtxPushCurrent", "cuStreamIsCapturing", "cuMemAllocFromPoolAsync",
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

TEST_F(Driver, MemoryThatCantBeGivenBackIsReported) {
  DeviceCall call(plainCase(), kernel);
  driver.failAt("cuMemFreeAsync", 719, 0);
  EXPECT_EQ(call.run(), ATTN_DEVICE_FAILED);
  EXPECT_THAT(call.error.text, HasSubstr("cuMemFreeAsync fails on CUDA"));
  ++before; // it stays
}

TEST_F(Driver, MemoryThatIsNotThereIsReported) {
  DeviceCall call(plainCase(), kernel);
  driver.failAt("cuMemAllocFromPoolAsync", 2, 0);
  EXPECT_EQ(call.run(), ATTN_OUT_OF_MEMORY);
  EXPECT_THAT(call.error.text, HasSubstr("CUDA_ERROR_OUT_OF_MEMORY (2)"));
}

TEST_F(Driver, AKernelThatFailsIsReportedWhereSomebodyWaits) {
  DeviceCall call(plainCase(), kernel);
  // The pointer is good, the strides lead outside.
  int64_t far[4] = {1 << 20, 1 << 20, 1 << 20, 1};
  call.k.strides = far;
  EXPECT_EQ(call.run(), ATTN_DEVICE_FAILED);
  EXPECT_THAT(call.error.text, AllOf(HasSubstr("cuStreamSynchronize"),
                                     HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS")));
}

TEST_F(Driver, LoadingFails) {
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

TEST_F(Driver, BinariesWhereTheyMatchElseText) {
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

TEST_F(Driver, CodeThatTheDriverRefuses) {
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

TEST_F(Driver, KernelsGoWithTheirBundle) {
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

TEST_F(Driver, DescriptorsOfDeviceCodeAreChecked) {
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
      [](PlainKernel &k) { k.code.shared_bytes = -1; },
      [](PlainKernel &k) { k.code.merge_entry = "plain"; },
      [](PlainKernel &k) { k.kernel.state_bytes = 8; },
      [](PlainKernel &k) { k.kernel.split_keys = -1; },
      [](PlainKernel &k) { k.kernel.split_keys = k.kernel.state_bytes = 8; },
      [](PlainKernel &k) {
        k.kernel.split_keys = k.kernel.state_bytes = 8;
        k.code.merge_entry = "plain";
      }};
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

} // namespace
} // namespace attn::test

//===- tests/cuda/ProcessTest.cpp - What is there at all ------------------===//
//
// Part of attnc. Apache-2.0.
//
// Each test is a process of its own, in which the runtime has looked for no
// driver yet. Nothing here may do so in the process that starts them.
//
//===----------------------------------------------------------------------===//
#include "tests/cuda/DeviceSupport.h"
#include "tests/cuda/PlainKernel.h"
#include <fmt/format.h>
#include <gmock/gmock.h>

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

TEST(Process, Absent) {
  EXPECT_THAT(inChild("/nowhere/libcuda.so", [] { return find("cuda-sm80"); }),
              AllOf(HasSubstr("ATTN_NO_DEVICE there is no CUDA driver here"),
                    HasSubstr("ATTN_CUDA_DRIVER"),
                    HasSubstr("/nowhere/libcuda.so")));
}

TEST(Process, NotADriver) {
  EXPECT_THAT(inChild("libm.so.6", [] { return find("cuda-sm80"); }),
              AllOf(HasSubstr("ATTN_NO_DEVICE"), HasSubstr("has no cuInit"),
                    HasSubstr("11.2")));
}

TEST(Process, NoDevice) {
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

TEST(Process, IsLookedForAgain) {
  EXPECT_EQ(inChild(FAKE_DRIVER,
                    [] {
                      fakeDriver().failAt("cuInit", 999, 0);
                      std::string first = find("cuda-sm80");
                      std::string second = find("cuda-sm80");
                      return first + "\n" + second;
                    }),
            "ATTN_NO_DEVICE there is a CUDA driver, '" FAKE_DRIVER
            "', but it does not start: cuInit fails: an unknown error (999), "
            "without a description\nATTN_OK ");
}

TEST(Process, TooOldADevice) {
  std::string text = inChild(FAKE_DRIVER, [] {
    fakeDriver().setDevices({75, 80});
    return find("cuda-sm90");
  });
  EXPECT_THAT(text,
              AllOf(HasSubstr("ATTN_NO_DEVICE"), HasSubstr("needs cuda-sm90"),
                    HasSubstr("Fake 0 (cuda-sm75), Fake 1 (cuda-sm80)")));
}

TEST(Process, TheFirstDeviceThatCan) {
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

TEST(Process, FailuresOfOpening) {
  for (const char *function :
       {"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
        "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuMemPoolCreate",
        "cuMemPoolSetAttribute"}) {
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

} // namespace
} // namespace attn::test

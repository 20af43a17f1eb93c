//===- tests/cuda/PickTest.cpp - Bundles for CPUs and devices -------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/cuda/DeviceTest.h"

using testing::AllOf;
using testing::HasSubstr;

namespace attn::test {
namespace {

class Pick : public PlainTest {
protected:
  Pick() {
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

TEST_F(Pick, TheBestForThePlace) {
  EXPECT_EQ(pick(all, kHost), "some-cpu");
  EXPECT_EQ(pick(all, deviceAt(0)), "cuda-sm90");
  EXPECT_EQ(pick(all, deviceAt(1)), "cuda-sm80");
  EXPECT_EQ(pick(all, deviceAt(0), "cuda-sm80"), "cuda-sm80");
}

TEST_F(Pick, ByTheNameInTheEnvironment) {
  setenv("ATTN_TARGET", "cuda-sm80", 1);
  EXPECT_EQ(pick(all, deviceAt(0)), "cuda-sm80");
  EXPECT_THAT(pick(all, kHost), AllOf(HasSubstr("ATTN_UNSUPPORTED_CPU"),
                                      HasSubstr("asked for by ATTN_TARGET"),
                                      HasSubstr("does not run on the CPU")));
  unsetenv("ATTN_TARGET");
}

TEST_F(Pick, NothingForThePlace) {
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

TEST_F(Pick, AKernelOfTheCpuTakesNeitherDevicesNorStreams) {
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

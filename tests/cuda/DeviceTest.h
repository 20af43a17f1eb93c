//===- tests/cuda/DeviceTest.h - Tests on the fake driver's devices -------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_CUDA_DEVICETEST_H
#define ATTNC_TESTS_CUDA_DEVICETEST_H

#include "tests/cuda/DeviceSupport.h"
#include "tests/cuda/PlainKernel.h"
#include <gmock/gmock.h>

namespace attn::test {

/// Three devices, which every test leaves as it found them.
class DeviceTest : public testing::Test {
protected:
  void SetUp() override {
    driver.setDevices({90, 80, 75});
    before = driver.liveAllocations();
  }
  void TearDown() override {
    EXPECT_EQ(driver.liveAllocations(), before);
    EXPECT_EQ(driver.contextDepth(), 0U);
  }

  FakeDriver &driver = fakeDriver();
  size_t before = 0;
};

/// With the kernel of plain.ptx.
class PlainTest : public DeviceTest {
protected:
  PlainKernel kernel;
  Case plainCase() const { return kernel.someCase(1, 5, 9); }
};

} // namespace attn::test

#endif

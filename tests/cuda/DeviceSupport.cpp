//===- tests/cuda/DeviceSupport.cpp - Calls on the fake driver's devices --===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/cuda/DeviceSupport.h"
#include "tests/oracle/Oracle.h"
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace attn::test {

FakeDriver &fakeDriver() {
  static FakeDriver *the = [] {
    setenv("ATTN_CUDA_DRIVER", FAKE_DRIVER, 1);
    void *library = dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    if (!library)
      throw std::runtime_error(dlerror());
    auto *get =
        reinterpret_cast<FakeDriver *(*)()>(dlsym(library, kFakeDriverSymbol));
    return get();
  }();
  return *the;
}

std::string inChild(const std::string &driver,
                    const std::function<std::string()> &body) {
  int ends[2];
  if (pipe(ends) != 0)
    throw std::runtime_error("no pipe");
  pid_t pid = fork();
  if (pid == 0) {
    setenv("ATTN_CUDA_DRIVER", driver.c_str(), 1);
    std::string text = body();
    ssize_t written = write(ends[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    text += fmt::format(" (the process ended with status {:#x})", status);
  return text;
}

static void require(int status, const attn_error &error) {
  if (status != ATTN_OK)
    throw std::runtime_error(error.text);
}

DeviceMemory::DeviceMemory(DLDevice place, const GuardedBuffer &host)
    : place(place), host(host) {
  attn_error error;
  require(attn_device_alloc(place, host.size(), &memory, &error), error);
  require(attn_device_upload(place, memory, host.data(), host.size(), &error),
          error);
}

DeviceMemory::~DeviceMemory() {
  EXPECT_EQ(attn_device_free(place, memory, nullptr), ATTN_OK);
}

void *DeviceMemory::at(const void *address) const {
  if (!memory)
    return nullptr;
  return static_cast<std::byte *>(memory) +
         (static_cast<const std::byte *>(address) - host.data());
}

std::vector<std::byte> DeviceMemory::contents() const {
  std::vector<std::byte> bytes(host.size());
  attn_error error;
  require(
      attn_device_download(place, bytes.data(), memory, bytes.size(), &error),
      error);
  return bytes;
}

DeviceCall::DeviceCall(const Case &theCase, const attn_kernel *kernel,
                       int device)
    : c(theCase), buffers(c, kernel), kernel(kernel), place(deviceAt(device)),
      arguments(buffers.given()) {
  q = viewOf(buffers.q, 4);
  k = viewOf(buffers.k, 4);
  v = viewOf(buffers.v, 4);
  o = viewOf(buffers.o, 4);
  tensors.struct_size = sizeof tensors;
  tensors.q = &q;
  tensors.k = &k;
  tensors.v = &v;
  tensors.o = &o;
  if (c.lse) {
    lse = viewOf(buffers.lse, 3);
    tensors.lse = &lse;
  }
  if (!c.qLens.empty()) {
    qLens = lengthsOf(c.qLens.data());
    tensors.q_lens = &qLens;
  }
  if (!c.kvLens.empty()) {
    kvLens = lengthsOf(c.kvLens.data());
    tensors.kv_lens = &kvLens;
  }
  tensors.params = arguments.data();
  tensors.n_params = arguments.size();
  options.struct_size = sizeof options;
}

// (DLPack's pointers to shapes and strides are not const.)
DLTensor DeviceCall::viewOf(const Tensor &tensor, int rank) {
  memory.push_back(std::make_unique<DeviceMemory>(place, tensor.buffer()));
  DLDataType type = {kDLFloat, 32, 1};
  if (tensor.type() != Type::F32)
    type = {uint8_t(tensor.type() == Type::BF16 ? kDLBfloat : kDLFloat), 16, 1};
  return {memory.back()->at(tensor.base()),
          place,
          rank,
          type,
          const_cast<int64_t *>(tensor.extents().data()),
          const_cast<int64_t *>(tensor.strides().data()),
          0};
}

DLTensor DeviceCall::lengthsOf(const int64_t *lengths) {
  return {const_cast<int64_t *>(lengths),
          kHost,
          1,
          {kDLInt, 64, 1},
          &c.batch,
          nullptr,
          0};
}

std::string DeviceCall::judge() {
  const Tensor *all[] = {&buffers.q, &buffers.k, &buffers.v, &buffers.o,
                         &buffers.lse};
  for (size_t n = 0; n < memory.size(); ++n) {
    const GuardedBuffer &host = all[n]->buffer();
    std::vector<std::byte> there = memory[n]->contents();
    if (there.empty())
      continue;
    if (n >= 3)
      std::memcpy(host.data(), there.data(), there.size());
    else if (std::memcmp(host.data(), there.data(), there.size()) != 0)
      return fmt::format("input {} was changed on the device", n);
  }
  if (std::string text = buffers.changedBytes(); !text.empty())
    return text;
  oracle::Output expected;
  if (std::string text =
          oracle::evaluate(c.spec, buffers.call(), c.oracleParams(), expected);
      !text.empty())
    return "no expected result: " + text;
  return compare(buffers, c, expected);
}

} // namespace attn::test

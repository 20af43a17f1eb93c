//===- tests/runtime/Support.cpp ------------------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Support.h"
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
namespace fs = std::filesystem;

Call::Call(int64_t batch, int64_t qLen, int64_t kvLen)
    : q({batch, kHeads, qLen, kQkDim}), k({batch, kKvHeads, kvLen, kQkDim}),
      v({batch, kKvHeads, kvLen, kValueDim}),
      o({batch, kHeads, qLen, kValueDim}), lse({batch, kHeads, qLen}) {
  q.fill(1);
  k.fill(2);
  v.fill(3);
  o.poison();
  lse.poison();
  tensors.struct_size = sizeof tensors;
  tensors.q = &q;
  tensors.k = &k;
  tensors.v = &v;
  tensors.o = &o;
  tensors.lse = &lse;
  options.struct_size = sizeof options;
}

std::vector<double> reference(const Call &call, int64_t batch, int64_t qLen,
                              int64_t kvLen) {
  std::vector<double> out;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t i = 0; i < qLen; ++i) {
        int64_t g = b * kKvHeads + h * kKvHeads / kHeads;
        const float *q =
            call.q.data.data() + ((b * kHeads + h) * qLen + i) * kQkDim;
        std::vector<double> s;
        for (int64_t j = 0; j < kvLen; ++j) {
          double dot = 0;
          for (int64_t c = 0; c < kQkDim; ++c)
            dot += double(q[c]) * call.k.data[(g * kvLen + j) * kQkDim + c];
          s.push_back(dot / std::sqrt(5.0));
        }
        double m = *std::max_element(s.begin(), s.end()), z = 0;
        for (double &x : s)
          z += x = std::exp(x - m);
        for (int64_t c = 0; c < kValueDim; ++c) {
          double sum = 0;
          for (int64_t j = 0; j < kvLen; ++j)
            sum += s[j] * call.v.data[(g * kvLen + j) * kValueDim + c];
          out.push_back(sum / z);
        }
      }
  return out;
}

std::string bundlePath(const std::string &name) {
  return std::string(TEST_BUNDLE_DIR) + "/runtime_bundle_" + name + ".so";
}

attn_bundle *openBundle(const std::string &name) {
  attn_bundle *bundle = nullptr;
  attn_error error;
  EXPECT_EQ(attn_bundle_open(bundlePath(name).c_str(), &bundle, &error),
            ATTN_OK)
      << error.text;
  return bundle;
}

const attn_kernel *plainKernel() {
  static const attn_bundle *bundle = openBundle("good");
  return attn_bundle_kernel(bundle, 0);
}

std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << bytes;
  ASSERT_TRUE(out.flush()) << path;
}

TempDir::TempDir() {
  std::string name = (fs::temp_directory_path() / "attn_test.XXXXXX").string();
  if (!mkdtemp(name.data()))
    abort();
  path = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

std::vector<std::string> listDir(const std::string &path) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(path, error))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

ScopedEnv::ScopedEnv(const char *variable, const std::string &value)
    : name(variable), had(getenv(variable) != nullptr) {
  if (had)
    old = getenv(variable);
  setenv(variable, value.c_str(), 1);
}

ScopedEnv::ScopedEnv(const char *variable, std::nullptr_t)
    : ScopedEnv(variable, std::string()) {
  unsetenv(variable);
}

ScopedEnv::~ScopedEnv() {
  if (had)
    setenv(name.c_str(), old.c_str(), 1);
  else
    unsetenv(name.c_str());
}

FakeCompiler::FakeCompiler()
    : library(dir / "libfake.so"), bundle("FAKE_BUNDLE", bundlePath("plain")),
      log("FAKE_LOG", dir / "log") {
  fs::copy_file(FAKE_COMPILER, library);
}

size_t FakeCompiler::compilations() const {
  return readFile(dir / "log").size();
}

Client::Client(const std::vector<std::string> &arguments) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
    abort();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_adddup2(&actions, out[1], 2);
  std::vector<char *> argv = {const_cast<char *>(CLIENT_PROGRAM)};
  for (const std::string &argument : arguments)
    argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);
  if (posix_spawn(&pid, CLIENT_PROGRAM, &actions, nullptr, argv.data(),
                  environ))
    abort();
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  input = in[1];
  printed = out[0];
}

Client::~Client() {
  if (pid >= 0) {
    kill();
    wait();
  }
}

void Client::release() {
  if (input >= 0)
    close(input);
  input = -1;
}

void Client::kill() { ::kill(pid, SIGKILL); }

int Client::wait() {
  release();
  char chunk[4096];
  for (ssize_t n; (n = read(printed, chunk, sizeof chunk)) > 0;)
    output.append(chunk, size_t(n));
  close(printed);
  int status = 0;
  waitpid(pid, &status, 0);
  pid = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

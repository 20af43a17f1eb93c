//===- tests/support/Emulated.cpp - Running kernels through an emulator ---===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Emulated.h"
#include "tests/support/HarnessSources.h"
#include "tests/support/Process.h"
#include "tests/support/emulated/format.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <stdexcept>

namespace attn::test {

namespace {

template <typename T> void append(std::string &to, const T &value) {
  to.append(reinterpret_cast<const char *>(&value), sizeof value);
}

void pad(std::string &to) { to.resize((to.size() + 7) / 8 * 8); }

/// Reads values off a string of bytes.
class Reader {
public:
  explicit Reader(const std::string &bytes) : bytes(bytes) {}
  template <typename T> T take() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  const char *take(size_t size) {
    if (bytes.size() - at < size)
      throw std::runtime_error("the emulator's results are cut short");
    at += size;
    return bytes.data() + at - size;
  }

private:
  const std::string &bytes;
  size_t at = 0;
};

attn_job_pointer pointerTo(const std::vector<Region> &regions,
                           const void *address) {
  if (!address)
    return {-1, 0};
  const auto *at = static_cast<const std::byte *>(address);
  for (size_t r = 0; r < regions.size(); ++r) {
    const Region &region = regions[r];
    if (at >= region.data && at <= region.data + region.size)
      return {static_cast<int64_t>(r), at - region.data};
  }
  throw std::invalid_argument(
      "a pointer of the call is in none of its regions");
}

bool isWithin(const std::vector<Region> &regions, const void *address) {
  const auto *at = static_cast<const std::byte *>(address);
  return std::any_of(regions.begin(), regions.end(), [&](const Region &r) {
    return at >= r.data && at <= r.data + r.size;
  });
}

size_t bytesOf(int32_t type) {
  switch (type) {
  case ATTN_F16:
  case ATTN_BF16:
    return 2;
  case ATTN_BOOL:
  case ATTN_TOKENS:
    return 1;
  default:
    return 4;
  }
}

/// The pointers within the parameters of a call. What stands for arrays without
/// elements is constant data of the runtime, and becomes a region.
std::vector<attn_job_link> linksOf(const Job &job,
                                   std::vector<Region> &regions) {
  std::vector<attn_job_link> links;
  if (!job.call.params)
    return links;
  const attn_kernel *kernel = job.code.descriptor();
  if (!kernel)
    throw std::invalid_argument(
        "a call with parameters, but nothing describes the kernel");
  const auto link = [&](const void *at, const void *to, size_t bytes) {
    if (to && !isWithin(regions, to))
      regions.push_back({"a stand-in of the runtime",
                         static_cast<std::byte *>(const_cast<void *>(to)),
                         bytes, Placement::End, false});
    links.push_back({pointerTo(regions, at), pointerTo(regions, to)});
  };
  for (int32_t n = 0; n < kernel->n_params; ++n) {
    const attn_param &param = job.call.params[n];
    link(&param.data, param.data, bytesOf(kernel->params[n].type));
    link(&param.blocks, param.blocks, 2 * sizeof(int32_t));
  }
  return links;
}

void appendJob(std::string &file, const Job &job, int64_t kernel) {
  const attn_call &call = job.call;
  std::vector<Region> regions = job.regions;
  std::vector<attn_job_link> links = linksOf(job, regions);
  attn_job header = {};
  header.kernel = kernel;
  header.n_regions = static_cast<int64_t>(regions.size());
  header.n_links = static_cast<int64_t>(links.size());
  header.batch = call.batch;
  header.q_len = call.q_len;
  header.kv_len = call.kv_len;
  std::copy_n(call.q_stride, 4, header.q_stride);
  std::copy_n(call.k_stride, 4, header.k_stride);
  std::copy_n(call.v_stride, 4, header.v_stride);
  std::copy_n(call.o_stride, 4, header.o_stride);
  std::copy_n(call.lse_stride, 3, header.lse_stride);
  header.globals_stride = call.globals_stride;
  header.max_globals = call.max_globals;
  const void *addresses[ATTN_JOB_POINTERS] = {
      call.q,      call.k,       call.v,      call.o,       call.lse,
      call.q_lens, call.kv_lens, call.params, call.globals, call.global_counts};
  for (size_t n = 0; n < ATTN_JOB_POINTERS; ++n)
    header.pointers[n] = pointerTo(regions, addresses[n]);
  header.order = static_cast<int64_t>(job.order);
  append(file, header);
  for (const Region &region : regions)
    append(file, attn_job_region{static_cast<int64_t>(region.size),
                                 region.placement == Placement::End,
                                 region.isOutput});
  for (const attn_job_link &link : links)
    append(file, link);
  for (const Region &region : regions) {
    file.append(reinterpret_cast<const char *>(region.data), region.size);
    pad(file);
  }
}

std::string placeOf(const Job &job, const attn_job_result &result) {
  if (result.fault_region < 0)
    return fmt::format("address {:#x}", result.fault_offset);
  auto r = static_cast<size_t>(result.fault_region);
  if (r >= job.regions.size())
    return fmt::format("byte {} of scratch or of a stand-in",
                       result.fault_offset);
  return fmt::format("byte {} of {} ({} bytes long)", result.fault_offset,
                     job.regions[r].name, job.regions[r].size);
}

class EmulatedExecutor : public Executor {
public:
  explicit EmulatedExecutor(Emulator emulator)
      : emulator(std::move(emulator)) {}

  std::vector<std::string> run(const std::vector<Job> &jobs) override {
    try {
      if (emulator.command.empty())
        throw std::runtime_error(emulator.missing);
      return runAll(jobs);
    } catch (const std::exception &error) {
      return std::vector<std::string>(jobs.size(), error.what());
    }
  }
  std::string through() const override { return emulator.name; }

private:
  /// Links the harness with every kernel; numbers[j] is the kernel of job j.
  void link(const std::filesystem::path &directory,
            const std::vector<Job> &jobs, std::vector<int64_t> &numbers) const {
    writeFile(directory / "harness.c", kHarnessSource);
    writeFile(directory / "format.h", kHarnessFormat);
    writeFile(directory / "attn_abi.h", kHarnessAbi);
    std::map<std::string, int64_t> known;
    std::string declarations = "#include \"attn_abi.h\"\n", table;
    std::vector<std::string> command = emulator.compiler;
    command.insert(command.end(), {"-O1", "-static", "-fuse-ld=lld", "-o"});
    for (const char *file : {"harness", "harness.c", "kernels.c"})
      command.push_back(directory / file);
    for (const Job &job : jobs) {
      const Code &code = job.code;
      auto [entry, isNew] =
          known.emplace(code.symbol, static_cast<int64_t>(known.size()));
      numbers.push_back(entry->second);
      if (!isNew)
        continue;
      if (code.object.empty() || code.symbol.empty())
        throw std::invalid_argument("there is no object file to emulate");
      std::string file = directory / fmt::format("k{}.o", entry->second);
      writeFile(file, code.object);
      command.push_back(file);
      declarations +=
          fmt::format("extern const attn_kernel {};\n", code.symbol);
      table += fmt::format("  &{},\n", code.symbol);
    }
    writeFile(directory / "kernels.c",
              declarations +
                  "const attn_kernel *const attn_harness_kernels[] = {\n" +
                  table + "};\n" +
                  fmt::format("const int64_t attn_harness_n_kernels = {};\n",
                              known.size()));
    std::string output;
    if (int status = runProgram(command, output); status != 0)
      throw std::runtime_error(fmt::format(
          "linking the harness fails ({}; Debian's packages for it: {}): {}",
          status, emulator.linksWith, output));
  }

  std::vector<std::string> runAll(const std::vector<Job> &jobs) const {
    if (jobs.empty())
      return {};
    TemporaryDirectory directory;
    std::vector<int64_t> numbers;
    link(directory.path(), jobs, numbers);
    std::string file;
    append(file,
           attn_job_file{ATTN_JOB_MAGIC, static_cast<int64_t>(jobs.size())});
    for (size_t n = 0; n < jobs.size(); ++n)
      appendJob(file, jobs[n], numbers[n]);
    std::string jobFile = directory.path() / "jobs";
    std::string resultFile = directory.path() / "results";
    writeFile(jobFile, file);
    std::vector<std::string> command = {emulator.command};
    const auto add = [&](const std::vector<std::string> &arguments) {
      command.insert(command.end(), arguments.begin(), arguments.end());
    };
    add(emulator.options);
    const std::string harness = directory.path() / "harness";
    if (emulator.hasOwnFiles)
      add({"--file", jobFile + ":/jobs", "--get", "/results:" + resultFile,
           harness, "/jobs", "/results"});
    else
      add({harness, jobFile, resultFile});
    std::string output;
    int status = runProgram(command, output);
    if (status != 0)
      throw std::runtime_error(fmt::format("{} fails with status {}: {}",
                                           emulator.command, status, output));
    std::string results = readFile(resultFile);
    Reader reader(results);
    auto header = reader.take<attn_job_file>();
    if (header.magic != ATTN_JOB_MAGIC ||
        header.jobs != static_cast<int64_t>(jobs.size()))
      throw std::runtime_error("the emulator's results are malformed");
    std::vector<std::string> outcomes;
    outcomes.reserve(jobs.size());
    for (const Job &job : jobs)
      outcomes.push_back(takeResult(job, reader));
    return outcomes;
  }

  static std::string takeResult(const Job &job, Reader &reader) {
    auto result = reader.take<attn_job_result>();
    for (const Region &region : job.regions)
      if (region.isOutput) {
        const char *bytes = reader.take((region.size + 7) / 8 * 8);
        if (region.size != 0)
          std::memcpy(region.data, bytes, region.size);
      }
    if (result.signal != 0)
      return fmt::format("{} at {}", strsignal(static_cast<int>(result.signal)),
                         placeOf(job, result));
    if (auto r = static_cast<size_t>(result.changed); result.changed >= 0)
      return fmt::format("input {} was written to", r < job.regions.size()
                                                        ? job.regions[r].name
                                                        : "a stand-in");
    return {};
  }

  Emulator emulator;
};

} // namespace

std::unique_ptr<Executor> makeEmulatedExecutor(Emulator emulator) {
  return std::make_unique<EmulatedExecutor>(std::move(emulator));
}

} // namespace attn::test

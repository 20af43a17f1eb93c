//===- tools/attnc/Bench.cpp - attnc bench --------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Calibrate.h"
#include "compiler/Explain.h"
#include "compiler/Target.h"
#include "compiler/tools/Files.h"
#include "compiler/tools/attnc/Command.h"
#include "compiler/tools/attnc/Input.h"
#include "compiler/tools/attnc/ParamArrays.h"
#include "compiler/tools/attnc/Params.h"
#include "compiler/tools/attnc/Slices.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

namespace attn {
namespace {

struct Options : TextOptions {
  std::string target = "host";
  std::string plan;
  int64_t batch = 1;
  int64_t qLen = 4096;
  int64_t kvLen = -1; ///< -1: as many as queries
  size_t threads = 1;
  double seconds = 10;
  bool lse = false;
  bool json = false;
  ParamOptions params;
};

/// The product of positive sizes. Throws Failure where it can't be memory.
int64_t product(std::initializer_list<int64_t> sizes) {
  int64_t n = 1;
  for (int64_t size : sizes)
    if (__builtin_mul_overflow(n, size, &n) || n > int64_t(1) << 40)
      throw Failure("tensors of this size do not fit any memory");
  return n;
}

/// Tensors of one call, [batch, heads, tokens, width], as they are stored, and
/// the call.
struct Call {
  AlignedFloats q, k, v, o, lse;
  size_t kvBytes = 0;
  attn_call call = {};

  Call(const Spec &spec, const Options &options, int64_t kvLen) {
    const int64_t b = options.batch, n = options.qLen;
    const int64_t keys = product({b, spec.kvHeads, kvLen, spec.qkDim});
    const int64_t values = product({b, spec.kvHeads, kvLen, spec.valueDim});
    q = random(spec.qType, product({b, spec.heads, n, spec.qkDim}), 1);
    k = random(spec.kvType, keys, 2);
    v = random(spec.kvType, values, 3);
    kvBytes = size_t(keys + values) * elementBytes(spec.kvType);
    o = allocate(spec.outType, product({b, spec.heads, n, spec.valueDim}));
    call.q = q.get();
    call.k = k.get();
    call.v = v.get();
    call.o = o.get();
    call.batch = b;
    call.q_len = n;
    call.kv_len = kvLen;
    setStrides(call.q_stride, spec.heads, n, spec.qkDim);
    setStrides(call.k_stride, spec.kvHeads, kvLen, spec.qkDim);
    setStrides(call.v_stride, spec.kvHeads, kvLen, spec.valueDim);
    setStrides(call.o_stride, spec.heads, n, spec.valueDim);
    if (options.lse) {
      lse = allocateFloats(size_t(product({b, spec.heads, n})), 0);
      call.lse = lse.get();
      call.lse_stride[0] = spec.heads * n;
      call.lse_stride[1] = n;
      call.lse_stride[2] = 1;
    }
  }

private:
  static void setStrides(int64_t *stride, int64_t heads, int64_t tokens,
                         int64_t width) {
    stride[0] = heads * tokens * width;
    stride[1] = tokens * width;
    stride[2] = width;
    stride[3] = 1;
  }
  static size_t elementBytes(Type type) { return type == Type::F32 ? 4 : 2; }
  static AlignedFloats allocate(Type type, int64_t count) {
    return allocateFloats((size_t(count) * elementBytes(type) + 3) / 4, 0);
  }
  /// Uniform in [-1, 1), the same in each run.
  static AlignedFloats random(Type type, int64_t count, uint64_t seed) {
    // (So many values that their encodings make a table.)
    constexpr int kValues = 1024;
    Array table;
    for (int i = 0; i < kValues; ++i)
      (void)appendElement(table, type,
                          fmt::format("{}", i * 2.0 / kValues - 1));
    const size_t size = elementBytes(type);
    AlignedFloats values = allocate(type, count);
    char *out = reinterpret_cast<char *>(values.get());
    uint64_t state = seed * 0x9e3779b97f4a7c15u;
    for (int64_t i = 0; i < count; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      std::memcpy(out + size_t(i) * size,
                  table.bytes.data() + size * (state >> 54), size);
    }
    return values;
  }
};

/// The work of a call, and the explanation of one sequence of it. Pairs are
/// counted per query head.
struct Work {
  Explanation one;
  double flops = 0, bytes = 0;
  int64_t visitedPairs = 0, allowedPairs = 0;
};

/// `call` is filled with the parameters.
Work workOf(const Spec &spec, const CompileOptions &options,
            const attn_call &call, ParamValues &params) {
  Work work;
  // Sequences of equal lengths and values are explained once.
  const int64_t step = params.differBySequence() ? 1 : call.batch;
  for (int64_t b = 0; b < call.batch; b += step) {
    const attn_call one = params.sequenceOf(call, b);
    work.one = explain(spec, options, call.q_len, call.kv_len, &one);
    work.flops += work.one.flops * double(step);
    work.bytes += work.one.bytes * double(step);
    work.visitedPairs += work.one.visitedPairs * step;
    work.allowedPairs += work.one.allowedPairs * step;
  }
  return work;
}

/// What is compared with the kernel, loops of multiply-adds and reads, is there
/// for CPUs.
void requireCpu(const std::string &target) {
  const Target *found = findTarget(target);
  if (found && found->isDevice())
    throw Failure(fmt::format("--target {}: its kernels run on a device, and "
                              "bench measures those that run on this CPU; "
                              "tests/device/run.sh measures devices",
                              target));
}

int benchVariant(const Options &options) {
  const Text text = options.read();
  const Spec &spec = text.spec();
  ParamValues params(spec, options.params, /*allRequired=*/true);
  const int64_t kvLen = options.kvLen < 0 ? options.qLen : options.kvLen;
  params.makeRandom(options.batch, options.qLen, kvLen);
  std::vector<Diagnostic> diagnostics;
  const std::string target = resolveTarget(options.target, diagnostics);
  text.require(diagnostics);
  requireCpu(target);
  const auto start = std::chrono::steady_clock::now();
  const attn_kernel *kernel = jit(spec, {target, options.plan}, diagnostics);
  const double compileSeconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  text.require(diagnostics);
  Call call(spec, options, kvLen);
  params.fill(*kernel, call.call);
  const int64_t items = attn_count_items(kernel, &call.call);
  if (items < 0)
    throw Failure("a call of this size has too many work items");
  const Work work = workOf(spec, {target, options.plan}, call.call, params);
  text.require(work.one.diagnostics);
  const Calibration *loops = calibration(target, diagnostics);
  text.require(diagnostics);

  Team team(options.threads);
  // The streaming reads go through as much memory as K and V have, so that
  // caches help both alike; but never through the caches alone.
  const size_t streamBytes =
      std::clamp<size_t>(call.kvBytes, 64u << 20, 1u << 30);
  const Measurement m = measure(*kernel, call.call, items, *loops, streamBytes,
                                options.seconds, team);

  const double computeSeconds = work.flops / m.peakFlops;
  const double memorySeconds = work.bytes / m.peakBytes;
  const bool isComputeBound = computeSeconds >= memorySeconds;
  const double fraction = std::max(computeSeconds, memorySeconds) / m.seconds;

  if (options.json) {
    nlohmann::ordered_json json;
    json["variant"] = spec.name;
    json["target"] = target;
    json["plan"] = work.one.plan;
    json["batch"] = options.batch;
    json["q_len"] = options.qLen;
    json["kv_len"] = kvLen;
    json["threads"] = options.threads;
    json["seconds"] = m.seconds;
    json["seconds_median"] = m.secondsMedian;
    json["flops"] = work.flops;
    json["bytes"] = work.bytes;
    json["gflops"] = work.flops / m.seconds / 1e9;
    json["gbytes_per_second"] = work.bytes / m.seconds / 1e9;
    json["peak_gflops"] = m.peakFlops / 1e9;
    json["peak_gbytes_per_second"] = m.peakBytes / 1e9;
    json["fraction_of_peak"] = fraction;
    json["bound"] = isComputeBound ? "compute" : "memory";
    json["compile_seconds"] = compileSeconds;
    json["visited_pairs"] = work.visitedPairs / options.batch;
    json["allowed_pairs"] = work.allowedPairs / options.batch;
    json["slices"] = m.slices;
    json["rounds"] = m.rounds;
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  fmt::print("{} for {}, batch {}, {} queries x {} keys, {} {}\n", spec.name,
             target, options.batch, options.qLen, kvLen, options.threads,
             options.threads == 1 ? "thread" : "threads");
  fmt::print("  time     {:.6g} ms (median {:.6g}), {} slices, {} rounds\n",
             m.seconds * 1e3, m.secondsMedian * 1e3, m.slices, m.rounds);
  fmt::print("  speed    {:.4g} GFLOP/s, {:.4g} GB/s\n",
             work.flops / m.seconds / 1e9, work.bytes / m.seconds / 1e9);
  fmt::print("  machine  {:.4g} GFLOP/s, {:.4g} GB/s\n", m.peakFlops / 1e9,
             m.peakBytes / 1e9);
  fmt::print("  reached  {:.1f} % of what bounds it ({})\n", fraction * 100,
             isComputeBound ? "compute" : "memory");
  fmt::print("  compile  {:.0f} ms\n", compileSeconds * 1e3);
  return 0;
}

} // namespace

Action addBench(CLI::App &command) {
  auto options = std::make_shared<Options>();
  const CLI::Range length(int64_t(1), int64_t(INT32_MAX));
  options->add(command);
  command.add_option("--batch", options->batch)->check(length);
  command.add_option("--q-len", options->qLen)->check(length);
  command.add_option("--kv-len", options->kvLen, "default: as --q-len")
      ->check(length);
  command.add_option("--threads", options->threads)
      ->check(CLI::Range(size_t(1), size_t(1024)));
  command.add_option("--target", options->target);
  command.add_option("--plan", options->plan,
                     "KEY=VALUE,...: overrides the planner");
  command
      .add_option("--seconds", options->seconds, "how long to measure, about")
      ->check(CLI::Range(0.0, 86400.0));
  options->params.canBeRandom = true;
  options->params.add(command);
  command.add_flag("--lse", options->lse, "also compute the log-sum-exp");
  command.add_flag("--json", options->json, "one object on standard output");
  return [options] { return benchVariant(*options); };
}

} // namespace attn

//===- tools/attnc/Run.cpp - attnc run ------------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Compiler.h"
#include "compiler/tools/Files.h"
#include "compiler/tools/Npy.h"
#include "compiler/tools/attnc/Command.h"
#include "compiler/tools/attnc/DeviceRun.h"
#include "compiler/tools/attnc/Input.h"
#include "compiler/tools/attnc/Params.h"
#include "compiler/tools/attnc/Tensor.h"
#include "runtime/attn.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <memory>
#include <optional>

namespace attn {
namespace {

struct Options : TextOptions {
  std::string q, k, v, qLens, kvLens, out, lse;
  std::string target = "host";
  std::string layout = "bhtd";
  std::string type;
  ParamOptions params;
  size_t threads = 0;
};

/// The runtime's errors are complete sentences already.
void requireBundle(int status, const attn_error &error,
                   const std::string &file) {
  const std::string text = error.text;
  if (status == ATTN_BAD_BUNDLE && text.find(file) == std::string::npos)
    throw Failure(file + ": " + text);
  require(status, error);
}

const char *npyType(int32_t type) {
  return type == ATTN_F32 ? "f4" : type == ATTN_F16 ? "f2" : "u2";
}

const char *typeName(int32_t type) {
  return type == ATTN_F32 ? "f32" : type == ATTN_F16 ? "f16" : "bf16";
}

/// --type says what arrays hold; what they must hold the variant says.
void requireType(const std::string &given, const attn_kernel &kernel) {
  const std::string q = typeName(kernel.q_type), kv = typeName(kernel.kv_type),
                    out = typeName(kernel.out_type);
  if (!given.empty() && given != q && given != kv && given != out)
    throw Failure(
        fmt::format("--type {}: q of '{}' is {}, k and v are {}, its output is "
                    "{}",
                    given, kernel.variant, q, kv, out));
}

void readTensor(Tensor &tensor, const std::string &name,
                const std::string &path, int32_t wanted) {
  tensor.array = readNpy(path);
  if (tensor.array.type != npyType(wanted))
    throw Failure(
        fmt::format("{} ({}): its elements are '{}'; this variant takes '{}'{}",
                    name, path, tensor.array.type, npyType(wanted),
                    wanted == ATTN_BF16 ? " (bf16 stored as u2)" : ""));
  if (tensor.array.shape.size() != 4)
    throw Failure(fmt::format(
        "{} ({}): it has {} dimensions [{}]; 4 are needed, the batch included",
        name, path, tensor.array.shape.size(),
        fmt::join(tensor.array.shape, ", ")));
  tensor.bind(dlpackType(tensor.array, wanted));
}

void readLengths(Tensor &tensor, const std::string &name,
                 const std::string &path) {
  tensor.array = readNpy(path);
  if (tensor.array.type != "i4" && tensor.array.type != "i8")
    throw Failure(fmt::format("{} ({}): its elements are '{}'; 'i4' or 'i8' is "
                              "needed",
                              name, path, tensor.array.type));
  tensor.bind(dlpackType(tensor.array, -1));
}

void makeOutput(Tensor &tensor, const char *type, std::vector<int64_t> shape,
                DLDataType dlpack) {
  tensor.array.type = type;
  tensor.array.shape = std::move(shape);
  tensor.array.bytes.resize(size_t(tensor.array.elements()) *
                            tensor.array.elementBytes());
  tensor.bind(dlpack);
}

float valueAt(const Array &array, size_t index) {
  if (array.type == "f4") {
    float value;
    std::memcpy(&value, array.bytes.data() + 4 * index, sizeof value);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, array.bytes.data() + 2 * index, sizeof half);
  uint32_t bits;
  if (array.type == "u2") {
    bits = uint32_t(half) << 16;
  } else {
    const uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
    if (exponent == 0)
      return std::copysign(std::ldexp(float(mantissa), -24),
                           half >> 15 ? -1.0f : 1.0f);
    bits = uint32_t(half >> 15) << 31 |
           (exponent == 31 ? 255u : exponent + 112) << 23 | mantissa << 13;
  }
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

void printSummary(const Array &array) {
  const size_t n = size_t(array.elements());
  double sum = 0;
  float low = std::numeric_limits<float>::infinity(), high = -low;
  size_t finite = 0;
  for (size_t i = 0; i < n; ++i) {
    const float value = valueAt(array, i);
    if (!std::isfinite(value))
      continue;
    ++finite;
    sum += double(value);
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (finite)
    fmt::print("mean {:.6g}, from {:.6g} to {:.6g}, {} not finite\n",
               sum / double(finite), low, high, n - finite);
  else
    fmt::print("{} elements, none finite\n", n);
}

struct Bundle {
  attn_bundle *handle = nullptr;
  ~Bundle() { attn_bundle_close(handle); }
};
struct Pool {
  attn_pool *handle = nullptr;
  ~Pool() { attn_pool_destroy(handle); }
};

/// The kernel to run, how it came to be, and what it is given.
struct Source {
  Bundle bundle;
  const attn_kernel *kernel = nullptr;
  std::unique_ptr<ParamValues> params;
  std::string path;
};

/// The kernel of a device, if that is what the target's name asks for.
const attn_kernel *findDeviceKernel(const attn_bundle *bundle,
                                    const Options &options) {
  for (size_t i = 0; const attn_kernel *kernel = attn_bundle_kernel(bundle, i);
       ++i)
    if (kernel->device && kernel->target == options.target &&
        (options.variant.empty() || kernel->variant == options.variant))
      return kernel;
  return nullptr;
}

void openBundle(Source &source, const Options &options) {
  if (!options.defines.empty())
    throw Failure("-D: a bundle is compiled already; -D goes with a text");
  attn_error error = {};
  requireBundle(
      attn_bundle_open(options.file.c_str(), &source.bundle.handle, &error),
      error, options.file);
  const char *variant =
      options.variant.empty() ? nullptr : options.variant.c_str();
  const char *target =
      options.target == "host" ? nullptr : options.target.c_str();
  int status = attn_kernel_pick(source.bundle.handle, variant, target,
                                &source.kernel, &error);
  // (What is wrong with the name of the variant is said in any case.)
  if (status == ATTN_UNSUPPORTED_CPU)
    source.kernel = findDeviceKernel(source.bundle.handle, options);
  if (!source.kernel)
    requireBundle(status, error, options.file);
  source.path = "bundle";
  ParseResult parsed = parse(source.kernel->text);
  if (parsed.specs.size() != 1)
    throw Failure(fmt::format("{}: the text of variant '{}' is damaged",
                              options.file, source.kernel->variant));
  source.params = std::make_unique<ParamValues>(
      parsed.specs.front(), options.params, /*allRequired=*/true);
}

void compileText(Source &source, const Options &options, std::string bytes) {
  const Text text(options.file, std::move(bytes), options.defines,
                  options.variant);
  const Spec &spec = text.spec();
  source.params = std::make_unique<ParamValues>(spec, options.params,
                                                /*allRequired=*/true);
  std::vector<Diagnostic> diagnostics;
  const auto start = std::chrono::steady_clock::now();
  source.kernel = jit(spec, {options.target, ""}, diagnostics);
  text.require(diagnostics);
  const std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - start;
  source.path = fmt::format("jit in {:.0f} ms", took.count());
}

Done runHere(const attn_kernel &kernel, const attn_tensors &tensors, int layout,
             const Options &options) {
  attn_error error = {};
  Pool pool;
  require(attn_pool_create(options.threads, &pool.handle, &error), error);
  attn_run_options runOptions = {};
  runOptions.struct_size = sizeof runOptions;
  runOptions.layout = layout;
  runOptions.pool = pool.handle;
  const auto start = std::chrono::steady_clock::now();
  require(attn_run(&kernel, &tensors, &runOptions, &error), error);
  const std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - start;
  const size_t threads = attn_pool_threads(pool.handle);
  return {fmt::format("{} {}", threads, threads == 1 ? "thread" : "threads"),
          took.count()};
}

int runVariant(const Options &options) {
  if (options.layout != "bhtd" && options.layout != "bthd")
    throw Failure(fmt::format("--layout {}: 'bhtd' or 'bthd' is expected",
                              options.layout));
  const bool headsFirst = options.layout == "bhtd";
  Source source;
  std::string bytes = readFile(options.file);
  if (bytes.compare(0, 4, "\177ELF") == 0)
    openBundle(source, options);
  else
    compileText(source, options, std::move(bytes));
  const attn_kernel &kernel = *source.kernel;
  requireType(options.type, kernel);

  Tensor q, k, v, o, lse, qLens, kvLens;
  readTensor(q, "q", options.q, kernel.q_type);
  readTensor(k, "k", options.k, kernel.kv_type);
  readTensor(v, "v", options.v, kernel.kv_type);
  attn_tensors tensors = {};
  tensors.struct_size = sizeof tensors;
  tensors.q = &q.view;
  tensors.k = &k.view;
  tensors.v = &v.view;
  if (!options.qLens.empty()) {
    readLengths(qLens, "q_lens", options.qLens);
    tensors.q_lens = &qLens.view;
  }
  if (!options.kvLens.empty()) {
    readLengths(kvLens, "kv_lens", options.kvLens);
    tensors.kv_lens = &kvLens.view;
  }
  tensors.params = source.params->arguments().data();
  tensors.n_params = source.params->arguments().size();
  const std::vector<int64_t> &shape = q.array.shape;
  const char *outType = npyType(kernel.out_type);
  makeOutput(o, outType, {shape[0], shape[1], shape[2], kernel.value_dim},
             kernel.out_type == ATTN_BF16
                 ? DLDataType{kDLBfloat, 16, 1}
                 : DLDataType{kDLFloat,
                              uint8_t(kernel.out_type == ATTN_F32 ? 32 : 16),
                              1});
  tensors.o = &o.view;
  if (!options.lse.empty()) {
    makeOutput(lse, "f4", {shape[0], shape[1], shape[2]}, {kDLFloat, 32, 1});
    tensors.lse = &lse.view;
  }

  const int layout = headsFirst ? ATTN_BHTD : ATTN_BTHD;
  const Done done = kernel.device ? runOnDevice(kernel, tensors, layout)
                                  : runHere(kernel, tensors, layout, options);

  if (!options.out.empty())
    writeFile(options.out, npyBytes(o.array));
  if (!options.lse.empty())
    writeFile(options.lse, npyBytes(lse.array));
  fmt::print("{}: q [{}] k [{}] v [{}] {}, {} ({}), {}, {:.3f} ms\n",
             kernel.variant, fmt::join(q.array.shape, ", "),
             fmt::join(k.array.shape, ", "), fmt::join(v.array.shape, ", "),
             options.layout, kernel.target, source.path, done.through,
             done.milliseconds);
  if (options.out.empty())
    printSummary(o.array);
  return 0;
}

} // namespace

Action addRun(CLI::App &command) {
  auto options = std::make_shared<Options>();
  options->add(command);
  command.add_option("--q", options->q, "queries, a .npy file")->required();
  command.add_option("--k", options->k, "keys")->required();
  command.add_option("--v", options->v, "values")->required();
  options->params.add(command);
  command.add_option("--q-lens", options->qLens,
                     "queries of each sequence, [batch] of i4 or i8");
  command.add_option("--kv-lens", options->kvLens, "keys of each sequence");
  command.add_option("--out", options->out, "where to write the output");
  command.add_option("--lse", options->lse,
                     "where to write the logarithm of the sum");
  command.add_option("--target", options->target);
  command.add_option("--threads", options->threads, "0: one for each CPU")
      ->check(CLI::Range(size_t(0), size_t(ATTN_MAX_THREADS)));
  command
      .add_option("--type", options->type,
                  "what arrays hold; NumPy has no bf16, which is stored as u2")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
  command.add_option("--layout", options->layout,
                     "bhtd ([batch, heads, tokens, width]) or bthd");
  return [options] { return runVariant(*options); };
}

} // namespace attn

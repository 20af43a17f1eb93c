//===- tools/attnc/Params.cpp - Values of a variant's parameters ----------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/tools/attnc/Params.h"
#include "compiler/Compiler.h"
#include "compiler/tools/Files.h"
#include "compiler/tools/attnc/ParamArrays.h"
#include <algorithm>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <new>
#include <string_view>

namespace attn {
namespace {

constexpr std::string_view kRandom = "random";

struct DimName {
  Dim::Kind kind;
  const char *name;
};
constexpr DimName kDims[] = {
    {Dim::Batch, "batch"},      {Dim::Heads, "heads"},
    {Dim::KvHeads, "kv_heads"}, {Dim::Queries, "queries"},
    {Dim::Keys, "keys"},        {Dim::Tokens, "tokens"},
    {Dim::Constant, nullptr},
};

const DimName &describe(const Dim &dim) {
  return *std::find_if(std::begin(kDims), std::end(kDims),
                       [&](const DimName &d) { return d.kind == dim.kind; });
}

/// Of an element in an attn_param.
int64_t elementBytesOf(Type type) {
  switch (type) {
  case Type::Bool:
  case Type::Tokens:
    return 1;
  case Type::F16:
  case Type::BF16:
    return 2;
  default:
    return 4;
  }
}

/// As it is declared: "f32[heads, 4]".
std::string declaration(const Param &param) {
  std::string text = name(param.type);
  for (const Dim &dim : param.dims) {
    text += &dim == param.dims.data() ? "[" : ", ";
    text +=
        describe(dim).name ? describe(dim).name : std::to_string(dim.constant);
  }
  return param.dims.empty() ? text : text + "]";
}

std::string join(const std::vector<std::string> &words, const char *last) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 < words.size() ? ", " : last) + words[i];
  return text;
}

/// What a parameter takes, in words.
std::string allowedFor(const Param &param, bool canBeRandom) {
  const bool isTokens = param.type == Type::Tokens;
  const bool isScalar = !isTokens && param.dims.empty();
  const std::string one = param.type == Type::Bool  ? "true or false"
                          : param.type == Type::I32 ? "an integer"
                          : isTokens                ? "a position"
                                                    : "a number";
  std::vector<std::string> ways = {
      isScalar || isTokens ? one : one + " for all elements"};
  const char *list = param.type == Type::Bool ? "[true, false]" : "[0, 5]";
  if (isTokens) {
    ways.push_back(fmt::format("a list such as {} for every sequence", list));
    ways.emplace_back("a list of lists, one a sequence");
  } else if (!isScalar) {
    ways.push_back(fmt::format(param.dims.size() == 1
                                   ? "a list such as {}"
                                   : "nested lists such as [{}]",
                               list));
  }
  ways.emplace_back("a .npy file");
  if (canBeRandom && !isScalar)
    ways.emplace_back("random:SEED");
  return fmt::format("{} takes {}", declaration(param), join(ways, " or "));
}

/// The .npy types of a parameter's elements, in quotes.
std::vector<std::string> npyTypesFor(Type type) {
  if (type == Type::Bool)
    return {"'b1'", "'u1'", "'i1'"};
  if (type == Type::Tokens)
    return {"'i4'", "'i8'"};
  return {fmt::format("'{}'", npyTypeOf(type))};
}

void require(int status, const attn_error &error) {
  if (status != ATTN_OK)
    throw Failure(error.text);
}

/// With those that a list of tokens has in an attn_call.
std::vector<Dim> dimsOf(const Param &param) {
  if (param.type == Type::Tokens)
    return {{Dim::Batch, 0}, {Dim::Tokens, 0}};
  return param.dims;
}

/// What stands for the kernel of a variant where there is none: as much as
/// checking and filling parameters needs. Not copied: `kernel` points inside.
struct Interface {
  attn_kernel kernel = {};
  std::vector<attn_param_info> infos;

  Interface(const Spec &spec, const std::vector<const Param *> &params) {
    kernel.abi_version = ATTN_ABI_VERSION;
    kernel.struct_size = sizeof kernel;
    kernel.variant = spec.name.c_str();
    kernel.heads = spec.heads;
    kernel.kv_heads = spec.kvHeads;
    if (spec.align == Align::TopLeft)
      kernel.flags |= ATTN_KERNEL_TOP_LEFT;
    for (const Param *param : params) {
      if (param->type == Type::Tokens)
        kernel.flags |= ATTN_KERNEL_GLOBALS;
      infos.push_back(paramInfo(*param));
    }
    kernel.n_params = int32_t(infos.size());
    kernel.params = infos.data();
  }
  Interface(const Interface &) = delete;
  Interface &operator=(const Interface &) = delete;
};

} // namespace

void ParamOptions::add(CLI::App &command) {
  command
      .add_option("--param", params,
                  canBeRandom ? "NAME=FILE.npy, NAME=VALUE or NAME=random:SEED"
                              : "NAME=FILE.npy or NAME=VALUE")
      ->allow_extra_args(false);
}

void ParamValues::fail(const Value &value, const std::string &what) const {
  throw Failure(fmt::format("--param {}: {}", shortened(value.text, 80), what));
}

ParamValues::ParamValues(const Spec &variant, const ParamOptions &options,
                         bool allRequired)
    : spec(variant), canBeRandom(options.canBeRandom) {
  std::vector<std::string> known;
  for (const Param &param : spec.params)
    known.push_back(param.name);
  for (const std::string &text : options.params) {
    auto value = std::make_unique<Value>();
    value->text = text;
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      fail(*value, "NAME=FILE.npy or NAME=VALUE is expected");
    const std::string name = text.substr(0, equals);
    value->param = spec.findParam(name);
    if (!value->param)
      fail(*value,
           fmt::format("variant '{}' has no parameter '{}'; {}", spec.name,
                       shortened(name),
                       spec.findLet(name) ? "that is a let, which -D sets"
                       : known.empty()    ? "it has none"
                                          : "it has: " + join(known, ", ")));
    for (const auto &earlier : values)
      if (earlier->param == value->param)
        fail(*value, fmt::format("'{}' has a value already: --param {}", name,
                                 shortened(earlier->text)));
    read(*value, text.substr(equals + 1));
    values.push_back(std::move(value));
  }
  std::vector<std::string> missing;
  for (const Param &param : spec.params)
    if (std::none_of(values.begin(), values.end(),
                     [&](const auto &value) { return value->param == &param; }))
      missing.push_back(
          fmt::format("'{}' ({})", param.name, declaration(param)));
  if (allRequired && !missing.empty())
    throw Failure(fmt::format(
        "variant '{}': no value is given for {}; --param NAME=FILE.npy or "
        "--param NAME=VALUE gives one",
        spec.name, join(missing, " and ")));
}

void ParamValues::read(Value &value, const std::string &source) {
  const Param &param = *value.param;
  const bool isFile =
      source.size() > 4 && source.substr(source.size() - 4) == ".npy";
  const std::string_view rest = source;
  const bool isRandom =
      rest.substr(0, kRandom.size()) == kRandom &&
      (rest.size() == kRandom.size() || rest[kRandom.size()] == ':');
  if (isRandom && !isFile) {
    if (!canBeRandom)
      fail(value, "this command makes up no values; " +
                      allowedFor(param, canBeRandom));
    if (rest.size() > kRandom.size()) {
      const std::string_view seed = rest.substr(kRandom.size() + 1);
      const char *begin = seed.data(), *end = begin + seed.size();
      const auto [stop, error] = std::from_chars(begin, end, value.seed);
      if (stop != end || error != std::errc())
        fail(value, fmt::format("'{}' is not a seed; allowed: 0 to {}",
                                shortened(seed), UINT64_MAX));
    }
    value.isRandom = true;
    return;
  }
  Array &array = value.tensor.array;
  try {
    array = isFile ? readNpy(source) : parseParamValue(param, source);
  } catch (const Failure &failure) {
    fail(value,
         fmt::format("{}; {}", failure.what(), allowedFor(param, canBeRandom)));
  }
  const std::vector<std::string> types = npyTypesFor(param.type);
  const std::string type = fmt::format("'{}'", array.type);
  if (std::find(types.begin(), types.end(), type) == types.end())
    fail(value,
         fmt::format("its elements are {}; {} takes {}{}", type,
                     declaration(param), join(types, " or "),
                     param.type == Type::BF16 ? " (bf16 stored as u2)" : ""));
  add(value);
}

void ParamValues::add(Value &value) {
  value.tensor.bind(
      dlpackType(value.tensor.array, paramInfo(*value.param).type));
  all.push_back({value.param->name.c_str(), &value.tensor.view});
}

void ParamValues::makeRandom(int64_t batch, int64_t qLen, int64_t kvLen) {
  CallSizes sizes;
  sizes.batch = batch;
  sizes.heads = spec.heads;
  sizes.kvHeads = spec.kvHeads;
  sizes.qLen = qLen;
  sizes.kvLen = kvLen;
  sizes.tokens = spec.align == Align::TopLeft ? std::max(qLen, kvLen) : kvLen;
  for (const auto &value : values) {
    if (!value->isRandom)
      continue;
    // Parameters with equal seeds still differ.
    const auto index = uint64_t(value->param - spec.params.data());
    try {
      value->tensor.array = randomParamValue(
          *value->param, sizes, value->seed + index * 0xd1b54a32d192ed03u);
    } catch (const Failure &failure) {
      fail(*value, fmt::format("{}; {}", failure.what(),
                               allowedFor(*value->param, false)));
    }
    value->isRandom = false;
    add(*value);
  }
}

void ParamValues::fill(const attn_kernel &kernel, attn_call &call) {
  attn_error error = {};
  size_t bytes = 0;
  require(
      attn_params_check(&kernel, all.data(), all.size(), &call, &bytes, &error),
      error);
  memory.reset();
  if (bytes) {
    if (bytes > SIZE_MAX - 63)
      throw std::bad_alloc();
    memory.reset(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    if (!memory)
      throw std::bad_alloc();
  }
  require(attn_params_fill(&kernel, all.data(), all.size(), &call, memory.get(),
                           &error),
          error);
}

attn_call ParamValues::valuesOfSequence(int64_t qLen, int64_t kvLen) {
  attn_call call = {};
  call.batch = 1;
  call.q_len = qLen;
  call.kv_len = kvLen;
  std::vector<const Param *> given;
  for (const Param &param : spec.params)
    for (const auto &value : values)
      if (value->param == &param)
        given.push_back(&param);
  const Interface interface(spec, given);
  fill(interface.kernel, call);
  declared.assign(spec.params.size(), attn_param{});
  for (size_t i = 0; i < given.size(); ++i)
    declared[size_t(given[i] - spec.params.data())] = call.params[i];
  call.params = declared.empty() ? nullptr : declared.data();
  return call;
}

attn_call ParamValues::sequenceOf(const attn_call &call, int64_t b) {
  declared.assign(call.params, call.params + spec.params.size());
  for (size_t i = 0; i < declared.size(); ++i) {
    attn_param &param = declared[i];
    const std::vector<Dim> dims = dimsOf(spec.params[i]);
    int64_t skipped = 0;
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d].kind == Dim::Batch) {
        skipped += b * param.stride[d];
        param.extent[d] = 1;
        param.stride[d] = 0;
      }
    param.data = static_cast<const char *>(param.data) +
                 skipped * elementBytesOf(spec.params[i].type);
    param.blocks = nullptr;
  }
  attn_call one = call;
  one.batch = 1;
  one.params = declared.empty() ? nullptr : declared.data();
  if (call.globals) {
    one.globals = call.globals + b * call.globals_stride;
    one.global_counts = call.global_counts + b;
    one.max_globals = one.global_counts[0];
  }
  return one;
}

bool ParamValues::differBySequence() const {
  for (const Param &param : spec.params)
    for (const Dim &dim : dimsOf(param))
      if (dim.kind == Dim::Batch)
        return true;
  return false;
}

} // namespace attn

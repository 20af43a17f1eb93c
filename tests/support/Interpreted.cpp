//===- tests/support/Interpreted.cpp - One call through the interpreter ---===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Interpreted.h"
#include "tests/support/Executor.h"
#include <vector>

namespace attn {

const char *interpreterName() { return test::kPtxInterpreter; }

/// The memory between the first and the last byte of a tensor's elements.
static test::Region regionOf(const std::string &name, const DLTensor &tensor,
                             bool isOutput) {
  test::Region region;
  region.name = name;
  region.isOutput = isOutput;
  int64_t low = 0, high = 1, compact = 1;
  for (int i = tensor.ndim; i-- > 0;) {
    const int64_t extent = tensor.shape[i];
    if (extent == 0)
      return region;
    const int64_t stride = tensor.strides ? tensor.strides[i] : compact;
    (stride < 0 ? low : high) += (extent - 1) * stride;
    compact *= extent;
  }
  const int64_t bytes = tensor.dtype.bits / 8;
  region.data =
      static_cast<std::byte *>(tensor.data) + tensor.byte_offset + low * bytes;
  region.size = static_cast<size_t>((high - low) * bytes);
  return region;
}

std::string runInterpreted(const attn_kernel &kernel,
                           const attn_tensors &tensors, int layout) {
  attn_error error{};
  test::Job job;
  job.code.kernel = &kernel;
  std::vector<int64_t> lens;
  if (tensors.q && tensors.q->ndim == 4)
    lens.resize(2 * static_cast<size_t>(tensors.q->shape[0]));
  if (attn_call_fill(&kernel, &tensors, layout, &job.call, lens.data(),
                     &error) != ATTN_OK)
    return error.text;
  size_t bytes = 0;
  if (attn_params_check(&kernel, tensors.params, tensors.n_params, &job.call,
                        &bytes, &error) != ATTN_OK)
    return error.text;
  test::GuardedBuffer prepared(bytes, test::Placement::Start);
  if (attn_params_fill(&kernel, tensors.params, tensors.n_params, &job.call,
                       prepared.data(), &error) != ATTN_OK)
    return error.text;
  if (attn_count_items(&kernel, &job.call) < 0)
    return "the call has more work items than can be counted";
  const auto add = [&](const std::string &name, const DLTensor *tensor,
                       bool isOutput) {
    if (tensor)
      job.regions.push_back(regionOf(name, *tensor, isOutput));
  };
  add("q", tensors.q, false);
  add("k", tensors.k, false);
  add("v", tensors.v, false);
  add("o", tensors.o, true);
  add("lse", tensors.lse, true);
  for (size_t n = 0; n < tensors.n_params; ++n)
    add(tensors.params[n].name, tensors.params[n].value, false);
  const auto addBytes = [&](const char *name, void *data, size_t size) {
    job.regions.push_back({name, static_cast<std::byte *>(data), size,
                           test::Placement::Start, false});
  };
  addBytes("lengths", lens.data(), lens.size() * sizeof lens[0]);
  addBytes("the prepared parameters", prepared.data(), bytes);
  return test::makePtxExecutor()->run({job}).front();
}

} // namespace attn

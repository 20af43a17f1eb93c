//===- tests/support/ReferenceKernel.h - A slow kernel, right or wrong ----===//
//
// Part of attnc. Apache-2.0.
//
// A plain f32 kernel behind the interface of compiled ones, and ways to break
// it: it shows that the checks pass what is right and catch what is wrong.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_SUPPORT_REFERENCEKERNEL_H
#define ATTNC_TESTS_SUPPORT_REFERENCEKERNEL_H

#include "dsl/Spec.h"
#include "runtime/attn_abi.h"
#include <memory>
#include <vector>

namespace attn::test {

enum class Fault {
  None,
  ReadPastEnd,     ///< reads a whole vector of 8 columns of K
  ReadBeforeStart, ///< reads the element before the first of Q
  WritePastEnd,    ///< writes one column too many, into the gap if there is one
  WriteUnusedRows, ///< writes rows at or past a sequence's own length
  WriteInput,      ///< scales Q in place
  LeakMaskedValue, ///< multiplies masked values by a weight of zero
  LeakMaskedKey,   ///< adds minus infinity to masked scores
  LowSentinel,     ///< starts the maximum at -50000
  WindowOffByOne,  ///< applies the mask to the next key
  TopLeft,         ///< ignores the alignment
  TiledHeads,      ///< kv head is h mod kv_heads
  IgnoreKvLens,    ///< visits all slots of K and V
  EmptyRowsNan,    ///< divides zero by zero where no key is allowed
  DirtyScratch,    ///< adds what scratch memory held
  ItemOrder,       ///< result depends on how many items ran before
  BatchSize,       ///< regroups sums by the number of entries in the batch
  AlignedLoad,     ///< traps unless rows of V are aligned to 32 bytes
  UnitStride,      ///< takes the columns of V to be adjacent
  ShortOffsets,    ///< computes offsets of K in 32 bits
  NarrowLse,       ///< LSE in the wrong base
  LostScale,       ///< takes the default scale whatever the variant says
  LostSink,        ///< forgets the sink
  ScaledSink,      ///< scales the sink as it does scores
  LeakMaskedScore, ///< multiplies scores of masked keys by zero
  FirstEntry,      ///< takes parameters of the first entry of the batch
  ParamStrides,    ///< takes parameters to be row-major
  ParamPastEnd,    ///< reads parameters one element past their extents
  ParamPadding,    ///< adds 0 times parameters past a sequence's own length
  FromPositions,   ///< indexes dimensions of queries by position
  GlobalTwice,     ///< gives global keys twice their weight
  LostGlobalRows,  ///< leaves out the rows of the last global positions
  OneByteTrue,     ///< takes a bool to be true only where it is 1
};

/// What a kernel of a variant says of its parameters, if it relies on nothing
/// in their values. Names live as long as the Spec.
std::vector<attn_param_info> describeParams(const Spec &spec);

/// A kernel for variants of f32, f16 and bf16. Its scores are in f32 and its
/// parameters those of the call; with lists of tokens the rows of their
/// positions are work items of their own. One at a time: creating another makes
/// the former invalid to run.
class ReferenceKernel {
public:
  explicit ReferenceKernel(Spec spec, Fault fault = Fault::None);
  ~ReferenceKernel();
  const attn_kernel *kernel() const;

  struct State;

private:
  std::unique_ptr<State> state;
};

} // namespace attn::test

#endif

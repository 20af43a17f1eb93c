//===- tools/attnc/ParamArrays.h - Arrays for parameters ------------------===//
//
// Part of attnc. Apache-2.0.
//
// What --param says, as arrays: a value written out, or made up.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TOOLS_ATTNC_PARAMARRAYS_H
#define ATTNC_COMPILER_TOOLS_ATTNC_PARAMARRAYS_H

#include "compiler/tools/Npy.h"
#include "dsl/Spec.h"
#include <string>
#include <string_view>

namespace attn {

/// The extents of a call's dimensions.
struct CallSizes {
  int64_t batch = 1, qLen = 0, kvLen = 0;
  int64_t heads = 1, kvHeads = 1;
  int64_t tokens = 0; ///< all positions of a sequence
};

/// The .npy type of a parameter's elements, as this program makes them.
const char *npyTypeOf(Type type);

/// The beginning of a text that may be long, for messages.
std::string shortened(std::string_view text, size_t most = 32);

/// Appends one element to `array`: a number, or true or false. Gives back what
/// is wrong with `word`, or nothing.
std::string appendElement(Array &array, Type type, std::string_view word);

/// The array that a written value stands for: a number for every element, or
/// lists in brackets as deep as `param` has dimensions. A list of tokens is
/// [batch, n], or [n] for every sequence; shorter ones are filled up with -1.
/// Throws Failure with what is wrong, not naming the parameter.
Array parseParamValue(const Param &param, std::string_view text);

/// Made-up values in the full declared shape, the same for equal seeds: about
/// normal floats; documents that follow each other, about eight a sequence,
/// numbered from 0, for i32 along positions; bools of which three in four are
/// true; one token in 64. Throws Failure, not naming the parameter, where no
/// values suggest themselves or memory could not hold them.
Array randomParamValue(const Param &param, const CallSizes &sizes,
                       uint64_t seed);

} // namespace attn

#endif

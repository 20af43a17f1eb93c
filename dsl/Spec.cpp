//===- dsl/Spec.cpp - Look-ups and equality -------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "dsl/Spec.h"

#include <algorithm>
#include <cmath>

using namespace attn;

bool attn::equal(const ExprRef &a, const ExprRef &b) {
  if (a == b)
    return true;
  if (!a || !b)
    return false;
  bool sameFloat = a->floatValue == b->floatValue ||
                   (std::isnan(a->floatValue) && std::isnan(b->floatValue));
  return a->kind == b->kind && a->op == b->op && a->type == b->type &&
         a->isList == b->isList && a->intValue == b->intValue && sameFloat &&
         a->name == b->name &&
         std::equal(a->args.begin(), a->args.end(), b->args.begin(),
                    b->args.end(), equal);
}

namespace attn {

static bool operator==(const Dim &a, const Dim &b) {
  return a.kind == b.kind && a.constant == b.constant;
}

static bool operator==(const Param &a, const Param &b) {
  return a.name == b.name && a.type == b.type &&
         std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(),
                    [](const Dim &x, const Dim &y) { return x == y; });
}

static bool operator==(const Let &a, const Let &b) {
  return a.name == b.name && equal(a.value, b.value);
}

static bool operator==(const Rope &a, const Rope &b) {
  return a.theta == b.theta && a.dim == b.dim && a.layout == b.layout &&
         a.scaling == b.scaling && a.scalingArgs == b.scalingArgs;
}

} // namespace attn

bool attn::operator==(const Spec &a, const Spec &b) {
  auto same = [](const auto &x, const auto &y) { return x == y; };
  bool sameRope = a.rope.has_value() == b.rope.has_value() &&
                  (!a.rope || *a.rope == *b.rope);
  return a.name == b.name &&
         std::equal(a.params.begin(), a.params.end(), b.params.begin(),
                    b.params.end(), same) &&
         std::equal(a.lets.begin(), a.lets.end(), b.lets.begin(), b.lets.end(),
                    same) &&
         a.heads == b.heads && a.kvHeads == b.kvHeads && a.kvMap == b.kvMap &&
         a.qkDim == b.qkDim && a.valueDim == b.valueDim &&
         a.latent == b.latent && a.nopeDim == b.nopeDim &&
         a.ropeDim == b.ropeDim && a.qType == b.qType && a.kvType == b.kvType &&
         a.outType == b.outType && equal(a.scale, b.scale) &&
         equal(a.score, b.score) && equal(a.mask, b.mask) &&
         equal(a.sink, b.sink) && a.align == b.align && sameRope;
}

template <typename Named>
static const Named *findNamed(const std::vector<Named> &all,
                              std::string_view name) {
  auto found = std::find_if(all.begin(), all.end(),
                            [&](const Named &one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

const Let *Spec::findLet(std::string_view letName) const {
  return findNamed(lets, letName);
}

const Param *Spec::findParam(std::string_view paramName) const {
  return findNamed(params, paramName);
}

SourceRange Spec::placeOf(const std::string &field) const {
  auto found = places.find(field);
  return found == places.end() ? where : found->second;
}

int64_t Spec::kvHeadOf(int64_t h) const {
  return kvMap.empty() ? h * kvHeads / heads : kvMap[size_t(h)];
}

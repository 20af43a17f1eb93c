//===- tests/dsl/Random.cpp - Random variants -----------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Random.h"

using namespace attn;
using namespace attn::dsl;
using namespace attn::random;

static bool chance(int oneIn) { return below(oneIn) == 0; }

/// A small integer that a built-in takes: at least `least`.
static Ex size(int least) { return least + below(5); }

Ex random::randomInt(const Scope &scope, int depth) {
  if (depth > 0 && !chance(4)) {
    auto part = [&] { return randomInt(scope, depth - 1); };
    switch (below(9)) {
    case 0:
      return part() + part();
    case 1:
      return part() - part();
    case 2:
      return part() * part();
    case 3:
      return part() / (1 + below(7));
    case 4:
      return part() % (1 + below(7));
    case 5:
      return -part();
    case 6:
      return abs(part());
    case 7:
      return chance(2) ? min(part(), part()) : max(part(), part());
    default:
      return select(randomBool(scope, depth - 1), part(), part());
    }
  }
  std::vector<Ex> leaves = {Ex(below(10)), Ex(below(100000))};
  if (scope.variables)
    leaves.insert(leaves.end(), {Ex(b), Ex(q), Ex(k), Ex(qLen), Ex(kvLen)});
  if (scope.variables || scope.heads)
    leaves.insert(leaves.end(), {Ex(h), Ex(g)});
  if (scope.lets)
    leaves.insert(leaves.end(), {ref("i"), ref("ints")[below(3)]});
  if (scope.intParam || scope.params)
    leaves.push_back(ref("pi"));
  if (scope.params && scope.variables)
    leaves.insert(leaves.end(), {ref("prefix")[b], ref("doc").at({b, q})});
  return leaves[size_t(below(int(leaves.size())))];
}

Ex random::randomFloat(const Scope &scope, int depth) {
  if (depth > 0 && !chance(4)) {
    auto part = [&] { return randomFloat(scope, depth - 1); };
    auto mixed = [&] {
      return chance(3) ? randomInt(scope, depth - 1) : part();
    };
    static const char *const kFunctions[] = {
        "floor", "exp", "exp2", "log", "log2", "sqrt", "tanh", "sigmoid"};
    switch (below(8)) {
    case 0:
      return part() + mixed();
    case 1:
      return mixed() - part();
    case 2:
      return mixed() * part();
    case 3:
      return part() / mixed();
    case 4:
      return -part();
    case 5:
      return call(kFunctions[below(8)], {mixed()});
    case 6:
      return softcap(mixed(), 1 + number());
    default:
      return select(randomBool(scope, depth - 1), mixed(), part());
    }
  }
  std::vector<Ex> leaves = {Ex(number()), Ex(-number())};
  if (scope.score)
    leaves.push_back(s);
  if (scope.variables || scope.heads)
    leaves.push_back(alibiSlope(h));
  if (scope.lets)
    leaves.insert(leaves.end(), {ref("f"), ref("floats")[below(2)]});
  if (scope.params)
    leaves.insert(leaves.end(), {ref("pf"), ref("slope")[h]});
  return leaves[size_t(below(int(leaves.size())))];
}

static Ex randomComparison(const Scope &scope, int depth) {
  auto side = [&] {
    return chance(2) ? randomInt(scope, depth - 1)
                     : randomFloat(scope, depth - 1);
  };
  switch (below(6)) {
  case 0:
    return side() == side();
  case 1:
    return side() != side();
  case 2:
    return side() < side();
  case 3:
    return side() <= side();
  case 4:
    return side() > side();
  default:
    return side() >= side();
  }
}

Ex random::randomBool(const Scope &scope, int depth) {
  if (depth > 0 && !chance(4)) {
    auto part = [&] { return randomBool(scope, depth - 1); };
    switch (below(6)) {
    case 0:
      return part() && part();
    case 1:
      return part() || part();
    case 2:
      return !part();
    case 3:
      return part() == part();
    case 4:
      return select(part(), part(), part());
    default:
      return randomComparison(scope, depth);
    }
  }
  std::vector<Ex> leaves = {Ex(true), Ex(false)};
  if (scope.variables)
    leaves.insert(leaves.end(),
                  {causal(), window(size(0)), window(size(0), size(0)),
                   window(size(0), size(0), size(1)), sliding(size(1)),
                   neighborhood(size(1)), neighborhood(size(1), size(1)),
                   prefix(size(0))});
  if (scope.lets)
    leaves.push_back(ref("t"));
  if (scope.params)
    leaves.push_back(ref("pb"));
  if (scope.params && scope.variables)
    leaves.push_back(global(ref("globals")));
  return leaves[size_t(below(int(leaves.size())))];
}

static Rope randomRope(int width) {
  Rope rope;
  rope.theta = number() + 1;
  if (chance(2) && width >= 2)
    rope.dim = 2 * (1 + below(width / 2));
  if (rope.dim == 0 && width % 2 != 0)
    rope.dim = 2;
  rope.layout = chance(2) ? Rope::Half : Rope::Interleaved;
  rope.scaling = Rope::Scaling(below(4));
  const double factor = 1 + below(64) / 8.0;
  if (rope.scaling == Rope::Linear)
    rope.scalingArgs = {factor};
  if (rope.scaling == Rope::Llama3)
    rope.scalingArgs = {factor, 1 + below(3) * 0.5, 4};
  if (rope.scaling == Rope::Yarn)
    rope.scalingArgs = {factor, 1024.0 + below(8192)};
  return rope;
}

static Type storage() {
  static const Type kTypes[] = {Type::F32, Type::F16, Type::BF16};
  return kTypes[below(3)];
}

Variant random::randomVariant() {
  Variant v("v" + std::to_string(below(100)));
  v.param("pi", Type::I32)
      .param("pf", storage())
      .param("pb", Type::Bool)
      .param("globals", Type::Tokens)
      .param("prefix", Type::I32, {batch()})
      .param("doc", Type::I32, {batch(), tokens()})
      .param("slope", storage(), {heads()})
      .param("odd", Type::F32, {kvHeads(), queries(), keys(), 1 + below(9)});
  const Scope constants;
  v.let("i", randomInt(constants, 2)).let("t", randomBool(constants, 1));
  v.let("f", randomFloat(constants, 2))
      .let("ints", list({randomInt(constants, 1), below(9), -below(9)}))
      .let("floats", list({randomFloat(constants, 1), number()}));

  const int heads = 1 + below(8);
  const int kvHeads = 1 + below(8);
  v.heads(heads);
  if (chance(2))
    v.kvHeads(kvHeads);
  if (chance(3)) {
    std::vector<Ex> map;
    for (int head = 0; head < heads; ++head)
      map.push_back(below(kvHeads));
    v.kvHeads(kvHeads).kvMap(list(map));
  }
  int rotary = 1 + below(300);
  switch (below(3)) {
  case 0:
    v.headDim(rotary);
    break;
  case 1:
    v.headDim(rotary, 1 + below(300));
    break;
  default:
    rotary *= 2;
    v.headDim(1 + below(300), rotary, 1 + below(300)).latent(1 + below(600));
    break;
  }
  if (chance(2) && rotary >= 2)
    v.rope(randomRope(rotary));
  if (chance(2))
    v.type(storage());
  else if (chance(2))
    v.type(storage(), chance(2) ? Type::I8 : Type::F8E4M3, storage());
  if (chance(2))
    v.align(chance(2) ? Align::TopLeft : Align::BottomRight);

  Scope scope;
  scope.lets = scope.intParam = true;
  if (chance(3)) // of a parameter: nothing makes it infinite when compiling
    v.scale(1 / (1 + abs(randomFloat(scope, 2) * ref("pi"))));
  scope.params = scope.heads = true;
  if (chance(2))
    v.sink(randomFloat(scope, 3));
  scope.variables = true;
  if (!chance(8))
    v.mask(randomBool(scope, 5));
  scope.score = true;
  if (chance(2))
    v.score(chance(5) ? randomInt(scope, 3) : randomFloat(scope, 5));
  return v;
}

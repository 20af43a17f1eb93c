//===- compiler/MaskRows.cpp - A mask on rows of pairs, in numbers --------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/MaskRows.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

using namespace mlir;

namespace attn {

static bool isNumber(Type type) {
  return type.isInteger(32) || type.isInteger(1) || type.isF32();
}

bool isComputable(Operation &op, const CallValues &values) {
  if (op.getNumResults() != 1 || !isNumber(op.getResult(0).getType()) ||
      !llvm::all_of(op.getOperandTypes(), isNumber))
    return false;
  return TypeSwitch<Operation *, bool>(&op)
      .Case([&](ParamOp param) { return values.isKnown(param.getNumber()); })
      .Case([](arith::CmpIOp cmp) {
        return cmp.getLhs().getType().isInteger(32) ||
               cmp.getPredicate() == arith::CmpIPredicate::eq ||
               cmp.getPredicate() == arith::CmpIPredicate::ne;
      })
      // A list that is not known is empty.
      .Case<MemberOp, CongruentOp, arith::ConstantOp, arith::AddIOp,
            arith::SubIOp, arith::MulIOp, arith::DivSIOp, arith::RemSIOp,
            arith::MinSIOp, arith::MaxSIOp, arith::AndIOp, arith::OrIOp,
            arith::XOrIOp, arith::SelectOp, arith::AddFOp, arith::SubFOp,
            arith::MulFOp, arith::DivFOp, arith::NegFOp, arith::CmpFOp,
            arith::SIToFPOp, math::ExpOp, math::Exp2Op, math::LogOp,
            math::Log2Op, math::SqrtOp, math::TanhOp, math::FloorOp>(
          [](auto) { return true; })
      .Default([](Operation *) { return false; });
}

//===----------------------------------------------------------------------===//
// Bounds of what is not known
//===----------------------------------------------------------------------===//

namespace {

/// A condition between two that are computable.
struct Enclosed {
  Value most, least;
};

class Enclosing {
public:
  Enclosing(Block &from, Region &into, const CallValues &values)
      : from(from), b(from.getArgument(0).getContext()), values(values),
        to(b.createBlock(&into)) {
    for (BlockArgument arg : from.getArguments())
      map.map(arg, to->addArgument(arg.getType(), arg.getLoc()));
  }

  void run(MaskBound bound) {
    for (Operation &op : from.without_terminator()) {
      if (isComputable(op, values) &&
          llvm::all_of(op.getOperands(),
                       [&](Value v) { return map.contains(v); })) {
        b.clone(op, map);
        continue;
      }
      for (Value result : op.getResults())
        if (result.getType().isInteger(1))
          enclosed[result] = condition(op);
    }
    Operation *end = from.getTerminator();
    const Enclosed value = of(end->getOperand(0));
    YieldOp::create(
        b, end->getLoc(),
        ValueRange{bound == MaskBound::Most ? value.most : value.least});
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*to)))
      if (!isa<YieldOp>(op) && op.use_empty())
        op.erase();
  }

private:
  Value truth(bool value) {
    return arith::ConstantOp::create(b, b.getUnknownLoc(),
                                     b.getBoolAttr(value));
  }
  template <typename OpTy> Value fold(Value x, Value y) {
    return b.createOrFold<OpTy>(b.getUnknownLoc(), x, y);
  }
  Value both(Value x, Value y) { return fold<arith::AndIOp>(x, y); }
  Value either(Value x, Value y) { return fold<arith::OrIOp>(x, y); }
  Value negated(Value x) { return fold<arith::XOrIOp>(x, truth(true)); }
  Enclosed negated(Enclosed x) { return {negated(x.least), negated(x.most)}; }

  Enclosed of(Value v) {
    if (Value same = map.lookupOrNull(v))
      return {same, same};
    auto it = enclosed.find(v);
    return it == enclosed.end() ? Enclosed{truth(true), truth(false)}
                                : it->second;
  }

  Enclosed differ(Enclosed x, Enclosed y) {
    return {
        either(both(x.most, negated(y.least)), both(negated(x.least), y.most)),
        either(both(x.least, negated(y.most)), both(negated(x.most), y.least))};
  }

  /// Of an operation that is not computable as a whole.
  Enclosed condition(Operation &op) {
    auto operand = [&](unsigned i) { return of(op.getOperand(i)); };
    const Enclosed open{truth(true), truth(false)};
    return TypeSwitch<Operation *, Enclosed>(&op)
        .Case([&](arith::AndIOp) {
          Enclosed x = operand(0), y = operand(1);
          return Enclosed{both(x.most, y.most), both(x.least, y.least)};
        })
        .Case([&](arith::OrIOp) {
          Enclosed x = operand(0), y = operand(1);
          return Enclosed{either(x.most, y.most), either(x.least, y.least)};
        })
        .Case([&](arith::XOrIOp) { return differ(operand(0), operand(1)); })
        .Case([&](arith::CmpIOp cmp) {
          if (!cmp.getLhs().getType().isInteger(1))
            return open;
          if (cmp.getPredicate() == arith::CmpIPredicate::ne)
            return differ(operand(0), operand(1));
          return cmp.getPredicate() == arith::CmpIPredicate::eq
                     ? negated(differ(operand(0), operand(1)))
                     : open;
        })
        .Case([&](arith::SelectOp) {
          Enclosed c = operand(0), x = operand(1), y = operand(2);
          return Enclosed{
              either(both(c.most, x.most), both(negated(c.least), y.most)),
              either(both(x.least, y.least),
                     either(both(c.least, x.least),
                            both(negated(c.most), y.least)))};
        })
        .Default([&](Operation *) { return open; });
  }

  Block &from;
  OpBuilder b;
  const CallValues &values;
  Block *to;
  IRMapping map;
  DenseMap<Value, Enclosed> enclosed;
};

} // namespace

std::unique_ptr<Region> boundOf(Region &mask, MaskBound bound,
                                const CallValues &values) {
  auto result = std::make_unique<Region>();
  if (mask.empty())
    return result;
  Enclosing(mask.front(), *result, values).run(bound);
  if (matchPattern(result->front().getTerminator()->getOperand(0), m_One()))
    result->getBlocks().clear();
  return result;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Builds the steps, one an operation.
class MaskRows::Builder {
public:
  Builder(MaskRows &rows, const CallValues &values)
      : rows(rows), values(values) {}

  void run(Block &block) {
    for (BlockArgument arg : block.getArguments()) {
      rows.arguments.push_back(column(arg));
      uniform[arg] = arg.getArgNumber() != MaskK;
    }
    for (Operation &op : block.without_terminator()) {
      Value value = op.getResult(0);
      // What is written twice is worked out once.
      auto *same = llvm::find_if(done, [&](Operation *earlier) {
        return OperationEquivalence::isEquivalentTo(
            earlier, &op,
            [&](Value x, Value y) {
              return success(columns.lookup(x) == columns.lookup(y));
            },
            /*markEquivalent=*/nullptr, OperationEquivalence::IgnoreLocations);
      });
      if (same != done.end()) {
        Column *known = columns.lookup((*same)->getResult(0));
        columns[value] = known;
        uniform[value] = uniform.lookup((*same)->getResult(0));
        continue;
      }
      done.push_back(&op);
      Column *out = column(value);
      uniform[value] =
          llvm::all_of(op.getOperands(), [&](Value v) { return uniform[v]; });
      rows.steps.push_back({uniform[value], out, work(op, *out)});
    }
    rows.result = columns.lookup(block.getTerminator()->getOperand(0));
  }

private:
  using Work = std::function<void(int)>;

  Column *column(Value v) {
    auto made = std::make_unique<Column>();
    if (v.getType().isF32())
      made->floats.resize(kMostKeys);
    else
      made->ints.resize(kMostKeys);
    rows.columns.push_back(std::move(made));
    return columns[v] = rows.columns.back().get();
  }
  template <typename T> static T *data(Column &column) {
    if constexpr (std::is_same_v<T, float>)
      return column.floats.data();
    else
      return column.ints.data();
  }
  template <typename T> const T *in(Value v) {
    return data<T>(*columns.lookup(v));
  }

  /// `f` of each element.
  template <typename To, typename From, typename F>
  Work each(Operation &op, Column &out, F f) {
    const From *x = in<From>(op.getOperand(0));
    To *r = data<To>(out);
    return [=](int n) {
      for (int i = 0; i < n; ++i)
        r[i] = To(f(x[i]));
    };
  }
  template <typename To, typename From, typename F>
  Work eachTwo(Operation &op, Column &out, F f) {
    const From *x = in<From>(op.getOperand(0));
    const From *y = in<From>(op.getOperand(1));
    To *r = data<To>(out);
    return [=](int n) {
      for (int i = 0; i < n; ++i)
        r[i] = To(f(x[i], y[i]));
    };
  }
  template <typename T> Work select(Operation &op, Column &out) {
    const int32_t *c = in<int32_t>(op.getOperand(0));
    const T *x = in<T>(op.getOperand(1)), *y = in<T>(op.getOperand(2));
    T *r = data<T>(out);
    return [=](int n) {
      for (int i = 0; i < n; ++i)
        r[i] = c[i] ? x[i] : y[i];
    };
  }
  /// Integers wrap around, as they do in a kernel.
  template <typename F> Work wrapping(Operation &op, Column &out, F f) {
    return eachTwo<int32_t, int32_t>(op, out, [f](int32_t x, int32_t y) {
      return int32_t(f(uint32_t(x), uint32_t(y)));
    });
  }
  template <typename F> Work ofInts(Operation &op, Column &out, F f) {
    return eachTwo<int32_t, int32_t>(op, out, f);
  }
  template <typename F> Work ofFloats(Operation &op, Column &out, F f) {
    return eachTwo<float, float>(op, out, f);
  }
  template <typename F> Work ofFloat(Operation &op, Column &out, F f) {
    return each<float, float>(op, out, f);
  }

  Work work(Operation &op, Column &out);
  Work compare(arith::CmpIOp op, Column &out);
  Work compare(arith::CmpFOp op, Column &out);
  Work constant(arith::ConstantOp op, Column &out);
  template <typename T>
  Work load(int64_t number, ValueRange at, Column &out, bool isMember);

  MaskRows &rows;
  const CallValues &values;
  DenseMap<Value, Column *> columns;
  DenseMap<Value, bool> uniform;
  SmallVector<Operation *> done;
};

MaskRows::Builder::Work MaskRows::Builder::work(Operation &op, Column &out) {
  // Divisors are not zero; the quotient of the smallest number and -1 wraps.
  auto quotient = [](int32_t x, int32_t y) {
    return y == -1 || y == 0 ? int32_t(-uint32_t(x)) : x / y;
  };
  auto remainder = [](int32_t x, int32_t y) {
    return y == -1 || y == 0 ? 0 : x % y;
  };
  return TypeSwitch<Operation *, Work>(&op)
      .Case([&](arith::ConstantOp o) { return constant(o, out); })
      .Case([&](ParamOp o) {
        return o.getType().isF32()
                   ? load<float>(o.getNumber(), o.getAt(), out, false)
                   : load<int32_t>(o.getNumber(), o.getAt(), out, false);
      })
      .Case([&](MemberOp o) {
        return load<int32_t>(o.getNumber(), {o.getBatch(), o.getPosition()},
                             out, /*isMember=*/true);
      })
      .Case([&](CongruentOp o) {
        const int32_t *k = in<int32_t>(o.getK()), *q = in<int32_t>(o.getQ()),
                      *d = in<int32_t>(o.getStep());
        int32_t *r = out.ints.data();
        return Work([=](int n) {
          for (int i = 0; i < n; ++i)
            r[i] = remainder(k[i] - q[i], d[i]) == 0;
        });
      })
      .Case([&](arith::CmpIOp o) { return compare(o, out); })
      .Case([&](arith::CmpFOp o) { return compare(o, out); })
      .Case([&](arith::SelectOp o) {
        return o.getType().isF32() ? select<float>(op, out)
                                   : select<int32_t>(op, out);
      })
      .Case([&](arith::AddIOp) { return wrapping(op, out, std::plus<>()); })
      .Case([&](arith::SubIOp) { return wrapping(op, out, std::minus<>()); })
      .Case(
          [&](arith::MulIOp) { return wrapping(op, out, std::multiplies<>()); })
      .Case([&](arith::DivSIOp) { return ofInts(op, out, quotient); })
      .Case([&](arith::RemSIOp) { return ofInts(op, out, remainder); })
      .Case([&](arith::MinSIOp) {
        return ofInts(op, out,
                      [](int32_t x, int32_t y) { return x < y ? x : y; });
      })
      .Case([&](arith::MaxSIOp) {
        return ofInts(op, out,
                      [](int32_t x, int32_t y) { return x < y ? y : x; });
      })
      .Case([&](arith::AndIOp) { return ofInts(op, out, std::bit_and<>()); })
      .Case([&](arith::OrIOp) { return ofInts(op, out, std::bit_or<>()); })
      .Case([&](arith::XOrIOp) { return ofInts(op, out, std::bit_xor<>()); })
      .Case([&](arith::AddFOp) { return ofFloats(op, out, std::plus<>()); })
      .Case([&](arith::SubFOp) { return ofFloats(op, out, std::minus<>()); })
      .Case(
          [&](arith::MulFOp) { return ofFloats(op, out, std::multiplies<>()); })
      .Case([&](arith::DivFOp) { return ofFloats(op, out, std::divides<>()); })
      .Case([&](arith::NegFOp) { return ofFloat(op, out, std::negate<>()); })
      .Case([&](arith::SIToFPOp) {
        return each<float, int32_t>(op, out,
                                    [](int32_t x) { return float(x); });
      })
      .Case([&](math::ExpOp) {
        return ofFloat(op, out, [](float x) { return std::exp(x); });
      })
      .Case([&](math::Exp2Op) {
        return ofFloat(op, out, [](float x) { return std::exp2(x); });
      })
      .Case([&](math::LogOp) {
        return ofFloat(op, out, [](float x) { return std::log(x); });
      })
      .Case([&](math::Log2Op) {
        return ofFloat(op, out, [](float x) { return std::log2(x); });
      })
      .Case([&](math::SqrtOp) {
        return ofFloat(op, out, [](float x) { return std::sqrt(x); });
      })
      .Case([&](math::TanhOp) {
        return ofFloat(op, out, [](float x) { return std::tanh(x); });
      })
      .Case([&](math::FloorOp) {
        return ofFloat(op, out, [](float x) { return std::floor(x); });
      });
}

MaskRows::Builder::Work MaskRows::Builder::compare(arith::CmpIOp op,
                                                   Column &out) {
  using P = arith::CmpIPredicate;
  auto with = [&](auto f) { return eachTwo<int32_t, int32_t>(*op, out, f); };
  auto asUnsigned = [&](auto f) {
    return with(
        [f](int32_t x, int32_t y) { return f(uint32_t(x), uint32_t(y)); });
  };
  switch (op.getPredicate()) {
  case P::eq:
    return with(std::equal_to<>());
  case P::ne:
    return with(std::not_equal_to<>());
  case P::slt:
    return with(std::less<>());
  case P::sle:
    return with(std::less_equal<>());
  case P::sgt:
    return with(std::greater<>());
  case P::sge:
    return with(std::greater_equal<>());
  case P::ult:
    return asUnsigned(std::less<>());
  case P::ule:
    return asUnsigned(std::less_equal<>());
  case P::ugt:
    return asUnsigned(std::greater<>());
  case P::uge:
    return asUnsigned(std::greater_equal<>());
  }
  llvm_unreachable("every predicate is handled");
}

MaskRows::Builder::Work MaskRows::Builder::compare(arith::CmpFOp op,
                                                   Column &out) {
  const arith::CmpFPredicate predicate = op.getPredicate();
  return eachTwo<int32_t, float>(*op, out, [predicate](float x, float y) {
    return arith::applyCmpPredicate(predicate, llvm::APFloat(x),
                                    llvm::APFloat(y));
  });
}

MaskRows::Builder::Work MaskRows::Builder::constant(arith::ConstantOp op,
                                                    Column &out) {
  if (auto number = dyn_cast<FloatAttr>(op.getValue())) {
    const float value = number.getValue().convertToFloat();
    return [&out, value](int n) { std::fill_n(out.floats.begin(), n, value); };
  }
  const llvm::APInt number = cast<IntegerAttr>(op.getValue()).getValue();
  const auto value =
      static_cast<int32_t>(number.getBitWidth() == 1 ? number.getZExtValue()
                                                     : number.getSExtValue());
  return [&out, value](int n) { std::fill_n(out.ints.begin(), n, value); };
}

template <typename T>
MaskRows::Builder::Work MaskRows::Builder::load(int64_t number, ValueRange at,
                                                Column &out, bool isMember) {
  SmallVector<const int32_t *> indices;
  for (Value index : at)
    indices.push_back(in<int32_t>(index));
  T *r = data<T>(out);
  return [=, &reader = values](int n) {
    SmallVector<int64_t> place(indices.size());
    for (int i = 0; i < n; ++i) {
      for (auto [d, index] : llvm::enumerate(indices))
        place[d] = index[i];
      // (No list has a position before the first.)
      const bool isNone = isMember && place.back() < 0;
      r[i] = isNone ? T(0) : T(*reader.real(number, place));
    }
  };
}

MaskRows::MaskRows(Region &mask, const CallValues &values) : bytes(kMostKeys) {
  if (!mask.empty())
    Builder(*this, values).run(mask.front());
}

ArrayRef<uint8_t> MaskRows::evaluate(int64_t q, int64_t key, int64_t step,
                                     int count, const Scalars &s) {
  assert(count <= kMostKeys && "more keys than a column holds");
  if (!result) {
    std::fill_n(bytes.begin(), count, 1);
    return ArrayRef(bytes).take_front(size_t(count));
  }
  const std::array<int64_t, kMaskArgs> asked = {s.b, s.h,    s.g,    q,
                                                0,   s.qLen, s.kvLen};
  const bool isNew = !hasRow || asked != row;
  row = asked;
  hasRow = true;
  for (unsigned a = 0; a < kMaskArgs; ++a)
    if (isNew && a != MaskK)
      llvm::fill(arguments[a]->ints, static_cast<int32_t>(row[a]));
  for (int i = 0; i < count; ++i)
    arguments[MaskK]->ints[size_t(i)] = static_cast<int32_t>(key + i * step);
  for (const Step &next : steps) {
    if (!next.isUniform) {
      next.run(count);
    } else if (isNew) {
      next.run(1);
      if (!next.out->ints.empty())
        llvm::fill(next.out->ints, next.out->ints.front());
      else
        llvm::fill(next.out->floats, next.out->floats.front());
    }
  }
  for (int i = 0; i < count; ++i)
    bytes[size_t(i)] = result->ints[size_t(i)] != 0;
  return ArrayRef(bytes).take_front(size_t(count));
}

} // namespace attn

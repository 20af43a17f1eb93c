//===- tests/oracle/Node.h - An expression with its names resolved --------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_TESTS_ORACLE_NODE_H
#define ATTNC_TESTS_ORACLE_NODE_H

#include "tests/oracle/Expression.h"

namespace attn::oracle {

enum class Var { S, B, H, G, Q, K, QLen, KvLen };

enum class Fn {
  Abs,
  Min,
  Max,
  Floor,
  Exp,
  Exp2,
  Log,
  Log2,
  Sqrt,
  Tanh,
  Sigmoid,
  Causal,
  Window,
  Sliding,
  Neighborhood,
  Global,
  Prefix,
  Softcap,
  AlibiSlope,
};

enum class Form { Constant, Variable, Unary, Binary, Select, Element, Call };

struct Node {
  Form form = Form::Constant;
  Value value;             // Constant
  Var variable = Var::S;   // Variable
  Op op = Op::None;        // Unary, Binary
  Fn fn = Fn::Abs;         // Call
  std::string name;        // Element: for messages
  bool integral = false;   // Element: of integers
  std::vector<double> own; // Element of a list-valued let: its elements
  std::vector<int64_t> shape;
  const ParamValue *param = nullptr;  // Element of a parameter; Call: global
  const Param *declaration = nullptr; // of `param`
  std::vector<std::unique_ptr<Node>> args;
};

/// An element of a parameter: any nonzero bool is true.
Value valueOf(const Param &param, double element);

/// Resolves the names of an expression. On failure `error` is set.
std::unique_ptr<Node> bind(const Spec &spec, const Params &params,
                           const ExprRef &expr, std::string &error);

/// The value at one point. Sets `error` on failure, and with `reads` appends
/// what Expression::readsAt does.
Value evaluate(const Spec &spec, const Node &node, const Point &point,
               Precision precision, std::string &error,
               std::vector<ParamElement> *reads = nullptr);

} // namespace attn::oracle

#endif

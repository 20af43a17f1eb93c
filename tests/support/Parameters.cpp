//===- tests/support/Parameters.cpp - Parameters of random variants -------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Parameters.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attn::test {

namespace {

/// More than these are shared rather than declared.
constexpr size_t kMostParameters = 6;

std::string indexFor(const std::string &dim) {
  return dim == "batch"      ? "b"
         : dim == "heads"    ? "h"
         : dim == "kv_heads" ? "g"
         : dim == "queries"  ? "q"
                             : "k";
}

} // namespace

std::string ParamWriter::text() const {
  std::vector<std::string> all;
  for (const Declared &d : declared)
    all.push_back(fmt::format("{}: {}{}", d.name, d.type,
                              d.dims.empty() ? "" : "[" + d.dims + "]"));
  return all.empty() ? "" : fmt::format("({})", fmt::join(all, ", "));
}

std::string ParamWriter::declare(const std::string &type,
                                 const std::string &dims) {
  bool share = declared.size() >= kMostParameters ||
               (!declared.empty() && choices.chance(15));
  for (const Declared &d : declared)
    if (share && d.type == type && d.dims == dims)
      return d.name;
  declared.push_back({fmt::format("p{}", declared.size()), type, dims});
  return declared.back().name;
}

std::string ParamWriter::element(const std::string &type,
                                 const std::vector<std::string> &dims) {
  std::string name = declare(type, fmt::format("{}", fmt::join(dims, ", ")));
  std::vector<std::string> at;
  for (const std::string &dim : dims)
    at.push_back(indexFor(dim));
  return dims.empty() ? name : fmt::format("{}[{}]", name, fmt::join(at, ", "));
}

std::string ParamWriter::floatType() {
  return choices.oneOf<std::string>({"f32", "f32", "f16", "bf16"});
}

std::vector<std::string>
ParamWriter::dimsBefore(std::vector<std::string> last) {
  std::vector<std::string> dims;
  if (choices.chance(40))
    dims.emplace_back("batch");
  if (choices.chance(40))
    dims.emplace_back(choices.chance(25) ? "kv_heads" : "heads");
  // Any order is a declaration.
  for (std::string &dim : last)
    dims.insert(choices.chance(15) ? dims.begin() : dims.end(), dim);
  return dims;
}

std::string ParamWriter::integer() {
  switch (choices.between(0, 5)) {
  case 0:
    return element("i32", {});
  case 1:
    return element("i32", {"heads"});
  case 2:
    return element("i32", {"batch"});
  case 3:
    return element("i32", {"kv_heads"});
  case 4:
    return element("i32", {"batch", "heads"});
  default:
    return fmt::format("{}[h % 3]", declare("i32", "3"));
  }
}

std::string ParamWriter::width() {
  return choices.chance(50) ? integer() : fmt::format("max({}, 0)", integer());
}

std::string ParamWriter::positive() {
  // Kept apart from what may be zero: no other use shares these.
  std::string name = fmt::format("d{}", declared.size());
  bool ofHeads = choices.chance(60);
  declared.push_back({name, "i32", ofHeads ? "heads" : ""});
  return ofHeads ? name + "[h]" : name;
}

std::string ParamWriter::documents() {
  bool ofEntries = choices.chance(60);
  std::string before = ofEntries ? "batch, " : "", at = ofEntries ? "b, " : "";
  switch (choices.between(0, 4)) {
  default: {
    std::string doc = declare("i32", before + "tokens");
    return fmt::format("{0}[{1}q] == {0}[{1}k]", doc, at);
  }
  case 2: {
    std::string doc = declare("i32", before + "tokens");
    return fmt::format("{0}[{1}k] <= {0}[{1}q]", doc, at);
  }
  case 3: {
    std::string ofQueries = declare("i32", before + "queries");
    std::string ofKeys = declare("i32", before + "keys");
    return fmt::format("{}[{}q] == {}[{}k]", ofQueries, at, ofKeys, at);
  }
  case 4: {
    std::string doc = declare("i32", before + "tokens");
    return fmt::format("{}[{}k] {} {}", doc, at,
                       choices.oneOf<std::string>({"!=", "<", ">="}),
                       choices.between(0, 3));
  }
  }
}

std::string ParamWriter::flags() {
  switch (choices.between(0, 5)) {
  case 0:
    return element("bool", {"batch", "keys"});
  case 1:
    return element("bool", {"queries", "keys"});
  case 2:
    return element("bool", dimsBefore({"queries", "keys"}));
  case 3:
    return element("bool", dimsBefore({"queries"}));
  case 4:
    return fmt::format("({} || k <= q)", element("bool", {"heads"}));
  default:
    return fmt::format("{} == {}", element("bool", {"keys"}),
                       element("bool", {}));
  }
}

/// Constant extents, with indices that leave them.
std::string ParamWriter::table() {
  switch (choices.between(0, 4)) {
  case 0:
    return fmt::format("{}[k - q + 4]", declare("bool", "9"));
  case 1:
    return fmt::format("{}[min(k / 8, 12), h]", declare("bool", "13, heads"));
  case 2:
    return fmt::format("k - q < {}[q % 5, h]", declare("i32", "5, heads"));
  case 3: // a table of a table
    return fmt::format("{}[{}]", declare("bool", "6"),
                       element("i32", {"batch", "keys"}));
  default:
    return fmt::format("{}[q, k / 2] || {}[k - 3]",
                       declare("bool", "queries, keys"),
                       declare("bool", "keys"));
  }
}

/// What rounding decides is decided alike everywhere: in f32.
std::string ParamWriter::floats() {
  switch (choices.between(0, 2)) {
  case 0:
    return fmt::format("{} > 0", element(floatType(), {"keys"}));
  case 1:
    return fmt::format("{} <= {}", element(floatType(), {"batch", "keys"}),
                       element(floatType(), {"queries"}));
  default:
    return fmt::format("0.3 * (q - k) <= {}", element(floatType(), {"heads"}));
  }
}

std::string ParamWriter::relation() {
  switch (choices.between(0, 14)) {
  case 0:
    return fmt::format("k < {}", integer());
  case 1:
    return choices.chance(50) ? fmt::format("prefix({})", integer())
                              : fmt::format("(k <= q || k < {})", integer());
  case 2:
    return documents();
  case 3:
    return fmt::format("k - q <= {}", integer());
  case 4:
    return choices.chance(50) ? fmt::format("q - k < {}", integer())
                              : fmt::format("abs(q - k) <= {}", integer());
  case 5:
  case 6:
    return flags();
  case 7:
    return table();
  case 8:
    switch (choices.between(0, 3)) {
    case 0:
      return fmt::format("window({})", width());
    case 1:
      return fmt::format("window({}, {})", width(), width());
    case 2:
      return fmt::format("window({}, 3, {})", width(), positive());
    default:
      return fmt::format("sliding({})", integer());
    }
  case 9:
    return floats();
  case 10: {
    std::string n = positive();
    return choices.chance(50) ? fmt::format("k % {0} == q % {0}", n)
                              : fmt::format("k / {0} == q / {0}", n);
  }
  case 11:
    return fmt::format("neighborhood({})", positive());
  default:
    return documents();
  }
}

std::string ParamWriter::globals(const std::string &window) {
  std::string list = declare("tokens", "");
  switch (choices.between(0, 7)) {
  case 0:
    return fmt::format("({} || global({}))", window, list);
  case 1:
    return fmt::format("(causal && {} || global({}))", window, list);
  case 2:
    return fmt::format("(causal && ({} || global({})))", window, list);
  case 3:
    return fmt::format("({} || global({}) || global({}))", window, list,
                       declare("tokens", ""));
  case 4:
    return fmt::format("!global({})", list);
  case 5:
    return fmt::format("({} && global({}))", window, list);
  case 6:
    return fmt::format("(h % 2 == 0 && global({}) || {})", list, window);
  default:
    return fmt::format("global({})", list);
  }
}

std::string ParamWriter::real() {
  switch (choices.between(0, 3)) {
  case 0:
    return element(floatType(), {});
  case 1:
    return element(floatType(), {"batch", "heads"});
  case 2:
    return element(floatType(), {"kv_heads"});
  default:
    return element(floatType(), {"heads"});
  }
}

/// The buckets of distances that T5 has, with the far ones coarser and coarser.
std::string ParamWriter::bucket() {
  std::string distance = choices.chance(50) ? "abs(q - k)" : "max(q - k, 0)";
  std::string near = fmt::format("min({}, 15)", distance);
  std::string far =
      fmt::format("({0} < 8 ? {0} : {0} < 12 ? 8 : {0} < 16 ? 9 : {0} < 23 ? "
                  "10 : {0} < 32 ? 11 : 12)",
                  distance);
  return fmt::format("{} + (k > q ? 16 : 0)", choices.chance(50) ? near : far);
}

std::string ParamWriter::bias() {
  switch (choices.between(0, 5)) {
  case 0:
    return fmt::format("{}[{}, h]", declare(floatType(), "32, heads"),
                       bucket());
  case 1:
    return fmt::format("{}[h, q - k + 16]", declare(floatType(), "heads, 33"));
  case 2:
    return element(floatType(), dimsBefore({"keys"}));
  case 3:
    return element(floatType(), dimsBefore({"queries"}));
  case 4:
    return fmt::format("{}[{}]", declare(floatType(), "tokens"),
                       choices.chance(50) ? "q" : "k");
  default:
    return element(floatType(), dimsBefore({"queries", "keys"}));
  }
}

std::string ParamWriter::wildBias() {
  // Nothing else may use these.
  std::vector<std::string> dims =
      choices.chance(40)
          ? std::vector<std::string>{"batch", "heads", "queries", "keys"}
          : dimsBefore({"queries", "keys"});
  std::string name = fmt::format("w{}", declared.size());
  std::vector<std::string> at;
  for (const std::string &dim : dims)
    at.push_back(indexFor(dim));
  declared.push_back(
      {name, floatType(), fmt::format("{}", fmt::join(dims, ", "))});
  return fmt::format("{}[{}]", name, fmt::join(at, ", "));
}

std::string ParamWriter::cap() {
  std::string name = fmt::format("c{}", declared.size());
  bool ofHeads = choices.chance(50);
  declared.push_back({name, floatType(), ofHeads ? "heads" : ""});
  return ofHeads ? name + "[h]" : name;
}

std::string ParamWriter::step() {
  // Small since a score uses them: of their own.
  std::string name = fmt::format("s{}", declared.size());
  switch (choices.between(0, 3)) {
  case 0:
    declared.push_back({name, "i32", "heads"});
    return fmt::format("{}[h] * 0.015625", name);
  case 1:
    declared.push_back({name, "i32", "batch, keys"});
    return fmt::format("{}[b, k] * 0.015625", name);
  case 2:
    return fmt::format("(global({}) ? 0.5 : -0.25)", declare("tokens", ""));
  default:
    return fmt::format("({} ? 0.5 : -0.25)", flags());
  }
}

std::string ParamWriter::sink() {
  std::string name = fmt::format("n{}", declared.size());
  switch (choices.between(0, 7)) {
  case 0:
    return fmt::format("{:.2f}",
                       static_cast<double>(choices.between(-9, 9)) / 4);
  case 1:
    return "-alibi_slope(h)";
  case 2:
    declared.push_back({name, floatType(), ""});
    return name;
  case 3:
    declared.push_back({name, floatType(), "heads"});
    return fmt::format("{}[h] * 0.5 + 1.0", name);
  case 4:
    declared.push_back({name, floatType(), "heads"});
    return fmt::format("{}[h / 2]", name);
  default:
    declared.push_back({name, floatType(), "heads"});
    return name + "[h]";
  }
}

std::string ParamWriter::scale(double usual) {
  std::string name = fmt::format("i{}", declared.size());
  declared.push_back({name, "i32", ""});
  return choices.chance(50) ? fmt::format("{:.6f} * {}", usual, name)
                            : fmt::format("{:.6f} / sqrt({})", usual, name);
}

} // namespace attn::test

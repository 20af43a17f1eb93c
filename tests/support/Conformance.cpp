//===- tests/support/Conformance.cpp - What every target has to pass ------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "tests/support/Conformance.h"
#include "tests/support/Runner.h"
#include <algorithm>
#include <exception>
#include <fmt/format.h>

namespace attn {

using namespace attn::test;

bool ConformanceReport::ok() const {
  return error.empty() &&
         std::all_of(groups.begin(), groups.end(),
                     [](const ConformanceGroup &g) { return !g.failures; });
}

namespace {

using Progress = std::function<void(const std::string &, int64_t)>;

/// Variants of which public implementations have got something wrong: what is
/// masked, how heads share keys, which end the queries are aligned to, what a
/// sink or a soft cap does, which keys a list of tokens adds.
constexpr const char *kPublic[] = {
    "mask = causal",
    "mask = causal  align = top_left",
    "mask = causal && sliding(3)",
    "mask = causal && sliding(64)",
    "mask = window(2, 2, 3)",
    "mask = window(16, 0)",
    "mask = neighborhood(7)",
    "mask = neighborhood(5, 3)",
    "kv_heads = 2  mask = causal",
    "kv_heads = 3",
    "kv_heads = 2  kv_map = [1, 0, 1, 0]  mask = causal && sliding(9)",
    "score = softcap(s, 1.0)  mask = causal",
    "score = s + alibi_slope(h) * (k - q)  mask = causal",
    "let d = [1, 1, 2, 4]  mask = window(6, 6, d[h])",
    "mask = k < 0",
    "scale = 1.5  mask = causal",
    "(x: f32[heads]) kv_heads = 2 sink = x[h] mask = causal && sliding(12)",
    "(t: tokens)  mask = window(1) || global(t)",
    "(t: tokens) let d = [1, 1, 2, 4] mask = window(9, 9, d[h]) || global(t)",
    "(t: tokens)  mask = causal && (window(16) || global(t))",
    "(doc: i32[batch, tokens])  mask = causal && doc[b, q] == doc[b, k]",
    "(prefix: i32[batch])  mask = k <= q || k < prefix[b]",
    "(bias: f32[batch, heads, queries, keys])  score = s + bias[b, h, q, k]",
    "(m: bool[batch, queries, keys])  mask = m[b, q, k]",
    "(m: f16[heads, keys])  score = s + m[h, k]  mask = causal",
};

/// The same of tensors whose elements are not f32, which a target may refuse.
constexpr const char *kTypes[] = {
    "type = f16",
    "type = f16  mask = causal",
    "type = bf16  mask = causal && sliding(20)",
    "type = { q = f16, kv = bf16, out = f32 }  mask = window(9, 9, 2)",
    "type = { q = f32, kv = f32, out = bf16 }",
    "(t: tokens)  type = bf16  mask = window(2) || global(t)",
};

/// Parts of the language of which a target may refuse some.
constexpr const char *kParts[] = {
    "head_dim = 8",
    "head_dim = 256",
    "head_dim = 4096",
    "head_dim = 8  type = f16",
    "head_dim = 8  type = bf16",
    "head_dim = 8  type = { q = bf16, kv = f16, out = f32 }",
    "head_dim = 8  type = { q = f32, kv = i8, out = f32 }",
    "head_dim = 8  type = { q = f32, kv = f8e4m3, out = f32 }",
    "head_dim = 8  rope = { theta = 10000, layout = half }",
    "head_dim = { nope = 16, rope = 8, value = 16 }  latent = 32",
};

/// "(parameters)  fields" as the text of a variant of four heads. Kernels that
/// are linked together need names of their own: `number`.
std::string textOf(size_t number, const std::string &gist,
                   const std::string &more) {
  std::string parameters, fields = gist;
  if (gist[0] == '(') {
    const size_t end = gist.find(')') + 1;
    parameters = gist.substr(0, end);
    fields = gist.substr(end);
  }
  return fmt::format("attention case{}{} {{ heads = 4  {} {} }}", number,
                     parameters, more, fields);
}

class Suite {
public:
  Suite(Runner &runner, ConformanceReport &report, uint64_t seed,
        const Progress &progress)
      : runner(runner), report(report), seed(seed), progress(progress) {}

  void sizes();
  template <size_t n>
  void listed(const std::string &name, const char *const (&gists)[n],
              int64_t calls);
  void random(const std::string &name, const Features &features,
              int64_t variants, int64_t calls);
  void parts();
  /// Whether the target lowers a variant of this gist; else `why` not.
  bool lowers(const std::string &gist, std::string *why = nullptr);

private:
  void begin(const std::string &name) {
    report.groups.push_back({name, 0, 0, 0, ""});
    smallest = 0;
  }
  void run(const std::string &text,
           const std::function<void(const Spec &, const Code &)> &calls);
  void add(Case c, const Code &code);

  Runner &runner;
  ConformanceReport &report;
  uint64_t seed;
  const Progress &progress;
  int64_t smallest = 0;
  uint64_t number = 0;
};

void Suite::add(Case c, const Code &code) {
  const size_t group = report.groups.size() - 1;
  const uint64_t own = seed + ++number;
  runner.add(std::move(c), code, own,
             [&, group](const Case &done, const std::string &what) {
               ConformanceGroup &g = report.groups[group];
               ++g.cases;
               if (progress)
                 progress(g.name, g.cases);
               if (what.empty())
                 return;
               const int64_t size = done.batch * done.qLen * done.kvLen;
               if (!g.failures++ || size < smallest) {
                 smallest = size;
                 g.firstFailure = fmt::format("{}\n{}", what, describe(done));
               }
             });
}

/// A variant that the target has to lower.
void Suite::run(const std::string &text,
                const std::function<void(const Spec &, const Code &)> &calls) {
  ConformanceGroup &group = report.groups.back();
  const Spec spec = parseOne(text);
  Code code;
  std::vector<Diagnostic> diagnostics;
  ++group.variants;
  if (runner.prepare(spec, code, diagnostics))
    return calls(spec, code);
  ++group.failures;
  if (group.firstFailure.empty() && !diagnostics.empty())
    group.firstFailure = render(diagnostics.front(), "variant", text);
}

/// Around vectors, register blocks and tiles; heads of any width.
void Suite::sizes() {
  begin("sizes");
  const int64_t lengths[] = {0,  1,  2,  3,  5,   6,   7,   15,  16,  17,
                             31, 32, 33, 47, 48,  49,  63,  64,  65,  95,
                             96, 97, 98, 99, 127, 128, 129, 192, 193, 257};
  const int64_t widths[] = {1,  3,  4,  7,  8,  16,  17,
                            33, 64, 67, 80, 96, 128, 130};
  size_t next = 0;
  for (int64_t width : widths)
    for (const char *mask : {"", "mask = causal", "mask = window(20, 3)"})
      run(textOf(++number,
                 fmt::format("kv_heads = 2  head_dim = {}  {}", width, mask),
                 ""),
          [&](const Spec &spec, const Code &code) {
            for (int call = 0; call < 4; ++call) {
              Choices choices(seed + ++number);
              Case c = randomCase(choices, runner.limited(Features()), spec,
                                  code.descriptor());
              const int64_t limit =
                  runner.through == "native" ? 257 : 99; // an emulator's pace
              auto length = [&] {
                int64_t value = lengths[next++ % std::size(lengths)];
                return std::min(value, limit);
              };
              c.batch = 1, c.qLens = {}, c.kvLens = {};
              c.kvLen = length();
              c.qLen = call % 2 ? c.kvLen : length();
              add(std::move(c), code);
            }
          });
  runner.flush();
}

template <size_t n>
void Suite::listed(const std::string &name, const char *const (&gists)[n],
                   int64_t calls) {
  begin(name);
  for (const char *gist : gists)
    run(textOf(++number, gist, "head_dim = 24"),
        [&](const Spec &spec, const Code &code) {
          for (int64_t call = 0; call < calls; ++call) {
            Choices choices(seed + ++number);
            add(randomCase(choices, runner.limited(Features()), spec,
                           code.descriptor()),
                code);
          }
        });
  runner.flush();
}

void Suite::random(const std::string &name, const Features &features,
                   int64_t variants, int64_t calls) {
  begin(name);
  const Features limited = runner.limited(features);
  for (int64_t n = 0; n < variants; ++n) {
    Choices choices(seed * 1000003 + ++number);
    run(randomVariant(choices, limited, fmt::format("random{}", number)),
        [&](const Spec &spec, const Code &code) {
          for (int64_t call = 0; call < calls; ++call)
            add(randomCase(choices, limited, spec, code.descriptor()), code);
        });
  }
  runner.flush();
}

bool Suite::lowers(const std::string &gist, std::string *why) {
  Code code;
  std::vector<Diagnostic> diagnostics;
  if (runner.prepare(parseOne(textOf(0, gist, "")), code, diagnostics))
    return true;
  if (why && !diagnostics.empty())
    *why = diagnostics.front().message;
  return false;
}

void Suite::parts() {
  for (const char *gist : kParts)
    if (std::string why; !lowers(gist, &why))
      report.refused.push_back({gist, why});
}

} // namespace

ConformanceReport
checkTarget(const std::string &target, int64_t effort, uint64_t seed,
            const std::function<void(const std::string &, int64_t)> &progress) {
  ConformanceReport report;
  auto runner = Runner::forTarget(target, report.error);
  if (!runner)
    return report;
  report.target = runner->target;
  report.through = runner->through;
  try {
    Suite suite(*runner, report, seed, progress);
    suite.sizes();
    suite.listed("public cases", kPublic, 4);
    suite.random("random variants", Features::level1(), effort, 3);
    suite.random("random scores and lists", Features::level2(), effort, 3);
    Features all = Features::level3();
    all.types = suite.lowers("head_dim = 8  type = f16") &&
                suite.lowers("head_dim = 8  type = bf16");
    if (all.types)
      suite.listed("f16 and bf16", kTypes, 4);
    suite.random("random parameters", all, effort, 3);
    suite.parts();
  } catch (const std::exception &error) {
    report.error = error.what();
  }
  report.worst = runner->worst;
  return report;
}

} // namespace attn

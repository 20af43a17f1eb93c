"""--param: values of every type, written, in files and made up."""

import json
import math

import support

B, H, N, D = 2, 2, 9, 8
SHAPE = (B, H, N, D)

EVERY = """attention every(n: i32, c: f32, on: bool, slope: f32[heads],
                half: f16[heads], brain: bf16[heads], doc: i32[batch, tokens],
                bias: f32[heads, queries, keys], seen: bool[queries, keys]) {
  heads = 2  head_dim = 8
  score = (on ? s : c) + slope[h] * (k - q) + half[h] * brain[h] + bias[h, q, k]
  mask  = k - q <= n && doc[b, q] == doc[b, k] && seen[q, k]
}
"""
GLOBAL = """attention longformer(t: tokens) {
  heads = 2  head_dim = 8  mask = window(1) || global(t)
}
"""
PACKED = """attention packed(doc: i32[batch, tokens]) {
  heads = 2  head_dim = 8  mask = causal && doc[b, q] == doc[b, k]
}
"""


def evaluate(q, k, v, shape, keys, score, mask):
    """The output in double precision; queries are aligned at the end."""
    batch, heads, rows, width = shape
    out = []
    for b in range(batch):
        for h in range(heads):
            def row(x, i, count):
                start = ((b * heads + h) * count + i) * width
                return x[start:start + width]
            for i in range(rows):
                p = i + keys - rows
                scores = {
                    j: score(b, h, p, j, sum(x * y for x, y in zip(
                        row(q, i, rows), row(k, j, keys))) / math.sqrt(width))
                    for j in range(keys) if mask(b, h, p, j)}
                top = max(scores.values(), default=0)
                weights = {j: math.exp(s - top) for j, s in scores.items()}
                total = sum(weights.values()) or 1
                out += [sum(w * row(v, j, keys)[d] for j, w in weights.items()) /
                        total for d in range(width)]
    return out


def flags(params):
    return [x for name, value in params.items()
            for x in ("--param", f"{name}={value}")]


def written(value):
    """As --param takes it."""
    return str(value).replace("True", "true").replace("False", "false")


class Params(support.Case):
    def setUp(self):
        super().setUp()
        self.write("every.attn", EVERY)
        self.write("global.attn", GLOBAL)
        self.write("packed.attn", PACKED)
        self.inputs = self.tensors(SHAPE, SHAPE, SHAPE)

    def run_with(self, text, params, *extra):
        self.succeed("run", text, *self.inputs, *flags(params), "--out", "o.npy",
                     *extra)
        return self.load("o.npy")[1]

    def check(self, text, params, score, mask, rows=N, *extra):
        got = self.run_with(text, params, *extra)
        (_, q), (_, k), (_, v) = (self.load(f"{n}.npy") for n in "qkv")
        want = evaluate(q, k, v, (B, H, rows, D), N, score, mask)
        self.assertEqual(len(got), len(want))
        for a, b in zip(got, want):
            self.assertLessEqual(abs(a - b), 1e-4)
        return got

    def values(self, rows=N):
        """Of every parameter of EVERY: as Python has it."""
        return {
            "n": 5, "c": 0.25, "on": True, "slope": [0.5, -0.125],
            "half": [1.5, -2.0], "brain": [0.5, 0.25],
            "doc": [[i // 4 for i in range(N)], [i % 2 for i in range(N)]],
            "bias": [[[math.sin(h + i + 3 * j) for j in range(N)]
                      for i in range(rows)] for h in range(H)],
            "seen": [[(i * j + j) % 5 != 1 for j in range(N)]
                     for i in range(rows)],
        }

    def files_of(self, x, rows=N):
        """The same as .npy files."""
        def flat(value):
            return ([y for part in value for y in flat(part)]
                    if isinstance(value, list) else [value])
        def half(value):
            return support.encode(value, "f2")
        def brain(value):
            return support.encode(value, "u2")
        for name, shape, kind, turn in (
                ("n", (), "i4", int), ("c", (), "f4", float), ("on", (), "b1", int),
                ("slope", (H,), "f4", float), ("half", (H,), "f2", half),
                ("brain", (H,), "u2", brain), ("doc", (B, N), "i4", int),
                ("bias", (H, rows, N), "f4", float), ("seen", (rows, N), "b1", int)):
            self.save(f"{name}.npy", shape, [turn(y) for y in flat(x[name])], kind)
        return {name: f"{name}.npy" for name in x}

    def rules(self, x, rows=N):
        first = N - rows # the position of the first query
        def score(b, h, q, k, s):
            return ((s if x["on"] else x["c"]) + x["slope"][h] * (k - q) +
                    x["half"][h] * x["brain"][h] + x["bias"][h][q - first][k])
        def mask(b, h, q, k):
            return (k - q <= x["n"] and x["doc"][b][q] == x["doc"][b][k] and
                    x["seen"][q - first][k])
        return score, mask

    def test_every_type(self):
        for on in (True, False):
            x = {**self.values(), "on": on}
            texts = {name: written(value) for name, value in x.items()}
            one = self.check("every.attn", texts, *self.rules(x))
            # In files, and in another order.
            other = self.run_with(
                "every.attn", dict(reversed(self.files_of(x).items())))
            self.assertEqual(one, other)

    def test_fewer_queries_than_keys(self):
        """The first element along `queries` belongs to the first query."""
        rows = 4
        self.inputs = self.tensors((B, H, rows, D), SHAPE, SHAPE)
        x = self.values(rows)
        one = self.check("every.attn", {n: written(y) for n, y in x.items()},
                         *self.rules(x, rows), rows)
        self.assertEqual(one, self.run_with("every.attn", self.files_of(x, rows)))

    def test_bundles_take_values(self):
        files = self.files_of(self.values())
        one = self.run_with("every.attn", files)
        self.succeed("compile", "every.attn", "-o", "every.so")
        self.assertEqual(one, self.run_with("every.so", files))
        self.refuse("run", "every.so", *self.inputs, says=["'slope' (f32[heads])"])
        self.refuse("run", "every.so", *self.inputs, "--param", "m=1",
                    says=["'m'", "n, c, on"])
        del files["doc"]
        self.refuse("run", "every.so", *self.inputs, *flags(files),
                    says=["'doc' (i32[batch, tokens])"])

    def test_one_value_for_all(self):
        """A single element stands for any extent."""
        x = self.values()
        x.update(slope=[0.25] * H, half=[3.0] * H, brain=[-1.5] * H,
                 doc=[[7] * N] * B, bias=[[[0.5] * N] * N] * H,
                 seen=[[True] * N] * N)
        full = self.check("every.attn", self.files_of(x), *self.rules(x))
        once = {"n": 5, "c": 0.25, "on": "true", "slope": 0.25, "half": "[3]",
                "brain": "-1.5", "doc": 7, "bias": "[[[0.5]]]", "seen": "true"}
        self.assertEqual(full, self.run_with("every.attn", once))
        # Along one dimension only.
        x["bias"] = [[[0.1 * i] * N for i in range(N)]] * H
        full = self.run_with("every.attn", self.files_of(x))
        once["bias"] = written([[[0.1 * i] for i in range(N)]])
        self.assertEqual(full, self.run_with("every.attn", once))

    def test_numbers_are_rounded_once(self):
        self.write("r.attn", "attention r(x: f16[heads], y: bf16[heads], z: f32) {\n"
                   "  heads = 2  head_dim = 8\n  score = s * x[h] + y[h] * k + z\n}\n")
        # In f32 each would be halfway between its neighbours.
        texts = {"x": "[1.00048828125000001, -inf]", "y": "[1.00390625000001, 2]",
                 "z": "1.00000005960464477540"}
        self.save("x.npy", (H,), [0x3c01, -0x400], "f2")
        self.save("y.npy", (H,), [0x3f81, 0x4000], "u2")
        self.save("z.npy", (), [0x3f800001], "i4")
        data = self.files()["z.npy"].replace(b"<i4", b"<f4")
        (self.dir / "z.npy").write_bytes(data)
        out = []
        for params in (texts, {n: f"{n}.npy" for n in texts}):
            self.succeed("run", "r.attn", *self.inputs, *flags(params), "--out",
                         "o.npy", "--lse", "l.npy")
            out.append((self.files()["o.npy"], self.files()["l.npy"]))
        self.assertEqual(*out)

    def test_lists_of_tokens(self):
        def rules(*lists):
            def mask(b, h, q, k):
                return abs(k - q) <= 1 or k in lists[b] or q in lists[b]
            return (lambda b, h, q, k, s: s), mask
        def same(lists, *others):
            one = self.check("global.attn", {"t": written(lists)},
                             *rules(*(lists if isinstance(lists[0], list)
                                      else [lists] * B)))
            for other in others:
                self.assertEqual(one, self.run_with("global.attn", {"t": other}))
        self.save("a.npy", (B, 3), [0, 5, -1, 5, 0, 0], "i4")
        self.save("b.npy", (1, 2), [5, 0], "i8")
        same([0, 5], "a.npy", "b.npy", "[[0, 5]]", "[[5, 0, 5], [-3, 5, 0]]")
        self.save("a.npy", (B, 4), [-1, 8, 3, 3, -7, -1, -1, -1], "i8")
        same([[3, 8], []], "a.npy", "[[8, 3, 8], [-1]]")
        self.save("a.npy", (B, 0), [], "i4")
        same([[], []], "a.npy", "[]", "-1")
        same([4], "4", "[[4], [4]]")

    def test_positions_past_a_sequence(self):
        self.save("lens.npy", (B,), [N, 4], "i4")
        lens = ("--kv-lens", "lens.npy", "--q-lens", "lens.npy")
        run = ("run", "global.attn", *self.inputs, *lens, "--param")
        self.refuse(*run, "t=[3, 4]", says=["'t'", "4"])
        self.succeed(*run, "t=[[3, 4, 8], [3]]", "--out", "o.npy")
        self.refuse(*run, "t=[[3, 9], [3]]", says=["'t'", "9"])

    def test_values_that_kernels_rely_on(self):
        self.write("d.attn", "attention d(d: i32[heads], c: f32) {\n"
                   "  heads = 2  head_dim = 8\n  score = softcap(s, c)\n"
                   "  mask = (k - q) % d[h] == 0\n}\n")
        run = ("run", "d.attn", *self.inputs, "--param")
        self.refuse(*run, "c=2", "--param", "d=[1, 0]", says=["'d'", "0"])
        for bad in ("nan", "0", "-1"):
            self.refuse(*run, f"c={bad}", "--param", "d=1", says=["'c'", bad])
        self.succeed(*run, "c=2", "--param", "d=[1, 3]", "--out", "o.npy")

    def test_bench(self):
        base = ("bench", "every.attn", "--q-len", 33, "--kv-len", 70, "--batch", 2,
                "--seconds", 0, "--json")
        some = {"n": 5, "c": 1, "on": "true", "doc": "random", "bias": "random:7"}
        for name in ("slope", "half", "brain", "seen"):
            some[name] = "random"
        result = json.loads(self.succeed(*base, *flags(some)).out)
        self.assertGreater(result["seconds"], 0)
        self.assertEqual(result, {**json.loads(self.succeed(*base, *flags(some)).out),
                                  **{k: v for k, v in result.items()
                                     if isinstance(v, float) or k == "rounds"}})
        self.assertEqual(result["flops"], 2 * 2 * (D + D) * H * result["allowed_pairs"])
        self.refuse(*base, *flags({**some, "slope": "[1, 2, 3]"}),
                    says=["'slope'", "3", "2"])
        self.refuse(*base, *flags({**some, "n": "random"}), says=["n=random"])
        self.succeed("bench", "global.attn", "--q-len", 200, "--seconds", 0,
                     "--param", "t=random:3")
        self.refuse("bench", "global.attn", "--q-len", 200, "--seconds", 0,
                    "--param", "t=[0, 200]", says=["'t'", "200"])

    def test_bench_counts_each_sequence(self):
        n = 120
        self.save("doc.npy", (B, n), [i // 40 for i in range(n)] +
                  [i // 7 for i in range(n)], "i4")
        self.save("t.npy", (B, 3), [0, 50, -1, 7, 100, 9], "i4")
        for text, name in (("packed.attn", "doc"), ("global.attn", "t")):
            size = ("--q-len", n, "--json", "--param")
            both = json.loads(self.succeed(
                "bench", text, *size, f"{name}={name}.npy", "--batch", B,
                "--seconds", 0).out)
            values = self.load(f"{name}.npy")[1]
            alone = []
            for b in range(B):
                row = values[b * len(values) // B:(b + 1) * len(values) // B]
                alone.append(json.loads(self.succeed(
                    "explain", text, *size, f"{name}=[{row}]").out))
            self.assertNotEqual(alone[0]["allowed_pairs"], alone[1]["allowed_pairs"])
            for field in ("flops", "bytes"):
                self.assertEqual(both[field], sum(one[field] for one in alone), field)
            for field in ("allowed_pairs", "visited_pairs"):
                self.assertEqual(both[field], sum(one[field] for one in alone) // B)

    def test_explain(self):
        n = 300
        doc = [i // 50 for i in range(n)]
        self.save("doc.npy", (1, n), doc, "i4")
        allowed = sum(doc[q] == doc[k] for q in range(n) for k in range(q + 1))
        arguments = ("explain", "packed.attn", "--q-len", n, "--json")
        result = json.loads(self.succeed(*arguments, "--param", "doc=doc.npy").out)
        self.assertEqual(result["allowed_pairs"], allowed)
        self.assertLess(result["visited_pairs"], n * (n + 1) // 2)
        self.assertEqual(set(result["undecided"]), {"tiles", "pairs"})
        # Equal seeds give equal documents.
        made = [self.succeed(*arguments, "--param", f"doc=random:{seed}").out
                for seed in (1, 1, 2)]
        self.assertEqual(made[0], made[1])
        self.assertNotEqual(made[0], made[2])
        self.assertEqual(made[0], self.succeed(*arguments, "--param",
                                               "doc=random").out)
        # Without values it says what that leaves open.
        self.assertIn("doc", " ".join(json.loads(
            self.succeed(*arguments).out)["reasons"]))
        arguments = ("explain", "global.attn", "--q-len", n, "--json")
        t = {0, 17, 200}
        allowed = sum(abs(q - k) <= 1 or q in t or k in t
                      for q in range(n) for k in range(n))
        result = json.loads(self.succeed(*arguments, "--param", "t=[200, 0, 17, 0]").out)
        self.assertEqual(result["allowed_pairs"], allowed)
        self.succeed(*arguments)

    def test_plot(self):
        self.succeed("plot", "packed.attn", "--q-len", 20, "-o", "none.svg")
        self.succeed("plot", "packed.attn", "--q-len", 20, "-o", "doc.svg", "--param",
                     f"doc=[{[i // 7 for i in range(20)]}]")
        self.assertNotEqual(self.files()["none.svg"], self.files()["doc.svg"])
        self.succeed("plot", "global.attn", "--q-len", 20, "-o", "t.svg", "--param",
                     "t=[3, 9]")


if __name__ == "__main__":
    support.main()

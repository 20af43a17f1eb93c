"""attnc explain: what each condition bounds, counts of pairs against a plain
evaluation, what is open or not understood, the figures of the README."""

import itertools
import json
import math
import random
import re
import shlex
import subprocess

import support
from support import ROOT

Q, K = 37, 45
SHIFT = K - Q


class Explain(support.Case):
    def variant(self, mask, params=""):
        self.write("v.attn", f"attention v({params}) {{ heads = 2 head_dim = 16\n"
                             f"mask = {mask} }}\n")

    def explain(self, *arguments, queries=Q, keys=K):
        return json.loads(self.succeed(
            "explain", "v.attn", "--q-len", queries, "--kv-len", keys, "--target",
            "x86-avx2", "--json", *arguments).out)

    def conditions(self, *arguments):
        return [line[len("mask: "):] for line in self.explain(*arguments)["reasons"]
                if line.startswith("mask: ")]

    def test_what_bounds_what(self):
        begin, end = "where the keys begin", "where the keys end"
        tiles = "tiles only: bounds no range of keys"
        for mask, lines in (
                ("causal", [f"causal: {end}; k <= q"]),
                ("k <= q", [f"k <= q: {end}"]),
                ("causal && sliding(5) && q != 3",
                 ["all of", f"  causal: {end}; k <= q",
                  f"  sliding(5): {begin}; k >= q - 4",
                  "  q != 3: which rows; q >= 4 or q <= 2"]),
                ("(k <= q && q - k < 300) || k < 16",
                 ["any of", "  all of", f"    k <= q: {end}",
                  f"    q - k < 300: {begin}; k >= q - 299",
                  f"  k < 16: {end}; k <= 15"]),
                ("window(4, 2, 3)",
                 [f"window(4, 2, 3): makes residue classes dense; {begin} and {end}; "
                  "k >= q - 12 and k <= q + 6"]),
                ("k % 2 == q % 2 && k < 9",
                 ["all of", "  k % 2 == q % 2: makes residue classes dense; which rows; "
                  "q >= 0 or (((q) % 2) <= 0 and -((q) % 2) <= 0)",
                  f"  k < 9: {end}; k <= 8"]),
                ("(k - 2 * q) % 5 == 0", [f"(k - 2 * q) % 5 == 0: {tiles}"]),
                ("true", ["true: every key"]), ("false", ["false: no key"])):
            self.variant(mask)
            self.assertEqual(self.conditions(), lines, mask)
            text = self.succeed("explain", "v.attn").out
            for line in lines:
                self.assertRegex(text, f"(?m)^  (mask|    )     {re.escape(line)}$")
        self.variant("causal && doc[b, q] == doc[b, k]", "doc: i32[batch, tokens]")
        self.assertEqual(self.conditions("--param", "doc=random"),
                         ["all of", f"  causal: {end}; k <= q",
                          f"  doc[b, q] == doc[b, k]: {tiles}"])
        self.variant("window(3) || global(t)", "t: tokens")
        self.assertIn("gathered", self.conditions("--param", "t=[3]")[2])
        self.write("v.attn", support.DENSE)
        self.assertEqual(self.conditions(), [])

    def test_not_understood(self):
        self.variant("k * k % 7 < 3 && causal")
        result = self.explain()
        allowed = sum(k * k % 7 < 3 for q in range(Q) for k in range(q + SHIFT + 1))
        self.assertEqual((result["allowed_pairs"], result["open_pairs"]), (allowed, 0))
        self.assertEqual(self.conditions()[1],
                         "  k * k % 7 < 3: not understood: the tiles it may matter to "
                         "are masked")
        self.assertIn("mask: in 'k * k % 7 < 3', arith.muli at 2:8 is not understood",
                      result["reasons"])
        self.variant("q * k < 100")
        result = self.explain(queries=1000, keys=1000)
        self.assertGreaterEqual(result["visited_pairs"], 1000 * 1000)
        self.assertGreater(result["undecided"]["tiles"], 0)
        self.assertIn(f"{result['undecided']['pairs']} pairs",
                      " ".join(result["reasons"]))

    def test_pairs_are_those_of_the_mask(self):
        numbers = random.Random(7)
        eighths = lambda count: [numbers.randrange(-16, 17) / 8 for _ in range(count)]
        n = [numbers.randrange(-3, 4) for _ in range(K)]
        w, flags = eighths(K), [numbers.randrange(2) for _ in range(Q * K)]
        table = [numbers.randrange(K) for _ in range(4)]
        self.save("n.npy", (1, K), n, "i4")
        self.save("w.npy", (K,), w)
        self.save("flags.npy", (1, Q, K), flags, "b1")
        self.save("table.npy", (4,), table, "i4")
        params = {"n": "i32[batch, tokens]", "w": "f32[keys]",
                  "flags": "bool[batch, queries, keys]", "table": "i32[4]"}
        flag = lambda q, k: flags[(q - SHIFT) * K + k]
        at = lambda values, i: values[min(max(i, 0), len(values) - 1)]
        sign = lambda x: (x > 0) - (x < 0)
        rem = lambda x, y: sign(x) * (abs(x) % abs(y))
        div = lambda x, y: sign(x) * sign(y) * (abs(x) // abs(y))
        for mask, allows in (
                ("flags[b, q, k]", flag),
                ("!flags[b, q, k] && k <= q", lambda q, k: not flag(q, k) and k <= q),
                ("flags[b, q, k] == (n[b, k] > 0)",
                 lambda q, k: flag(q, k) == (n[k] > 0)),
                ("flags[b, q, k] != (k < 9)", lambda q, k: flag(q, k) != (k < 9)),
                ("n[b, k] + n[b, q] > 0", lambda q, k: n[k] + n[q] > 0),
                ("n[b, k - 3] == n[b, q + 3]",
                 lambda q, k: at(n, k - 3) == at(n, q + 3)),
                ("n[b, k] * n[b, q] <= min(n[b, k], 1)",
                 lambda q, k: n[k] * n[q] <= min(n[k], 1)),
                ("max(n[b, k], -n[b, q]) >= abs(n[b, k] - 1)",
                 lambda q, k: max(n[k], -n[q]) >= abs(n[k] - 1)),
                ("(n[b, k] * 5 - q) % 4 < 1 && (q - 2 * k) / 3 != n[b, k]",
                 lambda q, k: rem(n[k] * 5 - q, 4) < 1
                 and div(q - 2 * k, 3) != n[k]),
                ("n[b, k] < 0 ? k < table[q % 4] : flags[b, q, k]",
                 lambda q, k: k < table[q % 4] if n[k] < 0 else flag(q, k)),
                ("w[k] > 0.3", lambda q, k: w[k] > 0.3),
                ("w[k] * k - q / 2.0 <= 0.05 || -w[k] == 1.0",
                 lambda q, k: w[k] * k - q / 2 <= 0.05 or -w[k] == 1),
                ("floor(w[k]) != w[k] && exp(w[k]) < 2.0",
                 lambda q, k: math.floor(w[k]) != w[k] and math.exp(w[k]) < 2),
                ("(flags[b, q, k] ? exp2(w[k]) : tanh(w[k])) >= 0.51",
                 lambda q, k: (2 ** w[k] if flag(q, k) else math.tanh(w[k])) >= 0.51),
                ("log(3.0 + w[k]) + log2(3.0 + w[k]) > sqrt(3.0 + w[k])",
                 lambda q, k: math.log(3 + w[k]) + math.log2(3 + w[k])
                 > math.sqrt(3 + w[k])),
                ("1.0 / (3.0 + w[k]) < max(w[q] + k, 0.3)",
                 lambda q, k: 1 / (3 + w[k]) < max(w[q] + k, 0.3))):
            used = {name: kind for name, kind in params.items()
                    if f"{name}[" in mask}
            self.variant(mask, ", ".join(f"{n}: {t}" for n, t in used.items()))
            allowed = sum(bool(allows(q, k)) for q in range(SHIFT, K)
                          for k in range(K))
            for count in range(len(used) + 1):
                for given in itertools.combinations(used, count):
                    with self.subTest(mask=mask, given=given):
                        flags_given = [x for name in given
                                       for x in ("--param", f"{name}={name}.npy")]
                        result = self.explain(*flags_given)
                        least, some = result["allowed_pairs"], result["open_pairs"]
                        self.assertGreaterEqual(result["visited_pairs"], least + some)
                        if count == len(used):
                            self.assertEqual((least, some), (allowed, 0))
                            continue
                        self.assertLessEqual(least, allowed)
                        self.assertLessEqual(allowed, least + some)
                        self.assertGreater(some, 0)

    def test_open_pairs(self):
        params = "n: i32, flags: bool[queries, keys], t: tokens"
        triangle = Q * SHIFT + Q * (Q + 1) // 2
        for mask, least, some in (
                ("causal && k < n", 0, triangle),
                ("causal || k < n", triangle, Q * K - triangle),
                ("!(causal && k < n)", Q * K - triangle, triangle),
                ("causal ? k < n : flags[q, k]", 0, Q * K),
                ("(k < n) != flags[q, k] && k < 4", 0, 4 * Q),
                ("causal && (k < n || k < 4)", 4 * Q, triangle - 4 * Q),
                ("causal && (flags[q, k] ? true : true)", triangle, 0),
                # Without a value a list of tokens is empty.
                ("window(0) || global(t)", Q, 0),
                ("causal && !global(t)", triangle, 0)):
            self.variant(mask, params)
            result = self.explain()
            self.assertEqual((result["allowed_pairs"], result["open_pairs"]),
                             (least, some), mask)
            self.assertEqual(result["flops"], 2 * (16 + 16) * 2 * (least + some))
            text = self.succeed("explain", "v.attn", "--q-len", Q, "--kv-len", K).out
            self.assertEqual(f"for {least} allowed and {some} open, per head" in text,
                             some > 0, mask)
            for name in ("n", "flags", "t"):
                self.assertEqual(f"'{name}' is not given" in text,
                                 re.search(rf"\b{name}\b", mask) is not None, mask)

    def test_without_values_it_ends(self):
        for name in ("bigbird", "packed_documents", "token_tree", "prefix_lm"):
            result = json.loads(self.succeed(
                "explain", ROOT / f"examples/{name}.attn", "--q-len", 4096,
                "--json").out)
            self.assertGreater(result["open_pairs"], 0, name)

    def test_figures_of_the_readme(self):
        """`attnc explain` rows: visited, allowed and their ratio."""
        rows = re.findall(r"^\|.*\| (\d+) \| (\d+) \| ([\d.]+) \| `attnc (explain .*)` \|$",
                          (ROOT / "README.md").read_text(), re.M)
        self.assertGreater(len(rows), 8)
        for visited, allowed, ratio, command in rows:
            process = subprocess.run(
                ["bash", "-c", f'attnc() {{ "$ATTNC" "$@"; }}; attnc {command}'],
                cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
            self.assertIn(f"pairs    {visited} visited for {allowed} allowed ({ratio})",
                          process.stdout, command)

    def test_printed_in_the_readme(self):
        """What follows `$ attnc explain`, as far as it is shown."""
        shown = re.findall(r"^\$ attnc (explain .*)\n((?:.+\n)+?)```$",
                           (ROOT / "README.md").read_text(), re.M)
        self.assertGreater(len(shown), 1)
        for command, text in shown:
            arguments = shlex.split(command)
            arguments[1] = ROOT / arguments[1]
            self.assertTrue(self.succeed(*arguments).out.startswith(text), command)


if __name__ == "__main__":
    support.main()

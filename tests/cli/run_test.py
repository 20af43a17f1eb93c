"""attnc run: arrays in, arrays out, and every refusal by name."""

import math

import support
from support import CAUSAL, DENSE, decode, encode, npy

Q, KV = (2, 4, 5, 24), (2, 2, 7, 24)


def evaluate(q, k, v, shape_q, shape_k, causal=False, kv_lens=None):
    """The output and the LSE, in double precision, keys aligned at the end."""
    batch, heads, q_len, width = shape_q
    _, kv_heads, kv_len, _ = shape_k
    out, lse = [], []
    for b in range(batch):
        length = kv_lens[b] if kv_lens else kv_len
        for h in range(heads):
            g = h * kv_heads // heads
            for i in range(q_len):
                row = ((b * heads + h) * q_len + i) * width
                scores = []
                for j in range(length):
                    key = ((b * kv_heads + g) * kv_len + j) * width
                    if causal and j > i + length - q_len:
                        break
                    scores.append(sum(q[row + d] * k[key + d]
                                      for d in range(width)) / math.sqrt(width))
                if not scores:
                    out += [0.0] * width
                    lse.append(-math.inf)
                    continue
                top = max(scores)
                weights = [math.exp(s - top) for s in scores]
                total = sum(weights)
                lse.append(top + math.log(total))
                for d in range(width):
                    out.append(sum(
                        w * v[((b * kv_heads + g) * kv_len + j) * width + d]
                        for j, w in enumerate(weights)) / total)
    return out, lse


class Run(support.Case):
    def close(self, got, want):
        self.assertEqual(len(got), len(want))
        for a, b in zip(got, want):
            self.assertTrue(a == b or abs(a - b) <= 1e-4, (a, b))

    def expected(self, **options):
        (sq, q), (sk, k), (_, v) = (self.load(f"{n}.npy") for n in "qkv")
        return evaluate(q, k, v, sq, sk, **options)

    def test_text_and_bundle_agree_and_are_right(self):
        self.write("dense.attn", DENSE)
        inputs = self.tensors(Q, KV, KV)
        line = self.succeed("run", "dense.attn", *inputs, "--out", "o.npy",
                            "--lse", "l.npy").out
        self.assertRegex(line, r"^dense: q \[2, 4, 5, 24\] k \[2, 2, 7, 24\] "
                               r"v \[2, 2, 7, 24\] .*jit.* ms\n$")
        out, lse = self.expected()
        shape, got = self.load("o.npy")
        self.assertEqual(shape, Q)
        self.close(got, out)
        shape, got = self.load("l.npy")
        self.assertEqual(shape, Q[:3])
        self.close(got, lse)
        self.succeed("compile", "dense.attn", "-o", "dense.so")
        line = self.succeed("run", "dense.so", *inputs, "--out", "o2.npy").out
        self.assertIn("bundle", line)
        self.assertEqual(self.files()["o.npy"], self.files()["o2.npy"])

    def test_every_target_that_runs_here(self):
        self.write("causal.attn", CAUSAL)
        inputs = self.tensors((1, 2, 9, 16), (1, 2, 6, 16), (1, 2, 6, 16))
        out, _ = self.expected(causal=True)
        ran = 0
        for line in self.succeed("targets").out.splitlines():
            name = line.split()[0]
            if "runs here" in line or "interpreter" in line:
                self.succeed("run", "causal.attn", *inputs, "--target", name,
                             "--out", "o.npy")
                self.close(self.load("o.npy")[1], out)
                ran += 1
            else:
                self.refuse("run", "causal.attn", *inputs, "--target", name,
                            says=[name, "lacks"])
        self.assertGreater(ran, 0)

    def test_half_precision(self):
        # Each tensor in its own type, and the results of it.
        numpy = {"f32": "f4", "f16": "f2", "bf16": "u2"}
        tolerance = {"f32": 2e-5, "f16": 2e-3, "bf16": 1e-2}
        for q, kv, out in (("f16",) * 3, ("bf16",) * 3, ("bf16", "f16", "f32"),
                           ("f32", "bf16", "f16")):
            self.write("half.attn", DENSE.replace(
                "}", f"  type = {{ q = {q}, kv = {kv}, out = {out} }}\n}}"))
            inputs = self.tensors(Q, KV, KV)
            held = []
            for name, kind in zip("qkv", (q, kv, kv)):
                shape, values = self.load(f"{name}.npy")
                kind = numpy[kind]
                if kind != "f4":
                    bits = [encode(x, kind) for x in values]
                    self.save(f"{name}.npy", shape, bits, kind)
                    values = [decode(x, kind) for x in bits]
                held.append(values)
            want, lse = evaluate(*held, Q, KV)
            for extra in ((), ("--type", kv)):
                self.succeed("run", "half.attn", *inputs, *extra, "--out", "o.npy",
                             "--lse", "l.npy")
            self.assertIn(f"'<{numpy[out]}'".encode(), self.files()["o.npy"])
            shape, got = self.load("o.npy")
            self.assertEqual(shape, Q)
            if out != "f32":
                got = [decode(x, numpy[out]) for x in got]
            largest = max(1, max(map(abs, held[2])))
            for a, b in zip(got, want):
                self.assertLessEqual(abs(a - b), tolerance[out] * largest)
            self.close(self.load("l.npy")[1], lse)
            self.assertRegex(self.succeed("run", "half.attn", *inputs).out,
                             r"mean .*, 0 not finite")

    def test_types_are_named(self):
        self.write("half.attn", DENSE.replace("}", "  type = bf16\n}"))
        inputs = self.tensors(Q, KV, KV)
        self.refuse("run", "half.attn", *inputs, says=["q.npy", "'f4'", "'u2'", "bf16"])
        self.refuse("run", "half.attn", *inputs, "--type", "f16",
                    says=["--type f16", "bf16"])
        self.refuse("run", "half.attn", *inputs, "--type", "f64",
                    says=["--type", "f64", "bf16"])

    def test_threads_do_not_change_bits(self):
        self.write("dense.attn", DENSE)
        inputs = self.tensors((1, 4, 200, 24), (1, 2, 90, 24), (1, 2, 90, 24))
        seen = set()
        for threads in (1, 2, 5):
            self.succeed("run", "dense.attn", *inputs, "--threads", threads,
                         "--out", "o.npy")
            seen.add(self.files()["o.npy"])
        self.assertEqual(len(seen), 1)

    def test_lengths(self):
        self.write("dense.attn", DENSE)
        inputs = self.tensors(Q, KV, KV)
        self.save("lens.npy", (2,), [3, 0], "i4")
        self.succeed("run", "dense.attn", *inputs, "--kv-lens", "lens.npy",
                     "--out", "o.npy", "--lse", "l.npy")
        out, lse = self.expected(kv_lens=[3, 0])
        self.close(self.load("o.npy")[1], out)
        self.close(self.load("l.npy")[1], lse)
        for bad, says in (([3, 8], "8"), ([-1, 2], "-1")):
            self.save("bad.npy", (2,), bad, "i8")
            self.refuse("run", "dense.attn", *inputs, "--kv-lens", "bad.npy",
                        says=["kv_lens", says])
        self.save("bad.npy", (3,), [1, 1, 1], "i4")
        self.refuse("run", "dense.attn", *inputs, "--kv-lens", "bad.npy",
                    says=["kv_lens"])
        self.save("bad.npy", (2,), [1.0, 1.0])
        self.refuse("run", "dense.attn", *inputs, "--kv-lens", "bad.npy",
                    says=["kv_lens", "f4"])

    def test_layout_bthd(self):
        self.write("dense.attn", DENSE)
        inputs = self.tensors(Q, KV, KV)
        self.succeed("run", "dense.attn", *inputs, "--out", "o.npy")
        _, straight = self.load("o.npy")
        for name in "qkv":
            (b, h, t, d), x = self.load(f"{name}.npy")
            turned = [x[((i * h + j) * t + k) * d + e] for i in range(b)
                      for k in range(t) for j in range(h) for e in range(d)]
            self.save(f"{name}.npy", (b, t, h, d), turned)
        self.succeed("run", "dense.attn", *inputs, "--layout", "bthd", "--out",
                     "o.npy")
        (b, t, h, d), turned = self.load("o.npy")
        self.assertEqual((b, h, t, d), Q)
        self.assertEqual(straight, [turned[((i * t + k) * h + j) * d + e]
                                    for i in range(b) for j in range(h)
                                    for k in range(t) for e in range(d)])

    def test_summary(self):
        self.write("dense.attn", DENSE)
        out = self.succeed("run", "dense.attn", *self.tensors(Q, KV, KV)).out
        self.assertEqual(len(out.splitlines()), 2)
        self.assertRegex(out, r"mean .*, from .* to .*, 0 not finite")

    def test_empty_tensors(self):
        self.write("dense.attn", DENSE)
        self.succeed("run", "dense.attn", *self.tensors((0, 4, 5, 24),
                     (0, 2, 7, 24), (0, 2, 7, 24)), "--out", "o.npy")
        self.assertEqual(self.load("o.npy"), ((0, 4, 5, 24), []))
        self.succeed("run", "dense.attn", *self.tensors((1, 4, 2, 24),
                     (1, 2, 0, 24), (1, 2, 0, 24)), "--out", "o.npy")
        self.assertEqual(self.load("o.npy")[1], [0.0] * 4 * 2 * 24)

    def test_wrong_tensors(self):
        self.write("dense.attn", DENSE)
        def refuse(q, k, v, *says):
            inputs = self.tensors(q, k, v)
            self.refuse("run", "dense.attn", *inputs, "--out", "o.npy",
                        says=says)
        refuse((2, 3, 5, 24), KV, KV, "'q'", "heads", "3")
        refuse(Q, (2, 4, 7, 24), KV, "'k'", "heads", "4")
        refuse(Q, (2, 2, 7, 23), KV, "'k'", "23")
        refuse(Q, KV, (2, 2, 6, 24), "'v'", "6")
        refuse(Q, KV, (1, 2, 7, 24), "'v'", "batch")
        refuse((4, 5, 24), KV, KV, "q", "3 dimensions")

    def test_files_that_are_no_arrays(self):
        self.write("dense.attn", DENSE)
        inputs = self.tensors(Q, KV, KV)
        count = support.product(Q)
        good = npy(Q, [0.0] * count)
        for content, says in (
                (b"", "not a .npy file"),
                (b"\x93NUMPY\x01\x00\xff", "not a .npy file"),
                (good[:40], "header"),
                (good[:-1], "bytes of data"),
                (good + b"x", "bytes of data"),
                (good.replace(b"'shape'", b"'sharp'"), "sharp"),
                (good.replace(b"(2, 4", b"(2; 4"), "header"),
                (good.replace(b"(2,", b"(-2,", 1), "header"),
                (good[:6] + b"\x09" + good[7:], "version 9"),
                (npy(Q, [0.0] * count, order=">"), "big endian"),
                (npy(Q, [0.0] * count, fortran=True), "Fortran"),
                (npy(Q, [0.0] * count, "f8"), "f8"),
                (npy(Q, [0] * count, "f2"), "f2"),
                (npy((1 << 40, 1 << 40, 1, 1), []), "too large")):
            (self.dir / "q.npy").write_bytes(content)
            result = self.refuse("run", "dense.attn", *inputs, says=["q.npy"])
            self.assertIn(says, result.err)
        (self.dir / "q.npy").write_bytes(npy(Q, [0.0] * count, version=2))
        self.succeed("run", "dense.attn", *inputs)

    def test_damaged_bundles(self):
        self.write("dense.attn", DENSE)
        inputs = self.tensors(Q, KV, KV)
        self.succeed("compile", "dense.attn", "-o", "good.so")
        good = self.files()["good.so"]
        for name, content in (("half.so", good[:len(good) // 2]),
                              ("head.so", good[:64]), ("four.so", good[:4])):
            (self.dir / name).write_bytes(content)
            self.refuse("run", name, *inputs, says=[name])
        self.refuse("run", "good.so", *inputs, "--variant", "other",
                    says=["other", "dense"])
        self.refuse("run", "good.so", *inputs, "-D", "x=1", says=["-D"])

    def test_options(self):
        self.write("dense.attn", DENSE)
        inputs = self.tensors(Q, KV, KV)
        run = ("run", "dense.attn", *inputs)
        self.refuse(*run, "--param", "slope=1", says=["slope", "dense"])
        self.refuse(*run, "--param", "slope", says=["slope", "NAME="])
        self.refuse(*run, "--layout", "bdht", says=["bdht", "bhtd", "bthd"])
        self.refuse(*run, "--threads", "-1", says=["--threads"])
        self.refuse(*run, "--target", "abacus", says=["abacus", "host"])
        self.refuse(*run, "--out", "no/o.npy", says=["no/o.npy"])
        self.refuse("run", "dense.attn", "--q", "q.npy", says=["--k"])
        self.refuse("run", "dense.attn", "--q", "none.npy", "--k", "k.npy",
                    "--v", "v.npy", says=["none.npy"])
        self.write("two.attn", DENSE + CAUSAL)
        self.refuse("run", "two.attn", *inputs,
                    says=["--variant", "dense", "causal_small"])
        self.succeed("run", "two.attn", *inputs, "--variant", "dense")


if __name__ == "__main__":
    support.main()

"""--param: everything that is refused, by name, with what is allowed."""

import support
from support import npy

ALL = """attention all(n: i32, c: f32, on: bool, slope: f32[heads], half: f16[heads],
              brain: bf16[heads], doc: i32[batch, tokens], reach: i32[heads],
              bias: f32[heads, queries, keys], seen: bool[queries, keys],
              globals: tokens, first: i32[heads, 3]) {
  heads = 2  head_dim = 8
  let width = 3
  score = s + (on ? slope[h] : c) + bias[h, q, k] + half[h] + brain[h]
  mask  = sliding(n + width + reach[h]) && doc[b, q] == doc[b, k] && seen[q, k]
       || global(globals) || first[h, 0] == k
}
"""

# What is given, and what the message has beside it. Every value is for one
# sequence of 4 queries and 4 keys.
BAD = [
    # No NAME=VALUE at all.
    ("n", "NAME="), ("=3", "NAME="), ("=", "NAME="), ("", "NAME="),
    # Names.
    ("zz=1", "'all'", "'zz'", "n, c, on, slope"), ("N=1", "'N'", "n, c"),
    ("width=3", "'width'", "let", "-D"),
    # Integers.
    ("n=", "missing", "i32", "integer"), ("n= ", "missing", "i32"),
    ("n=x", "'x'", "i32"), ("n=0.5", "'0.5'", "i32"), ("n=1e3", "'1e3'"),
    ("n=0x10", "'0x10'"), ("n=1 2", "'2'"), ("n=true", "'true'"), ("n=inf", "'inf'"),
    ("n=2147483648", "2147483648", "32 bits"), ("n=-2147483649", "32 bits"),
    ("n=[1]", "list", "i32"), ("n=[]", "list"), ("n=1]", "']'"), ("n=,", "','"),
    # Floats.
    ("c=x", "'x'", "f32"), ("c=1.2.3", "'1.2.3'"), ("c=1e", "'1e'"), ("c=-", "'-'"),
    ("c=true", "'true'", "f32", "number"), ("c=1e39", "1e39", "too large", "f32"),
    ("half=65520", "65520", "f16"), ("brain=3.4e38", "3.4e38", "bf16"),
    # Bools.
    ("on=1", "'1'", "true or false"), ("on=True", "'True'", "true or false"),
    ("seen=[[true, 1, true, true]]", "'1'", "bool[queries, keys]"),
    # Brackets.
    ("slope=[1, 2", "']'", "f32[heads]"), ("slope=[1,, 2]", "missing"),
    ("slope=[1, 2,]", "missing"), ("slope=[1 2]", "'2]'"), ("slope=[", "missing"),
    ("slope=[1, 2]]", "']'", "left over"), ("slope=[1, 2] 3", "'3'", "left over"),
    ("slope=[1, x]", "'x'"), ("slope=[[1, 2]]", "2 deep", "1 dimension"),
    ("slope=[1, [2]]", "2 deep"), ("doc=[1, 2, 3, 4]", "2 dimensions"),
    ("doc=[[1, 2], [3]]", "1 long", "2"), ("doc=[[1, 2], 3]", "'3'", "list"),
    ("doc=[[1, [2]]]", "3 deep"), ("bias=" + 9 * "[" + "1" + 9 * "]", "8 deep"),
    ("bias=" + 100000 * "[", "8 deep"),
    # Shapes, by the runtime.
    ("slope=[1, 2, 3]", "'slope'", "heads", "3", "2"), ("slope=[]", "'slope'", "0"),
    ("doc=[[1, 2, 3]]", "'doc'", "tokens", "3", "4"),
    ("doc=[[0,0,0,0],[0,0,0,0]]", "'doc'", "batch", "2"),
    ("seen=[[true,true],[true,true]]", "'seen'", "queries", "2", "4"),
    ("first=[[1, 2], [1, 2]]", "'first'", "2", "3"),
    # Lists of tokens.
    ("globals=x", "'x'", "tokens"), ("globals=[0.5]", "'0.5'"),
    ("globals=[[[1]]]", "3 deep", "2 dimensions"),
    ("globals=[0, 4]", "'globals'", "4"), ("globals=7", "'globals'", "7"),
    ("globals=99999999999", "'globals'", "99999999999"),
    ("globals=[99999999999999999999]", "64 bits"),
    ("globals=[[0], [1]]", "'globals'", "batch", "2"),
    # Made-up values.
    ("n=random", "scalar", "i32"), ("on=random", "scalar"),
    ("reach=random", "positions", "i32[heads]"), ("first=random:3", "positions"),
    ("slope=random:", "seed"), ("slope=random:x", "'x'", "seed"),
    ("slope=random:-1", "'-1'", "seed"), ("slope=random:1 ", "'1 '"),
    ("slope=random:18446744073709551616", "18446744073709551615"),
    ("slope=randomly", "'randomly'", "random:SEED"),
    # Files.
    ("slope=none.npy", "none.npy", "f32[heads]"), ("slope=text.npy", "not a .npy"),
    ("slope=.npy", "'.npy'", "not a number"),
    ("slope=half.npy", "'f2'", "'f4'"), ("slope=double.npy", "'f8'", "'f4'"),
    ("half=single.npy", "'f4'", "'f2'"), ("brain=half.npy", "'f2'", "'u2'", "bf16"),
    ("doc=double.npy", "'f8'", "'i4'"), ("doc=long.npy", "'i8'", "'i4'"),
    ("seen=whole.npy", "'i4'", "'b1', 'u1' or 'i1'"),
    ("globals=single.npy", "'f4'", "'i4' or 'i8'"), ("n=whole.npy", "'n'", "1", "0"),
    ("slope=square.npy", "'slope'", "2", "1"), ("globals=whole.npy", "'globals'", "2"),
]


class BadParams(support.Case):
    def setUp(self):
        super().setUp()
        self.write("all.attn", ALL)
        self.write("text.npy", "1, 2")
        for name, kind in (("half", "f2"), ("single", "f4"), ("double", "f8"),
                           ("whole", "i4"), ("long", "i8")):
            self.save(f"{name}.npy", (2,), [0, 0], kind)
        self.save("square.npy", (2, 2), [0.0] * 4)

    def test_values(self):
        for given, *says in BAD:
            with self.subTest(given=given[:40]):
                self.refuse("explain", "all.attn", "--q-len", 4, "--param", given,
                            says=["--param" if "'all'" in says or "=" not in given
                                  else given.split("=")[0], *says])

    def test_a_message_stays_short(self):
        for given in ("slope=[" + "1, " * 40000 + "x]", "slope=" + "9x" * 40000,
                      "zz" * 40000 + "=1", "slope=[1" + "]" * 100000):
            error = self.refuse("explain", "all.attn", "--param", given).err
            self.assertLess(len(error), 2000)

    def test_every_command(self):
        self.write("two.attn", "attention two(n: i32, slope: f32[heads]) {\n"
                   "  heads = 2  head_dim = 8\n  score = s + slope[h]\n"
                   "  mask = sliding(n)\n}\n")
        inputs = self.tensors((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8))
        for command in (["run", "two.attn", *inputs, "--out", "o.npy"],
                        ["bench", "two.attn", "--q-len", 4, "--seconds", 0],
                        ["explain", "two.attn", "--q-len", 4],
                        ["plot", "two.attn", "--q-len", 4, "-o", "p.svg"]):
            def refuse(*params, says):
                flags = [x for p in params for x in ("--param", p)]
                self.refuse(*command, *flags, says=says)
            refuse("n=x", "slope=1", says=["n=x", "'x'", "i32"])
            refuse("m=1", says=["'m'", "n, slope"])
            refuse("n=1", "slope=1", "n=2", says=["n=2", "n=1", "already"])
            refuse("n=random", "slope=1", says=["n=random", "i32"])
            refuse("n=1", "slope=two.npy", says=["slope", "two.npy"])
            if command[0] == "run":
                refuse("n=1", "slope=random", says=["slope=random", "f32[heads]"])
            if command[0] in ("run", "bench"):
                refuse("n=1", says=["two", "'slope' (f32[heads])", "--param"])
                refuse(says=["'n' (i32)", "'slope' (f32[heads])", "--param"])

    def test_a_constant_takes_no_value(self):
        """What -D fixes is no parameter any more."""
        self.refuse("explain", "all.attn", "-D", "n=3", "--param", "n=3",
                    says=["'n'", "let", "-D"])
        self.write("none.attn", "attention none { heads = 1 head_dim = 8 }")
        self.refuse("explain", "none.attn", "--param", "n=3",
                    says=["'none'", "'n'", "it has none"])

    def test_files_of_bools(self):
        for name, kind, ok in (("b", "b1", True), ("u", "u1", True), ("i", "i1", True),
                               ("w", "u2", False)):
            (self.dir / f"{name}.npy").write_bytes(npy((3, 4), [1] * 12, kind))
            says = ["'seen'", "queries", "3"] if ok else ["'u2'", "'b1'"]
            self.refuse("explain", "all.attn", "--q-len", 4, "--param",
                        f"seen={name}.npy", says=says)


if __name__ == "__main__":
    support.main()

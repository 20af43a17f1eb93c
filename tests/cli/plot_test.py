"""attnc plot: the pixels, the numbers, the same bytes again, refusals."""

import itertools
import json
import re
import shlex
import struct
import xml.etree.ElementTree
import zlib

import support
from support import ROOT

# Where the first pair is, and the colours of the legend.
LEFT, TOP = 116, 252
SKIPPED, FULL, PARTIAL, ALLOWED = (
    (233, 236, 239), (66, 114, 183), (255, 232, 194), (242, 137, 0))
SVG = "{http://www.w3.org/2000/svg}"
PLAN = "rows=8,keys=6,score_vectors=1,value_rows=4"


def cell(longest):
    """Pixels of a pair."""
    return min(24, (768 + longest // 2) // longest)


class Png:
    """Decodes what `attnc plot` writes: 8 bits, RGB, not interlaced."""

    def __init__(self, data):
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        chunks, at = [], 8
        while at < len(data):
            length, kind = struct.unpack(">I4s", data[at:at + 8])
            body = data[at + 8:at + 8 + length]
            crc, = struct.unpack(">I", data[at + 8 + length:at + 12 + length])
            assert crc == zlib.crc32(kind + body)
            chunks.append((kind, body))
            at += 12 + length
        self.kinds = {kind for kind, _ in chunks}
        assert chunks[0][0] == b"IHDR" and chunks[-1] == (b"IEND", b"")
        self.width, self.height, *rest = struct.unpack(">IIBBBBB", chunks[0][1])
        assert rest == [8, 2, 0, 0, 0], rest
        raw = zlib.decompress(b"".join(b for k, b in chunks if k == b"IDAT"))
        stride = self.width * 3
        assert len(raw) == self.height * (stride + 1)
        self.rows, above = [], bytearray(stride)
        for y in range(self.height):
            line = raw[y * (stride + 1):(y + 1) * (stride + 1)]
            above = self.unfilter(line[0], bytearray(line[1:]), above)
            self.rows.append(above)

    @staticmethod
    def unfilter(kind, line, above):
        if kind == 0:
            return line
        if kind == 2:
            return bytearray((a + b) & 255 for a, b in zip(line, above))
        for i in range(len(line)):
            left = line[i - 3] if i >= 3 else 0
            if kind == 1:
                guess = left
            elif kind == 3:
                guess = (left + above[i]) // 2
            else:
                corner = above[i - 3] if i >= 3 else 0
                p = left + above[i] - corner
                guess = min((left, above[i], corner),
                            key=lambda v, p=p: abs(p - v))
            line[i] = (line[i] + guess) & 255
        return line

    def pixel(self, x, y):
        return tuple(self.rows[y][3 * x:3 * x + 3])


class Plot(support.Case):
    def variant(self, mask, heads="heads = 4", more=""):
        return self.write(
            "v.attn", f"attention v {{ {heads} head_dim = 16 {more}"
            f"{f' mask = {mask}' if mask else ''} }}\n")

    def plot(self, name, *arguments):
        self.assertEqual(self.succeed("plot", *arguments, "-o", name).out, "")
        return (self.dir / name).read_bytes()

    def words(self, svg):
        root = xml.etree.ElementTree.fromstring(svg)
        self.assertEqual(root.tag, SVG + "svg")
        return [text.text for text in root.iter(SVG + "text")]

    def numbers(self, words):
        text = "\n".join(words)
        found = re.search(r"^(\d+) pairs visited(?: for (\d+) allowed|, none)",
                          text, re.M)
        tiles = {kind: int(re.search(rf"^{kind} tiles.*\((\d+)\)$", text,
                                     re.M).group(1))
                 for kind in ("full", "partial", "skipped")}
        return int(found.group(1)), int(found.group(2) or 0), tiles

    def test_numbers_are_those_of_explain(self):
        cases = itertools.product(
            (None, "causal", "causal && sliding(16)", "window(3, 20)",
             "q - k >= 5 && k % 2 == q % 2", "k < 0"),
            (("heads = 4", ()), ("heads = 8 kv_heads = 2", ()),
             ("heads = 4", ("--plan", PLAN))),
            ((64, 64), (1, 300), (200, 77), (1000, 1000)))
        for mask, (heads, plan), (queries, keys) in cases:
            with self.subTest(mask=mask, heads=heads, plan=plan, queries=queries):
                self.variant(mask, heads)
                lengths = ("--q-len", queries, "--kv-len", keys,
                           "--target", "x86-avx2", *plan)
                explained = json.loads(
                    self.succeed("explain", "v.attn", *lengths, "--json").out)
                visited, allowed, tiles = self.numbers(self.words(
                    self.plot("v.svg", "v.attn", *lengths, "--head", 1)))
                self.assertEqual(allowed, explained["allowed_pairs"])
                self.assertEqual(visited, explained["visited_pairs"])
                self.assertEqual(tiles, explained["tiles"])

    def check_pairs(self, allows, queries, keys, *arguments):
        """Every pair has the colour that the mask gives it."""
        image = Png(self.plot("v.png", "v.attn", "--q-len", queries, "--kv-len",
                              keys, *arguments))
        size = cell(max(queries, keys))
        seen = set()
        for i in range(queries):
            for k in range(keys):
                color = image.pixel(LEFT + k * size + size // 2,
                                    TOP + i * size + size // 2)
                seen.add(color)
                wanted = (FULL, ALLOWED) if allows(i, k) else (SKIPPED, PARTIAL)
                self.assertIn(color, wanted, (i, k, arguments))
        return seen

    def test_every_pair(self):
        self.variant("causal && sliding(16)")
        seen = self.check_pairs(lambda q, k: 0 <= q - k < 16, 64, 64, "--plan",
                                PLAN, "--target", "x86-avx2")
        self.assertEqual(seen, {SKIPPED, FULL, PARTIAL, ALLOWED})
        # Queries are the last tokens; those before the first key see nothing.
        self.variant("window(4, 0, 2)")
        self.check_pairs(lambda q, k: q + 12 - k in (0, 2, 4, 6, 8), 8, 20)
        self.check_pairs(lambda q, k: q - 6 - k in (0, 2, 4, 6, 8), 14, 8)
        self.variant("causal", more="align = top_left")
        self.check_pairs(lambda q, k: k <= q, 9, 14)
        # Four heads share the rows of a tile.
        self.variant("causal", "heads = 8 kv_heads = 2")
        self.check_pairs(lambda q, k: k <= q, 33, 33, "--head", 6, "--plan", PLAN,
                         "--target", "x86-avx2")

    def test_listed_tokens(self):
        """Columns of listed keys, rows of listed queries, nothing else."""
        lists = ([], [0], [0, 1, 20, 38], [39, 3, 3, 17, 16], list(range(0, 40, 3)))
        for dilation, tokens in itertools.product((1, 3), lists):
            self.write("v.attn", "attention v(t: tokens) { heads = 4 head_dim = 16 "
                       f"mask = window(5, 4, {dilation}) || global(t) }}\n")
            given = ("--param", f"t={tokens}", "--plan", PLAN, "--target", "x86-avx2")
            inside = lambda q, k, d=dilation: ((k - q) % d == 0
                                               and -5 * d <= k - q <= 4 * d)
            for queries in (40, 25):
                shift = 40 - queries
                self.check_pairs(
                    lambda i, k, s=shift, t=tokens, inside=inside:
                    inside(i + s, k) or k in t or i + s in t, queries, 40, *given)
                lengths = ("--q-len", queries, "--kv-len", 40, *given)
                explained = json.loads(
                    self.succeed("explain", "v.attn", *lengths, "--json").out)
                visited, allowed, tiles = self.numbers(self.words(
                    self.plot("v.svg", "v.attn", *lengths, "--head", 1)))
                self.assertEqual(allowed, sum(
                    inside(q, k) or k in tokens or q in tokens
                    for q in range(shift, 40) for k in range(40)))
                self.assertEqual((visited, allowed, tiles),
                                 tuple(explained[name] for name in
                                       ("visited_pairs", "allowed_pairs", "tiles")))

    def test_listed_tokens_of_many(self):
        """One token of thousands is a line of its own."""
        self.write("v.attn", "attention v(t: tokens) { heads = 4 head_dim = 16 "
                   "mask = window(256) || global(t) }\n")
        image = Png(self.plot("v.png", "v.attn", "--q-len", 8192, "--param",
                              "t=[4096]", "--target", "x86-avx2"))
        at = lambda token: token * 768 // 8192
        line = [range(at(4096) - 3, at(4096) + 4)] * 2
        for far in (at(1000), at(7000)):
            for pixels in ([(LEFT + x, TOP + far) for x in line[0]],
                           [(LEFT + far, TOP + y) for y in line[1]]):
                self.assertIn(FULL, [image.pixel(*p) for p in pixels])
            self.assertNotEqual(image.pixel(LEFT + far + 20, TOP + at(4000)), FULL)

    def test_open_pairs(self):
        self.write("v.attn", "attention v(doc: i32[batch, tokens], n: i32) { heads = 4 "
                   "head_dim = 16 mask = causal && (doc[b, q] == doc[b, k] || k < n) }\n")
        words = lambda *given: "\n".join(self.words(self.plot(
            "v.svg", "v.attn", "--q-len", 30, *given)))
        self.assertIn("for 0 allowed and 465 open", words())
        self.assertIn("for 165 allowed and 300 open", words("-D", "n=6"))
        given = ("--param", f"doc={[[i // 10 for i in range(30)]]}", "--param", "n=6")
        allowed = sum(q // 10 == k // 10 or k < 6
                      for q in range(30) for k in range(q + 1))
        self.assertIn(f"for {allowed} allowed (", words(*given))

    def test_each_head(self):
        self.variant("causal && (h == 1 || q - k < 4)")
        for head in range(4):
            self.check_pairs(
                lambda q, k, h=head: k <= q and (h == 1 or q - k < 4), 20, 20,
                "--head", head)

    def test_tiles_of_a_long_window(self):
        self.variant("window(256)")
        arguments = ("v.attn", "--q-len", 8192, "--target", "x86-avx2",
                     "--plan", "rows=96,keys=96")
        image = Png(self.plot("v.png", *arguments))
        shades = set()
        for i, j in itertools.product(range(85), range(85)):
            color = image.pixel(LEFT + 9 * j + 5, TOP + 9 * i + 5)
            near, far = 96 * abs(i - j) - 95, 96 * abs(i - j) + 95
            if far <= 256:
                self.assertEqual(color, FULL, (i, j))
            elif i != j and near > 256:
                self.assertEqual(color, SKIPPED, (i, j))
            else:
                self.assertNotIn(color, (FULL, SKIPPED), (i, j))
                shades.add(color)
        self.assertIn(PARTIAL, shades)
        self.assertIn(ALLOWED, shades)

    def test_labels(self):
        self.variant("q - k < 5 && k <= q")
        words = self.words(self.plot("v.svg", "v.attn", "--q-len", 64,
                                     "--kv-len", 128, "--head", 3))
        self.assertEqual(words.count("0"), 1)  # queries start at 64
        for text in ("64", "112", "position of the key", "position of the query",
                     "v, head 3 of 4", "mask = q - k < 5 && k <= q"):
            self.assertIn(text, words)
        long = " && ".join(f"k != {n}" for n in range(90))
        self.variant(long)
        words = self.words(self.plot("v.svg", "v.attn", "--q-len", 8))
        self.assertTrue(any(w.startswith("mask = k != 0") and w.endswith("...")
                            for w in words))

    def test_same_bytes(self):
        text = (ROOT / "examples/plots/sliding.attn").read_text()
        self.write("v.attn", text)
        for kind, lengths in itertools.product(("svg", "png"), (64, 3000)):
            first = self.plot(f"a.{kind}", "v.attn", "--q-len", lengths)
            self.assertEqual(first, self.plot(f"b.{kind}", "v.attn", "--q-len",
                                              lengths))
            self.succeed("plot", "-", "--q-len", lengths, "-o", f"c.{kind}",
                         text=text)
            self.assertEqual(first, (self.dir / f"c.{kind}").read_bytes())
        image = Png(first)
        self.assertNotIn(b"tIME", image.kinds)
        root = xml.etree.ElementTree.fromstring((self.dir / "a.svg").read_bytes())
        self.assertEqual((int(root.get("width")), int(root.get("height"))),
                         (image.width, image.height))

    def test_pictures_of_the_readme(self):
        commands = re.findall(r"^\$ attnc (plot .*-o (\S+))$",
                              (ROOT / "README.md").read_text(), re.M)
        kept = sorted((ROOT / "examples/plots").glob("*.svg"))
        self.assertEqual(sorted(name for _, name in commands),
                         [str(p.relative_to(ROOT)) for p in kept])
        self.assertTrue(kept)
        for command, name in commands:
            arguments = shlex.split(command)
            arguments[1] = ROOT / arguments[1]
            arguments[-1] = "again.svg"
            self.succeed(*arguments)
            self.assertEqual((self.dir / "again.svg").read_bytes(),
                             (ROOT / name).read_bytes(),
                             f"{name} is not what its command in README.md makes")

    def test_refused(self):
        self.variant("causal")
        self.write("there.svg", "kept")
        refuse = lambda *a, **k: self.refuse("plot", "v.attn", *a, **k)
        refuse(says=["-o"])
        for name in ("v.gif", "v", "svg", ".svg", "-", "v.SVG", ""):
            refuse("-o", name, says=["-o", ".svg", ".png"])
        refuse("-o", "there.svg", "--head", 4,
               says=["--head 4", "'v' has 4 heads", "0 to 3"])
        refuse("-o", "there.svg", "--head", "-1", says=["--head"])
        for option in ("--q-len", "--kv-len"):
            for value in (0, -5, 32769, 1 << 40, "many"):
                refuse("-o", "there.svg", option, value, says=[option])
        refuse("-o", "there.svg", "--q-len", 32769, says=["32768"])
        refuse("-o", "there.svg", "--q-len", 32768, "--plan", PLAN,
               "--target", "x86-avx2", says=["tiles", "too many", "1000000"])
        refuse("-o", "there.svg", "--target", "fish", says=["fish"])
        refuse("-o", "there.svg", "--plan", "rows=7", says=["rows"])
        refuse("-o", "nowhere/v.svg", says=["nowhere/v.svg"])
        self.write("two.attn", support.DENSE + support.CAUSAL)
        self.refuse("plot", "two.attn", "-o", "v.svg", says=["--variant"])
        self.plot("v.svg", "two.attn", "--variant", "dense")


if __name__ == "__main__":
    support.main()

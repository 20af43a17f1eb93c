#!/usr/bin/env python3
"""usage: assembly_test.py LEVEL: what attnc makes of small variants for one
target, under the rules of checker.py or checker_arm.py. $ATTNC is the compiler."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import checker
import checker_arm

ATTNC = os.environ["ATTNC"]
# How elements are stored, and the widths of heads.
DIMS = {"f32": (64, 80, 128, 256), "f16": (64, 128), "bf16": (64, 128)}
MASKS = {"none": "true", "causal": "causal", "sliding": "causal && sliding(100)"}
MAX_CODE = 256 * checker.KIB
# Wider heads run the same loops longer; their code hardly grows.
MAX_GROWTH = 1.5
# The widest heads that are lowered.
WIDEST, MAX_WIDEST_GROWTH = 4096, 4


class Assembly(unittest.TestCase):
    level = None

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="attnc-assembly-")
        self.addCleanup(temporary.cleanup)
        self.dir = pathlib.Path(temporary.name)

    def emit(self, kind, dim, mask, stored="f32"):
        text = (f"attention a {{ heads = 4 kv_heads = 2 head_dim = {dim} "
                f"type = {stored} mask = {MASKS[mask]} }}\n")
        out = self.dir / f"a.{kind}"
        subprocess.run([ATTNC, "compile", "-", "--emit", kind, "--target",
                        self.level, "-o", out], input=text.encode(), check=True,
                       timeout=300)
        return out.read_bytes()

    def test_loops_and_instructions(self):
        for stored, dims in DIMS.items():
            for dim in dims:
                for mask in MASKS:
                    with self.subTest(stored=stored, dim=dim, mask=mask):
                        text = self.emit("asm", dim, mask, stored).decode()
                        found = (checker_arm.check(text)
                                 if self.level == "arm-neon"
                                 else checker.check(text, self.level))
                        self.assertEqual(found, [])

    def test_size(self):
        for mask in MASKS:
            sizes = {d: checker.code_bytes(self.emit("obj", d, mask))
                     for d in (*DIMS["f32"], WIDEST)}
            with self.subTest(mask=mask, sizes=sizes):
                self.assertGreater(min(sizes.values()), checker.KIB)
                self.assertLessEqual(max(sizes.values()), MAX_CODE)
                self.assertLessEqual(sizes[256], MAX_GROWTH * sizes[64])
                self.assertLessEqual(sizes[WIDEST], MAX_WIDEST_GROWTH * sizes[64])


if __name__ == "__main__":
    Assembly.level = sys.argv.pop(1)
    unittest.main(verbosity=1)

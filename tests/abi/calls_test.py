#!/usr/bin/env python3
"""Callers in C and C++, by GCC and Clang, with and
without optimisation."""

import unittest

import abi_support
from abi_support import COMPILERS, HERE


class Calls(abi_support.Case):
    def test_callers(self):
        here = abi_support.runs_here()
        self.assertIn("x86-64", here)
        self.compile_object(HERE / "calls.attn", "calls.o")
        expected = sorted(f"checked {variant} for {target}"
                          for variant in ("plain", "scored", "listed")
                          for target in here)
        for compiler, language in COMPILERS:
            for level in ("-O0", "-O2"):
                with self.subTest(compiler=compiler, level=level):
                    self.link(compiler, language, level, "-pthread", "-x", language,
                              HERE / "calls.c", "-x", "none",
                              HERE / "call_x86_64.S", "calls.o", "-o", "calls")
                    printed = self.run_tool("./calls").splitlines()
                    self.assertEqual(sorted(printed), expected)


if __name__ == "__main__":
    unittest.main(verbosity=1)

#!/usr/bin/env python3
"""usage: calls_test.py x86_64|aarch64: callers in C and C++, by GCC and Clang,
with and without optimisation; those of another machine through an emulator."""

import platform
import sys
import unittest

import abi_support
from abi_support import CLANG, CLANGXX, COMPILERS, HERE, LEVELS

TRIPLE = "aarch64-linux-gnu"
VARIANTS = ("plain", "scored", "listed")


class Calls(abi_support.Case):
    machine = None

    def test_callers(self):
        getattr(self, self.machine)()

    def expect(self, compiler, language, targets, start, *arguments):
        """Builds at both levels of optimisation; each kernel passes in each."""
        expected = sorted(f"checked {variant} for {target}"
                          for variant in VARIANTS for target in targets)
        for level in ("-O0", "-O2"):
            with self.subTest(compiler=compiler, language=language, level=level):
                self.build(compiler, language, level, "-x", language,
                           HERE / "calls.c", "-x", "none",
                           HERE / f"call_{self.machine}.S", "variants.o", *arguments,
                           "-o", "calls")
                printed = self.run_tool(*start, "./calls").splitlines()
                self.assertEqual(sorted(printed), expected)

    def x86_64(self):
        here = abi_support.runs_here()
        self.assertIn("x86-64", here)
        self.compile_object(HERE / "variants.attn", "variants.o", LEVELS)
        for compiler, language in COMPILERS:
            self.expect(compiler, language, here, [], *abi_support.runtime())

    def aarch64(self):
        foreign = platform.machine() != "aarch64"
        gcc = [f"{TRIPLE}-gcc" if foreign else "gcc"]
        clang = [CLANG, f"--target={TRIPLE}", "-fuse-ld=lld"]
        # Its C++ library may be missing; the callers need none.
        clangxx = [CLANGXX, *clang[1:], "-nostdinc++", "-nostdlib++"]
        start = ["qemu-aarch64", "-L", f"/usr/{TRIPLE}"] if foreign else []
        root = HERE.parents[1]
        sources = [*sorted((root / "runtime").glob("*.c")),
                   root / "targets/Devices.c", root / "targets/cuda/Device.c",
                   root / "targets/arm/Machine.c", root / "tests/cross/serial_pool.c"]
        self.run_tool(*gcc, "-std=gnu11", "-O2", "-c", f"-I{root}",
                      *abi_support.includes("-idirafter"), *sources)
        runtime = sorted(self.dir.glob("*.o"))
        self.assertEqual(len(runtime), len(sources))
        self.compile_object(HERE / "variants.attn", "variants.o", ["arm-neon"])
        for compiler, language in ((gcc, "c"), (clang, "c"), (clangxx, "c++")):
            self.expect(compiler, language, ["arm-neon"], start, *runtime,
                        "-lpthread", "-ldl", "-lm")


if __name__ == "__main__":
    Calls.machine = sys.argv.pop(1)
    unittest.main(verbosity=1)

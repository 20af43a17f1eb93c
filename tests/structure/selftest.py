#!/usr/bin/env python3
"""Each rule of check.py, on a small tree that breaks it and on one that does not."""

import pathlib
import tempfile
import unittest

import check

DEV = "#!/bin/bash\ncat <<'TEXT'\nusage\n  test   runs\n  bench  measures\nTEXT\n"
GOOD = {
    ".ci/run": "",
    ".clang-format": "",
    ".clang-tidy": "",
    ".gitignore": "",
    "CMakeLists.txt": "",
    "CMakePresets.json": "",
    "LICENSE": "",
    "README.md": "See [the language](dsl/README.md). `./dev test`, `attnc bench`.\n",
    "compiler/cmake/README.md": "Nothing.\n",
    "compiler/README.md": "`Plan.h` and `compiler/tools/attnc.cpp`.\n",
    "compiler/Plan.h": '#include "dsl/Spec.h"\n// to warm a transform, and sparse\n',
    "compiler/tools/attnc.cpp": '#include "dsl/Variant.h"\napp("bench");\n',
    "dev": DEV,
    "dsl/README.md": "`Spec.h`.\n",
    "dsl/Spec.h": "#include <string>\n",
    "dsl/Variant.h": '#include "dsl/Spec.h"\n',
    "examples/README.md": "Small programs.\n",
    "runtime/README.md": "`attn*.h`\n",
    "runtime/attn_abi.h": "",
    "targets/README.md": "A folder for each.\n",
    "targets/x86/README.md": "Where `x86` may be named: `Avx.cpp`.\n",
    "targets/x86/Avx.cpp": '#include "compiler/Plan.h"\nint avx2;\n',
    "tests/README.md": "Tests.\n",
    "tests/oracle/Oracle.cpp": '#include "dsl/Spec.h"\n',
    "tests/a.py": "import sys\n",
}


class Structure(unittest.TestCase):
    def breaches(self, rule, changes):
        """What `rule` says of the good tree with `changes` (None: removed)."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**GOOD, **changes}.items():
                if text is not None:
                    path = pathlib.Path(folder, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text)
            return [(n, r) for n, _, r in check.check(folder, [rule])]

    def breaks(self, rule, changes, name, words):
        found = self.breaches(rule, changes)
        self.assertEqual(len(found), 1, found)
        self.assertEqual(found[0][0], name)
        self.assertIn(words, found[0][1])

    def test_good_tree_passes(self):
        for rule in check.RULES:
            self.assertEqual(self.breaches(rule, {}), [], rule)

    def test_machine_words(self):
        for text in (
            "bool useAvx2;", "// for AVX-512", "int X86Target;", "NVVMDialect d;",
            'find("avx512f")', "LLVMInitializeX86Target();", "uint8_t zmm0;",
            "#include <cpuid.h>", "int arm_lanes;", "__x86_64__",
        ):
            for name in ("compiler/A.cpp", "dsl/A.h", "runtime/a.c", "compiler/A.td"):
                found = self.breaches("machine_words", {name: text + "\n"})
                self.assertEqual([n for n, _ in found], [name], text)
        for text in ("warm alarm farm", "sequence spark possess", "context extx"):
            self.assertEqual(self.breaches("machine_words", {"dsl/A.h": text}), [])

    def test_variant_words(self):
        for text in ("op.getMask();", "// a dilated row", "GlobalFields globals;",
                     "bool isCausal;", "int window_size;"):
            found = self.breaches("variant_words", {"targets/cuda/A.cpp": text + "\n"})
            self.assertEqual([n for n, _ in found], ["targets/cuda/A.cpp"], text)
        for name, text in (("targets/cuda/A.cpp", "global memory, members"),
                           ("targets/cpu/A.cpp", "op.getMask();")):
            self.assertEqual(self.breaches("variant_words", {name: text + "\n"}), [])

    def test_includes(self):
        for name, path in (
            ("compiler/A.cpp", "dsl/Lexer.h"),
            ("compiler/A.cpp", "dsl/Variant.h"),
            ("compiler/A.cpp", "targets/x86/Avx.h"),
            ("compiler/A.cpp", "../dsl/Lexer.h"),
            ("compiler/tools/a.cpp", "dsl/Lexer.h"),
            ("dsl/A.cpp", "compiler/Plan.h"),
            ("runtime/a.c", "dsl/Spec.h"),
            ("targets/x86/A.cpp", "compiler/Compiler.h"),
            ("tests/a.cpp", "runtime/cache.h"),
            ("tests/oracle/A.cpp", "compiler/Plan.h"),
            ("tests/dsl/a.cpp", "compiler/Tile.h"),
            ("examples/a.c", "runtime/pool.h"),
        ):
            self.breaks("includes", {name: f'#include "{path}"\n'}, name, "may not include")
        unit = {"tests/dsl/a.cpp": '#include "dsl/Lexer.h"\n'}
        self.assertEqual(self.breaches("includes", unit), [])
        for name, path in (
            ("dsl/A.cpp", "mlir/IR/Builders.h"), ("runtime/a.c", "llvm-c/Core.h"),
            ("tests/oracle/A.cpp", "llvm/ADT/StringRef.h"),
        ):
            self.breaks("includes", {name: f"#include <{path}>\n"}, name, "knows no")

    def test_readmes(self):
        self.breaks("readmes", {"dsl/README.md": None, "README.md": ""}, "dsl", "no README")
        self.breaks("readmes", {"targets/x86/README.md": None}, "targets/x86", "no README")
        for text in ("`Gone.h`", "`dsl/Gone.cpp`", "`gone/folder`", "`Gone*.h`"):
            self.breaks("readmes", {"dsl/README.md": text}, "dsl/README.md", "not there")
        self.breaks("readmes", {"README.md": "[a](dsl/Gone.md)"}, "README.md", "broken link")

    def test_commands(self):
        self.breaks("commands", {"README.md": "`./dev fly`"}, "README.md", "no command fly")
        self.breaks("commands", {"README.md": "$ attnc fly x"}, "README.md", "no command fly")
        table = "# Figures\n| what | by |\n|---|---|\n| 85 % | {} |\n"
        self.breaks("commands", {"README.md": table.format("us")}, "README.md", "without")
        good = {"README.md": table.format("`./dev bench`")}
        self.assertEqual(self.breaches("commands", good), [])

    def test_file_length(self):
        name = "dsl/Long.cpp"
        self.assertEqual(self.breaches("file_length", {name: "\n" * 600}), [])
        self.breaks("file_length", {name: "\n" * 601}, name, "601 lines")

    def test_top_level(self):
        self.breaks("top_level", {"notes.txt": ""}, "notes.txt", "does not belong")
        self.breaks("top_level", {"LICENSE": None}, "LICENSE", "missing")

    def test_markers(self):
        for word in ("TO" "DO", "FIX" "ME", "XX" "X", "<" * 7 + " HEAD"):
            name = "compiler/A.cpp"
            self.breaks("markers", {name: f"{word} later\n"}, name, "left over")

    def test_python_modules(self):
        self.breaks("python_modules", {"tests/a.py": "import numpy\n"}, "tests/a.py", "numpy")
        self.breaks(
            "python_modules", {"tests/a.py": "from numpy.x import y\n"}, "tests/a.py", "numpy"
        )


if __name__ == "__main__":
    unittest.main()

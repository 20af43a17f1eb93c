#!/usr/bin/env python3
"""Objects of several levels: their symbols, and programs that link them."""

import itertools
import unittest

import abi_support
from abi_support import CLANG, COMPILERS, LEVELS, symbol

TEXTS = {
    "dense": "attention dense { heads = 2 head_dim = 16 }\n",
    "causal_one": "attention causal_one { heads = 2 head_dim = 16 mask = causal }\n",
    "window": "attention window { heads = 1 head_dim = 24 mask = window(3) }\n",
    "capped": "attention capped { heads = 1 head_dim = 16 score = softcap(s, 9.0) }\n",
}
# Prints what each header's function picks, or why it picks nothing. A list of
# ones attends to ones, so each output is 1 whatever the variant.
MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
INCLUDES
static int attend(const attn_kernel *kernel) {
  enum { N = 5 };
  float ones[2 * N * 32], out[2 * N * 32];
  int64_t count = kernel->heads * N * kernel->qk_dim;
  for (int64_t i = 0; i < count; ++i)
    ones[i] = 1, out[i] = 0;
  int64_t shape[4] = {1, kernel->heads, N, kernel->qk_dim};
  DLTensor in;
  memset(&in, 0, sizeof in);
  in.data = ones;
  in.device.device_type = kDLCPU;
  in.ndim = 4;
  in.dtype.code = kDLFloat;
  in.dtype.bits = 32;
  in.dtype.lanes = 1;
  in.shape = shape;
  DLTensor result = in;
  result.data = out;
  attn_tensors tensors;
  memset(&tensors, 0, sizeof tensors);
  tensors.struct_size = sizeof tensors;
  tensors.q = tensors.k = tensors.v = &in;
  tensors.o = &result;
  if (attn_run(kernel, &tensors, NULL, NULL) != ATTN_OK)
    return 0;
  for (int64_t i = 0; i < count; ++i)
    if (!(out[i] > 0.999f && out[i] < 1.001f))
      return 0;
  return 1;
}
typedef int pick(const attn_kernel **kernel, attn_error *error);
static void report(pick *choose) {
  attn_error error;
  const attn_kernel *kernel, *again;
  if (choose(&kernel, &error)) {
    printf("%s: %s\n", attn_status_name(error.code), error.text);
    return;
  }
  /* Kept, whatever is asked for later. */
  setenv("ATTN_TARGET", "none", 1);
  int kept = choose(&again, &error) == ATTN_OK && again == kernel &&
             error.code == ATTN_OK && !error.text[0];
  if (getenv("ASKED"))
    setenv("ATTN_TARGET", getenv("ASKED"), 1);
  else
    unsetenv("ATTN_TARGET");
  printf("%s for %s: %s%s\n", kernel->variant, kernel->target,
         attend(kernel) ? "right" : "wrong", kept ? "" : ", not kept");
}
int main(void) {
  CALLS
  return 0;
}
"""


class Link(abi_support.Case):
    def main_of(self, variants, headers):
        source = MAIN.replace(
            "INCLUDES", "\n".join(f'#include "{h}.h"' for h in headers)).replace(
            "CALLS", "\n  ".join(f"report(attn_{v}__pick);" for v in variants))
        self.write("main.c", source)
        self.write("main.cpp", source)

    def documented(self, *variants):
        return sorted([symbol(v, target) for v in variants for target in LEVELS] +
                      [symbol(v, "kernels") for v in variants])

    def run_main(self, target=None):
        env = {"ATTN_TARGET": target or "", "ASKED": target or ""}
        return self.run_tool("./main", env=env).splitlines()

    def test_four_variants_in_any_order(self):
        here = abi_support.runs_here()
        for name, text in TEXTS.items():
            self.write(f"{name}.attn", text)
            self.compile_object(f"{name}.attn", f"{name}.o")
            self.assertEqual(self.exported(f"{name}.o"), self.documented(name))
            self.assertEqual(self.exported(f"{name}.o", "--undefined-only"), [])
        self.main_of(TEXTS, TEXTS)
        orders = list(itertools.permutations(TEXTS))
        self.assertEqual(len(orders), 24)
        for index, order in enumerate(orders[::3]):
            compiler, language = COMPILERS[index % 4]
            main = "main.c" if language == "c" else "main.cpp"
            mode = (("-fPIE", "-pie"), ("-fno-pie", "-no-pie"))[index // 4 % 2]
            self.build(compiler, language, "-O1", *mode, main,
                       *(f"{name}.o" for name in order), *abi_support.runtime(),
                       "-o", "main")
            self.assertEqual(self.run_main(), [f"{name} for {here[0]}: right"
                                               for name in TEXTS])
        for target in here:
            self.assertEqual(self.run_main(target), [f"{name} for {target}: right"
                                                     for name in TEXTS])
        for line in self.run_main("cobol"):
            self.assertIn("ATTN_NOT_FOUND", line)
            self.assertIn("'cobol' (asked for by ATTN_TARGET)", line)
            self.assertIn("x86-64", line)
        for target in set(LEVELS) - set(here):
            for line in self.run_main(target):
                self.assertIn("ATTN_UNSUPPORTED_CPU", line)
                self.assertIn("this machine lacks", line)
        # All of it together in one more object, and in a shared library.
        self.run_tool("ld", "-r", *(f"{name}.o" for name in TEXTS), "-o", "all.o")
        self.assertEqual(self.exported("all.o"), self.documented(*TEXTS))
        self.run_tool(CLANG, "-shared", "-Wl,-z,text,-z,defs", "all.o", "-o",
                      "all.so")
        names = self.exported("all.so", "-D", "--defined-only")
        self.assertEqual([n for n in names if n.startswith("attn_")],
                         self.documented(*TEXTS))

    def test_four_variants_of_one_text(self):
        self.write("all.attn", "".join(TEXTS.values()))
        self.compile_object("all.attn", "all.o")
        self.assertEqual(self.exported("all.o"), self.documented(*TEXTS))
        self.main_of(TEXTS, ["all"])
        self.build(CLANG, "c", "-O1", "main.c", "all.o", *abi_support.runtime(),
                   "-o", "main")
        best = abi_support.runs_here()[0]
        self.assertEqual(self.run_main(), [f"{v} for {best}: right" for v in TEXTS])

    def test_one_target_is_as_it_was(self):
        self.write("dense.attn", TEXTS["dense"])
        self.compile_object("dense.attn", "dense.o", LEVELS[:1])
        self.assertEqual(self.exported("dense.o"), [symbol("dense", LEVELS[0])])
        header = (self.dir / "dense.h").read_text()
        self.assertNotIn("__pick", header)
        self.assertNotIn("__kernels", header)
        self.assertIn('#include "attn_abi.h"', header)
        # An object for one level goes with an object for others.
        self.compile_object("dense.attn", "others.o", LEVELS[1:])
        self.assertEqual(
            self.exported("others.o"),
            sorted(symbol("dense", t) for t in (*LEVELS[1:], "kernels")))
        self.run_tool("ld", "-r", "others.o", "dense.o", "-o", "both.o")
        self.assertEqual(self.exported("both.o"), self.documented("dense"))

    def test_nothing_runs_by_itself(self):
        self.write("all.attn", "".join(TEXTS.values()))
        self.compile_object("all.attn", "all.o")
        sections = self.run_tool("readelf", "-SW", "all.o")
        self.assertIn(".text", sections)
        for name in (".init", ".ctors", ".fini", ".group", "COMDAT"):
            self.assertNotIn(name, sections)
        symbols = self.run_tool("readelf", "-sW", "all.o")
        self.assertIn("GLOBAL", symbols)
        for binding in ("WEAK", "IFUNC", "COMMON", "UNIQUE"):
            self.assertNotIn(binding, symbols)

    def test_other_architecture_is_refused_by_name(self):
        self.write("dense.attn", TEXTS["dense"])
        printed = self.run_tool(abi_support.ATTNC, "compile", "dense.attn", "--emit",
                                "obj", "--target", "x86-64,arm-neon", "-o", "a.o",
                                code=2)
        self.assertIn("x86-64 (x86_64)", printed)
        self.assertIn("arm-neon (aarch64)", printed)
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()),
                         ["dense.attn"])


if __name__ == "__main__":
    unittest.main(verbosity=1)

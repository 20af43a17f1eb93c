"""attnc compile: every kind of output, and errors with places."""

import ctypes
import itertools
import os
import stat
import subprocess

import support
from support import CAUSAL, CC, CXX, DENSE, ROOT

WINDOW = "attention windowed {\n  heads = 1 head_dim = 8 mask = window(2, 1)\n}\n"

# Calls each kernel on one sequence and compares with a plain evaluation.
MAIN = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
INCLUDES
enum { N = 11 };
static int check(const attn_kernel *kernel, int left, int right) {
  const int64_t d = kernel->qk_dim, h = kernel->heads;
  float *q = (float *)malloc(sizeof(float) * h * N * d), *o = (float *)calloc(h * N * d, sizeof(float));
  void *scratch = aligned_alloc(64, (kernel->scratch_bytes + 127) / 64 * 64);
  attn_call c = {0};
  int bad = 0;
  for (int64_t i = 0; i < h * N * d; ++i)
    q[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
  c.q = c.k = c.v = q;
  c.o = o;
  c.batch = 1;
  c.q_len = c.kv_len = N;
  int64_t stride[4] = {h * N * d, N * d, d, 1};
  for (int i = 0; i < 4; ++i)
    c.q_stride[i] = c.k_stride[i] = c.v_stride[i] = c.o_stride[i] = stride[i];
  int64_t items = kernel->item_groups *
      ((N * kernel->item_heads + kernel->item_rows - 1) / kernel->item_rows);
  kernel->run(&c, 0, items, scratch);
  for (int64_t head = 0; head < h; ++head)
    for (int i = 0; i < N; ++i) {
      double sum = 0, value[64] = {0};
      const float *x = q + head * N * d;
      for (int j = 0; j < N; ++j) {
        double s = 0;
        if (j - i > right || i - j > left)
          continue;
        for (int e = 0; e < d; ++e)
          s += (double)x[i * d + e] * x[j * d + e];
        s = exp(s / sqrt((double)d));
        sum += s;
        for (int e = 0; e < d; ++e)
          value[e] += s * x[j * d + e];
      }
      for (int e = 0; e < d; ++e)
        bad |= !(fabs(value[e] / sum - o[(head * N + i) * d + e]) < 1e-4);
    }
  printf("%s for %s: %s\n", kernel->variant, kernel->target, bad ? "wrong" : "right");
  free(q); free(o); free(scratch);
  return bad;
}
int main(void) { return CHECKS; }
"""


def symbol(variant, target):
    return f"attn_{variant}__{target.replace('-', '_')}"


class Compile(support.Case):
    def targets(self):
        lines = self.succeed("targets").out.splitlines()
        return ([line.split()[0] for line in lines],
                [line.split()[0] for line in lines if "runs here" in line])

    def globals_of(self, name, *options):
        lines = subprocess.run(["nm", *options, name], cwd=self.dir, check=True,
                               capture_output=True, text=True).stdout.splitlines()
        return sorted(line.split()[-1] for line in lines)

    def test_stages(self):
        self.write("a.attn", CAUSAL)
        for target in self.targets()[0]:
            marks = {"spec": "attention causal_small", "attn": "attn.attention",
                     "plan": "#attn.plan", "tile": "scf.", "target": "llvm.",
                     "llvm": "define internal void @", "asm": "_run:",
                     "header": "extern const attn_kernel"}
            if target.startswith("cuda"):
                marks.update({"llvm": "define dso_local ptx_kernel void @",
                              "asm": ".visible .entry", "ptx": ".visible .entry"})
            for kind, mark in marks.items():
                out = self.succeed("compile", "a.attn", "--emit", kind,
                                   "--target", target).out
                self.assertIn(mark, out, (kind, target))
                self.succeed("compile", "a.attn", "--emit", kind, "--target",
                             target, "-o", "out.txt")
                self.assertEqual(self.files()["out.txt"].decode(), out)

    def test_spec_of_standard_input_reads_as_itself(self):
        once = self.succeed("compile", "-", "--emit", "spec", text=DENSE).out
        twice = self.succeed("compile", "-", "--emit", "spec", text=once).out
        self.assertEqual(once, twice)

    def test_same_bytes_each_time(self):
        self.write("a.attn", DENSE)
        for kind in ("obj", "bundle"):
            seen = set()
            for _ in range(3):
                self.succeed("compile", "a.attn", "--emit", kind, "-o", "out.o")
                seen.add(self.files()["out.o"])
            self.assertEqual(len(seen), 1, kind)

    def test_default_names(self):
        os.mkdir(self.dir / "texts.d")
        self.write("texts.d/a.attn", DENSE)
        self.succeed("compile", "texts.d/a.attn")
        self.succeed("compile", "texts.d/a.attn", "--emit", "obj")
        self.assertEqual(set(self.files()), {"a.so", "a.o", "a.h"})

    def test_bundle(self):
        self.write("two.attn", DENSE + CAUSAL)
        every, here = self.targets()
        family = here[0].split("-")[0]
        names = [name for name in every if name.startswith(family)]
        self.succeed("compile", "two.attn", "-o", "two.so", "--target",
                     ",".join(["host"] + names))
        self.assertEqual(self.globals_of("two.so", "-D"), ["attn_bundle"])
        library = ctypes.CDLL(str(self.dir / "two.so"))
        table = (ctypes.c_uint32 * 4).in_dll(library, "attn_bundle")
        self.assertEqual(table[3], 2 * len(names))
        dynamic = subprocess.run(["readelf", "-d", "two.so"], cwd=self.dir,
                                 check=True, capture_output=True, text=True).stdout
        self.assertNotIn("NEEDED", dynamic)
        self.assertNotIn("TEXTREL", dynamic)
        segments = subprocess.run(["readelf", "-lW", "two.so"], cwd=self.dir,
                                  check=True, capture_output=True, text=True).stdout
        self.assertIn("GNU_RELRO", segments)
        self.assertIn("GNU_EH_FRAME", segments)
        self.assertNotIn("RWE", segments)

    def test_bundle_of_two_architectures(self):
        self.write("a.attn", DENSE)
        self.refuse("compile", "a.attn", "-o", "a.so", "--target",
                    "x86-64,x86-avx2,arm-neon",
                    says=["x86-64 (x86_64)", "arm-neon (aarch64)", "one architecture"])
        self.succeed("compile", "a.attn", "-o", "a.so", "--target", "arm-neon")
        header = subprocess.run(["readelf", "-hW", "a.so"], cwd=self.dir, check=True,
                                capture_output=True, text=True).stdout
        self.assertIn("AArch64", header)

    def test_objects_link_in_any_order(self):
        here = self.targets()[1]
        kernels = [(CAUSAL, "causal_small", (99, 0)), (DENSE, "dense", (99, 99)),
                   (WINDOW, "windowed", (2, 1))]
        objects, includes, checks = [], [], []
        def add(text, name, target, reach):
            stem = symbol(name, target)
            self.write("k.attn", text)
            self.succeed("compile", "k.attn", "--emit", "obj", "--target", target,
                         "-o", stem + ".o")
            # Every name that the object defines or needs.
            self.assertEqual(self.globals_of(stem + ".o", "-g"), [stem])
            objects.append(stem + ".o")
            includes.append(f'#include "{stem}.h"')
            checks.append(f"check(&{stem}, {reach[0]}, {reach[1]})")
        for text, name, reach in kernels:
            add(text.replace("kv_heads = 2", ""), name, here[0], reach)
        # A variant once more, for another target.
        if len(here) > 1:
            add(CAUSAL, "causal_small", here[1], (99, 0))
        source = MAIN.replace("INCLUDES", "\n".join(includes)).replace(
            "CHECKS", " | ".join(checks))
        self.write("main.c", source)
        self.write("main.cpp", source)
        orders = list(itertools.permutations(objects))
        for index, order in enumerate(orders[::5] + [orders[-1]]):
            compiler, main = [(CC, "main.c"), (CXX, "main.cpp")][index % 2]
            mode = [["-fPIE", "-pie"], ["-fno-pie", "-no-pie"]][index // 2 % 2]
            subprocess.run([compiler, *mode, "-O1", "-I", ROOT / "runtime", main,
                            *order, "-lm", "-o", "main"], cwd=self.dir, check=True)
            run = subprocess.run(["./main"], cwd=self.dir, capture_output=True,
                                 text=True)
            self.assertEqual(run.returncode, 0, run.stdout)
            self.assertEqual(run.stdout.count("right"), len(objects))
        subprocess.run([CC, "-shared", "-Wl,-z,text,-z,defs", *objects, "-o",
                        "all.so"], cwd=self.dir, check=True)

    def test_object_of_several_variants(self):
        self.write("two.attn", DENSE + CAUSAL)
        self.succeed("compile", "two.attn", "--emit", "obj", "-o", "two.o",
                     "--target", self.targets()[0][0])
        names = sorted(symbol(n, self.targets()[0][0])
                       for n in ("dense", "causal_small"))
        self.assertEqual(self.globals_of("two.o", "-g"), names)
        header = self.files()["two.h"].decode()
        for name in names:
            self.assertIn(f"extern const attn_kernel {name};", header)

    def test_object_of_several_targets(self):
        every, here = self.targets()
        family = here[0].split("-")[0]
        names = [name for name in every if name.startswith(family)]
        self.write("two.attn", DENSE + CAUSAL)
        self.succeed("compile", "two.attn", "--emit", "obj", "-o", "two.o",
                     "--target", ",".join(["host"] + names))
        several = ["kernels"] if len(names) > 1 else []
        symbols = sorted(symbol(variant, name) for variant in ("dense", "causal_small")
                         for name in names + several)
        self.assertEqual(self.globals_of("two.o", "-g"), symbols)
        header = self.files()["two.h"].decode()
        self.assertEqual(self.succeed("compile", "two.attn", "--emit", "header",
                                      "--target", ",".join(["host"] + names)).out,
                         header)
        for name in symbols:
            kind = "bundle_table" if name.endswith("__kernels") else "kernel"
            self.assertIn(f"extern const attn_{kind} {name};", header)
        self.refuse("compile", "two.attn", "--emit", "obj", "-o", "a.o", "--target",
                    "x86-64,x86-avx2,arm-neon",
                    says=["x86-64 (x86_64)", "arm-neon (aarch64)", "one architecture"])

    def test_plan_and_defines(self):
        self.write("w.attn", "attention w {\n  let n = 3\n  heads = 1 head_dim = 8"
                             "\n  mask = causal && sliding(n)\n}\n")
        three = self.succeed("compile", "w.attn", "--emit", "attn").out
        four = self.succeed("compile", "w.attn", "--emit", "attn", "-D", "n=4").out
        self.assertNotEqual(three, four)
        self.refuse("compile", "w.attn", "-D", "m=4", says=["m"])
        self.refuse("compile", "w.attn", "-D", "n", says=["NAME=VALUE"])
        self.refuse("compile", "w.attn", "-D", "n=", says=["n"])
        self.refuse("compile", "w.attn", "--plan", "speed=9", says=["speed"])
        self.refuse("compile", "w.attn", "--plan", "rows=7777777777777777777",
                    says=["rows"])

    def test_errors_have_places(self):
        self.write("bad.attn", "attention bad {\n  heads = 2\n  head_dim = 64\n"
                               "  mask = causl\n  scale = \n}\n")
        error = self.refuse("compile", "bad.attn", says=["bad.attn:4:10", "^"]).err
        self.assertIn("bad.attn:", error[error.index("causl"):]) # both errors
        self.refuse("compile", "-", text="attention", says=["<stdin>:1:"])
        self.refuse("compile", "-", text="", says=["<stdin>"])
        self.refuse("compile", "-", text="\0\xff", says=["<stdin>:1:"])

    def test_options(self):
        self.write("a.attn", DENSE)
        self.write("two.attn", DENSE + CAUSAL)
        self.refuse("compile", "none.attn", says=["none.attn"])
        self.refuse("compile", ".", says=["."])
        self.refuse("compile", says=["FILE"])
        self.refuse("compile", "a.attn", "--emit", "fish", says=["fish", "bundle"])
        self.refuse("compile", "a.attn", "--target", "fish", says=["fish", "host"])
        self.refuse("compile", "a.attn", "--target", "host,", says=["--target"])
        self.refuse("compile", "a.attn", "--variant", "b", says=["--variant b", "dense"])
        self.refuse("compile", "a.attn", "--no-such-option", says=["no-such-option"])
        self.refuse("compile", "-", text=DENSE, says=["-o"])
        if len(self.targets()[0]) > 1:
            for kind in ("asm", "llvm", "tile"):
                self.refuse("compile", "a.attn", "--emit", kind, "--target",
                            ",".join(self.targets()[0]), says=["one target"])

    def test_files_are_whole_or_absent(self):
        self.write("a.attn", DENSE)
        os.mkdir(self.dir / "folder")
        for out in ("missing/a.so", "folder", "/dev/null", "-"):
            self.refuse("compile", "a.attn", "-o", out, says=[out])
        self.refuse("compile", "a.attn", "--emit", "asm", "-o", "missing/a.s",
                    says=["missing/a.s"])
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        # A failure leaves an old file alone; success replaces the file that a
        # link names, not the link.
        self.write("old.so", "old")
        os.symlink("old.so", self.dir / "link.so")
        self.write("bad.attn", "attention bad { heads = 1 }")
        self.refuse("compile", "bad.attn", "-o", "link.so", says=["bad.attn:1:"])
        self.succeed("compile", "a.attn", "-o", "link.so")
        self.assertTrue((self.dir / "link.so").is_symlink())
        self.assertEqual(self.files()["old.so"][:4], b"\x7fELF")
        self.assertEqual(set(self.files()),
                         {"a.attn", "bad.attn", "old.so", "link.so"})


if __name__ == "__main__":
    support.main()

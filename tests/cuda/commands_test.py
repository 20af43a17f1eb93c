#!/usr/bin/env python3
"""The command line on CUDA targets: what is refused and with which figures,
binaries with and without their assembler, and bundles for CPUs and devices."""

import ctypes
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import support # noqa: E402
from support import CAUSAL, DENSE, ROOT # noqa: E402

TARGETS = ("cuda-sm80", "cuda-sm90")
# By target: bytes that a block may share.
SHARED = {"cuda-sm80": 163 << 10, "cuda-sm90": 227 << 10}
# Where no program is found but those of the system.
NOWHERE = {"PATH": "/usr/bin:/bin", "CUDA_HOME": "/nonexistent", "ATTN_PTXAS": "none"}

# Reads a bundle's table as runtime/attn_abi.h lays it out.
READER = r"""
#include "attn_abi.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW);
  const attn_bundle_table *table = library ? dlsym(library, "attn_bundle") : NULL;
  if (argc != 2 || !table || table->magic != ATTN_BUNDLE_MAGIC)
    return 1;
  for (uint32_t i = 0; i < table->n_kernels; ++i) {
    const attn_kernel *k = table->kernels[i];
    printf("%s %s", k->variant, k->target);
    if (k->device)
      printf(" run=%d %s threads=%d shared=%d text=%d", k->run != NULL, k->device->entry,
             k->device->threads, k->device->shared_bytes,
             strstr(k->device->text, k->device->entry) != NULL);
    printf("\n");
  }
  return 0;
}
"""


def head(width, stored="f16"):
    return f"attention a {{\n  heads = 1\n  head_dim = {width}\n  type = {stored}\n}}\n"


class Commands(support.Case):
    def test_tiles_that_do_not_fit(self):
        self.write("a.attn", head(512, "f32"))
        for target in TARGETS:
            self.succeed("compile", "a.attn", "--target", target, "--emit", "ptx")
            # 128 rows of queries; 128 each of keys and values; weights.
            wanted = 128 * 4 * 512 * 3 + 128 * 4 * (128 + 4)
            said = self.refuse("compile", "a.attn", "--target", target, "--emit", "ptx",
                               "--plan", "rows=128,keys=128",
                               says=["a.attn:1:11", "128 rows by 128 keys",
                                     f"{SHARED[target]} are there"]).err
            taken = int(re.search(r"take (\d+) bytes", said).group(1))
            # Beside the tiles: positions, and a flag for each warp.
            self.assertGreaterEqual(taken, wanted)
            self.assertLess(taken, wanted + 4096)

    def test_another_plan_where_the_usual_does_not_fit(self):
        rows = {}
        for width in (64, 512):
            self.write("a.attn", head(width, "f32"))
            plan = self.succeed("compile", "a.attn", "--target", "cuda-sm80", "--emit",
                                "plan").out
            rows[width] = int(plan.split("rows = ")[1].split(",")[0])
        self.assertGreater(rows[64], rows[512])

    def test_heads_that_are_too_wide(self):
        for target in TARGETS:
            for width in ("513", "4096", "{ qk = 513, value = 8 }",
                          "{ qk = 8, value = 513 }"):
                self.write("a.attn", head(width))
                which = "value" if "value = 513" in width else "qk"
                number = "4096" if width == "4096" else "513"
                self.refuse("compile", "a.attn", "--target", target,
                            says=["a.attn:1:11", f"head_dim ({which}) is {number}",
                                  "1 to 512", target])

    def test_plans_that_fragments_do_not_have(self):
        self.write("a.attn", head(64))
        for plan, says in (("rows=24", ["rows is 24", "16 times 1, 2, 4 or 8"]),
                           ("rows=256", ["rows is 256"]),
                           ("keys=20", ["keys is 20", "multiple of 16 up to 128"]),
                           ("keys=144", ["keys is 144"]),
                           ("heads=2", ["heads is 2"]),
                           ("score_keys=16", ["score_keys is 16"])):
            self.refuse("compile", "a.attn", "--target", "cuda-sm80", "--plan", plan,
                        "--emit", "ptx", says=says)

    def test_kinds_of_code(self):
        self.write("a.attn", CAUSAL)
        for target in ("x86-64", "x86-avx2", "arm-neon"):
            for kind in ("ptx", "cubin"):
                self.refuse("compile", "a.attn", "--target", target, "--emit", kind,
                            "-o", "out", says=[f"'{kind}'", target, "asm, obj"])
        for target in TARGETS:
            text = self.succeed("compile", "a.attn", "--target", target, "--emit",
                                "ptx").out
            self.assertIn(f".target {target[5:7]}_{target[7:]}", text)
            self.assertEqual(self.succeed("compile", "a.attn", "--target", target,
                                          "--emit", "asm").out, text)
        self.refuse("compile", "a.attn", "--target", ",".join(TARGETS), "--emit", "ptx",
                    says=["one target", "2"])

    def test_no_assembler(self):
        self.write("a.attn", CAUSAL)
        self.refuse("compile", "a.attn", "--target", "cuda-sm80", "--emit", "cubin",
                    env=NOWHERE, says=["cubin", "ptxas", "'none'"])
        # The driver takes the text, so a bundle goes without.
        self.succeed("compile", "a.attn", "--target", "cuda-sm80", "-o", "a.so",
                     env=NOWHERE)

    def test_assembler_that_objects(self):
        self.write("a.attn", CAUSAL)
        self.write("ptxas", "#!/bin/sh\necho line 7: no such thing >&2\nexit 3\n")
        os.chmod(self.dir / "ptxas", 0o755)
        env = {**NOWHERE, "ATTN_PTXAS": str(self.dir / "ptxas")}
        self.refuse("compile", "a.attn", "--target", "cuda-sm80", "--emit", "cubin",
                    env=env, says=["ptxas refuses", "line 7: no such thing"])

    def test_binary_is_a_file(self):
        # What an assembler gets, and that its output is what is written.
        self.write("ptxas", '#!/bin/sh\nfor last; do :; done\n'
                            'cp "$2" seen.ptx\necho "$1" > "$last"\n')
        os.chmod(self.dir / "ptxas", 0o755)
        env = {**NOWHERE, "ATTN_PTXAS": str(self.dir / "ptxas")}
        self.write("a.attn", CAUSAL)
        self.succeed("compile", "a.attn", "--target", "cuda-sm90", "--emit", "cubin",
                     env=env)
        self.assertEqual(self.files()["a.cubin"], b"-arch=sm_90\n")
        self.assertEqual(self.files()["seen.ptx"].decode(),
                         self.succeed("compile", "a.attn", "--target", "cuda-sm90",
                                      "--emit", "ptx").out)
        self.write("two.attn", CAUSAL + DENSE)
        self.refuse("compile", "two.attn", "--target", "cuda-sm90", "--emit", "cubin",
                    env=env, says=["one variant", "two.attn has 2", "--variant"])

    def kernels(self, bundle):
        self.write("reader.c", READER)
        subprocess.run([support.CC, "-I", ROOT / "runtime", "reader.c", "-ldl", "-o",
                        "reader"], cwd=self.dir, check=True)
        return subprocess.run(["./reader", f"./{bundle}"], cwd=self.dir, check=True,
                              capture_output=True, text=True).stdout.splitlines()

    def test_bundle_of_a_cpu_and_a_device(self):
        self.write("two.attn", DENSE + CAUSAL)
        self.succeed("compile", "two.attn", "--target", "x86-avx2,cuda-sm80", "-o",
                     "both.so", env=NOWHERE)
        lines = self.kernels("both.so")
        self.assertEqual([line.split()[:2] for line in lines],
                         [["dense", "x86-avx2"], ["dense", "cuda-sm80"],
                          ["causal_small", "x86-avx2"], ["causal_small", "cuda-sm80"]])
        for line in lines[1::2]:
            self.assertIn(f"run=0 attn_{line.split()[0]}__cuda_sm80 threads=", line)
            self.assertIn("text=1", line)
        library = ctypes.CDLL(str(self.dir / "both.so"))
        self.assertEqual((ctypes.c_uint32 * 4).in_dll(library, "attn_bundle")[3], 4)

    def arrays(self):
        return self.tensors((1, 2, 5, 16), (1, 2, 5, 16), (1, 2, 5, 16))

    def test_run_of_a_bundle_takes_the_cpu(self):
        self.write("a.attn", CAUSAL)
        self.succeed("compile", "a.attn", "--target", "cuda-sm80,x86-64", "-o",
                     "both.so", env=NOWHERE)
        self.succeed("compile", "a.attn", "--target", "x86-64", "-o", "cpu.so")
        outputs = []
        for bundle in ("both.so", "cpu.so"):
            out = self.succeed("run", bundle, *self.arrays(), "--out", "o.npy").out
            self.assertIn("x86-64", out)
            outputs.append(self.files()["o.npy"])
        self.assertEqual(outputs[0], outputs[1])

    def test_bundle_without_a_kernel_for_a_cpu(self):
        self.write("a.attn", CAUSAL)
        self.succeed("compile", "a.attn", "--target", "cuda-sm80", "-o", "device.so",
                     env=NOWHERE)
        self.refuse("run", "device.so", *self.arrays(), "--out", "o.npy",
                    says=["cuda-sm80"])


if __name__ == "__main__":
    support.main()

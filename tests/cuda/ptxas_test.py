#!/usr/bin/env python3
"""usage: ptxas_test.py EXAMPLES: NVIDIA's assembler takes the PTX of every
example, and of the usual heads it spills nothing and leaves room for two blocks
on a multiprocessor. $ATTNC is the compiler. Exits with 77 where there is no
ptxas. Standard library only."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ATTNC = os.environ["ATTNC"]
SKIPPED = 77
# By target: the architecture, and bytes of memory that the blocks on a
# multiprocessor share, of which each takes 1024 more than it asks for.
TARGETS = {"cuda-sm80": ("sm_80", 164 << 10), "cuda-sm90": ("sm_90", 228 << 10)}
RESERVED = 1024
# Registers of a multiprocessor; a thread's are counted in eights, for a warp.
REGISTERS, UNIT, WARP = 65536, 8, 32
BLOCKS = 2


def find_ptxas():
    folders = os.environ.get("PATH", "").split(os.pathsep)
    if "CUDA_HOME" in os.environ:
        folders.append(os.path.join(os.environ["CUDA_HOME"], "bin"))
    folders.append("/usr/local/cuda/bin")
    return shutil.which("ptxas", path=os.pathsep.join(folders))


PTXAS = find_ptxas()


def emit(path, kind, target, variant):
    return subprocess.run(
        [ATTNC, "compile", path, "--emit", kind, "--target", target, "--variant",
         variant], check=True, capture_output=True, text=True, timeout=300).stdout


class Ptxas(unittest.TestCase):
    examples = None

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="attnc-ptxas-")
        self.addCleanup(temporary.cleanup)
        self.dir = pathlib.Path(temporary.name)

    def assemble(self, path, target, variant):
        """What ptxas says of a kernel, and its threads and shared bytes."""
        text = emit(path, "ptx", target, variant)
        (self.dir / "a.ptx").write_text(text)
        done = subprocess.run(
            [PTXAS, f"-arch={TARGETS[target][0]}", "-v", "-warn-spills", "a.ptx",
             "-o", "a.cubin"], cwd=self.dir, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.dir / "a.cubin").read_bytes()[:4], b"\x7fELF")
        return done.stderr, text

    def test_every_example(self):
        count = 0
        for path in sorted(pathlib.Path(self.examples).glob("*.attn")):
            for variant in re.findall(r"^attention\s+(\w+)", path.read_text(), re.M):
                for target in TARGETS:
                    with self.subTest(variant=variant, target=target):
                        self.assemble(path, target, variant)
                        count += 1
        self.assertGreater(count, 0)

    def test_registers_and_memory(self):
        for target, (_, memory) in TARGETS.items():
            for stored in ("f16", "bf16"):
                for width in (64, 128):
                    for mask in ("true", "causal"):
                        with self.subTest(target=target, stored=stored,
                                          width=width, mask=mask):
                            self.check(target, memory, stored, width, mask)

    def check(self, target, memory, stored, width, mask):
        path = self.dir / "a.attn"
        path.write_text(f"attention a {{ heads = 8 kv_heads = 2 head_dim = {width} "
                        f"type = {stored} mask = {mask} }}\n")
        said, text = self.assemble(path, target, "a")
        # Of the kernel, and of the one that puts together what splits of its keys
        # left.
        entries = re.split(r"Compiling entry function '(\w+)'", said)[1:]
        names = re.findall(r"\.entry (\w+)\(", text)
        self.assertEqual(sorted(entries[::2]), sorted(names))
        threads = [int(n) for n in re.findall(r"\.reqntid (\d+)", text)]
        lowered = emit(path, "target", target, "a")
        shared = [int(n) for n in re.findall(r"attn\.shared_bytes = (\d+)", lowered)]
        self.assertEqual((len(threads), len(shared)), (len(names), len(names)))
        # One number of threads, and what the larger of both shares, are enough.
        threads, shared = max(threads), max(shared)
        self.assertEqual(threads % WARP, 0)
        for name, said in zip(entries[::2], entries[1::2]):
            self.assertIn("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill "
                          "loads", said)
            registers = int(re.search(r"Used (\d+) registers", said).group(1))
            static = int((re.search(r"(\d+) bytes smem", said) or [0, 0])[1])
            print(f"{target} {stored} D={width} mask={mask}: {name}: {threads} "
                  f"threads of {registers} registers, {shared + static} bytes shared")
            taken = -(-registers // UNIT) * UNIT * threads
            self.assertLessEqual(BLOCKS * taken, REGISTERS)
            self.assertLessEqual(BLOCKS * (shared + static + RESERVED), memory)


if __name__ == "__main__":
    Ptxas.examples = sys.argv.pop(1)
    if not PTXAS:
        print("skipped: there is no ptxas in PATH, below CUDA_HOME or in "
              "/usr/local/cuda/bin")
        sys.exit(SKIPPED)
    unittest.main(verbosity=1)

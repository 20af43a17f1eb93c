#!/usr/bin/env python3
"""What each level's entry point reaches in one file with several levels: code
that the level's machines have, and nothing that another level reaches."""

import itertools
import re
import unittest

import abi_support
from abi_support import CLANG, HERE, LEVELS, symbol

VARIANTS = ("plain", "scored", "listed")
LINE = re.compile(r"\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*\t?(.*)")
TARGET = re.compile(r"([0-9a-f]+)(?: <|$)")
RELATIVE = re.compile(r"\(%rip\).*# ([0-9a-f]+)")
# Before the opcode, in 64-bit code.
PREFIXES = {0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3}


def encoding(code):
    """How an instruction is encoded: "VEX", "EVEX" or "" for the old way."""
    for byte in code:
        if byte not in PREFIXES:
            return {0xC4: "VEX", 0xC5: "VEX", 0x62: "EVEX"}.get(byte, "")
    return ""


class Code:
    """The instructions of a file, from `objdump -d --insn-width=16`."""

    def __init__(self, listing):
        self.at = {}  # address -> (bytes, text, the next address)
        for line in listing.splitlines():
            match = LINE.match(line)
            if match:
                address, code = int(match[1], 16), bytes.fromhex(match[2])
                self.at[address] = (code, match[3], address + len(code))

    def reach(self, entry):
        """Instructions and data that code from `entry` on leads to."""
        seen, data, waiting = set(), set(), [entry]
        while waiting:
            address = waiting.pop()
            if address in seen:
                continue
            if address not in self.at:
                raise ValueError(f"{address:x} is no code")
            seen.add(address)
            _, text, after = self.at[address]
            words = [w for w in text.split() if w not in ("bnd", "notrack", "rep")]
            name, operand = words[0], " ".join(words[1:])
            relative = RELATIVE.search(text)
            if relative:
                place = int(relative[1], 16)
                (waiting.append if place in self.at else data.add)(place)
            if name.startswith(("j", "call")):
                if operand.startswith("*"):
                    raise ValueError(f"{address:x} jumps to where a register says")
                waiting.append(int(TARGET.match(operand)[1], 16))
            if name not in ("jmp", "jmpq", "ret", "retq", "ud2"):
                waiting.append(after)
        return seen, data


class Levels(abi_support.Case):
    def setUp(self):
        super().setUp()
        self.compile_object(HERE / "variants.attn", "variants.o")

    def check_file(self, name):
        code = Code(self.run_tool("objdump", "-d", "--insn-width=16", name))
        addresses = {}
        for line in self.run_tool("nm", name).splitlines():
            words = line.split()
            if len(words) == 3:
                addresses[words[2]] = int(words[0], 16)
        reached = {}
        for variant, level in itertools.product(VARIANTS, LEVELS):
            entry = addresses[symbol(variant, level) + "_run"]
            seen, data = reached[variant, level] = code.reach(entry)
            encodings = {encoding(code.at[address][0]) for address in seen}
            self.assertEqual(encodings, {"x86-64": {""}, "x86-avx2": {"", "VEX"},
                                         "x86-avx512": {"", "VEX", "EVEX"}}[level],
                             (name, variant, level))
            self.assertGreater(len(seen), 300)
            self.assertGreater(len(data), 3)
        for one, other in itertools.combinations(reached, 2):
            for mine, others in zip(reached[one], reached[other]):
                self.assertEqual([hex(a) for a in mine & others], [],
                                 (name, one, other))
        # Nothing else is there: no start-up code, no helper that is not used.
        everything = set().union(*(seen for seen, _ in reached.values()))
        rest = {code.at[a][1].split()[0] for a in code.at.keys() - everything
                if code.at[a][1]}
        self.assertLessEqual(rest, {"nop", "nopw", "nopl", "data16", "cs", "xchg",
                                    "int3", "ud2"}, name)

    def test_bundle(self):
        self.run_tool(abi_support.ATTNC, "compile", HERE / "variants.attn", "--target",
                      ",".join(LEVELS), "-o", "calls.so")
        self.check_file("calls.so")

    def test_object_linked(self):
        for linker in ("bfd", "lld"):
            self.run_tool(CLANG, f"-fuse-ld={linker}", "-nostdlib",
                          "-shared", "-Wl,-O2", "variants.o", "-o", f"{linker}.so")
            self.check_file(f"{linker}.so")

    def test_linkers_fold_no_constants(self):
        sections = self.run_tool("readelf", "-SW", "variants.o")
        constants = [line for line in sections.splitlines() if ".rodata.cst" in line]
        self.assertTrue(constants)
        for line in constants:
            self.assertRegex(line, r" 00 +A +\d+ +\d+ +\d+$")


class Encoding(unittest.TestCase):
    def test_kinds(self):
        for code, kind in (("0f58c1", ""), ("660f58c1", ""), ("f30f58c1", ""),
                           ("c5f458c1", "VEX"), ("c4e27db8c1", "VEX"),
                           ("62f1744858c1", "EVEX"), ("67c5f45800", "VEX"),
                           ("488b07", "")):
            self.assertEqual(encoding(bytes.fromhex(code)), kind, code)

    def test_reach(self):
        code = Code("  10:\te8 01 \tcall   20 <f>\n  12:\tc3 \tret\n"
                    "  20:\t74 01 \tje     30 <f+0x10>\n"
                    "  22:\t0f 28 \tmovaps 0x1(%rip),%xmm0        # 99 <x>\n"
                    "  24:\teb 01 \tjmp    30 <f+0x10>\n  26:\t90 \tnop\n"
                    "  30:\tc3 \tret\n  31:\tff e0 \tjmp    *%rax\n")
        self.assertEqual(code.reach(0x10), ({0x10, 0x12, 0x20, 0x22, 0x24, 0x30},
                                            {0x99}))
        with self.assertRaisesRegex(ValueError, "register"):
            code.reach(0x31)


if __name__ == "__main__":
    unittest.main(verbosity=1)

#!/usr/bin/env python3
"""checker.py on hand-made assembly: it passes what is good and sees each fault."""

import struct
import unittest

import checker


def loop(label, body, count):
    lines = [f"{label}:"] + [f"\t{line}" for _ in range(count) for line in body]
    return "\n".join(lines + ["\taddq\t$4, %rax", "\tcmpq\t%rcx, %rax",
                              f"\tjl\t{label}"]) + "\n"


def kernel(first, second, extra="", leave="\tvzeroupper\n", frame=64):
    return (f"\t.text\n\t.globl\trun\n\t.type\trun,@function\nrun:   # @run\n"
            f"\t.cfi_startproc\n\tsubq\t${frame}, %rsp\n\txorl\t%eax, %eax\n"
            f"{first}\txorl\t%eax, %eax\n{second}{extra}\taddq\t${frame}, %rsp\n"
            f"{leave}\tretq\n.Lfunc_end0:\n\t.size\trun, .Lfunc_end0-run\n"
            "\t.cfi_endproc\n\t.type\t.Lname,@object\n.Lname:\n\t.asciz\t\"run\"\n")


STEP = {
    "x86-64": ["movaps\t(%rsi,%rax), %xmm1", "mulps\t%xmm0, %xmm1",
               "addps\t%xmm1, %xmm2"],
    "x86-avx2": ["vbroadcastss\t(%rsi,%rax), %ymm1",
                 "vfmadd231ps\t%ymm0, %ymm1, %ymm2",
                 "vfmadd231ps\t(%rbp), %ymm1, %ymm3"],
    "x86-avx512": ["vfmadd231ps\t(%rsi,%rax){1to16}, %zmm0, %zmm2"],
}


def good(level, label=".LBB0_1"):
    per = checker.LEVELS[level].dense // (2 if level == "x86-avx2" else 1)
    return loop(label, STEP[level], per)


class Checker(unittest.TestCase):
    def complaints(self, level, first=None, **keywords):
        leave = "" if level == "x86-64" else "\tvzeroupper\n"
        keywords = {"leave": leave, **keywords}
        text = kernel(first or good(level), good(level, ".LBB0_2"), **keywords)
        return checker.check(text, level)

    def sees(self, level, words, first=None, **keywords):
        found = self.complaints(level, first, **keywords)
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_good_code_passes(self):
        for level in checker.LEVELS:
            self.assertEqual(self.complaints(level), [], level)

    def test_a_spill_and_a_reload(self):
        for level, register in (("x86-64", "xmm9"), ("x86-avx2", "ymm9"),
                                ("x86-avx512", "zmm29")):
            move = "movaps" if level == "x86-64" else "vmovaps"
            for line in (f"\t{move}\t%{register}, 32(%rsp)\n",
                         f"\t{move}\t-112(%rsp,%rax), %{register}\n"):
                spilt = good(level).replace("\taddq", line + "\taddq")
                self.sees(level, "touches the stack", spilt)

    def test_a_spilt_mask_register(self):
        spilt = good("x86-avx512").replace("\taddq", "\tkmovw\t%k1, (%rsp)\n\taddq")
        self.sees("x86-avx512", "touches the stack", spilt)

    def test_the_frame_pointer_counts_where_it_is_one(self):
        # (%rbp) is read in the good loop and is an ordinary pointer there.
        text = kernel("\tmovq\t%rsp, %rbp\n" + good("x86-avx2"),
                      good("x86-avx2", ".LBB0_2"))
        found = checker.check(text, "x86-avx2")
        self.assertEqual(len(found), 24, found)
        self.assertTrue(all("(%rbp)" in f for f in found))

    def test_a_scalar_from_the_stack_is_no_spill(self):
        first = good("x86-avx2").replace("\taddq", "\taddq\t8(%rsp), %rdx\n\taddq")
        self.assertEqual(self.complaints("x86-avx2", first), [])

    def test_a_spill_in_a_masked_loop(self):
        body = ["vpcmpgtd\t%ymm5, %ymm4, %ymm6"] + STEP["x86-avx2"]
        first = good("x86-avx2", ".LBB0_3") + loop(
            ".LBB0_1", body, 3).replace("\taddq", "\tvmovups\t%ymm8, (%rsp)\n\taddq")
        self.sees("x86-avx2", "touches the stack", first)

    def test_loops_must_be_there(self):
        small = loop(".LBB0_1", STEP["x86-avx512"], 6)
        self.sees("x86-avx512", "1 dense loops", small)
        thin = loop(".LBB0_1", STEP["x86-avx512"], 13)
        self.sees("x86-avx512", "24 wanted in two", thin)

    def test_a_loop_over_several_blocks_is_none(self):
        broken = good("x86-avx2").replace("\taddq", ".LBB0_9:\n\taddq")
        self.sees("x86-avx2", "1 dense loops", broken)

    def test_other_work_than_arithmetic(self):
        first = good("x86-avx2").replace("\taddq", "\tincq\t%rdx\n" * 60 + "\taddq")
        self.sees("x86-avx2", "arithmetic, less than", first)

    def test_broadcasts_that_are_not_folded(self):
        first = good("x86-avx512").replace("(%rsi,%rax){1to16}", "%zmm3", 1)
        self.sees("x86-avx512", "folds only 23", first)

    def test_narrow_registers(self):
        first = good("x86-avx512").replace(
            "\taddq", "\tvfmadd231ps\t(%rsi){1to16}, %ymm0, %ymm1\n\taddq")
        self.sees("x86-avx512", "uses other registers", first)

    def test_later_levels(self):
        faults = {
            "x86-64": ["vaddps\t%xmm0, %xmm1, %xmm2", "pmulld\t%xmm0, %xmm1",
                       "blendvps\t%xmm0, %xmm1, %xmm2", "popcntq\t%rax, %rax",
                       "haddps\t%xmm0, %xmm1", "roundps\t$1, %xmm0, %xmm1"],
            "x86-avx2": ["vmovaps\t%zmm0, %zmm1", "vmovaps\t%ymm16, %ymm1",
                         "kmovw\t%eax, %k1", "vpternlogd\t$1, %ymm0, %ymm1, %ymm2",
                         "vaddps\t(%rax){1to8}, %ymm0, %ymm1", "tzcntq\t%rax, %rax",
                         "shlxq\t%rax, %rcx, %rdx", "vcvtph2ps\t%ymm0, %zmm1"],
            "x86-avx512": ["vpdpbusd\t%zmm0, %zmm1, %zmm2", "vpermb\t%zmm0, %zmm1, %zmm2",
                           "vaddph\t%zmm0, %zmm1, %zmm2", "vplzcntd\t%zmm0, %zmm1",
                           "andnq\t%rax, %rcx, %rdx"],
        }
        for level, lines in faults.items():
            for line in lines:
                self.sees(level, "not of this level", extra=f"\t{line}\n")

    def test_older_instructions_pass(self):
        fine = {
            "x86-64": ["movaps\t%xmm0, %xmm1", "andnps\t%xmm0, %xmm1",
                       "cvttps2dq\t%xmm0, %xmm1", "pshufd\t$0, %xmm0, %xmm1"],
            "x86-avx2": ["vmovshdup\t%ymm0, %ymm1", "vpmulld\t%ymm0, %ymm1, %ymm2",
                         "vpmovsxdq\t%xmm0, %ymm1", "vblendvps\t%ymm0, %ymm1, %ymm2, %ymm3",
                         "vpmaxsd\t%ymm0, %ymm1, %ymm2", "vpcmpgtd\t%ymm0, %ymm1, %ymm2",
                         "vcvtph2ps\t%xmm0, %ymm1", "vcvtps2ph\t$4, %ymm0, (%rax)"],
            "x86-avx512": ["vpternlogd\t$1, %zmm0, %zmm1, %zmm2",
                           "vmovshdup\t%zmm0, %zmm1", "kmovw\t%eax, %k1"],
        }
        for level, lines in fine.items():
            extra = "".join(f"\t{line}\n" for line in lines)
            self.assertEqual(self.complaints(level, extra=extra), [])

    def test_narrow_indices(self):
        for line in ("movslq\t%eax, %rax", "cltq"):
            self.sees("x86-avx2", "a 32-bit index", extra=f"\t{line}\n")

    def test_calls(self):
        self.sees("x86-avx2", "leaves for memset@PLT", extra="\tcallq\tmemset@PLT\n")
        self.sees("x86-avx2", "leaves for *%rax", extra="\tjmp\t*%rax\n")
        self.assertEqual(self.complaints("x86-avx2", extra="\tcallq\trun\n"), [])

    def test_frames(self):
        self.assertEqual(self.complaints("x86-avx2", frame=16384), [])
        self.sees("x86-avx2", "16392 bytes of stack", frame=16392)

    def test_upper_halves(self):
        self.sees("x86-avx2", "without vzeroupper", leave="")
        self.sees("x86-avx512", "without vzeroupper", leave="")

    def test_no_function(self):
        self.assertEqual(checker.check("\t.text\n", "x86-64"), ["no function"])

    def test_code_bytes(self):
        section = lambda flags, size: struct.pack("<IIQQQQIIQQ", 0, 1, flags, 0, 0,
                                                  size, 0, 0, 0, 0)
        header = b"\x7fELF\x02\x01" + bytes(34) + struct.pack("<Q", 64)
        header += bytes(0x3A - len(header)) + struct.pack("<HHH", 64, 4, 0)
        table = section(0, 1) + section(6, 1000) + section(2, 50) + section(6, 24)
        self.assertEqual(checker.code_bytes(header + table), 1024)
        with self.assertRaises(ValueError):
            checker.code_bytes(b"text")


if __name__ == "__main__":
    unittest.main(verbosity=1)

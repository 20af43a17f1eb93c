#!/usr/bin/env python3
"""checker_arm.py on hand-made assembly: it passes what is good and sees each
fault."""

import unittest

import checker_arm

STEP = [f"fmla\tv{n}.4s, v8.4s, v10.s[{n % 4}]" for n in range(6)] + [
    "ldp\tq8, q9, [x14, #-16]"]


def loop(label, body, count):
    lines = [f"{label}:"] + [f"\t{line}" for _ in range(count) for line in body]
    return "\n".join(lines + ["\tadd\tx15, x15, #1", "\tcmp\tx15, x7",
                              f"\tb.lt\t{label}"]) + "\n"


def good(label=".LBB0_1"):
    return loop(label, STEP, checker_arm.LARGEST // 6)


def kernel(first, extra="", frame="\tsub\tsp, sp, #896\n"):
    return ("\t.text\n\t.type\trun,@function\nrun:   // @run\n\t.cfi_startproc\n"
            "\tstp\td9, d8, [sp, #-32]!\n"
            f"{frame}{first}\tmov\tx15, xzr\n{good('.LBB0_2')}{extra}"
            "\tldp\td9, d8, [sp], #32\n\tret\n.Lfunc_end0:\n"
            "\t.size\trun, .Lfunc_end0-run\n\t.cfi_endproc\n"
            "\t.type\t.Lname,@object\n.Lname:\n\t.asciz\t\"run\"\n")


class Checker(unittest.TestCase):
    def complaints(self, first=None, **keywords):
        return checker_arm.check(kernel(first or good(), **keywords))

    def sees(self, words, first=None, **keywords):
        found = self.complaints(first, **keywords)
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_good_code_passes(self):
        self.assertEqual(self.complaints(), [])

    def test_a_spill_and_a_reload(self):
        for line in ("str\tq5, [sp]", "ldr\tq5, [sp, #64]", "ldp\tq1, q2, [sp, #96]"):
            self.sees("touches the stack",
                      good().replace("\tadd\tx15", f"\t{line}\n\tadd\tx15"))

    def test_a_scalar_from_the_stack_is_no_spill(self):
        self.assertEqual(self.complaints(
            good().replace("\tadd\tx15", "\tldr\tx9, [sp, #8]\n\tadd\tx15")), [])

    def test_loops_must_be_there(self):
        self.sees("1 dense loops", loop(".LBB0_1", STEP, 1))
        self.sees("24 wanted in two", loop(".LBB0_1", STEP, 3))

    def test_a_loop_over_several_blocks_is_none(self):
        self.sees("1 dense loops",
                  good().replace("\tadd\tx15", ".LBB0_9:\n\tadd\tx15"))

    def test_other_vector_work(self):
        self.sees("of the vector instructions", good().replace(
            "\tadd\tx15", "\tdup\tv3.4s, v10.s[0]\n" * 2 + "\tadd\tx15"))

    def test_widening_belongs_to_loading(self):
        widened = good().replace("\tadd\tx15", "\tfcvtl\tv8.4s, v8.4h\n"
                                 "\tshll2\tv9.4s, v8.8h, #16\n\tadd\tx15")
        self.assertEqual(self.complaints(widened), [])

    def test_other_work(self):
        self.sees("arithmetic, less than", good().replace(
            "\tadd\tx15", "\tadd\tx9, x9, #1\n" * 40 + "\tadd\tx15"))

    def test_a_spill_in_a_masked_loop(self):
        masked = loop(".LBB0_3", ["cmlt\tv1.4s, v2.4s, #0", *STEP], 2).replace(
            "\tadd\tx15", "\tstr\tq5, [sp]\n\tadd\tx15")
        self.sees("touches the stack", good() + masked)

    def test_whole_vectors_as_operands(self):
        self.sees("by element only 23 times", good().replace("v10.s[0]", "v10.4s", 1))

    def test_narrow_registers(self):
        self.sees("uses other registers", good().replace(
            "\tadd\tx15", "\tfmla\tv0.2s, v8.2s, v10.s[0]\n\tadd\tx15"))

    def test_later_levels(self):
        for line in ("sdot\tv0.4s, v1.16b, v2.16b", "fmlal\tv0.4s, v1.4h, v2.4h",
                     "bfdot\tv0.4s, v1.8h, v2.8h", "bfmmla\tv0.4s, v1.8h, v2.8h",
                     "fcmla\tv0.4s, v1.4s, v2.4s, #90", "ldadd\tx0, x1, [x2]",
                     "fadd\tv0.8h, v1.8h, v2.8h", "fmla\tz0.s, p0/m, z1.s, z2.s",
                     "sqrdmlah\tv0.4s, v1.4s, v2.4s", "usmmla\tv0.4s, v1.16b, v2.16b"):
            self.sees("not of this level", extra=f"\t{line}\n")

    def test_level_zero_passes(self):
        extra = "".join(f"\t{line}\n" for line in (
            "fcvtl\tv0.4s, v1.4h", "fcvtn\tv0.4h, v1.4s", "frintm\tv0.4s, v1.4s",
            "sqrdmulh\tv0.4s, v1.4s, v2.4s", "ld1r\t{ v0.4s }, [x1]",
            "ldaxr\tx0, [x1]", "ldar\tx0, [x1]"))
        self.assertEqual(self.complaints(extra=extra), [])

    def test_narrow_indices(self):
        for line in ("sxtw\tx0, w0", "ldr\tq0, [x0, w1, sxtw #4]"):
            self.sees("a 32-bit index", extra=f"\t{line}\n")

    def test_calls(self):
        self.sees("leaves for memset", extra="\tbl\tmemset\n")
        self.sees("leaves for memset", extra="\tb\tmemset\n")
        self.sees("leaves for x9", extra="\tblr\tx9\n")
        self.assertEqual(self.complaints(extra="\tbl\trun\n"), [])

    def test_frames(self):
        self.assertEqual(self.complaints(frame="\tsub\tsp, sp, #3, lsl #12\n"), [])
        self.sees("16416 bytes of stack", frame="\tsub\tsp, sp, #4, lsl #12\n")

    def test_no_function(self):
        self.assertEqual(checker_arm.check("\t.text\n"), ["no function"])


if __name__ == "__main__":
    unittest.main(verbosity=1)

"""Rules about the AArch64 assembly of a kernel, as checker.py has for x86.
Standard library only. `check(text)` gives a list of complaints."""

import re

import checker
from checker import DENSE, MAX_FRAME

# The least part of a dense loop's vector instructions that are multiply-adds or
# loads, those that widen included, and of a large loop's instructions that are
# multiply-adds.
MIN_USEFUL, MIN_SHARE = 0.95, 0.65
# Multiply-adds of a large loop, at least; there are two.
LARGEST = 24

JUMP = re.compile(r"(?:b|b\.[a-z]+|cbn?z|tbn?z|br|ret)$")
FUSED = re.compile(r"fml[as]$")
LOAD = re.compile(r"ld\w+$")
WIDEN = re.compile(r"(?:fcvtl|u?shll)2?$")
VECTOR = re.compile(r"\bv\d+\.|\b[qds]\d+\b")
STACK = re.compile(r"\[sp\b")
# What looks at each weight of a pair, where a mask may rule pairs out.
COMPARE = re.compile(r"(?:cm(?:lt|ge)|fcm[a-z]+)$")
# Instructions that later revisions or extensions added: of fields and dot
# products, complex numbers, JavaScript, atomics, and halves' arithmetic; and the
# registers of scalable vectors.
LATER = re.compile(
    r"(?:[us]{1,2}dot|bf(?:dot|mlal[bt]|mmla|cvtn?2?)|fml[as]l2?|[us]{1,2}mmla|"
    r"sqrdml[as]h|fcmla|fcadd|fjcvtzs|frint(?:32|64)[xz]|"
    r"casp?a?l?[bh]?|swpa?l?[bh]?|(?:ld|st)(?:add|clr|eor|set|[us]max|[us]min)a?l?[bh]?|"
    r"ldapu?r[bh]?|eor3|rax1|xar|bcax|sm[34]\w+|sha512\w+|pac\w+|aut\w+|bti|whilel\w+)$")
LATER_OPERANDS = re.compile(r"\b(?:z\d+\.[bhsd]|p\d+/[mz]|za)\b")
HALVES = re.compile(r"f(?!cvt)\w+$")


class Instruction:
    def __init__(self, text):
        self.text = text
        self.name, _, self.operands = text.partition("\t")
        self.operands = self.operands.strip()

    def vector(self):
        return VECTOR.search(self.operands) is not None

    def goes_to(self):
        return self.operands.split(",")[-1].strip()


def parse(text):
    """The functions of a file; data is left out."""
    return checker.parse(text, "//", Instruction, JUMP)


def loops_of(function):
    """Blocks that jump to themselves."""
    for block in function.blocks:
        last = block.instructions[-1] if block.instructions else None
        if block.label and last and JUMP.match(last.name) \
                and last.goes_to() == block.label:
            yield block


def check_loops(functions):
    """The loops that carry a kernel: registers only, and mostly arithmetic."""
    dense = []
    for function in functions:
        for loop in loops_of(function):
            adds = [i for i in loop.instructions if FUSED.match(i.name)]
            place = f"{function.name}: loop {loop.label} of {len(adds)} multiply-adds"
            if len(adds) < DENSE:
                continue
            vector = [i for i in loop.instructions if i.vector()]
            for i in vector:
                if STACK.search(i.operands):
                    yield f"{place} touches the stack: {i.text}"
            if any(COMPARE.match(i.name) for i in loop.instructions):
                continue
            dense.append(len(adds))
            for i in adds:
                if not re.match(r"v\d+\.4s, v\d+\.4s, v\d+\.(?:4s|s\[\d\])$",
                                i.operands):
                    yield f"{place} uses other registers: {i.text}"
            by_element = [i for i in adds if i.operands.endswith("]")]
            if len(adds) >= LARGEST and len(by_element) < len(adds):
                yield f"{place} multiplies by element only {len(by_element)} times"
            loads = [i for i in vector
                     if LOAD.match(i.name) or WIDEN.match(i.name)]
            useful = (len(adds) + len(loads)) / len(vector)
            if useful < MIN_USEFUL:
                yield (f"{place}: {useful:.2f} of the vector instructions multiply, "
                       f"add or load, less than {MIN_USEFUL}")
            share = len(adds) / len(loop.instructions)
            if len(adds) >= LARGEST and share < MIN_SHARE:
                yield f"{place} is {share:.2f} arithmetic, less than {MIN_SHARE}"
    if len(dense) < 2:
        yield f"{len(dense)} dense loops; scores and accumulation make two at least"
    elif sorted(dense)[-2] < LARGEST:
        yield f"loops of {sorted(dense)} multiply-adds; {LARGEST} wanted in two"


def check_instructions(functions):
    """ARMv8.0-A only, and addresses in 64 bits."""
    for function in functions:
        for i in function.instructions():
            if LATER.match(i.name) or LATER_OPERANDS.search(i.operands) or (
                    HALVES.match(i.name) and re.search(r"\.[48]h\b", i.operands)):
                yield f"{function.name}: not of this level: {i.text}"
            if i.name in ("sxtw", "uxtw") or re.search(r"\[.*[su]xtw", i.operands):
                yield f"{function.name}: a 32-bit index: {i.text}"


def frame(function):
    """Bytes taken from the stack."""
    size = 0
    for i in function.instructions():
        if match := re.fullmatch(r"sp, sp, #(\d+)(, lsl #12)?", i.operands):
            if i.name == "sub":
                size += int(match.group(1)) << (12 if match.group(2) else 0)
        elif match := re.search(r"\[sp, #-(\d+)\]!$", i.operands):
            size += int(match.group(1))
    return size


def check_frame(functions):
    """Small frames, no calls out."""
    own = {f.name for f in functions}
    for function in functions:
        if frame(function) > MAX_FRAME:
            yield f"{function.name}: {frame(function)} bytes of stack"
        for i in function.instructions():
            leaves = (JUMP.match(i.name) and i.name != "ret"
                      and not i.goes_to().startswith(".L"))
            if (i.name in ("bl", "blr") or leaves) and i.operands not in own:
                yield f"{function.name}: leaves for {i.operands}"


def check(text):
    functions = parse(text)
    if not functions:
        return ["no function"]
    return [c for rule in (check_loops, check_instructions, check_frame)
            for c in rule(functions)]

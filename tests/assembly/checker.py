"""Rules about the assembly of a kernel, in AT&T syntax. Standard library only.

`check(text, level)` gives a list of complaints, each with the function and the
loop that it is about.
"""

import re

# A vector or mask register; what a spill of one would name beside the stack.
VECTOR = re.compile(r"%(?:[xyz]mm\d+|k[0-7])\b")
FUSED = re.compile(r"vfn?m(?:add|sub)\d*ps$")
JUMP = re.compile(r"j[a-z]+$")
# What looks at each weight of a pair, where a mask may rule pairs out.
COMPARE = re.compile(r"v?p?cmp[a-z]*(?:ps|d)$")

KIB = 1 << 10
MAX_FRAME = 16 * KIB
# From so many multiply-adds on, a loop is one of those that carry a kernel ...
DENSE = 12
# ... and from so many on, it must at least not touch the stack.
BUSY = 4
# Instructions of a later level, or of no level: of SSE3 and what followed in
# the old encoding, ...
AFTER_SSE2 = re.compile(
    r"(?:addsubp[sd]|h(?:add|sub)p[sd]|movs[hl]dup|movddup|lddqu|"
    r"pshufb|palignr|pabs[bwd]|psign[bwd]|pmaddubsw|pmulhrsw|ph(?:add|sub)(?:w|d|sw)|"
    r"p?blendv?(?:p[sd]|b|w)|dpp[sd]|insertps|extractps|p(?:extr|insr)[bdq]|"
    r"pmulld|pmuldq|pm(?:in|ax)(?:s[bd]|u[wd])|pmov[sz]x[bwdq]{2}|ptest|"
    r"round[ps][sd]|pcmp(?:eqq|gtq|[ei]str[im])|packusdw|mpsadbw|phminposuw|"
    r"movntdqa|crc32[bwlq]?)$")
# ... of AVX-512 in the new encoding, also on short registers, ...
AFTER_AVX2 = re.compile(
    r"v(?:pternlog[dq]|rndscale\w+|psraq|psravq|"
    r"p(?:min|max)[su]q|perm[it]2\w+|align[dq]|scalef\w+|getexp\w+|getmant\w+|"
    r"rcp14\w+|rsqrt14\w+|p?compress\w+|p?expand\w+|movdqa(?:32|64)|"
    r"movdqu(?:8|16|32|64)|pmullq|p(?:and|andn|or|xor)[dq]|"
    r"(?:insert|extract|broadcast|shuf)[fi](?:32|64)x[248]|blendmp[sd]|"
    r"pblendm[bwdq]|reduce\w+|range\w+|fpclass\w+|pmovu?s?[wdq][bwd]|"
    r"pmovm2[bwdq]|pmov[bwdq]2m|cvt\w*u(?:qq|dq)\w*|"
    r"cvt\w*qq\w*|fixupimm\w+)$")
# ... and of extensions that no level has.
NO_LEVEL = re.compile(
    r"(?:popcnt[lq]?|lzcnt[lq]?|tzcnt[lq]?|movbe[lq]?|andn[lq]|bextr[lq]|"
    r"bls(?:r|i|msk)[lq]|bzhi[lq]|mulx[lq]|p(?:dep|ext)[lq]|rorx[lq]|"
    r"s[ah][lr]x[lq]|ad[co]x[lq]|"
    r"vperm(?:b|i2b|t2b)|vpmultishiftqb|vpmadd52\w+|vpdp\w+|vdpbf16ps|vcvtne\w+|"
    r"v\w+(?:ph|sh)|vpopcnt\w+|vpconflict\w+|vplzcnt\w+|vexp2\w+|vrcp28\w+|"
    r"vrsqrt28\w+|vpcompress[bw]|vpexpand[bw]|vpsh[lr]dv?[wdq]|vgf2p8\w+|"
    r"v?aes\w+|v?pclmul\w+|v?sha\w+)$")
# What ends in ph and is older than arithmetic on halves: F16C.
OLDER = re.compile(r"vcvtps2ph$")


class Level:
    """What code of one level must and must not hold."""

    def __init__(self, register, share, dense, foreign, words, vex=True):
        self.register = register  # of every multiply-add in a dense loop
        self.share = share  # the least part of a dense loop that multiplies, adds
        self.dense = dense  # multiply-adds of the largest loop, at least
        self.foreign = [re.compile(f) for f in foreign]  # instructions
        self.words = re.compile(words)  # operands of a later level
        self.vex = vex


LEVELS = {
    "x86-64": Level("xmm", 0.4, 24, [AFTER_SSE2.pattern, r"v[a-z]\w+$"],
                    r"%[yz]mm|%xmm(?:1[6-9]|[23]\d)|%k[0-7]\b|\{", vex=False),
    "x86-avx2": Level("ymm", 0.38, 24, [AFTER_AVX2.pattern],
                      r"%zmm|%[xy]mm(?:1[6-9]|[23]\d)|%k[0-7]\b|\{"),
    "x86-avx512": Level("zmm", 0.7, 24, [r"$."], r"(?!)"),
}


class Instruction:
    def __init__(self, text):
        self.text = text
        self.name, _, self.operands = text.partition("\t")
        self.operands = self.operands.strip()

    def vector(self):
        return VECTOR.search(self.operands) is not None


class Block:
    """From a label, or a jump, to the next one."""

    def __init__(self, label):
        self.label = label
        self.instructions = []

    def is_loop(self):
        last = self.instructions[-1] if self.instructions else None
        return bool(self.label and last and JUMP.match(last.name)
                    and last.operands == self.label)

    def named(self, pattern):
        return [i for i in self.instructions if re.match(pattern, i.name)]

    def multiply_adds(self):
        """Fused ones; or pairs of a product and a sum."""
        fused = [i for i in self.instructions if FUSED.match(i.name)]
        return len(fused) + min(len(self.named(r"v?mulps$")),
                                len(self.named(r"v?addps$")))

    def share(self, fused):
        return self.multiply_adds() * (1 if fused else 2) / len(self.instructions)

    def looks_at_weights(self):
        return bool(self.named(COMPARE.pattern))


class Function:
    def __init__(self, name):
        self.name = name
        self.blocks = [Block(None)]

    def instructions(self):
        return [i for b in self.blocks for i in b.instructions]

    def loops(self):
        return [b for b in self.blocks if b.is_loop()]

    def stack(self):
        """What addresses the stack here: %rbp may be an ordinary register."""
        frame = any(i.name == "movq" and i.operands == "%rsp, %rbp"
                    for i in self.instructions())
        return re.compile(r"\(%r[sb]p[,)]" if frame else r"\(%rsp[,)]")

    def frame(self):
        """Bytes taken from the stack, without what is pushed."""
        size = 0
        for i in self.instructions():
            match = (re.fullmatch(r"\$(\d+), %rsp", i.operands)
                     if i.name == "subq" else
                     re.fullmatch(r"\$-(\d+), %rsp", i.operands)
                     if i.name == "addq" else
                     re.fullmatch(r"-(\d+)\(%rsp\), %rsp", i.operands)
                     if i.name == "leaq" else None)
            if match:
                size += int(match.group(1))
        return size


def parse(text, comment="#", instruction_of=Instruction, jump=JUMP):
    """The functions of a file; data is left out."""
    names = set(re.findall(r"^\s*\.type\s+([\w.$]+),\s*@function", text, re.M))
    functions = []
    inside = None
    for line in text.splitlines():
        line = line.split(comment)[0].rstrip()
        label = re.match(r"([\w.$]+):", line)
        if label and label.group(1) in names:
            inside = Function(label.group(1))
            functions.append(inside)
        elif label and label.group(1).startswith(".Lfunc_end"):
            inside = None
        elif label and inside:
            inside.blocks.append(Block(label.group(1)))
        elif inside and line.strip() and not line.strip().startswith("."):
            instruction = instruction_of(line.strip())
            inside.blocks[-1].instructions.append(instruction)
            if jump.match(instruction.name):
                inside.blocks.append(Block(None))
    return functions


def check_loops(functions, level):
    """The loops that carry a kernel: registers only, and mostly arithmetic."""
    dense = []
    for function in functions:
        stack = function.stack()
        for loop in function.loops():
            adds = loop.multiply_adds()
            place = f"{function.name}: loop {loop.label} of {adds} multiply-adds"
            if adds < BUSY:
                continue
            for i in loop.instructions:
                if i.vector() and stack.search(i.operands):
                    yield f"{place} touches the stack: {i.text}"
            if adds < DENSE:
                continue
            for i in loop.instructions:
                if FUSED.match(i.name) or re.match(r"v?(?:mul|add)ps$", i.name):
                    if f"%{level.register}" not in i.operands:
                        yield f"{place} uses other registers: {i.text}"
            if loop.looks_at_weights():
                continue
            dense.append(adds)
            share = loop.share(fused=level.vex)
            if share < level.share:
                yield f"{place} is {share:.2f} arithmetic, less than {level.share}"
            folded = sum("{1to16}" in i.operands for i in loop.instructions)
            if level.register == "zmm" and folded < adds:
                yield f"{place} folds only {folded} broadcasts into them"
    if len(dense) < 2:
        yield f"{len(dense)} dense loops; scores and accumulation make two at least"
    elif sorted(dense)[-2] < level.dense:
        yield f"loops of {sorted(dense)} multiply-adds; {level.dense} wanted in two"


def check_instructions(functions, level):
    """Nothing of a later level, and addresses in 64 bits."""
    for function in functions:
        for i in function.instructions():
            later = any(p.match(i.name) for p in level.foreign)
            later |= bool(NO_LEVEL.match(i.name) and not OLDER.match(i.name))
            if later or level.words.search(i.operands):
                yield f"{function.name}: not of this level: {i.text}"
            if i.name in ("movslq", "cltq", "cwtl", "cltd"):
                yield f"{function.name}: a 32-bit index: {i.text}"


def check_frame(functions, level):
    """Small frames, no calls out, clean upper halves on return."""
    own = {f.name for f in functions}
    for function in functions:
        if function.frame() > MAX_FRAME:
            yield f"{function.name}: {function.frame()} bytes of stack"
        wide = any(re.search(r"%[yz]mm", i.operands)
                   for i in function.instructions())
        for block in function.blocks:
            for at, i in enumerate(block.instructions):
                leaves = JUMP.match(i.name) and not i.operands.startswith(".L")
                if (i.name.startswith("call") or leaves) and i.operands not in own:
                    yield f"{function.name}: leaves for {i.operands}"
                if i.name.startswith("ret") and level.vex and wide:
                    before = [j.name for j in block.instructions[:at]]
                    if "vzeroupper" not in before[-10:]:
                        yield f"{function.name}: returns without vzeroupper"


def check(text, level_name):
    level = LEVELS[level_name]
    functions = parse(text)
    if not functions:
        return ["no function"]
    return [c for rule in (check_loops, check_instructions, check_frame)
            for c in rule(functions, level)]


def code_bytes(elf):
    """Bytes in executable sections of a 64-bit little-endian ELF file."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF file")
    number = lambda at, size: int.from_bytes(elf[at:at + size], "little")
    table, entry, count = number(0x28, 8), number(0x3A, 2), number(0x3C, 2)
    executable = 4
    return sum(number(at + 0x20, 8)
               for at in range(table, table + entry * count, entry)
               if number(at + 8, 8) & executable)

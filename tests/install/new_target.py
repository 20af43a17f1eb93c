#!/usr/bin/env python3
"""Adds a target to an installed attnc from outside its tree.

usage: new_target.py build|use|assembly|refusals --prefix DIR --source DIR --work DIR
                     --cxx CXX --cc CC

`build` builds examples/new_target against the prefix; the others use what it
made there. Standard library only.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from install import expect, run

MAX_LINES = 300  # of all files of the example but its tutorial


def build(args):
    example = args.source / "examples" / "new_target"
    lines = sum(len(path.read_text().splitlines()) for path in example.iterdir()
                if path.name != "README.md")
    expect(lines <= MAX_LINES, f"the example has {lines} lines, at most {MAX_LINES}")
    shutil.rmtree(args.work, ignore_errors=True)
    shutil.copytree(example, args.work / "source")
    run("cmake", "-G", "Ninja", "-S", args.work / "source", "-B", args.work / "build",
        f"-DCMAKE_CXX_COMPILER={args.cxx}", "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror -pedantic",
        f"-DCMAKE_PREFIX_PATH={args.prefix}")
    run("cmake", "--build", args.work / "build")


class Tool:
    def __init__(self, args):
        self.attnc = args.prefix / "bin" / "attnc"
        self.library = args.work / "build" / "libriscv_target.so"
        self.examples = args.source / "examples"

    def run(self, *arguments, **options):
        return run(self.attnc, *arguments, **options)

    def loaded(self, *arguments, **options):
        return self.run(*arguments, "--load-target", self.library, **options)

    def refused(self, *arguments, environment=None):
        """The one message of a refusal: exit code 2, nothing printed."""
        done = subprocess.run([str(a) for a in (self.attnc, *arguments)], text=True,
                              capture_output=True, env=environment)
        print("+ refused:", *arguments, "\n" + done.stderr, end="", flush=True)
        expect(done.returncode == 2, f"exit code {done.returncode}, not 2")
        expect(done.stdout == "", f"printed: {done.stdout}")
        expect(done.stderr.count("\n") == 1, "not one line")
        return done.stderr


def use(args):
    tool = Tool(args)
    listed = {t["name"]: t for t in json.loads(tool.loaded("targets", "--json"))}
    for bits in ("128", "256"):
        target = listed[f"riscv-rvv{bits}"]
        expect(target["features"] == f"rv64gc,v,zvl{bits}b", f"features of {target}")
        expect(target["runs_here"] or target["through"] == "qemu-riscv64",
               f"how is it run? {target}")
    expect(not any(name.startswith("riscv") for name in
                   (t["name"] for t in json.loads(tool.run("targets", "--json")))),
           "a target is there without its library")
    # Before the command, twice, and from the environment.
    for arguments, environment in (
        (("--load-target", tool.library, "targets"), os.environ),
        (("targets", "--load-target", tool.library, "--load-target", tool.library),
         os.environ),
        (("targets",), {**os.environ, "ATTN_LOAD_TARGET": f":{tool.library}:"}),
    ):
        expect("riscv-rvv128" in tool.run(*arguments, env=environment), "not loaded")

    longformer = tool.examples / "longformer_base.attn"
    for target in ("riscv-rvv128", "riscv-rvv256"):
        checked = tool.loaded("check", longformer, "--target", target, "--cases", "20")
        expect("20 cases, 0 wrong" in checked, "not checked")
    bundle = args.work / "longformer.so"
    tool.loaded("compile", longformer, "--target", "riscv-rvv128,riscv-rvv256",
                "-o", bundle)
    machine = int.from_bytes(bundle.read_bytes()[18:20], "little")
    expect(machine == 243, f"the bundle is for ELF machine {machine}, not RISC-V")
    expect('"plan"' in tool.loaded("explain", longformer, "--target", "riscv-rvv128",
                                   "--json"), "not explained")
    if not listed["riscv-rvv128"]["runs_here"]:
        message = tool.refused("bench", tool.examples / "minilm.attn", "--target", "riscv-rvv128",
                               "--load-target", tool.library)
        expect("zvl128b" in message, "it is not said what is missing")
        message = tool.refused("compile", longformer, "--target", "riscv-rvv128,x86-64",
                               "-o", args.work / "both.so", "--load-target", tool.library)
        expect("riscv64" in message and "x86_64" in message, "not said which differ")
        message = tool.refused("check", longformer, "--target", "riscv-rvv128",
                               "--load-target", tool.library,
                               environment={**os.environ, "PATH": "/nowhere"})
        expect("no qemu-riscv64 in PATH; Debian's package qemu-user" in message,
               "it is not said which package brings the emulator")


LABEL = re.compile(r"(\.L\w+):")
ADD = re.compile(r"vfn?m(?:acc|add|sac|sub)\.")


def loops_of(text):
    """Basic blocks that jump to themselves, as lists of instructions."""
    label, block = "", []
    for line in text.splitlines():
        line = line.split("#")[0].strip().replace("\t", " ")
        match = LABEL.match(line)
        if match:
            label, block = match.group(1), []
        elif line and not line.startswith("."):
            block.append(line)
            if re.match(r"(?:b\w+|j) ", line):
                if line.endswith(label) and label:
                    yield block
                label = ""


def assembly(args):
    """Dense loops multiply a vector by a scalar and keep to registers."""
    tool = Tool(args)
    for target in ("riscv-rvv128", "riscv-rvv256"):
        for width in (64, 128):
            text = tool.run(
                "compile", "-", "--target", target, "--emit", "asm", "--load-target",
                tool.library, quiet=True,
                input=f"attention d {{ heads = 1 head_dim = {width} }}")
            large = 0
            for loop in loops_of(text):
                adds = [i for i in loop if ADD.match(i)]
                if len(adds) < 12:
                    continue
                large += len(adds) == 24
                for i in loop:
                    expect("(sp)" not in i and not re.match(r"v[ls]\d+r\.v", i),
                           f"{target}: a loop touches the stack: {i}")
                for i in adds:
                    expect(i.startswith("vfmacc.vf"), f"{target}: {i}")
            print(f"{target}, width {width}: {large} loops of 24 vfmacc.vf")
            expect(large >= 2, f"{target}: {large} large loops, at least 2")


def refusals(args):
    tool = Tool(args)

    def compiled(name, text, *options):
        library = args.work / f"{name}.so"
        run(args.cc, "-shared", "-fPIC", *options, "-x", "c", "-", "-o", library,
            input=text)
        return library

    def refused(library, *words, also=()):
        message = tool.refused("targets", *also, "--load-target", library)
        for word in (str(library), *words):
            expect(word in message, f"the message has no '{word}'")

    version = re.search(rb"\0(\d+, LLVM [\d.]+, libstdc\+\+[^\0]*)\0",
                        tool.library.read_bytes()).group(1).decode()
    # Nothing of a library of another version is run.
    abort = "void abort(void); __attribute__((constructor)) static void f(void) { abort(); }"
    other = "99, LLVM 3.0.0, libstdc++"
    refused(compiled("version", f'const char attn_target_interface[] = "{other}"; {abort}'),
            other, version)
    llvm = re.sub(r"LLVM [\d.]+", "LLVM 22.0.0", version)
    refused(compiled("llvm", f'const char attn_target_interface[] = "{llvm}"; {abort}'),
            llvm, version)
    refused(compiled("without", f"int something = 1; {abort}"), "attn_target_interface")
    right = f'const char attn_target_interface[] = "{version}"; '
    refused(compiled("entry", right), "attn_add_targets")
    refused(compiled("none", right + "void attn_add_targets(void *l) { (void)l; }"),
            "adds no target")
    refused(compiled("missing", right + "void other(void); void attn_add_targets"
                     "(void *l) { (void)l; other(); }"), "other")
    refused(compiled("foreign", right, "--target=riscv64-linux-gnu", "-nostdlib",
                     "-fuse-ld=lld"), "riscv64")
    copy = args.work / "copy.so"
    shutil.copy(tool.library, copy)
    refused(copy, "riscv-rvv128", "taken", also=("--load-target", tool.library))
    text = args.work / "text.so"
    text.write_text("no library\n")
    refused(text)
    refused(args.work / "absent.so", "No such file")
    refused(args.work, "directory")
    message = tool.refused("targets", "--load-target")
    expect("--load-target" in message, "the option is not named")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = {step.__name__: step for step in (build, use, assembly, refusals)}
    parser.add_argument("step", choices=steps)
    for name in ("prefix", "source", "work"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    for name in ("cc", "cxx"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    steps[args.step](args)
    return 0


if __name__ == "__main__":
    sys.exit(main())

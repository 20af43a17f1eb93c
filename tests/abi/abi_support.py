"""What the tests of compiled objects share. Standard library only."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ATTNC = os.environ["ATTNC"]
LEVELS = ("x86-64", "x86-avx2", "x86-avx512")
CLANG, CLANGXX = os.environ["CLANG"], os.environ["CLANGXX"]
# (compiler, language) of the programs.
COMPILERS = (("gcc", "c"), (CLANG, "c"), ("g++", "c++"), (CLANGXX, "c++"))
PACKAGES = {"gcc": "g++", "g++": "g++", CLANGXX: CLANG, "objdump": "binutils", "nm": "binutils",
            "readelf": "binutils", "ld": "binutils",
            "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
            "qemu-aarch64": "qemu-user"}


def symbol(variant, target):
    return f"attn_{variant}__{target.replace('-', '_')}"


def runs_here():
    """The levels that `attnc targets` says run on this machine."""
    lines = subprocess.run([ATTNC, "targets"], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return [line.split()[0] for line in lines
            if line.split()[0] in LEVELS and "runs here" in line]


def includes(option):
    """Where the runtime's headers and those that they need are."""
    return [f"{option}{d}" for d in os.environ["RUNTIME_INCLUDES"].split(":")]


def runtime():
    """What a program for this machine links."""
    return [os.environ["RUNTIME"], os.environ["PTHREADPOOL"], "-lpthread", "-ldl",
            "-lm"]


class Case(unittest.TestCase):
    """Each test has a directory of its own, the current one of what it starts."""

    maxDiff = None

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="attnc-abi-")
        self.addCleanup(temporary.cleanup)
        self.dir = pathlib.Path(temporary.name)

    def run_tool(self, name, *arguments, code=0, env=None):
        """What a program prints, which has to end with `code`."""
        if "/" not in name and not shutil.which(name):
            self.fail(f"no {name} in PATH; Debian's package "
                      f"{PACKAGES.get(name, name)} brings it")
        process = subprocess.run(
            [name, *map(str, arguments)], cwd=self.dir, timeout=300, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})})
        self.assertEqual(process.returncode, code,
                         f"{name} {' '.join(map(str, arguments))}\n{process.stdout}")
        return process.stdout

    def write(self, name, content):
        (self.dir / name).write_text(content)
        return name

    def compile_object(self, text, out, targets=LEVELS):
        return self.run_tool(ATTNC, "compile", text, "--emit", "obj", "--target",
                             ",".join(targets), "-o", out)

    def build(self, compiler, language, *arguments):
        """Builds a program of C (`c`) or C++ (`c++`). A compiler is a name, or
        a list that begins with one."""
        command = [compiler] if isinstance(compiler, str) else compiler
        return self.run_tool(
            *command, f"-std={'gnu11' if language == 'c' else 'c++17'}", "-Wall",
            "-Wextra", "-Werror", "-I.", *includes("-idirafter"), *arguments)

    def exported(self, name, *options):
        """The symbols that others can see, or would have to bring."""
        lines = self.run_tool("nm", "-g", *options, name).splitlines()
        return sorted(line.split()[-1] for line in lines if line.strip())

#!/usr/bin/env python3
"""Rules about the source tree that no compiler checks.

usage: check.py [--root DIR] [RULE...]

Without rules it checks all of them. Each breach is one line, `file:line:
reason`; the exit code is 1 if there are any. Standard library only.
"""

import argparse
import ast
import fnmatch
import os
import pathlib
import re
import subprocess
import sys

CODE = (".c", ".h", ".cpp", ".td")
RULES = {}


def rule(function):
    RULES[function.__name__] = function
    return function


class Tree:
    """The files of a checkout: tracked or new, never ignored ones."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        if (self.root / ".git").exists():
            listing = subprocess.run(
                ["git", "-C", self.root, "ls-files", "-z", "-co", "--exclude-standard"],
                check=True, capture_output=True,
            ).stdout.decode()
            names = [n for n in listing.split("\0") if n and (self.root / n).exists()]
        else:
            names = [
                os.path.relpath(os.path.join(folder, name), self.root)
                for folder, _, found in os.walk(self.root)
                for name in found
            ]
            names = [n for n in names if not n.startswith(("build", ".cache"))]
        self.files = sorted(set(names))
        self.folders = {
            str(p) for n in self.files for p in pathlib.PurePosixPath(n).parents
        }

    def text(self, name):
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    def lines(self, name):
        return enumerate(self.text(name).splitlines(), 1)

    def under(self, *folders, suffixes=CODE):
        return [
            n for n in self.files
            if n.endswith(suffixes) and n.split("/")[0] in folders
        ]

    def has(self, path):
        return path in self.files or path.rstrip("/") in self.folders


# --- Machine names only under targets/ ---------------------------------------

MACHINE_WORDS = re.compile(
    r"avx\d*\w*|sse\d*|neon|sve\d*|rvv|riscv\d*|nvptx\d*|cuda|ptx\d*|cubin|nvvm|"
    r"nvgpu|aarch64|arm|arm64|armv\d+|x86|x64|i[3-6]86|amd64|intel|amd|nvidia|[xyz]mm\d*|"
    r"immintrin|xmmintrin|cpuid|xcr0|xgetbv|amx|wgmma|ldmatrix"
)
# Parts of an identifier: useX86Code -> use, X86, Code; NVVMDialect -> NVVM, Dialect.
PARTS = re.compile(r"[A-Z]+\d*(?![a-z])|[A-Z]?[a-z]+\d*|\d+")


def machine_words_in(line):
    for word in re.findall(r"[A-Za-z][A-Za-z0-9]*", line):
        parts = [word] if MACHINE_WORDS.fullmatch(word.lower()) else PARTS.findall(word)
        yield from (p for p in parts if MACHINE_WORDS.fullmatch(p.lower()))


@rule
def machine_words(tree):
    """compiler/, dsl/ and runtime/ name no machine."""
    for name in tree.under("compiler", "dsl", "runtime"):
        for number, line in tree.lines(name):
            for word in sorted(set(machine_words_in(line))):
                yield name, number, f"names a machine: {word}"


# Of what a variant is made of, which a target in fragments learns from the tile
# program alone. (Masks are not said otherwise in the field; "global memory" is.)
VARIANT_WORDS = re.compile(
    r"mask(s|ed)?|dilat\w*|globals|causal|sliding|windows?|neighborhoods?|alibi|"
    r"documents?|softcap|prefix"
)


@rule
def variant_words(tree):
    """targets/cuda/ names no variant."""
    for name in tree.under("targets"):
        if not name.startswith("targets/cuda/"):
            continue
        for number, line in tree.lines(name):
            words = re.findall(r"[A-Za-z][A-Za-z0-9]*", line)
            parts = {part for word in words for part in [word] + PARTS.findall(word)}
            for part in sorted(parts):
                if VARIANT_WORDS.fullmatch(part.lower()):
                    yield name, number, f"names a variant: {part}"


# --- Folders meet only at seams ----------------------------------------------

SEAMS = {"dsl/Spec.h", "compiler/Plan.h", "compiler/Target.h", "runtime/attn_abi.h",
         "runtime/device.h"}
PUBLIC = SEAMS | {
    "dsl/Variant.h", "compiler/Compiler.h", "compiler/Explain.h",
    "compiler/AttnDialect.h", "compiler/RangeAnalysis.h", "runtime/attn.h",
}
# Longest prefix wins: what files of a folder may include of other folders.
MAY_INCLUDE = {
    "dsl": set(),
    "runtime": set(),
    "compiler": {"dsl/Spec.h", "runtime/attn_abi.h"},
    "compiler/tools": PUBLIC | {"tests/support/Check.h",
                                "tests/support/Conformance.h",
                                "tests/support/Interpreted.h"},
    "targets": SEAMS | {"compiler/AttnDialect.h", "compiler/RangeAnalysis.h"},
    "tests": PUBLIC,
    "tests/oracle": {"dsl/Spec.h", "runtime/attn_abi.h"},
    "tests/support": PUBLIC | {"targets/arm/Emulation.h",
                               "targets/x86/Emulation.h"},
    "examples": PUBLIC | {"targets/cpu/CpuTarget.h"},
}
# Unit tests look inside the one folder that they test.
INSIDE = {"tests/codegen": "compiler", "tests/compiler": "compiler",
          "tests/cuda": "targets/cuda",
          "tests/dsl": "dsl", "tests/runtime": "runtime"}
# Of what each folder knows nothing at all.
FOREIGN = {"dsl": ("llvm/", "mlir/"), "runtime": ("llvm/", "mlir/", "llvm-c/"),
           "tests/oracle": ("llvm/", "mlir/")}
INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)[">]')


def longest_prefix(table, name):
    found = [p for p in table if name.startswith(p + "/")]
    return max(found, key=len) if found else None


@rule
def includes(tree):
    """Includes across folders go through the seams."""
    tops = {"dsl", "compiler", "targets", "runtime", "tests", "examples"}
    for name in tree.under(*tops, suffixes=(".c", ".h", ".cpp")):
        top, folder = name.split("/")[0], os.path.dirname(name)
        foreign = longest_prefix(FOREIGN, name)
        for number, line in tree.lines(name):
            match = INCLUDE.match(line)
            if not match:
                continue
            path = match.group(2)
            if foreign and path.startswith(FOREIGN[foreign]):
                yield name, number, f"{foreign}/ knows no {path.split('/')[0]}"
            # A quoted name is looked for beside the file first.
            target = path
            if match.group(1) == '"':
                beside = os.path.normpath(os.path.join(folder, path))
                if beside in tree.files or path.startswith("."):
                    target = beside
            if target.split("/")[0] not in tops:
                continue
            prefix = longest_prefix(MAY_INCLUDE, name)
            inside = prefix if prefix == "tests/oracle" else top
            if target.startswith(inside + "/"):
                continue
            tested = INSIDE.get(longest_prefix(INSIDE, name))
            if tested and target.startswith(tested + "/"):
                continue
            if target not in MAY_INCLUDE[prefix]:
                yield name, number, f"{prefix}/ may not include {target}"


# --- READMEs ------------------------------------------------------------------

NAMED = re.compile(
    r"[\w./*+-]+\.(?:c|h|cpp|td|md|py|cmake|mlir|test|attn|npy|json|txt)|[\w.+-]+(?:/[\w.*+-]+)+/?"
)


def prose(tree, name):
    """Lines of a Markdown file outside fenced code."""
    fenced = False
    for number, line in tree.lines(name):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def exists(tree, folder, path):
    """Whether `path`, seen from `folder` or the root, names something."""
    names = {os.path.normpath(os.path.join(folder, path)), os.path.normpath(path)}
    if any(tree.has(n) for n in names):
        return True
    if "*" in path:
        return any(fnmatch.filter(tree.files, n) for n in names)
    return "/" not in path and any(os.path.basename(f) == path for f in tree.files)


@rule
def readmes(tree):
    """Each folder has a README.md that names only what exists."""
    tops = {n.split("/")[0] for n in tree.files if "/" in n and not n.startswith(".")}
    wanted = tops | {
        d for d in tree.folders if re.fullmatch(r"(targets|examples)/[^/]+", d)
    }
    for folder in sorted(wanted):
        if f"{folder}/README.md" not in tree.files:
            yield folder, 0, "has no README.md"
    for name in tree.files:
        if os.path.basename(name) != "README.md":
            continue
        folder = os.path.dirname(name)
        for number, line in prose(tree, name):
            for link in re.findall(r"\]\(([^)\s]+)\)", line):
                target = link.split("#")[0]
                if target and not re.match(r"[a-z]+:", link):
                    path = os.path.normpath(os.path.join(folder, target))
                    if not tree.has(path):
                        yield name, number, f"broken link: {link}"
            for quoted in re.findall(r"`([^`]+)`", line):
                if not NAMED.fullmatch(quoted) or quoted.startswith("build/"):
                    continue
                stem = os.path.basename(quoted).split(".")[0]
                if stem.isupper():  # FILE.attn: a placeholder
                    continue
                if quoted.split("/")[0] in ("bin", "lib", "include", "llvm", "mlir"):
                    continue  # an installed or a foreign file
                if not exists(tree, folder, quoted):
                    yield name, number, f"names what is not there: {quoted}"


@rule
def commands(tree):
    """Commands that a README names exist, and figures name their command."""
    dev = tree.text("dev") if "dev" in tree.files else ""
    usage = re.search(r"<<'TEXT'\n(.*?)\nTEXT\n", dev, re.S)
    dev_commands = set(re.findall(r"^  (\w+)", usage.group(1), re.M)) if usage else set()
    tools = "".join(tree.text(n) for n in tree.under("compiler") if "/tools/" in n)
    for name in tree.files:
        if os.path.basename(name) != "README.md":
            continue
        section = ""
        rows = 0
        for number, line in tree.lines(name):
            for word in re.findall(r"\./dev ([a-z]+)", line):
                if word not in dev_commands:
                    yield name, number, f"./dev has no command {word}"
            for word in re.findall(r"(?:^|[`/ ])attnc ([a-z]+)", line):
                quoted = re.search(r"[`$]\s*[\w/.]*attnc " + word, line)
                if quoted and f'"{word}"' not in tools:
                    yield name, number, f"attnc has no command {word}"
            if line.startswith("#"):
                section, rows = line.strip("# ").lower(), 0
            elif section == "figures" and line.startswith("|"):
                rows += 1
                if rows > 2 and not re.search(r"`(\./dev|attnc|ctest) ?[^`]*`", line):
                    yield name, number, "a figure without the command that prints it"
            elif not line.startswith("|"):
                rows = 0 # each table has a head of its own


# --- Sizes, names, left-overs ---------------------------------------------------

MAX_LINES = 600


@rule
def file_length(tree):
    """A file stays readable in one sitting."""
    for name in tree.files:
        if name.endswith((*CODE, ".py", ".cmake", ".mlir", "CMakeLists.txt")) or name == "dev":
            count = len(tree.text(name).splitlines())
            if count > MAX_LINES:
                yield name, count, f"{count} lines, at most {MAX_LINES}"


TOP_LEVEL = {
    ".ci", ".clang-format", ".clang-tidy", ".gitignore", "CMakeLists.txt",
    "CMakePresets.json", "LICENSE", "README.md", "compiler", "dev",
    "dsl", "examples", "runtime", "targets", "tests",
}


@rule
def top_level(tree):
    """The top folder holds these names and no others."""
    found = {n.split("/")[0] for n in tree.files}
    for name in sorted(found - TOP_LEVEL):
        yield name, 0, "does not belong at the top level"
    for name in sorted(TOP_LEVEL - found):
        yield name, 0, "is missing at the top level"


# Spelled in pieces, so that this file does not hold them.
MARKERS = re.compile(
    r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK|TB" r"D|W" r"IP)\b|^(<{7}|>{7})( |$)"
)


@rule
def markers(tree):
    """Nothing is left over: no markers, no merge conflicts."""
    for name in tree.files:
        if name.endswith(".npy") or name == "LICENSE" or "/corpus/" in name:
            continue
        for number, line in tree.lines(name):
            match = MARKERS.search(line)
            if match:
                yield name, number, f"left over: {match.group(0).strip()}"


@rule
def python_modules(tree):
    """Test scripts need the standard library only."""
    for name in tree.under("tests", suffixes=(".py",)):
        # The latter compares with another library, where that is there.
        if name.endswith(("lit.cfg.py", "torch_times.py")):
            continue
        beside = {os.path.basename(n)[:-3] for n in tree.files if n.endswith(".py")}
        for node in ast.walk(ast.parse(tree.text(name))):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            else:
                continue
            for module in modules:
                first = module.split(".")[0]
                if first not in sys.stdlib_module_names and first not in beside:
                    yield name, node.lineno, f"imports {module}"


def check(root, names=()):
    """All breaches as (file, line, reason), in order."""
    tree = Tree(root)
    return [b for n in names or RULES for b in RULES[n](tree)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = pathlib.Path(__file__).resolve()
    parser.add_argument("--root", default=here.parents[2])
    parser.add_argument("rules", nargs="*", metavar="RULE", help=", ".join(RULES))
    args = parser.parse_args()
    for name in args.rules:
        if name not in RULES:
            parser.error(f"no rule {name}; there are {', '.join(RULES)}")
    found = check(args.root, args.rules)
    for name, line, reason in found:
        print(f"{name}:{line}: {reason}" if line else f"{name}: {reason}")
    print(f"{len(found)} breaches of {len(args.rules) or len(RULES)} rules")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

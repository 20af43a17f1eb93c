#!/usr/bin/env python3
"""Uses attnc as a project elsewhere would: from an installed tree only.

usage: install.py prefix|files|aot|jit|params --build DIR --prefix DIR --source DIR
                  --strip TOOL

`prefix` installs a build into a fresh prefix; the others work on that prefix.
Standard library only.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

RUNTIME_LIMIT = 128 << 10  # bytes of the stripped runtime library


def run(*command, quiet=False, **options):
    """What a command prints, which is also shown unless `quiet`."""
    print("+", *command, flush=True)
    done = subprocess.run(
        [str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, **options,
    )
    if not quiet or done.returncode != 0:
        print(done.stdout, end="", flush=True)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {done.returncode}")
    return done.stdout


def expect(condition, message):
    if not condition:
        raise SystemExit(message)


def no_llvm(binary):
    """Fails if `binary` needs LLVM, a C++ runtime or the compiler to start."""
    needed = run("ldd", binary)
    for word in ("LLVM", "MLIR", "libattnc", "libstdc++", "libc++"):
        expect(word not in needed, f"{binary} needs {word}")


def install_prefix(args):
    shutil.rmtree(args.prefix, ignore_errors=True)
    run("cmake", "--install", args.build, "--prefix", args.prefix)


def check_files(args):
    for name in (
        "bin/attnc", "lib/libattn.so", "lib/libattn.a", "lib/libattnc.so",
        "include/attn/attn.h", "include/attn/attn_abi.h",
        "include/attn/dsl/Spec.h", "include/attn/dsl/Variant.h",
        "include/attn/compiler/Target.h", "include/attn/targets/cpu/CpuTarget.h",
        "lib/cmake/attnc/attncConfig.cmake", "lib/cmake/attnc/AttncKernels.cmake",
        "lib/cmake/attnc/AttncTarget.cmake",
    ):
        expect((args.prefix / name).exists(), f"{name} is not installed")
    no_llvm(args.prefix / "lib/libattn.so")
    stripped = args.prefix / "libattn.stripped"
    run(args.strip, "-o", stripped, args.prefix / "lib/libattn.so")
    size = stripped.stat().st_size
    print(f"libattn.so, stripped: {size} bytes, at most {RUNTIME_LIMIT}")
    expect(size <= RUNTIME_LIMIT, "the runtime library is too large")
    # The tool runs where it was installed, without the build tree's libraries.
    targets = run(args.prefix / "bin/attnc", "targets")
    expect("x86-64" in targets, "attnc targets names no x86-64")
    # Each header stands alone.
    include = args.prefix / "include/attn"
    for name, compiler, standard in (
        ("attn.h", "clang-22", "c11"), ("attn_abi.h", "clang-22", "c11"),
        ("attn.h", "clang++-22", "c++17"),
        ("dsl/Spec.h", "clang++-22", "c++17"), ("dsl/Variant.h", "clang++-22", "c++17"),
        ("compiler/Target.h", "clang++-22", "c++17"),
        ("targets/cpu/CpuTarget.h", "clang++-22", "c++17"),
    ):
        language = "c" if compiler == "clang-22" else "c++"
        run(compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-pedantic",
            "-fsyntax-only", f"-I{include}", "-x", language, "-", input=f'#include "{name}"\n')


def build_example(args, name):
    """Copies the example out of the tree, builds it against the prefix, runs it."""
    work = args.prefix / f"use-{name}"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(args.source / "examples" / name, work / "source")
    for variant in (args.source / "examples").glob("*.attn"):
        shutil.copy(variant, work)
    run("cmake", "-G", "Ninja", "-S", work / "source", "-B", work / "build",
        "-DCMAKE_C_COMPILER=clang-22", "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_PREFIX_PATH={args.prefix}")
    run("cmake", "--build", work / "build")
    binary = work / "build" / f"example_{name}"
    no_llvm(binary)
    environment = {**os.environ, "ATTN_CACHE_DIR": str(work / "cache")}
    for variable in ("LD_LIBRARY_PATH", "ATTNC_LIBRARY", "ATTN_TARGET"):
        environment.pop(variable, None)
    texts = sorted((work / "source").glob("*.attn"))
    run(binary, *texts, env=environment, cwd=work)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = {
        "prefix": install_prefix,
        "files": check_files,
        "aot": lambda args: build_example(args, "aot"),
        "jit": lambda args: build_example(args, "jit"),
        "params": lambda args: build_example(args, "params"),
    }
    parser.add_argument("step", choices=steps)
    for name in ("build", "prefix", "source", "strip"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    args = parser.parse_args()
    steps[args.step](args)
    return 0


if __name__ == "__main__":
    sys.exit(main())

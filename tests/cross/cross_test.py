"""The runtime compiled for another machine by its own build, and a program run.

usage: cross_test.py MACHINE COMPILER CXX ATTNC SOURCES WORK [CMAKE OPTION...]

COMPILER is gcc, clang or another C compiler's name. The program has a kernel
linked in and opens a bundle, both made by ATTNC (with a library of targets, if
ATTN_LOAD_TARGET names one). Standard Python."""

import pathlib
import platform
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# By processor: the target, the emulator with its CPU.
MACHINES = {
    "aarch64": ("arm-neon", ["qemu-aarch64", "-cpu", "cortex-a57"]),
    "riscv64": ("riscv-rvv128", ["qemu-riscv64", "-cpu",
                                 "rv64,v=true,vlen=128,elen=64,vext_spec=v1.0"]),
}
PACKAGES = {"qemu-aarch64": "qemu-user", "qemu-riscv64": "qemu-user",
            "ninja": "ninja-build",
            **{f"{machine}-linux-gnu-gcc": f"gcc-{machine}-linux-gnu"
               for machine in MACHINES}}


def tool(name):
    if not shutil.which(name):
        sys.exit(f"no {name} in PATH; Debian's package {PACKAGES.get(name, name)} "
                 "brings it")
    return name


def run(*command, code=0):
    result = subprocess.run([str(c) for c in command], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}\nexit status {result.returncode}, "
                 f"not {code}:\n{result.stdout}")
    return result.stdout


def main():
    machine, compiler, cxx, attnc, sources, work, *options = sys.argv[1:]
    name, emulator = MACHINES[machine]
    triple = f"{machine}-linux-gnu"
    foreign = platform.machine() != machine
    if compiler == "gcc" and foreign:
        compiler = f"{triple}-gcc"
    tool(compiler)
    target = [f"--target={triple}"] if "clang" in compiler else []
    start = [tool(emulator[0]), *emulator[1:], "-L", f"/usr/{triple}"] if foreign else []
    work = pathlib.Path(work)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)

    # What the runtime links besides libc.
    run(compiler, *target, "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror",
        HERE / "serial_pool.c", "-o", work / "libpthreadpool.so")
    build = work / "build"
    run(tool("cmake"), "-G", "Ninja", "-S", sources, "-B", build,
        f"-DCMAKE_TOOLCHAIN_FILE={HERE / 'toolchain.cmake'}",
        f"-DATTN_CROSS_PROCESSOR={machine}", f"-DATTN_CROSS_TRIPLE={triple}",
        f"-DATTN_CROSS_CC={shutil.which(compiler)}", f"-DATTN_CROSS_CXX={cxx}",
        "-DATTN_WERROR=ON", "-DATTN_BUILD_COMPILER=OFF", "-DATTN_BUILD_TESTS=OFF",
        f"-DATTN_PTHREADPOOL_LIBRARY={work / 'libpthreadpool.so'}", *options)
    run(tool("ninja"), "-C", build, "attn_runtime", "attn_runtime_static")

    layer = HERE / "layer.attn"
    run(attnc, "compile", layer, "--emit", "obj", "--target", name,
        "-o", work / "layer.o")
    run(attnc, "compile", layer, "--target", name, "-o", work / "layer.so")
    run(attnc, "compile", layer, "--target", "x86-64", "-o", work / "other.so")
    for level in ("-O0", "-O2"):
        program = work / f"program{level}"
        run(compiler, *target, level, "-std=gnu11", "-Wall", "-Wextra", "-Werror",
            f"-DKERNEL=attn_layer__{name.replace('-', '_')}",
            f"-I{sources}/runtime", "-I", work, HERE / "program.c",
            work / "layer.o", build / "lib/libattn.a", f"-L{work}",
            f"-Wl,-rpath,{work}", "-lpthreadpool", "-lpthread", "-ldl", "-lm",
            "-o", program)
        printed = run(*start, program, work / "layer.so")
        print(printed, end="")
        if printed.count(f"layer for {name}") != 2:
            sys.exit("two kernels have to run")
        refused = run(*start, program, work / "other.so", code=1)
        if "is for another machine" not in refused:
            sys.exit(f"a bundle for another machine is not refused: {refused}")


main()

"""What the tests of the command line share. Standard library only."""

import array
import ast
import os
import pathlib
import random
import struct
import subprocess
import tempfile
import unittest

ATTNC = os.environ["ATTNC"]
CC = os.environ["CC"]
CXX = os.environ["CXX"]
ROOT = pathlib.Path(__file__).resolve().parents[2]

DENSE = "attention dense {\n  heads = 4  kv_heads = 2  head_dim = 24\n}\n"
CAUSAL = "attention causal_small {\n  heads = 2  head_dim = 16  mask = causal\n}\n"

TYPE_CODES = {"f4": "f", "i4": "i", "i8": "q", "f8": "d", "b1": "B", "u1": "B",
              "i1": "b", "f2": "h", "u2": "h"}


class Result:
    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout.decode()
        self.err = process.stderr.decode()


class Case(unittest.TestCase):
    """Each test has a directory of its own, which is the current one of what
    it starts."""

    maxDiff = None

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="attnc-cli-")
        self.addCleanup(self.temporary.cleanup)
        self.dir = pathlib.Path(self.temporary.name)

    def attnc(self, *arguments, text=None, env=None):
        return Result(subprocess.run(
            [ATTNC, *map(str, arguments)], cwd=self.dir, timeout=300,
            input=text.encode() if text is not None else b"", capture_output=True,
            env={**os.environ, **(env or {})}))

    def succeed(self, *arguments, **keywords):
        result = self.attnc(*arguments, **keywords)
        self.assertEqual((result.code, result.err), (0, ""), arguments)
        return result

    def refuse(self, *arguments, says=(), **keywords):
        """Exit 2, one message on standard error, nothing on standard output,
        and no file made."""
        before = self.files()
        result = self.attnc(*arguments, **keywords)
        self.assertEqual(result.code, 2, (arguments, result.err))
        self.assertEqual(result.out, "")
        self.assertIn("error: ", result.err)
        self.assertNotIn("internal error", result.err)
        for part in says:
            self.assertIn(part, result.err)
        self.assertEqual(self.files(), before)
        return result

    def write(self, name, content):
        (self.dir / name).write_text(content)
        return name

    def files(self):
        return {p.name: p.read_bytes() for p in self.dir.iterdir() if p.is_file()}

    def save(self, name, shape, values, kind="f4"):
        (self.dir / name).write_bytes(npy(shape, values, kind))
        return name

    def load(self, name):
        return read_npy((self.dir / name).read_bytes())

    def tensors(self, q, k, v, seed=1):
        """--q --k --v of random arrays with these shapes."""
        numbers = random.Random(seed)
        arguments = []
        for name, shape in (("q", q), ("k", k), ("v", v)):
            count = product(shape)
            self.save(f"{name}.npy", shape,
                      [numbers.gauss(0, 1) for _ in range(count)])
            arguments += [f"--{name}", f"{name}.npy"]
        return arguments


def product(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def npy(shape, values, kind="f4", order="<", version=1, fortran=False):
    extents = "".join(f"{extent}, " for extent in shape)
    if kind[1:] == "1":
        order = "|" # bytes have none
    header = (f"{{'descr': '{order}{kind}', 'fortran_order': {fortran}, "
              f"'shape': ({extents}), }}")
    prefix = 10 if version == 1 else 12
    header += " " * (-(prefix + len(header) + 1) % 64) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    data = array.array(TYPE_CODES[kind], values).tobytes()
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + data


def read_npy(data):
    assert data[:8] == b"\x93NUMPY\x01\x00"
    length = struct.unpack("<H", data[8:10])[0]
    assert (10 + length) % 64 == 0
    header = ast.literal_eval(data[10:10 + length].decode())
    assert not header["fortran_order"]
    kind = header["descr"][1:]
    values = array.array(TYPE_CODES[kind])
    values.frombytes(data[10 + length:])
    assert len(values) == product(header["shape"])
    return header["shape"], list(values)


def encode(value, kind):
    """The bits of a number as f2, or as bf16 in u2, as a signed number; the
    nearest, ties to even."""
    if kind == "f2":
        return struct.unpack("<h", struct.pack("<e", value))[0]
    bits = struct.unpack("<i", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def decode(bits, kind):
    if kind == "f2":
        return struct.unpack("<e", struct.pack("<h", bits))[0]
    return struct.unpack("<f", struct.pack("<i", bits << 16))[0]


def main():
    unittest.main(verbosity=1)

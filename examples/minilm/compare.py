#!/usr/bin/env python3
"""Compares an attention output with a reference, head by head.

usage: compare.py O.npy REFERENCE.npy V.npy

All are [batch, heads, tokens, width] float32 .npy files. Prints a table and
the largest difference; exits 1 where it is above 2e-5 * max(1, max|V|), what
the language promises for float32. Standard library only.
"""

import array
import ast
import math
import struct
import sys

TOLERANCE = 2e-5


def read_npy(path):
    """(shape, values) of a float32 .npy file in C order."""
    with open(path, "rb") as f:
        data = f.read()
    if data[:6] != b"\x93NUMPY" or data[6] not in (1, 2):
        raise SystemExit(f"{path}: not a .npy file of version 1 or 2")
    length, start = (
        (struct.unpack_from("<H", data, 8)[0], 10)
        if data[6] == 1
        else (struct.unpack_from("<I", data, 8)[0], 12)
    )
    header = ast.literal_eval(data[start : start + length].decode("latin-1"))
    if header["descr"] != "<f4" or header["fortran_order"] or len(header["shape"]) != 4:
        raise SystemExit(f"{path}: wanted 4 dimensions of <f4 in C order, not {header}")
    values = array.array("f", data[start + length :])
    if sys.byteorder == "big":
        values.byteswap()
    if len(values) != math.prod(header["shape"]):
        raise SystemExit(f"{path}: {len(values)} values for shape {header['shape']}")
    return header["shape"], values


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    shape, ours = read_npy(sys.argv[1])
    ref_shape, reference = read_npy(sys.argv[2])
    _, v = read_npy(sys.argv[3])
    if shape != ref_shape:
        raise SystemExit(f"shapes differ: {shape} and {ref_shape}")
    batch, heads, tokens, width = shape

    allowed = TOLERANCE * max(1.0, max(abs(x) for x in v))
    worst = 0.0
    finite = True
    print("  head  attnc (first three of the last token)   model                             max |diff|")
    for h in range(heads):
        largest = 0.0
        for b in range(batch):
            first = (b * heads + h) * tokens * width
            for i in range(first, first + tokens * width):
                if math.isfinite(ours[i]):
                    largest = max(largest, abs(ours[i] - reference[i]))
                else:
                    finite = False
        worst = max(worst, largest)
        row = (h * tokens + tokens - 1) * width
        show = lambda x: " ".join(f"{value:10.6f}" for value in x[row : row + 3])
        print(f"  {h:4}  {show(ours)}        {show(reference)}  {largest:.2e}")
    good = finite and worst <= allowed
    print(f"\n  {len(ours)} values, largest difference {worst:.3e}, allowed {allowed:.3e}:",
          "they agree" if good else "they DIFFER")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

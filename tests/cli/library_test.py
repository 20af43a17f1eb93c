"""The compiler library through its C interface, from Python's ctypes."""

import ctypes
import os
import pathlib
import re
import subprocess
import threading

import support
from support import CAUSAL, DENSE

LIBRARY = os.environ["ATTNC_LIBRARY"]
ABI_VERSION = int(re.search(
    r"#define ATTN_ABI_VERSION (\d+)u",
    (pathlib.Path(__file__).parents[2] / "runtime/attn_abi.h").read_text())[1])


class Request(ctypes.Structure):
    _fields_ = [("abi_version", ctypes.c_uint32), ("struct_size", ctypes.c_uint32),
                ("text", ctypes.c_char_p), ("text_size", ctypes.c_size_t),
                ("file", ctypes.c_char_p), ("targets", ctypes.c_char_p),
                ("variant", ctypes.c_char_p), ("plan", ctypes.c_char_p),
                ("defines", ctypes.POINTER(ctypes.c_char_p)),
                ("n_defines", ctypes.c_size_t)]


class Library(support.Case):
    def setUp(self):
        super().setUp()
        self.library = ctypes.CDLL(LIBRARY)
        self.library.attnc_free.argtypes = [ctypes.c_void_p]
        self.library.attnc_version.restype = ctypes.c_char_p

    def request(self, text, **fields):
        data = text.encode()
        request = Request(ABI_VERSION, ctypes.sizeof(Request), data, len(data))
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def compile(self, request, name="out.so"):
        """None, or the error."""
        error = ctypes.c_void_p()
        path = os.fsencode(self.dir / name)
        code = self.library.attnc_compile(
            ctypes.byref(request) if request else None, path, ctypes.byref(error))
        self.assertEqual(code != 0, bool(error.value))
        if not error.value:
            return None
        text = ctypes.string_at(error.value).decode()
        self.library.attnc_free(error)
        self.assertEqual((self.dir / name).exists(), False)
        return text

    def test_exports_and_needs(self):
        lines = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        self.assertEqual(sorted(line.split()[-1] for line in lines),
                         ["attnc_compile", "attnc_free", "attnc_version"])
        needs = subprocess.run(["readelf", "-d", LIBRARY], check=True,
                               capture_output=True, text=True).stdout
        for library in ("LLVM", "MLIR", "stdc++", "fmt"):
            self.assertNotIn(library, needs)
        self.assertIn("libattnc.so.0", needs)

    def test_compiles(self):
        self.assertIsNone(self.compile(self.request(DENSE)))
        inputs = self.tensors((1, 4, 3, 24), (1, 2, 3, 24), (1, 2, 3, 24))
        self.succeed("run", "out.so", *inputs)
        names = (ctypes.c_char_p * 1)(b"n=4")
        text = ("attention w { let n = 3  heads = 1 head_dim = 8 "
                "mask = causal && sliding(n) }")
        self.assertIsNone(self.compile(self.request(
            text + DENSE, variant=b"w", targets=b"host",
            defines=ctypes.cast(names, ctypes.POINTER(ctypes.c_char_p)),
            n_defines=1), "w.so"))

    def test_errors_are_values(self):
        def refuse(part, request):
            self.assertIn(part, self.compile(request) or "")
        refuse("null", None)
        refuse("version 7", self.request(DENSE, abi_version=7))
        refuse("bytes", self.request(DENSE, struct_size=8))
        refuse("null", Request(ABI_VERSION, ctypes.sizeof(Request), None, 5))
        refuse("null", self.request(DENSE, n_defines=1))
        refuse("f.attn:1:", self.request("attention x { heads = -1 }", file=b"f.attn"))
        refuse("<text>", self.request("!"))
        refuse("no variant", self.request(DENSE, variant=b"other"))
        refuse("fish", self.request(DENSE, targets=b"fish"))
        refuse("target", self.request(DENSE, targets=b"host,"))
        refuse("speed", self.request(DENSE, plan=b"speed=1"))
        error = ctypes.c_void_p()
        request = self.request(DENSE)
        self.assertNotEqual(0, self.library.attnc_compile(
            ctypes.byref(request), b"/no/such/folder/x.so", ctypes.byref(error)))
        self.assertIn(b"/no/such/folder", ctypes.string_at(error.value))
        self.library.attnc_free(error)
        # It still works, and takes NULL where the error is not wanted.
        self.assertNotEqual(0, self.library.attnc_compile(None, None, None))
        self.assertIsNone(self.compile(self.request(DENSE)))

    def test_many_threads(self):
        results = {}
        def work(index):
            text = CAUSAL.replace("16", str(8 + index % 4))
            results[index] = self.compile(self.request(text), f"{index}.so")
        threads = [threading.Thread(target=work, args=(i,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, {i: None for i in range(12)})
        self.assertEqual(self.files()["0.so"], self.files()["4.so"])
        self.assertNotEqual(self.files()["0.so"], self.files()["1.so"])

    def test_version(self):
        version = self.library.attnc_version()
        self.assertEqual(version, self.library.attnc_version())
        self.assertIn(version.decode(), self.succeed("--version").out)


if __name__ == "__main__":
    support.main()

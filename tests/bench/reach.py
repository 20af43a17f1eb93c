#!/usr/bin/env python3
"""What masks, scores and parameters cost: reach.py ATTNC [--target T].

The two kernels of a ratio take turns, and the best time of each counts: on a
busy machine that needs an idle moment for both.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MASKS = ROOT / "tests/bench/masks.attn"
GLOBALS = f"globals={list(range(0, 8192, 128))}"
TURNS, SECONDS = 5, 1

# Values for parameters that have no random ones.
VALUES = {"bigbird": {"random": "20"}, "prefix_lm": {"prefix": "100"}}

PAIRS = (
    ("causal", "causal", ()),
    ("sliding_100", "causal && sliding(100)", ()),
    ("sliding_512", "causal && sliding(512)", ()),
    ("window_50", "window(50)", ()),
    ("window_256", "window(256)", ()),
    ("dilated_2", "window(50, 50, 2)", ()),
    ("dilated_4", "window(256, 256, 4)", ()),
    ("sink_tokens", "(k <= q && q - k < 300) || k < 16", ()),
    ("by_hand", "k >= q && k - q < 100 && k % 2 == q % 2", ()),
    ("neighbors", "neighborhood(257)", ()),
    ("longformer", "window(256) || global(64 tokens)", ("--param", GLOBALS)),
    ("documents", "packed documents", ("--param", "doc=random")),
)


def variant(head_dim, body, params=""):
    return f"attention v({params}) {{ heads = 1 head_dim = {head_dim}\n{body} }}\n"


PLAIN = variant(128, "")
WINDOW = variant(64, "mask = window(256)")
# name, its text and options, those it is compared with, tokens, and whether
# the ratio of pairs is taken out.
TIMES = (
    ("softcap against none", (variant(128, "score = softcap(s, 50.0)"), ()),
     (PLAIN, ()), 4096, False),
    ("ALiBi against none", (variant(128, "score = s + alibi_slope(h) * (k - q)"), ()),
     (PLAIN, ()), 4096, False),
    ("bias tensor against none",
     (variant(128, "score = s + bias[h, q, k]", "bias: f32[heads, queries, keys]"),
      ("--param", "bias=random")), (PLAIN, ()), 4096, False),
    ("f16 against f32", (variant(128, "type = f16"), ()), (PLAIN, ()), 4096, False),
    ("bf16 against f32", (variant(128, "type = bf16"), ()), (PLAIN, ()), 4096, False),
    ("causal against dense, by pairs", (variant(128, "mask = causal"), ()),
     (PLAIN, ()), 4096, True),
    ("sliding(512) of 16384 against dense, by pairs",
     (variant(64, "mask = causal && sliding(512)"), ()), (variant(64, ""), ()),
     16384, True),
    ("dilation 4 against 1, 4096 tokens",
     (variant(64, "mask = window(256, 256, 4)"), ()), (WINDOW, ()), 4096, False),
    ("dilation 4 against 1, 16384 tokens", (variant(64, "mask = window(256, 256, 4)"), ()),
     (WINDOW, ()), 16384, False),
    ("64 global tokens against none, by pairs",
     (variant(64, "mask = window(256) || global(globals)", "globals: tokens"),
      ("--param", GLOBALS)), (WINDOW, ()), 8192, True),
)


def attnc(*arguments, text=""):
    process = subprocess.run([ATTNC, *map(str, arguments), "--target", TARGET, "--json"],
                             input=text, capture_output=True, text=True, check=False)
    if process.returncode:
        sys.exit(process.stderr)
    return json.loads(process.stdout)


def bench(text, options, tokens):
    result = attnc("bench", "-", "--q-len", tokens, "--seconds", SECONDS, *options,
                   text=text)
    return result["seconds"], result["visited_pairs"]


def pairs():
    print("pairs visited for those allowed, 8192 x 8192")
    for name, mask, options in PAIRS:
        result = attnc("explain", MASKS, "--variant", name, "--q-len", 8192, *options)
        visited, allowed = result["visited_pairs"], result["allowed_pairs"]
        print(f"  {mask:45} {visited:9} / {allowed:9} = {visited / allowed:.3f}",
              flush=True)


def times():
    print(f"time, one head, one thread, best of {TURNS} turns")
    for name, one, other, tokens, by_pairs in TIMES:
        runs = [[bench(*one, tokens), bench(*other, tokens)] for _ in range(TURNS)]
        time = min(a[0] for a, _ in runs) / min(b[0] for _, b in runs)
        work = runs[0][0][1] / runs[0][1][1]
        detail = f" ({time:.4f} of the time, {work:.4f} of the pairs)" if by_pairs else ""
        print(f"  {name:45} {time / work if by_pairs else time:.3f}{detail}", flush=True)


def compilations():
    print(f"compiling, nothing kept, best of {TURNS}")
    for path in sorted((ROOT / "examples").glob("*.attn")):
        for name, params in re.findall(r"^attention (\w+)(?:\((.*?)\))? \{",
                                       path.read_text(), re.M):
            options = []
            for param in re.findall(r"(\w+):", params):
                value = VALUES.get(name, {}).get(param, "random")
                options += ["--param", f"{param}={value}"]
            best = min(attnc("bench", path, "--variant", name, "--q-len", 16,
                             "--seconds", 0, *options)["compile_seconds"]
                       for _ in range(TURNS))
            print(f"  {name:45} {best * 1e3:.0f} ms", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attnc")
    parser.add_argument("--target", default="host")
    ARGUMENTS, _ = parser.parse_known_args()
    ATTNC, TARGET = ARGUMENTS.attnc, ARGUMENTS.target
    pairs()
    times()
    compilations()

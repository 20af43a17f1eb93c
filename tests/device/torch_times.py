#!/usr/bin/env python3
"""Times PyTorch's attention on the cases of attn_device_timing --cases.

usage: torch_times.py CASES.json SECONDS

Prints {"version", "sdpa": {case: milliseconds}, "flex": {...}}: the best of
several runs, timed by events. FlexAttention is compiled for each shape, so it
is timed for the cases with a mask of their own and one dense one, while the
time lasts. Exit code 3: no PyTorch with a device.
"""

import json
import sys
import time

try:
    import torch
    import torch.nn.functional as functional
    if not torch.cuda.is_available():
        raise ImportError("PyTorch finds no device")
except ImportError as error:
    print(f"torch_times.py: {error}", file=sys.stderr)
    sys.exit(3)


def best(call, seconds=0.15):
    """Milliseconds; short calls are timed together, as Timing.cpp does."""
    def run(together):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(together):
            call()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) / together

    for _ in range(3):
        once = run(1)
    together = min(max(int(2 / once), 1), 64)
    times = []
    end = time.monotonic() + seconds
    while len(times) < 5 or time.monotonic() < end and len(times) < 1000:
        times.append(run(together))
    return min(times)


def tensors(case):
    def random(heads, tokens):
        return torch.rand(case["batch"], heads, tokens, case["width"],
                          dtype=torch.float16, device="cuda") * 2 - 1
    q = random(case["heads"], case["q_len"])
    return q, *(random(case["kv_heads"], case["kv_len"]) for _ in "kv")


def sdpa(case):
    q, k, v = tensors(case)
    # One query at the end sees all keys: no mask is needed.
    causal = case["causal"] and case["q_len"] == case["kv_len"]
    grouped = case["heads"] != case["kv_heads"]
    options = {"enable_gqa": True} if grouped else {}
    return best(lambda: functional.scaled_dot_product_attention(
        q, k, v, is_causal=causal, **options))


def flex(case):
    from torch.nn.attention import flex_attention as f
    q, k, v = tensors(case)
    offset = case["kv_len"] - case["q_len"]

    def mask(b, h, i, j):
        allowed = i + offset >= j if case["causal"] else j >= 0
        if case["window"] >= 0:
            distance = i + offset - j
            near = (distance <= case["window"]) & (distance >= -case["window"])
            allowed = allowed & (near | (j < case["globals"])
                                 | (i + offset < case["globals"]))
        return allowed

    block = f.create_block_mask(mask, None, None, case["q_len"], case["kv_len"])
    call = torch.compile(f.flex_attention)
    return best(lambda: call(q, k, v, block_mask=block,
                             enable_gqa=case["heads"] != case["kv_heads"]))


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)
    end = time.monotonic() + float(sys.argv[2])
    result = {"version": torch.__version__, "sdpa": {}, "flex": {}}

    def measure(kind, function, case):
        if time.monotonic() > end:
            result[kind][case["name"]] = "no time left"
            return
        try:
            result[kind][case["name"]] = function(case)
        except Exception as error:  # of any kind: PyTorch's own affair
            result[kind][case["name"]] = f"{type(error).__name__}: {error}"[:300]

    for case in cases:
        if case["window"] < 0:
            measure("sdpa", sdpa, case)
    long = [c for c in cases if c["window"] >= 0]
    causal = [c for c in cases if c["causal"] and c["q_len"] == 4096]
    for case in long + causal:
        measure("flex", flex, case)
    json.dump(result, sys.stdout, indent=1)


if __name__ == "__main__":
    main()

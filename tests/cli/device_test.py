"""Kernels of devices from the command line, without a device."""

import os

import support
from support import CAUSAL

FAKE = {"ATTN_CUDA_DRIVER": os.environ["FAKE_DRIVER"]}
NONE = {"ATTN_CUDA_DRIVER": "/nowhere/libcuda.so"}
TOKENS = """attention seen(far: tokens, slope: f32[heads]) {
  heads = 2  head_dim = 16  score = s * slope[h]
  mask = window(2) || global(far)
}
"""


class Device(support.Case):
    def run_on(self, env, file, *arguments, target="cuda-sm80"):
        """The line that is printed, and the output."""
        line = self.succeed("run", file, *arguments, "--target", target,
                            "--out", "o.npy", "--lse", "l.npy", env=env).out
        return line, self.load("o.npy")[1], self.load("l.npy")[1]

    def close(self, got, want):
        self.assertEqual(len(got), len(want))
        for a, b in zip(got, want):
            self.assertTrue(a == b or abs(a - b) <= 1e-4, (a, b))

    def test_interpreter_and_device_agree_with_the_cpu(self):
        inputs = self.tensors((2, 2, 9, 16), (2, 2, 20, 16), (2, 2, 20, 16))
        self.save("lens.npy", (2,), [20, 7], "i4")
        self.save("g.npy", (2, 2), [3, -1, 0, 5], "i4")
        extra = ["--param", "far=g.npy", "--param", "slope=0.5", "--kv-lens",
                 "lens.npy"]
        for text, more in ((CAUSAL, ["--kv-lens", "lens.npy"]), (TOKENS, extra)):
            self.write("f.attn", text)
            _, *wanted = self.run_on({}, "f.attn", *inputs, *more, target="host")
            line, *got = self.run_on(NONE, "f.attn", *inputs, *more)
            self.assertRegex(line, r"cuda-sm80 \(jit in \d+ ms\), PTX interpreter "
                                   r"\(there is no CUDA driver here .*\), "
                                   r"[\d.]+ ms\n$")
            for a, b in zip(got, wanted):
                self.close(a, b)
            line, *got = self.run_on(FAKE, "f.attn", *inputs, *more)
            self.assertIn("Fake 0 (cuda-sm90), ", line)
            self.assertNotIn("interpreter", line)
            for a, b in zip(got, wanted):
                self.close(a, b)

    def test_a_bundle_for_cpus_and_devices(self):
        self.write("c.attn", CAUSAL)
        inputs = self.tensors((1, 2, 5, 16), (1, 2, 8, 16), (1, 2, 8, 16))
        _, *wanted = self.run_on({}, "c.attn", *inputs, target="host")
        host = next(line.split()[0] for line in
                    self.succeed("targets").out.splitlines()
                    if "runs here" in line)
        self.succeed("compile", "c.attn", "--target",
                     f"{host},cuda-sm80,cuda-sm90", "-o", "c.so")
        for target, env, through in (("host", FAKE, "thread"),
                                     ("cuda-sm90", FAKE, "Fake 0 (cuda-sm90)"),
                                     ("cuda-sm90", NONE, "PTX interpreter")):
            line, *got = self.run_on(env, "c.so", *inputs, target=target)
            self.assertIn("(bundle), ", line)
            self.assertIn(through, line)
            for a, b in zip(got, wanted):
                self.close(a, b)
        self.succeed("compile", "c.attn", "--target", "cuda-sm80", "-o", "d.so")
        self.refuse("run", "d.so", *inputs,
                    says=["does not run on the CPU", "cuda-sm80"])
        self.refuse("run", "d.so", *inputs, "--target", "cuda-sm90",
                    says=["was not compiled for target 'cuda-sm90'", "cuda-sm80"])

    def test_check_takes_a_device_where_it_is_told_to(self):
        self.write("f.attn", TOKENS)
        command = ["check", "f.attn", "--target", "cuda-sm80", "--cases", 6]
        said = self.succeed(*command, env={**FAKE, "ATTN_CHECK_ON_DEVICE": "1"})
        self.assertRegex(said.out, r"\(device\).* 6 cases, 0 wrong")
        self.assertIn("(PTX interpreter)", self.succeed(*command, env=FAKE).out)
        self.refuse(*command, env={**NONE, "ATTN_CHECK_ON_DEVICE": "1"},
                    says=["seen", "there is no CUDA driver here"])

    def test_refusals(self):
        self.write("c.attn", CAUSAL)
        inputs = self.tensors((1, 2, 5, 16), (1, 2, 8, 16), (1, 2, 7, 16))
        for env in (FAKE, NONE):
            self.refuse("run", "c.attn", *inputs, "--target", "cuda-sm80",
                        env=env, says=["'v'", "keys", "7", "8"])
        self.refuse("bench", "c.attn", "--target", "cuda-sm80",
                    says=["cuda-sm80", "device", "this CPU"])


if __name__ == "__main__":
    support.main()

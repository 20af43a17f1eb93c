"""attnc targets, explain, bench, check, cache; and wrong usage."""

import json

import support
from support import CAUSAL, DENSE


class Commands(support.Case):
    def test_targets(self):
        targets = json.loads(self.succeed("targets", "--json").out)
        text = self.succeed("targets").out
        self.assertTrue(any(t["runs_here"] for t in targets))
        for target in targets:
            self.assertIn(target["name"], text)
            through = target["through"]
            self.assertEqual(through == "native", target["runs_here"])
            if through and not target["runs_here"]:
                self.assertIn(f"through {through}", text)

    def test_explain(self):
        self.write("c.attn", CAUSAL)
        arguments = ("explain", "c.attn", "--q-len", 100, "--kv-len", 300)
        result = json.loads(self.succeed(*arguments, "--json").out)
        allowed = sum(200 + i + 1 for i in range(100))
        self.assertEqual(result["allowed_pairs"], allowed)
        self.assertGreaterEqual(result["visited_pairs"], allowed)
        self.assertLessEqual(result["visited_pairs"], 100 * 300)
        self.assertEqual(set(result["tiles"]), {"full", "partial", "skipped"})
        self.assertEqual(result["flops"], 2 * (16 + 16) * allowed * 2)
        self.assertEqual(result["bytes"], 4 * 2 * (2 * 100 * 16 + 2 * 300 * 16))
        self.assertTrue(result["reasons"])
        # The plan that is shown is one that can be given.
        again = json.loads(self.succeed(*arguments, "--json", "--plan",
                                        result["plan"]).out)
        self.assertEqual(again["plan"], result["plan"])
        self.assertIn(result["plan"], self.succeed(*arguments).out)
        self.refuse("explain", "c.attn", "--q-len", "-1", says=["--q-len"])
        self.refuse("explain", "c.attn", "--q-len", "many", says=["--q-len"])

    def test_bench(self):
        self.write("d.attn", DENSE)
        for extra in ([], ["--threads", "2", "--lse", "--batch", "3"]):
            result = json.loads(self.succeed(
                "bench", "d.attn", "--q-len", 70, "--kv-len", 130, "--seconds",
                "0.2", "--json", *extra).out)
            batch = 3 if extra else 1
            self.assertEqual(result["flops"],
                             2 * (24 + 24) * 70 * 130 * 4 * batch)
            for field in ("seconds", "seconds_median", "bytes", "gflops",
                          "gbytes_per_second", "peak_gflops",
                          "peak_gbytes_per_second", "fraction_of_peak",
                          "compile_seconds"):
                self.assertGreater(result[field], 0, field)
            self.assertLessEqual(result["seconds"], result["seconds_median"])
            self.assertIn(result["bound"], ("compute", "memory"))
            self.assertGreaterEqual(result["rounds"], 3)
        text = self.succeed("bench", "d.attn", "--q-len", 9, "--seconds", "0").out
        self.assertIn("GFLOP/s", text)
        self.refuse("bench", "d.attn", "--q-len", "0", says=["--q-len"])
        self.refuse("bench", "d.attn", "--threads", "0", says=["--threads"])
        self.refuse("bench", "d.attn", "--kv-len", 1 << 40, says=["--kv-len"])
        self.refuse("bench", "d.attn", "--kv-len", 1 << 30, "--batch", 1 << 30,
                    says=["memory"])

    def test_check(self):
        self.write("two.attn", DENSE + CAUSAL)
        out = self.succeed("check", "two.attn", "--cases", 5, "--seed", 3).out
        self.assertEqual(out.count("5 cases, 0 wrong"), 2)
        self.assertIn("seed 3", out)
        self.refuse("check", "two.attn", "--target", "fish", says=["fish"])
        self.refuse("check", "two.attn", "--cases", "0", says=["--cases"])
        self.refuse("check", says=["FILE", "--all"])
        self.refuse("check", "two.attn", "--all", says=["--all", "FILE"])
        self.refuse("check", "--all", "--target", "fish", says=["fish"])

    def test_cache(self):
        env = {"ATTN_CACHE_DIR": str(self.dir / "cache")}
        self.assertEqual(self.succeed("cache", env=env).out, "")
        self.assertEqual(self.succeed("cache", "list", env=env).out, "")
        self.assertIn("removed 0", self.succeed("cache", "clear", env=env).out)
        self.refuse("cache", "burn", env=env, says=["burn", "list", "clear"])

    def test_usage(self):
        self.refuse(says=["command is required", "compile, run"])
        self.refuse("fly", says=["fly", "compile", "bench"])
        self.refuse("--fly", says=["--fly"])
        self.assertIn("compile", self.succeed("--help").out)
        self.assertIn("--emit", self.succeed("compile", "--help").out)
        self.assertRegex(self.succeed("--version").out, r"^attnc \d+\.\d+\.\d+ ")


if __name__ == "__main__":
    support.main()

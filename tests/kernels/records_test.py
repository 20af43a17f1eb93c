"""The records of conformance: what conformance.py keeps, and what `attnc
targets` says of them.

usage: records_test.py ATTNC WORK

WORK is a folder on the file system of ATTNC. Standard library only."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ATTNC, WORK = map(pathlib.Path, sys.argv[1:3])

# Stands for attnc: reports, and ends with the code that the file beside it has.
SUITE = """#!/bin/sh
while [ $# -gt 1 ]; do shift; done
echo '{"target": "arm-neon", "through": "native", "seed": 3, "variants": 5, "cases": 17}' >$1
exit $(cat "$(dirname "$0")/code")
"""


class Records(unittest.TestCase):
    def setUp(self):
        shutil.rmtree(WORK, ignore_errors=True)
        (WORK / "bin").mkdir(parents=True)
        self.source = WORK / "source"
        self.suite = WORK / "suite" / "attnc"
        for folder in (self.source, self.suite.parent):
            folder.mkdir()
        self.suite.write_text(SUITE)
        self.suite.chmod(0o755)
        self.git("init", "-q")
        # The same program elsewhere, which looks for records beside itself.
        os.link(ATTNC, WORK / "bin" / "attnc")
        self.list = WORK / "share" / "attnc" / "conformance.json"

    def git(self, *arguments):
        done = subprocess.run(
            ["git", "-C", self.source, "-c", "user.name=t", "-c", "user.email=t@t",
             *arguments], check=True, text=True, capture_output=True)
        return done.stdout.strip()

    def commit(self):
        self.git("commit", "-q", "--allow-empty", "-m", "x")
        return self.git("rev-parse", "HEAD")

    def suite_run(self, code=0):
        """The record after a run of the suite, or None."""
        (self.suite.parent / "code").write_text(str(code))
        record = WORK / "records" / "arm-neon.json"
        done = subprocess.run(
            [sys.executable, "-B", HERE / "conformance.py", "run", "--record", record,
             "--source", self.source, "--", self.suite, "--target", "arm-neon"])
        self.assertEqual(done.returncode, code)
        return json.loads(record.read_text()) if record.exists() else None

    def targets(self, *arguments, code=0):
        done = subprocess.run([WORK / "bin" / "attnc", "targets", *arguments],
                              text=True, capture_output=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def test_since(self):
        first = self.commit()
        clean = {"commit": first, "changed": False}
        record = self.suite_run()
        self.assertEqual((record["since"], record["last"]), (clean, clean))
        second = self.commit()
        record = self.suite_run()
        self.assertEqual(record["since"], clean)
        self.assertEqual(record["last"], {"commit": second, "changed": False})
        # A failure ends it.
        self.assertIsNone(self.suite_run(code=1))
        record = self.suite_run()
        self.assertEqual(record["since"]["commit"], second)

    def test_changes(self):
        first = self.commit()
        (self.source / "file").write_text("x")
        changed = {"commit": first, "changed": True}
        record = self.suite_run()
        self.assertEqual((record["since"], record["last"]), (changed, changed))
        # What began with changes begins anew with a commit.
        self.git("add", "file")
        second = self.commit()
        self.assertEqual(self.suite_run()["since"], {"commit": second, "changed": False})
        (self.source / "file").write_text("y")
        record = self.suite_run()
        self.assertEqual(record["since"]["changed"], False)
        self.assertEqual(record["last"]["changed"], True)

    def test_what_targets_says(self):
        self.assertIn("arm-neon", self.targets())
        self.assertNotIn("passed since", self.targets())
        for target in json.loads(self.targets("--json")):
            self.assertIsNone(target["conformance"])
        first, _ = self.commit(), self.suite_run()
        second = self.commit()
        (self.source / "file").write_text("x")
        record = self.suite_run()
        subprocess.run([sys.executable, "-B", HERE / "conformance.py", "gather",
                        "--records", WORK / "records", "--into", self.list], check=True)
        said = self.targets()
        self.assertIn(f"conformance passed since {first[:12]}, last at {second[:12]} "
                      "with changes: 5 variants, 17 cases, seed 3, native", said)
        self.assertEqual(said.count("passed since"), 1)
        for target in json.loads(self.targets("--json")):
            self.assertEqual(target["conformance"],
                             record if target["name"] == "arm-neon" else None)
        for text in ("{", "3", "[{}]", '[{"target": "arm-neon"}]'):
            self.list.write_text(text)
            self.assertIn(str(self.list), self.targets(code=2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

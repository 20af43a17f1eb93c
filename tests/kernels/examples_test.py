"""attnc check over every example, for every target. Standard Python.

Usage: examples_test.py ATTNC EXAMPLES TARGET..."""

import pathlib
import re
import subprocess
import sys

CASES = 8


def main():
    attnc, folder, *targets = sys.argv[1:]
    examples = sorted(pathlib.Path(folder).glob("*.attn"))
    if not examples or not targets:
        sys.exit("nothing to check")
    wrong = 0
    for example in examples:
        variants = len(re.findall(r"^attention\b", example.read_text(), re.M))
        for target in targets:
            result = subprocess.run(
                [attnc, "check", example, "--target", target,
                 "--cases", str(CASES)], capture_output=True, text=True)
            sys.stdout.write(result.stdout + result.stderr)
            right = re.findall(rf"\b{CASES} cases, 0 wrong", result.stdout)
            if result.returncode != 0 or len(right) != variants:
                print(f"WRONG: {example.name} for {target}: exit status "
                      f"{result.returncode}, {len(right)} of {variants} "
                      "variants are right")
                wrong += 1
    sys.exit(1 if wrong else 0)


main()

#!/usr/bin/env python3
"""Makes again what the project's README shows of attnc: readme.py ATTNC.

Pictures, what `attnc explain` printed, and the table of pairs; none of it is
timed. The tests of the command line compare all of them.
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"


def attnc(command):
    return subprocess.run(
        ["bash", "-c", f'attnc() {{ "$ATTNC" "$@"; }}; attnc {command}'], cwd=ROOT,
        env={**os.environ, "ATTNC": ATTNC}, stdout=subprocess.PIPE, text=True,
        check=True).stdout


def printed(match):
    """As many lines as are shown, of those that there are."""
    lines = attnc(match[1]).splitlines()
    shown = len(match[2].splitlines())
    return "\n".join([f"$ attnc {match[1]}", *lines[:shown], "```"])


def row(match):
    pairs = re.search(r"pairs +(\d+) visited for (\d+) allowed \(([\d.]+)\)",
                      attnc(match[2]))
    return f"{match[1]}| {pairs[1]} | {pairs[2]} | {pairs[3]} | `attnc {match[2]}` |"


if __name__ == "__main__":
    ATTNC = str(pathlib.Path(sys.argv[1]).resolve())
    text = README.read_text()
    for picture in re.findall(r"^\$ attnc (plot .*)$", text, re.M):
        attnc(picture)
    text = re.sub(r"^\$ attnc (explain .*)\n((?:.+\n)+?)```$", printed, text, flags=re.M)
    text = re.sub(r"^(\|.*)\| \d+ \| \d+ \| [\d.]+ \| `attnc (explain .*)` \|$", row, text,
                  flags=re.M)
    README.write_text(text)

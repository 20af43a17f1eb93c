#!/usr/bin/env python3
"""Runs a target's conformance suite and keeps a record of it.

usage: conformance.py run --record FILE --source DIR -- ATTNC ARGS...
       conformance.py gather --records DIR --into FILE

`run` is `ATTNC check --all ARGS...`. If it passes it leaves FILE: what was run,
at which commit of the checkout DIR, and since which commit it has passed each
time; if it fails, FILE is gone. `gather` makes one list of the records, which
`attnc targets` reads. Standard library only.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile


def git(source, *arguments):
    """What git says, or None where it can't."""
    try:
        done = subprocess.run(["git", "-C", source, *arguments], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def state_of(source):
    """The commit of a checkout, and whether files differ from it."""
    commit = git(source, "rev-parse", "HEAD")
    return {"commit": commit or "unknown",
            "changed": commit is None or git(source, "status", "--porcelain") != ""}


def read(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def write(path, value):
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(value, indent=1) + "\n")
    part.replace(path)


def since(earlier, now):
    """The state that a run of passes began with; a commit is better than one
    with changes."""
    began = earlier["since"] if earlier else now
    return now if began["changed"] else began


def run(args):
    earlier = read(args.record)
    # Whatever ends this run early ends the run of passes.
    args.record.unlink(missing_ok=True)
    now = state_of(args.source)
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        done = subprocess.run([args.command[0], "check", "--all", *args.command[1:],
                               "--report", report])
        if done.returncode != 0:
            return done.returncode
        write(args.record, {**json.loads(report.read_text()),
                            "since": since(earlier, now), "last": now})
    return 0


def gather(args):
    records = [read(path) for path in sorted(args.records.glob("*.json"))]
    write(args.into, [record for record in records if record])
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = parser.add_subparsers(required=True)
    step = steps.add_parser("run")
    step.set_defaults(step=run)
    step.add_argument("--record", type=pathlib.Path, required=True)
    step.add_argument("--source", type=pathlib.Path, required=True)
    step.add_argument("command", nargs="+")
    step = steps.add_parser("gather")
    step.set_defaults(step=gather)
    step.add_argument("--records", type=pathlib.Path, required=True)
    step.add_argument("--into", type=pathlib.Path, required=True)
    args = parser.parse_args()
    return args.step(args)


if __name__ == "__main__":
    sys.exit(main())

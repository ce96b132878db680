#!/usr/bin/env python3
"""Checks every Metal source below a folder and prints a table: how many compile, how many kernels run clean, and which
errors stop the most files.

    scripts/metal_corpus.py FOLDER [--suffix .metal] [--most 8] [-I FOLDER]... [-D NAME=VALUE]... [--no-run]

IRONBRIDGE names the program; else it is target/release/ironbridge or target/debug/ironbridge. A run of the program
takes some files, so that one that takes too long costs no more than those: TIMEOUT seconds, 900 by default."""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

FILES_OF_A_RUN = 12


def program():
    root = pathlib.Path(__file__).resolve().parent.parent
    named = os.environ.get("IRONBRIDGE")
    built = [root / "target" / profile / "ironbridge" for profile in ("release", "debug")]
    found = [str(path) for path in built if path.is_file()]
    if not named and not found:
        sys.exit("metal_corpus: cargo build --release --features cli first")
    return named or found[0]


def check(files, arguments):
    """The reports of files, and what failed as a whole."""
    command = [program(), "metal", "check", "--json", *arguments, "--", *map(str, files)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=float(os.environ.get("TIMEOUT", 900)))
        return json.loads(run.stdout)["files"]
    except subprocess.TimeoutExpired:
        reason = "the check took too long"
    except ValueError:
        reason = run.stderr.strip().splitlines()[-1] if run.stderr.strip() else f"status {run.returncode}"
    if len(files) > 1:
        return [report for file in files for report in check([file], arguments)]
    finding = {"rule": "compile", "message": reason, "kernel": None, "file": str(files[0]), "line": 0}
    return [{"file": str(files[0]), "compiled": False, "kernels_listed": None, "kernels": [], "findings": [finding]}]


def pattern(message):
    """A message without what differs from source to source."""
    message = re.sub(r"`[^`]*`|'[^']*'|\"[^\"]*\"", "…", message)
    return re.sub(r"\b\d+\b", "N", message)[:110]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--suffix", default=".metal")
    parser.add_argument("--most", default="8", help="kernels of a file")
    parser.add_argument("--no-run", action="store_true")
    parser.add_argument("--details", type=pathlib.Path, help="a file for all reports, as JSON")
    known, arguments = parser.parse_known_args()
    files = sorted(path for path in known.folder.rglob(f"*{known.suffix}") if path.is_file())
    if not files:
        sys.exit(f"metal_corpus: no {known.suffix} file below {known.folder}")
    arguments += ["--most", known.most] + ([] if known.no_run else ["--run"])
    reports = []
    for start in range(0, len(files), FILES_OF_A_RUN):
        reports += check(files[start : start + FILES_OF_A_RUN], arguments)
        print(f"\r{len(reports)} of {len(files)} files", end="", file=sys.stderr)
    print(file=sys.stderr)
    if known.details:
        known.details.write_text(json.dumps(reports, indent=1))

    compiled = [report for report in reports if report["compiled"]]
    with_kernels = [report for report in reports if not report["compiled"] or report["kernels_listed"]]
    kernels = [kernel for report in reports for kernel in report["kernels"]]
    good = [kernel for kernel in kernels if kernel["compiled"]]
    print("| files with kernels | they compile | kernels tried | they compile | they run clean |")
    print("| --- | --- | --- | --- | --- |")
    ran = sum(kernel["ran"] is True for kernel in kernels)
    cells = [len(with_kernels), sum(bool(report["kernels_listed"]) for report in compiled), len(kernels), len(good)]
    print("| " + " | ".join(map(str, cells)) + f" | {'' if known.no_run else ran} |")
    for rule in ("compile", "fault", "lane-order"):
        blocked = collections.defaultdict(set)
        example = {}
        for report in reports:
            for finding in report["findings"]:
                if finding["rule"] == rule:
                    key = pattern(finding["message"])
                    blocked[key].add(report["file"])
                    example.setdefault(key, f"{finding['file']}:{finding['line']}")
        if blocked:
            print(f"\n| {rule} | files | first seen |\n| --- | --- | --- |")
        for key, names in sorted(blocked.items(), key=lambda item: -len(item[1]))[:20]:
            print(f"| {key.replace('|', '/')} | {len(names)} | {example[key]} |")


if __name__ == "__main__":
    main()

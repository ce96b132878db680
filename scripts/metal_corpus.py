#!/usr/bin/env python3
"""Checks every Metal source below a folder and prints tables: how many compile, how many kernels run clean, why the
others do not, and which errors stop the most files.

    scripts/metal_corpus.py FOLDER [--suffix .metal] [--most 8] [--fill u32:1]... [-I FOLDER]... [-D NAME=VALUE]...
                            [--prefix FILE]... [--no-run]

Kernels are run with buffers full of zeroes. Those that do not run clean so are tried again with what each --fill says.

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

FILES_OF_A_RUN = 8


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


# Of a finding: what the kernel does with arguments that nobody chose for it. The first that fits.
REASONS = [
    (r"writes something else when its threads go", "which thread goes first changes what it writes"),
    (r"divided an integer by zero", "a size in its buffers is 0, and divides"),
    (r"index -?\d+ of a ", "an index beyond an array of its own"),
    (r"from a null pointer", "a load of a null pointer that it has itself"),
    (r"memory that is not there", "a pointer in its buffers leads nowhere"),
    (r"(read|write) of \d+ bytes .*buffer index", "an index leads outside a buffer, which has a size of its own"),
    (r"(read|write) of \d+ bytes", "an index leads outside threadgroup memory, which has a size of its own"),
    (r"took more than", "it does not end in time with such arguments"),
    (r"divergent", "some of its threads do not reach a barrier or function of a SIMD-group"),
    (r"without a defined meaning", "code without a defined meaning"),
    (r"nothing is given for the kernel's texture", "a multisample texture, which only rendering fills"),
    (r"for its variables", "it needs more stack than a thread has"),
]


def reason(message):
    found = (name for expression, name in REASONS if re.search(expression, message))
    return next(found, pattern(message))


def found_by_running(report):
    """The findings of a file's kernels that do not run clean."""
    return [finding for finding in report["findings"] if finding["rule"] in ("fault", "lane-order")]


def try_again(reports, fills, arguments):
    """Runs the kernels that do not run clean with other contents, and drops the findings of those that then do."""
    for report in reports:
        for fill in fills:
            names = {finding["kernel"] for finding in found_by_running(report)}
            if not names:
                break
            selected = [part for name in sorted(names) for part in ("--kernel", name)]
            again = check([report["file"]], [*arguments, "--fill", fill, *selected])[0]
            still = {finding["kernel"] for finding in found_by_running(again)}
            clean = {kernel["name"] for kernel in again["kernels"] if kernel["ran"]} & names - still
            for kernel in report["kernels"]:
                if kernel["name"] in clean:
                    kernel.update(ran=True, fill=fill)
            dropped = [finding for finding in found_by_running(report) if finding["kernel"] in clean]
            report["findings"] = [finding for finding in report["findings"] if finding not in dropped]


def print_runs(reports, fills):
    run = [(report, kernel) for report in reports for kernel in report["kernels"] if kernel["ran"] is not None]
    faults = [finding for report in reports for finding in found_by_running(report)]
    stained = {(finding["file"], finding["kernel"]) for finding in faults}
    clean = [kernel.get("fill") for report, kernel in run if (report["file"], kernel["name"]) not in stained]
    print("\n| kernels run | clean with zeroes |" + "".join(f" else with {fill} |" for fill in fills) + " clean |")
    print("| --- " * (3 + len(fills)) + "|")
    share = f"{len(clean)} ({100 * len(clean) / max(len(run), 1):.1f} %)"
    print("| " + " | ".join(map(str, [len(run), *map(clean.count, [None, *fills]), share])) + " |")
    counts = collections.Counter(reason(finding["message"]) for finding in faults)
    if counts:
        print("\n| kernels | why they do not run clean | first seen |\n| --- | --- | --- |")
    for name, count in counts.most_common():
        first = next(finding for finding in faults if reason(finding["message"]) == name)
        print(f"| {count} | {name.replace('|', '/')} | {pathlib.Path(first['file']).name}: {first['kernel']} |")


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
    parser.add_argument("--fill", action="append", default=[], help="contents to try where zeroes do not run clean")
    parser.add_argument("--details", type=pathlib.Path, help="a file for all reports, as JSON")
    known, arguments = parser.parse_known_args()
    files = sorted(path for path in known.folder.rglob(f"*{known.suffix}") if path.is_file())
    if not files:
        sys.exit(f"metal_corpus: no {known.suffix} file below {known.folder}")
    arguments += [] if known.no_run else ["--run"]
    reports = []
    for start in range(0, len(files), FILES_OF_A_RUN):
        some = check(files[start : start + FILES_OF_A_RUN], [*arguments, "--most", known.most])
        try_again(some, known.fill, arguments)
        reports += some
        print(f"\r{len(reports)} of {len(files)} files", end="", file=sys.stderr)
        if known.details:
            known.details.write_text(json.dumps(reports, indent=1))
    print(file=sys.stderr)

    compiled = [report for report in reports if report["compiled"]]
    with_kernels = [report for report in reports if not report["compiled"] or report["kernels_listed"]]
    kernels = [kernel for report in reports for kernel in report["kernels"]]
    good = [kernel for kernel in kernels if kernel["compiled"]]
    print("| files with kernels | they compile | kernels tried | they compile | they run clean |")
    print("| --- | --- | --- | --- | --- |")
    ran = sum(kernel["ran"] is True for kernel in kernels)
    cells = [len(with_kernels), sum(bool(report["kernels_listed"]) for report in compiled), len(kernels), len(good)]
    print("| " + " | ".join(map(str, cells)) + f" | {'' if known.no_run else ran} |")
    if not known.no_run:
        print_runs(reports, known.fill)
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

#!/usr/bin/env python3
"""Times an older revision of this repository against the working tree, alternating, and prints a table of medians.

    scripts/ab.py OLD [--runs 7] [--threads 1,2] [--only TEXT] [--types F16,Q8_0,Q4_0,Q4_K] [--limit 2]

Both sides are release builds: OLD in a git worktree under target/ab, the new side the working tree itself. They
alternate, old first in odd runs and new first in even ones, so that drift of the machine hits both alike. Rows:

  dispatch, attention, kernels   criterion's benchmarks (ns, median of each run's estimate)
  bench TYPE                     `ironbridge bench` of a synthetic LLaMA: 15, 128 and 512 tokens at once, and one
  first token TYPE               `ironbridge generate -n 1` as a whole process: seconds, and peak resident memory

A row is marked when the new median is worse by more than LIMIT percent and the two sides' ranges do not overlap. The
exit status is 1 if any row is marked. A full comparison takes long; --only picks the rows whose name has TEXT.
"""
import argparse
from functools import partial
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import synthetic_model

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASE = ROOT / "target" / "ab"
BENCHES = ["dispatch", "attention", "kernels"]
# The synthetic model: the shape of a 1.1 B LLaMA with fewer layers. No cache holds its weights.
SHAPE = synthetic_model.Shape(8, 2048, 256, 32, 4, 5632, 32000)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="the revision to compare with")
    parser.add_argument("--runs", type=int, default=7, help="runs of each side (7)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, with commas (1,2)")
    parser.add_argument("--types", default="F16,Q8_0,Q4_0,Q4_K", help="types of weights (F16,Q8_0,Q4_0,Q4_K)")
    parser.add_argument("--only", default="", help="only the rows whose name has this text")
    parser.add_argument("--limit", type=float, default=2.0, help="percent that a median may be worse by (2)")
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error("--runs must be at least 1")

    sides = {"old": build(worktree(arguments.old), BASE / "old-target"), "new": build(ROOT, BASE / "new-target")}
    measurements = {"old": {}, "new": {}}
    plan = list(trials(arguments, sides["new"]["ironbridge"]))
    if not plan:
        sys.exit(f"no row has {arguments.only!r} in its name")
    done, total = 0, len(plan) * arguments.runs * 2
    for run in range(arguments.runs):
        for name, trial in plan:
            for side in ("old", "new") if run % 2 == 0 else ("new", "old"):
                done += 1
                progress(f"{done}/{total} {side} {name}")
                for row, value in trial(sides[side]).items():
                    measurements[side].setdefault(row, []).append(value)
    progress("")
    sys.exit(report(measurements, arguments))


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def worktree(revision):
    commit = subprocess.run(["git", "rev-parse", "--verify", revision + "^{commit}"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.strip()
    folder = BASE / f"tree-{commit[:12]}"
    if not folder.exists():
        BASE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "worktree", "add", "--detach", str(folder), commit], cwd=ROOT, check=True)
    return folder


def build(folder, target):
    """Builds one side and returns the paths of its programs."""
    features = ["--features", "cli,tracing"]
    environment = dict(os.environ, CARGO_TARGET_DIR=str(target))
    print(f"building {folder}", file=sys.stderr)
    run = lambda command, **more: subprocess.run(command, cwd=folder, env=environment, check=True, **more)
    run(["cargo", "build", "--release", "--bin", "ironbridge", *features])
    names = [argument for bench in BENCHES for argument in ("--bench", bench)]
    command = ["cargo", "bench", "--no-run", "--message-format=json", *names, *features]
    output = run(command, stdout=subprocess.PIPE, text=True).stdout
    programs = {"ironbridge": target / "release" / "ironbridge"}
    for line in output.splitlines():
        message = json.loads(line)
        if message.get("executable") and "bench" in message["target"]["kind"]:
            programs[message["target"]["name"]] = pathlib.Path(message["executable"])
    return programs


def trials(arguments, quantizer):
    """(name, function of a side's programs that returns {row: value}) of everything that is to be measured."""
    threads = [int(text) for text in arguments.threads.split(",")]
    for bench in BENCHES:
        for count in threads:
            name = f"{bench}, {count} threads"
            if arguments.only in name:
                yield name, partial(criterion, bench, name, count)
    for kind in arguments.types.split(","):
        wanted = [count for count in threads if arguments.only in f"bench {kind}, {count} threads"]
        for count in wanted:
            file = model(kind, quantizer)
            name = f"bench {kind}, {count} threads"
            yield name, partial(rates, file, name, count)
        if arguments.only in f"first token {kind}":
            file = model(kind, quantizer)
            name = f"first token {kind}"
            yield name, partial(first_token, file, name)


def criterion(bench, name, threads, programs):
    home = BASE / "criterion"
    shutil.rmtree(home, ignore_errors=True)
    environment = dict(os.environ, CRITERION_HOME=str(home), IRONBRIDGE_THREADS=str(threads))
    command = [str(programs[bench]), "--bench", "--quick", "--noplot"]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = {}
    for file in sorted(home.rglob("new/estimates.json")):
        point = file.parent.parent.relative_to(home).as_posix()
        rows[f"{name}: {point} (ns)"] = json.loads(file.read_text())["median"]["point_estimate"]
    return rows


def rates(file, name, threads, programs):
    options = ["-p", "15,128,512", "-n", "32", "-r", "1", "--json"]
    command = [str(programs["ironbridge"]), "bench", "-m", str(file), *options]
    environment = dict(os.environ, IRONBRIDGE_THREADS=str(threads))
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    run = json.loads(output)["runs"][0]
    rows = {f"{name}: prompt {prompt['tokens']} (ms a token)": 1e3 / prompt["rate"] for prompt in run["prompts"]}
    rows[f"{name}: single tokens (ms a token)"] = 1e3 / run["generation"]["rate"]
    return rows


def first_token(file, name, programs):
    command = [str(programs["ironbridge"]), "generate", "-m", str(file), "-p", "a", "-n", "1", "-q"]
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: status {process.returncode}")
    # Kilobytes on Linux, bytes on a Mac.
    unit = 1 if sys.platform == "darwin" else 1024
    return {f"{name} (s)": time.monotonic() - start, f"{name}: peak (MiB)": usage.ru_maxrss * unit / 2**20}


def model(kind, quantizer):
    """The synthetic model with weights of one type. Made once."""
    plain = BASE / "synthetic-F16.gguf"
    if not plain.exists():
        BASE.mkdir(parents=True, exist_ok=True)
        synthetic_model.write(plain, SHAPE, lambda _layer, _name: "F16")
    file = BASE / f"synthetic-{kind}.gguf"
    if not file.exists():
        subprocess.run([str(quantizer), "quantize", str(plain), str(file), kind], check=True, stdout=subprocess.DEVNULL)
    return file


def report(measurements, arguments):
    """Prints the table and returns the exit status."""
    machine = f"{processor()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"
    print(f"{arguments.old} against the working tree, {arguments.runs} runs each, alternating, {machine}\n")
    print("| row | old: median (range) | new: median (range) | new / old | |\n| --- | --: | --: | --: | --- |")
    worse = 0
    for row in sorted(measurements["new"]):
        old, new = measurements["old"].get(row), measurements["new"][row]
        if not old:
            print(f"| {row} | | {figure(new)} | | new |")
            continue
        ratio = statistics.median(new) / statistics.median(old)
        marked = ratio > 1 + arguments.limit / 100 and min(new) > max(old)
        worse += marked
        print(f"| {row} | {figure(old)} | {figure(new)} | {ratio:.3f} | {'slower' if marked else ''} |")
    print(f"\n{worse} rows are worse by more than {arguments.limit:g} % with ranges that do not overlap.")
    return 1 if worse else 0


def processor():
    try:
        lines = open("/proc/cpuinfo").read().splitlines()
    except OSError:
        return os.uname().machine
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), os.uname().machine)


def figure(values):
    return f"{statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})"


if __name__ == "__main__":
    main()

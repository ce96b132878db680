#!/usr/bin/env python3
"""Prints the license texts of the crates that a build has in it, which go beside every binary that is given away.

    scripts/licenses.py PACKAGE [FEATURES]    of this workspace, for the machine that it runs on

A crate without a text of its own has a line with the names of its licenses. Equal texts are printed once.
"""

import json
import pathlib
import re
import subprocess
import sys

TEXT = re.compile(r"(?i)^(licen[sc]e|copying|unlicense|notice)")


def host() -> str:
    version = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    return re.search(r"^host: (.*)$", version, re.MULTILINE)[1]


def built(package: str, features: str) -> list[dict]:
    """The crates that are linked into the package: normal dependencies, and not those of builds and tests."""
    manifest = {"ironbridge": "Cargo.toml", "ironbridge-capi": "capi/Cargo.toml"}[package]
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", host()]
    command += ["--manifest-path", manifest, "--features", features]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    packages = {one["id"]: one for one in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    wanted, seen = [one["id"] for one in found["packages"] if one["name"] == package], set()
    while wanted:
        one = wanted.pop()
        if one in seen:
            continue
        seen.add(one)
        linked = (edge for edge in nodes[one]["deps"] if any(kind["kind"] is None for kind in edge["dep_kinds"]))
        # A procedural macro runs in the compiler, and nothing of it is in the binary.
        wanted += [edge["pkg"] for edge in linked if not is_macro(packages[edge["pkg"]])]
    return sorted((packages[one] for one in seen), key=lambda one: (one["name"], one["version"]))


def is_macro(package: dict) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])


def texts(package: dict) -> list[str]:
    folder = pathlib.Path(package["manifest_path"]).parent
    named = {path for path in folder.iterdir() if path.is_file() and TEXT.match(path.name)}
    return [path.read_text(errors="replace").strip() for path in sorted(named)]


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    owners: dict[str, list[str]] = {}
    crates = [one for one in built(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else "") if one["source"]]
    for one in crates:
        name = f"{one['name']} {one['version']} ({one['license'] or 'see its text'})"
        for text in texts(one) or [f"It has no text of its own. Its authors: {', '.join(one['authors']) or 'unnamed'}."]:
            owners.setdefault(text, []).append(name)
    for text, names in owners.items():
        print("\n".join(names), text, sep="\n\n", end=f"\n\n{'=' * 80}\n\n")
    print(f"licenses: {len(crates)} crates, {len(owners)} texts", file=sys.stderr)


if __name__ == "__main__":
    main()

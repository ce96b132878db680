"""The shared library and its C headers, by cffi in ABI mode: no compiler is needed. cffi releases the GIL in each call."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import cffi

_HERE = Path(__file__).resolve().parent
_HEADERS = ("ironbridge.h", "ironbridge_memory.h", "ironbridge_llama.h")


def _header_folder() -> Path:
    """The package's own headers, else the repository's."""
    for folder in (_HERE / "include", _HERE.parents[2] / "include"):
        if (folder / _HEADERS[0]).exists():
            return folder
    raise ImportError("ironbridge: the C headers are neither in the package nor in a repository around it")


def _declarations(text: str) -> str:
    """What cffi reads of a header: its declarations, without the preprocessor's part."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.S)
    for name, value in re.findall(r"^#define (\w+) (\d+)u?$", text, flags=re.M):
        text = re.sub(rf"\b{name}\b(?!\s+\d)", value, text)
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    return text.replace("IRON_API ", "")


def _number(text: str, name: str) -> int:
    found = re.search(rf"^#define {name} (\d+)u$", text, flags=re.M)
    if found is None:
        raise ImportError(f"ironbridge: the header has no {name}")
    return int(found.group(1))


def _library_path() -> str:
    """IRONBRIDGE_LIBRARY, else the package's own library, else what the system's loader finds."""
    chosen = os.environ.get("IRONBRIDGE_LIBRARY")
    if chosen:
        return chosen
    name = "libironbridge.0.dylib" if sys.platform == "darwin" else "libironbridge.so.0"
    own = _HERE / "lib" / name
    return str(own) if own.exists() else name


_texts = [(_header_folder() / name).read_text() for name in _HEADERS]

ffi: Any = cffi.FFI()
for _text in _texts:
    ffi.cdef(_declarations(_text))
lib: Any = ffi.dlopen(_library_path())

_expected = _number(_texts[0], "IRON_ABI_VERSION")
if lib.iron_abi_version() != _expected:
    raise ImportError(
        f"ironbridge: {_library_path()} has ABI version {lib.iron_abi_version()}, this package needs {_expected}"
    )

NO_TOKEN = 0xFFFFFFFF
FOREVER = 0xFFFFFFFFFFFFFFFF


def sized(kind: str, **fields: Any) -> Any:
    """A struct of the headers that says its size."""
    value = ffi.new(f"{kind} *", fields)
    value.size = ffi.sizeof(kind)
    return value

"""llama.cpp's own quantiser, compiled from the sources in the `llama-cpp-python` package.

    pip download --no-deps --no-binary :all: llama-cpp-python, and unpack it; GGML is its vendor/llama.cpp/ggml.
"""
import ctypes
import subprocess
import tempfile
from pathlib import Path

import gguf
import numpy as np

# What ggml-quants.c uses of the rest. None of it runs here, but for the size of rows, which goes into results alone
# that nobody reads.
REST = """
#include <stdint.h>
#include <stdlib.h>
void ggml_abort(const char *file, int line, const char *format, ...) { abort(); }
void ggml_log_internal(int level, const char *format, ...) {}
void ggml_critical_section_start(void) {}
void ggml_critical_section_end(void) {}
size_t ggml_row_size(int type, int64_t count) { return 0; }
size_t ggml_type_size(int type) { abort(); }
const char *ggml_type_name(int type) { abort(); }
"""


class Quantizer:
    def __init__(self, ggml):
        folder = tempfile.mkdtemp()
        rest = Path(folder, "rest.c")
        rest.write_text(REST)
        library = Path(folder, "quants.so")
        # Fused multiply-adds would give other blocks from machine to machine.
        subprocess.run(["cc", "-O2", "-ffp-contract=off", "-fPIC", "-shared", f"-I{ggml}/include", f"-I{ggml}/src",
                        f"{ggml}/src/ggml-quants.c", rest, "-o", library, "-lm"], check=True)
        self.library = ctypes.CDLL(str(library))

    def quantize(self, numbers, kind, importance=None):
        """Rows of float32 as rows of blocks. `importance` of each number makes all of them one row."""
        length, size = gguf.GGML_QUANT_SIZES[kind]
        numbers = np.ascontiguousarray(numbers, dtype=np.float32)
        blocks = np.zeros((*numbers.shape[:-1], numbers.shape[-1] // length * size), dtype=np.uint8)
        name = kind.name if kind.name.endswith("_K") else kind.name.lower()
        name = name[0].lower() + name[1:]
        function = getattr(self.library, f"quantize_{name}")
        function.restype = ctypes.c_size_t
        weights = None if importance is None else importance.ctypes.data_as(ctypes.c_void_p)
        function(numbers.ctypes.data_as(ctypes.c_void_p), blocks.ctypes.data_as(ctypes.c_void_p),
                 ctypes.c_int64(1), ctypes.c_int64(numbers.size), weights)
        return blocks

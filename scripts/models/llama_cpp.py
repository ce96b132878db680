"""llama.cpp, by the C functions that the wheel xllamacpp exports: the peer that ironbridge is measured beside.

Structs that its versions change are opaque here. They are passed and returned in memory, so a longer one does no harm.
Of a context's fields the first three are set, which have stood there since 2023. Where it is to be exact, its attention
in tiles, which rounds to F16, is turned off, and the cache is F32.
"""
import ctypes
import importlib.util
import time
from pathlib import Path

import numpy as np

BATCH = 512


class Opaque(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint32 * 256)]


class Batch(ctypes.Structure):
    _fields_ = [
        ("n_tokens", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embd", ctypes.c_void_p),
        ("pos", ctypes.POINTER(ctypes.c_int32)), ("n_seq_id", ctypes.c_void_p), ("seq_id", ctypes.c_void_p),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    ]


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def log(level, text, _):
    """Keeps what it says for the error that may come."""
    LlamaCpp.said = (LlamaCpp.said + (text or b"").decode(errors="replace"))[-4000:]


def library():
    folder = Path(importlib.util.find_spec("xllamacpp").origin).parent
    [path] = folder.glob("*.so")
    found = ctypes.CDLL(str(path))
    pointer = ctypes.c_void_p
    for name, result, arguments in [
        ("llama_log_set", None, [pointer, pointer]),
        ("llama_backend_init", None, []),
        ("llama_model_default_params", Opaque, []),
        ("llama_context_default_params", Opaque, []),
        ("llama_model_load_from_file", pointer, [ctypes.c_char_p, Opaque]),
        ("llama_init_from_model", pointer, [pointer, Opaque]),
        ("llama_model_get_vocab", pointer, [pointer]),
        ("llama_vocab_n_tokens", ctypes.c_int32, [pointer]),
        ("llama_vocab_get_add_bos", ctypes.c_bool, [pointer]),
        ("llama_vocab_bos", ctypes.c_int32, [pointer]),
        ("llama_vocab_is_eog", ctypes.c_bool, [pointer, ctypes.c_int32]),
        ("llama_tokenize", ctypes.c_int32, [pointer, ctypes.c_char_p, ctypes.c_int32, pointer, ctypes.c_int32,
                                            ctypes.c_bool, ctypes.c_bool]),
        ("llama_set_n_threads", None, [pointer, ctypes.c_int32, ctypes.c_int32]),
        ("llama_get_memory", pointer, [pointer]),
        ("llama_memory_clear", None, [pointer, ctypes.c_bool]),
        ("llama_decode", ctypes.c_int32, [pointer, Batch]),
        ("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float), [pointer, ctypes.c_int32]),
        ("llama_adapter_lora_init", pointer, [pointer, ctypes.c_char_p]),
        ("llama_set_adapters_lora", ctypes.c_int32, [pointer, ctypes.POINTER(pointer), ctypes.c_size_t,
                                                     ctypes.POINTER(ctypes.c_float)]),
        ("llama_free", None, [pointer]),
        ("llama_model_free", None, [pointer]),
    ]:
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    found.llama_log_set(ctypes.cast(log, pointer), None)
    found.llama_backend_init()
    return found


class LlamaCpp:
    said = ""
    library = None

    def __init__(self, path, context=1024, threads=2, exact=False):
        if LlamaCpp.library is None:
            LlamaCpp.library = library()
        lib = self.library
        LlamaCpp.said = ""
        self.model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
        if not self.model:
            raise ValueError(f"llama.cpp does not load {path}: {LlamaCpp.said}")
        options = lib.llama_context_default_params()
        options.words[0], options.words[1], options.words[2] = context, BATCH, BATCH
        if exact:
            found = [*options.words[10:14], *options.words[26:28]]
            assert found == [2**32 - 1] * 4 + [1, 1], f"the fields are elsewhere in this version: {found}"
            options.words[13], options.words[26], options.words[27] = 0, 0, 0
        self.context = lib.llama_init_from_model(self.model, options)
        self.vocab = lib.llama_model_get_vocab(self.model)
        self.vocabulary = lib.llama_vocab_n_tokens(self.vocab)
        self.use_threads(threads)
        self.fed = 0

    def close(self):
        self.library.llama_free(self.context)
        self.library.llama_model_free(self.model)

    def use_adapter(self, path, scale=1.0):
        """Adds a LoRA adapter's changes from here on. It goes with the model."""
        adapter = self.library.llama_adapter_lora_init(self.model, str(path).encode())
        if not adapter:
            raise ValueError(f"llama.cpp does not load {path}: {LlamaCpp.said}")
        adapters, scales = (ctypes.c_void_p * 1)(adapter), (ctypes.c_float * 1)(scale)
        status = self.library.llama_set_adapters_lora(self.context, adapters, 1, scales)
        assert status == 0, f"llama_set_adapters_lora: {status}: {LlamaCpp.said}"

    def use_threads(self, threads):
        self.library.llama_set_n_threads(self.context, threads, threads)

    def token_ids(self, text, add_special=True, parse_special=False):
        text = text.encode()
        room = len(text) + 8
        ids = (ctypes.c_int32 * room)()
        count = self.library.llama_tokenize(self.vocab, text, len(text), ids, room, add_special, parse_special)
        assert count >= 0, f"llama.cpp wants room for {-count} tokens"
        return list(ids[:count])

    def begin(self):
        """What a text begins with: a list of one token or none."""
        lib = self.library
        return [lib.llama_vocab_bos(self.vocab)] if lib.llama_vocab_get_add_bos(self.vocab) else []

    def ends(self, token):
        return self.library.llama_vocab_is_eog(self.vocab, token)

    def forget(self):
        self.library.llama_memory_clear(self.library.llama_get_memory(self.context), True)
        self.fed = 0

    def feed(self, tokens, wanted=1):
        """The logits after each of the last `wanted` tokens: wanted x vocabulary."""
        rows = []
        for start in range(0, len(tokens), BATCH):
            part = tokens[start:start + BATCH]
            flags = [index >= len(tokens) - wanted for index in range(start, start + len(part))]
            batch = Batch(len(part), (ctypes.c_int32 * len(part))(*part), None,
                          (ctypes.c_int32 * len(part))(*range(self.fed, self.fed + len(part))), None, None,
                          (ctypes.c_int8 * len(part))(*flags))
            status = self.library.llama_decode(self.context, batch)
            assert status == 0, f"llama_decode: {status}: {LlamaCpp.said}"
            self.fed += len(part)
            for index, flag in enumerate(flags):
                if flag:
                    logits = self.library.llama_get_logits_ith(self.context, index)
                    rows.append(np.ctypeslib.as_array(logits, (self.vocabulary,)).astype(np.float64))
        return np.array(rows)

    def write(self, prompt, tokens):
        """Greedily: the tokens, and the five best log-probabilities for each."""
        self.forget()
        [logits] = self.feed(prompt)
        written, best = [], []
        while len(written) < tokens:
            scores = log_softmax(logits)
            five = np.argpartition(scores, -5)[-5:]
            written.append(int(scores.argmax()))
            best.append({int(token): float(scores[token]) for token in five})
            if self.ends(written[-1]):
                break
            [logits] = self.feed(written[-1:])
        return written, best

    def log_probabilities(self, tokens, first):
        """Of all that may follow each of the tokens from the one at `first` on."""
        self.forget()
        return log_softmax(self.feed(tokens, len(tokens) - first))

    def rates(self, prompt, tokens):
        """Tokens/s of the prompt, and of writing that many tokens behind it."""
        self.forget()
        start = time.perf_counter()
        [logits] = self.feed(prompt)
        middle = time.perf_counter()
        for _ in range(tokens):
            [logits] = self.feed([int(logits.argmax())])
        return len(prompt) / (middle - start), tokens / (time.perf_counter() - middle)


def log_softmax(logits):
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

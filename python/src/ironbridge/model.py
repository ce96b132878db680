"""LLaMA models."""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from dataclasses import dataclass
from typing import Any, AsyncIterator, Callable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from ._handle import Handle
from ._library import NO_TOKEN, ffi, lib, sized
from .device import Device, default_device
from .errors import check

Tokens = Sequence[int]
Progress = Callable[[int, int], Optional[bool]]

_STORAGES = {"automatic": 0, "mapped": 1, "moved": 2, "copied": 3}
_CACHES = {"f32": 0, "f16": 1, "q8_0": 2}
_ACTIVATIONS = {"automatic": 3, "float": 1, "bytes": 2}
_STOPS = {1: "end of text", 2: "limit", 3: "stop string", 4: "canceled", 5: "failed"}


def _chosen(names: Mapping[str, int], what: str, name: str) -> int:
    if name not in names:
        raise ValueError(f"{what} is {name!r}; {', '.join(map(repr, names))} are possible")
    return names[name]


def _tokens(call: Callable[[Any, int, Any], int]) -> list[int]:
    count = ffi.new("size_t *")
    check(call(ffi.NULL, 0, count))
    places = ffi.new("uint32_t[]", max(1, count[0]))
    if count[0]:
        check(call(places, count[0], count))
    return list(ffi.unpack(places, count[0])) if count[0] else []


def _text(call: Callable[[Any, int, Any], int]) -> str:
    length = ffi.new("size_t *")
    check(call(ffi.NULL, 0, length))
    place = ffi.new("char[]", length[0] + 1)
    check(call(place, length[0] + 1, length))
    return bytes(ffi.buffer(place, length[0])).decode()


@dataclass(frozen=True)
class Piece:
    """A token that the model wrote, and the text that it completes: whole characters, at times none."""

    token: int
    text: str
    log_probability: Optional[float] = None
    likeliest: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Stats:
    """What a generation has done; times in seconds."""

    prompt_tokens: int
    prompt_time: float
    generated_tokens: int
    generation_time: float


class Model(Handle):
    """A GGUF file or a folder of Hugging Face's, loaded onto a device.

    ``weights`` is ``"automatic"``, ``"mapped"``, ``"moved"`` or ``"copied"``. ``progress(done, total)`` is called with
    bytes; ``False`` ends the loading with ``CanceledError``, and an exception goes on from here.
    """

    def __init__(
        self,
        path: Union[str, os.PathLike[str]],
        device: Optional[Device] = None,
        weights: str = "automatic",
        progress: Optional[Progress] = None,
    ) -> None:
        self.device = device or default_device()
        raised: list[BaseException] = []

        def report(done: int, total: int, _: Any) -> int:
            try:
                return int(progress is not None and progress(done, total) is False)
            except BaseException as error:
                raised.append(error)
                return 1

        callback = ffi.callback("uint32_t(uint64_t, uint64_t, void *)", report) if progress else ffi.NULL
        options = sized("iron_load_options", weights=_chosen(_STORAGES, "weights", weights), progress=callback)
        try:
            super().__init__(
                "iron_model",
                lambda place: lib.iron_model_open(self.device._handle, os.fsencode(path), options, place),
            )
        except Exception:
            if raised:
                raise raised[0]
            raise

    @property
    def info(self) -> dict[str, Any]:
        """The model's shape: ``architecture``, ``vocabulary``, ``width``, ``layers``, ``context`` and more."""
        info = sized("iron_model_info")
        check(lib.iron_model_describe(self._handle, info))
        names = [name for name, _ in ffi.typeof("iron_model_info").fields if name not in ("size", "architecture")]
        found = {name: getattr(info, name) for name in names}
        found["architecture"] = ffi.string(info.architecture).decode()
        return found

    @property
    def chat_template(self) -> str:
        """The file's chat template. ``NotFoundError``: it has none."""
        return _text(lambda *place: int(lib.iron_model_chat_template(self._handle, *place)))

    def encode(self, text: str) -> list[int]:
        """The tokens of a prompt. Names of control tokens in it are text."""
        data = text.encode()
        return _tokens(lambda *place: int(lib.iron_model_encode_prompt(self._handle, data, len(data), *place)))

    def decode(self, tokens: Tokens) -> str:
        """The text of tokens."""
        place = ffi.new("iron_tokenizer **")
        check(lib.iron_model_tokenizer(self._handle, place))
        tokenizer = ffi.gc(place[0], lib.iron_tokenizer_release)
        given = ffi.new("uint32_t[]", list(tokens))
        return _text(lambda *room: int(lib.iron_tokenizer_decode(tokenizer, given, len(tokens), *room)))

    def session(
        self, sequences: int = 1, context: int = 0, cache: str = "f32", activations: str = "automatic"
    ) -> "Session":
        """Sequences of this model, with all the memory that they will ever use. ``activations``: how exactly products
        have those of up to 16 tokens, in ``float``, at least 16 bits, in ``bytes``, 8 bits, or ``automatic``, 8 bits
        where the device is faster with them."""
        return Session(self, sequences, context, cache, activations)

    def generate(self, prompt: Union[str, Tokens], **options: Any) -> "Generation":
        """Writes after a prompt, in a session of its own: see :meth:`Session.generate` for the options."""
        return self.session().generate(prompt, **options)

    def generate_all(
        self,
        prompts: Sequence[Union[str, Tokens]],
        sequences: int = 8,
        context: int = 0,
        cache: str = "f32",
        activations: str = "automatic",
        **options: Any,
    ) -> list[str]:
        """Writes after each prompt, ``sequences`` of them at a time, in a session of its own: see
        :meth:`Session.generate_all`. The texts come in the order of the prompts."""
        texts = [""] * len(prompts)
        if not texts:
            return texts
        with self.session(min(sequences, len(texts)), context, cache, activations) as session:
            for index, text in session.generate_all(prompts, **options):
                texts[index] = text
        return texts

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        template: Optional[str] = None,
        variables: Optional[Mapping[str, Any]] = None,
        **options: Any,
    ) -> "Generation":
        """Writes the answer to a conversation: objects with ``"role"``, ``"content"`` and what else the template knows,
        such as ``"tool_calls"``. ``variables`` are what it may ask for, such as ``{"tools": [...]}``."""
        return self.generate(self.encode_chat(messages, template, variables), **options)

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        template: Optional[str] = None,
        variables: Optional[Mapping[str, Any]] = None,
    ) -> list[int]:
        """The tokens of a conversation up to where the model is to answer."""
        source = ffi.NULL if template is None else ffi.new("char[]", template.encode())
        values = ffi.NULL if variables is None else ffi.new("char[]", json.dumps(variables).encode())
        options = sized("iron_chat_options", source=source, variables=values)
        place = ffi.new("iron_chat **")
        check(lib.iron_chat_create(self._handle, options, place))
        chat = ffi.gc(place[0], lib.iron_chat_release)
        text = json.dumps([dict(message) for message in messages]).encode()
        return _tokens(lambda *room: int(lib.iron_chat_encode(chat, text, *room)))

    def embed(self, text: Union[str, Tokens], pooling: str = "mean") -> npt.NDArray[np.float32]:
        """A vector of length 1 and of ``info["width"]`` numbers. ``pooling`` is ``"mean"`` or ``"last"``."""
        with self.session() as session:
            return session.embed(text, pooling)


class Session(Handle):
    """Sequences that the model has seen. One thread at a time uses it."""

    def __init__(
        self,
        model: Model,
        sequences: int = 1,
        context: int = 0,
        cache: str = "f32",
        activations: str = "automatic",
    ) -> None:
        self.model = model
        options = sized(
            "iron_session_options",
            sequences=sequences,
            context=context,
            cache=_chosen(_CACHES, "cache", cache),
            activations=_chosen(_ACTIVATIONS, "activations", activations),
        )
        super().__init__(
            "iron_session", lambda place: lib.iron_session_create(model._handle, options, place)
        )

    def _prompt(self, prompt: Union[str, Tokens]) -> list[int]:
        return self.model.encode(prompt) if isinstance(prompt, str) else list(prompt)

    def tokens(self, sequence: int = 0) -> list[int]:
        """What a sequence has seen."""
        return _tokens(lambda *room: int(lib.iron_session_tokens(self._handle, sequence, *room)))

    def feed(self, tokens: Tokens, sequence: int = 0) -> None:
        """Computes the next tokens. ``ContextFullError`` before anything is computed."""
        check(lib.iron_session_feed(self._handle, sequence, ffi.new("uint32_t[]", list(tokens)), len(tokens)))

    def logits(self, sequence: int = 0) -> npt.NDArray[np.float32]:
        """One score for each token of the vocabulary, of what comes next."""
        logits = np.empty(self.model.info["vocabulary"], np.float32)
        count = ffi.new("size_t *")
        place = ffi.from_buffer("float[]", logits, require_writable=True)
        check(lib.iron_session_logits(self._handle, sequence, place, len(logits), count))
        return logits

    def rewind(self, position: int, sequence: int = 0) -> None:
        """Forgets everything from ``position`` on."""
        check(lib.iron_session_rewind(self._handle, sequence, position))

    def copy(self, source: int, target: int) -> None:
        """Makes sequence ``target`` what ``source`` is, but for the logits."""
        check(lib.iron_session_copy(self._handle, source, target))

    def save(self, sequence: int = 0) -> bytes:
        """A sequence as bytes for :meth:`restore`."""
        length = ffi.new("size_t *")
        check(lib.iron_session_save(self._handle, sequence, ffi.NULL, 0, length))
        place = ffi.new("char[]", length[0])
        check(lib.iron_session_save(self._handle, sequence, place, length[0], length))
        return bytes(ffi.buffer(place, length[0]))

    def restore(self, saved: bytes, sequence: int = 0) -> None:
        """Makes a sequence what was saved, but for the logits. ``ModelError``: it is of another model."""
        check(lib.iron_session_restore(self._handle, sequence, ffi.from_buffer(saved), len(saved)))

    def embed(self, text: Union[str, Tokens], pooling: str = "mean", sequence: int = 0) -> npt.NDArray[np.float32]:
        """As :meth:`Model.embed`, after what the sequence has seen."""
        tokens = self._prompt(text)
        kind = _chosen({"mean": 0, "last": 1}, "pooling", pooling)
        vector = np.empty(self.model.info["width"], np.float32)
        width = ffi.new("size_t *")
        place = ffi.from_buffer("float[]", vector, require_writable=True)
        given = ffi.new("uint32_t[]", tokens)
        check(lib.iron_session_embed(self._handle, sequence, given, len(tokens), kind, place, len(vector), width))
        return vector

    def generate(
        self,
        prompt: Union[str, Tokens],
        limit: int = 0,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        stop: Sequence[str] = (),
        log_probabilities: Optional[int] = None,
        sequence: int = 0,
    ) -> "Generation":
        """Goes on with ``prompt`` after what the sequence has seen. ``limit`` 0 is as many tokens as there is room for.
        ``log_probabilities`` is how many of the likeliest tokens come with each piece."""
        return Generation(
            self,
            self._prompt(prompt),
            sequence,
            dict(
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                min_p=min_p,
                repetition_penalty=repetition_penalty,
                seed=seed,
            ),
            limit,
            stop,
            log_probabilities,
        )

    def generate_all(
        self,
        prompts: Sequence[Union[str, Tokens]],
        limit: int = 0,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        stop: Sequence[str] = (),
    ) -> Iterator[tuple[int, str]]:
        """Writes after each prompt, as many at a time as there are sequences: a pass reads the weights once for all of
        them. Gives the prompt's place and its text as each is done. The n-th prompt has the seed ``seed`` + n. Forgets
        what the sequences have seen.

        Raises ``ContextFullError`` at the first prompt that has no room.
        """
        info = sized("iron_session_info")
        check(lib.iron_session_describe(self._handle, info))
        waiting = deque(enumerate(prompts))
        free = list(range(info.sequences))
        running: list[_Text] = []
        while waiting or running:
            while waiting and free:
                place, prompt = waiting.popleft()
                tokens = self._prompt(prompt)
                self.rewind(0, free[-1])
                sampling = dict(
                    temperature=temperature,
                    top_k=top_k,
                    top_p=top_p,
                    min_p=min_p,
                    repetition_penalty=repetition_penalty,
                    seed=seed + place,
                )
                room = max(1, info.context - len(tokens))
                options, _keep = _options(sampling, min(limit, room) if limit else room, stop)
                running.append(_Text(self.model, place, free.pop(), tokens, options))
            work = ffi.new("iron_feed[]", [text.feed() for text in running])
            check(lib.iron_session_feed_batch(self._handle, work, len(running)))
            ended = [text for text in running if text.write(self)]
            running = [text for text in running if text not in ended]
            for text in ended:
                free.append(text.sequence)
                yield text.place, text.text


class _Text:
    """A text that is written together with others, in a sequence of its own."""

    def __init__(self, model: Model, place: int, sequence: int, tokens: list[int], options: Any) -> None:
        self.place, self.sequence, self.text = place, sequence, ""
        self._next = ffi.new("uint32_t[]", tokens)
        handle = ffi.new("iron_writer **")
        check(lib.iron_writer_create(model._handle, self._next, len(tokens), options, handle))
        self._writer = ffi.gc(handle[0], lib.iron_writer_release)

    def feed(self) -> tuple[Any, int, int]:
        """An ``iron_feed`` of what the sequence has not seen yet."""
        return (self._next, len(self._next), self.sequence)

    def write(self, session: Session) -> bool:
        """Picks the next token. True: it was the last."""
        piece = sized("iron_piece")
        check(lib.iron_session_write(session._handle, self.sequence, self._writer, piece))
        self.text += bytes(ffi.buffer(piece.text, piece.text_length)).decode()
        self._next = ffi.new("uint32_t[]", [piece.token])
        return bool(piece.stop != lib.IRON_STOP_NONE)


def _options(sampling: Mapping[str, Any], limit: int, stop: Sequence[str], **others: Any) -> tuple[Any, Any]:
    """An ``iron_generation_options``, and what it points to, which must live as long."""
    sampler = sized("iron_sampler_options", **sampling)
    texts = [ffi.new("char[]", text.encode()) for text in stop]
    pointers = ffi.new("const char *[]", texts)
    options = sized(
        "iron_generation_options",
        sampler=sampler,
        limit=limit,
        stop_strings=pointers,
        stop_string_count=len(texts),
        **others,
    )
    return options, (sampler, texts, pointers)


class Generation(Handle):
    """A text in steps: iterating gives the text of each token as it is computed, ``pieces`` the tokens, too, and
    ``async for`` computes on another thread. Ctrl-C ends it within one token."""

    def __init__(
        self,
        session: Session,
        prompt: list[int],
        sequence: int,
        sampling: Mapping[str, Any],
        limit: int,
        stop: Sequence[str],
        log_probabilities: Optional[int],
    ) -> None:
        self.session = session
        options, _keep = _options(
            sampling,
            limit,
            stop,
            log_probabilities=int(log_probabilities is not None),
            likeliest=log_probabilities or 0,
        )
        given = ffi.new("uint32_t[]", prompt)
        super().__init__(
            "iron_generation",
            lambda place: lib.iron_generation_create(
                session._handle, sequence, given, len(prompt), options, place
            ),
        )
        self._probabilities = log_probabilities is not None
        self._ended = False

    def next_piece(self) -> Optional[Piece]:
        """The next token; ``None`` after the end."""
        if self._ended:
            return None
        native = sized("iron_piece")
        check(lib.iron_generation_next(self._handle, native))
        self._ended = native.stop != lib.IRON_STOP_NONE
        if native.token == NO_TOKEN:
            return None
        likeliest = [native.likeliest[index] for index in range(native.likeliest_count)]
        return Piece(
            native.token,
            bytes(ffi.buffer(native.text, native.text_length)).decode(),
            native.log_probability if self._probabilities else None,
            tuple((one.token, one.log_probability) for one in likeliest),
        )

    def pieces(self) -> Iterator[Piece]:
        """The tokens as they are computed."""
        while (piece := self.next_piece()) is not None:
            yield piece

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())

    async def __aiter__(self) -> AsyncIterator[str]:
        while (piece := await asyncio.to_thread(self.next_piece)) is not None:
            yield piece.text

    def __await__(self) -> Iterator[Any]:
        """The rest of the text, computed on a thread: ``text = await model.generate(...)``."""
        return asyncio.to_thread(self.text).__await__()

    def text(self) -> str:
        """The rest of the text."""
        return "".join(self)

    def _info(self) -> Any:
        info = sized("iron_generation_info")
        check(lib.iron_generation_describe(self._handle, info))
        return info

    @property
    def stop(self) -> Optional[str]:
        """Why it ended: ``"end of text"``, ``"limit"``, ``"stop string"``, ``"failed"``; ``None`` while it goes on."""
        return _STOPS.get(self._info().stop)

    @property
    def stats(self) -> Stats:
        """What it has done so far."""
        info = self._info()
        return Stats(info.prompt_tokens, info.prompt_time * 1e-9, info.generated_tokens, info.generation_time * 1e-9)

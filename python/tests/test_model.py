"""Models: texts, sessions, embeddings, errors."""

import asyncio
import signal
import threading
import time

import numpy as np
import pytest

import ironbridge
from conftest import MODEL, handles


def test_a_text_comes_piece_by_piece(model: ironbridge.Model, balanced: None) -> None:
    with model.generate("Ownership is", limit=8) as generation:
        pieces = list(generation)
        assert "".join(pieces) == " a set of rules that govern"
        assert len(pieces) == 8
        assert generation.stop == "limit"
        stats = generation.stats
        assert (stats.generated_tokens, stats.prompt_tokens) == (8, len(model.encode("Ownership is")))
        assert stats.prompt_time > 0
        assert generation.next_piece() is None


def test_stop_strings_and_probabilities(model: ironbridge.Model, balanced: None) -> None:
    generation = model.generate("Ownership is", limit=40, stop=[" that", "never"], log_probabilities=2)
    pieces = list(generation.pieces())
    assert "".join(piece.text for piece in pieces) == " a set of rules"
    assert generation.stop == "stop string"
    for piece in pieces:
        assert piece.likeliest[0] == (piece.token, piece.log_probability)
        assert len(piece.likeliest) == 2
    generation.close()
    generation.session.close()


def test_seeds_give_the_same_text(model: ironbridge.Model) -> None:
    texts = [model.generate("Ownership", limit=24, temperature=3.0, seed=seed).text() for seed in (1, 1, 2)]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


def test_a_text_can_be_awaited(model: ironbridge.Model) -> None:
    async def collect() -> str:
        return "".join([text async for text in model.generate("Ownership is", limit=4)])

    assert asyncio.run(collect()) == " a set of rules"

    async def whole() -> str:
        return await model.generate("Ownership is", limit=4)

    assert asyncio.run(whole()) == " a set of rules"


def test_other_threads_run_meanwhile(model: ironbridge.Model) -> None:
    """The GIL is released: while a long prompt is computed, another thread counts."""
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.0005)

    counter = threading.Thread(target=count)
    session = model.session()
    tokens = (model.encode("Ownership is a set of rules that govern ") * 60)[: model.info["context"] - 8]
    counter.start()
    before = counted
    session.feed(tokens)
    during = counted - before
    done.set()
    counter.join()
    assert during >= 3


def test_a_session_says_how_exact_activations_are(model: ironbridge.Model) -> None:
    texts = {}
    for activations in ("automatic", "float", "bytes"):
        with model.session(activations=activations) as session:
            texts[activations] = "".join(session.generate("Ownership is", limit=8))
    # The processor has no kernels for bytes.
    assert len(set(texts.values())) == 1
    with pytest.raises(ValueError, match="activations is 'halves'; 'automatic', 'float', 'bytes' are possible"):
        model.session(activations="halves")


def test_an_interrupt_ends_a_text_within_a_token(model: ironbridge.Model, balanced: None) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    session = model.session()
    text = ""
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            while True:
                session.rewind(0)
                with session.generate("Ownership is", limit=20, temperature=1.0) as generation:
                    for piece in generation:
                        text += piece
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert text
    # The session can go on.
    session.rewind(0)
    generation = session.generate("Ownership is", limit=3)
    assert generation.text() == " a set of"
    generation.close()
    session.close()


def test_sessions_remember_and_are_saved(model: ironbridge.Model, balanced: None) -> None:
    with model.session(sequences=2, context=64) as session:
        tokens = model.encode("Ownership is a set")
        session.feed(tokens)
        assert session.tokens() == tokens
        assert model.decode(tokens) == "Ownership is a set"
        expected = session.logits()
        assert expected.shape == (model.info["vocabulary"],) and np.isfinite(expected).all()
        session.rewind(len(tokens) - 1)
        saved = session.save()
        session.restore(saved, sequence=1)
        session.feed(tokens[-1:], sequence=1)
        session.feed(tokens[-1:])
        known = session.logits()
        session.rewind(len(tokens) - 1)
        session.copy(0, 1)
        session.feed(tokens[-1:], sequence=1)
        assert (session.logits(1) == known).all()
        assert known.argmax() == expected.argmax()
        with pytest.raises(ironbridge.ModelError, match="too short"):
            session.restore(saved[:20])


def test_near_texts_have_near_vectors(model: ironbridge.Model, balanced: None) -> None:
    first, same, other = (model.embed(text) for text in ("a reference", "a reference", "a thread"))
    assert first.dtype == np.float32 and first.shape == (model.info["width"],)
    assert np.isclose(np.linalg.norm(first), 1, atol=1e-5)
    assert (first == same).all()
    assert first @ other < 0.9999
    assert not (model.embed("a reference", pooling="last") == first).all()


def test_many_texts_are_what_each_is_alone(model: ironbridge.Model, balanced: None) -> None:
    """At most eight tokens in a pass, which round as one does."""
    prompts = ["A", "fn", "Threads", "Traits", "let", "Slices", "Vec"]
    assert max(len(model.encode(prompt)) for prompt in prompts) <= 4
    options = {"limit": 12, "temperature": 0.9, "top_k": 20}
    alone = [model.generate(prompt, seed=5 + place, **options).text() for place, prompt in enumerate(prompts)]
    assert model.generate_all(prompts, sequences=2, seed=5, **options) == alone
    assert model.generate_all([model.encode(prompt) for prompt in prompts], 1, 64, seed=5, **options) == alone
    assert model.generate_all([]) == []
    with model.session(sequences=2, context=24) as session:
        texts = dict(session.generate_all(prompts, stop=[" "]))
        assert sorted(texts) == list(range(7)) and not any(" " in text for text in texts.values())
        # No limit: as many as there is room for.
        (_, text), = session.generate_all(["A"])
        assert len(model.encode("A" + text)) >= 20
        with pytest.raises(ironbridge.ContextFullError):
            dict(session.generate_all(["A", [5] * 25], limit=4))
        with pytest.raises(ironbridge.ArgumentError, match="temperature"):
            dict(session.generate_all(["A"], temperature=-1.0))
        # And it can be used again.
        assert dict(session.generate_all(["A"], limit=12, temperature=0.9, top_k=20, seed=5)) == {0: alone[0]}


TEMPLATE = "{% for message in messages %}{{ message.content }}{{ mark }}{% endfor %}"


def test_conversations(model: ironbridge.Model) -> None:
    messages = [{"role": "user", "content": "Ownership is"}]
    assert model.chat(messages, TEMPLATE, {"mark": ""}, limit=4).text() == " a set of rules"
    with pytest.raises(ironbridge.NotFoundError, match="no chat template"):
        model.chat(messages)
    with pytest.raises(ironbridge.NotFoundError):
        model.chat_template
    with pytest.raises(ironbridge.ChatError, match="line 1"):
        model.chat(messages, "{% if %}")
    with pytest.raises(ironbridge.ArgumentError, match="messages\\[0\\]"):
        model.chat([{"role": "user"}], TEMPLATE)


def test_conversations_have_calls_of_tools(model: ironbridge.Model) -> None:
    template = "{% for m in messages %}{{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}{% endfor %}"
    call = {"function": {"name": "f", "arguments": {"x": "</s>", "n": [1, None]}}}
    messages = [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "content": "21"}]
    tokens = model.encode_chat(messages, template)
    assert model.decode(tokens) == '[{"function": {"name": "f", "arguments": {"x": "</s>", "n": [1, null]}}}]21'


def test_errors_are_typed_and_say_why(model: ironbridge.Model, tmp_path: object) -> None:
    with pytest.raises(ironbridge.FileError, match="no/such/model") as raised:
        ironbridge.Model("/no/such/model")
    assert isinstance(raised.value, OSError) and raised.value.name == "IRON_ERROR_FILE"
    damaged = f"{tmp_path}/damaged.gguf"
    with open(damaged, "wb") as file:
        file.write(b"GGUF\x03\0\0\0and no more")
    with pytest.raises(ironbridge.ModelError, match="damaged.gguf"):
        ironbridge.Model(damaged)
    with pytest.raises(ValueError, match="weights is 'fast'"):
        ironbridge.Model(MODEL, weights="fast")
    with model.session(context=8) as session, pytest.raises(ironbridge.ContextFullError, match="context of 8"):
        session.feed([5] * 9)
    with pytest.raises(ironbridge.ArgumentError, match="temperature"):
        model.generate("x", temperature=-1.0)


def test_what_is_closed_is_an_error(model: ironbridge.Model) -> None:
    session = model.session()
    session.close()
    session.close()
    with pytest.raises(ironbridge.HandleError):
        session.feed([5])
    before = handles()
    with ironbridge.Model(MODEL) as short:
        generation = short.generate("Ownership is", limit=2)
    # What still needs the model keeps it.
    assert generation.text() == " a set"
    generation.close()
    generation.session.close()
    assert handles() == before


def test_loading_can_end_early() -> None:
    with pytest.raises(ironbridge.CanceledError):
        ironbridge.Model(MODEL, progress=lambda done, total: False)

    def fails(done: int, total: int) -> None:
        raise RuntimeError("the window was closed")

    with pytest.raises(RuntimeError, match="the window was closed"):
        ironbridge.Model(MODEL, progress=fails)
    seen: list[int] = []
    with ironbridge.Model(MODEL, progress=lambda done, total: seen.append(done)):
        assert seen and seen == sorted(seen)

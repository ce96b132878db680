"""The demo model, once for all tests."""

import gc
from pathlib import Path
from typing import Iterator

import pytest

import ironbridge
from ironbridge._library import ffi, lib, sized
from ironbridge.errors import check

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "assets/tiny-rustbook-q8_0.gguf"


@pytest.fixture(scope="session")
def model() -> Iterator[ironbridge.Model]:
    with ironbridge.Model(MODEL) as loaded:
        yield loaded


def handles() -> int:
    """How many C handles are not given back."""
    gc.collect()
    diagnostics = sized("iron_diagnostics")
    check(lib.iron_diagnose(diagnostics))
    return int(diagnostics.live_handles)


@pytest.fixture
def balanced(model: ironbridge.Model) -> Iterator[None]:
    """Everything that the test makes is given back."""
    ironbridge.default_device()
    before = handles()
    yield
    assert handles() == before

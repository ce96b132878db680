"""The one owner of a C handle."""

from __future__ import annotations

from typing import Any, Callable, TypeVar

from ._library import ffi, lib
from .errors import check

Self = TypeVar("Self", bound="Handle")


class Handle:
    """An object of the library's. ``close`` gives it back at once, and so does the end of a ``with`` block; else the
    garbage collector does. What still needs it keeps it alive inside the library."""

    def __init__(self, kind: str, create: Callable[[Any], int]) -> None:
        place = ffi.new(f"{kind} **")
        check(create(place))
        self._release = getattr(lib, f"{kind}_release")
        self._owned: Any = ffi.gc(place[0], self._release)

    @property
    def _handle(self) -> Any:
        return self._owned

    def close(self) -> None:
        """Gives it back. Any use after that raises ``HandleError``; another ``close`` does nothing."""
        owned, self._owned = self._owned, ffi.NULL
        if owned:
            ffi.release(owned)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

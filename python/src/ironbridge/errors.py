"""Exceptions, one for each group of C statuses. Those that Python has a class for are that, too."""

from __future__ import annotations

from ._library import ffi, lib


class Error(Exception):
    """What the library has to say. ``status`` is the number of the C ``iron_status``, ``name`` its name."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.name: str = ffi.string(lib.iron_status_name(status)).decode()


class ArgumentError(Error, ValueError):
    """The call is wrong as it stands: a shape, a range, a text that is no UTF-8."""


class HandleError(ArgumentError):
    """The object was closed."""


class NotFoundError(Error, LookupError):
    """No kernel, key or token of that name."""


class UnsupportedError(Error):
    """This device or build cannot do it."""


class CompileError(Error):
    """The Metal source has errors: the message is the compiler's."""


class MemoryLimitError(Error, MemoryError):
    """There is no memory, on the device or on the host."""


class StateError(Error):
    """Not now: the object is in use by another thread, or in another state."""


class DeviceError(Error):
    """The device failed: no device, a time limit, a page fault."""


class FileError(Error, OSError):
    """A file cannot be opened or written."""

    def __str__(self) -> str:
        return str(self.args[0])


class ModelError(Error):
    """A model's file or numbers cannot be used."""


class ContextFullError(Error):
    """More tokens than the context has room for."""


class CanceledError(Error):
    """A callback ended the call."""


class ChatError(Error):
    """A chat template has an error, fails, or refuses the conversation."""


def _classes() -> dict[int, type[Error]]:
    groups: dict[type[Error], tuple[str, ...]] = {
        ArgumentError: ("INVALID_ARGUMENT", "OUT_OF_RANGE", "SHAPE", "WRONG_DEVICE", "READ_ONLY"),
        HandleError: ("INVALID_HANDLE",),
        NotFoundError: ("NOT_FOUND",),
        UnsupportedError: ("UNSUPPORTED",),
        CompileError: ("COMPILE",),
        MemoryLimitError: ("OUT_OF_MEMORY",),
        StateError: ("STATE", "BUSY", "MAPPED", "NOT_COMMITTED", "TIMEOUT"),
        DeviceError: (
            "NO_DEVICE",
            "POISONED",
            "DEVICE_TIMEOUT",
            "DEVICE_PAGE_FAULT",
            "DEVICE_LOST",
            "DEVICE_INVALID",
            "DEVICE_INTERNAL",
        ),
        FileError: ("FILE",),
        ModelError: ("MODEL",),
        ContextFullError: ("CONTEXT_FULL",),
        CanceledError: ("CANCELED",),
        ChatError: ("CHAT",),
    }
    return {
        getattr(lib, f"IRON_ERROR_{name}"): kind for kind, names in groups.items() for name in names
    }


_CLASSES = _classes()


def check(status: int) -> None:
    """Raises the exception of a status that is no ``IRON_OK``."""
    if status != lib.IRON_OK:
        message = ffi.string(lib.iron_last_error()).decode(errors="replace")
        raise _CLASSES.get(status, Error)(status, message)

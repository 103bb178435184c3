"""Loads the compiled ops when the first of them is called, and adds what PyTorch needs beside their kernels."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from missdiff_fast.ops import _library

_REGISTRATIONS: list[Callable[[], None]] = []
_LOCK = threading.Lock()
_loaded: bool | None = None  # None until the first call


def when_loaded(register: Callable[[], None]) -> Callable[[], None]:
    """Decorate a function that registers fakes and derivatives: it runs once, after the extension has loaded.

    PyTorch accepts them only for ops that the extension has defined.
    """
    _REGISTRATIONS.append(register)
    return register


def load() -> bool:
    """Load the compiled ops for every device that they were built for, with their fakes and derivatives, once.

    Returns
    -------
    bool
        False where the package was installed without the extension.

    Raises
    ------
    ImportError
        The extension was built but does not load; CUDA kernels that do not load are left to `_library.without_cuda`.

    Examples
    --------
    >>> isinstance(load(), bool)
    True
    """
    global _loaded
    with _LOCK:  # columns are encoded in several threads, and PyTorch refuses a second registration
        if _loaded is None:
            found = _library.load()
            if found:
                for register in _REGISTRATIONS:
                    register()
                with suppress(ImportError):  # `_library.without_cuda` raises it where a CUDA device is asked for
                    _library.load_cuda()
            _loaded = found
        return _loaded


def _is_loaded() -> bool:
    return _loaded or load()


# Dynamo then loads the ops while it traces, and does not trace the loading. The attribute is what
# `torch.compiler.assume_constant_result` sets, which imports Dynamo and so takes a second.
_is_loaded._dynamo_marked_constant = True  # type: ignore[attr-defined]


def op(name: str) -> Any:
    """One compiled op; RuntimeError where the package was installed without them."""
    if not _is_loaded():
        raise RuntimeError(
            f"missdiff_fast was installed without its compiled ops, so {name} cannot run; use backend='reference', or "
            "install again with a C++ compiler at hand"
        )
    return getattr(torch.ops.missdiff_fast, name)

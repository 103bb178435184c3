"""The compiled ops as torch has them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch

from missdiff_fast.ops import _library


@torch.compiler.assume_constant_result  # which lets a graph be compiled before any op has run
def _load() -> bool:
    """Load the extensions and register what torch needs beside their kernels, once."""
    if not _library.load():
        return False
    from missdiff_fast.ops import _registrations

    _registrations.register()
    with suppress(ImportError):  # which `_library.without_cuda` raises where a CUDA device is asked for
        _library.load_cuda()
    return True


def op(name: str) -> Any:
    """The compiled op of this name; RuntimeError where the package was installed without them."""
    if not _load():
        raise RuntimeError(
            f"missdiff_fast was installed without its compiled ops, so {name} cannot run; use backend='reference', or "
            "install again with a C++ compiler at hand"
        )
    return getattr(torch.ops.missdiff_fast, name)

"""What the codec needs of a backend: stated here, so that nothing below the ops imports them."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class CodecOps(Protocol):
    """The part of a backend with which continuous columns are encoded.

    Attributes
    ----------
    name : str
        Of the backend.
    columns_in_threads : bool
        Whether columns are to be encoded in several threads at once: true of ops that compute in the calling thread,
        false of those that share their own work among threads.
    """

    @property
    def name(self) -> str: ...

    @property
    def columns_in_threads(self) -> bool: ...

    def encode(
        self, cells: Tensor, keys: Tensor, ends: Tensor, boundaries: Tensor, count: int, share: Tensor | None = None
    ) -> Tensor:
        """The normal scores of a continuous column's cells; see `missdiff_fast.ops.encode`."""
        ...

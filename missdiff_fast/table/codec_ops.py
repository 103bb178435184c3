"""Interface of a backend for the codec, stated here so that nothing below the ops imports them."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class CodecOps(Protocol):
    """The part of a backend with which continuous columns are encoded."""

    @property
    def columns_in_threads(self) -> bool:
        """Whether `encode` computes in the calling thread, so that several threads can encode a column each."""
        ...

    def encode(
        self, cells: Tensor, keys: Tensor, ends: Tensor, boundaries: Tensor, count: int, share: Tensor | None = None
    ) -> Tensor:
        """The normal scores of a continuous column's cells; see `missdiff_fast.ops.encode`."""
        ...

"""The codec's part of each backend."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from torch import Tensor

from missdiff_fast.ops import reference
from missdiff_fast.table.codec_ops import CodecOps


@dataclass(frozen=True)
class NativeCodecOps:
    """The compiled op, which computes in the calling thread."""

    name: str = "native"
    columns_in_threads: bool = True

    def encode(
        self, cells: Tensor, keys: Tensor, ends: Tensor, boundaries: Tensor, count: int, share: Tensor | None = None
    ) -> Tensor:
        """See `missdiff_fast.ops.encode`."""
        from missdiff_fast import ops

        return ops.encode(cells, keys, ends, boundaries, count, share)


@dataclass(frozen=True)
class ReferenceCodecOps:
    """Plain PyTorch, which shares its own work among threads."""

    name: str = "reference"
    columns_in_threads: bool = False

    def encode(
        self, cells: Tensor, keys: Tensor, ends: Tensor, boundaries: Tensor, count: int, share: Tensor | None = None
    ) -> Tensor:
        """See `missdiff_fast.ops.reference.encode`."""
        return reference.encode(cells, keys, ends, boundaries, count, share)


def codec_ops(backend: ModuleType) -> CodecOps:
    """The codec's part of `missdiff_fast.ops` or `missdiff_fast.ops.reference`."""
    return ReferenceCodecOps() if backend is reference else NativeCodecOps()

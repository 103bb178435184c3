"""A diffusion model trained straight on tables with holes: complete synthetic rows, and the holes filled.

>>> from missdiff_fast import MissDiff
>>> MissDiff().preset
'default'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from missdiff_fast.model import MissDiff

__version__ = "0.1.0"

__all__ = ["MissDiff", "__version__"]


def __getattr__(name: str) -> object:
    # Importing torch takes seconds, and `missdiff --help` must be quick.
    if name == "MissDiff":
        from missdiff_fast.model import MissDiff

        return MissDiff
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

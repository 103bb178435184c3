"""Text for people, whatever characters the stream can hold."""

from __future__ import annotations

import sys
from typing import TextIO


def show(text: str, stream: TextIO | None = None) -> None:
    r"""Print to stdout, or another stream, with ``\xe9`` and the like for characters that its encoding lacks.

    Examples
    --------
    >>> show("done")
    done
    """
    stream = stream or sys.stdout
    try:
        print(text, file=stream)
    except UnicodeEncodeError:
        print(text.encode(stream.encoding, "backslashreplace").decode(stream.encoding), file=stream)

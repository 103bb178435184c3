"""Runs the examples in docstrings as tests, those of the compiled ops only where these are installed."""

from pathlib import Path

from missdiff_fast.ops import _library

_OPS = Path(__file__).parent / "missdiff_fast" / "ops"
collect_ignore = [] if _library.load() else [str(path) for path in _OPS.glob("[a-z]*.py")]

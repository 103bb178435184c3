"""Runs the examples in docstrings as tests, those of the compiled ops only where these are installed."""

import os
from pathlib import Path

# Tests that run in several processes have one thread each, unless it is set: more would wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from missdiff_fast.ops import _library

_PACKAGE = Path(__file__).parent / "missdiff_fast"
_USERS = [*(_PACKAGE / "ops").glob("[a-z]*.py"), _PACKAGE / "_engine" / "cuda_graphs.py"]
collect_ignore = [] if _library.load() else [str(path) for path in _USERS]

"""The examples in docstrings are run as tests, those of the compiled ops where these are installed."""

from missdiff_fast.ops import _library

collect_ignore = [] if _library.load() else ["missdiff_fast/ops/__init__.py"]

"""Frames of other libraries at the edge of the package, whose inside knows pandas alone.

`to_pandas` takes a frame and tells its `Kind`, which gives results back as frames of that kind: with its dtypes, and
the observed cells as they were.
"""

from missdiff_fast._frames.kinds import Frame, Kind, all_to_pandas, to_pandas

__all__ = ["Frame", "Kind", "all_to_pandas", "to_pandas"]

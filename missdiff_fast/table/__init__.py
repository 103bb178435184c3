"""A table in and out of its encoded form."""

from missdiff_fast.table.encoded import MISSING_CODE, EncodedTable, Layout

__all__ = ["MISSING_CODE", "EncodedTable", "Layout"]

"""A table in and out of its encoded form."""

from missdiff_fast.table.categories import cap_categories
from missdiff_fast.table.codec import Codec
from missdiff_fast.table.encoded import MISSING_CODE, EncodedTable, Layout
from missdiff_fast.table.io import read_table, write_table
from missdiff_fast.table.schema import Column, Schema

__all__ = [
    "MISSING_CODE",
    "Codec",
    "Column",
    "EncodedTable",
    "Layout",
    "Schema",
    "cap_categories",
    "read_table",
    "write_table",
]

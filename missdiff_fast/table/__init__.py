"""Reading tables, encoding them for the model and decoding what it gives."""

from missdiff_fast.table.categories import cap_categories
from missdiff_fast.table.codec import Codec
from missdiff_fast.table.codec_ops import CodecOps
from missdiff_fast.table.encoded import MISSING_CODE, EncodedTable, Layout
from missdiff_fast.table.io import read_table, write_table
from missdiff_fast.table.schema import Column, Schema
from missdiff_fast.table.table_cells import TableCells, read_frame

__all__ = [
    "MISSING_CODE",
    "Codec",
    "CodecOps",
    "Column",
    "EncodedTable",
    "Layout",
    "Schema",
    "TableCells",
    "cap_categories",
    "read_frame",
    "read_table",
    "write_table",
]

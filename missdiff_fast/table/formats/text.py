"""Delimited text: CSV and its kin. `missdiff_fast.table.frame_writing` writes it."""

from __future__ import annotations

from missdiff_fast.table.delimited import read_delimited
from missdiff_fast.table.files import DELIMITED
from missdiff_fast.table.formats.base import Format

TEXT = Format("delimited text", tuple(DELIMITED), read_delimited, written_suffixes=tuple(DELIMITED))

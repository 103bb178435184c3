"""The cells of delimited text as pandas parses them, a piece of the rows at a time."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
from pandas.io.parsers import TextFileReader

from missdiff_fast.table.dtypes import Dtype, holds_text, text_dtype
from missdiff_fast.table.schema import Name
from missdiff_fast.table.text_lines import Lines
from missdiff_fast.table.text_rows import Rows

_CELLS = 2**18  # parsed at a time
_AS_TEXTS, _WHOLE = "as texts", "whole"  # how to parse a column again
# Before pandas 3.1 floats are exact only where that is asked for; since then they always are, and asking is deprecated.
_ALWAYS_EXACT = tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1)
_EXACT: Any = None if _ALWAYS_EXACT else "round_trip"
_NEGATIVE_ZERO = re.compile(r"-0+(?![\d.])")


class _Mark(str):
    """The text of a missing cell, for a pandas that takes one that is a number for others too, "7" for "007"."""

    def __float__(self) -> float:
        raise ValueError(f"{self!r} stands for itself alone")

    def __int__(self) -> int:
        raise ValueError(f"{self!r} stands for itself alone")


@cache
def _marks() -> type[str]:
    """What texts of missing cells are to be: pandas 3 takes strings that are numbers for other texts of them."""
    cells = pd.read_csv(StringIO("a\n7\nx\n"), na_values={"a": ["007"]}, keep_default_na=False)["a"]
    return _Mark if cells.hasnans else str


class _Stream:
    """A text in pieces; the parser takes each as it comes, of whatever size."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def read(self, size: int = -1) -> bytes:
        return next((piece for piece in self._pieces if piece), b"")

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces


@dataclass(frozen=True)
class TextParser:
    """Parses the cells of rows.

    Parameters
    ----------
    lines : Lines
        The text.
    rows : Rows
        Its rows; blank ones are skipped.
    names : list
        The columns' names.
    header : bool
        Whether the first row has them.
    separator, decimal : str
        As of `missdiff_fast.table.read_table`.
    missing : mapping
        The texts of missing cells in each column.
    """

    lines: Lines
    rows: Rows
    names: list[str] | list[int]
    header: bool
    separator: str
    decimal: str
    missing: Mapping[Any, list[str]]

    def pieces(self) -> Iterator[str]:
        """The text that is parsed, in pieces of whole rows; a newline ends each row."""
        return (piece.decode() for piece in self.lines.pieces(self.rows.first, self.rows.last))

    def read(self, as_text: Collection[Name] = ()) -> pd.DataFrame:
        """All columns, of the dtypes that pandas finds for all rows at once; some as texts.

        Raises
        ------
        ParserError, EmptyDataError
            If pandas can't read the text as a table.
        """
        parts = list(self._parts(None, as_text))
        if len(parts) == 1:
            return parts[0]
        again: dict[str, list[Name]] = {_AS_TEXTS: [], _WHOLE: []}
        for name in parts[0].columns:
            columns = [part[name] for part in parts]
            dtype = text_dtype() if name in as_text else self._dtype_of_all(columns)
            if isinstance(dtype, str):
                again[dtype].append(name)
            for part, column in zip(parts, columns, strict=True):
                if isinstance(dtype, str):
                    part[name] = 0.0  # it is replaced below
                elif column.dtype != dtype:
                    part[name] = column.astype(dtype)
        frame = pd.concat(parts, ignore_index=True)
        parts.clear()
        if again[_AS_TEXTS]:
            frame[again[_AS_TEXTS]] = self.texts(again[_AS_TEXTS])
        if again[_WHOLE]:
            with self._parse(again[_WHOLE], ()) as reader:
                frame[again[_WHOLE]] = reader.read()
        return frame

    def texts(self, columns: Sequence[Name], missing: Collection[str] | None = None) -> pd.DataFrame:
        """Columns as texts; the texts of their missing cells are those of the parser, or ``missing``."""
        parts = list(self.parts_of_texts(columns, missing))
        return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)

    def parts_of_texts(self, columns: Sequence[Name], missing: Collection[str] | None = None) -> Iterator[pd.DataFrame]:
        """What `texts` gives, in parts of some rows each."""
        return self._parts(columns, columns, missing)

    def _parts(
        self, columns: Sequence[Name] | None, as_text: Collection[Name], missing: Collection[str] | None = None
    ) -> Iterator[pd.DataFrame]:
        step, read = max(1, _CELLS // len(self.names)), 0
        if np.count_nonzero(~self.rows.blank) > step:
            try:
                with self._parse(columns, as_text, missing, step) as reader:
                    for part in reader:
                        read += len(part)
                        yield part
                return
            except pd.errors.ParserError:
                pass  # such as of rows all of which lack their last fields, which pandas takes beside others alone
        with self._parse(columns, as_text, missing) as reader:
            whole = reader.read()
        yield whole.iloc[read:] if read else whole

    def _parse(
        self,
        columns: Sequence[Name] | None,
        as_text: Collection[Name],
        missing: Collection[str] | None = None,
        step: int | None = None,
    ) -> TextFileReader:
        mark = _marks()
        texts: dict[Any, list[str]] = {
            name: list(map(mark, self.missing[name] if missing is None else missing)) for name in self.names
        }
        # None instead of an empty dict, for which pandas 2.2 takes twice the memory.
        dtypes: dict[Any, Any] | None = dict.fromkeys(as_text, text_dtype()) or None
        stream: Any = _Stream(self.lines.pieces(self.rows.first, self.rows.last))
        return pd.read_csv(
            stream,
            sep=self.separator,
            decimal=self.decimal,
            header=0 if self.header else None,
            names=self.names,
            usecols=None if columns is None else list(columns),
            index_col=False,
            skipinitialspace=True,
            keep_default_na=False,
            na_values=texts,
            dtype=dtypes,
            low_memory=False,
            float_precision=_EXACT,
            iterator=True,
            chunksize=step,
        )

    def _dtype_of_all(self, parts: Sequence[pd.Series]) -> Dtype | str:
        """The dtype of a column that was parsed in parts as pandas gives it to the whole; or how to parse it again."""
        kinds = {_kind(part) for part in parts} - {""}
        if "text" in kinds:
            if not any(map(self._is_text, parts)):
                return _WHOLE
            return text_dtype() if kinds == {"text"} else _AS_TEXTS
        dtypes: set[Any] = {part.dtype for part in parts}
        if len(dtypes) == 1 and "object" not in kinds:
            return dtypes.pop()
        if not kinds <= {"int64", "float64"}:
            return _WHOLE
        # A zero of a part of whole numbers has lost its sign.
        zeros = any(part.dtype == np.int64 and bool((part == 0).any()) for part in parts)
        return _WHOLE if zeros and self._has_negative_zero() else np.dtype(np.float64)

    def _is_text(self, part: pd.Series) -> bool:
        """Whether a part of a column has a text that is no number, of whatever size, and no boolean.

        If one part has, the whole is text; else it depends on the order of its cells.
        """
        return _kind(part) == "text" and any(not self._may_be_value(text) for text in part.dropna().unique())

    def _may_be_value(self, text: str) -> bool:
        try:
            float(text.replace(self.decimal, "."))
        except ValueError:
            return text.lower() in ("true", "false")
        return True

    def _has_negative_zero(self) -> bool:
        return any("-0" in piece and _NEGATIVE_ZERO.search(piece) is not None for piece in self.pieces())


def _kind(part: pd.Series) -> str:
    """A column's dtype; "text" for one of strings, "" for one without cells."""
    name = str(part.dtype)
    if not holds_text(part.dtype) and name != "float64":
        return name
    first = first_cell(part)
    if first is None:
        return ""
    return "text" if isinstance(first, str) else name


def first_cell(column: pd.Series) -> object:
    """A column's first cell that is not missing; None where all are."""
    at: Any = column.first_valid_index()
    return None if at is None else column[at]

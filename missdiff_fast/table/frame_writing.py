"""Writing of a frame as delimited text, in any dialect."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import IO

import numpy as np
import pandas as pd

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Do
from missdiff_fast.table.dates import as_text
from missdiff_fast.table.dialect import Dialect
from missdiff_fast.table.dtypes import family_of
from missdiff_fast.table.fields import bare, in_quotes, quoted
from missdiff_fast.table.text_rows import WHITESPACE

ROWS = 16_384  # rows written at a time
PLAIN = Dialect()


def write_delimited(frame: pd.DataFrame, stream: IO[str], dialect: Dialect = PLAIN) -> None:
    r"""Write a frame, without its index, so that reading it gives the same texts.

    Texts that reading would take for missing, such as ``NA``, are in quotes, and so are texts with a line end. Names of
    columns are left out only if the dialect has none and reading would give the same ones.

    Parameters
    ----------
    frame : DataFrame
        The table.
    stream : text stream
        Where to write it, without translation of line ends.
    dialect : Dialect
        How; the encoding is the stream's.

    Examples
    --------
    >>> import sys
    >>> write_delimited(pd.DataFrame({"country": ["NA", "DE", None], "x": [1.5, 2.0, 3.0]}), sys.stdout)
    country,x
    "NA",1.5
    DE,2.0
    ,3.0
    >>> write_delimited(pd.DataFrame({"x": [1.5, None]}), sys.stdout, Dialect(";", ",", hole="NA"))
    x
    1,5
    NA
    """
    frame = as_text(frame)
    separator, end = " " if dialect.separator == WHITESPACE else dialect.separator, dialect.line_end
    columns = [_Column(frame.iloc[:, place], dialect, separator) for place in range(frame.shape[1])]
    names = [str(name) for name in frame.columns]
    if dialect.header or names != [str(number) for number in range(len(names))]:
        told = map(in_quotes, names) if dialect.quoted_names else (quoted(name, separator) for name in names)
        stream.write(line([_one_word(name, dialect) for name in told], separator) + end)
    for start in range(0, len(frame), ROWS):
        cells = [column.fields(start) for column in columns]
        stream.write("".join(line(row, separator) + end for row in zip(*cells, strict=True)))


def line(cells: Collection[str], separator: str) -> str:
    """The line of a row."""
    text = separator.join(cells)
    return text if text or len(cells) > 1 else '""'  # an empty line is no row


class _Column:
    """The fields of a column."""

    def __init__(self, column: pd.Series, dialect: Dialect, separator: str) -> None:
        self._column, self._dialect, self._separator = column, dialect, separator
        self._is_text = is_text(column)
        self._has_times = not self._is_text and _has_times(column)
        self._comma = dialect.decimal == "," and not self._is_text and _is_float(column)
        self._quoted = str(column.name) in dialect.quoted
        self._hole = dialect.hole_of(column.name)

    def fields(self, start: int) -> list[str]:
        """The fields of a piece of the rows."""
        part = self._column.iloc[start : start + ROWS]
        cells = _texts(part, self._separator) if self._is_text else _numbers(part, self._has_times)
        if self._comma:
            cells = [bare(cell.replace(".", ","), self._separator) for cell in cells]
        if self._dialect.separator == WHITESPACE:
            cells = [_one_word(cell, self._dialect) for cell in cells]
        if self._quoted:  # a field with a quote is in quotes already
            cells = [cell if cell.startswith('"') else f'"{cell}"' for cell in cells]
        if self._quoted or self._hole:
            holes = part.isna().tolist()
            cells = [self._hole if hole else cell for cell, hole in zip(cells, holes, strict=True)]
        return cells


def _one_word(field: str, dialect: Dialect) -> str:
    """A field as one that white space separates from others, if it does in the dialect."""
    if dialect.separator != WHITESPACE or field.startswith('"') or (field and field == "".join(field.split())):
        return field
    return in_quotes(field)


def is_text(column: pd.Series) -> bool:
    """Whether the cells of a column are texts, or objects that are written as such."""
    return family_of(_dtype(column)) in ("object", "string", "")


def _is_float(column: pd.Series) -> bool:
    return family_of(_dtype(column)) == "float"


def _dtype(column: pd.Series) -> object:
    dtype = column.dtype
    return dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype


def _has_times(column: pd.Series) -> bool:
    """Whether a column of datetimes has a time of day; pandas tells that of each piece by itself."""
    if not isinstance(column.dtype, np.dtype) or column.dtype.kind != "M":
        return False
    seen = column.dropna()
    return bool((seen != seen.dt.normalize()).any())


def _texts(column: pd.Series, separator: str) -> list[str]:
    known: dict[str, str] = {}
    result = []
    for cell, hole in zip(column.tolist(), column.isna().tolist(), strict=True):
        text = "" if hole else cell if isinstance(cell, str) else str(cell)
        if text not in known:
            known[text] = quoted(text, separator)
        result.append(known[text])
    return result


def _numbers(part: pd.Series, time: bool) -> list[str]:
    if isinstance(part.dtype, np.dtype) and part.dtype.kind in "iub":
        return list(map(str, part.tolist()))
    if part.dtype == np.float64:
        return ["" if number != number else repr(number) for number in part.tolist()]
    text = part.to_csv(index=False, header=False, lineterminator="\n")
    cells = ["" if cell == '""' else cell for cell in text.split("\n")[:-1]]
    return [f"{cell} 00:00:00" if len(cell) == 10 else cell for cell in cells] if time else cells


def warn_of_empty_texts(frame: pd.DataFrame) -> None:
    """Warn of texts without a character: in most formats they are empty cells, which are missing."""
    found: dict[Hashable, int] = {}
    for _, column in frame.items():
        if not is_text(column):
            continue
        blank = [value for value in column.dropna().unique().tolist() if isinstance(value, str) and not value.strip()]
        if blank:
            found[column.name] = int(column.isin(blank).sum())
    if found:
        name, count = next(iter(found.items()))
        more = f", and {len(found) - 1} more columns such texts" if len(found) > 1 else ""
        problem = f"column {name!r} holds {count:,} empty texts{more}, which the file cannot tell from missing cells"
        remedies = Do("write a .parquet or .feather file"), Do("give them a name, such as 'none'")
        warn(DataWarning("empty texts", problem, columns=list(found), remedy=remedies))

"""Tables in files: delimited text, plain or compressed, Parquet and Feather, by the name of the file."""

from __future__ import annotations

import lzma
import math
import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd
import pyarrow as pa

from missdiff_fast.table.atomic import write_atomically
from missdiff_fast.table.cells import Markers
from missdiff_fast.table.delimited import read_delimited
from missdiff_fast.table.dtypes import INSTANTS, NUMBERS, family_of, holds_text, key_dtype, to_keys, unit_of, zone_of
from missdiff_fast.table.fields import WrittenTable
from missdiff_fast.table.files import BINARY, DELIMITED, file_kind, open_text, read_bytes
from missdiff_fast.table.hints import warn_of_texts
from missdiff_fast.table.literals import large_number, with_room
from missdiff_fast.table.sniffing import decode_text
from missdiff_fast.table.text_writing import warn_of_empty_texts, write_delimited


def read_table(
    path: str | os.PathLike[str],
    *,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    missing_values: Sequence[object] = (),
    header: bool = True,
    skip_rows: int = 0,
    skip_lines: Collection[int] = (),
    string_columns: Collection[str] = (),
    keep_na_columns: Collection[str] = (),
    keep_blank_rows: bool = False,
) -> pd.DataFrame:
    r"""Read a table.

    By its name the file is delimited text (``.csv``, ``.tsv``, ``.txt``, ``.psv``, ``.data``, each also with ``.gz``,
    ``.bz2``, ``.xz``, ``.zip`` or ``.zst`` after it), Parquet (``.parquet``) or Feather (``.feather``, ``.arrow``).

    In text, empty cells and ``NA``, ``NaN``, ``nan``, ``NULL``, ``null``, ``<NA>``, ``N/A``, ``n/a``, ``#N/A`` are
    missing; the word ``None`` is not. In a column of text such a word is a text if it stands in quotes and the file has
    quotes only as needed, as `write_table` writes it. White space around separators is removed. Rows of empty cells at
    the end of the file, and columns that have neither a name nor a cell, are dropped with a warning; empty lines are no
    rows, except in a table of a single column, where they are missing cells unless they end the file. Columns of ISO
    8601 dates or times, all or none with a zone (``2024-02-29``, ``2024-02-29 13:30:00``,
    ``2024-02-29T13:30:00.5+01:00``), and of durations as pandas writes them (``3 days 12:00:00``) are read as such;
    times of several offsets from UTC are in UTC. `write_table` writes such dates in the form that they were read in.
    Identifiers with leading zeros are strings. Thousands separators are not recognised: a column with them is strings.
    Whole numbers with missing cells are float64, or where that would round them Int64 or UInt64; those beyond 64 bits
    are strings.
    Warnings report a header that looks like data, data that looks like a header, such as a line of units, numbers with
    leading zeros, texts that turn a column of numbers or dates into text (possible markers of missing cells, notes such
    as ``3.2*``, codes; of limits such as ``<0.1``, which stay texts, `missdiff_fast.MissDiff.fit` warns), and words
    such as ``NA`` that may be texts: beside empty cells, in quotes, or where all texts of the column are alike, as
    codes of countries.

    An index that was stored in Parquet or Feather is read as columns, before the others; one without a name that
    counts the rows is left out.

    Parameters
    ----------
    path : str or path
        The file.
    separator : str, optional
        Of text: one character of ASCII, or ``"\s+"`` for white space. Found among comma, semicolon, tab and bar by
        default.
    decimal : str, optional
        Of text: ``"."`` or ``","``. By default a comma only where the separator is another and numbers show it.
    encoding : str, optional
        Of text. By default UTF-8 or UTF-16 with a byte-order mark, UTF-8, else Windows-1252. A warning tells of single
        bytes that are not UTF-8, which are read as Windows-1252, and of text that looks like neither.
    missing_values : sequence of str or number
        Further values that stand for a missing cell: strings among the cells as written and among the dates and
        durations that they write (``1900-01-01``), numbers among numbers (among those of ``string_columns`` as ``-9``
        or ``-9.0``).
    header : bool
        Of text: whether the first row names the columns; if not, they are called 0, 1, 2, ...
    skip_rows : int
        Of text: how many lines to leave out at the top.
    skip_lines : collection of int
        Of text: further lines to leave out, such as one of units below the header. The first line of the file is 1.
    string_columns : collection of str
        Columns that hold texts, of which no warning is given; in text files they are left as they are written, although
        every cell may look like a number or a date: codes such as ``007``, and columns that were strings in another
        part of the table. Names that the file lacks are ignored.
    keep_na_columns : collection of str
        Of text: columns in which only empty cells and ``missing_values`` are missing, and ``NA``, ``null`` and the like
        are texts. (Where pandas takes ``keep_default_na=False`` for all columns.)
    keep_blank_rows : bool
        Of text: whether rows of empty cells at the end of the file are rows too, as they are elsewhere.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the kind of file is not known, or the file is empty, damaged, not in the encoding, has a column name twice,
        or has a line with more or fewer fields than the header; no cell is ever dropped or shifted in silence.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size = (Path(folder) / "t.csv").write_text("country,x\nNA,1\nDE,2\n,3\n")
    ...     read_table(f"{folder}/t.csv", keep_na_columns=["country"])["country"].tolist()
    ['NA', 'DE', nan]
    """
    return read_written(
        path,
        separator=separator,
        decimal=decimal,
        encoding=encoding,
        missing_values=missing_values,
        header=header,
        skip_rows=skip_rows,
        skip_lines=skip_lines,
        string_columns=string_columns,
        keep_na_columns=keep_na_columns,
        keep_blank_rows=keep_blank_rows,
    )[0]


def read_written(
    path: str | os.PathLike[str],
    *,
    separator: str | None,
    decimal: str | None,
    encoding: str | None,
    missing_values: Sequence[object],
    header: bool,
    skip_rows: int,
    skip_lines: Collection[int],
    string_columns: Collection[str],
    keep_na_columns: Collection[str],
    keep_blank_rows: bool,
) -> tuple[pd.DataFrame, Callable[[], WrittenTable] | None]:
    """The table of `read_table`, and a function that gives its cells as written; None if the file is no text."""
    path = Path(path)
    base, compression = file_kind(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give a file")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: check the path (the current folder is {Path.cwd()})")
    markers = Markers.of(missing_values)
    try:
        data = None if base in BINARY else read_bytes(path, compression)
        if data is None:
            with open(path, "rb") as stream:  # Arrow opens no name that is not UTF-8
                stored = pd.read_parquet(stream) if base == ".parquet" else pd.read_feather(stream)
    except (pa.ArrowException, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, ValueError) as error:
        raise ValueError(f"{path} is damaged, cut short or not what its name says: {error}") from error
    except OSError as error:
        # gzip, bz2 and Arrow report damage by an OSError without a number; those with one are the system's.
        if error.errno is None:
            raise ValueError(f"{path} is damaged, cut short or not what its name says: {error}") from error
        raise
    if data is None:
        frame = _mark(_with_index(stored, path.name), markers)
        warn_of_texts(frame.drop(columns=[name for name in frame.columns if str(name) in string_columns]), path.name)
        return frame, None
    frame, write = read_delimited(
        decode_text(data, encoding, path.name),
        path.name,
        separator={".tsv": "\t", ".psv": "|"}.get(base) if separator is None else separator,
        decimal=decimal,
        markers=markers.strings,
        header=header,
        skip_rows=skip_rows,
        skip_lines=skip_lines,
        string_columns=set(string_columns),
        keep_na_columns=set(keep_na_columns),
        keep_blank_rows=keep_blank_rows,
    )
    # Markers that are large numbers also count as numbers, because the parser is not given them.
    large = tuple(large_number(text) for text in markers.strings)
    markers = Markers(markers.strings, (*markers.numbers, *(number for number in large if number is not None)))
    return _mark(frame, markers, string_columns), write


def write_table(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a table, without its index, to a file of one of the kinds that `read_table` reads.

    The file appears whole or not at all: what was there before stays until the new one is complete.

    Parameters
    ----------
    frame : DataFrame
        The table. In text, missing cells are empty and dates are written as ISO 8601: those of a frame that
        `read_table` read from text in the form that they had there, with its zone and precision. Texts such as ``NA``
        are in quotes, so that `read_table` does not take them for missing; empty texts are warned of, for it does.
    path : str or path
        The file; its name tells the kind.

    Raises
    ------
    ValueError
        If the kind of file is not known, or can't hold the table.
    OSError
        If the file can't be written.
    """
    path = Path(path)
    if file_kind(path)[0] in DELIMITED:
        warn_of_empty_texts(frame)
    write_any(frame, path)


def write_any(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as `write_table` does, but without warnings."""
    base, _ = file_kind(path)
    if base in DELIMITED:
        write_text(path, lambda stream: write_delimited(frame, stream, DELIMITED[base]))
        return
    with write_atomically(path) as temporary:
        plain = frame.reset_index(drop=True).rename(columns=str)
        try:
            # pandas passes the name of a "wb" file to Arrow, which opens UTF-8 names only.
            with open(temporary, "w+b") as file:
                if base == ".parquet":
                    plain.to_parquet(file, index=False)
                else:
                    plain.to_feather(file)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise ValueError(
                f"a {base} file can't hold this table ({error}): convert the column, or write CSV"
            ) from error


def write_text(path: Path, write: Callable[[IO[str]], None]) -> None:
    """Let a function write a delimited file, compressed as its name tells; the file appears whole or not at all."""
    _, compression = file_kind(path)
    with (
        write_atomically(path) as temporary,
        open_text(temporary, compression, path.name.removesuffix(compression)) as stream,
    ):
        write(stream)


def _plain_forms(number: int | float) -> list[str]:
    """The spellings of a number in columns left as text: -9 and -9.0, but not -09."""
    if math.isfinite(number) and number == int(number):
        return [f"{int(number)}", f"{int(number)}.0"]
    return [repr(float(number))]


def _with_index(frame: pd.DataFrame, file: str) -> pd.DataFrame:
    """The frame with its index as columns; an index that only numbers the rows is dropped."""
    index = frame.index
    if isinstance(index, pd.RangeIndex) and index.name is None:
        return frame.reset_index(drop=True)
    bare = ["index"] if index.nlevels == 1 else [f"level_{level}" for level in range(index.nlevels)]
    names = [other if name is None else name for name, other in zip(index.names, bare, strict=True)]
    for name in names:
        if name in frame.columns or names.count(name) > 1:
            raise ValueError(f"{file}: the index is called {name!r}, and so is a column: name one of them anew")
    unnamed = [name for name in names if name not in index.names]
    if unnamed:
        warnings.warn(
            f"{file}: the index has no name and is taken for a column, {unnamed[0]!r}; where it only numbers the rows, "
            "write the file without it (index=False)",
            UserWarning,
            stacklevel=4,
        )
    return frame.reset_index(names=names)


def _marked_instants(column: pd.Series, markers: Markers) -> np.ndarray:
    """Which cells are dates, times or durations that markers write."""
    family, none = family_of(column.dtype), np.zeros(len(column), dtype=bool)
    if family == "object" and pd.api.types.infer_dtype(column, skipna=True) == "date":
        family = "date"
    if family not in INSTANTS or not markers.strings:
        return none
    unit = unit_of(column.dtype, family)
    try:
        keys = to_keys(column, family, unit=unit)
    except (OverflowError, ValueError):  # dates out of reach, which fit refuses
        return none
    return markers.match(keys, family, unit, zone_of(column.dtype)) & column.notna().to_numpy(dtype=bool)


def _mark(frame: pd.DataFrame, markers: Markers, string_columns: Collection[str] = ()) -> pd.DataFrame:
    """The frame with the user's missing values made missing."""
    written = [form for number in markers.numbers for form in _plain_forms(number)]
    for name in frame.columns if markers.strings or markers.numbers else ():
        column = frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            gone = [value for value in column.cat.categories if value in (markers.strings + markers.numbers)]
            gone.extend(column.cat.categories[_marked_instants(column.cat.categories.to_series(), markers)])
            frame[name] = column.cat.remove_categories(gone)
            continue
        instants = _marked_instants(column, markers)
        if instants.any():
            frame[name] = column.mask(instants)
            continue
        family = family_of(column.dtype)
        values: list[object] | np.ndarray
        if family in NUMBERS:
            values = markers.within(key_dtype(column.dtype, family))
        elif holds_text(column.dtype):
            values = [*markers.strings, *(written if str(name) in string_columns else ())]
        else:
            values = []
        hit = column.isin(values) if len(values) else None
        if hit is not None and hit.any():
            frame[name] = with_room(column).mask(hit)
    return frame

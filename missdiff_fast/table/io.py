"""Tables in files of many formats, by the name of the file, in streams and in databases."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import IO

import pandas as pd

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Do
from missdiff_fast.table.atomic import write_atomically
from missdiff_fast.table.cells import Markers
from missdiff_fast.table.dates import with_forms
from missdiff_fast.table.dialect import Dialect
from missdiff_fast.table.files import UTF_8, Encoding, open_text
from missdiff_fast.table.formats import TEXT, check_options, file_kind, find_source, writable
from missdiff_fast.table.frame_writing import PLAIN, warn_of_empty_texts, write_delimited
from missdiff_fast.table.hints import warn_of_texts
from missdiff_fast.table.literals import large_number
from missdiff_fast.table.marks import mark_missing, warn_of_idle_marks
from missdiff_fast.table.objects import TIME_OF_DAY, times_of_day, without_mixed
from missdiff_fast.table.sources import Reading, ReadOptions

_UNMARKED = (".parquet", ".feather", ".arrow", ".sav", ".zsav", ".dta", ".sas7bdat", ".xpt")
"""Kinds of which the reader removes no missing values of the user."""


def read_table(
    path: str | os.PathLike[str] | IO[bytes],
    *,
    format: str | None = None,
    sheet: str | None = None,
    query: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    missing_values: Sequence[object] = (),
    header: bool | None = None,
    skip_rows: int = 0,
    skip_lines: Collection[int] | None = None,
    string_columns: Collection[str] = (),
    keep_na_columns: Collection[str] = (),
    keep_blank_rows: bool = False,
    date_order: str | None = None,
) -> pd.DataFrame:
    r"""Read a table.

    By its name the file is delimited text (``.csv``, ``.tsv``, ``.tab``, ``.txt``, ``.psv``, ``.data``, each also with
    ``.gz``, ``.bz2``, ``.xz``, ``.zip`` or ``.zst`` after it), Parquet (``.parquet``), Feather (``.feather``,
    ``.arrow``), Excel (``.xlsx``, ``.xlsm``), SAS (``.sas7bdat``, ``.xpt``), SPSS (``.sav``, ``.zsav``), Stata
    (``.dta``), SQLite or DuckDB (``.db``, ``.sqlite``, ``.sqlite3``, ``.duckdb``, ``.ddb``). Excel, SAS, SPSS, Stata
    and databases except SQLite need packages: ``pip install 'missdiff_fast[files]'``.

    In text, empty cells and ``NA``, ``NaN``, ``nan``, ``NULL``, ``null``, ``<NA>``, ``N/A``, ``n/a``, ``#N/A`` are
    missing; the word ``None`` is not. In a column of text such a word is a text if it stands in quotes and the file has
    quotes only as needed, as `write_table` writes it. White space around separators is removed. Rows of empty cells at
    the end of the file, and columns that have neither a name nor a cell, are dropped with a warning; empty lines are no
    rows, except in a table of a single column, where they are missing cells unless they end the file. Columns of ISO
    8601 dates or times, all or none with a zone (``2024-02-29``, ``2024-02-29 13:30:00``,
    ``2024-02-29T13:30:00.5+01:00``), and of durations as pandas writes them (``3 days 12:00:00``) are read as such;
    times of several offsets from UTC are in UTC. So are columns of dates such as ``29.02.2024`` (the day first),
    ``29/02/2024`` or ``29-02-2024`` (in the order that a day after the 12th tells, here or in another column written
    alike; else they stay texts, with a warning), ``2024/02/29``, ``29-Feb-2024``, ``29FEB2024``,
    ``29 February 2024`` and ``29. Februar 2024`` (English and German names of months), each with a time or
    without, and of times of day such as ``14:05``, which are durations since midnight. `write_table` writes dates and
    times in the form that they were read in. Dates with years of two digits stay texts, with a warning.
    Texts that usually mark a missing cell, such as ``?``, ``-``, ``.`` or ``unknown``, are missing in a column whose
    other cells are all numbers, dates or times; a warning tells it.
    Identifiers with leading zeros are strings. Thousands separators are not recognised: a column with them is strings.
    Whole numbers with missing cells are float64, or where that would round them Int64 or UInt64; those beyond 64 bits
    are strings.
    Warnings report a header that looks like data, data that looks like a header, such as a line of units, numbers with
    leading zeros, texts that turn a column of numbers or dates into text (possible markers of missing cells, notes such
    as ``3.2*``, codes; of limits such as ``<0.1``, which stay texts, `missdiff_fast.MissDiff.fit` warns), and words
    such as ``NA`` that may be texts: beside empty cells, in quotes, or where all texts of the column are alike, as
    codes of countries.

    In Excel a text is a text, whatever it looks like, a date is a date, and the words above are missing unless they
    stand behind an apostrophe. A column of numbers beside texts is one of texts. Formulas count by the results that
    Excel has stored.

    From SAS, SPSS and Stata codes are read as they are; a column whose observed values all have value labels is a
    category of its codes. Labels are left out. User-defined missing values and empty texts are missing, and columns
    whose numbers are all whole are integers.

    Decimal numbers of databases and of Parquet are float64 where that holds all their digits. Times of day are Python's
    `datetime.time` objects, which a fit learns as numbers; those of delimited text are durations since midnight.

    An index that was stored in Parquet or Feather is read as columns, before the others; one without a name that
    counts the rows is left out.

    Parameters
    ----------
    path : str, path or binary stream
        The file, a stream of the bytes of one, or the URL of a database, such as ``"sqlite:///stays.db"``.
    format : str, optional
        The kind of file as a suffix without its point, such as ``"csv"``, where the name does not tell it; of a stream
        CSV by default.
    sheet : str, optional
        The sheet of an Excel file that has several.
    query : str, optional
        What to read from a database: one SELECT statement. Nothing is written to the database.
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
    header : bool, optional
        Of text: whether the first row names the columns; if not, they are called 0, 1, 2, ... By default it does not
        where it is like the rows below: a number in every column of numbers, and known texts in the others. A warning
        tells it.
    skip_rows : int
        Of text: how many lines to leave out at the top.
    skip_lines : collection of int, optional
        Of text: further lines to leave out. The first line of the file is 1. By default up to three lines below the
        header that hold units, types or labels: texts in more than a quarter of the columns, which hold numbers
        otherwise. A warning tells them; ``()`` leaves out none.
    string_columns : collection of str
        Columns that hold texts, of which no warning is given; in text files they are left as they are written, although
        every cell may look like a number or a date: codes such as ``007``, and columns that were strings in another
        part of the table. Names that the file lacks are ignored.
    keep_na_columns : collection of str
        Of text: columns in which only empty cells and ``missing_values`` are missing, and ``NA``, ``null`` and the like
        are texts. (Where pandas takes ``keep_default_na=False`` for all columns.)
    keep_blank_rows : bool
        Of text: whether rows of empty cells at the end of the file are rows too, as they are elsewhere.
    date_order : {"day", "month"}, optional
        Of text: what stands first in dates such as ``01/02/2024`` in a column of which no cell tells it.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the kind of file is not known, or the file is empty, damaged, not in the encoding, has a column name twice,
        or more than one in a hundred lines have more or fewer fields than the header (a warning tells of fewer, which
        are left out); no cell is ever dropped or shifted in silence. If
        ``sheet`` or ``query`` is left out where it is needed, given where it is not, or wrong.
    ImportError
        If the package for the format is not installed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size = (Path(folder) / "t.csv").write_text("country,x\nNA,1\nDE,2\n,3\n")
    ...     read_table(f"{folder}/t.csv", keep_na_columns=["country"])["country"].tolist()
    ['NA', 'DE', nan]
    """
    options = ReadOptions(
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
        date_order=date_order,
        sheet=sheet,
        query=query,
    )
    return read_written(path, options, format)[0]


def read_written(path: str | os.PathLike[str] | IO[bytes], options: ReadOptions, format: str | None = None) -> Reading:
    """The table of `read_table`, and a function that gives its cells as written, or what else the file holds."""
    source = find_source(path, format)
    kind, markers = check_options(source, options), options.markers
    frame, written = kind.read(source, options)
    if markers.strings or markers.numbers:
        file = written() if kind is TEXT and callable(written) else None
        if file is not None or source.suffix in _UNMARKED:
            quiet, as_text = options.quiet_marks, options.string_columns
            warn_of_idle_marks(frame, markers, source.name, file=file, quiet=quiet, string_columns=as_text)
    if kind is not TEXT:
        frame = mark_missing(frame, markers, options.string_columns)
        unnamed = [name for name in frame.columns if str(name) not in options.string_columns]
        warn_of_texts(frame[unnamed], source.name)
        return with_forms(frame, dict.fromkeys(times_of_day(frame), TIME_OF_DAY)), written
    # Markers that are large numbers also count as numbers, because the parser is not given them.
    large = tuple(large_number(text) for text in markers.strings)
    markers = Markers(markers.strings, (*markers.numbers, *(number for number in large if number is not None)))
    return mark_missing(frame, markers, options.string_columns), written


def write_table(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a table, without its index, to a file of one of the kinds that `read_table` reads.

    These are delimited text, Parquet, Feather, Excel (``.xlsx``), SPSS (``.sav``, ``.zsav``), Stata (``.dta``) and SAS
    (``.xpt``), by the file's name.

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
        If the kind of file is not known or only read, or can't hold a column as it is.
    ImportError
        If the package for the format is not installed.
    OSError
        If the file can't be written.
    """
    path = Path(path)
    if not writable(path)[0].holds_empty_texts:
        warn_of_empty_texts(frame)
    write_any(frame, path)


def write_any(frame: pd.DataFrame, path: Path, dialect: Dialect = PLAIN) -> None:
    """Write a table as `write_table` does, but without warnings; text in a dialect."""
    kind, suffix = writable(path)
    if kind.write is None:
        write_text(path, lambda stream: write_delimited(frame, stream, dialect.to(suffix)), dialect.encoding)
        return
    frame = frame.reset_index(drop=True).rename(columns=str)
    with write_atomically(path) as temporary:
        kind.write(frame if kind.holds_mixed else without_mixed(frame), temporary)


def write_text(path: Path, write: Callable[[IO[str]], None], encoding: Encoding = UTF_8) -> None:
    """Let a function write a delimited file, compressed as its name tells; the file appears whole or not at all.

    If the encoding lacks a character, the file is UTF-8, and a warning tells it; the function is called again for that.
    """
    _, compression = file_kind(path)
    try:
        with (
            write_atomically(path) as temporary,
            open_text(temporary, compression, path.name.removesuffix(compression), encoding.name) as stream,
        ):
            stream.write("\ufeff" * encoding.mark)
            write(stream)
    except UnicodeEncodeError as error:
        if encoding.name == "utf-8":
            raise
        warn_of_encoding(error, encoding, path.name)
        write_text(path, write)


def warn_of_encoding(error: UnicodeEncodeError, encoding: Encoding, target: str) -> None:
    """Warn that a file is UTF-8, because the encoding that it was to have lacks a character."""
    lacking = error.object[error.start]
    problem = f"{target} is UTF-8: {encoding.name} lacks {lacking!r} of the table"
    warn(DataWarning("encoding", problem, value=lacking, remedy=Do("read it as UTF-8"), joint="; "))

"""How a delimited file is written: what a model notes of the file it was fitted to, so that drawn rows can go there.

The dialect of a frame travels in ``frame.attrs`` as JSON, which every format of files can store.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any

import pandas as pd

from missdiff_fast.table.fields import MISSING_TEXTS, WrittenTable, content, is_quoted
from missdiff_fast.table.files import PLAIN_KINDS, UTF_8, Encoding, fixed_separator
from missdiff_fast.table.text_rows import WHITESPACE

_CELLS = 200_000  # looked at, of as many of the first rows
_LEAST_ROWS = 100
_DIALECT = "missdiff_fast.dialect"
_ENDS = {"\n": "LF", "\r\n": "CR LF", "\r": "CR"}


@dataclass(frozen=True)
class Dialect:
    r"""How a delimited file is written.

    Parameters
    ----------
    separator, decimal : str
        As of `missdiff_fast.table.read_table`.
    line_end : str
        ``"\n"``, ``"\r\n"`` or ``"\r"``.
    encoding : Encoding
        Its encoding.
    header : bool
        Whether the first line names the columns.
    suffix : str
        Of the file's kind: one such as ``.tsv`` has one separator only.
    quoted : tuple of str
        Columns all of whose cells are in quotes; in others they are where needed.
    quoted_names : bool
        Whether all names of columns are in quotes.
    missing : mapping
        The field of a missing cell, by column: the one written most.
    hole : str
        The field of a missing cell of other columns.

    Examples
    --------
    >>> german = Dialect(";", ",", "\r\n", Encoding("cp1252"))
    >>> print(german)
    separator ';', decimal ',', line ends CR LF, cp1252
    >>> german.to(".tsv").separator, Dialect.from_state(german.state()) == german
    ('\t', True)
    """

    separator: str = ","
    decimal: str = "."
    line_end: str = "\n"
    encoding: Encoding = UTF_8
    header: bool = True
    suffix: str = ".csv"
    quoted: tuple[str, ...] = ()
    quoted_names: bool = False
    missing: Mapping[str, str] = field(default_factory=dict)
    hole: str = ""

    @classmethod
    def of(cls, frame: pd.DataFrame, written: WrittenTable, suffix: str = ".csv") -> Dialect:
        """The dialect of the file that a frame was read from; quotes and missing cells are those of its first rows.

        Parameters
        ----------
        frame : DataFrame
            The table as read, markers of missing cells among its missing cells.
        written : WrittenTable
            Its cells as the file has them.
        suffix : str
            That of the file's kind.
        """
        most = max(_LEAST_ROWS, _CELLS // max(written.width, 1))
        columns = list(zip(*islice(written.rows(), most), strict=True))
        quoted, missing = list[str](), dict[str, str]()
        for name, fields, (_, cells) in zip(frame.columns, columns, frame.iloc[:most].items(), strict=False):
            counts = Counter(zip(fields, cells.isna().tolist(), strict=True))
            quotes = {is_quoted(one) for one, is_hole in counts if not is_hole}
            if quotes == {True}:
                quoted.append(str(name))
            holes = Counter[str]()
            for (one, is_hole), count in counts.items():
                if is_hole:
                    holes[one.strip()] += count
            if holes:
                missing[str(name)] = holes.most_common(1)[0][0]
            elif any(one.strip() in MISSING_TEXTS for one, _ in counts):
                missing[str(name)] = ""  # where NA is a code, it is no hole
        # A mark such as -999, which the user named, may be a value in another column.
        known = Counter(text for text in missing.values() if content(text).strip() in MISSING_TEXTS)
        hole = known.most_common(1)[0][0] if known else ""
        names = written.names()
        return cls(
            written.separator,
            written.decimal,
            written.line_end,
            written.encoding,
            names is not None,
            suffix,
            tuple(quoted),
            bool(names) and all(map(is_quoted, names or ())),
            {name: text for name, text in missing.items() if text != hole},
            hole,
        )

    def to(self, suffix: str) -> Dialect:
        """The dialect of a file of another kind."""
        return replace(self, separator=separator_of(suffix, self.suffix, self.separator, self.decimal), suffix=suffix)

    def hole_of(self, name: Hashable) -> str:
        """The field of a missing cell of a column; it is never empty where white space separates."""
        text = self.missing.get(str(name), self.hole)
        return text or ("NA" if self.separator == WHITESPACE else "")

    def state(self) -> dict[str, Any]:
        """The dialect for JSON."""
        return asdict(self) | {"encoding": self.encoding.name, "mark": self.encoding.mark, "quoted": list(self.quoted)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Dialect:
        """What `state` gave."""
        parts = dict(state)
        encoding = Encoding(str(parts.pop("encoding")), bool(parts.pop("mark")))
        return cls(**parts | {"encoding": encoding, "quoted": tuple(parts["quoted"])})

    def __str__(self) -> str:
        separator = "white space" if self.separator == WHITESPACE else repr(self.separator)
        told = [f"separator {separator}", f"decimal {self.decimal!r}", f"line ends {_ENDS[self.line_end]}"]
        told.append(self.encoding.name + (" with a byte-order mark" if self.encoding.mark else ""))
        if not self.header:
            told.append("no header")
        if self.quoted:
            more = f" and {len(self.quoted) - 3} more" if len(self.quoted) > 3 else ""
            told.append(f"quotes around {', '.join(map(repr, self.quoted[:3]))}{more}")
        holes = sorted({self.hole, *self.missing.values()} - {""})
        if holes:
            told.append(f"{' or '.join(map(repr, holes))} where missing")
        return ", ".join(told)


def separator_of(target: str, kind: str, separator: str, decimal: str) -> str:
    r"""The separator for a kind of file: that of the file that was read, if both kinds may have any.

    Parameters
    ----------
    target, kind : str
        The suffixes of the file to write, and of the one that was read.
    separator, decimal : str
        Those of the file that was read.

    Examples
    --------
    >>> separator_of(".txt", ".csv", ";", ","), separator_of(".tsv", ".csv", ";", ","), separator_of(
    ...     ".csv", ".tsv", "\t", ","
    ... )
    (';', '\t', ';')
    """
    if (only := fixed_separator(target)) is not None:
        return only
    if kind in PLAIN_KINDS:
        return separator
    return ";" if decimal == "," else ","


def dialect_of(frame: object) -> Dialect | None:
    """The dialect that is noted in a frame; None if there is none.

    >>> dialect_of(with_dialect(pd.DataFrame({"x": [1]}), Dialect(";"))).separator, dialect_of(pd.DataFrame())
    (';', None)
    """
    found = frame.attrs.get(_DIALECT) if isinstance(frame, pd.DataFrame) else None
    return Dialect.from_state(json.loads(found)) if isinstance(found, str) else None


def with_dialect(frame: pd.DataFrame, dialect: Dialect) -> pd.DataFrame:
    """The frame with the dialect of its file noted; the frame itself is changed."""
    frame.attrs[_DIALECT] = json.dumps(dialect.state())
    return frame

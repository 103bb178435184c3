"""Detection of the encoding, the separator and the decimal mark of delimited text."""

from __future__ import annotations

import csv
import itertools
import re

from missdiff_fast.errors import DataError, argument_error
from missdiff_fast.remedies import Give

SEPARATORS = (",", ";", "\t", "|")
_SAMPLE = 200  # rows looked at to find the separator; ten times as many lines for the decimal mark


def decode_text(data: bytes, encoding: str | None, source: str) -> str:
    """Bytes as text: by the encoding given, else by a byte-order mark, else UTF-8, else Windows-1252, else Latin-1.

    Raises
    ------
    ValueError
        If the encoding is not known or does not fit, or the bytes are no text.
    """
    if encoding is not None:
        candidates = [encoding]
    elif data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        candidates = ["utf-16"]
    else:
        candidates = ["utf-8-sig", "cp1252", "latin-1"]
    for candidate in candidates:
        try:
            text = data.decode(candidate)
        except LookupError as error:
            rule = f"{candidate!r} is not known: give a name such as 'utf-8' or 'latin-1'"
            raise argument_error("encoding", rule, candidate) from error
        except UnicodeDecodeError as error:
            if candidate == candidates[-1]:
                problem = f"{source} is not {candidate} text ({error})"
                raise DataError("encoding", problem, value=candidate, remedy=Give("encoding")) from error
            continue
        if "\0" in text:
            problem = f"{source} holds NUL characters, so it is no text in {candidate}"
            raise DataError("encoding", problem, value=candidate, remedy=Give("encoding", when="if it is text"))
        return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    raise AssertionError("a candidate decodes or raises")


def find_separator(lines: list[str]) -> str:
    """The candidate that splits the first rows into the most fields, all rows alike; else the commonest in the header.

    >>> find_separator(["a;b;c", "1,5;2;3"])
    ';'
    """
    sample = list(itertools.islice((line for line in lines if line.strip()), _SAMPLE))
    best, most = "", 1
    for candidate in SEPARATORS:
        try:
            counts = [len(row) for row in csv.reader(sample, delimiter=candidate, skipinitialspace=True)]
        except csv.Error:  # an unclosed quote makes a field too long
            continue
        body = counts[1:] or counts
        if len(set(body)) == 1 and counts[0] > 1 and abs(body[0] - counts[0]) <= 1 and counts[0] > most:
            best, most = candidate, counts[0]
    return best or max(SEPARATORS, key=sample[0].count)


_COMMA = re.compile(r"(?<![^;\t|\n\"])\s*[+-]?(\d+),(\d+)\s*(?![^;\t|\n\"])")
_POINT = re.compile(r"(?<![^;\t|\n\"])\s*[+-]?\d+\.\d+\s*(?![^;\t|\n\"])")


def find_decimal(lines: list[str], separator: str) -> str:
    """The decimal mark: a comma if some number has one that cannot separate thousands and the separator is another.

    >>> find_decimal(["a;b", "1,5;2"], ";"), find_decimal(["a;b", "1,500;2"], ";")
    (',', '.')
    """
    if separator == ",":
        return "."
    sample = "\n".join(lines[: 10 * _SAMPLE])
    sure = any(len(m[2]) != 3 or len(m[1]) > 3 or m[1].startswith("0") for m in _COMMA.finditer(sample))
    return "," if sure and not _POINT.search(sample) else "."

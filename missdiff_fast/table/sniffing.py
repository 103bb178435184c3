"""Detection of the encoding, the separator and the decimal mark of delimited text."""

from __future__ import annotations

import codecs
import csv
import itertools
import re
from collections.abc import Iterable

from missdiff_fast.errors import DataError, DataWarning, argument_error, warn
from missdiff_fast.remedies import Do, Give, Pass
from missdiff_fast.table.files import Encoding
from missdiff_fast.table.text_lines import Lines
from missdiff_fast.table.text_rows import WHITESPACE

SEPARATORS = (",", ";", "\t", "|")
_TELLS_SEPARATOR = re.compile(r"sep=([,;\t|])\s*", re.IGNORECASE)  # the first line of files for Excel
_PIECE = 2**20  # bytes decoded at a time, to see whether they are UTF-8
_SAMPLE = 200  # rows looked at to find the separator; ten times as many lines for the decimal mark


def decode_text(data: bytes, encoding: str | None, source: str) -> tuple[str, Encoding]:
    """Bytes as text, and their encoding: the one given, else by a byte-order mark, else UTF-8, Windows-1252 or Latin-1.

    Warns of bytes that are not UTF-8 where the others are, and of text that does not look as if it were Windows-1252.

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
                problem = f"{source} is not {candidate} text ({error}{_line_of(data, error)})"
                raise DataError("encoding", problem, value=candidate, remedy=Give("encoding")) from error
            if candidate != "utf-8-sig" or (nearly := _decode_nearly_utf_8(data, source)) is None:
                continue
            text = nearly
        if "\0" in text:
            problem = f"{source} holds NUL characters, so it is no text in {candidate}"
            raise DataError("encoding", problem, value=candidate, remedy=Give("encoding", when="if it is text"))
        if len(candidates) > 1 and candidate != candidates[0]:
            _warn_of_guess(data, candidate, source)
        return text.removeprefix("\ufeff"), _encoding_of(data, candidate, text)
    raise AssertionError("a candidate decodes or raises")


def _encoding_of(data: bytes, name: str, text: str) -> Encoding:
    """The encoding in which the same text gives bytes like these."""
    name = codecs.lookup(name).name
    if name == "utf-16":  # as Python decodes it without a mark: by the machine
        name = "utf-16-be" if data[:2] == codecs.BOM_UTF16_BE else "utf-16-le"
        return Encoding(name, data[:2] in (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE))
    if name == "utf-8-sig":
        return Encoding("utf-8", data.startswith(codecs.BOM_UTF8))
    return Encoding(name, text.startswith("\ufeff"))


def as_utf_8(data: bytes, encoding: str | None, source: str) -> tuple[bytes, Encoding]:
    r"""Bytes in another encoding as UTF-8, and their encoding; it and its errors are those of `decode_text`.

    >>> as_utf_8("x,\xb5g".encode("cp1252"), None, "t.csv")
    (b'x,\xc2\xb5g', Encoding(name='cp1252', mark=False))
    """
    if encoding is None and b"\0" not in data and _is_utf_8(data):  # as most files: nothing is copied
        plain = data.removeprefix(codecs.BOM_UTF8).removeprefix(codecs.BOM_UTF8)
        return plain, Encoding("utf-8", data.startswith(codecs.BOM_UTF8))
    text, found = decode_text(data, encoding, source)
    return text.encode("utf-8", "surrogatepass"), found


def _is_utf_8(data: bytes) -> bool:
    if data.isascii():
        return True
    decoder, view = codecs.getincrementaldecoder("utf-8")(), memoryview(data)
    try:
        for at in range(0, len(data), _PIECE):
            decoder.decode(view[at : at + _PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


_ESCAPED = re.compile(r"[\udc80-\udcff]")  # how Python escapes a byte that is not UTF-8
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f\udc80-\udcff]")
# Bytes that UTF-8 would have; and runs that in Windows-1252 would be letters with accents alone, which Western
# languages have not, but Cyrillic, Greek, Hebrew and East Asian text has.
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_FOREIGN = re.compile(rb"[\x80-\xff]{4,}")
_UNDEFINED = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")  # in Windows-1252


def _decode_nearly_utf_8(data: bytes, source: str) -> str | None:
    """The text of bytes that are UTF-8 but for a few, which are read as Windows-1252, with a warning; else None."""
    text = data.decode("utf-8-sig", "surrogateescape")
    wrong, right = _ESCAPED.findall(text), sum(1 for _ in _BEYOND_ASCII.finditer(text))
    if right < len(wrong) or not right:
        return None
    at = text.index(wrong[0])
    line = 1 + text.count("\n", 0, at) + text.count("\r", 0, at) - text.count("\r\n", 0, at)
    cell = (re.split(r"[\r\n]", text[max(at - 8, 0) : at])[-1] + re.split(r"[\r\n]", text[at : at + 8])[0]).strip()
    read = _ESCAPED.sub(_as_windows_1252, cell)
    others = f", and {len(wrong) - 1:,} more such bytes" if len(wrong) > 1 else ""
    problem = (
        f"{source}, line {line}: the byte 0x{ord(wrong[0]) - 0xDC00:02x} is not UTF-8, as the other characters beyond "
        f"ASCII are, and was read as Windows-1252, {read!r}{others}"
    )
    remedies = Do("mend the line"), Pass("encoding", "cp1252", when="if all of the file is Windows-1252")
    warning = DataWarning("encoding", problem, value=ord(wrong[0]) - 0xDC00, remedy=remedies, joint="; ")
    warn(warning)
    return _ESCAPED.sub(_as_windows_1252, text)


def _as_windows_1252(escaped: re.Match[str]) -> str:
    byte = bytes([ord(escaped[0]) - 0xDC00])
    try:
        return byte.decode("cp1252")
    except UnicodeDecodeError:
        return byte.decode("latin-1")


def _warn_of_guess(data: bytes, encoding: str, source: str) -> None:
    """Warn where text that was read as Windows-1252 or Latin-1 does not look so."""
    found = _MULTIBYTE.search(data) or _FOREIGN.search(data)
    if encoding == "latin-1":
        found = _UNDEFINED.search(data)
    if found is None:
        return
    at, name = found.start(), {"cp1252": "Windows-1252", "latin-1": "Latin-1"}[encoding]
    read = _around(data, at, encoding)
    problem = f"{source} is not UTF-8 and was read as {name}, which may be wrong: line {_line(data, at)} reads {read!r}"
    warning = DataWarning("encoding", problem, value=encoding, remedy=Give("encoding", when="if it is"), joint="; ")
    warn(warning)


def _line_of(data: bytes, error: UnicodeDecodeError) -> str:
    return f", line {_line(data, error.start)}" if error.object == data else ""


def _line(data: bytes, at: int) -> int:
    """The 1-based number of the line that holds a byte."""
    before = data[:at]
    return 1 + before.count(b"\n") + before.count(b"\r") - before.count(b"\r\n")


def _around(data: bytes, at: int, encoding: str) -> str:
    """The characters about a byte, those of its line alone."""
    before, after = re.split(rb"[\r\n]", data[max(at - 12, 0) : at])[-1], re.split(rb"[\r\n]", data[at : at + 12])[0]
    return (before + after).decode(encoding, "backslashreplace").strip()


def find_marks(lines: Lines, separator: str | None, decimal: str | None) -> tuple[str, str]:
    """The separator and the decimal mark, found where they are not given; the line that tells a separator is changed.

    Raises
    ------
    ValueError
        If one that is given is none.
    """
    if separator is None and (told := _TELLS_SEPARATOR.fullmatch(lines.line(1))):
        separator = told[1]
        lines.blank(1, 1)
    if separator is None:
        separator = find_separator(lines)
    elif separator != WHITESPACE and (len(separator) != 1 or not separator.isascii() or separator in '"\n\r'):
        rule = (
            f"must be one character of ASCII, no quote and no line break, or '{WHITESPACE}' for white space, got "
            f"{separator!r}"
        )
        raise argument_error("separator", rule, separator)
    if decimal is None:
        decimal = find_decimal(lines, separator)
    elif decimal not in (".", ","):
        raise argument_error("decimal", f"must be '.' or ',', got {decimal!r}", decimal)
    return separator, decimal


def find_separator(lines: Iterable[str]) -> str:
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


def find_decimal(lines: Iterable[str], separator: str) -> str:
    """The decimal mark: a comma if some number has one that cannot separate thousands and the separator is another.

    >>> find_decimal(["a;b", "1,5;2"], ";"), find_decimal(["a;b", "1,500;2"], ";")
    (',', '.')
    """
    if separator == ",":
        return "."
    sample = "\n".join(itertools.islice(lines, 10 * _SAMPLE))
    sure = any(len(m[2]) != 3 or len(m[1]) > 3 or m[1].startswith("0") for m in _COMMA.finditer(sample))
    return "," if sure and not _POINT.search(sample) else "."

"""ARFF, the text format of Weka: a list of attributes, and rows in which ``?`` is missing. It is read, not written."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

from missdiff_fast.errors import DataError
from missdiff_fast.remedies import Do
from missdiff_fast.table.delimited import read_delimited
from missdiff_fast.table.formats.base import Format
from missdiff_fast.table.literals import whole_numbers
from missdiff_fast.table.sniffing import decode_text
from missdiff_fast.table.sources import Reading, ReadOptions, Source, refuse_twice

_NAME = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s'"]\S*?"""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_NAME})\s*(\{{.*\}}|(?<=\s)\S.*)", re.IGNORECASE)
_FIELD = re.compile(r"""(?:^|,)(\s*'(?:[^'\\]|\\.)*'\s*|\s*"(?:[^"\\]|\\.)*"\s*|[^,]*)(?=,|$)""")
_ESCAPED = re.compile(r"\\(.)")


def _read(source: Source, options: ReadOptions) -> Reading:
    lines = decode_text(source.content(), options.encoding, source.name)[0].splitlines()
    names, nominal, start = _attributes(lines, source.name)
    body = [(number, line) for number, line in enumerate(lines[start:], start + 1) if line.strip() and line[0] != "%"]
    rows = [names, *(_cells(line, len(names), f"{source.name}, line {number}") for number, line in body)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    changed = replace(
        options,
        separator=",",
        decimal=".",
        encoding="utf-8",
        header=True,
        skip_rows=0,
        skip_lines=(),
        missing_values=[*options.missing_values, "?"],
        string_columns=[*options.string_columns, *nominal],
        keep_na_columns=[*options.keep_na_columns, *nominal],
    )
    frame, _ = read_delimited(Source(source.name, ".csv", data=text.getvalue().encode()), changed)
    return frame.apply(whole_numbers), None


def _attributes(lines: list[str], source: str) -> tuple[list[str], list[str], int]:
    """The columns' names, those of them with a list of categories, and the number of lines above the rows."""
    names, nominal = list[str](), list[str]()
    for number, line in enumerate(lines, 1):
        word = line.strip().partition(" ")[0].lower()
        if word.partition("\t")[0] == "@data":
            if not names:
                break
            refuse_twice(names, source, "among its attributes", Do("give each attribute a name of its own"))
            return names, nominal, number
        if not word.startswith("@attribute"):
            continue
        found = _ATTRIBUTE.fullmatch(line.strip())
        if found is None:
            problem = f"{source}, line {number}: {line.strip()!r} is no attribute with a name and a type"
            raise DataError("file", problem, value=number, remedy=Do("mend the line"))
        names.append(_plain(found[1]))
        if found[2].startswith("{") or found[2].strip().lower() == "string":
            nominal.append(names[-1])
    problem = f"{source} has no {'line @data' if names else 'attributes above a line @data'}"
    raise DataError("file", problem, remedy=Do("save it as ARFF once more, or as CSV"))


def _cells(line: str, width: int, where: str) -> list[str]:
    if line.lstrip().startswith("{"):
        raise DataError("file", f"{where}: sparse rows are not read", remedy=Do("save it as dense ARFF, or as CSV"))
    cells = [_plain(found[1].strip()) for found in _FIELD.finditer(line)]
    if len(cells) != width:
        problem = f"{where}: {len(cells)} fields where the file has {width} attributes"
        raise DataError("fields", problem, remedy=Do("mend the line"))
    return cells


def _plain(text: str) -> str:
    """A name or a cell without the quotes around it."""
    in_quotes = len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]
    return _ESCAPED.sub(r"\1", text[1:-1]) if in_quotes else text


ARFF = Format("ARFF", (".arff",), _read)

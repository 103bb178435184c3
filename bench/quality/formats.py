"""Files as tables: delimited text by the package's reader, and ARFF."""

from __future__ import annotations

import csv
import re
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from missdiff_fast.table import read_table

_ATTRIBUTE = re.compile(r"@attribute\s+('[^']*'|\"[^\"]*\"|\S+)\s+(.*)", re.IGNORECASE)


def read_file(path: Path, **options: Any) -> pd.DataFrame:
    """Read a table by its file's ending; ``options`` are those of `missdiff_fast.table.read_table`, of text alone."""
    if path.suffix == ".arff":
        return read_arff(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what it asks is what the options answer
        return read_table(path, **options)


def read_arff(path: Path) -> pd.DataFrame:
    """Read a dense ARFF file: ``numeric``, ``real`` and ``integer`` attributes are numbers, all others strings.

    Raises
    ------
    ValueError
        No ``@data`` line, or a row of more or fewer cells than attributes.
    """
    lines = [line.strip() for line in path.read_text(encoding="latin-1").splitlines()]
    starts = [number for number, line in enumerate(lines) if line.lower() == "@data"]
    if not starts:
        raise ValueError(f"{path} has no line @data")
    found = [match for line in lines[: starts[0]] if (match := _ATTRIBUTE.match(line))]
    names = [match[1].strip("'\"") for match in found]
    data = [line for line in lines[starts[0] + 1 :] if line and not line.startswith("%")]
    quote = "'" if any("'" in line for line in data) else '"'
    rows = [[cell.strip() for cell in row] for row in csv.reader(data, quotechar=quote, skipinitialspace=True)]
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise ValueError(f"{path}: row {number} has {len(row)} cells where there are {len(names)} attributes")
    frame = pd.DataFrame(rows, columns=names).replace({"?": None, "": None})
    for name, match in zip(names, found, strict=True):
        if match[2].strip().lower() in ("numeric", "real", "integer"):
            frame[name] = pd.to_numeric(frame[name])
    return frame

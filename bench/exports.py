"""Every table of a folder through plan, fit, sample and impute of the command line, without options.

    python bench/exports.py FOLDER [--save] [--jobs 2] [--fit --steps 20 --no-refine]

FOLDER is searched for files; those that hold no table (SOURCE.txt, LICENSE.txt and the like) are passed over. For each
file the four commands run one after another, each in a process of its own, and it is checked that

- none fails, and none prints a traceback;
- `sample` gives the columns of the file in its order, numbers, truth values and dates as such, without those that the
  plan calls text;
- `impute` gives as many rows, with the file's columns, and every observed cell as it was: of delimited text
  character for character, of other files by value.

What follows ``--fit`` goes to `fit`, to shorten it. ``--save`` writes bench/results/exports.{csv,md} after each file,
and goes on where a run of the same commit stopped. The exit code is the number of files with a fault.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import store

from missdiff_fast.table import read_table
from missdiff_fast.table.fields import MISSING_TEXTS
from missdiff_fast.table.usual_marks import is_usual_mark

_CSV = store.RESULTS / "exports.csv"
_NO_TABLES = ("SOURCE", "LICENSE", "README")
_ROWS = 200


def check(file: Path, folder: Path, fit: list[str]) -> dict[str, Any]:
    """The outcome of the four commands with one file, and the first fault, or ""."""
    model, sampled, filled = folder / "model", folder / f"sampled{_kind(file)}", folder / f"filled{_kind(file)}"
    row: dict[str, Any] = {"file": file.name, "rows": 0, "columns": 0, "warnings": 0, "seconds": 0.0, "fault": ""}
    commands = (
        ("plan", [str(file), "--json"]),
        ("fit", [str(file), "-o", str(model), *fit]),
        ("sample", [str(model), "-n", str(_ROWS), "-o", str(sampled)]),
        ("impute", [str(model), str(file), "-o", str(filled)]),
    )
    started = time.perf_counter()
    printed = {}
    for name, arguments in commands:
        done = subprocess.run(
            [sys.executable, "-m", "missdiff_fast", name, *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode or "Traceback" in done.stderr:
            return row | {"fault": f"{name} ends with {done.returncode}: {done.stderr.strip()[-300:]}"}
        row["warnings"] += done.stderr.count("missdiff: warning")
        printed[name] = done.stdout
    row["seconds"] = time.perf_counter() - started
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # catch_warnings is of all threads: others read the same way
        tables = {"file": _read(file)}
        # Texts of another format may look like numbers once they are written as CSV.
        words = () if _is_delimited(file) else _words(tables["file"])
        tables |= {"sample": _read(sampled, words), "impute": _read(filled, words)}
    row["rows"], row["columns"] = tables["file"].shape
    plan = json.loads(printed["plan"])
    texts = {str(one["column"]) for one in plan["columns"] if one["treatment"] == "text"}
    return row | {"fault": _faults(tables, texts) or _changed(file, filled, tables)}


def _faults(tables: dict[str, pd.DataFrame], texts: set[str]) -> str:
    """The first fault in the shape or the dtypes of the tables that came out, or ""."""
    table, drawn, filled = tables["file"], tables["sample"], tables["impute"]
    learnt = [name for name in table.columns if name not in texts]
    for name, own, columns in (("sample", drawn, learnt), ("impute", filled, list(table.columns))):
        if list(own.columns) != columns:
            return f"{name} has other columns: {sorted(set(columns).symmetric_difference(own.columns))}"
    if len(drawn) != _ROWS or len(filled) != len(table):
        return f"sample has {len(drawn)} rows, impute {len(filled)} of {len(table)}"
    for name in table.columns:
        for command, other in (("sample", drawn), ("impute", filled)):
            if name in other and not _alike(table[name], other[name]):
                return f"column {name!r} was {table[name].dtype}, and is {other[name].dtype} in {command}"
    return ""


def _alike(table: pd.Series, other: pd.Series) -> bool:
    """Whether numbers, truth values and dates of a table are such in another; part of a text column may be either."""
    types = pd.api.types
    if other.isna().all() or table.isna().all():
        return True
    for is_kind in (types.is_bool_dtype, types.is_numeric_dtype, types.is_datetime64_any_dtype):
        if is_kind(table.dtype):
            return bool(is_kind(other.dtype))
    return True


def _changed(file: Path, filled: Path, tables: dict[str, pd.DataFrame]) -> str:
    """The first observed cell that impute changed, or ""."""
    if not _is_delimited(file):
        observed = tables["file"].notna().to_numpy()
        before, after = (tables[name].astype(object).where(observed, None).to_numpy() for name in ("file", "impute"))
        wrong = before != after
        return f"impute changed {before[wrong][0]!r} to {after[wrong][0]!r}" if wrong.any() else ""
    before, after = _cells(file), _cells(filled)
    # A mark such as ? among numbers is a hole; among texts it is a category, which stays.
    marked = [bool(one.dtype.kind != "O" and one.isna().any()) for _, one in tables["file"].items()]
    if len(after) - len(before) not in (0, 1):  # a file without a header gets one
        return f"impute has {len(after):,} lines of {len(before):,}"
    for old, new in zip(before[::-1], after[::-1], strict=False):
        for one, other, has_marks in itertools.zip_longest(old, new, marked, fillvalue=""):
            hole = one.strip() in MISSING_TEXTS or (has_marks and is_usual_mark(one.strip()))
            if one != other and not hole:
                return f"impute changed {one!r} to {other!r}"
    return ""


def _is_delimited(file: Path) -> bool:
    return not {".arff", ".parquet", ".xlsx", ".sav", ".dta"}.intersection(file.suffixes)


def _cells(file: Path) -> list[list[str]]:
    """The rows of delimited text that are not blank, each cell as it is written, by an own splitting."""
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
    lines = [line for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if line.strip()]
    separator = max(",;\t|", key=lines[0].count)
    return list(csv.reader(lines, delimiter=separator))


def _read(file: Path, words: Collection[str] = ()) -> pd.DataFrame:
    """A table with its last rows, though they have no cell: `impute` fills them, and tells it."""
    return read_table(file, keep_blank_rows=True, string_columns=words).rename(columns=str)


def _words(table: pd.DataFrame) -> list[str]:
    """The columns that hold text."""
    return [str(name) for name, column in table.items() if isinstance(column.dropna().head(1).squeeze(), str)]


def _kind(file: Path) -> str:
    suffix = "".join(one for one in file.suffixes[-2:] if one != ".gz").lower()
    return suffix if suffix in (".csv", ".tsv", ".psv", ".data", ".txt") else ".csv"


def main() -> None:
    """Check every file, print the table and exit with the number of faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="files at a time")
    parser.add_argument("--only", default="", help="a part of the names of the files")
    parser.add_argument("--fit", nargs=argparse.REMAINDER, default=[])
    args = parser.parse_args()
    files = [
        path
        for path in sorted(args.folder.rglob("*"))
        if path.is_file() and not path.name.startswith(_NO_TABLES) and args.only in path.name
    ]

    facts, lock = store.facts(), threading.Lock()
    rows = {} if not args.save else _stored(facts["commit"])

    def checked(file: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            row = check(file, Path(folder), args.fit) | {"commit": facts["commit"]}
        print(json.dumps(row, default=float), flush=True)
        with lock:
            rows[file.name] = row
            if args.save:
                _save(rows, store.describe(facts))

    with ThreadPoolExecutor(args.jobs) as pool:  # each waits for processes
        list(pool.map(checked, [file for file in files if file.name not in rows]))
    faults = sum(row["fault"] != "" for row in rows.values())
    print(f"{len(rows)} files, {faults} with a fault")
    sys.exit(min(faults, 100))


def _stored(commit: str) -> dict[str, dict[str, Any]]:
    """The rows of a commit that are stored, by file."""
    if not _CSV.exists():
        return {}
    rows = pd.read_csv(_CSV, keep_default_na=False).to_dict("records")
    return {row["file"]: row for row in rows if row["commit"] == commit}


def _save(rows: dict[str, dict[str, Any]], facts: str) -> None:
    frame = pd.DataFrame(rows.values()).sort_values("file")
    frame.to_csv(_CSV, index=False)
    shown = frame.drop(columns="commit").assign(seconds=frame["seconds"].astype(float).round(1))
    _CSV.with_suffix(".md").write_text(f"{facts}\n\n{store.markdown(shown)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

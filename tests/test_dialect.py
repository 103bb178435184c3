"""Rows that are drawn are written as the file is that was fitted."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import refused

from missdiff_fast import MissDiff
from missdiff_fast.cli import main
from missdiff_fast.cli.tables import write
from missdiff_fast.errors import DataWarning
from missdiff_fast.table import read_table
from missdiff_fast.table.dialect import Dialect, dialect_of, with_dialect
from missdiff_fast.table.files import Encoding
from missdiff_fast.table.frame_writing import write_delimited
from missdiff_fast.table.io import read_written
from missdiff_fast.table.sources import ReadOptions

QUICK = [
    *("--steps", "2", "--no-refine", "--width", "16", "--blocks", "1", "--seed", "0", "--quiet"),
    *("--setting", "blend.rows_per_feature=0", "--setting", "calibration.rounds=0"),
]
CITIES = ["Köln", "Zürich", "Ulm", "Łódź"]


def table(texts: list[str], decimal: str = ".", hole: str = "", quote: bool = False) -> list[list[str]]:
    """Rows of fields: numbers with holes, whole numbers, texts and dates, and the header."""
    rows = [["größe", "zahl", "ort", "tag"]]
    for i in range(60):
        size = hole if i % 7 == 0 else f"{i % 11 / 4 + 0.25:.2f}".replace(".", decimal)
        text = texts[i % len(texts)]
        text = '"' + text.replace('"', '""') + '"' if quote else text
        rows.append([size, str(i * 7 % 23), text, f"2024-0{1 + i % 9}-{10 + i % 17}"])
    return rows


def joined(rows: list[list[str]], separator: str, end: str) -> str:
    return "".join(separator.join(row) + end for row in rows)


ODD = ['a;b, "c"', "two\nlines", "plain", "tab\there"]
R = [["größe", "zahl", "ort", "tag"]]
FILES: dict[str, tuple[str, bytes, Dialect]] = {
    "German": (
        ".csv",
        joined(table(CITIES[:3], ","), ";", "\r\n").encode("cp1252"),
        Dialect(";", ",", "\r\n", Encoding("cp1252")),
    ),
    "plain": (".csv", joined(table(CITIES), ",", "\n").encode(), Dialect()),
    "mark": (
        ".csv",
        joined(table(CITIES), ",", "\r\n").encode("utf-8-sig"),
        Dialect(line_end="\r\n", encoding=Encoding("utf-8", True)),
    ),
    "UTF-16": (
        ".txt",
        b"\xfe\xff" + joined(table(CITIES, hole="NA"), "\t", "\n").encode("utf-16-be"),
        Dialect("\t", encoding=Encoding("utf-16-be", True), suffix=".txt", hole="NA"),
    ),
    "no header": (
        ".csv",
        joined(table(["a", "b", "c"], ",")[1:], ";", "\n").encode(),
        Dialect(";", ",", header=False),
    ),
    "CR": (".csv", joined(table(CITIES, hole="NULL"), "|", "\r").encode(), Dialect("|", line_end="\r", hole="NULL")),
    "tabs": (".tsv", joined(table(CITIES), "\t", "\n").encode(), Dialect("\t", suffix=".tsv")),
    "white space": (
        ".data",
        joined(table(["a", "b"], hole="NA"), "   ", "\n").encode(),
        Dialect(r"\s+", suffix=".data", hole="NA"),
    ),
    "quoted texts": (
        ".csv",
        joined(table(ODD, ",", quote=True), ";", "\n").encode(),
        Dialect(";", ",", quoted=("ort",)),
    ),
    "as R writes": (
        ".csv",
        joined([[f'"{name}"' for name in R[0]], *table(ODD, hole="NA", quote=True)[1:]], ",", "\n").encode(),
        Dialect(quoted=("ort",), quoted_names=True, hole="NA"),
    ),
}


def read(path: Path, name: str) -> tuple[pd.DataFrame, Dialect]:
    separator = r"\s+" if name == "white space" else None
    # A first row of two numbers may look like a header.
    header = False if name == "no header" else None
    frame, written = read_written(path, ReadOptions(separator=separator, header=header))
    assert callable(written)
    return frame, Dialect.of(frame, written(), path.suffix)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """A file and a model of it for each dialect; made once."""
    folder = tmp_path_factory.mktemp("dialects")
    made = {}
    for name, (suffix, content, _) in FILES.items():
        data, model = folder / f"{name}{suffix}", folder / f"{name}.missdiff"
        data.write_bytes(content)
        separator = ["--separator", r"\s+"] if name == "white space" else []
        assert main(["fit", str(data), "-o", str(model), *QUICK, *separator]) == 0
        made[name] = data, model
    return made


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("missing", [[], ["--missing"]])
def test_rows_are_written_as_the_file_is(
    fitted: dict[str, tuple[Path, Path]], name: str, missing: list[str], tmp_path: Path
) -> None:
    (data, model), own = fitted[name], FILES[name][2]
    out = tmp_path / f"rows{own.suffix}"
    assert main(["sample", str(model), "-n", "80", "-o", str(out), "--seed", "1", *missing]) == 0
    real, dialect = read(data, name)
    assert dialect == own
    rows, again = read(out, name)
    assert again == (own if missing else replace(own, hole=""))
    assert list(rows.columns) == list(real.columns)
    assert rows.dtypes.tolist() == real.dtypes.tolist()
    assert bool(rows.isna().any(axis=None)) == bool(missing)
    assert len(rows) == 80
    for column in (real.columns[0], real.columns[2]):
        assert rows[column].dropna().isin(real[column]).all()
    ends = set(re.findall(rb"\r\n|\r|\n", out.read_bytes().replace(b"\0", b"")))
    assert ends == {own.line_end.encode()}


def test_evaluate_reads_rows_as_it_reads_the_file(
    fitted: dict[str, tuple[Path, Path]], tmp_path: Path, capsys: Any
) -> None:
    pytest.importorskip("sdmetrics")
    data, model = fitted["no header"]
    for name, options in (("own.csv", []), ("plain.csv", ["--plain"]), ("own.tsv", [])):
        assert main(["sample", str(model), "-n", "60", "-o", f"{tmp_path}/{name}", "--seed", "1", *options]) == 0
        capsys.readouterr()
        assert main(["evaluate", str(data), f"{tmp_path}/{name}"]) == 0
        assert "overall" in capsys.readouterr().out, name
    assert (tmp_path / "plain.csv").read_text().startswith("0,1,2,3\n")
    assert main(["fit", str(data), "-o", f"{tmp_path}/m", "--drop", "1", *QUICK]) == 0
    assert main(["sample", f"{tmp_path}/m", "-n", "1"]) == 0
    assert capsys.readouterr().out.startswith("0;2;3\n"), "without names the columns would be called otherwise"


class TestOptions:
    @pytest.fixture
    def german(self, fitted: dict[str, tuple[Path, Path]]) -> str:
        return str(fitted["German"][1])

    def test_plain(self, german: str, fitted: dict[str, tuple[Path, Path]], tmp_path: Path) -> None:
        assert main(["sample", german, "-n", "9", "--plain", "-o", f"{tmp_path}/o.csv"]) == 0
        text = (tmp_path / "o.csv").read_bytes().decode("utf-8")
        assert text.startswith("größe,zahl,ort,tag\n")
        assert re.fullmatch(r"[\d.]+,\d+,\w+,[\d-]+", text.splitlines()[1])
        data = str(fitted["German"][0])
        assert main(["impute", german, data, "--plain", "-o", f"{tmp_path}/i.csv"]) == 0
        assert (tmp_path / "i.csv").read_text(encoding="utf-8").startswith("größe,zahl,ort,tag\n")

    @pytest.mark.parametrize(("suffix", "separator"), [(".tsv", "\t"), (".psv", "|"), (".txt", ";"), (".csv.gz", ";")])
    def test_the_name_tells_the_separator(self, german: str, tmp_path: Path, suffix: str, separator: str) -> None:
        assert main(["sample", german, "-n", "9", "-o", f"{tmp_path}/o{suffix}"]) == 0
        frame, written = read_written(tmp_path / f"o{suffix}", ReadOptions())
        assert callable(written)
        found = Dialect.of(frame, written())
        own = (found.separator, found.decimal, found.line_end, found.encoding.name)
        assert own == (separator, ",", "\r\n", "cp1252")

    def test_stdout(self, german: str, tmp_path: Path, capfdbinary: Any) -> None:
        assert main(["sample", german, "-n", "9", "--seed", "1"]) == 0
        told = capfdbinary.readouterr().out
        assert main(["sample", german, "-n", "9", "--seed", "1", "-o", f"{tmp_path}/o.csv"]) == 0
        assert (tmp_path / "o.csv").read_bytes() == told
        assert told.decode("cp1252").startswith("größe;zahl;ort;tag\r\n")

    def test_imputed_tables_of_other_files(
        self, german: str, fitted: dict[str, tuple[Path, Path]], tmp_path: Path
    ) -> None:
        data = fitted["German"][0]
        read_table(data).to_parquet(tmp_path / "t.parquet")
        impute = ["impute", german, f"{tmp_path}/t.parquet", "-o", f"{tmp_path}/o.csv"]
        assert main(impute) == 0
        lines = (tmp_path / "o.csv").read_bytes().decode("cp1252").split("\r\n")
        assert lines[0] == "größe;zahl;ort;tag"
        assert lines[2] == "0,5;7;Zürich;2024-02-11"
        assert main([*impute, "--draws", "1"]) == 0
        assert (tmp_path / "o-1.csv").read_bytes().startswith("größe;".encode("cp1252"))
        assert main(["impute", german, str(data), "-o", f"{tmp_path}/own.csv"]) == 0
        before, after = data.read_bytes().split(b"\r\n"), (tmp_path / "own.csv").read_bytes().split(b"\r\n")
        assert [new for old, new in zip(before, after, strict=True) if not old.startswith(b";")] == [
            old for old in before if not old.startswith(b";")
        ]

    @pytest.mark.parametrize("name", ["mark", "UTF-16"])
    def test_impute_and_mask_keep_the_encoding(
        self, fitted: dict[str, tuple[Path, Path]], name: str, tmp_path: Path
    ) -> None:
        data, model = fitted[name]
        out = tmp_path / f"o{data.suffix}"
        assert main(["impute", str(model), str(data), "-o", str(out)]) == 0
        assert out.read_bytes()[:20] == data.read_bytes()[:20]
        assert read(out, name)[1].encoding == FILES[name][2].encoding
        assert main(["mask", str(data), "--ratio", "0.1", "--seed", "0", "-o", str(out)]) == 0
        assert out.read_bytes()[:20] == data.read_bytes()[:20]

    @pytest.mark.parametrize("name", ["o.csv", "o.csv.gz", None])
    def test_characters_that_the_encoding_lacks(self, name: str | None, tmp_path: Path, capfdbinary: Any) -> None:
        frame = pd.DataFrame({"größe": [1.5, None], "ort": ["Köln", "Жук"]})
        with pytest.warns(DataWarning, match="is UTF-8: cp1252 lacks 'Ж' of the table; read it as UTF-8"):
            write(frame, None if name is None else tmp_path / name, FILES["German"][2])
        if name is not None:
            assert read_table(tmp_path / name).equals(frame)
        else:
            assert capfdbinary.readouterr().out.decode("utf-8").startswith("größe;ort\r\n1,5;Köln\r\n;Жук")

    def test_it_is_told(self, german: str, capsys: Any) -> None:
        assert main(["info", german]) == 0
        assert "separator ';', decimal ',', line ends CR LF, cp1252\n" in capsys.readouterr().out
        assert main(["info", german, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["dialect"] == FILES["German"][2].state()

    @pytest.mark.parametrize(
        ("given", "cells"),
        [("größe=0,5", {"0,5"}), ("größe=0.5", {"0,5"}), ("größe=0,4..1.2", {"0,5", "0,75", "1,0"})],
    )
    def test_given_numbers_have_either_mark(self, german: str, given: str, cells: set[str], tmp_path: Path) -> None:
        assert main(["sample", german, "-n", "9", "--given", given, "--seed", "2", "-o", f"{tmp_path}/o.csv"]) == 0
        lines = (tmp_path / "o.csv").read_text(encoding="cp1252").splitlines()
        assert len(lines) == 10
        assert {line.partition(";")[0] for line in lines[1:]} <= cells

    def test_a_point_is_the_mark_elsewhere(self, fitted: dict[str, tuple[Path, Path]], capsys: Any) -> None:
        message = refused(capsys, "sample", fitted["plain"][1], "-n", 2, "--given", "größe=1,500")
        assert "'1,500' is no number: write its decimal mark as a point (column 'größe')" in message


class TestMissingCells:
    def test_each_column_has_its_own_mark(self, tmp_path: Path, capsys: Any) -> None:
        rows = [
            f"{'-999' if i % 5 == 0 else i % 7},{'' if i % 4 == 0 else 'ab'[i % 2]},{i % 9 + 0.5}" for i in range(60)
        ]
        (tmp_path / "t.csv").write_text("\n".join(["n,s,x", *rows, ""]))
        fit = ["fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m", "--missing-values=-999", *QUICK]
        assert main(fit) == 0
        assert main(["sample", f"{tmp_path}/m", "-n", "90", "--missing", "--seed", "0"]) == 0
        cells = [line.split(",") for line in capsys.readouterr().out.splitlines()[1:]]
        n, s, x = ({row[place] for row in cells} for place in range(3))
        assert "-999" in n
        assert "" not in n
        assert s == {"", "a", "b"}
        assert not x & {"", "-999"}

    def test_a_code_is_no_hole(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("x,country\n" + "NA,DE\n1.5,NA\n2.5,FR\n" * 9)
        frame, written = read_written(tmp_path / "t.csv", ReadOptions(keep_na_columns=["country"]))
        assert callable(written)
        dialect = Dialect.of(frame, written())
        assert (dialect.hole_of("x"), dialect.hole_of("country"), dialect.hole_of("other")) == ("NA", "", "NA")

    def test_quotes_around_every_cell(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text('"a";"b"\n"1,5";"NA"\n"2,5";"x"\n"";"y"\n')
        with pytest.warns(DataWarning, match="'NA' once in column 'b', in quotes"):
            frame, dialect = read(tmp_path / "t.csv", "")
        assert dialect.quoted == ("a", "b")
        stream = io.StringIO()
        write_delimited(frame, stream, dialect)
        assert stream.getvalue() == '"a";"b"\n"1,5";"NA"\n"2,5";"x"\n"";"y"\n'


def test_a_frame_keeps_its_dialect_and_a_model_file_may_lack_one(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.5, None, 2.5] * 8, "y": list("abc") * 8})
    german = FILES["German"][2]
    noted = with_dialect(frame.copy(), german)
    assert dialect_of(noted.drop(columns="y")) == german
    noted.to_parquet(tmp_path / "t.parquet")
    settings = {"blend.rows_per_feature": 0, "calibration.rounds": 0}
    model = MissDiff(steps=2, refine=0, width=16, blocks=1, random_state=0, settings=settings)
    model.fit(noted).save(tmp_path / "m")
    assert MissDiff.load(tmp_path / "m").dialect_ == german
    assert "missdiff_fast.dialect" not in model.sample(2).attrs
    model.fit(frame).save(tmp_path / "m")
    assert MissDiff.load(tmp_path / "m").dialect_ is None
    assert main(["sample", f"{tmp_path}/m", "-n", "2", "-o", f"{tmp_path}/o.csv"]) == 0
    assert (tmp_path / "o.csv").read_text().startswith("x,y\n")


def test_white_space_keeps_cells_apart() -> None:
    stream = io.StringIO()
    frame = pd.DataFrame({"a b": ["x y", None, "", "z"], "n": [1.5, 2.0, np.nan, 3.0]})
    write_delimited(frame, stream, Dialect(r"\s+"))
    assert stream.getvalue() == '"a b" n\n"x y" 1.5\nNA 2.0\n"" NA\nz 3.0\n'
    assert pd.read_csv(io.StringIO(stream.getvalue()), sep=r"\s+").shape == (4, 2)


def test_numbers_whose_decimal_mark_is_the_separator_are_in_quotes() -> None:
    stream = io.StringIO()
    write_delimited(pd.DataFrame({"x": [1.5, np.nan], "n": [1, 2]}), stream, Dialect(",", ","))
    assert stream.getvalue() == 'x,n\n"1,5",1\n,2\n'

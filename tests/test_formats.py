"""Tables in Excel, SAS, SPSS, Stata, Parquet and databases, in streams too, through the commands."""

from __future__ import annotations

import datetime
import io
import json
import shlex
import sqlite3
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from commands import refused
from frames import NO_TEXT, TEXT, TIME

from missdiff_fast.cli import main
from missdiff_fast.table import read_table, write_table

pytest.importorskip("openpyxl")
pyreadstat = pytest.importorskip("pyreadstat")
pytest.importorskip("duckdb")
pytest.importorskip("sqlalchemy")

ROWS = 60
WRITTEN = ["csv", "tsv", "tab", "parquet", "feather", "xlsx", "sav", "zsav", "dta", "xpt"]


def make_stays() -> pd.DataFrame:
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": pd.array(random.integers(20, 90, ROWS), dtype="Int64"),
            "dose": random.normal(5, 1, ROWS),
            "ward": random.choice(["A1", "007", "NA"], ROWS),
            "sex": random.choice(["female", "male"], ROWS),
            "seen": pd.Timestamp("2024-02-01") + pd.to_timedelta(random.integers(0, 90, ROWS), unit="D"),
        }
    )
    holes = random.random(table.shape) < 0.15
    holes[:, 2] = False
    return table.mask(holes)


def give_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table as CSV, and a model fitted to that."""
    folder = tmp_path_factory.mktemp("formats")
    write_table(make_stays(), folder / "t.csv")
    fit = f"fit {folder}/t.csv -o {folder}/m --steps 2 --no-refine --width 16 --blocks 1 --seed 0 --keep-na ward"
    assert main([*fit.split(), "--setting", "blend.rows_per_feature=0"]) == 0
    return folder


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_table_is_planned_imputed_and_sampled_from_file_to_file(
    folder: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table, path = make_stays(), tmp_path / f"t.{kind}"
    write_table(table, path)
    before = read_table(path)
    assert before.isna().equals(table.isna())
    keep = ["--keep-na", "ward"]
    assert main(["plan", str(path), *keep]) == 0
    assert "dose" in capsys.readouterr().out
    assert main(["impute", f"{folder}/m", str(path), "-o", f"{tmp_path}/i.{kind}", *keep]) == 0
    after = read_table(tmp_path / f"i.{kind}")
    assert after.notna().all(axis=None)
    seen = before.notna()
    for name in table.columns:
        assert after[name][seen[name]].tolist() == before[name][seen[name]].tolist(), "observed cells are unchanged"
    if kind in ("parquet", "feather"):
        assert after.dtypes.equals(before.dtypes)
    assert main(["sample", f"{folder}/m", "-n", "5", "-o", f"{tmp_path}/s.{kind}", "--seed", "1"]) == 0
    drawn = read_table(tmp_path / f"s.{kind}")
    assert drawn.notna().all(axis=None)
    assert drawn["seen"].dtype.kind == "M"
    assert set(drawn["ward"]) <= {"A1", "007", "NA"}, "codes are texts"
    assert capsys.readouterr().err == ""


def test_pyarrow_and_nullable_dtypes_stay_in_parquet(folder: Path, tmp_path: Path) -> None:
    table = make_stays()
    for backend in ("pyarrow", "numpy_nullable"):
        given = table.convert_dtypes(dtype_backend=backend)  # type: ignore[call-overload]
        given["on"] = pd.array(([True, None, False] * ROWS)[:ROWS], dtype="boolean")
        write_table(given, tmp_path / "t.parquet")
        line = f"impute {folder}/m {tmp_path}/t.parquet -o {tmp_path}/o.parquet --keep on"
        assert main(line.split()) == 0
        after = read_table(tmp_path / "o.parquet")
        assert after.dtypes.to_dict() == read_table(tmp_path / "t.parquet").dtypes.to_dict()
        assert [str(dtype) for dtype in after.dtypes] == [str(dtype) for dtype in given.dtypes]
        assert after.drop(columns="on").notna().all(axis=None)


FEW_STEPS = ["--steps", "2", "--no-refine", "--width", "16", "--blocks", "1", "--setting", "blend.rows_per_feature=0"]


@pytest.mark.parametrize("kind", ["parquet", "feather", "xlsx", "sav", "dta", "xpt"])
def test_times_of_day_are_learnt_and_stay_times_of_day(tmp_path: Path, kind: str) -> None:
    path, model = tmp_path / f"t.{kind}", str(tmp_path / "m")
    times = [datetime.time(6 + row % 12, row % 60, 30 * (row % 2)) for row in range(ROWS)]
    table = pd.DataFrame({"at": pd.Series(times, dtype=object), "age": np.arange(ROWS) % 31})
    table.loc[::7, "at"] = None
    write_table(table, path)
    before = read_table(path)["at"]
    assert before.dropna().tolist() == table["at"].dropna().tolist()
    assert main(["fit", str(path), "-o", model, *FEW_STEPS]) == 0
    assert main(["impute", model, str(path), "-o", f"{tmp_path}/i.{kind}"]) == 0
    filled = read_table(tmp_path / f"i.{kind}")["at"]
    assert filled[before.notna()].tolist() == before.dropna().tolist()
    assert main(["sample", model, "-n", "9", "-o", f"{tmp_path}/s.{kind}"]) == 0
    drawn = read_table(tmp_path / f"s.{kind}")["at"]
    assert all(isinstance(cell, datetime.time) for cell in [*filled, *drawn])
    assert drawn.between(datetime.time(6), datetime.time(18)).all()


@pytest.mark.parametrize("kind", ["parquet", "xlsx", "sav", "dta", "xpt"])
def test_marks_that_are_times_of_day(tmp_path: Path, kind: str) -> None:
    times = [datetime.time(7, 30), datetime.time(0), datetime.time(14, 5), datetime.time(0)]
    write_table(pd.DataFrame({"at": times, "n": [1, 2, 3, 4]}), tmp_path / f"t.{kind}")
    for mark in ("00:00:00", "0:00"):
        read = read_table(tmp_path / f"t.{kind}", missing_values=[mark])
        assert read["at"].isna().tolist() == [False, True, False, True]


def test_no_time_of_day_becomes_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Arrow takes what is left of whole days."""
    times = [datetime.time(row % 24, row % 60) for row in range(ROWS)]
    write_table(pd.DataFrame({"at": times, "n": np.arange(ROWS) % 7}), tmp_path / "t.parquet")
    assert main(["fit", f"{tmp_path}/t.parquet", "-o", f"{tmp_path}/m", *FEW_STEPS]) == 0
    capsys.readouterr()
    assert main(["sample", f"{tmp_path}/m", "-n", "2", "--given", "at=25:00"]) == 0
    drawn = pd.read_csv(io.StringIO(capsys.readouterr().out))["at"]
    assert set(pd.to_timedelta(drawn)) == {pd.Timedelta(hours=25)}


@pytest.mark.parametrize("kind", ["xlsx", "sav", "dta", "xpt"])
def test_times_that_a_file_does_not_hold_are_an_error(tmp_path: Path, kind: str) -> None:
    for cell in (datetime.time(7, 30, 0, 5), datetime.time(7, tzinfo=datetime.timezone.utc)):
        with pytest.raises(ValueError, match=rf"a \.{kind} file can't hold column 'at': the time"):
            write_table(pd.DataFrame({"at": [cell]}), tmp_path / f"t.{kind}")


@pytest.mark.parametrize("kind", ["parquet", "xlsx", "sav", "dta"])
def test_texts_of_dates_in_other_formats_are_those_of_the_fitted_text(tmp_path: Path, kind: str) -> None:
    """A model of CSV knows which columns are dates; in another format they may be texts, which stay texts."""
    days = pd.Timestamp("2022-01-15") + pd.to_timedelta(np.arange(ROWS), unit="D")
    table = pd.DataFrame(
        {
            "at": [f"{6 + row % 12}:{row % 60:02}" for row in range(ROWS)],
            "seen": days.strftime("%d.%m.%Y"),
            "born": days.strftime("%Y-%m-%d"),
            "age": np.arange(ROWS) % 31,
        }
    )
    table.loc[::7, ["at", "seen", "born"]] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    write_table(table, tmp_path / f"t.{kind}")
    assert main(["fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m", *FEW_STEPS]) == 0
    assert main(["impute", f"{tmp_path}/m", f"{tmp_path}/t.{kind}", "-o", f"{tmp_path}/i.{kind}"]) == 0
    filled = read_table(tmp_path / f"i.{kind}")
    forms = {"at": r"\d?\d:\d\d", "seen": r"\d\d\.\d\d\.2022", "born": r"2022-\d\d-\d\d"}
    for name, form in forms.items():
        seen = table[name].notna()
        assert filled[name][seen].tolist() == table[name][seen].tolist()
        assert filled[name].str.fullmatch(form).all(), filled[name].tolist()


@pytest.mark.parametrize("fitted", [",", "."])
@pytest.mark.parametrize("kind", ["csv", "xlsx", "parquet"])
def test_limits_with_another_decimal_mark_than_in_fit(tmp_path: Path, fitted: str, kind: str) -> None:
    """A system exports text with its own decimal mark, and workbooks with numbers."""
    other = "." if fitted == "," else ","
    plain = [f"{0.7 + row % 17 / 10:.1f}" if row % 4 else "<0.6" for row in range(ROWS)]
    lines = [f"{'' if row % 9 == 2 else cell};{row % 7}\n" for row, cell in enumerate(plain)]
    (tmp_path / "t.csv").write_text("crp;n\n" + "".join(lines).replace(".", fitted))
    assert main(["fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m", *FEW_STEPS]) == 0
    if kind == "csv":
        (tmp_path / "o.csv").write_text("crp;n\n" + "".join(lines).replace(".", other))
    else:
        cells: list[Any] = [None if row % 9 == 2 else cell.replace(".", other) for row, cell in enumerate(plain)]
        if kind == "xlsx":
            cells = [float(one.replace(",", ".")) if one and "<" not in one else one for one in cells]
        numbers = np.arange(ROWS) % 7
        write_table(pd.DataFrame({"crp": pd.Series(cells, dtype=object), "n": numbers}), tmp_path / f"o.{kind}")
    assert main(["impute", f"{tmp_path}/m", f"{tmp_path}/o.{kind}", "-o", f"{tmp_path}/i.{kind}"]) == 0
    before, after = (
        read_table(tmp_path / f"{name}.{kind}", string_columns=["crp"] if kind == "csv" else ())["crp"] for name in "oi"
    )
    assert after.notna().all()
    assert after[before.notna()].tolist() == before.dropna().tolist()
    texts = [cell for cell in after if isinstance(cell, str)]
    assert texts
    assert not any(fitted in text for text in texts), texts


def impute_texts(folder: Path, fitted: list[str], texts: list[str], *options: str) -> list[str]:
    """Fit a text file with a column, and impute a workbook in which it has other texts."""
    numbers = np.arange(len(fitted)) % 9
    pd.DataFrame({"d": fitted, "n": numbers}).to_csv(folder / "t.csv", index=False)
    write_table(pd.DataFrame({"d": texts, "n": numbers[: len(texts)]}), folder / "t.xlsx")
    assert main(["fit", f"{folder}/t.csv", "-o", f"{folder}/m", *FEW_STEPS, *options]) == 0
    assert main(["impute", f"{folder}/m", f"{folder}/t.xlsx", "-o", f"{folder}/i.xlsx"]) == 0
    found: list[str] = read_table(folder / "i.xlsx")["d"].tolist()
    return found


def test_known_texts_of_other_formats_have_the_marks_of_the_model(tmp_path: Path) -> None:
    days = [f"{1 + row % 28:02}.08.2022" for row in range(ROWS - 1)]
    filled = impute_texts(tmp_path, [*days, "01.01.1900"], [*days[:5], "01.01.1900"], "--missing-values", "1900-01-01")
    assert filled[:5] == days[:5]
    assert filled[5].endswith(".08.2022")


def test_usual_marks_among_known_texts_are_filled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    days = [f"{1 + row % 28:02}.08.2022" for row in range(ROWS)]
    filled = impute_texts(tmp_path, days, [*days[:5], "?"])
    assert filled[:5] == days[:5]
    assert filled[5].endswith(".08.2022")
    capsys.readouterr()
    assert main(["impute", f"{tmp_path}/m", f"{tmp_path}/t.xlsx", "-o", f"{tmp_path}/i.xlsx", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"][0] == {"column": "d", "filled": 1, "left": 0}


def test_known_durations_of_another_form_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = [f"{9 + row % 9}:{row % 60:02}" for row in range(ROWS)]
    pd.DataFrame({"d": times, "n": np.arange(ROWS) % 9}).to_csv(tmp_path / "t.csv", index=False)
    write_table(pd.DataFrame({"d": ["0 days 07:01:00", None], "n": [1, 2]}), tmp_path / "t.xlsx")
    assert main(["fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m", *FEW_STEPS]) == 0
    capsys.readouterr()
    assert "column 'd' has string cells" in refused(capsys, "impute", f"{tmp_path}/m", f"{tmp_path}/t.xlsx")


def test_parquet_of_other_programs_keeps_whole_numbers_and_decimals(tmp_path: Path) -> None:
    from decimal import Decimal

    days = [datetime.date(2020, 1, 1), None]
    table = pa.table(
        {
            "n": pa.array([2**60 + 1, None]),
            "b": pa.array([True, None]),
            "d": pa.array([Decimal("1.50"), None]),
            "far": pa.array([Decimal("0.12345678901234567890"), None]),
            "day": pa.array(days),
            "c": pa.array(["u", None]).dictionary_encode(),
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    frame = read_table(tmp_path / "t.parquet")
    assert [str(dtype) for dtype in frame.dtypes] == ["Int64", "boolean", "float64", str(TEXT), "object", "category"]
    assert frame["n"][0] == 2**60 + 1
    assert frame["far"][0] == "0.12345678901234567890", "no digit is lost"
    assert frame["day"].tolist() == days
    write_table(frame, tmp_path / "o.parquet")
    assert parquet.read_schema(tmp_path / "o.parquet").types[:3] == [pa.int64(), pa.bool_(), pa.float64()]
    table.to_pandas(types_mapper=pd.ArrowDtype)[["c"]].to_parquet(tmp_path / "c.parquet")
    assert read_table(tmp_path / "c.parquet")["c"].tolist() == ["u", np.nan]


class TestExcel:
    def test_every_kind_of_cell_comes_back(self, tmp_path: Path) -> None:
        frame = pd.DataFrame(
            {
                "n": pd.array([1, None, -3], dtype="Int64"),
                "x": [0.1 + 0.2, np.nan, 1e-300],
                "text": ["=1+1", "#REF!", " a\r\n_x000D_\x01"],
                "na": ["NA", None, "a"],
                "code": ["007", "1", None],
                "day": pd.to_datetime(["2024-02-29", None, "1900-01-01"]),
                "time": pd.to_datetime(["2024-02-29 10:00:00.005", None, "2024-03-01 00:00:00"], format="ISO8601"),
                "far": pd.Series(np.array(["9999-12-31", "2024-02-29", "NaT"], dtype="M8[us]")),
                "b": pd.array([True, None, False], dtype="boolean"),
                "long": pd.to_timedelta(["1 days", None, "30:00:00.005"]),
            }
        )
        write_table(frame, tmp_path / "t.xlsx")
        pd.testing.assert_frame_equal(read_table(tmp_path / "t.xlsx"), frame)

    def test_what_excel_can_not_hold_is_an_error(self, tmp_path: Path) -> None:
        cells: dict[str, object] = {
            "Excel would round": 2**53 + 1,
            "the time zone": pd.Timestamp("2024-01-01", tz="UTC"),
            "whole number of milliseconds": pd.Timestamp("2024-01-01 00:00:00.000001"),
            "the date 1899": pd.Timestamp("1899-12-31"),
            "the number inf": np.inf,
            "a text of 40,000": "x" * 40_000,
        }
        for problem, cell in cells.items():
            with pytest.raises(
                ValueError, match=rf"\.xlsx file can't hold column 'c': .*{problem}.*\.parquet or \.csv"
            ):
                write_table(pd.DataFrame({"c": [cell]}), tmp_path / "t.xlsx")
        assert not list(tmp_path.iterdir())

    def workbook(self, path: Path, sheets: dict[str, list[list[Any]]]) -> Path:
        import openpyxl

        book = openpyxl.Workbook()
        book.remove(book.active)
        for name, rows in sheets.items():
            sheet = book.create_sheet(name)
            for row in rows:
                sheet.append(row)
        book.save(path)
        return path

    def test_a_sheet_is_chosen(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        sheets: dict[str, list[list[Any]]] = {"stay's": [["b"], [2], [3], [4]], "notes": [["a"], [1]]}
        path = self.workbook(tmp_path / "t.xlsx", sheets)
        with pytest.raises(ValueError, match=r't.xlsx has 2 sheets \("stay\'s", .*: choose one.* sheet="stay\'s"'):
            read_table(path)
        assert read_table(path, sheet="stay's")["b"].tolist() == [2, 3, 4]
        told = refused(capsys, "plan", path)
        assert told.endswith("""t.xlsx has 2 sheets ("stay's", 'notes'): choose one, such as --sheet 'stay'"'"'s'""")
        advice = shlex.split(told.partition("such as ")[2])
        assert refused(capsys, "plan", path, "--sheet", "x").startswith("--sheet 'x' is not in t.xlsx; its sheets are ")
        assert main(["plan", str(path), *advice, "-o", f"{tmp_path}/p.toml"]) == 0
        assert 'sheet = "stay\'s"' in (tmp_path / "p.toml").read_text()
        (tmp_path / "t.csv").write_text("a\n1\n")
        capsys.readouterr()
        told = refused(capsys, "plan", tmp_path / "t.csv", "--sheet", "x")
        assert told == "--sheet is for Excel, and t.csv is delimited text: leave out --sheet"

    def test_the_end_of_the_day_among_times_is_told(self, tmp_path: Path) -> None:
        """Excel has 24:00 as a date."""
        rows = [["at"], *([datetime.time(7, row)] for row in range(5)), [datetime.datetime(1900, 1, 1)]]
        path = self.workbook(tmp_path / "t.xlsx", {"s": rows})
        told = r"column 'at' holds times of day and 1 date such as '1900-01-01', as which Excel has 24:00"
        with pytest.warns(UserWarning, match=told):
            assert read_table(path)["at"].tolist()[-1] == "1900-01-01"

    def test_limits_and_marks_among_numbers(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        import openpyxl

        numbers = [0.05, 1.25, 3, 0.7, 12]
        cells = [["<0,01" if row % 4 == 0 else numbers[row % 5], "?" if row % 9 == 5 else row % 7] for row in range(80)]
        path = self.workbook(tmp_path / "t.xlsx", {"s": [["troponin", "n"], *cells]})
        model = str(tmp_path / "m")
        assert main(["fit", str(path), "-o", model, *FEW_STEPS]) == 0
        told = capsys.readouterr().err
        assert "'?' in 9 cells of column 'n', among numbers or dates, was read as missing" in told
        assert "column 'troponin' holds '<0,01' in 20 cells: limits of measurement are learnt" in told
        assert main(["impute", model, str(path), "-o", f"{tmp_path}/i.xlsx"]) == 0
        filled = list(openpyxl.load_workbook(tmp_path / "i.xlsx").active.iter_rows(min_row=2, values_only=True))
        assert [new for new, old in zip(filled, cells, strict=True) if old[1] != "?"] == [
            tuple(row) for row in cells if row[1] != "?"
        ]
        assert all(isinstance(row[1], int) for row in filled)
        for kind in ("xlsx", "csv", "parquet", "sav"):
            assert main(["sample", model, "-n", "40", "-o", f"{tmp_path}/s.{kind}", "--seed", "1"]) == 0
        drawn = read_table(tmp_path / "s.xlsx")["troponin"]
        assert {type(cell) for cell in drawn} <= {str, int, float}
        assert {cell for cell in drawn if isinstance(cell, str)} == {"<0,01"}
        expected = ["<0.01" if cell == "<0,01" else f"{cell:g}" for cell in drawn]
        for kind in ("csv", "parquet", "sav"):
            texts = read_table(tmp_path / f"s.{kind}", string_columns=["troponin"])["troponin"]
            assert [text.removesuffix(".0") for text in texts] == expected, kind

    @pytest.mark.filterwarnings("ignore:.*xlsx holds")
    def test_ugly_sheets(self, tmp_path: Path) -> None:
        rows: list[list[Any]] = [
            ["report"],
            [],
            ["id", "crp", "at", None, "x "],
            ["unit", "mg", None, None, "cm"],
            ["007", 1.5, datetime.datetime(2024, 2, 29), None, 1],
            ["12", "<0.1", None, None, "NA"],
            ["13", 2, datetime.datetime(2024, 2, 29, 12), None, "#N/A"],
            [None, None, None, None, 5, None],
            [None, None],
        ]
        path = self.workbook(tmp_path / "t.xlsx", {"s": rows})
        titled = self.workbook(tmp_path / "u.xlsx", {"s": [["report"], [], ["a", "b", "c"], [1, 2, 3], [4, 5, 6]]})
        with pytest.warns(
            UserWarning, match=r"2 of 3 columns have no name .*; if row 3 has the names, pass skip_rows=2"
        ):
            read_table(titled)
        assert read_table(titled, skip_rows=2).to_dict("list") == {"a": [1, 4], "b": [2, 5], "c": [3, 6]}
        frame = read_table(path, skip_rows=1, skip_lines=[4])
        assert list(frame.columns) == ["id", "crp", "at", "x"]
        assert frame["id"].tolist() == ["007", "12", "13", NO_TEXT]
        assert frame["crp"].tolist() == [1.5, "<0.1", 2, None]
        assert frame["at"].dtype == TIME
        assert frame["x"].tolist() == [1, pd.NA, pd.NA, 5]
        marked = read_table(path, skip_rows=1, skip_lines=[4], missing_values=["<0.1", 5])
        assert marked["crp"].dropna().tolist() == [1.5, 2.0]
        assert read_table(path, skip_rows=1, skip_lines=[4], missing_values=[2])["crp"].dropna().tolist() == [
            1.5,
            "<0.1",
        ]
        assert marked["x"].dropna().tolist() == [1]
        with pytest.raises(ValueError, match="more than once in its first row"):
            read_table(self.workbook(tmp_path / "d.xlsx", {"s": [["a", "a"], [1, 2]]}))

    def test_observed_cells_keep_their_types(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        import openpyxl

        day = datetime.datetime(2024, 2, 29)
        cells = [1.5, "<0.1", 2, "7", day, True, datetime.time(7, 30), "note"]
        rows = [[cell, place % 3, "007"] for place, cell in enumerate(cells * 5)]
        path = self.workbook(tmp_path / "t.xlsx", {"s": [["crp", "n", "code"], *rows]})
        assert main(["mask", str(path), "-o", f"{tmp_path}/o.xlsx", "--ratio", "0.3", "--seed", "1"]) == 0
        assert "'<0.1' in 5 cells of column 'crp'" in capsys.readouterr().err
        after = list(openpyxl.load_workbook(tmp_path / "o.xlsx").active.iter_rows(min_row=2, values_only=True))
        pairs = [(new, old) for line, row in zip(after, rows, strict=True) for new, old in zip(line, row, strict=True)]
        kept = [(new, old) for new, old in pairs if new is not None]
        assert 60 < len(kept) < 100
        assert all(new == old and type(new) is type(old) for new, old in kept)

    def test_codes_called_na_are_told(self, tmp_path: Path) -> None:
        path = self.workbook(tmp_path / "t.xlsx", {"s": [["land"], ["NA"], ["DE"], ["FR"]]})
        with pytest.warns(UserWarning, match=r"'NA' in 1 cell of column 'land'; .* keep_na_columns=\['land'\]") as told:
            assert read_table(path)["land"].tolist() == [NO_TEXT, "DE", "FR"]
        assert told[0].filename == __file__
        assert read_table(path, keep_na_columns=["land"])["land"].tolist() == ["NA", "DE", "FR"]

    def test_formulas_without_results_are_refused(self, tmp_path: Path) -> None:
        path = self.workbook(tmp_path / "t.xlsx", {"s": [["a", "b"], [1, "=A2*2"]]})
        with pytest.raises(ValueError, match="formulas without results: open it in Excel or LibreOffice"):
            read_table(path)
        # As Excel saves them: with their results, of which one is empty, and with a wrong size of the sheet.
        path = self.workbook(tmp_path / "t.xlsx", {"s": [["a", "b"], [1, "=A2*2"], [2, '=IF(A3>1,"",1)']]})
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        sheet = parts["xl/worksheets/sheet1.xml"].decode()
        sheet = sheet.replace("<f>A2*2</f><v />", "<f>A2*2</f><v>2.5</v>").replace('ref="A1:B3"', 'ref="A1"')
        parts["xl/worksheets/sheet1.xml"] = sheet.encode()
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, content)
        assert read_table(path).to_numpy().tolist() == [[1, 2.5], [2, pytest.approx(np.nan, nan_ok=True)]]


class TestReadstat:
    def test_labels_and_user_missing_values(self, tmp_path: Path) -> None:
        frame = pd.DataFrame(
            {
                "sex": [1.0, 2.0, np.nan, 9.0],
                "age": [70.0, 98.0, 5.0, 33.5],
                "pain": [0.0, 10.0, 3.0, 4.0],
                "s": list("ab c"),
            }
        )
        frame.loc[2, "s"] = ""
        labels = {
            "sex": {1: "male", 2: "female", 9: "refused"},
            "age": {98: "98 or more"},
            "pain": {0: "none", 10: "worst"},
        }
        pyreadstat.write_sav(
            frame,
            tmp_path / "t.sav",
            column_labels={"sex": "sex at birth"},
            variable_value_labels=labels,
            missing_ranges={"sex": [9]},
        )
        read = read_table(tmp_path / "t.sav")
        assert read["sex"].dtype == pd.CategoricalDtype(pd.Index([1, 2])), "codes stay, and 9 is missing"
        assert read["sex"].isna().tolist() == [False, False, True, True]
        assert read["age"].dtype == "float64"
        assert read["pain"].tolist() == [0, 10, 3, 4]
        assert read["s"].tolist() == ["a", "b", NO_TEXT, "c"]
        for kind in ("sav", "dta"):
            mask = f"mask {tmp_path}/t.sav -o {tmp_path}/o.{kind} --ratio 0.1 --seed 0"
            assert main(mask.split()) == 0
            _, notes = getattr(pyreadstat, f"read_{kind}")(tmp_path / f"o.{kind}")
            assert notes.variable_value_labels == labels
            assert notes.column_names_to_labels["sex"] == "sex at birth"
        write_table(read, tmp_path / "o.xpt")
        assert read_table(tmp_path / "o.xpt")["sex"].tolist() == [1, 2, pd.NA, pd.NA]

    def test_stata_and_sas(self, tmp_path: Path) -> None:
        frame = pd.DataFrame(
            {"n": [1.0, 2.0], "day": [datetime.date(2020, 1, 1), None], "at": [datetime.time(7, 30)] * 2}
        )
        times = [datetime.datetime(1583, 1, 1, 7, 30, 0, 5000), datetime.datetime(9999, 12, 31)]
        frame["far"] = pd.Series(times, dtype=object)
        pyreadstat.write_dta(frame, tmp_path / "t.dta", missing_user_values={"n": ["a"]})
        pyreadstat.write_xport(frame, tmp_path / "t.xpt")
        for name in ("t.dta", "t.xpt"):
            read = read_table(tmp_path / name)
            assert read["n"].tolist() == [1, 2]
            assert read["n"].dtype == "int64"
            assert read["day"].tolist() == [datetime.date(2020, 1, 1), None]
            assert read["at"].tolist() == [datetime.time(7, 30)] * 2
            assert read["far"].tolist() == times
            write_table(read, tmp_path / f"o{name}")
            pd.testing.assert_frame_equal(read_table(tmp_path / f"o{name}"), read)

    def test_times_of_more_than_a_day_are_durations(self, tmp_path: Path) -> None:
        seconds = pd.DataFrame({"at": [27_000.25, 90_000, None], "within": [27_000, 86_399.5, None], "n": [1.0, 2, 3]})
        for kind, write in (("sav", pyreadstat.write_sav), ("xpt", pyreadstat.write_xport)):
            write(seconds, tmp_path / f"t.{kind}", variable_format=dict.fromkeys(("at", "within"), "TIME12"))
            read = read_table(tmp_path / f"t.{kind}")
            assert read["at"].tolist()[:2] == [pd.Timedelta(seconds=27_000.25), pd.Timedelta(hours=25)]
            assert read["within"].tolist()[:2] == [datetime.time(7, 30), datetime.time(23, 59, 59, 500_000)]

    @pytest.mark.parametrize("kind", ["sav", "dta", "xpt"])
    def test_what_they_can_not_hold_is_an_error(self, tmp_path: Path, kind: str) -> None:
        cells: dict[str, object] = {
            "it would round": 2**53 + 1,
            "the time zone": pd.Timestamp("2024-01-01", tz="UTC"),
            "durations": pd.Timedelta("1 days"),
            "whole number of milliseconds": pd.Timestamp("2024-01-01 00:00:00.000001"),
            "a text of 40,000": "x" * 40_000,
        }
        for problem, cell in cells.items():
            with pytest.raises(ValueError, match=rf"a \.{kind} file can't hold column 'c': .*{problem}"):
                write_table(pd.DataFrame({"c": [cell]}), tmp_path / f"t.{kind}")
        with pytest.raises(ValueError, match=r"can't hold this table \(.*'a b'.*\.parquet or \.csv"):
            write_table(pd.DataFrame({"a b": [1]}), tmp_path / f"t.{kind}")
        (tmp_path / f"t.{kind}").write_bytes(b"no such thing")
        with pytest.raises(ValueError, match=f"t.{kind} is damaged"):
            read_table(tmp_path / f"t.{kind}")

    def test_sas_files_are_only_read(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert refused(capsys, "sample", "none", "-n", 5, "-o", tmp_path / "t.sas7bdat") == (
            "t.sas7bdat: .sas7bdat files are read, not written: write a .parquet or .csv file"
        )


class TestDatabases:
    @pytest.fixture
    @staticmethod
    def sqlite(tmp_path: Path) -> Path:
        with sqlite3.connect(tmp_path / "t.db") as database:
            database.execute('CREATE TABLE "all stays" (n INTEGER, x REAL, s TEXT, at TEXT)')
            rows = [(1, 0.5, "007", "2024-02-29"), (None, None, None, None), (2**60 + 1, 2, "NA", "2024-03-01")]
            database.executemany('INSERT INTO "all stays" VALUES (?, ?, ?, ?)', rows)
        database.close()
        return tmp_path / "t.db"

    def test_sqlite(self, sqlite: Path, capsys: pytest.CaptureFixture[str]) -> None:
        before = sqlite.read_bytes()
        query = 'SELECT * FROM "all stays"'
        for place in (sqlite, f"sqlite:///{sqlite}"):
            frame = read_table(place, query=query)
            assert [str(dtype) for dtype in frame.dtypes] == ["Int64", "float64", str(TEXT), str(TIME)]
            assert frame["n"].tolist() == [1, pd.NA, 2**60 + 1]
            assert frame["s"].tolist() == ["007", NO_TEXT, "NA"]
            told = refused(capsys, "plan", place)
            assert told.endswith(
                f"is a database with the tables 'all stays': say what to read, such as --query '{query}'"
            )
            told = refused(capsys, "plan", place)
            assert main(["plan", str(place), *shlex.split(told.partition("such as ")[2])]) == 0
            capsys.readouterr()
            assert "give the right --query" in refused(capsys, "plan", place, "--query", "SELECT nothing FROM it")
            assert refused(capsys, "plan", place, "--query", 'DELETE FROM "all stays"')
        assert sqlite.read_bytes() == before
        with pytest.raises(ValueError, match="'a' more than once in the result of the query: name one of them anew"):
            read_table(sqlite, query="SELECT 1 AS a, 2 AS a")

    def test_duckdb(self, tmp_path: Path) -> None:
        import duckdb

        path = tmp_path / "t.duckdb"
        with duckdb.connect(str(path)) as database:
            database.execute(
                "CREATE TABLE t AS SELECT 7 AS n, 1.25::DECIMAL(9, 2) AS x, DATE '2024-02-29' AS day, TRUE AS b "
                "UNION ALL SELECT NULL, NULL, NULL, NULL"
            )
        for place in (path, f"duckdb:///{path}"):
            frame = read_table(place, query="SELECT * FROM t ORDER BY n")
            assert [str(dtype) for dtype in frame.dtypes] == ["Int32", "float64", "object", "boolean"]
            assert frame["day"].tolist() == [datetime.date(2024, 2, 29), None]
        for query in ("DROP TABLE t", "SELECT 1; DROP TABLE t", f"COPY t TO '{tmp_path}/out.csv'"):
            with pytest.raises(ValueError, match="the query must be one SELECT statement: give the right query"):
                read_table(path, query=query)
        with pytest.raises(ValueError, match="with the tables 't': say what to read"):
            read_table(path)
        assert [one.name for one in tmp_path.iterdir()] == ["t.duckdb"]

    def test_other_urls_go_through_sqlalchemy(self, sqlite: Path, capsys: pytest.CaptureFixture[str]) -> None:
        url = f"sqlite+pysqlite:///file:{sqlite}?uri=true"
        assert len(read_table(url, query='SELECT n FROM "all stays"')) == 3
        with pytest.raises(ValueError, match="with the tables 'all stays'"):
            read_table(url)
        with pytest.raises(ValueError, match="must be one SELECT statement"):
            read_table(url, query='DELETE FROM "all stays"')
        told = refused(capsys, "plan", "nosuch://me:secret@host/d", "--query", "SELECT 1")
        assert "nosuch://me:***@host/d is no URL that SQLAlchemy knows" in told
        assert "secret" not in told

    def test_refusals(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "t.csv").write_text("a\n1\n")
        told = refused(capsys, "plan", tmp_path / "t.csv", "--query", "SELECT 1")
        assert "--query is for a database, and t.csv is delimited text: leave out --query" in told
        (tmp_path / "t.db").write_text("no such thing")
        with pytest.raises(ValueError, match=r"t\.db is no file of SQLite or DuckDB"):
            read_table(tmp_path / "t.db", query="SELECT 1")
        with pytest.raises(FileNotFoundError, match=r"none\.db does not exist"):
            read_table(f"sqlite:///{tmp_path}/none.db", query="SELECT 1")
        assert not (tmp_path / "none.db").exists()


class TestStreams:
    def test_stdin_and_stdout(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
    ) -> None:
        data = (folder / "t.csv").read_bytes()
        for command in (["impute", f"{folder}/m"], ["mask", "--seed", "0"]):
            rest = ["--keep-na", "ward"]
            assert main([*command, f"{folder}/t.csv", "-o", f"{tmp_path}/o.csv", *rest]) == 0
            give_stdin(monkeypatch, data)
            assert main([*command, "-", "-o", "-", *rest]) == 0
            assert capfdbinary.readouterr().out == (tmp_path / "o.csv").read_bytes()
        give_stdin(monkeypatch, data)
        assert main(["fit", "-", "-o", f"{tmp_path}/m", "--steps", "2", "--no-refine", "--width", "16"]) == 0
        assert (tmp_path / "m").exists()

    def test_other_kinds_from_stdin(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for kind in ("tsv", "parquet", "xlsx", "sav"):
            write_table(make_stays(), tmp_path / f"t.{kind}")
            give_stdin(monkeypatch, (tmp_path / f"t.{kind}").read_bytes())
            assert main(["plan", "-", "--format", kind]) == 0
            assert "60 rows, 5 columns" in capsys.readouterr().out
        give_stdin(monkeypatch, b"")
        assert refused(capsys, "plan", "-") == "stdin is empty"
        give_stdin(monkeypatch, b"a\n1\n")
        assert "--format must be one of csv, tsv, " in refused(capsys, "plan", "-", "--format", "xml")
        (tmp_path / "t.dat").write_text("a\tb\n1\t2\n")
        assert read_table(tmp_path / "t.dat", format="tsv").to_dict("list") == {"a": [1], "b": [2]}
        assert read_table(io.BytesIO(b"a,b\n1,2\n")).to_dict("list") == {"a": [1], "b": [2]}

    def test_a_file_whose_name_does_not_tell_its_kind(self, folder: Path, tmp_path: Path) -> None:
        write_table(make_stays(), tmp_path / "t.tsv")
        (tmp_path / "t.dat").write_bytes((tmp_path / "t.tsv").read_bytes())
        rest = ["--keep-na", "ward", "--seed", "0"]
        assert main(["mask", f"{tmp_path}/t.tsv", "-o", f"{tmp_path}/a.tsv", *rest]) == 0
        assert main(["mask", f"{tmp_path}/t.dat", "-o", f"{tmp_path}/b.tsv", "--format", "tsv", *rest]) == 0
        assert (tmp_path / "a.tsv").read_bytes() == (tmp_path / "b.tsv").read_bytes()

    def test_a_model_does_not_go_to_stdout(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert (
            refused(capsys, "fit", folder / "t.csv", "-o", "-")
            == "-o - is stdout, to which only sample, impute and mask write; give the name of a file"
        )


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [("t.xlsx", "openpyxl", "excel"), ("t.sav", "pyreadstat", "stats"), ("t.duckdb", "duckdb", "database")],
)
def test_a_missing_package_is_named(
    tmp_path: Path, name: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (tmp_path / name).write_bytes(b"12345678DUCK0000")
    monkeypatch.setitem(sys.modules, package, None)
    told = refused(capsys, "plan", tmp_path / name, *(["--query", "SELECT 1"] if extra == "database" else []))
    assert f"needs the package '{package}': pip install 'missdiff_fast[{extra}]'" in told
    if extra != "database":
        with pytest.raises(ImportError, match=package):
            write_table(make_stays(), tmp_path / f"o{Path(name).suffix}")
        assert not (tmp_path / f"o{Path(name).suffix}").exists()


def test_evaluate_takes_them_too(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    pytest.importorskip("sdmetrics")
    table = make_stays().drop(columns="seen")
    write_table(table, tmp_path / "real.xlsx")
    give_stdin(monkeypatch, table.dropna().to_csv(index=False).encode())
    assert main(["evaluate", f"{tmp_path}/real.xlsx", "-", "--sheet", "Sheet1", "--keep-na", "ward"]) == 0
    capsys.readouterr()
    assert refused(capsys, "evaluate", "-", "-") == "only one of the tables can come from stdin (-)"

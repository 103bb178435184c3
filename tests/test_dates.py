"""Dates, times and durations in text files, in the form that they were read in, and as marks of missing cells."""

from __future__ import annotations

import io
import re
import struct
import zoneinfo
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import refused
from frames import TEXT, TIME

from missdiff_fast import MissDiff
from missdiff_fast.cli import main
from missdiff_fast.table import read_frame, read_table, write_table
from missdiff_fast.table.dates import forms_of, write_dates

UNIT = np.datetime_data(TIME)[0]
FIT = ["--steps", "2", "--no-refine", "--width", "16", "--seed", "0"]
DAYS = [1 + 3 * i % 28 for i in range(60)]
FORMS = {
    "day": "2024-02-{:02}",
    "minute": "2024-02-{:02} 10:30",
    "second": "2024-02-{:02}T10:00:05",
    "tenth": "2024-02-{:02}T10:00:05.5",
    "utc": "2024-02-{:02}T10:00:00Z",
    "fine": "2024-02-{:02}T10:00:00.125Z",
    "zone": "2024-02-{:02}T10:00:00+01:00",
    "west": "2024-02-{:02} 23:00:00.000001-0330",
    "hours": "2024-02-{:02}T10:00+02",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a column of each form, and a model of it."""
    folder = tmp_path_factory.mktemp("dates")
    rows = [[form.format(day) if (day + at) % 4 else "" for at, form in enumerate(FORMS.values())] for day in DAYS]
    lines = [",".join([*FORMS, "x"]), *(",".join([*row, str(day)]) for row, day in zip(rows, DAYS, strict=True))]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    assert main(["fit", f"{folder}/t.csv", "-o", f"{folder}/m", *FIT]) == 0
    return folder


def shapes(path: Path) -> dict[str, set[str]]:
    """The forms of a file's cells, with zeros for the digits before a zone."""
    cells = pd.read_csv(path, dtype=str)
    return {name: {shape(cell) for cell in cells[name].dropna()} for name in FORMS}


def shape(cell: str) -> str:
    zone = re.search(r"[+-]\d\d:?(\d\d)?$", cell[11:])
    end = len(cell) - (len(zone[0]) if zone else 0)
    return re.sub(r"\d", "0", cell[:end]) + cell[end:]


SHAPES = {name: {shape(form.format(1))} for name, form in FORMS.items()}


def test_every_form_is_a_date(folder: Path) -> None:
    frame = read_table(folder / "t.csv")
    kinds = {name: str(frame[name].dtype) for name in FORMS}
    assert set(list(kinds.values())[:4]) == {f"datetime64[{UNIT}]"}
    assert list(kinds.values())[4:] == [
        f"datetime64[{UNIT}, UTC]",
        f"datetime64[{UNIT}, UTC]",
        f"datetime64[{UNIT}, UTC+01:00]",
        f"datetime64[{UNIT}, UTC-03:30]",
        f"datetime64[{UNIT}, UTC+02:00]",
    ]
    assert frame["west"].dropna().iloc[0] == pd.Timestamp("2024-02-04T23:00:00.000001-03:30")


def test_written_tables_have_the_form_of_the_one_that_was_read(folder: Path, tmp_path: Path) -> None:
    write_table(read_table(folder / "t.csv"), tmp_path / "copy.csv")
    assert (tmp_path / "copy.csv").read_text() == (folder / "t.csv").read_text()
    assert main(["mask", f"{folder}/t.csv", "-o", f"{tmp_path}/masked.csv", "--seed", "1"]) == 0
    assert shapes(tmp_path / "masked.csv") == SHAPES


def test_rows_of_a_model_have_the_form_of_its_table(folder: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["impute", f"{folder}/m", f"{folder}/t.csv", "-o", f"{tmp_path}/o.csv"]) == 0
    before, after = (pd.read_csv(path, dtype=str) for path in (folder / "t.csv", tmp_path / "o.csv"))
    assert not after.isna().any(axis=None)
    assert (after[before.notna()].fillna("") == before.fillna("")).all(axis=None)
    assert shapes(tmp_path / "o.csv") == SHAPES
    assert main(["impute", f"{folder}/m", f"{tmp_path}/o.csv"]) == 0
    assert capsys.readouterr().out == (tmp_path / "o.csv").read_text(), "its own output is read again"
    assert main(["sample", f"{folder}/m", "-n", "20", "-o", f"{tmp_path}/s.csv", "--seed", "0"]) == 0
    assert shapes(tmp_path / "s.csv") == SHAPES
    assert main(["sample", f"{folder}/m", "-n", "20", "--seed", "0"]) == 0
    assert capsys.readouterr().out == (tmp_path / "s.csv").read_text()


def test_a_part_of_a_table_is_read_as_the_whole_was(folder: Path, tmp_path: Path, capsys: Any) -> None:
    head = (folder / "t.csv").read_text().splitlines()[0]
    full = [form.format(7) for form in FORMS.values()]
    (tmp_path / "part.csv").write_text(f"{head}\n" + ",".join([*full, "3"]) + f"\n{',' * len(FORMS)}3\n")
    assert main(["impute", f"{folder}/m", f"{tmp_path}/part.csv", "-o", f"{tmp_path}/o.csv"]) == 0
    filled = pd.read_csv(tmp_path / "o.csv", dtype=str)
    forms = filled.map(lambda cell: "".join("0" if sign.isdecimal() else sign for sign in cell)).drop(columns="x")
    assert forms.nunique().eq(1).all(), forms
    assert filled.iloc[0].tolist() == [*full, "3"]
    (tmp_path / "part.csv").write_text(f"{head}\n" + ",".join(["soon", *full[1:], "3"]) + "\n")
    message = refused(capsys, "impute", f"{folder}/m", f"{tmp_path}/part.csv")
    assert message.endswith(" in fit, and 'soon' is none: write its cells as they were in fit")


def test_times_of_several_offsets_are_in_utc(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("t,n\n2024-03-30T12:00:00+01:00,1\n2024-03-31T12:00:00+02:00,2\n2024-03-31T12:00:00.5Z,3\n")
    frame = read_table(path)
    assert [str(time) for time in frame["t"]] == [
        "2024-03-30 11:00:00+00:00",
        "2024-03-31 10:00:00+00:00",
        "2024-03-31 12:00:00.500000+00:00",
    ]
    write_table(frame, path)
    assert path.read_text().splitlines()[1] == "2024-03-30T11:00:00.0+00:00,1"
    pd.testing.assert_frame_equal(read_table(path), frame)


def test_times_of_which_only_some_have_a_zone_are_told(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("t,n\n2024-03-30T12:00:00Z,1\n2024-03-31T12:00:00,2\n")
    with pytest.warns(
        UserWarning, match="column 't' holds '2024-03-31T12:00:00' in 1 cell, a time without a zone among times"
    ):
        frame = read_table(path)
    assert frame["t"].tolist() == ["2024-03-30T12:00:00Z", "2024-03-31T12:00:00"]
    path.write_text("t,n\n2024-03-30T12:00:00Z,1\nunknown,2\n2024-03-31T12:00:00Z,3\n")
    with pytest.warns(UserWarning, match="'unknown' in 1 cell of column 't', among numbers or dates, was read as"):
        assert read_table(path)["t"].isna().tolist() == [False, True, False]
    path.write_text(path.read_text().replace("unknown", "later"))
    with pytest.warns(UserWarning, match="holds 'later' in "):
        read_table(path)


def test_values_that_a_form_would_shorten_are_written_in_full() -> None:
    times = pd.Series(pd.to_datetime(["2024-02-29 10:00:30.25", None]))
    assert write_dates(times, "0000-00-00")[0] == "2024-02-29 10:00:30.25"
    assert write_dates(times, "0000-00-00T00:00")[0] == "2024-02-29T10:00:30.25"
    zoned = times.dt.tz_localize("Asia/Kolkata")
    assert write_dates(zoned, "0000-00-00T00:00:00.00Z")[0] == "2024-02-29T10:00:30.25+05:30"
    assert write_dates(zoned, "0000-00-00T00:00:00.00+00")[0] == "2024-02-29T10:00:30.25+05:30"
    assert write_dates(zoned, "0000-00-00T00:00").equals(zoned), "a form without a zone"
    assert write_dates(pd.Series([1, 2]), "0000-00-00").tolist() == [1, 2]


def test_forms_are_kept_by_frames_and_files(folder: Path, tmp_path: Path) -> None:
    frame = read_table(folder / "t.csv")
    assert forms_of(frame.drop(columns="x").head(3)) == forms_of(frame)
    write_table(frame, tmp_path / "t.parquet")
    stored = read_table(tmp_path / "t.parquet")
    assert (stored["west"] == frame["west"])[frame["west"].notna()].all()
    model = MissDiff(steps=2, width=16, refine=0, random_state=0, verbose=False).fit(stored)
    assert model.sample(2)["west"].dtype == frame["west"].dtype, "Parquet has offsets of another library"
    assert MissDiff.load(folder / "m").codec_.schema["tenth"].form == "0000-00-00T00:00:00.0"


@pytest.mark.parametrize(
    "values",
    [
        pd.date_range("2024-01-01", periods=40, freq="h", tz="UTC"),
        pd.date_range("2024-03-31", periods=40, freq="h", tz="Europe/Berlin"),
        pd.to_timedelta(np.arange(40) * 37, unit="min"),
        pd.to_timedelta(np.arange(40) - 20, unit="D"),
    ],
    ids=["utc", "summer time", "durations", "days"],
)
def test_csv_files_of_typed_tables_are_imputed(tmp_path: Path, values: Any) -> None:
    frame = pd.DataFrame({"x": np.arange(40.0), "v": values})
    frame.loc[::5, "v"] = pd.NaT
    MissDiff(steps=2, width=16, refine=0, random_state=0, verbose=False).fit(frame).save(tmp_path / "m")
    write_table(frame, tmp_path / "t.csv")
    for name, out in ("to", "op"):
        assert main(["impute", f"{tmp_path}/m", f"{tmp_path}/{name}.csv", "-o", f"{tmp_path}/{out}.csv"]) == 0
    filled = read_table(tmp_path / "p.csv")["v"]
    assert filled.notna().all()
    assert (filled == frame["v"])[frame["v"].notna()].all()


def test_durations_in_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "a,b,c\n1 days,1 days 00:00:00,1 day\n-1 days,-1 days +23:59:59.5,2 days\n,,\n2,,\n"
    )
    frame = read_table(tmp_path / "t.csv")
    assert frame["b"].tolist()[:2] == [pd.Timedelta(days=1), pd.Timedelta(seconds=-0.5)]
    assert frame["c"].tolist()[:2] == ["1 day", "2 days"], "it would be written as 1 days"
    assert frame["a"].dtype == TEXT


KOLKATA = zoneinfo.ZoneInfo("Asia/Kolkata")


@pytest.mark.parametrize("unit", ["ns", "s"])
def test_zones_of_zoneinfo(tmp_path: Path, unit: Any) -> None:
    times = pd.date_range("2024-01-01", periods=40, tz=KOLKATA, unit=unit)
    frame = pd.DataFrame({"x": np.arange(40.0), "t": times, "c": pd.Categorical(times[[0, 1] * 20])})
    frame.loc[3, "t"] = pd.NaT
    model = MissDiff(steps=2, width=16, refine=0, random_state=0, verbose=False).fit(frame)
    model.save(tmp_path / "m")
    for one in (model, MissDiff.load(tmp_path / "m")):
        assert one.sample(2)["t"].dtype == frame["t"].dtype
        assert one.impute(frame).dtypes.equals(frame.dtypes)
        assert one.impute(frame.assign(t=frame["t"].dt.tz_convert("UTC")))["t"].notna().all()


def test_a_zone_without_a_name_has_a_remedy_that_works() -> None:
    # A zone from a file has no key; this one has an hour more from its start on.
    file = b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 1, 2, 8) + struct.pack(">lB", 0, 1)
    zone = zoneinfo.ZoneInfo.from_file(io.BytesIO(file + struct.pack(">lBBlBB", 0, 0, 0, 3600, 0, 4) + b"ONE\0TWO\0"))
    times = pd.date_range("2024-01-01", periods=40, tz="UTC").tz_convert(zone)
    frame = pd.DataFrame({"x": np.arange(40.0), "t": times})
    model = MissDiff(steps=2, width=16, refine=0, random_state=0, verbose=False)
    with pytest.raises(TypeError, match=r"column 't' .* has a time zone that has no name: convert") as caught:
        model.fit(frame)
    remedy = str(caught.value).split(": convert them, ")[1].split(", or drop")[0]
    exec(remedy.replace("[column]", "['t']"), {"frame": frame, "pandas": pd})
    assert model.fit(frame).sample(2)["t"].dtype == f"datetime64[{times.unit}, UTC]"


DATES = pd.Series(pd.date_range("2020-01-01", periods=60)).mask(np.arange(60) % 10 == 0, pd.Timestamp("1900-01-01"))
MARKED = {
    "plain": (DATES, "1900-01-01"),
    "seconds": (DATES.dt.as_unit("s"), "1900-01-01 00:00:00"),
    "zoned": (DATES.dt.tz_localize("Europe/Berlin"), "1900-01-01"),
    "instant": (DATES.dt.tz_localize("UTC"), "1900-01-01T01:00:00+01:00"),
    "arrow": (DATES.astype("timestamp[us][pyarrow]"), "1900-01-01"),
    "arrow zoned": (DATES.dt.tz_localize("UTC").astype("timestamp[us, UTC][pyarrow]"), "1900-01-01"),
    "days": (DATES.dt.date, "1900-01-01"),
    "arrow days": (DATES.dt.date.astype("date32[pyarrow]"), "1900-01-01"),
    "category": (DATES.astype("category"), "1900-01-01"),
    "duration": (DATES - DATES[1], "-43830 days"),
}


@pytest.mark.parametrize("kind", MARKED)
def test_dates_as_marks_of_missing_cells(tmp_path: Path, kind: str) -> None:
    values, mark = MARKED[kind]
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=60), "t": values})
    gone = np.arange(60) % 10 == 0
    marks: list[object] = [mark, "?", "9999-12-31", "2020-13-01", -9]
    cells = read_frame(frame, missing_values=marks)
    assert cells.found["t"].missing.tolist() == gone.tolist()
    for name in ("t.parquet", "t.csv"):
        if name == "t.parquet" or kind not in ("zoned", "category"):
            write_table(frame, tmp_path / name)
            assert read_table(tmp_path / name, missing_values=marks)["t"].isna().tolist() == gone.tolist()


def test_no_mark_is_drawn_nor_left(tmp_path: Path, capsys: Any) -> None:
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=60), "d": DATES, "o": DATES.dt.date})
    frame.to_parquet(tmp_path / "t.parquet")
    line = ["fit", f"{tmp_path}/t.parquet", "-o", f"{tmp_path}/m", *FIT, "--missing-values", "1900-01-01"]
    assert main(line) == 0
    assert main(["sample", f"{tmp_path}/m", "-n", "99"]) == 0
    assert main(["impute", f"{tmp_path}/m", f"{tmp_path}/t.parquet", "-o", f"{tmp_path}/o.csv"]) == 0
    assert "1900-01-01" not in capsys.readouterr().out + (tmp_path / "o.csv").read_text()
    model = MissDiff.load(tmp_path / "m")
    assert date(1900, 1, 1) not in set(model.impute(frame)["o"])

"""Metadata of SDV: read as treatments, written for a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import refused

from missdiff_fast import MissDiff
from missdiff_fast.cli import main
from missdiff_fast.sdv import metadata_of, read_metadata

ROWS = 120
# Keys of an entry by its sdtype, of SDV's SINGLE_TABLE_V1.
ALLOWED = {
    "numerical": {"computer_representation"},
    "datetime": {"datetime_format"},
    "categorical": {"order", "order_by"},
    "boolean": set(),
    "id": {"regex_format"},
    "unknown": {"pii"},
}
SINGLE: dict[str, Any] = {
    "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
    "primary_key": "case",
    "alternate_keys": ["line"],
    "columns": {
        "case": {"sdtype": "id", "regex_format": "[0-9]{5}"},
        "line": {"sdtype": "numerical"},
        "age": {"sdtype": "numerical", "computer_representation": "Int64"},
        "sex": {"sdtype": "categorical"},
        "ward": {"sdtype": "categorical"},
        "smoker": {"sdtype": "boolean"},
        "day": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d"},
        "mail": {"sdtype": "email"},
        "city": {"sdtype": "city", "pii": False},
        "other": {"sdtype": "unknown", "pii": False},
    },
}
TREATMENTS = {
    "case": "identifier",
    "line": "identifier",
    "age": "continuous",
    "sex": "categorical",
    "ward": "categorical",
    "smoker": "categorical",
    "mail": "text",
    "city": "categorical",
}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "case": [f"{number:05}" for number in rng.permutation(ROWS)],
            "line": range(1000, 1000 + ROWS),
            "age": rng.integers(20, 90, ROWS),
            "sex": rng.choice(["f", "m"], ROWS),
            "ward": rng.choice([1, 2, 3], ROWS),
            "smoker": rng.choice([True, False], ROWS),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, ROWS), unit="D"),
            "mail": [f"{name}@example.org" for name in rng.choice(["ann", "bob", "cy"], ROWS)],
            "city": rng.choice(["Bern", "Rome"], ROWS),
            "other": rng.normal(size=ROWS).round(2),
        }
    )


def check(metadata: dict[str, Any], columns: list[str]) -> None:
    """Raise unless this is a SINGLE_TABLE_V1 of a table."""
    assert metadata.keys() <= {"METADATA_SPEC_VERSION", "columns", "primary_key"}
    assert metadata["METADATA_SPEC_VERSION"] == "SINGLE_TABLE_V1"
    assert list(metadata["columns"]) == columns
    for entry in metadata["columns"].values():
        assert entry.keys() - {"sdtype"} <= ALLOWED[entry["sdtype"]]
    if "primary_key" in metadata:
        assert metadata["columns"][metadata["primary_key"]]["sdtype"] == "id"
    json.dumps(metadata)


class TestRead:
    def test_one_table(self, tmp_path: Path) -> None:
        assert read_metadata(SINGLE) == TREATMENTS
        (tmp_path / "m.json").write_text(json.dumps(SINGLE))
        assert read_metadata(tmp_path / "m.json") == TREATMENTS

    def test_a_table_of_several(self) -> None:
        several = {"METADATA_SPEC_VERSION": "V1", "relationships": [], "tables": {"visits": SINGLE}}
        assert read_metadata(several) == TREATMENTS
        several["tables"] = {"visits": SINGLE, "wards": {"columns": {"ward": {"sdtype": "id"}}}}
        assert read_metadata(several, "wards") == {"ward": "identifier"}
        with pytest.raises(ValueError, match="of the tables 'visits', 'wards', not of None"):
            read_metadata(several)

    def test_composite_and_sequence_keys(self) -> None:
        columns = {name: {"sdtype": "numerical"} for name in "abcd"}
        keys = {"primary_key": ["a", "b"], "sequence_key": "c"}
        assert read_metadata({"columns": columns, **keys}) == {**dict.fromkeys("abc", "identifier"), "d": "continuous"}

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("[1]", "must be an object"),
            ("{", "is no JSON"),
            ('{"rows": 3}', 'no object "columns"'),
            ('{"columns": {"x": {}}}', "column 'x' of the metadata has no sdtype"),
        ],
    )
    def test_no_metadata(self, content: str, message: str, tmp_path: Path) -> None:
        (tmp_path / "m.json").write_text(content)
        with pytest.raises(ValueError, match=message):
            read_metadata(tmp_path / "m.json")


class TestCommand:
    @pytest.fixture
    def files(self, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        table.to_csv("visits.csv", index=False)
        Path("metadata.json").write_text(json.dumps(SINGLE))
        return tmp_path

    def test_there_and_back(self, files: Path, table: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
        small = ["--steps", "1", "--width", "16", "--no-refine", "--seed", "0"]
        assert main(["fit", "visits.csv", "-o", "m", "--sdv-metadata", "metadata.json", *small]) == 0
        assert main(["info", "m", "--sdv-metadata", "written.json"]) == 0
        assert capsys.readouterr().err == ""
        written = json.loads(Path("written.json").read_text())
        check(written, list(table.columns))
        assert written["primary_key"] == "case"
        assert written["columns"]["day"] == {"sdtype": "datetime", "datetime_format": "%Y-%m-%d"}
        again = read_metadata(written)
        assert {name: again.get(name) for name in TREATMENTS} == TREATMENTS
        rows = MissDiff.load("m").sample(4)
        assert rows["case"].str.fullmatch(r"\d{5,}").all()  # leading zeros stay
        assert not set(rows["case"]) & set(table["case"])
        assert "mail" not in rows

    def test_options_count_more(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        options = ["--sdv-metadata", "metadata.json", "--treat", "mail=categorical", "--categorical", "line"]
        assert main(["plan", "visits.csv", "--json", *options]) == 0
        planned = json.loads(capsys.readouterr().out)["columns"]
        found = {one["column"]: one["treatment"] for one in planned}
        assert found["mail"] == found["line"] == "categorical"
        assert found["case"] == "identifier"

    def test_refusals(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "goes with a MODEL" in refused(capsys, "info", "--sdv-metadata", "x.json")
        assert "no such file" in refused(capsys, "plan", "visits.csv", "--sdv-metadata", "gone.json")
        Path("metadata.json").write_text('{"columns": {"nobody": {"sdtype": "id"}}}')
        assert "'nobody'" in refused(capsys, "plan", "visits.csv", "--sdv-metadata", "metadata.json")


def test_every_type_is_written() -> None:
    count = 36
    sizes = pd.CategoricalDtype(["s", "m", "l"], ordered=True)
    frame = pd.DataFrame(
        {
            "byte": pd.Series(range(count), dtype="uint8"),
            "whole": pd.Series([1, None, 3, 4] * 9, dtype="Int16"),
            "arrow": pd.Series([1, None, 5, 9] * 9, dtype="int32[pyarrow]"),
            "float": [1.5, 2.25, None] * 12,
            "flag": [True, False, None] * 12,
            "size": pd.Series(["s", "l", "m"] * 12, dtype=sizes),
            "day": pd.to_datetime(["2024-01-05", "2024-02-11", None] * 12),
            "span": pd.to_timedelta([1, 2, 5] * 12, unit="h"),
            "one": [7] * count,
            "none": pd.Series([None] * count, dtype="float64"),
            "crp": ["<0.1", "0.5", "7.25", "2.5"] * 9,
        }
    )
    treatments = {"byte": "continuous", "crp": "continuous"}
    with pytest.warns(UserWarning, match="no observed cell"):
        model = MissDiff(steps=1, refine=0, width=16, random_state=0, treatments=treatments).fit(frame)  # type: ignore[arg-type]
    metadata = metadata_of(model)
    check(metadata, list(frame.columns))
    assert metadata["columns"] == {
        "byte": {"sdtype": "numerical", "computer_representation": "UInt8"},
        "whole": {"sdtype": "numerical", "computer_representation": "Int16"},
        "arrow": {"sdtype": "numerical", "computer_representation": "Int32"},
        "float": {"sdtype": "numerical", "computer_representation": "Float"},
        "flag": {"sdtype": "boolean"},
        "size": {"sdtype": "categorical", "order": ["s", "m", "l"]},
        "day": {"sdtype": "datetime"},
        "span": {"sdtype": "unknown", "pii": False},
        "one": {"sdtype": "numerical", "computer_representation": "Int64"},
        "none": {"sdtype": "unknown", "pii": False},
        "crp": {"sdtype": "categorical"},  # a sdtype of numbers would contradict the texts
    }


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_sdmetrics_takes_the_metadata(table: pd.DataFrame) -> None:
    reports = pytest.importorskip("sdmetrics.reports.single_table")
    real = table.drop(columns=["mail", "city"])
    treatments = {name: one for name, one in TREATMENTS.items() if name in real}
    model = MissDiff(steps=1, refine=0, width=16, random_state=0, treatments=treatments).fit(real)
    report = reports.DiagnosticReport()
    report.generate(real, model.sample(ROWS), metadata_of(model), verbose=False)
    assert report.get_score() == pytest.approx(1)

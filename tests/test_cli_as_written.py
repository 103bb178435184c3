"""Commands give observed cells back as they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast.cli import main
from missdiff_fast.table import read_table
from missdiff_fast.table.fields import splitter

QUICK = [
    *("--steps", "2", "--no-refine", "--width", "16", "--blocks", "1", "--seed", "0"),
    *("--setting", "blend.rows_per_feature=0", "--setting", "calibration.rounds=0"),
]


class TestCommands:
    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A table of every way of writing, and the model fitted to it."""
        folder = tmp_path_factory.mktemp("written")
        rows = [
            f"{'TRUE' if i % 2 else 'FALSE'},{'4' if i % 3 else '4.50'},{i % 7}.0,{('Fri  ', ' Mon')[i % 2]},"
            f'"{("one", "two")[i // 2 % 2]}\r\nlines",P{i} ,2024-01-0{i % 7 + 1}T00:30'
            for i in range(60)
        ]
        rows += ['NA,,,,,NA,"2024-01-05T00:30"', 'TRUE,"4",NA,Fri  ,,"p, q",', "NA,,,,,x,"]
        text = '"flag",a, b,day,note,name,at\r\n' + "\r\n".join(rows) + "\r\n"
        (folder / "t.csv").write_bytes(text.encode())
        fit = ["fit", f"{folder}/t.csv", "-o", f"{folder}/m", "--drop", "name", *QUICK]
        assert main(fit) == 0
        return folder

    def cells(self, path: Path) -> list[list[str]]:
        with open(path, newline="") as stream:
            text = stream.read()
        rows = text.replace('\r\nlines"', '@lines"').removesuffix("\r\n").split("\r\n")
        return [splitter(",")(row) for row in rows]

    def test_impute(self, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        given, out = f"{folder}/t.csv", tmp_path / "o.csv"
        assert main(["impute", f"{folder}/m", given, "--keep", "name", "-o", str(out)]) == 0
        assert capsys.readouterr() == ("", "")
        before, after = self.cells(folder / "t.csv"), self.cells(out)
        assert after[:61] == before[:61]
        assert [row[5] for row in after] == [row[5] for row in before], "a kept column is as it is"
        for old, new in zip(before[61:], after[61:], strict=True):
            assert [b for a, b in zip(old, new, strict=True) if a not in ("", "NA")] == [
                a for a in old if a not in ("", "NA")
            ]
            assert new[0] in ("TRUE", "FALSE")
            assert new[2].endswith(".0")
            assert new[3] in ("Fri  ", " Mon")
            assert new[4] in ('"one@lines"', '"two@lines"')
            assert new[6].strip('"')[10:11] == "T"

    def test_draws_and_stdout(self, folder: Path, tmp_path: Path, capfdbinary: Any) -> None:
        given = f"{folder}/t.csv"
        draw = ["impute", f"{folder}/m", given, "--keep", "name", "--draws", "2", "-o", f"{tmp_path}/o.tsv.gz"]
        assert main(draw) == 0
        for m in (1, 2):
            table = read_table(tmp_path / f"o-{m}.tsv.gz")
            assert table.drop(columns="name").notna().all(axis=None)
            assert table["note"][0] == "one\r\nlines"
        assert main(["impute", f"{folder}/m", given, "--keep", "name", "-o", f"{tmp_path}/o.csv"]) == 0
        assert main(["impute", f"{folder}/m", given, "--keep", "name"]) == 0
        assert capfdbinary.readouterr().out == (tmp_path / "o.csv").read_bytes()

    def test_mask(self, folder: Path, tmp_path: Path) -> None:
        assert main(["mask", f"{folder}/t.csv", "--keep", "name", "--seed", "0", "-o", f"{tmp_path}/o.csv"]) == 0
        before, after = self.cells(folder / "t.csv"), self.cells(tmp_path / "o.csv")
        assert after[0] == before[0]
        pairs = [pair for rows in zip(before, after, strict=True) for pair in zip(*rows, strict=True)]
        assert {new for old, new in pairs if new != old} == {""}
        assert 50 < sum(new != old for old, new in pairs) < 120

    def test_the_separator_is_that_of_the_file(self, tmp_path: Path) -> None:
        rows = [f"{i % 5},5;{'xy'[i % 2]}" if i % 9 else ";x" for i in range(50)]
        (tmp_path / "t.csv").write_text("a;b\n" + "\n".join(rows) + "\n")
        assert main(["fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m", *QUICK]) == 0
        for name in ("o.csv", "o.txt"):
            assert main(["impute", f"{tmp_path}/m", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/{name}"]) == 0
            after = (tmp_path / name).read_text().splitlines()
            assert [new for new, old in zip(after[1:], rows, strict=True) if old != ";x"] == [
                old for old in rows if old != ";x"
            ]
            assert read_table(tmp_path / name)["a"].dtype == float

    def test_texts_with_white_space_agree(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        x = np.arange(80.0)
        table = pd.DataFrame({"day": np.where(x % 3 > 1, "Fri  ", " Mon\r\n"), "x": x})
        holes = table.mask(pd.DataFrame({"day": x % 7 == 3, "x": x % 7 == 5}))
        holes.to_csv(tmp_path / "t.csv", index=False)
        assert main(["fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m", *QUICK]) == 0
        model = MissDiff.load(f"{tmp_path}/m")
        assert model.codec_.category_values("day") == ["Fri", "Mon"]
        for kind in (object, "string", "category"):
            as_pandas_reads = holes.astype({"day": kind})
            full = model.impute(as_pandas_reads)
            assert set(full["day"]) == {"Fri  ", " Mon\r\n"}, "filled in as the frame writes it"
            assert full["day"][holes["day"].notna()].tolist() == holes["day"].dropna().tolist()
        MissDiff(steps=2, refine=0, width=16, random_state=0).fit(holes).save(tmp_path / "p")
        assert main(["impute", f"{tmp_path}/p", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/o.csv"]) == 0
        after = pd.read_csv(tmp_path / "o.csv", lineterminator="\n")["day"]
        assert set(after) == {"Fri  ", " Mon\r\n"}
        assert capsys.readouterr().err == ""

    def test_texts_that_differ_by_white_space_only_stay_apart(self, tmp_path: Path) -> None:
        table = pd.DataFrame({"a": ["x", "x ", "y"] * 30, "b": np.arange(90.0)})
        model = MissDiff(steps=2, refine=0, width=16, random_state=0).fit(table)
        assert model.codec_.category_values("a") == ["x", "x ", "y"]
        table.loc[0, "a"] = " x"
        with pytest.raises(ValueError, match="' x'; known are 'x', 'x ', 'y'"):
            model.impute(table)

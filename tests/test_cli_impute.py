"""``missdiff impute`` as its user meets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import ROWS, files, make_table, refused

from missdiff_fast.cli import main
from missdiff_fast.table import io


class TestImpute:
    @pytest.fixture
    def table(self, tmp_path: Path) -> str:
        make_table().drop(columns="patient").to_csv(tmp_path / "table.csv", index=False)
        return str(tmp_path / "table.csv")

    def test_holes_are_filled_and_the_rest_is_kept(
        self, model: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["impute", model, table, "-o", f"{tmp_path}/out.csv"]) == 0
        assert capsys.readouterr() == ("", "")
        before, after = (pd.read_csv(path, dtype=str) for path in (table, tmp_path / "out.csv"))
        assert not after.isna().to_numpy().any()
        assert before.isna().to_numpy().any()
        assert (after[before.notna()].fillna("") == before.fillna("")).all(axis=None)
        assert after["age"].str.fullmatch(r"\d+").all()
        assert main(["impute", model, table]) == 0
        assert capsys.readouterr().out == (tmp_path / "out.csv").read_text()

    def test_draws(self, model: str, table: str, tmp_path: Path) -> None:
        assert main(["impute", model, table, "-o", f"{tmp_path}/out.csv.gz", "--draws", "3", "--seed", "4"]) == 0
        assert files(tmp_path) == ["out-1.csv.gz", "out-2.csv.gz", "out-3.csv.gz", "table.csv"]
        first, second = (pd.read_csv(tmp_path / f"out-{m}.csv.gz") for m in (1, 2))
        assert not first.isna().to_numpy().any()
        assert not first.equals(second)

    def test_a_column_is_kept(self, model: str, data: str, tmp_path: Path) -> None:
        assert main(["impute", model, data, "--keep", "patient", "-o", f"{tmp_path}/out.csv"]) == 0
        after = pd.read_csv(tmp_path / "out.csv")
        assert list(after.columns) == list(make_table().columns)
        assert after["patient"].equals(make_table()["patient"])

    @pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
    def test_a_column_that_is_kept_twice_comes_once(self, model: str, data: str, tmp_path: Path, name: str) -> None:
        keep = ["--keep", "patient", "--keep", "patient"]
        assert main(["impute", model, data, *keep, "-o", f"{tmp_path}/{name}"]) == 0
        assert list(io.read_table(tmp_path / name).columns) == list(make_table().columns)

    def test_marks_of_missing_cells_are_remembered(self, tmp_path: Path) -> None:
        table = tmp_path / "marked.csv"
        table.write_text("a,b\n" + "".join(f"{i if i % 5 else '?'},{'x' if i % 2 else -9}\n" for i in range(1, 60)))
        marks = ["--missing-values", "?", "--missing-values=-9"]
        table.write_text(table.read_text() + "61,y\n")
        assert main(["fit", str(table), "-o", f"{tmp_path}/m", "--steps", "3", *marks]) == 0
        assert main(["impute", f"{tmp_path}/m", str(table), "-o", f"{tmp_path}/out.csv"]) == 0
        after = pd.read_csv(tmp_path / "out.csv")
        assert after["a"].dtype == np.int64
        assert set(after["b"]) <= {"x", "y"}

    def test_part_of_a_table_is_read_as_the_whole_was(self, tmp_path: Path, capsys: Any) -> None:
        whole = ["250,2024-01-05,1.5,2024-02-29", "401,2024-01-06,2,lost", "V45,2024-01-07,3,", "007,,4,2024-03-01"]
        part = ["250,2024-01-05,1,2024-02-29", "401,,2,2024-02-29", "007,2024-01-07,,2024-03-01", ",,3,"]
        empty = [",,3,", ",,1,"]
        paths = [tmp_path / f"{name}.csv" for name in ("whole", "part", "empty")]
        for path, lines in zip(paths, (whole * 10, part, empty), strict=True):
            path.write_text("icd,day,dose,note\n" + "\n".join(lines) + "\n")
        # Each row comes ten times, so that holes seem to follow from codes.
        fill = ["--structural-missing", "fill"]
        assert main(["fit", str(paths[0]), "-o", f"{tmp_path}/m", "--steps", "2", *fill]) == 0
        capsys.readouterr()
        for path in paths[1:]:
            assert main(["impute", f"{tmp_path}/m", str(path), "-o", f"{tmp_path}/out.csv"]) == 0
            assert capsys.readouterr().err == ""
            before, after = (pd.read_csv(name, dtype=str) for name in (path, tmp_path / "out.csv"))
            seen = before.notna()
            assert (after["icd"][seen["icd"]] == before["icd"].dropna()).all()
            assert set(after["icd"]) <= {"250", "401", "V45", "007"}
            assert set(after["note"]) <= {"2024-02-29", "lost", "2024-03-01"}
            assert not after.isna().to_numpy().any()

    @pytest.mark.parametrize("first", [404684003123456789, 2**63 + 1])
    def test_large_numbers_keep_every_digit(self, first: int, tmp_path: Path, capsys: Any) -> None:
        rows = [f"{first + i % 4},{i % 3},{first + 3 * i}" if i % 5 else ",1," for i in range(60)]
        (tmp_path / "t.csv").write_text("\n".join(["n,k,x", *rows]) + "\n")
        part = [f"{first + 1},1,{first + 3}", ",,", f"{first},2,{first + 4}", ",1,5"]
        (tmp_path / "part.csv").write_text("\n".join(["n,k,x", *part]) + "\n")
        assert main(["fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m", "--steps", "2"]) == 0
        assert capsys.readouterr().err == ""
        for name in ("t.csv", "part.csv"):
            assert main(["impute", f"{tmp_path}/m", f"{tmp_path}/{name}", "-o", f"{tmp_path}/out.csv"]) == 0
            before, after = (pd.read_csv(tmp_path / file, dtype=str) for file in (name, "out.csv"))
            assert not after.isna().any(axis=None)
            assert (after[before.notna()].fillna("") == before.fillna("")).all(axis=None)
            assert after["n"].map(int).between(first, first + 3).all()
        assert main(["sample", f"{tmp_path}/m", "-n", "9", "-o", f"{tmp_path}/out.csv"]) == 0
        assert set(pd.read_csv(tmp_path / "out.csv", dtype=str)["n"].map(int)) <= {first + i for i in range(4)}

    def test_a_mark_stands_for_no_neighbour(self, tmp_path: Path) -> None:
        rows = [f"{(2**53, 2**53 + 1)[i % 5 == 0]},{i % 3}" for i in range(40)]
        (tmp_path / "t.csv").write_text("\n".join(["n,k", *rows]) + "\n")
        mark = ["--missing-values", "9007199254740993"]
        assert main(["fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m", "--steps", "2", *mark]) == 0
        assert main(["impute", f"{tmp_path}/m", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/out.csv"]) == 0
        assert set(pd.read_csv(tmp_path / "out.csv", dtype=str)["n"]) == {"9007199254740992"}

    def test_rows_without_any_cell_are_filled_too(self, model: str, tmp_path: Path, capsys: Any) -> None:
        (tmp_path / "t.csv").write_text("age,dose=mg,sex,ward\n,,,\n33,,,\n,,,\n,,,\n")
        assert main(["impute", model, f"{tmp_path}/t.csv", "-o", f"{tmp_path}/out.csv"]) == 0
        told = "t.csv: its last rows, 2, have no cell and are taken as rows: delete them if they are none"
        assert capsys.readouterr().err == f"missdiff: warning: {told}\n"
        assert pd.read_csv(tmp_path / "out.csv").notna().to_numpy().sum() == 4 * 4

    def test_blank_lines_of_one_column_are_filled(self, tmp_path: Path) -> None:
        lines = ["x", *("" if i % 7 == 3 else str(i) for i in range(60))]
        (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
        assert main(["fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m", "--steps", "2"]) == 0
        assert main(["impute", f"{tmp_path}/m", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/out.csv"]) == 0
        after = (tmp_path / "out.csv").read_text().splitlines()
        assert len(after) == len(lines)
        assert all(after)
        assert all(new == old for new, old in zip(after, lines, strict=True) if old)

    def test_a_kept_column_is_copied_as_it_is_written(self, model: str, table: str, tmp_path: Path) -> None:
        frame = pd.read_csv(table, dtype=str).assign(code=[f"{i:03}" for i in range(ROWS)])
        frame.to_csv(tmp_path / "coded.csv", index=False)
        line = f"impute {model} {tmp_path}/coded.csv --keep code -o {tmp_path}/out.csv"
        assert main(line.split()) == 0
        assert pd.read_csv(tmp_path / "out.csv", dtype=str)["code"].equals(frame["code"])

    def test_refusals(self, model: str, data: str, table: str, tmp_path: Path, capsys: Any) -> None:
        impute = ["impute", model]
        out = tmp_path / "out.csv"
        assert refused(capsys, *impute, data, "-o", out) == (
            f"{data} has columns that the model does not know: ['patient']; --keep 'patient' copies them as they are"
        )
        assert refused(capsys, *impute, table, "--keep", "nurse").startswith("--keep 'nurse': the table has no such")
        assert refused(capsys, *impute, table, "--draws", 0, "-o", out) == "--draws must be at least 1, not 0"
        assert refused(capsys, *impute, table, "--draws", 2) == (
            "--draws writes one file for each draw: say where with -o OUT"
        )
        frame = pd.read_csv(table)
        frame.drop(columns="age").to_csv(tmp_path / "narrow.csv", index=False)
        assert "'age'" in refused(capsys, *impute, tmp_path / "narrow.csv")
        frame.assign(sex="unknown").to_csv(tmp_path / "strange.csv", index=False)
        message = refused(capsys, *impute, tmp_path / "strange.csv")
        assert "'sex'" in message
        assert "'unknown'" in message
        frame.assign(age="old").to_csv(tmp_path / "words.csv", index=False)
        assert "'age'" in refused(capsys, *impute, tmp_path / "words.csv")
        assert not out.exists()

    def test_remedies_are_said_for_the_command(self, model: str, data: str, tmp_path: Path, capsys: Any) -> None:
        message = refused(capsys, "fit", data, "-o", tmp_path / "m", "--categorical", "zz")
        assert message.startswith("--categorical names ['zz'], not in the table; it has ['patient', ")
        frame = pd.read_csv(data).drop(columns="patient")
        frame.assign(age="old").to_csv(tmp_path / "words.csv", index=False)
        assert refused(capsys, "impute", model, tmp_path / "words.csv").endswith(
            ": write its cells as they were in fit"
        )
        frame.drop(columns="age").to_csv(tmp_path / "narrow.csv", index=False)
        assert "not in the table: add" in refused(capsys, "impute", model, tmp_path / "narrow.csv")
        (tmp_path / "quote.csv").write_text('a,b\n1,2\n3,"4\n5,6\n')
        assert "quote.csv, line 3: a quote" in refused(capsys, "fit", tmp_path / "quote.csv", "-o", tmp_path / "m")

"""How the commands read text files, and what they say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import make_table, refused

from missdiff_fast import MissDiff
from missdiff_fast.cli import main


class TestReading:
    def test_categorical_columns_are_kept_as_they_are_written(self, tmp_path: Path, capsys: Any) -> None:
        data, model, out = tmp_path / "d.csv", f"{tmp_path}/m", tmp_path / "o.csv"
        codes = ["02139,1E2,2", "10115,100,1", "2139,01E2,?", ",,3", "NA,100,-9.0"]
        data.write_text("zip,icd,ward,x\n" + "".join(f"{codes[i % 5]},{i}\n" for i in range(60)))
        named = [part for name in ("zip", "icd", "ward") for part in ("--categorical", name)]
        fit = ["fit", str(data), "-o", model, "--steps", "2", "--structural-missing", "fill"]
        assert main([*fit, *named, "--missing-values=-9"]) == 0
        warning = capsys.readouterr().err
        assert warning.startswith(
            "missdiff: warning: d.csv holds '?' in 12 cells of column 'ward': such texts are categories"
        )
        assert warning.count("\n") == 1
        assert main([*fit, *named, "--missing-values=-9", "--missing-values", "?"]) == 0
        assert capsys.readouterr().err == ""
        learnt = MissDiff.load(model)
        assert learnt.codec_.category_values("zip") == ["02139", "10115", "2139"]
        assert learnt.codec_.category_values("icd") == ["01E2", "100", "1E2"]
        assert learnt.codec_.category_values("ward") == ["1", "2", "3"]
        given = ["--given", "zip=02139", "--given", "icd=1E2", "--given", "ward=2"]
        assert main(["sample", model, "-n", "2", *given, "-o", str(out)]) == 0
        assert {line.rpartition(",")[0] for line in out.read_text().splitlines()[1:]} == {"02139,1E2,2"}
        assert refused(capsys, "sample", model, "-n", 2, "--given", "zip=2140").startswith(
            "--given 'zip=2140': '2140' is no category; the model knows 02139, 10115, 2139"
        )
        part = tmp_path / "part.csv"
        part.write_text("zip,icd,ward,x\n2139,100,2,5\n02139,,1,\n,100,?,7\n")
        for table in (data, part):
            assert main(["impute", model, str(table), "-o", str(out)]) == 0
            assert capsys.readouterr().err == ""
            before, after = (pd.read_csv(path, dtype=str) for path in (table, out))
            seen = before.notna() & ~before.isin(["?", "-9.0"])
            assert (after[seen].fillna("") == before[seen].fillna("")).all(axis=None)
            assert set(after["zip"]) <= {"02139", "10115", "2139"}
            assert set(after["ward"]) <= {"1", "2", "3"}

    def test_numbers_named_categorical_stay_numbers_in_parquet(self, tmp_path: Path) -> None:
        make_table().drop(columns="patient").to_parquet(tmp_path / "d.parquet")
        line = f"fit {tmp_path}/d.parquet -o {tmp_path}/m --steps 2 --categorical ward"
        assert main(line.split()) == 0
        learnt = MissDiff.load(f"{tmp_path}/m").codec_
        assert (learnt.schema["ward"].kind, learnt.category_values("ward")) == ("categorical", [10, 20, 30])
        make_table().drop(columns="patient").to_csv(tmp_path / "d.csv", index=False)
        assert main(f"impute {tmp_path}/m {tmp_path}/d.csv -o {tmp_path}/o.csv".split()) == 0

    def test_leading_zeros_that_are_lost_are_told(self, tmp_path: Path, capsys: Any) -> None:
        (tmp_path / "d.csv").write_text("zip,x\n" + "".join(f"0{2139 + i % 7},{i}\n" for i in range(40)))
        told = (
            "missdiff: warning: d.csv: columns of numbers lose leading zeros ('02139' in column 'zip'): if they are "
            "codes, read them as text, {} 'zip'\n"
        )
        assert main(["fit", f"{tmp_path}/d.csv", "-o", f"{tmp_path}/m", "--steps", "2"]) == 0
        assert capsys.readouterr().err == told.format("--categorical")
        assert main(["mask", f"{tmp_path}/d.csv", "-o", f"{tmp_path}/o.csv"]) == 0
        assert capsys.readouterr().err == told.format("--keep")
        for options in (["fit", "--steps", "2", "--categorical", "zip"], ["mask", "--keep", "zip"]):
            assert main([options[0], f"{tmp_path}/d.csv", "-o", f"{tmp_path}/o.csv", *options[1:]]) == 0
            assert capsys.readouterr().err == ""

    def test_a_dropped_column_is_not_warned_of(self, tmp_path: Path, capsys: Any) -> None:
        (tmp_path / "d.csv").write_text("zip,d,x\n" + "".join(f"0{i % 9},2024-02-30,{i / 7}\n" for i in range(40)))
        drop = ["--drop", "zip", "--drop", "d"]
        assert main(["fit", f"{tmp_path}/d.csv", "-o", f"{tmp_path}/m", "--steps", "2", *drop]) == 0
        assert capsys.readouterr().err == ""

    def test_a_header_read_as_data_is_told(self, tmp_path: Path, capsys: Any) -> None:
        (tmp_path / "d.csv").write_text("age,sex\n" + "".join(f"{i % 9},{'mf'[i % 2]}\n" for i in range(40)))
        assert main(["fit", f"{tmp_path}/d.csv", "-o", f"{tmp_path}/m", "--steps", "2", "--no-header"]) == 0
        assert capsys.readouterr().err == (
            "missdiff: warning: d.csv: line 1 holds texts such as 'age' where all others hold numbers; if it is the "
            "header, leave out --no-header\n"
        )

    def test_bad_ways_of_reading(self, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        fit = ["fit", data, "-o", tmp_path / "m"]
        for separator in ("", "\n", "é", "::"):
            told = refused(capsys, *fit, "--separator", separator)
            assert told == (
                f"{data} cannot be read: --separator must be one character of ASCII, no quote and no line break, or "
                f"'\\s+' for white space, got {separator!r}"
            )
        assert "--decimal must be '.' or ',', got ''" in refused(capsys, *fit, "--decimal", "")
        assert "--skip-rows must be 0 or more, got -1" in refused(capsys, *fit, "--skip-rows", "-1")
        assert "encoding '' is not known" in refused(capsys, *fit, "--encoding", "")

    def test_a_table_without_a_header(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        data, model, out = tmp_path / "d.csv", tmp_path / "m", tmp_path / "o.csv"
        data.write_text("ward 7, 2024\n" + "1,?,yes,p1\n2,5.5,no,p2\n3,6.5,?,p3\n" * 5)
        read = ["--no-header", "--skip-rows", "1", "--missing-values", "?"]
        assert main(["fit", str(data), "-o", str(model), "--steps", "2", "--drop", "3", *read]) == 0
        assert main(["sample", str(model), "-n", "2", "--given", "2=yes", "-o", str(out)]) == 0
        assert [line.split(",")[2] for line in out.read_text().splitlines()] == ["yes", "yes"]
        assert main(["sample", str(model), "-n", "2", "--given", "2=yes", "-o", str(out), "--plain"]) == 0
        assert out.read_text().splitlines()[0] == "0,1,2"
        assert main(["impute", str(model), str(data), "--keep", "3", "-o", str(out), *read]) == 0
        filled = pd.read_csv(out, header=None)  # as the file has none
        assert filled.shape == (15, 4)
        assert not filled.isna().any().any()
        assert main(["impute", str(model), str(out), "--keep", "3", "--no-header"]) == 0, "its own output is read again"

    def test_remedies_name_the_options(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        data = tmp_path / "d.csv"
        fit = ["fit", data, "-o", tmp_path / "m", "--steps", "1"]
        data.write_text("1,2,1\n3,4,5\n")
        assert refused(capsys, *fit).endswith("if that line is no header, pass --no-header")
        data.write_text("X1,X2\nage,stay\n" + "1,2\n3,4\n" * 3)
        assert main([str(arg) for arg in fit]) == 0
        assert "the line before it is not, pass --skip-rows 1, or, if it holds units" in capsys.readouterr().err
        data.write_text("a,b\n" + '1,2\n3,"not done, why"\n2,§\n4,5\n6,7\n8,9\n')
        assert main([str(arg) for arg in fit]) == 0
        marks, words, *_ = capsys.readouterr().err.splitlines()
        assert marks.endswith("if they stand for missing cells, name them, --missing-values '§'")
        assert "name them, --missing-values 'not done, why', or, if they are codes, read the column as text, " in words
        data.write_text("id,x,hadm id\n" + "".join(f"{7 * i},{i % 9},{9 * i}\n" for i in range(120)))
        assert main([str(arg) for arg in fit]) == 0
        warning = capsys.readouterr().err
        assert "'hadm id' (120 distinct whole numbers in 120 cells) look like identifiers, so they are not" in warning
        assert warning.endswith(
            "to learn them all the same, pass --treat 'id=continuous' --treat 'hadm id=continuous'\n"
        )
        assert warning.count("\n") == 1
        data.write_text("note,x,y\n" + "".join(f"seen on day p{i},{i % 9},\n" for i in range(120)))
        assert main([str(arg) for arg in fit]) == 0
        warning = capsys.readouterr().err
        assert "column 'note' (120 distinct texts in 120 cells) holds free text, so it is not learnt" in warning
        assert (
            "if it holds dates, write all in one form, such as 2024-02-29 or 29.02.2024, or "
            "to silence this, drop the column, --drop 'note'" in warning
        )
        assert "column 'y' has no observed cell" in warning
        assert "frame" not in warning
        data.write_text("day,x\n" + "".join(f"2024 {i // 28 + 1} {i % 28 + 1},{i}\n" for i in range(140)) * 2)
        assert refused(capsys, *fit, "--max-categories", "100").endswith(
            "'day' (140 > 100) has too many categories: drop the column, --drop 'day'; if it holds dates, write all "
            "in one form, such as 2024-02-29 or 29.02.2024; or raise --max-categories"
        )

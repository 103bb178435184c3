"""Texts such as NA, which mean "missing" or are codes; and bytes of another encoding."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import refused

from missdiff_fast import MissDiff
from missdiff_fast.cli import main
from missdiff_fast.table import read_table

QUICK = [
    *("--steps", "2", "--no-refine", "--width", "16", "--blocks", "1", "--seed", "0"),
    *("--setting", "blend.rows_per_feature=0", "--setting", "calibration.rounds=0"),
]


class TestNA:
    TEXT = "country,x\n" + "".join(f"{('NA', 'DE', 'FR')[i % 3]},{i % 11}\n" for i in range(60))

    def test_the_remedy_works(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "t.csv").write_text(self.TEXT + ",3\n")
        fit = ["fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m", *QUICK]
        assert main(fit) == 0
        assert capsys.readouterr().err == (
            "missdiff: warning: t.csv: texts that usually mean missing were read as missing: 'NA' 20 times in column "
            "'country', whose other texts are alike, such as 'DE'; if they are values, keep them as texts, --keep-na "
            "'country'\n"
        )
        assert main([*fit, "--keep-na", "country"]) == 0
        assert capsys.readouterr().err == ""
        assert MissDiff.load(f"{tmp_path}/m").codec_.category_values("country") == ["DE", "FR", "NA"]
        # impute knows the code from the model.
        assert main(["impute", f"{tmp_path}/m", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/o.csv"]) == 0
        assert (tmp_path / "o.csv").read_text().startswith(self.TEXT)
        assert main(["sample", f"{tmp_path}/m", "-n", "200", "-o", f"{tmp_path}/s.csv"]) == 0
        assert '"NA",' in (tmp_path / "s.csv").read_text()
        assert read_table(tmp_path / "s.csv")["country"].notna().all()
        given = ["--given", "country=NA"]
        assert main(["sample", f"{tmp_path}/m", "-n", "3", *given, "-o", f"{tmp_path}/s.csv"]) == 0
        assert capsys.readouterr().err == ""
        with pytest.warns(UserWarning, match=r"read as texts, being in quotes: 'NA' 3 times .*missing_values=\['NA'\]"):
            assert read_table(tmp_path / "s.csv")["country"].tolist() == ["NA"] * 3
        told = refused(capsys, *fit, "--keep-na", "country", "--keep-na", "zz")
        assert told.startswith("--keep-na 'zz': the table has no such column")

    def test_copied_and_dropped_columns_are_not_warned_of(self, tmp_path: Path, capsys: Any) -> None:
        (tmp_path / "t.csv").write_text(self.TEXT.replace(",", ",1,").replace("country,1,", "country,y,"))
        fit = ["fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m", "--drop", "country", *QUICK]
        assert main(fit) == 0
        assert main(["impute", f"{tmp_path}/m", f"{tmp_path}/t.csv", "--keep", "country"]) == 0
        assert capsys.readouterr().err == ""

    @pytest.mark.parametrize(
        ("text", "cells", "told"),
        [
            ('c,x\n"NA",1\nDE,2\n,3\n', ["NA", "DE", None], ""),
            ('c,x\n"NA",1\nDE,2\nNA,3\n', ["NA", "DE", None], "'NA' once in column 'c', whose other texts are alike"),
            ("c,x\nmale,NA\nNA,2\nfemale,3\n", ["male", None, "female"], ""),
            ("c,x\nyes,1\nn/a,2\n,3\n", ["yes", None, None], "'n/a' once in column 'c', beside empty cells"),
            ("c,x\n02139,1\nNA,2\nV45,3\n,4\n", ["02139", None, "V45", None], ""),
            ('"c","x"\n"DE",1\n"NA",2\n', ["DE", None], "read as missing: 'NA' once in column 'c', in quotes"),
            ('c,x\n"DE",1\n"NA",2\n', ["DE", "NA"], "read as texts, being in quotes: 'NA' once in column 'c'"),
            ('c,x\n1.5,1\n"NA",2\n', [1.5, None], ""),
            ('c,x\n" null ",1\nx,2\n', ["null", "x"], ""),
        ],
    )
    def test_words(self, text: str, cells: list[object], told: str, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text(text)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            column = read_table(tmp_path / "t.csv")["c"]
        assert column.astype(object).where(column.notna(), None).tolist() == cells
        assert len(found) == bool(told)
        assert not told or told in str(found[0].message)
        assert not found or found[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read_table(tmp_path / "t.csv", missing_values=["NA", "n/a"])
            kept = read_table(tmp_path / "t.csv", keep_na_columns=["c"])["c"]
        assert kept.notna().sum() == sum(not line.startswith(",") for line in text.splitlines()[1:])


class TestEncoding:
    def read(self, data: bytes, folder: Path) -> tuple[pd.DataFrame, list[str]]:
        (folder / "t.csv").write_bytes(data)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            frame = read_table(folder / "t.csv")
        assert all(warning.filename == __file__ for warning in found)
        return frame, [str(warning.message) for warning in found]

    def test_one_byte_that_is_not_utf_8(self, tmp_path: Path) -> None:
        frame, told = self.read("city,x\r\nKöln,1\r\nŁódź,2\r\n".encode() + b"Z\xfcrich,3\r\n", tmp_path)
        assert frame["city"].tolist() == ["Köln", "Łódź", "Zürich"]
        assert told == [
            "t.csv, line 4: the byte 0xfc is not UTF-8, as the other characters beyond ASCII are, and was read as "
            "Windows-1252, 'Zürich,3'; mend the line, or, if all of the file is Windows-1252, pass encoding='cp1252'"
        ]
        _, told = self.read("city,x\nKöln,1\nŁódź,2\n".encode() + b"\xfc\x81,3\n", tmp_path)
        assert "'ü\\x81,3', and 1 more such bytes; mend" in told[0]

    def test_windows_1252(self, tmp_path: Path) -> None:
        assert self.read("city,x\nKöln,1\nNîmes Œ,2\n".encode("cp1252"), tmp_path)[1] == []

    def test_other_encodings_are_told(self, tmp_path: Path) -> None:
        _, told = self.read("city,x\nBonn,1\nЖЖЖЖЖ,2\n".encode("cp1251"), tmp_path)
        assert told == [
            "t.csv is not UTF-8 and was read as Windows-1252, which may be wrong: line 3 reads 'ÆÆÆÆÆ,2'; if it is, "
            "give the right encoding"
        ]
        assert "line 2 reads 'a\\x81ü,1'" in self.read(b"city,x\na\x81\xfc,1\n", tmp_path)[1][0]

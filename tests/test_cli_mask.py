"""``missdiff mask`` as its user meets it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest

from missdiff_fast.cli import build_parser, main
from missdiff_fast.missingness import MECHANISMS, Target, hide
from missdiff_fast.table import io

ROWS = 60


def table() -> pd.DataFrame:
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": [f"{i:03}" for i in range(ROWS)],
            "age": random.integers(20, 90, ROWS),
            "dose": np.round(random.normal(5, 1, ROWS), 2),
            "sex": random.choice(["female", "male"], ROWS),
            "smokes": random.random(ROWS) < 0.5,
        }
    )


@pytest.fixture
def data(tmp_path: Path) -> str:
    table().to_csv(tmp_path / "data.csv", index=False)
    return str(tmp_path / "data.csv")


def refused(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """Run the command, which must end with code 2, nothing on stdout and one line on stderr; the line."""
    try:
        code: object = main(["mask", *map(str, args), "--keep", "id"])  # its leading zeros would cause a warning
    except SystemExit as stop:
        code = stop.code
    output = capsys.readouterr()
    assert (code, output.out, output.err.count("\n")) == (2, "", 1), output.err
    return output.err.removeprefix("missdiff: error: ").rstrip("\n")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_it_hides_what_the_library_hides_and_changes_no_other_cell(mechanism: str, data: str, tmp_path: Path) -> None:
    line = f"mask {data} --mechanism {mechanism} --ratio 0.3 --seed 4 --keep id -o {tmp_path}/out.csv"
    assert main(line.split()) == 0
    before, after = (pd.read_csv(path, dtype=str, keep_default_na=False) for path in (data, tmp_path / "out.csv"))
    assert list(after.columns) == list(before.columns)
    observed = hide(table().drop(columns="id"), mechanism, 0.3, 4)[1]  # type: ignore[arg-type]
    assert after["id"].tolist() == before["id"].tolist()
    assert after.drop(columns="id").equals(before.drop(columns="id").where(observed, ""))


@pytest.mark.parametrize("name", ["out.csv.gz", "out.parquet", "out.feather"])
def test_whole_numbers_stay_whole(name: str, tmp_path: Path) -> None:
    frame = table().astype({"age": "int32"}).assign(count=np.arange(ROWS, dtype=np.uint8))
    frame.to_parquet(tmp_path / "data.parquet")
    line = f"mask {tmp_path}/data.parquet --mechanism column --ratio 0.5 --seed 0 -o {tmp_path}/{name}"
    assert main(line.split()) == 0
    after = io.read_table(tmp_path / name)
    assert after.isna().sum().tolist() == [30] * 6
    if name.endswith("gz"):
        text = pd.read_csv(tmp_path / name, dtype=str)
        assert text["age"].dropna().str.fullmatch(r"\d\d").all()
    else:
        assert [str(after[column].dtype) for column in ("age", "smokes", "count")] == ["Int32", "boolean", "UInt8"]


def test_stdout_and_seeds(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    def rows(*options: str) -> str:
        assert main(["mask", data, "--keep", "id", *options]) == 0
        output = capsys.readouterr()
        assert output.err == ""
        return output.out

    assert rows("--seed", "5") == rows("--seed", "5", "--mechanism", "independent", "--ratio", "0.2")
    assert rows("--seed", "5") != rows("--seed", "6")
    assert rows() != rows()


def test_plain_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{number},5;{'<' if number % 4 == 0 else ''}{number % 4},5;27.08.2022;x" for number in range(40)]
    (tmp_path / "d.csv").write_bytes("\r\n".join(["größe;crp;seen;k", *rows]).encode("cp1252"))
    line = f"mask {tmp_path}/d.csv --ratio 0.01 --seed 0 --keep k --plain -o {tmp_path}/out.csv"
    assert main(line.split()) == 0
    written = (tmp_path / "out.csv").read_bytes().decode()
    assert written.endswith("\n")
    lines = written.split("\n")
    assert lines[0] == "größe,crp,seen,k"
    whole = [f"{number}.5,{'<' if number % 4 == 0 else ''}{number % 4}.5,27.08.2022,x" for number in range(40)]
    cells = [line.split(",") for line in whole]
    written_cells = [line.split(",") for line in lines[1:-1]]
    assert [len(row) for row in written_cells] == [4] * 40
    hidden = [(at, place) for at in range(40) for place in range(4) if written_cells[at][place] == ""]
    assert 0 < len(hidden) < 6
    for at, place in hidden:
        assert place < 3, "the column to keep"
        cells[at][place] = ""
    assert written_cells == cells


@pytest.mark.parametrize("seed", [0, 1])
def test_plain_text_of_limits(seed: int, tmp_path: Path) -> None:
    """Columns to copy stay as they are; the others have points, even if every limit is hidden."""
    rows = [f"{'<' if number < 12 else ''}{number % 12 + 12 * (number >= 12)},5" for number in range(40)]
    lines = [f"{cell};{cell};{number},5" for number, cell in enumerate(rows)]
    (tmp_path / "d.csv").write_text("\n".join(["crp;same;n", *lines]) + "\n")
    line = f"mask {tmp_path}/d.csv --ratio 0.9 --seed {seed} --keep same --keep n --plain -o {tmp_path}/out.csv"
    assert main(line.split()) == 0
    after = pd.read_csv(tmp_path / "out.csv", dtype=str, keep_default_na=False)
    assert after["same"].tolist() == rows
    assert after["n"].tolist() == [f"{number},5" for number in range(40)]
    seen = {cell for cell in after["crp"] if cell}
    assert 0 < len(seen) < 10
    assert any(cell.startswith("<") for cell in seen) == (seed == 0)
    assert seen <= {cell.replace(",", ".") for cell in rows}


def test_holes_that_are_there_stay_and_rows_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "d.csv").write_text("a,b\n" + "1,x\n?,y\n,\n3,z\n" * 20)
    line = f"mask {tmp_path}/d.csv --missing-values ? --ratio 0.1 --mechanism column --seed 0"
    assert main(line.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 81
    assert set(lines[3::4]) == {","}
    assert {line.split(",")[0] for line in lines[2::4]} == {""}


@pytest.mark.parametrize("first", [2**53 + 1, 2**63 + 1])
def test_large_numbers_keep_every_digit(first: int, tmp_path: Path) -> None:
    rows = [f"{first + 2 * i},{i % 7}" if i % 5 else f",{i % 7}" for i in range(40)]
    (tmp_path / "d.csv").write_text("\n".join(["n,k", *rows]) + "\n")
    assert main(["mask", f"{tmp_path}/d.csv", "--seed", "1", "-o", f"{tmp_path}/out.csv"]) == 0
    before, after = (pd.read_csv(tmp_path / name, dtype=str, keep_default_na=False) for name in ("d.csv", "out.csv"))
    assert ((after == before) | (after == "")).all(axis=None)
    assert 0 < (after["n"] == "").sum() - (before["n"] == "").sum() < 20


def test_the_target_of_mar(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    mar = ["mask", data, "--keep", "id", "--mechanism", "mar", "--observed-share", "0.5", "--seed", "1"]
    assert main([*mar, "--ratio", "0.9", "--target", "columns"]) == 0
    lines = [line.split(",")[1:] for line in capsys.readouterr().out.splitlines()[1:]]
    missing = [sum(not cell for cell in column) for column in zip(*lines, strict=True)]
    assert sorted(missing)[:2] == [0, 0]
    assert min(sorted(missing)[2:]) >= 42
    assert refused(capsys, *mar[1:], "--ratio", "0.9") == (
        "ratio 0.9 is out of reach: 2 of the 4 columns stay complete, so less than 0.5 of the cells can go missing; "
        "lower --ratio or --observed-share, or count only the other columns, --target columns"
    )


def test_a_column_kept_twice_and_nothing_hidden(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", data, "--keep", "id", "--keep", "id", "--mechanism", "row"]) == 0
    output = capsys.readouterr()
    assert output.out == Path(data).read_text()
    assert output.err == (
        "missdiff: warning: mechanism 'row' hides no cell: floor(4 columns * 0.2) = 0; give a --ratio of at "
        "least 0.25, or choose independent\n"
    )


def test_refusals(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for ratio in ("0", "1", "20", "-0.1", "nan"):
        message = f"--ratio must be greater than 0 and less than 1, got {float(ratio)}"
        assert refused(capsys, data, f"--ratio={ratio}") == message
    assert refused(capsys, data, "--mechanism", "mar", "--observed-share", "1.5").startswith(
        "--observed-share must be greater than 0"
    )
    for option, value in (("--target", "columns"), ("--observed-share", "0.4")):
        assert refused(capsys, data, option, value) == (
            f"{option} is for the mechanisms mar and nmar, not for independent: leave it out"
        )
    assert refused(capsys, data, "--seed", "-1").startswith("--seed must lie in [0, 2**64), got -1")
    assert refused(capsys, data, "--mechanism", "mcar").startswith("argument --mechanism: invalid choice: 'mcar'")
    assert refused(capsys, data, "--ratio", "a fifth").startswith("argument --ratio: invalid float value: 'a fifth'")
    assert refused(capsys, data, "--keep", "ward").startswith("--keep 'ward': the table has no such column")
    assert refused(capsys, tmp_path / "no.csv") == f"{tmp_path}/no.csv: there is no such file"
    assert refused(capsys, data, "-o", data).startswith(f"-o {data} would overwrite {data}, which is read")
    assert "out.docx" in refused(capsys, data, "-o", tmp_path / "out.docx")
    keep = [word for column in ("id", "age", "dose", "sex") for word in ("--keep", column)]
    assert refused(capsys, data, *keep, "--mechanism", "mar") == (
        "mechanism 'mar' needs at least 2 columns, one for the others' masks to depend on, and the table has 1; "
        "choose column or independent"
    )
    assert refused(capsys, data, *keep, "--mechanism", "row").endswith("choose column or independent")
    message = "--keep names every column, so there are no cells to hide"
    assert refused(capsys, data, *keep, "--keep", "smokes") == message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv"]


def test_the_options_name_every_mechanism_and_target() -> None:
    for mechanism in MECHANISMS:
        assert build_parser().parse_args(["mask", "d", "--mechanism", mechanism]).mechanism == mechanism
    for target in get_args(Target):
        assert build_parser().parse_args(["mask", "d", "--target", target]).target == target

"""Errors with structure, and their words in Python and on the command line."""

from __future__ import annotations

import pickle
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import refused
from frames import fit_codec

from missdiff_fast import errors, remedies
from missdiff_fast.cli import build_parser, main
from missdiff_fast.cli.commands import NAMES
from missdiff_fast.cli.errors import Wording, message, written
from missdiff_fast.table.schema import _FAULTS, check_frame

ARGUMENTS = {
    "header": False,
    "skip_rows": 2,
    "skip_lines": [2, 3],
    "missing_values": ["?", "--", "it's"],
    "string_columns": ["zip code"],
    "keep_na_columns": ["land"],
    "date_order": "day",
    "target": "columns",
    "device": "cpu",
    "backend": "reference",
    "sheet": "stays  of '24",
    "query": 'SELECT * FROM "all stays"',
}
REMEDIES: list[remedies.Remedy] = [
    remedies.Do("mend the line"),
    *(remedies.Pass(name, value) for name, value in ARGUMENTS.items()),
    remedies.Pass("header", False, goal="read with", more=(remedies.Pass("missing_values", ["?"]),)),
    remedies.LeaveOut("header", False),
    remedies.Adjust("raise", ("max_categories",)),
    remedies.Adjust("lower", ("learning_rate",)),
    remedies.Adjust("lower", ("ratio", "observed_share")),
    remedies.Give("separator"),
    remedies.Give("encoding", when="if it is text"),
    remedies.AtLeast("ratio", "0.25"),
    remedies.Drop(("a b", "--")),
    remedies.Treat({"a b": "categorical", "--": "continuous"}),
    remedies.CapCategories(),
    remedies.RenameColumns(),
    remedies.MakeFrame("to_pandas"),
    remedies.ReadWith("pandas.read_sas"),
    remedies.FitAgain(),
    remedies.FitAgain(lower="learning_rate"),
    *(remedies.Convert(to) for to in remedies.CONVERSIONS),
]
PARSERS = next(action for action in build_parser()._actions if action.dest == "command").choices
SETTING = re.compile(r"--[a-z][a-z-]*(?:[ =](?:'(?:[^']|'\\'')*'(?!\w)|\d+|columns|cpu|reference|day))?")


def wording(command: str) -> Wording:
    return Wording(command, frozenset(PARSERS[command]._option_string_actions))


def settings(text: str) -> list[str]:
    """The options with their values that a message names, as a shell gives them."""
    return shlex.split(" ".join(SETTING.findall(text)))


def test_the_remedies_here_are_of_every_kind() -> None:
    assert {type(remedy) for remedy in REMEDIES} == set(remedies.Remedy.__subclasses__())


@pytest.mark.parametrize("command", NAMES)
def test_a_command_names_only_options_that_it_has(command: str) -> None:
    words = wording(command)
    for remedy in REMEDIES:
        text = words(remedy)
        if text is None:
            continue
        parser = PARSERS["fit" if "missdiff fit" in text else command]
        for option in re.findall(r"(?<![\w'=])--[a-z][a-z-]*", text):
            assert option in parser._option_string_actions, f"{command}: {text}"
        python = r"frame|astype|pandas|\.dt\.|\.cat\.|[a-z]_[a-z]|\w="
        assert not re.search(python, re.sub(r"--treat[ =]'[^']*'|--[a-z-]+=", "", text)), text


@pytest.mark.parametrize(
    ("command", "remedy", "text"),
    [
        ("fit", remedies.Pass("missing_values", ["--"]), "pass --missing-values='--'"),
        (
            "fit",
            remedies.Pass("string_columns", ["zip"], goal="read it as text,"),
            "read it as text, --categorical 'zip'",
        ),
        ("evaluate", remedies.Pass("string_columns", ["zip"]), "pass --categorical 'zip'"),
        ("mask", remedies.Pass("string_columns", ["zip"]), "pass --keep 'zip'"),
        (
            "impute",
            remedies.Pass("string_columns", ["z"], goal="as text,"),
            "as text, run missdiff fit again with --categorical 'z'",
        ),
        ("mask", remedies.Pass("keep_na_columns", ["c"], goal="keep it,"), "keep it, --keep-na 'c'"),
        (
            "impute",
            remedies.Pass("keep_na_columns", ["c"], goal="keep it,"),
            "keep it, run missdiff fit again with --keep-na 'c'",
        ),
        ("evaluate", remedies.Drop(("id",)), "drop the column, --drop 'id'"),
        ("mask", remedies.Drop(("id",)), "copy the column as written, --keep 'id'"),
        ("impute", remedies.Drop(("id",)), None),
        ("fit", remedies.FitAgain(lower="learning_rate"), "use a lower --learning-rate"),
        ("sample", remedies.FitAgain(lower="learning_rate"), "run missdiff fit again with a lower --learning-rate"),
        ("demo", remedies.FitAgain(lower="learning_rate"), None),
        ("mask", remedies.Pass("device", "cpu", goal="use"), None),
        ("sample", remedies.Pass("device", "cpu", goal="use"), "use --device cpu"),
        ("fit", remedies.CapCategories(), None),
    ],
)
def test_words_of_the_command(command: str, remedy: remedies.Remedy, text: str | None) -> None:
    assert wording(command)(remedy) == text


def test_a_remedy_that_the_command_lacks_is_left_out() -> None:
    three = remedies.Drop(("d",)), remedies.Adjust("raise", ("max_categories",)), remedies.CapCategories()
    error = errors.DataError("cardinality", "too many categories", columns=["d"], remedy=three)
    assert str(error).startswith("too many categories: drop the column, frame.drop(columns=['d']); raise max_categ")
    assert (
        message(error, wording("fit")) == "too many categories: drop the column, --drop 'd', or raise --max-categories"
    )
    assert message(error, wording("sample")) == "too many categories"


@pytest.mark.parametrize("kind", _FAULTS)
def test_faults_of_columns_are_said_for_the_command(kind: str) -> None:
    error_type, wrong, remedies = _FAULTS[kind]
    for command in NAMES:
        told = message(error_type(kind, wrong, columns=["x"], remedy=remedies), wording(command))
        assert "frame" not in told
        assert ".astype" not in told


def test_errors_have_their_parts() -> None:
    frame = pd.DataFrame({"x": [1.0, np.inf], "y": [None, None], "z": [1.0, 2.0]})
    with pytest.raises(ValueError, match="infinite values") as caught:
        fit_codec(frame)
    error = caught.value
    assert isinstance(error, errors.DataError)
    assert (error.kind, error.columns) == ("infinite", ("x",))
    assert [(other.kind, other.columns) for other in error.also] == [("empty", ("y",))]
    assert error.problem == "column 'x' (1 of 2 cells) has infinite values"
    assert str(error) == (
        "column 'x' (1 of 2 cells) has infinite values: replace them, or make them missing. Also, column 'y' has no "
        "observed cell: drop the column, frame.drop(columns=['y'])"
    )


@pytest.mark.parametrize(
    "error",
    [
        errors.DataError(
            "kind",
            errors.Text(
                "{argument} of {table} is {value!r}",
                argument=remedies.Argument("a"),
                table=remedies.Table("real"),
                value="{}",
            ),
            columns=["x", 3],
            value="{}",
            remedy=REMEDIES,
            also=[errors.DataTypeError("other", "more")],
        ),
        errors.DataWarning("kind", "odd", remedy=remedies.Do("look")),
        errors.DivergedError("cells", "not finite"),
    ],
    ids=["error", "warning", "diverged"],
)
def test_errors_are_pickled(error: errors.Structured) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert (copy.kind, copy.columns, copy.value, copy.remedy) == (error.kind, error.columns, error.value, error.remedy)
    assert copy.args == error.args == (str(error),)


def test_types_of_errors() -> None:
    assert issubclass(errors.DataError, ValueError)
    assert issubclass(errors.DataTypeError, TypeError)
    assert issubclass(errors.DivergedError, FloatingPointError)
    assert issubclass(errors.DataWarning, UserWarning)


@pytest.mark.parametrize(
    "column",
    [pd.Series(pd.cut([np.nan, -0.5, 0.5, 0.7], [-1, 0, 1])), pd.Series([None, 1, "0", 1], dtype=object)],
    ids=["intervals", "mixed types"],
)
def test_advice_for_strings_keeps_missing_cells(column: pd.Series) -> None:
    frame = pd.DataFrame({"c": column, "x": [1.0, 2.0, 3.0, 4.5]})
    with pytest.raises((TypeError, ValueError), match=r"\.astype\('string'\)"):
        fit_codec(frame)
    codec = fit_codec(frame.assign(c=frame["c"].astype("string")))
    assert not {"nan", "None", "<NA>"} & set(codec.category_values("c"))
    assert len(codec.category_values("c")) == 2


def test_a_frame_of_another_library_is_told_its_own_way() -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"age": [31.5, None], "sex": ["f", "m"]})
    with pytest.raises(
        TypeError,
        match=r"expected a pandas or polars DataFrame or a pyarrow Table, got Table: convert it, \.to_pandas\(\)",
    ):
        check_frame(table)
    assert check_frame(table.to_pandas()) == ["age", "sex"]


class TestRemediesAreRun:
    """The options that a message names are given, and the message is gone."""

    def remedied(self, capsys: pytest.CaptureFixture[str], *args: object) -> str:
        """Run the command until it neither fails nor warns, each time with the options that it named; all it said."""
        said = ""
        options: list[str] = []
        for _ in range(3):
            code = main([*map(str, args), *options])
            told = capsys.readouterr().err
            if not told:
                assert code == 0
                return said
            said += told
            named = settings(told)
            assert named, told
            options += named
        raise AssertionError(f"the remedies did not help: {said}")

    @pytest.fixture
    def fit(self, tmp_path: Path) -> list[object]:
        return ["fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--steps", "1", "--width", "16", "--no-refine"]

    @pytest.mark.parametrize(
        ("text", "named"),
        [
            ("1,2,1\n3,4,5\n6,7,2\n", "--no-header"),
            ("X1,X2\nage,stay\n" + "1,2\n3,4\n" * 3, "--skip-rows 1"),
            ("a,b\n" + "".join(f"{['--', '1.5', '2.5', '3'][i % 4]},{i * 3 % 11}\n" for i in range(60)), "='--'"),
            ("a,b\n" + '1,2\n3,"it\'s lost"\n2,?\n4,5\n6,7\n8,9\n', r"'it'\''s lost'"),
            (
                "id,x,k\n" + "".join(f"{7 * i},{i % 9},a\n{7 * i + 1},{i % 9},b\n" for i in range(120)),
                "--treat 'id=continuous'",
            ),
            ("zip,x\n" + "".join(f"0{2139 + i % 7},{i / 3:.2f}\n" for i in range(40)), "--categorical 'zip'"),
            ("y,x\n" + "".join(f",{i}\n" for i in range(9)), "--drop 'y'"),
            ("d,x\n2024-02-30,1\n" + "".join(f"2024-02-0{i},{i}\n" for i in range(1, 9)), "--missing-values '2024-02"),
        ],
        ids=["header", "second header", "dashes", "marks", "identifier", "zeros", "empty", "dates"],
    )
    def test_fit(
        self, text: str, named: str, fit: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "t.csv").write_text(text)
        assert named in self.remedied(capsys, *fit)

    def test_too_many_categories(self, fit: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        pd.DataFrame({"dx": [f"I{i % 236}" for i in range(944)], "x": np.arange(944.0) % 7}).to_csv(
            tmp_path / "t.csv", index=False
        )
        told = refused(capsys, *fit, "--max-categories", "100")
        assert "keep the most frequent" not in told
        assert told.endswith("or raise --max-categories")
        assert settings(told) == ["--drop", "dx", "--max-categories"]
        for options in (["--drop", "dx"], ["--max-categories", "300"]):
            assert main([*map(str, fit), *options]) == 0

    def test_mask(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "t.csv").write_text("zip,x,y,z\n" + "".join(f"0{i % 7},{i / 3:.2f},{i % 5},a\n" for i in range(40)))
        mask = ["mask", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/o.csv", "--seed", "0"]
        assert "--keep 'zip'" in self.remedied(capsys, *mask)
        mask += ["--mechanism", "mar", "--ratio", "0.9", "--keep", "zip"]
        told = refused(capsys, *mask)
        assert settings(told) == ["--ratio", "--observed-share", "--target", "columns"]
        assert (
            main([*map(str, mask), "--mechanism", "mar", "--ratio", "0.9", "--keep", "zip", *settings(told)[2:]]) == 0
        )

    def test_impute(self, data: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "--keep 'patient'" in self.remedied(capsys, "impute", model, data, "-o", tmp_path / "o.csv")

    def test_evaluate_after_a_column_was_dropped(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        pytest.importorskip("sdmetrics")
        x = np.random.default_rng(0).normal(size=(90, 2)).round(3)
        frame = pd.DataFrame(x, columns=["x", "y"])
        frame.assign(id=[f"p{i}" for i in range(90)]).to_csv(tmp_path / "real.csv", index=False)
        frame.iloc[::-1].to_csv(tmp_path / "synthetic.csv", index=False)
        evaluate = ["evaluate", tmp_path / "real.csv", tmp_path / "synthetic.csv", "-o", tmp_path / "o.csv"]
        assert "--drop 'id'" in self.remedied(capsys, *evaluate)
        assert refused(capsys, *evaluate, "--drop", "name").startswith("--drop 'name': the table has no such column")


def test_names_with_white_space_survive_the_line_of_a_message() -> None:
    assert written("--drop", ["a  x", "n\nl", "a b"]) == r"--drop $'a\x20\x20x' --drop $'n\x0al' --drop 'a b'"

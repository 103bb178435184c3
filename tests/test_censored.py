"""Numbers with limits of measurement, such as ``<0.1``, through the model, the command and the measures."""

from __future__ import annotations

import re
import shlex
import warnings
from pathlib import Path
from typing import Any

import frames
import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast.baselines import MeanModeImputer
from missdiff_fast.cli import main
from missdiff_fast.errors import DataError, DataWarning
from missdiff_fast.evaluate import draw_scores, fidelity, imputation_errors, protocol_errors, utility
from missdiff_fast.missingness import hide
from missdiff_fast.table import read_table

N = 1500
TEXT = re.compile(r"<0\.50|> 90|\d+\.\d\d")
QUICK = [
    *("--steps", "2", "--width", "16", "--no-refine", "--seed", "0"),
    *("--setting", "blend.rows_per_feature=0", "--setting", "calibration.rounds=0"),
]


def make_table(rows: int = N, seed: int = 0) -> pd.DataFrame:
    """A laboratory value that rises with age, and of which the low ones are limits; three cells are above 90."""
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 15, rows).round()
    crp = np.exp(rng.normal(0, 0.7, rows) + (age - 50) / 12)
    texts = np.array([f"{min(value, 89.9):.2f}" for value in crp], dtype=object)
    texts[crp < 0.5] = "<0.50"
    texts[np.argsort(crp)[-3:]] = "> 90"
    table = pd.DataFrame({"age": age, "crp": texts, "sex": rng.choice(["f", "m"], rows)})
    holes = rng.random(table.shape) < 0.1
    holes[texts == "> 90"] = False
    return table.mask(holes)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return make_table()


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> MissDiff:
    model = MissDiff(steps=400, width=48, refine=0, random_state=0, treatments={"crp": "continuous"}, verbose=False)
    return model.fit(table)


@pytest.fixture(scope="module")
def rows(model: MissDiff) -> pd.DataFrame:
    return model.sample(4 * N)


def numbers(cells: pd.Series) -> pd.Series:
    return pd.to_numeric(cells[cells.str.fullmatch(r"\d+\.\d\d", na=False)])


def test_limits_are_drawn_as_often_as_they_are_observed(table: pd.DataFrame, rows: pd.DataFrame) -> None:
    observed = table["crp"].dropna()
    assert 0.15 < (observed == "<0.50").mean() < 0.4
    for low, high in ((-np.inf, np.inf), (-np.inf, 40), (55, np.inf)):
        own, new = (
            part.loc[part["age"].between(low, high), "crp"].dropna() == "<0.50"
            for part in (table[table["age"].notna()], rows)
        )
        chance = np.sqrt(own.mean() * (1 - own.mean()) * (1 / len(own) + 1 / len(new)))
        assert abs(own.mean() - new.mean()) < 4 * chance + 0.02, (low, high, own.mean(), new.mean())


def test_a_rare_limit_is_drawn_too(rows: pd.DataFrame) -> None:
    assert 1 <= (rows["crp"] == "> 90").sum() <= 60, "three of 1,500 cells"
    assert rows.loc[rows["crp"] == "> 90", "age"].mean() > 60


def test_drawn_cells_are_texts_as_the_table_has_them(table: pd.DataFrame, rows: pd.DataFrame) -> None:
    assert rows.dtypes.equals(table.dtypes)
    assert rows["crp"].str.fullmatch(TEXT.pattern).all()
    assert set(rows["crp"]) <= set(table["crp"].dropna()), "values drawn are values observed"
    assert numbers(rows["crp"]).min() >= 0.5


def test_filled_cells(model: MissDiff, table: pd.DataFrame) -> None:
    holes = table["crp"].isna()
    for filled in (model.impute(table), *model.impute_draws(table, 2)):
        assert filled.dtypes.equals(table.dtypes)
        assert filled["crp"][~holes].equals(table["crp"][~holes])
        assert filled["crp"].str.fullmatch(TEXT.pattern).all()
        assert numbers(filled["crp"]).between(0.5, 90).all(), "a number beyond a limit is the limit"
    young = pd.DataFrame({"age": [5.0, 95.0], "crp": [None, None], "sex": ["f", "m"]})
    assert model.impute(young)["crp"].tolist()[0] == "<0.50"
    drawn = model.impute_draws(pd.concat([young] * 50, ignore_index=True), 1)[0]["crp"]
    assert (drawn[::2] == "<0.50").mean() > 0.9
    assert (drawn[1::2] == "<0.50").mean() < 0.1


def test_given_limits_and_numbers(model: MissDiff) -> None:
    low, high = (model.sample(300, given={"crp": value}) for value in ("< 0.5", 30.0))
    assert set(low["crp"]) == {"< 0.5"}
    assert set(high["crp"]) == {"30.00"}
    assert low["age"].mean() < 42 < 60 < high["age"].mean()
    rows = model.sample(given=pd.DataFrame({"crp": ["<0.50", None, "2.5", "> 90"]}))
    assert rows["crp"].tolist()[::2] == ["<0.50", "2.5"]
    assert rows["crp"].notna().all()
    with pytest.warns(DataWarning, match=re.escape("0.1 in column 'crp' (<0.50 to > 90)")):
        assert model.sample(2, given={"crp": 0.1})["crp"].tolist() == ["0.10"] * 2
    with pytest.raises(TypeError, match="column 'crp' has string cells"):
        model.sample(2, given={"crp": "low"})


def test_rows_with_holes(model: MissDiff) -> None:
    rows = model.sample(300, missing=True)
    assert 0.03 < rows["crp"].isna().mean() < 0.2
    assert rows["crp"].dropna().str.fullmatch(TEXT.pattern).all()
    assert rows["crp"].dtype == frames.TEXT


def test_a_saved_model_is_the_same(model: MissDiff, table: pd.DataFrame, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    loaded = MissDiff.load(tmp_path / "m")
    pd.testing.assert_frame_equal(loaded.sample(50), model.sample(50))
    pd.testing.assert_frame_equal(loaded.impute(table[:50]), model.impute(table[:50]))


def test_other_methods(model: MissDiff, table: pd.DataFrame) -> None:
    bound = model.score_samples(table[:50])
    assert np.isfinite(bound).all()
    with pytest.raises(ValueError, match="column 'crp' is continuous"):
        model.predict_proba(table, "crp")
    chance = model.predict_proba(table[:50], "sex")
    assert chance.notna().to_numpy().all()


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_a_quick_fit_warns_and_keeps_to_the_limits(table: pd.DataFrame, preset: str) -> None:
    paper = {"settings": {"diffusion.steps": 4, "draws": 1, "network.layers": 1, "network.channels": 8}}
    more: dict[str, Any] = paper if preset == "paper" else {"width": 16, "refine": 0}
    model = MissDiff(preset=preset, steps=2, random_state=0, verbose=False, **more)
    with pytest.warns(DataWarning) as caught:
        model.fit(table[:200])
    (said,) = [str(one.message) for one in caught]
    assert said.startswith("column 'crp' holds '<0.50' in ")
    assert said.endswith(
        "limits of measurement are learnt as values just beyond their numbers, and written back; to silence this, pass "
        "treatments={'crp': 'continuous'}; if they stand for missing cells, name them, missing_values=['<0.50']; or, "
        "if they are categories, pass treatments={'crp': 'categorical'}"
    )
    assert caught[0].filename == __file__
    for filled in (model.impute(table[:200]), model.sample(100)):
        assert filled["crp"].str.fullmatch(TEXT.pattern).all()
        assert numbers(filled["crp"]).min() >= 0.5


def test_the_warning_s_advice(table: pd.DataFrame) -> None:
    def fitted(**arguments: Any) -> MissDiff:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return MissDiff(steps=2, width=16, refine=0, random_state=0, verbose=False, **arguments).fit(table[:200])

    assert fitted(treatments={"crp": "continuous"}).codec_.schema["crp"].censored is not None
    categories = fitted(treatments={"crp": "categorical"})
    assert categories.codec_.schema["crp"].kind == "categorical"
    assert "<0.50" in categories.codec_.category_values("crp")
    missing = fitted(missing_values=["<0.50"])
    assert missing.codec_.schema["crp"].censored is None
    assert missing.sample(3)["crp"].dtype == np.float64


def test_continuous_reads_limits_of_few_numbers() -> None:
    frame = pd.DataFrame({"grade": ["0", "1+", "2+", "3+"] * 30, "x": np.arange(120) % 9})
    arguments: dict[str, Any] = {"steps": 2, "width": 16, "refine": 0, "random_state": 0, "verbose": False}
    assert MissDiff(**arguments).fit(frame).codec_.schema["grade"].kind == "categorical"
    model = MissDiff(**arguments, treatments={"grade": "continuous"}).fit(frame)
    assert model.codec_.schema["grade"].kind == "continuous"
    assert set(model.sample(50)["grade"]) <= {"0", "1+", "2+", "3+"}
    odd = pd.DataFrame({"grade": ["0", "1+", "2+", "?"] * 30, "x": np.arange(120) % 9})
    with pytest.raises(
        DataError, match=r"column 'grade' cannot be continuous: it has string cells, '\?' in 30 cells among"
    ):
        MissDiff(**arguments, treatments={"grade": "continuous"}).fit(odd)


def test_a_column_of_one_limit() -> None:
    frame = pd.DataFrame({"x": ["<1"] * 59 + [None], "y": np.arange(60) % 9})
    model = MissDiff(steps=2, width=16, refine=0, random_state=0, treatments={"x": "continuous"}, verbose=False)
    assert model.fit(frame).codec_.schema["x"].kind == "constant"
    assert model.sample(3)["x"].tolist() == ["<1"] * 3
    assert model.impute(frame)["x"].tolist() == ["<1"] * 60
    with pytest.raises(DataError, match="column 'x' was constant in fit, '<1': '<2' cannot be given"):
        model.sample(2, given={"x": "<2"})


def test_numbers_as_objects_come_back_as_objects(table: pd.DataFrame) -> None:
    """As a sheet of Excel is read."""
    mixed = table[:200].assign(
        crp=[cell if pd.isna(cell) or cell[0] in "<>" else float(cell) for cell in table["crp"][:200]]
    )
    model = MissDiff(steps=2, width=16, refine=0, random_state=0, treatments={"crp": "continuous"}, verbose=False)
    model.fit(mixed)
    for rows in (model.sample(200), model.impute(mixed)):
        assert rows["crp"].dtype == object
        assert {type(cell) for cell in rows["crp"]} == {float, str}
        assert set(rows["crp"][rows["crp"].map(type).eq(str)]) <= {"<0.50", "> 90"}
    assert model.impute(mixed)["crp"][mixed["crp"].notna()].equals(mixed["crp"].dropna())
    plain = pd.DataFrame({"age": [50.0, 60.0], "crp": [1.5, 2.5], "sex": ["f", None]})
    assert model.impute(plain)["crp"].equals(plain["crp"])


def test_plan(table: pd.DataFrame) -> None:
    count = int((table["crp"] == "<0.50").sum())
    plan = MissDiff().plan(table)
    assert plan.columns[1].treatment == "continuous"
    assert plan.columns[1].warnings == (f"censored: '<0.50' in {count} cells, '> 90' in 3 cells",)
    assert f'"crp" = "continuous"  # censored: \'<0.50\' in {count} cells' in plan.to_toml()
    almost = pd.DataFrame({"x": ["<0.1"] * 997 + ["1", "2", "3"], "y": range(1000)})
    assert "almost constant: '<0.1' in 99.70% of the observed cells" in MissDiff().plan(almost).columns[0].warnings
    odd = table.assign(crp=table["crp"].where(table.index % 50 != 0, "3.2*"))
    assert MissDiff().plan(odd).columns[1].warnings == (
        f"holds texts among numbers or dates: '3.2*' in {N // 50} cells",
    )


def test_formulas_leave_limits_out() -> None:
    value = np.random.default_rng(0).integers(1, 200, 500)
    texts = np.where(value < 20, "<2.0", [f"{number / 10:.1f}" for number in value])
    frame = pd.DataFrame(
        {"crp": texts, "crp_10": np.where(value < 20, 19, value), "low": np.where(value < 20, "y", "n")}
    )
    model = MissDiff(steps=2, width=16, random_state=0, treatments={"crp": "continuous"}, verbose=False).fit(frame)
    assert "crp" not in set(model.relations_["column"][model.relations_["kind"].isin(["linear", "difference"])])
    rows = model.sample(200)
    assert ((rows["crp"] == "<2.0") == (rows["low"] == "y")).all(), "what a limit determines is kept"


def test_baselines(table: pd.DataFrame) -> None:
    filled = MeanModeImputer().fit_impute(table)
    holes = table["crp"].isna()
    assert filled["crp"][~holes].equals(table["crp"][~holes])
    assert filled["crp"][holes].str.fullmatch(TEXT.pattern).all()
    assert filled["crp"][holes].nunique() == 1


def test_masks_depend_on_numbers_with_limits(table: pd.DataFrame) -> None:
    for mechanism in ("mar", "nmar"):
        holes, observed = hide(table.dropna(), mechanism, 0.2, 0)
        assert 0.1 < 1 - observed.mean() < 0.3
        assert holes["crp"].dropna().str.fullmatch(TEXT.pattern).all()


def test_measures_compare_numbers() -> None:
    pytest.importorskip("sdmetrics")
    real, test = (make_table(200, seed).dropna().reset_index(drop=True) for seed in (0, 1))
    plain = real.assign(crp=pd.to_numeric(real["crp"].replace({"<0.50": 0.5, "> 90": 90})))
    assert fidelity(real, real).iloc[0]["overall"] == 100
    assert protocol_errors(real, test)["shape_error"] < 12
    other = real.assign(crp=real["crp"].mask(real["crp"] == "<0.50", "0.50"))
    assert 0 < protocol_errors(real, other)["shape_error"] < 20
    observed = np.ones(real.shape, dtype=bool)
    observed[:50, 1] = False
    filled = real.copy()
    filled.loc[:49, "crp"] = "1.00"
    errors = [imputation_errors(*pair, observed) for pair in ((real, filled), (plain, plain.assign(
        crp=pd.to_numeric(filled["crp"].replace({"<0.50": 0.5, "> 90": 90})))))]  # fmt: skip
    assert errors[0]["kind"].tolist() == ["continuous", "continuous", "categorical"]
    assert np.allclose(errors[0]["error"][1], errors[1]["error"][1], atol=1e-9)
    scores = draw_scores(real, [filled, filled.assign(crp="2.00")], observed)
    assert scores["kind"][1] == "continuous"
    assert scores["energy_score"][1] > 0
    found = utility(real, test, "crp", models="decision_tree")
    assert set(found["metric"]) == {"rmse", "r2"}
    numeric = real.assign(crp=pd.to_numeric(real["crp"].replace({"<0.50": 0.5, "> 90": 90})))
    assert protocol_errors(real, numeric)["trend_error"] < 1, "a table whose limits were replaced by numbers"


SPELLINGS = ["< 0.5", "<0.5", "<0.5", "<=0.1"]
CELLS = [SPELLINGS[i % 4] if i % 5 == 0 else "" if i % 7 == 0 else f"{i % 37 / 10 + 0.5:.2f}" for i in range(240)]
FILE = "id,crp,sex\n" + "".join(f"{i},{cell},{'fm'[i % 2]}\n" for i, cell in enumerate(CELLS))


def run(capsys: Any, *options: Any) -> tuple[str, str]:
    assert main([str(option) for option in options]) == 0
    output = capsys.readouterr()
    return output.out, output.err


def test_the_command_scores_what_is_written(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("sdmetrics")
    data, saved, drawn = tmp_path / "t.csv", tmp_path / "m", tmp_path / "s.csv"
    data.write_text(FILE)
    run(capsys, "fit", data, "-o", saved, *QUICK, "--drop", "id")
    drawn.write_text(run(capsys, "sample", saved, "-n", 200, "--seed", 1)[0])
    assert "overall" in run(capsys, "evaluate", data, drawn, "--drop", "id")[0]


def test_the_command_keeps_what_is_written(tmp_path: Path, capsys: Any) -> None:
    data, saved = tmp_path / "t.csv", tmp_path / "m"
    data.write_text(FILE)
    _, said = run(capsys, "fit", data, "-o", saved, *QUICK, "--drop", "id")
    assert said.startswith("missdiff: warning: column 'crp' holds '<0.5' in 36 cells, '<=0.1' in 12 cells: limits of ")
    options = re.findall(r"--treat 'crp=\w+'|(?:--missing-values '[^']*' ?)+", said)
    assert len(options) == 3
    for option in options:
        assert run(capsys, "fit", data, "-o", tmp_path / "other", *QUICK, "--drop", "id", *shlex.split(option))[1] == ""
    told, _ = run(capsys, "info", saved)
    assert re.search(rf"crp +continuous +{frames.TEXT}", told)
    assert re.search(r"column +limits\n +crp +<0\.5, <=0\.1|column +limits\n +crp +<=0\.1, <0\.5", told)
    written, _ = run(capsys, "impute", saved, data, "--keep", "id")
    before, after = (text.splitlines() for text in (FILE, written))
    assert len(before) == len(after)
    filled = []
    for old, new in zip(before, after, strict=True):
        if ",," in old:
            filled.append(new.split(",")[1])
        else:
            assert old == new
    assert len(filled) == 28
    assert all(re.fullmatch(r"<0\.5|<=0\.1|\d\.\d\d", text) for text in filled)
    rows, _ = run(capsys, "sample", saved, "-n", 200, "--seed", 1)
    cells = [line.split(",")[0] for line in rows.splitlines()[1:]]
    assert all(re.fullmatch(r"<0\.5|<=0\.1|\d\.\d\d", text) for text in cells)
    rows, _ = run(capsys, "sample", saved, "-n", 2, "--given", "crp=<0.5")
    assert [line.split(",")[0] for line in rows.splitlines()] == ["crp", "<0.5", "<0.5"]
    rows, _ = run(capsys, "sample", saved, "-n", 1, "--given", "crp=2.5")
    assert rows.splitlines()[1].split(",")[0] == "2.50"
    assert main(["sample", str(saved), "-n", "2", "--given", "crp=low"]) == 2
    assert "'low' is no number (column 'crp')" in capsys.readouterr().err


def test_a_part_of_the_table_without_limits(tmp_path: Path, capsys: Any) -> None:
    data, saved, part = tmp_path / "t.csv", tmp_path / "m", tmp_path / "part.csv"
    data.write_text(FILE)
    run(capsys, "fit", data, "-o", saved, *QUICK, "--drop", "id", "--treat", "crp=continuous")
    part.write_text("crp,sex\n1.20,f\n,m\n2.50,f\n")
    written, said = run(capsys, "impute", saved, part)
    assert said == ""
    assert re.fullmatch(r"crp,sex\n1\.20,f\n(<0\.5|<=0\.1|\d\.\d\d),m\n2\.50,f\n", written)


def test_a_file_with_a_decimal_comma(tmp_path: Path, capsys: Any) -> None:
    data, saved = tmp_path / "t.csv", tmp_path / "m"
    text = FILE.replace(",", ";").replace(".", ",")
    data.write_text(text)
    _, said = run(capsys, "fit", data, "-o", saved, *QUICK, "--drop", "id")
    assert "column 'crp' holds '<0,5' in 36 cells, '<=0,1' in 12 cells" in said
    written, _ = run(capsys, "impute", saved, data, "--keep", "id")
    pairs = list(zip(text.splitlines(), written.splitlines(), strict=True))
    assert all(old == new for old, new in pairs if ";;" not in old)
    assert all(re.fullmatch(r"\d+;(<0,5|<=0,1|\d,\d\d);[fm]", new) for old, new in pairs if ";;" in old)
    rows, _ = run(capsys, "sample", saved, "-n", 20)
    assert all(re.match(r"(<0,5|<=0,1|\d,\d\d);", line) for line in rows.splitlines()[1:])
    rows, _ = run(capsys, "sample", saved, "-n", 20, "--plain")
    assert all(re.match(r"(<0\.5|<=0\.1|\d\.\d\d),", line) for line in rows.splitlines()[1:])  # as other numbers
    for mark in (".", ","):
        for given in (f"crp=<0{mark}5", f'crp in "<0{mark}5"', f"crp=<0{mark}5..<0{mark}5"):
            rows, _ = run(capsys, "sample", saved, "-n", 2, "--given", given)
            assert [line.partition(";")[0] for line in rows.splitlines()] == ["crp", "<0,5", "<0,5"]
    data.write_text("x;crp\n" + "".join(f"{i % 9},5;{'<1.000' if i % 9 == 0 else f'1.{100 + i}'}\n" for i in range(90)))
    with pytest.warns(DataWarning, match="'<1.000' in 10 cells"):
        frame = read_table(data, decimal=",")
    assert MissDiff().plan(frame).columns[1].treatment != "continuous", "the point separates thousands"


def test_other_texts_are_named_alone(tmp_path: Path, capsys: Any) -> None:
    data, saved = tmp_path / "t.csv", tmp_path / "m"
    data.write_text(FILE.replace("\n3,0.80", "\n3,§"))
    _, said = run(capsys, "fit", data, "-o", saved, *QUICK, "--drop", "id")
    assert "holds '§' in 1 cell of column 'crp'" in said
    assert "'<0.5'" not in said
    _, said = run(capsys, "fit", data, "-o", saved, *QUICK, "--drop", "id", "--missing-values", "§")
    assert "column 'crp' holds '<0.5'" in said
    data.write_text(FILE.replace("\n3,0.80", "\n3,?"))
    _, said = run(capsys, "fit", data, "-o", saved, *QUICK, "--drop", "id")
    assert "'?' in 1 cell of column 'crp', among numbers or dates, was read as missing" in said
    assert "column 'crp' holds '<0.5'" in said

"""Tables that cannot be compared: refused by the measures, with the column and the remedy, and never scored."""

from __future__ import annotations

import datetime
import re

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sdmetrics")
pytest.importorskip("sklearn")

from missdiff_fast.evaluate import (
    detection,
    draw_errors,
    expected_coverage,
    fidelity,
    fill_mean_mode,
    imputation,
    precision_recall,
    report,
    utility,
)

TABLE = pd.DataFrame({"x": np.arange(40.0), "flag": [True, False] * 20, "y": ["no"] * 20 + ["yes"] * 20})
OBSERVED = np.arange(40)[:, None] > [3, 3, 3]
DAYS = pd.date_range("2024-01-01", periods=40)


def words(error: Exception) -> list[str]:
    """The text of an error, whatever the tables are called and whichever comes first."""
    return sorted(re.sub(r"the \w+ table", "a table", str(error)).replace(";", "").split())


def measured(other: pd.DataFrame, table: pd.DataFrame = TABLE) -> None:
    """Compare a table with another by each measure, which must refuse it."""
    with pytest.raises((TypeError, ValueError)) as refusal:
        fidelity(table, other)
    for measure in (
        lambda: utility(other, table, "y", models="decision_tree"),
        lambda: detection(table, other),
        lambda: precision_recall(table, other),
        lambda: report(table, other),
        lambda: imputation(table, other, OBSERVED),
    ):
        with pytest.raises(refusal.type) as found:
            measure()  # type: ignore[no-untyped-call]
        assert words(found.value) == words(refusal.value)
    raise refusal.value


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            TABLE.to_numpy(),
            "the synthetic table must be a pandas or polars DataFrame or a pyarrow Table, got ndarray",
        ),
        (None, "the synthetic table must be a pandas or polars DataFrame or a pyarrow Table, got NoneType"),
        (pd.concat([TABLE, TABLE["x"]], axis=1), "column 'x' is in the synthetic table more than once"),
        (TABLE.assign(x=[np.inf, *range(39)]), "column 'x' of the synthetic table has infinite cells; replace them"),
        (TABLE.assign(x=[-1.5e308, 1.5e308] * 20), "column 'x' of the synthetic table has a range beyond float64"),
        (TABLE.assign(x=1j), "column 'x' of the synthetic table has complex numbers; make them real"),
        (TABLE.assign(x=DAYS), "column 'x' holds numbers in the real table and dates in the synthetic"),
        (
            TABLE.assign(flag=TABLE["flag"].astype(str)),
            r"column 'flag' holds False \(bool\) in the real table and 'False' ",
        ),
        (
            TABLE.assign(flag=[["a"]] * 40),
            "column 'flag' of the synthetic table has cells such as a list, which are no",
        ),
    ],
)
def test_by_all_measures(other: pd.DataFrame, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        measured(other)


def test_dates_are_no_durations() -> None:
    with pytest.raises(ValueError, match="column 'x' holds dates in the real table and durations in the synthetic"):
        measured(TABLE.assign(x=DAYS - DAYS[0]), TABLE.assign(x=DAYS))


def test_categories_of_numbers_and_texts_that_look_like_them() -> None:
    numbers = TABLE.assign(flag=pd.Categorical([1, 2] * 20))
    with pytest.raises(ValueError, match=r"column 'flag' holds 1 \(int\) in the real table and '1' \(str\)"):
        measured(TABLE.assign(flag=["1", "2"] * 20), numbers)
    with pytest.raises(ValueError, match=r"column 'x' holds 0.0 \(float\) in the true table and '0' \(str\)"):
        imputation(TABLE, TABLE.assign(x=[str(i) for i in range(40)]), OBSERVED, continuous=[])


def test_tables_without_rows_or_columns() -> None:
    with pytest.raises(ValueError, match="the synthetic table has no rows"):
        fidelity(TABLE, TABLE[:0])
    with pytest.raises(ValueError, match="the real table has no columns"):
        fidelity(TABLE[[]], TABLE[[]])
    with pytest.raises(ValueError, match="the true table has no rows"):
        imputation(TABLE[:0], TABLE[:0], OBSERVED[:0])


def test_no_category_in_common_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="column 'y': no category of the synthetic table is one of the real table"):
        fidelity(TABLE, TABLE.assign(y=["0", "1"] * 20))


def test_dates_of_python_are_dates() -> None:
    python, pandas = TABLE.assign(day=DAYS.date), TABLE.assign(day=DAYS)
    found = [fidelity(table, table[5:35]).to_numpy() for table in (python, pandas)]
    assert found[0] == pytest.approx(found[1])
    moved = python.assign(day=[day + datetime.timedelta(days=1) for day in python["day"]])
    assert imputation(python, moved, np.ones((40, 4), dtype=bool) & ([True] * 3 + [False]))[
        "rmse"
    ].item() == pytest.approx(1 / 39)


class TestUtility:
    def test_classes_that_have_nothing_in_common(self) -> None:
        message = (
            "column 'y' has no class that is both in the train table, such as '0', and in the test table, such as 'no'"
        )
        with pytest.raises(ValueError, match=message):
            utility(TABLE.assign(y=["0", "1"] * 20), TABLE, "y")
        with pytest.raises(
            ValueError, match=r"column 'y' holds .*\(int\) in the train table and '0' \(str\) in the test"
        ):
            utility(TABLE.assign(y=[0, 1] * 20), TABLE.assign(y=["0", "1"] * 20), "y")
        with pytest.raises(ValueError, match="column 'x' holds categories in the train table and numbers in the test"):
            utility(TABLE.assign(x=TABLE["y"]), TABLE, "x")

    def test_numbers_that_models_cannot_hold(self) -> None:
        message = r"column 'x' of the test table has the value 1e\+300, out of all proportion to the range from 0 to 39"
        with pytest.raises(ValueError, match=message):
            utility(TABLE, TABLE.assign(x=[*range(39), 1e300]), "y")
        with pytest.raises(ValueError, match=r"column 'x' of the train table has values up to 3.9e\+31.*rescale it"):
            utility(TABLE.assign(x=TABLE["x"] * 1e30), TABLE.assign(x=TABLE["x"] * 1e30), "x")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"target": ["y"]}, r"no column named \['y'\] to predict"),
            ({"max_rows": 2.5}, "max_rows must be an integer, got 2.5"),
            ({"n_jobs": 0}, "n_jobs must be 1 or more, or -1"),
            ({"n_jobs": 1.5}, "n_jobs must be an integer, got 1.5"),
            ({"models": 3}, "models must be a name or a list of names, got 3"),
            ({"continuous": "x"}, r"continuous must be a list such as \['x'\], not the string 'x'"),
        ],
    )
    def test_arguments(self, arguments: dict[str, object], message: str) -> None:
        with pytest.raises((TypeError, ValueError), match=message):
            utility(TABLE, TABLE, **({"target": "y"} | arguments))  # type: ignore[arg-type]


class TestImputation:
    def test_rows_in_another_order(self) -> None:
        with pytest.raises(ValueError, match=r"rows in another order; give it filled.loc\[truth.index\]"):
            imputation(TABLE, TABLE[::-1], OBSERVED)
        assert imputation(TABLE, TABLE.set_axis(range(7, 47)), OBSERVED)["rmse"].item() == 0  # names of no meaning

    def test_masks(self) -> None:
        for mask in (OBSERVED.astype(str), np.where(OBSERVED, 1.0, np.nan), None):
            with pytest.raises(TypeError, match="observed must be an array of True and False"):
                imputation(TABLE, TABLE, mask)  # type: ignore[arg-type]
        hidden = pd.DataFrame(OBSERVED | [True, True, False], columns=list(TABLE))
        filled = TABLE.assign(y="yes")
        for mask in (hidden, hidden.astype(int), hidden[["y", "x", "flag"]], hidden.to_numpy()):
            assert imputation(TABLE, filled, mask)["category_error"].item() == 100

    def test_infinite_fillings(self) -> None:
        with pytest.raises(ValueError, match="column 'x' of the filled table has infinite cells"):
            imputation(TABLE, TABLE.assign(x=np.inf), OBSERVED)
        with pytest.raises(ValueError, match="column 'x' of the given table has infinite cells"):
            fill_mean_mode(TABLE.assign(x=np.inf))
        with pytest.raises(
            TypeError, match="the given table must be a pandas or polars DataFrame or a pyarrow Table, got list"
        ):
            fill_mean_mode([1])  # type: ignore[arg-type]

    def test_draws(self) -> None:
        with pytest.raises(ValueError, match="draws must be a list of at least 2 tables"):
            draw_errors(TABLE, iter([TABLE, TABLE]), OBSERVED)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="level must be a number"):
            draw_errors(TABLE, [TABLE, TABLE], OBSERVED, level="90%")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="num_draws must be an integer"):
            expected_coverage(2.5)  # type: ignore[arg-type]

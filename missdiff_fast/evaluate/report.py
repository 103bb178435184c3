"""All measures of synthetic rows in one table, and that table as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from missdiff_fast._checks import check_boolean
from missdiff_fast._frames import Frame, all_to_pandas
from missdiff_fast.evaluate._tables import check_same_columns
from missdiff_fast.evaluate.detection import detection as detect
from missdiff_fast.evaluate.fidelity import Fidelity, fidelity_details
from missdiff_fast.evaluate.precision_recall import precision_recall as recall
from missdiff_fast.evaluate.utility import utility

if TYPE_CHECKING:
    from collections.abc import Sequence

    from missdiff_fast.evaluate._models import Grid

_WORST = 5  # columns, and pairs of them
_ALIKE = 0.005  # per cent
_WORST_TITLES = {
    "worst_columns": "Worst columns (their shapes, per cent)",
    "worst_pairs": "Worst pairs of columns (their trends, per cent)",
}
_TITLES = {
    "detection": "Detection of synthetic rows (auroc: 0.5 is best; logistic_score: 1)",
    "precision_recall": "Synthetic rows among the real ones (shares; beta_recall of other real rows: about 0.5)",
}


def report(
    real: Frame,
    synthetic: Frame,
    *,
    test: Frame | None = None,
    target: str | None = None,
    continuous: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    grid: Grid = "small",
    random_state: int = 0,
    n_jobs: int = 1,
    detection: bool = False,
    precision_recall: bool = False,
) -> pd.DataFrame:
    """Score synthetic rows by `fidelity`, if asked for by other measures and, given test rows and a target, `utility`.

    Parameters
    ----------
    real : DataFrame
        The rows that `synthetic` was made from, with or without holes. The complete ones among them choose the grid
        points of `utility`; without any, or any of a second class, models have their libraries' defaults.
    synthetic : DataFrame
        Complete rows with the same columns.
    test, target
        Complete real rows that the maker of `synthetic` has not seen, and the column to predict.
    continuous, models, grid, random_state, n_jobs
        As of `utility`; `continuous` and `random_state` go to the other measures too.
    detection, precision_recall : bool
        Whether to add the measures of these names, which take seconds for 16,000 rows of 15 columns.

    Returns
    -------
    DataFrame
        A row for each figure: ``measure`` ("fidelity" in per cent, "detection", "precision_recall" or "utility"),
        ``model`` (of utility, otherwise ""), ``metric``, ``value``, ``parameters`` (likewise).

    Raises
    ------
    ImportError, ValueError
        As of the measures, and for only one of `test` and `target`.

    Examples
    --------
    >>> table = pd.DataFrame({"x": range(100), "y": ["a"] * 50 + ["b"] * 50})
    >>> found = report(table, table, test=table, target="y", models=["decision_tree"])
    >>> found[["measure", "metric", "value"]].values.tolist()[4:7]
    [['fidelity', 'trends_all_pairs', 100.0], ['utility', 'accuracy', 1.0], ['utility', 'binary_f1', 1.0]]
    """
    return report_details(
        real,
        synthetic,
        test=test,
        target=target,
        continuous=continuous,
        models=models,
        grid=grid,
        random_state=random_state,
        n_jobs=n_jobs,
        detection=detection,
        precision_recall=precision_recall,
    )[0]


def report_details(
    real: Frame,
    synthetic: Frame,
    *,
    test: Frame | None = None,
    target: str | None = None,
    continuous: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    grid: Grid = "small",
    random_state: int = 0,
    n_jobs: int = 1,
    detection: bool = False,
    precision_recall: bool = False,
) -> tuple[pd.DataFrame, Fidelity]:
    """The table of `report`, and the scores of each column and each pair of columns; arguments are those of `report`.

    Examples
    --------
    >>> table = pd.DataFrame({"x": range(100), "y": ["a"] * 50 + ["b"] * 50})
    >>> report_details(table, table.assign(y="a"))[1].columns.values.tolist()
    [['y', 50.0], ['x', 100.0]]
    """
    if (test is None) != (target is None):
        raise ValueError("utility needs both test and target: rows to test on, and the column to predict")
    for name, value in (("detection", detection), ("precision_recall", precision_recall)):
        check_boolean(name, value)
    real, synthetic, test = all_to_pandas(real, synthetic, test)
    check_same_columns(real, synthetic, ("real", "synthetic"))
    useful = pd.DataFrame(columns=["model", "metric", "value", "parameters"])
    if test is not None and target is not None:
        complete = real.dropna()
        enough = len(complete) == len(real) or (target in complete and complete[target].nunique() > 1)
        useful = utility(  # first, because it refuses more
            synthetic,
            test,
            target,
            real_train=complete if enough else None,
            models=models,
            continuous=continuous,
            random_state=random_state,
            grid=grid,
            n_jobs=n_jobs,
        )
    details = fidelity_details(real, synthetic, continuous)
    alike = details.scores.T.reset_index().set_axis(["metric", "value"], axis=1)
    parts = [alike.assign(measure="fidelity", model="", parameters="")]
    for name, asked, measure in (("detection", detection, detect), ("precision_recall", precision_recall, recall)):
        if asked:
            scores = measure(real, synthetic, continuous=continuous, random_state=random_state)
            rows = pd.DataFrame(scores.items(), columns=["metric", "value"])
            parts.append(rows.assign(measure=name, model="", parameters=""))
    parts.append(useful.assign(measure="utility"))
    columns = ["measure", "model", "metric", "value", "parameters"]
    return pd.concat([part[columns] for part in parts if len(part)], ignore_index=True), details


def worst(details: Fidelity) -> dict[str, pd.DataFrame]:
    """The worst columns and pairs of columns, five of each at most, without those that are alike to two decimals.

    Examples
    --------
    >>> table = pd.DataFrame({"x": range(100), "y": ["a"] * 50 + ["b"] * 50})
    >>> worst(report_details(table, table.assign(y="a"))[1])["worst_columns"].values.tolist()
    [['y', 50.0]]
    """
    found = {"worst_columns": details.columns, "worst_pairs": details.pairs}
    return {name: table[table["score"] < 100 - _ALIKE].head(_WORST) for name, table in found.items()}


def format_report(found: pd.DataFrame, details: Fidelity | None = None) -> str:
    """Format the table of `report` as text, with the worst columns and pairs if details are given.

    Examples
    --------
    >>> table = pd.DataFrame({"x": range(100), "y": ["a"] * 50 + ["b"] * 50})
    >>> print(format_report(report(table, table)))
    Fidelity (per cent; 100: alike)
      overall                  100.00
      shapes                   100.00
      trends                   100.00
      overall_all_pairs        100.00
      trends_all_pairs         100.00
    """
    alike = found[found["measure"] == "fidelity"]
    lines = ["Fidelity (per cent; 100: alike)"]
    lines += [f"  {name:20}{value:>11.2f}" for name, value in zip(alike["metric"], alike["value"], strict=True)]
    for kind, table in ({} if details is None else worst(details)).items():
        names = [", ".join(map(str, row[:-1])) for row in table.itertuples(index=False, name=None)]
        lines += ["", _WORST_TITLES[kind]] * (len(names) > 0)
        width = max([20, *map(len, names)])
        lines += [f"  {name:{width}}{score:>11.2f}" for name, score in zip(names, table["score"], strict=True)]
    for measure, title in _TITLES.items():
        scores = found[found["measure"] == measure]
        lines += ["", title] * (len(scores) > 0)
        lines += [f"  {name:20}{value:>11.4f}" for name, value in zip(scores["metric"], scores["value"], strict=True)]
    useful = found[found["measure"] == "utility"]
    if len(useful):
        metrics = list(useful["metric"].unique())
        table = useful.pivot(index="model", columns="metric", values="value")
        lines += ["", "Utility (learnt from synthetic rows, tested on real ones)"]
        lines.append(" " * 22 + "".join(f"{name:>13}" for name in metrics))
        for model in useful["model"].unique():
            lines.append(f"  {model:20}" + "".join(f"{table.at[model, name]:>13.4g}" for name in metrics))
        if "weighted_f1" in metrics:
            lines.append("  weighted_f1 weights each class by the share of the others, as the paper does")
    return "\n".join(lines)

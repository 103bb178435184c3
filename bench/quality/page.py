"""The page of the runs: means by table and method, ranks, plots, and what did not run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import store

from missdiff_fast.table.atomic import write_atomically
from quality import census, plots
from quality.measure import LEVELS

OURS = "missdiff_fast"
# A measure's name on the page, its digits, and whether more is better.
IMPUTATION = {
    "rmse": ("RMSE of filled numbers, share of the column's range", 4, False),
    "category_error": ("wrong categories, %", 2, False),
    "energy": ("energy score of draws, mean over columns", 4, False),
}
ROWS = {
    "overall": ("fidelity, pairs that depend on one another", 2, True),
    "overall_all_pairs": ("fidelity, all pairs", 2, True),
    "auroc": ("AUROC of XGBoost on real test rows", 4, True),
}
COVERAGE = {f"coverage_{level}": (f"coverage of {level} % intervals and sets", 3, True) for level in LEVELS}
_RUN = ["mechanism", "ratio", "seed"]


def write(runs: pd.DataFrame, skipped: Mapping[str, str], folder: Path, name: str) -> None:
    """Write NAME.md into a folder, and its plots as NAME-imputation.png and NAME-coverage.png."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = labelled(runs)
    good = runs[runs["error"].isna()]
    drawn = plots.write(good, folder, name) if len(good) else []
    text = "\n\n".join(_sections(runs, good, skipped, drawn)) + "\n"
    with write_atomically(folder / f"{name}.md") as new:
        new.write_text(text, encoding="utf-8")


def save(runs: pd.DataFrame, skipped: Mapping[str, str]) -> None:
    """Store the runs and the page in bench/results."""
    runs.to_csv(store.RESULTS / "tables_quality.csv", index=False)
    write(runs, skipped, store.RESULTS, "tables_quality")


def labelled(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with a column ``label``: the table, its training rows, and the ratio and ``quick`` where they tell."""
    several = runs["ratio"].nunique() > 1
    labels = []
    for row in runs.itertuples():
        parts = [f"{row.rows:,} rows", *([f"{row.ratio:g} hidden"] if several else [])]
        labels.append(f"{row.table} ({', '.join([*parts, *(['quick'] if row.quick else [])])})")
    return runs.assign(label=labels)


def means(runs: pd.DataFrame, measure: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Means over mechanisms and seeds, a row for each table, a column for each method; and which are of fewer runs.

    The second table is True where a method has not all the runs that another has of that table: such a mean is shown,
    and takes no part in a ranking.
    """
    known = runs[runs[measure].notna()]
    order = [method for method in dict.fromkeys(runs["method"]) if method in set(known["method"])]
    found = known.pivot_table(index="label", columns="method", values=measure, sort=False).reindex(columns=order)
    counts = known.pivot_table(index="label", columns="method", values=measure, aggfunc="count", sort=False)
    counts = counts.reindex(columns=order)
    return found, counts.lt(counts.max(axis=1), axis=0)


def ranks(runs: pd.DataFrame, measure: str, *, more_is_better: bool) -> pd.DataFrame:
    """1 for the best method of each table; NaN for one without all runs."""
    found, fewer = means(runs, measure)
    return found.mask(fewer).rank(axis=1, method="min", ascending=not more_is_better)


def behind(runs: pd.DataFrame) -> list[str]:
    """A line for each table and measure of imputation in which two methods or more are better than ours."""
    lines = []
    for measure, (name, digits, more) in IMPUTATION.items():
        found, places = means(runs, measure)[0], ranks(runs, measure, more_is_better=more)
        if OURS not in places:
            continue
        for label in places.index[places[OURS] > 2]:
            better = places.loc[label].dropna().sort_values()
            better = better[better < places.at[label, OURS]]
            who = ", ".join(f"{method} {found.at[label, method]:.{digits}f}" for method in better.index)
            ours = found.at[label, OURS]
            lines.append(f"{label}, {name}: place {places.at[label, OURS]:.0f} with {ours:.{digits}f}; {who}")
    return lines


def _sections(
    runs: pd.DataFrame, good: pd.DataFrame, skipped: Mapping[str, str], drawn: Iterable[Path]
) -> Iterable[str]:
    yield "# Quality on many tables"
    yield (
        "Written by `python bench/quality`. Means over mechanisms and seeds; the best of a table is bold. A star marks "
        "a mean of fewer runs than another method has of that table, which is not ranked."
    )
    if len(good):
        yield from _figures(good, drawn)
    failed = runs[runs["error"].notna()]
    if len(failed):
        yield "## Failed"
        yield _list(
            f"{row.label}, {row.mechanism}, seed {row.seed}, {row.method}: {row.error}" for row in failed.itertuples()
        )
    if skipped:
        yield "## Not run"
        yield _list(f"{name}: {reason}" for name, reason in skipped.items())
    if len(runs):
        yield "## Made on"
        yield _list(f"{line}." for line in census.machines(runs))


def _figures(good: pd.DataFrame, drawn: Iterable[Path]) -> Iterable[str]:
    yield _tables(good)
    yield "## Imputation"
    yield (
        "Cells that were hidden. The energy score is in standard deviations for numbers, and a share for categories; a "
        "method that fills only once is scored as draws without spread."
    )
    for path in drawn:
        yield f"![{path.stem}]({path.name})"
    yield from _measures(good, IMPUTATION)
    if (good["method"] == OURS).any() and good["method"].nunique() > 1:
        yield f"### Where {OURS} is neither first nor second"
        yield _list(behind(good)) or "Nowhere."
    yield "## Coverage of draws"
    yield from _measures(good, COVERAGE, best=False)
    yield "## Rows"
    yield "Synthetic rows of methods that write them; the filled table of the others."
    yield from _measures(good, ROWS)
    yield "## By mechanism"
    by = good.groupby(["label", "mechanism", "method"], sort=False)[[*IMPUTATION, "overall"]].mean().reset_index()
    yield store.markdown(by)
    yield "## Seconds"
    yield "Of all steps; of methods that draw, with the draws."
    total = good.assign(seconds=good[["fit_s", "sample_s", "impute_s", "draw_s"]].sum(axis=1))
    yield from _measures(total, {"seconds": ("seconds", 1, False)}, best=False)


def _tables(good: pd.DataFrame) -> str:
    rows = []
    for label, part in good.groupby("label", sort=False):
        runs = part[_RUN].drop_duplicates()
        rows.append([str(label), f"{part['columns'].iloc[0]:.0f}", f"{100 * part['missing'].iloc[0]:.1f} %"])
        rows[-1] += [", ".join(dict.fromkeys(runs["mechanism"])), ", ".join(map(str, sorted(set(runs["seed"]))))]
    return store.markdown_table(["table", "columns", "missing before", "mechanisms", "seeds"], rows)


def _measures(good: pd.DataFrame, measures: Mapping[str, tuple[str, int, bool]], *, best: bool = True) -> Iterable[str]:
    for measure, (name, digits, more) in measures.items():
        found, fewer = means(good, measure)
        if not len(found):
            continue
        first = found.mask(fewer).rank(axis=1, method="min", ascending=not more).eq(1) if best else fewer & False
        rows = []
        for label in found.index:
            cells = [
                _cell(found.at[label, m], digits, bool(first.at[label, m]), bool(fewer.at[label, m])) for m in found
            ]
            rows.append([str(label), *cells])
        yield f"### {name[0].upper()}{name[1:]}"
        yield store.markdown_table(["table", *map(str, found.columns)], rows)


def _cell(value: float, digits: int, first: bool, fewer: bool) -> str:
    if np.isnan(value):
        return "-"
    text = f"{value:.{digits}f}" + ("\\*" if fewer else "")
    return f"**{text}**" if first else text


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)

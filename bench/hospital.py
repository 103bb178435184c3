"""Marginals and correlations of the default model's rows on two hospital tables, most of whose holes are real.

    python bench/hospital.py FOLDER [--tables physionet2019 diabetes130] [--rows 60000] [--seeds 0 1 2] [--effort best]
        [--save]

FOLDER is searched for setB_part_hourly.psv.gz, the hourly records of the PhysioNet/CinC Challenge 2019 put under one
another, pipe-separated, with a column ``patient``, and for diabetic_data.csv.gz, Diabetes 130-US Hospitals. There is no
complete table to compare with, so synthetic rows are held against the observed values of the training rows. Complete
rows also differ because they have values for those who were not measured; rows with holes differ by the model's error:

- numbers by the Kolmogorov-Smirnov distance of each column's marginal, and by the correlation of each pair over the
  rows that hold both, 200 at least. Columns observed in fewer than 200 rows are left out of the worst one: 131 values
  and a large sample of the same law differ by 0.075 on average;
- categories by the total variation distance of each column's marginal, and by the greatest difference of one category's
  share.

The same is measured of other real rows in place of synthetic ones: all that are no training rows, with their holes.
``--save`` writes bench/results/hospital_quality.{csv,md}, with another effort hospital_quality_EFFORT.{csv,md}.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import ks_2samp
from script import Steps, begin, keep, show
from store import describe, markdown

from missdiff_fast import MissDiff
from missdiff_fast.table.io import read_table

_MIN_ROWS = 200
# File, options of `read_table`, and columns to leave out.
_TABLES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "physionet2019": ("setB_part_hourly.psv.gz", {}, ["patient"]),
    "diabetes130": ("diabetic_data.csv.gz", {"missing_values": ["?"]}, ["encounter_id", "patient_nbr"]),
}


def measure(real: pd.DataFrame, other: pd.DataFrame) -> dict[str, object]:
    """Distances of marginals and of correlations between a table with holes and other rows."""
    numbers = [c for c in real.columns if pd.api.types.is_numeric_dtype(real[c]) and real[c].nunique() > 2]
    distance = {c: float(ks_2samp(real[c].dropna(), other[c].dropna()).statistic) for c in numbers}
    worst = max((c for c in numbers if real[c].count() >= _MIN_ROWS), key=distance.__getitem__)
    categories = {c: _shares(real[c], other[c]) for c in real.columns if c not in numbers}
    variation = {c: float((one - two).abs().sum()) / 2 for c, (one, two) in categories.items()}
    share = {c: float((one - two).abs().max()) for c, (one, two) in categories.items()}
    most, greatest = (max(found, key=found.__getitem__) for found in (variation, share))
    want, got = (rows[numbers].corr(min_periods=_MIN_ROWS).to_numpy() for rows in (real, other))
    pairs = np.abs(want - got)[np.triu_indices(len(numbers), 1)]
    return {
        "mean_ks": float(np.mean(list(distance.values()))),
        "worst_ks": distance[worst],
        "worst_number": worst,
        "mean_variation": float(np.mean(list(variation.values()))),
        "worst_variation": variation[most],
        "worst_category": most,
        "worst_share_difference": share[greatest],
        "worst_share": greatest,
        "mean_correlation_difference": float(np.nanmean(pairs)),
        "pairs": int(np.isfinite(pairs).sum()),
    }


def _shares(real: pd.Series, other: pd.Series) -> tuple[pd.Series, pd.Series]:
    """The share of each category of either column among the observed cells of both."""
    shares = [column.dropna().astype(str).value_counts(normalize=True) for column in (real, other)]
    one, two = shares[0].align(shares[1], fill_value=0.0)
    return one, two


def run(name: str, folder: Path, rows: int, seeds: list[int], effort: str) -> tuple[str, list[dict[str, object]]]:
    """The table's size in words, and its measures: those of other real rows, and for each seed those of drawn ones."""
    file, options, dropped = _TABLES[name]
    found_at = sorted(folder.rglob(file))
    if not found_at:
        raise FileNotFoundError(f"no file {file} in {folder}")
    table = read_table(found_at[0], **options).drop(columns=dropped)
    # At least two fifths of the rows are left to compare with.
    chosen = table.sample(min(rows, 3 * len(table) // 5), random_state=0).index
    real = table.loc[chosen].reset_index(drop=True)
    unseen = [c for c in real.columns if real[c].isna().all()]
    real = real.drop(columns=unseen)
    size = f"{name}: {len(real)} rows, {real.shape[1]} columns, {real.isna().to_numpy().mean():.1%} of cells missing"
    size += f"; never observed and left out: {', '.join(unseen)}." if unseen else "."
    found = [{"table": name, "rows": "other real rows", **measure(real, table.drop(index=chosen)[real.columns])}]
    show(found[-1])
    for seed in seeds:
        steps = Steps()
        model = steps.take("fit", MissDiff(random_state=seed, effort=effort).fit, real)
        synthetic = steps.take("sample", model.sample, len(real))
        found.append({"table": name, "rows": f"seed {seed}", **measure(real, synthetic), **steps.seconds()})
        show(found[-1])
        incomplete = model.sample(len(real), missing=True)
        found.append({"table": name, "rows": f"seed {seed}, with holes", **measure(real, incomplete)})
        show(found[-1])
    return size, found


def main() -> None:
    """Run what the command line asks for, and print it."""
    options = begin(__doc__, "folder", tables=[*_TABLES], rows=60_000, seeds=[0, 1, 2], effort="default")
    sizes, rows = [], []
    for name in options.tables:
        size, found = run(name, options.folder, options.rows, options.seeds, options.effort)
        print(size)
        sizes.append(size)
        rows += found
    if options.save:
        result = pd.DataFrame(rows)
        stem = "hospital_quality" + ("" if options.effort == "default" else f"_{options.effort}")
        keep(stem, result, describe(options.facts), *sizes, markdown(result))


if __name__ == "__main__":
    main()

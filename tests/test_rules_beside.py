"""Rules beside structural holes, relations and limits of measurement, which drawn rows keep too."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast.errors import DataWarning

ROWS = 400


def fit(table: pd.DataFrame, rules: list[str]) -> MissDiff:
    """A small model of a table, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return MissDiff(steps=3, refine=0, random_state=0, rules=rules).fit(table)


def patients(rows: int = ROWS) -> pd.DataFrame:
    """Patients of whom a third are dead, with the days until then; ``y`` follows from ``x``, and ``z`` from x and w."""
    random = np.random.default_rng(0)
    dead = random.random(rows) < 0.35
    table = pd.DataFrame(
        {
            "dead": np.where(dead, "yes", "no"),
            "days": np.where(dead, random.integers(60, 200, rows), np.nan),
            "x": random.integers(1, 60, rows).astype(float),
            "w": random.integers(1, 9, rows).astype(float),
        }
    )
    return table.assign(y=2 * table["x"] + 1, z=table["x"] * table["w"] + table["x"])


class TestStructuralHoles:
    def test_rules_of_a_column_with_holes_do_not_fill_them(self) -> None:
        model = fit(patients(), ["z = x * w + x", "days >= 0"])
        assert model.structural_["column"].tolist() == ["days"]
        assert len(model.relations_)
        rows = model.sample(300, random_state=1)
        assert (rows["days"].isna() == (rows["dead"] == "no")).all()
        assert 0.1 < (rows["dead"] == "yes").mean() < 0.9
        assert (rows["z"] == rows["x"] * rows["w"] + rows["x"]).all()

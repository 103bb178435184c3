"""Each public call reads each column of the frame that it is given once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast.baselines import DiffDelete, DiffMean, MeanModeImputer, STaSy, delete_incomplete
from missdiff_fast.table import reading, table_cells

FRAME = pd.DataFrame(
    {
        "x": [1.0, 2.0, None, 4.0] * 8,
        "kind": pd.Categorical(["a", "a", "b", None] * 8),
        "text": ["1", "?", "20", "31"] * 8,
        "same": 7,
    }
)
ONCE = dict.fromkeys(FRAME.columns, 1)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each column was read, by name."""
    found: Counter[str] = Counter()

    def counted(series: pd.Series, *arguments: object, **options: object) -> object:
        found[series.name] += 1
        return reading.read_cells(series, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(table_cells, "read_cells", counted)
    return found


@pytest.fixture(scope="module")
def model() -> MissDiff:
    return MissDiff(steps=2, refine=0, random_state=0, missing_values=["?"]).fit(FRAME)


def test_fit(reads: Counter[str]) -> None:
    MissDiff(steps=2, refine=0, random_state=0, missing_values=["?"]).fit(FRAME)
    assert reads == ONCE


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.sample(given=FRAME),
        lambda model: model.impute(FRAME),
        lambda model: model.impute_draws(FRAME, num_draws=3),
        lambda model: model.predict_proba(FRAME, "kind"),
        lambda model: model.score_samples(FRAME, num_draws=2),
    ],
    ids=["sample", "impute", "impute_draws", "predict_proba", "score_samples"],
)
def test_fitted(model: MissDiff, call: Callable[[MissDiff], object], reads: Counter[str]) -> None:
    call(model)
    assert reads == ONCE


def test_given_values_and_none(model: MissDiff, reads: Counter[str]) -> None:
    model.sample(3, given={"kind": "b", "x": 1.0})
    assert reads == {"kind": 1, "x": 1}
    model.sample(3)
    assert reads == {"kind": 1, "x": 1}


def test_imputers(reads: Counter[str]) -> None:
    imputer = MeanModeImputer(missing_values=["?"]).fit(FRAME)
    assert reads == ONCE
    reads.clear()
    filled = imputer.impute(FRAME)
    assert reads == ONCE
    reads.clear()
    pd.testing.assert_frame_equal(MeanModeImputer(missing_values=["?"]).fit_impute(FRAME), filled)
    assert reads == ONCE


def test_deletion(reads: Counter[str]) -> None:
    assert len(delete_incomplete(FRAME, ["?"])) == 8
    assert reads == ONCE


@pytest.mark.parametrize(("complete", "times"), [("delete", 1), ("mean", 2)])
def test_stasy_reads_the_completed_table_once_too(complete: str, times: int, reads: Counter[str]) -> None:
    frame = FRAME.assign(x=np.where(FRAME["x"] == 1, np.arange(32.0), FRAME["x"]))
    model = STaSy(complete, epochs=1, finetune_epochs=0, hidden=(4,), missing_values=["?"], random_state=0)  # type: ignore[arg-type]
    model.fit(frame)
    assert reads == dict.fromkeys(FRAME.columns, times)


@pytest.mark.parametrize("kind", [DiffDelete, DiffMean])
def test_completed_tables_are_a_second_frame(kind: type, reads: Counter[str]) -> None:
    frame = FRAME.assign(x=np.where(FRAME["x"] == 1, np.arange(32.0), FRAME["x"]))
    kind(preset="default", steps=2, refine=0, missing_values=["?"], random_state=0).fit(frame)
    assert reads == dict.fromkeys(FRAME.columns, 2)

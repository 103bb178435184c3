"""Errors about columns carry the columns, the value and a remedy; the messages are held where the behaviour is."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from frames import encode, fill, fit_codec

from missdiff_fast.errors import Structured
from missdiff_fast.evaluate import fidelity, fill_mean_mode, imputation, utility
from missdiff_fast.table.given import given_frame, in_learnt_dtypes
from missdiff_fast.table.schema import Schema

FRAME = pd.DataFrame(
    {
        "n": pd.Series([1, 2, 3, 4], dtype="int8"),
        "day": [datetime.date(2024, 1, d) for d in (1, 2, 3, 4)],
        "k": ["u", "v", "u", None],
        "same": "north",
    }
)
CODEC = fit_codec(FRAME)
TRUTH = pd.DataFrame({"x": [1.0, 2.0, 3.0], "k": ["u", "v", "u"]})
OBSERVED = np.array([[False, True], [True, True], [True, True]])


def given(column: str, value: object) -> object:
    schema = Schema(tuple(entry for entry in CODEC.schema if entry.name == column))
    return in_learnt_dtypes(pd.DataFrame({column: pd.Series([value], dtype=object)}), schema)


@pytest.mark.parametrize(
    ("call", "columns", "value"),
    [
        (lambda: encode(CODEC, FRAME.assign(k=["u", "w", None, "z"])), ("k",), "w"),
        (lambda: CODEC.category_values("n"), ("n",), None),
        (lambda: CODEC.category_values("no such"), ("no such",), None),
        (lambda: CODEC.check_constants(CODEC.read(FRAME.assign(same="south"))), ("same",), "south"),
        (lambda: given_frame(2, {"n": 1, "height": 180}, list(FRAME)), ("height",), None),
        (lambda: given_frame(2, {"n": 10**400}, list(FRAME)), ("n",), 10**400),
        (lambda: given("n", 300), ("n",), 300),
        (lambda: given("n", 1.5), ("n",), 1.5),
        (lambda: given("day", datetime.datetime(2024, 1, 2, 3)), ("day",), datetime.datetime(2024, 1, 2, 3)),
        (lambda: fill(CODEC, FRAME, FRAME.drop(columns="k")), ("k",), None),
        (lambda: fill(CODEC, FRAME, FRAME[:2]), (), 2),
        (lambda: fill_mean_mode(TRUTH.assign(x=np.nan)), ("x",), None),
        (lambda: imputation(TRUTH, TRUTH.assign(x=[np.nan, 2.0, 3.0]), OBSERVED), ("x",), None),
        (lambda: imputation(TRUTH, TRUTH[::-1], OBSERVED), (), None),
        (lambda: fidelity(TRUTH, TRUTH, continuous=["z"]), ("z",), None),
        (lambda: fidelity(TRUTH, TRUTH, continuous=["k"]), ("k",), None),
        (lambda: utility(TRUTH, TRUTH, "z"), (), "z"),
        (lambda: utility(TRUTH, TRUTH, "k", task="regression"), ("k",), None),
        (lambda: utility(TRUTH, TRUTH, "k", positive="w"), ("k",), "w"),
        (lambda: utility(TRUTH, TRUTH, "k", log_target=True), ("k",), None),
        (lambda: utility(TRUTH[["k"]], TRUTH[["k"]], "k"), ("k",), None),
    ],
)
def test_errors_carry_their_parts(call: Callable[[], object], columns: tuple[str, ...], value: object) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    error = caught.value
    assert isinstance(error, Structured), error
    assert error.columns == columns
    assert error.value == value
    assert error.remedy
    assert all(str(remedy) in str(error) for remedy in error.remedy)

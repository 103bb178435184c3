"""Conditional means come back in range and as fine as the observed values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from frames import encode, fit_codec


def means(values: object, standardised: list[float]) -> pd.Series:
    codec = fit_codec(pd.DataFrame({"x": values}))
    assert codec.schema["x"].kind == "continuous"
    z = torch.tensor(standardised, dtype=torch.float64)[:, None]
    return codec.decode_means(z, torch.zeros(len(z), 0, dtype=torch.int16))["x"]


WIDE = [-99.0, -1.0, -0.3, 0.0, 0.123, 1.0, 99.0]


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        ([1.0, 2.0, 5.0], 0),
        ([1.5, 2.0, 5.0], 1),
        ([1.25, 19.99, 5.0], 2),
        ([0.001, 0.25, 100.0], 3),
        ([0.123456, 0.25, 1.0], 6),
        (np.array([0.1, 0.2, 0.7], dtype=np.float32), 1),
        (pd.array([0.1, 0.2, 0.75], dtype="Float32"), 2),
    ],
)
def test_decimals(values: list[float], decimals: int) -> None:
    got = means(values, WIDE)
    assert (got.astype("float64").round(decimals).astype(got.dtype) == got).all()
    assert got.iloc[0] == min(values)
    assert got.iloc[-1] == max(values)
    assert got.nunique() > 3
    coarse = got.astype("float64").round(max(decimals - 1, 0))
    assert decimals == 0 or (coarse != got.astype("float64")).any()


def test_more_decimals_are_left() -> None:
    values = [0.12345678, 0.5, 1.0]
    got = means(values, [0.25])
    assert float(got[0]) == pytest.approx(np.mean(values) + 0.25 * np.std(values), rel=1e-12)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "Int32", "object"])
def test_integers_are_whole(dtype: str) -> None:
    got = means(pd.Series([3, 10, 4, 100], dtype=dtype), WIDE)
    assert got.dtype == dtype
    assert got.iloc[0] == 3
    assert got.iloc[-1] == 100
    assert all(int(v) == v for v in got)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([-(2**63), 0, 2**63 - 1], "int64"),
        ([0, 2**63, 2**64 - 1], "uint64"),
        ([2**64 - 3, 2**64 - 2, 2**64 - 1], "uint64"),
        ([2**62, 2**62 + 1, 2**62 + 5], "int64"),
        ([-(2**53) - 1, 0, 2**53 + 1], "int64"),
    ],
)
def test_large_integers(values: list[int], dtype: str) -> None:
    frame = pd.DataFrame({"x": pd.Series(values, dtype=dtype)})
    codec = fit_codec(frame)
    got = codec.decode_means(encode(codec, frame).values.double(), torch.zeros(3, 0, dtype=torch.int16))["x"]
    spread = max(values) - min(values)
    for found, value in zip(got.tolist(), values, strict=True):
        assert abs(found - value) <= spread * 1e-6
        assert min(values) <= found <= max(values)
    low, high = means(pd.Series(values, dtype=dtype), [-9.0, 9.0])
    assert (low, high) == (min(values), max(values))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(
    ("times", "step"),
    [
        (["2020-01-01", "2020-03-01", "1950-02-11"], "D"),
        (["2020-01-01 05:00", "2020-03-01", "1950-02-11"], "h"),
        (["2020-01-01 05:31", "2020-03-01", "1950-02-11"], "min"),
        (["2020-01-01 05:31:07", "2020-03-01", "1950-02-11"], "s"),
    ],
)
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_dates_and_times(times: list[str], step: str, unit: str, zone: str | None) -> None:
    index = pd.to_datetime(pd.Index(times), format="ISO8601").as_unit(unit).tz_localize(zone)
    got = means(index, WIDE)
    assert got.dtype == index.dtype
    assert got.iloc[0] == index.min()
    assert got.iloc[-1] == index.max()
    local = got.dt.tz_localize(None)
    assert (local.dt.floor(step) == local).all()
    finer = {"h": "D", "min": "h", "s": "min"}.get(step)
    assert finer is None or (local.dt.floor(finer) != local).any()


@pytest.mark.parametrize(("fraction", "step"), [("123", 10**6), ("123456", 10**3), ("123456789", 1)])
def test_fractions_of_a_second(fraction: str, step: int) -> None:
    index = pd.DatetimeIndex(["2020-01-01", f"2020-01-01 00:00:00.{fraction}", "2020-01-02"])
    got = means(index, [0.1, 0.7])
    nanoseconds = got.dt.as_unit("ns").astype("int64")
    assert (nanoseconds % step == 0).all()
    assert step == 1 or (nanoseconds % (step * 1000) != 0).any()


def test_nanoseconds_stay_exact_far_from_the_epoch() -> None:
    index = pd.DatetimeIndex(np.array([0, 1, 5], dtype="M8[ns]") + np.timedelta64(2**62, "ns"))
    frame = pd.DataFrame({"x": index})
    codec = fit_codec(frame)
    got = codec.decode_means(encode(codec, frame).values, torch.zeros(3, 0, dtype=torch.int16))
    pd.testing.assert_frame_equal(got, frame)


def test_timedeltas_and_objects() -> None:
    got = means(pd.to_timedelta(["1h", "5h", "-3h"]), WIDE)
    assert (got.dt.total_seconds() % 3600 == 0).all()
    days = pd.Series(pd.date_range("2020-01-01", periods=4)).dt.date
    assert all(value in set(days) for value in means(days, WIDE))


def test_a_local_midnight_that_does_not_exist_is_moved() -> None:
    days = pd.DatetimeIndex(["2018-11-01", "2018-11-03", "2018-11-05", "2018-11-07"]).tz_localize("America/Sao_Paulo")
    codec = fit_codec(pd.DataFrame({"x": days}))
    got = codec.decode_means(torch.zeros(1, 1), torch.zeros(1, 0, dtype=torch.int16))["x"]
    assert got.tolist() == [pd.Timestamp("2018-11-04 01:00", tz="America/Sao_Paulo")]


def test_huge_and_tiny_floats() -> None:
    for scale in (1e300, 1e-300):
        values = np.array([1.0, 2.0, 4.0]) * scale
        frame = pd.DataFrame({"x": values})
        codec = fit_codec(frame)
        got = codec.decode_means(encode(codec, frame).values, torch.zeros(3, 0, dtype=torch.int16))["x"]
        np.testing.assert_allclose(got, values, rtol=1e-6)

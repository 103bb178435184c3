"""Continuous and categorical columns on their own."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from frames import check_constants, encode, fit_codec, through

from missdiff_fast.table.columns import MAX_VALUES, increasing, normal_quantile


def test_normal_quantile() -> None:
    u = np.concatenate([np.logspace(-12, -0.3, 50), 1 - np.logspace(-12, -0.4, 50), [0.5]])
    np.testing.assert_allclose(normal_quantile(u), scipy.stats.norm.ppf(u), rtol=1e-9, atol=1e-12)


def test_increasing_raises_by_the_least_steps() -> None:
    values = np.array([-1.0, -1.0, -1.0, -0.0, 0.0, 0.0, 1e-45, 2.0, 2.0], dtype=np.float32)
    raised = increasing(values)
    assert (np.diff(raised) > 0).all()
    assert (raised >= values).all()
    assert raised[1] == np.nextafter(np.float32(-1), np.float32(0))
    assert raised[-1] == np.nextafter(np.float32(2), np.float32(3))
    assert increasing(np.array([-2.5, 0.5], dtype=np.float32)).tolist() == [-2.5, 0.5]
    assert len(increasing(np.empty(0, dtype=np.float32))) == 0


def test_many_zeros_survive() -> None:
    rng = np.random.default_rng(0)
    gain = np.where(rng.random(20_000) < 0.91, 0, rng.integers(1, 100_000, 20_000))
    codec = fit_codec(pd.DataFrame({"gain": gain}))
    scores = encode(codec, pd.DataFrame({"gain": gain}), seed=1).continuous[:, 0]
    assert scipy.stats.kstest(scores.numpy(), "norm").statistic < 0.01
    normal = torch.randn(20_000, 1, generator=torch.Generator().manual_seed(0))
    drawn = through(
        codec, type(encode(codec, pd.DataFrame({"gain": gain})))(normal, torch.zeros(20_000, 0).short(), codec.layout)
    )
    assert (drawn["gain"] == 0).mean() == pytest.approx((gain == 0).mean(), abs=0.01)
    assert drawn["gain"].isin(gain).all()


def test_more_values_than_are_kept() -> None:
    values = np.random.default_rng(0).normal(size=70_000)
    frame = pd.DataFrame({"x": values})
    codec = fit_codec(frame)
    kept = codec._coders["x"].keys
    assert MAX_VALUES - 10 <= len(kept) <= MAX_VALUES
    assert np.isin(kept, values).all()
    assert kept[0] == values.min()
    assert kept[-1] == values.max()
    place = np.searchsorted(np.sort(values), through(codec, encode(codec, frame, seed=0))["x"])
    assert np.abs(place - values.argsort().argsort()).max() <= 2, "a dropped value comes back as a neighbour"
    means = codec.decode_means(encode(codec, frame).values, torch.zeros(70_000, 0, dtype=torch.int16))
    np.testing.assert_allclose(means["x"], values, atol=1e-6)


def test_kept_values_are_as_frequent_as_observed() -> None:
    values = np.concatenate([np.full(30_000, 0.5), np.random.default_rng(0).normal(size=70_000)])
    coder = fit_codec(pd.DataFrame({"x": values}))._coders["x"]
    assert len(coder.keys) <= MAX_VALUES
    shares = np.diff(coder.cumulative, prepend=0)
    assert shares[np.searchsorted(coder.keys, 0.5)] == pytest.approx(0.3, abs=1e-4)
    assert (np.delete(shares, np.searchsorted(coder.keys, 0.5)) < 1e-4).all()
    assert coder.cumulative[-1] == 1


@pytest.mark.parametrize("seed", [None, 0])
def test_extremes_are_kept_off_infinity(seed: int | None) -> None:
    frame = pd.DataFrame({"x": np.arange(1000.0)})
    scores = encode(fit_codec(frame), frame, seed=seed).continuous
    edge = float(normal_quantile(np.array([1 - 0.5 / 1000]))[0])
    assert float(scores.abs().max()) <= edge * (1 + 1e-6)
    far = encode(fit_codec(frame), pd.DataFrame({"x": [-1e9, 1e9]}), seed=seed).continuous
    assert far[:, 0].tolist() == pytest.approx([-edge, edge])


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e290, 1e299])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_beyond_float32_are_as_far_out_as_it_reaches(scale: float, dtype: str) -> None:
    if dtype == "float32" and scale != 1.0:
        scale = 1e37 if scale > 1 else 1e-37
    frame = pd.DataFrame({"x": np.array([-2.0, 0.1234567, 1.0, 3.0]) * scale, "n": [1, 2, 3, 4]}).astype({"x": dtype})
    far = pd.DataFrame({"x": [-1.7e308, 1.7e308, np.nan], "n": [1e300, -1e300, 2.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        codec = fit_codec(frame)
        codec.decode_means(encode(codec, frame).values * 1e9, torch.zeros(4, 0, dtype=torch.int16))
        table = encode(codec, far)
    assert torch.isfinite(table.values[:2]).all()
    assert torch.isnan(table.values[2, 0])
    assert (table.values[:2].sign() == torch.tensor([[-1, 1], [1, -1]])).all()
    assert torch.isfinite(table.continuous[:2]).all()


@pytest.mark.parametrize("dtype", ["int64", "UInt64"])
@pytest.mark.parametrize("given", ["int64", "uint64", "float64", "Int64"])
def test_large_integers_of_other_dtypes_are_told_apart(dtype: str, given: str) -> None:
    known = pd.Series([2**53 + 1, 2**53 + 2, 2**53 + 4, 5], dtype=dtype)
    codec = fit_codec(pd.DataFrame({"k": known, "x": known}), categorical_columns=["k"])
    frame = pd.DataFrame({"k": pd.Series([5, 2**53 + 4], dtype=given), "x": pd.Series([2**53, 2**53 + 2], dtype=given)})
    table = encode(codec, frame)
    assert table.codes[:, 0].tolist() == [0, 3]
    between, exact = table.continuous[:, 0].tolist()
    starts = codec.boundaries.tolist()
    assert between == pytest.approx(starts[0])
    assert starts[1] <= exact < starts[2]
    with pytest.raises(ValueError, match="column 'k' holds 9007199254740992"):
        encode(codec, frame.assign(k=frame["x"]))


def test_a_large_constant_is_told_from_its_neighbours() -> None:
    frame = pd.DataFrame({"c": pd.Series([2**53 + 1] * 4, dtype="uint64"), "x": [1.0, 2.0, 3.0, 4.0]})
    codec = fit_codec(frame)
    check_constants(codec, pd.DataFrame({"c": [2**53 + 1]}))
    with pytest.raises(ValueError, match="9007199254740992 cannot be given"):
        check_constants(codec, pd.DataFrame({"c": [2**53]}))
